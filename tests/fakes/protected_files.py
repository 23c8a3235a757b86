"""Protected files that are found changed when a test wants it."""

from collections.abc import Sequence

from untildone.domain.checks.protection import Violation
from untildone.domain.checks.runner_settings import RunnerSetting


class FakeProtectedFiles:
    """`found` is what each look finds, in order; nothing after that."""

    def __init__(self, *found: tuple[Violation, ...]) -> None:
        self._found = list(found)
        self.noted: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
        self.looks = 0
        self.settings: tuple[RunnerSetting, ...] = ()

    def note(
        self,
        checkpoint: str,
        patterns: Sequence[str],
        files: Sequence[str],
        settings: Sequence[RunnerSetting] = (),
    ) -> None:
        self.noted.append((checkpoint, tuple(patterns), tuple(files)))
        self.settings = tuple(settings)

    def violations(self) -> tuple[Violation, ...]:
        self.looks += 1
        return self._found.pop(0) if self._found else ()
