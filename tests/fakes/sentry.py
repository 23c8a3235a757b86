"""A sentry that sees what a test lets it see, and a room for checks."""

from collections.abc import Sequence

from untildone.domain.checks.protection import Violation


class FakeSentry:
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


class FakeRoom:
    """Remembers what was checked out in it."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def make(self, tree: str, parent: str) -> str:
        self.calls.append((tree, parent))
        return "room"

    def remove(self) -> None:
        self.calls.append("removed")
