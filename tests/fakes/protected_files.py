"""Protected files that are found changed when a test wants it."""

from collections.abc import Sequence

from untildone.domain.checks.protection import Violation


class FakeProtectedFiles:
    """`found` is what each look finds, in order; nothing after that."""

    def __init__(self, *found: tuple[Violation, ...]) -> None:
        self._found = list(found)
        self.noted: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
        self.looks = 0

    def note(self, checkpoint: str, patterns: Sequence[str], files: Sequence[str]) -> None:
        self.noted.append((checkpoint, tuple(patterns), tuple(files)))

    def violations(self) -> tuple[Violation, ...]:
        self.looks += 1
        return self._found.pop(0) if self._found else ()
