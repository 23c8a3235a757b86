"""What a run says about itself."""

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from tests.fakes.plans import PLAIN, PLAN, told
from untildone.domain.agents.agent import AgentText, AgentTool
from untildone.domain.checks.terms import Terms
from untildone.domain.run import fact as f
from untildone.domain.run.plan import Done
from untildone.domain.run.run import Choice, Origin, Run, Status
from untildone.domain.run.run_commands import UNKNOWN, is_checked, run_commands


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


def test_every_command_that_a_run_executes_and_where_it_is_written() -> None:
    plan = replace(
        PLAN,
        agent="command",
        agent_cmd="agent",
        usage_cmd="usage",
        verify=("warn: a", "off: b", "c"),
        story_verify=("3=d", "3=e"),
        terms=(Terms("2", "Two", checks=("f",), at="tasks.md:4"),),
        lanes=2,
        lane_setup="npm ci",
        notify=("terminal", "cmd:g"),
        origins={"agent_cmd": "--agent-cmd", "verify": "--verify", "c": "verify auto"},
    )
    assert [to_builtins(command) for command in run_commands(plan)] == [
        {"command": command, "what": what, "origin": origin, "story_id": story}
        for command, what, origin, story in (
            ("agent", "agent", "--agent-cmd", ""),
            ("usage", "usage", UNKNOWN, ""),
            ("npm ci", "set-up of a lane", UNKNOWN, ""),
            ("g", "notification", UNKNOWN, ""),
            ("warn: a", "check", "--verify", ""),
            ("c", "check", "verify auto", ""),
            ("f", "check", "tasks.md:4", "2"),
            ("d", "check", UNKNOWN, "3"),
            ("e", "check", UNKNOWN, "3"),
        )
    ]
    assert is_checked(plan)
    alone = run_commands(replace(plan, lanes=1)) + run_commands(replace(plan, lane_setup="auto"))
    assert "set-up of a lane" not in {command.what for command in alone}
    assert not is_checked(replace(PLAIN, verify=("c",), done=Done.MANUAL))
