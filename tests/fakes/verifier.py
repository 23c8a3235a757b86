"""Checks whose results are listed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from untildone.domain.checks.checks import Checked

if TYPE_CHECKING:
    from untildone.domain.checks.counted_tests import Counts


class FakeVerifier:
    """`results` maps a command to why it fails, maybe its exit code; what is not listed passes."""

    def __init__(
        self, results: dict[str, list[str]] | None = None, during: Callable[[], None] = lambda: None
    ) -> None:
        self._results = results or {}
        self._during = during
        self.interrupted = False
        self.tests: list[Counts | None] = []  # that each run counts
        self.reported: list[Counts | None] = []  # by a file of its runner
        self.folders: list[str] = []
        self.calls: list[tuple[str, float]] = []

    def run(self, command: str, timeout_s: float, folder: str = "") -> Checked:
        self.calls.append((command, timeout_s))
        self.folders.append(folder)
        self._during()
        listed = self._results.get(command)
        reason = listed.pop(0) if listed else ""
        how = reason if reason.startswith("exit code") else "exit code 1" if reason else ""
        tests = self.tests.pop(0) if self.tests else None
        reported = self.reported.pop(0) if self.reported else None
        return Checked(reason, how, reason, self.interrupted, tests, reported)
