"""What a run says about itself."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import told
from untildone.domain.agents.agent import AgentText, AgentTool
from untildone.domain.run import fact as f
from untildone.domain.run.run import Choice, Origin, Run, Status


def test_where_a_start_was() -> None:
    commit = "c" * 40
    assert Origin("feature/x", commit).head == "refs/heads/feature/x"
    assert Origin("", commit).head == commit


def carried_out(choice: Choice, status: Status) -> Run:
    return replace(told(f.ChoiceMade(choice), f.Closed(choice)), status=status)


@pytest.mark.parametrize(
    ("run", "resumable"),
    [
        (told(), True),
        (carried_out(Choice.KEEP, Status.STUCK), True),
        (carried_out(Choice.KEEP, Status.DONE), False),
        (carried_out(Choice.CLEANUP, Status.STUCK), False),
        (told(f.Abandoned("restored")), False),
    ],
    ids=["open", "stuck and kept", "done and kept", "cleaned up", "given up"],
)
def test_whether_resume_could_go_on(run: Run, resumable: bool) -> None:
    assert run.resumable is resumable


def test_tool_calls_are_the_same_if_they_are_shown_the_same() -> None:
    call = AgentTool("Bash", "ls", "a1")
    assert call == AgentTool("Bash", "ls", "b2")
    assert hash(call) == hash(AgentTool("Bash", "ls", "b2"))
    assert call != AgentTool("Bash", "ls -l", "a1")
    assert call != AgentText("Bash")
