"""The same thing over and over."""

import pytest

from untildone.domain.agents.agent import AgentText, AgentTool, Notice
from untildone.domain.agents.repetition import Repetition

LIMIT = 50


def text(said: str) -> AgentText:
    return AgentText(said)


def call(command: str) -> AgentTool:
    return AgentTool("Bash", "a command", f"Bash {command}")


SAME: list[Notice] = [text("A")] * 40
OTHER: Notice = text("B")
TALKS: list[Notice] = [x for n in range(99) for x in (text("A"), call(str(n)))]
WORKS: list[Notice] = [x for n in range(99) for x in (text(str(n)), call("ls"))]
OFTEN: dict[str, tuple[list[Notice], bool]] = {
    "the same line": ([text("Again.")] * 51, True),
    "not often enough": ([text("Again.")] * 50, False),
    "the same line in one message": ([text("Again.\n\n" * 51)], True),
    "two lines in turn": ([text("One."), text("Two.")] * 100, False),
    "another line in between": ([*SAME, OTHER, *SAME], False),
    "the same call": ([call("ls")] * 6, True),
    "the same call a few times": ([call("ls")] * 5, False),
    "the same words and the same call in turn": ([text("Again."), call("ls")] * 6, True),
    "the same words, other calls": (
        [x for n in range(99) for x in (text("A"), call(str(n)))],
        False,
    ),
    "other words, the same call": (WORKS, False),
    "calls that do not say all": ([AgentTool("edit", "a.py")] * 99, False),
}


@pytest.mark.parametrize("name", OFTEN)
def test_once_too_often(name: str) -> None:
    notices, expected = OFTEN[name]
    counted, free = Repetition(LIMIT), Repetition(0)
    assert (True in [counted.heard(notice) for notice in notices]) is expected
    assert True not in [free.heard(notice) for notice in notices]


def test_calls_are_shown_alike_whatever_their_mark() -> None:
    assert call("ls") == call("rm") == AgentTool("Bash", "a command")
    assert len({call("ls"), call("rm")}) == 1
    assert call("ls") != "Bash"


def test_tool_calls_are_equal_by_what_is_shown() -> None:
    one, other = AgentTool("Read", "a.py", mark="1"), AgentTool("Read", "a.py", mark="2")
    assert one == other
    assert not one != other  # noqa: SIM202 - a struct has its own answer to this
    assert AgentTool("Read", "a.py") != AgentTool("Read", "b.py")
    text: object = AgentText("Read")
    assert AgentTool("Read") != text
