"""Events: the public story of a run; every window shows these."""

from collections.abc import Mapping
from typing import assert_never

from msgspec import Struct, field

from untildone.domain.agents.agent import AgentText, AgentTool, Notice


class Event(Struct, frozen=True):
    """One line of the event stream, before it gets its number and time."""

    name: str
    data: Mapping[str, object] = field(default_factory=dict)


def noticed(notice: Notice) -> Event:
    """What the agent says and does while it runs."""
    match notice:
        case AgentText(text):
            return Event("agent_text", {"text": text})
        case AgentTool(tool, detail):
            return Event("agent_tool", {"tool": tool, "detail": detail})
        case _:
            assert_never(notice)


def warning(message: str) -> Event:
    """Something worth knowing that changes nothing."""
    return Event("warning", {"message": message})


def error(message: str, reason: str, hint: str, story_id: str = "", **more: object) -> Event:
    """Something that needs the person; readers rely on these four fields."""
    data = {"message": message, "story_id": story_id, "reason": reason, "hint": hint}
    return Event("error", data | more)
