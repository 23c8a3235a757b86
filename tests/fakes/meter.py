"""A meter that believes the agent."""

from collections.abc import Callable

from untildone.domain.agents.agent import Usage


class FakeMeter:
    """Passes the reported usage on; `during` is what happens while it measures."""

    def __init__(self, *warnings: str, during: Callable[[], None] = lambda: None) -> None:
        self._warnings = list(warnings)
        self._during = during
        self.calls: list[object] = []

    def start(self, agent: str) -> None:
        self.calls.append("start")

    def measure(self, reported: Usage | None, session_id: str) -> tuple[Usage | None, list[str]]:
        self.calls.append((reported, session_id))
        self._during()
        return reported, self._warnings
