"""An agent that answers from a list."""

from collections.abc import Callable

from untildone.domain.agents.agent import (
    AgentReport,
    Ending,
    Intent,
    Reading,
    Session,
    Trouble,
    Usage,
)
from untildone.domain.agents.promise import Promise
from untildone.domain.run.plan import Limits
from untildone.ports import Notify

Reply = AgentReport | Exception | Callable[[Notify], AgentReport]


def said(
    promise: Promise | None = None,
    *,
    error: str = "",
    usage: Usage | None = None,
    limit: Trouble | None = None,
) -> AgentReport:
    """An agent that exits by itself."""
    return AgentReport(Ending.EXITED, 0, Reading(promise, error, usage, limit, Session("session")))


COMPLETE = said(Promise(complete=True))
SILENT = said()
INTERRUPTED = AgentReport(Ending.INTERRUPTED)


def failed(reason: str) -> AgentReport:
    """An agent that gives up."""
    return said(Promise(complete=False, reason=reason))


class FakeAgent:
    """Replies in order; an exception is raised, a function is called with `notify`."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.intents: list[Intent] = []

    @property
    def prompts(self) -> list[str]:
        return [intent.prompt for intent in self.intents]

    def run(self, intent: Intent, limits: Limits, log_file: str, notify: Notify) -> AgentReport:
        self.intents.append(intent)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, AgentReport) else reply(notify)
