"""S004: the state file, the done criterion, abnormal ends, tokens and the window title."""

# ruff: noqa: N802 - the ids of the requirement rows are part of the names
from __future__ import annotations

import datetime as dt
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import jsonschema.validators
import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, failed, fails
from tests.e2e.change import TASKS
from tests.e2e.state_poller import Poller
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json, Terminal

pytestmark = pytest.mark.e2e

STATUSES = {"starting", "running", "done", "stuck", "stalled", "stopped"}

REQUIRED: dict[str, type | tuple[type, ...]] = {
    "change_id": str,
    "status": str,
    "current_iteration": int,
    "max_iterations": int,
    "started_at": str,
    "task": str,
    "iterations": list,
    "done_criteria": str,
    "stall_threshold": int,
    "iteration_timeout_min": (int, float),
    "total_tokens": int,
}
ENTRY: dict[str, type | tuple[type, ...]] = {
    "n": int,
    "started": str,
    "ended": str,
    "done_check": bool,
    "commits": list,
    "tokens_used": int,
}
OUTCOMES = {
    "complete",
    "failed",
    "no_promise",
    "timeout",
    "idle_timeout",
    "verify_failed",
    "agent_error",
    "interrupted",
}
WARNING = "No tasks.md found, using manual done criteria"
SLEEPER: Actions = [
    ["write", "half.txt", "half\n"],
    ["commit", "half way"],
    ["child", "plain"],
    ["child", "stubborn"],
    ["say", "sleeping"],
    ["sleep", 600],
]
SIGNALS = [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]


def moment(text: str) -> dt.datetime:
    """An ISO 8601 time with a zone."""
    value = dt.datetime.fromisoformat(text)
    assert value.tzinfo is not None, text
    return value


def check_state(state: Json, schema: Json) -> None:
    """The published schema and the rows of S004-R1."""
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    validator(schema).validate(state)
    for name, kind in REQUIRED.items():
        assert isinstance(state[name], kind), (name, state[name])
        assert not isinstance(state[name], bool), name
    assert state["status"] in STATUSES
    moment(state["started_at"])
    entries = state["iterations"]
    assert [entry["n"] for entry in entries] == list(range(1, len(entries) + 1))
    for entry in entries:
        for name, kind in ENTRY.items():
            assert isinstance(entry[name], kind), (name, entry)
        assert moment(entry["started"]) <= moment(entry["ended"])
        assert entry.get("timed_out", True) is True
        assert entry.get("tokens_estimated", True) is True
        assert entry["outcome"] in OUTCOMES
        assert all(len(commit) == 40 for commit in entry["commits"])


def schema_of(bench: Bench) -> Json:
    """The schema that the command publishes."""
    schema: Json = bench.run("status", "--schema").ok().json()
    assert set(REQUIRED) <= set(schema["required"])
    return schema


def test_S004_R1_state_file_is_valid_json_at_every_instant(bench: Bench) -> None:
    bench.plan({2: fails(), 4: [["append", "README.md", "x"], ["say", "off"]]})
    with Poller(bench.state_path()) as poller:
        bench.loop().ok()
    assert poller.errors == []
    assert poller.versions
    counts = [len(state["iterations"]) for state in poller.versions]
    assert counts == sorted(counts)
    assert counts[-1] == 5
    leftovers = {p.name for p in bench.state_path().parent.iterdir() if "tmp" in p.name}
    assert leftovers == set()


TERMINALS = {
    "at the question": [],
    "in an iteration": [],
    "with events": ["--json"],
    "quiet": ["--quiet"],
}


@pytest.mark.parametrize("name", TERMINALS)
def test_S004_R3_a_terminal_that_is_closed_is_a_hang_up(bench: Bench, name: str) -> None:
    asked = name == "at the question"
    bench.only_stories(1)
    bench.plan({}, default=DONE if asked else SLEEPER)
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent, *TERMINALS[name])
    if asked:
        until(lambda: (s := bench.state_path()).exists() and "awaiting_choice" in s.read_text())
    else:
        bench.wait_call(1)
    terminal.hang_up()
    assert terminal.wait() == 129
    assert bench.state()["status"] == ("done" if asked else "stopped")


def test_S004_R1_unknown_fields_survive(bench: Bench) -> None:
    bench.plan({}, default=fails())
    bench.loop("--max-retries", "0").ok(3)
    state = bench.state() | {"x_other_tool": {"keep": ["me"]}}
    bench.state_path().write_text(json.dumps(state))
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    assert bench.state()["x_other_tool"] == {"keep": ["me"]}


def test_S004_R1_S1_state_file_is_in_the_worktree_before_the_first_call(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    state = bench.calls()[0].loop_state
    assert (state["change_id"], state["status"], state["iterations"]) == ("demo", "running", [])
    assert (state["current_iteration"], state["story_id"]) == (1, "1")
    assert state["open_iteration"]["n"] == 1
    assert not (bench.home / ".claude" / "loop-state.json").exists()


def test_S004_R1_S1_started_in_a_sub_folder(bench: Bench) -> None:
    bench.plan()
    bench.loop(cwd=bench.path("src")).ok()
    assert bench.state()["status"] == "done"
    assert not bench.path("src/.claude").exists()
    assert bench.calls()[0].cwd == str(bench.repo)


def test_S004_R1_S1_started_in_a_linked_worktree(bench: Bench) -> None:
    linked = bench.root / "linked"
    bench.git("worktree", "add", "-q", "-b", "feature/y", str(linked))
    before = (bench.branch(), bench.contents(runtime=True), bench.status())
    bench.plan()
    bench.loop(cwd=linked).ok()
    assert bench.state(linked)["status"] == "done"
    assert bench.state(linked)["original_branch"] == "feature/y"
    assert bench.branch(linked) == "ralph/demo"
    assert bench.status(linked) == []
    assert (bench.branch(), bench.contents(runtime=True), bench.status()) == before
    assert [loop["worktree"] for loop in bench.loops()] == [str(linked)]


def test_S004_R1_S2_schema_holds_from_start_to_done(bench: Bench) -> None:
    schema = schema_of(bench)
    bench.plan({2: fails()})
    with Poller(bench.state_path()) as poller:
        bench.loop().ok()
    for state in [*poller.versions, *(call.loop_state for call in bench.calls()), bench.state()]:
        check_state(state, schema)
    state = bench.state()
    assert {name: state[name] for name in REQUIRED if name not in ("started_at", "task")} == {
        "change_id": "demo",
        "status": "done",
        "current_iteration": 4,
        "max_iterations": 12,
        "iterations": state["iterations"],
        "done_criteria": "tasks",
        "stall_threshold": 2,
        "iteration_timeout_min": 45,
        "total_tokens": 0,
    }
    assert [entry["done_check"] for entry in state["iterations"]] == [False, False, False, True]


ENDINGS: dict[str, tuple[Actions, list[str], int]] = {
    "stuck": (fails(), ["--max-retries", "1"], 3),
    "stalled": ([["say", "nothing to do"]], ["--task", "Polish"], 4),
    "stopped": ([["sleep", 600]], [], 143),
}


@pytest.mark.parametrize("status", ENDINGS)
def test_S004_R1_S2_schema_holds_after_every_ending(bench: Bench, status: str) -> None:
    actions, args, code = ENDINGS[status]
    bench.plan({}, default=actions)
    live = bench.begin(*args)
    if status == "stopped":
        bench.wait_call(1)
        live.signal(signal.SIGTERM)
    live.wait().ok(code)
    state = bench.state()
    check_state(state, schema_of(bench))
    assert state["status"] == status
    assert not state.get("open_iteration")


def test_S004_R1_S2_options_are_recorded(bench: Bench) -> None:
    bench.plan()
    args = ["--max-iterations", "7", "--timeout", "1.5", "--stall-threshold", "5"]
    bench.loop(*args).ok()
    state = bench.state()
    names = ("max_iterations", "iteration_timeout_min", "stall_threshold")
    assert [state[name] for name in names] == [7, 1.5, 5]


def test_S004_R1_S3_one_entry_per_completed_iteration(bench: Bench) -> None:
    own = [["write", "own.txt", "own\n"], ["commit", "own"]]
    bench.plan({1: [*own, *DONE], 2: [*own, ["append", "own.txt", "x"], ["say", failed("no")]]})
    bench.loop().ok()
    state = bench.state()
    check_state(state, schema_of(bench))
    assert [len(call.loop_state["iterations"]) for call in bench.calls()] == [0, 1, 2, 3]
    assert [
        (entry["story_id"], entry["attempt"], entry["outcome"]) for entry in state["iterations"]
    ] == [("1", 1, "complete"), ("2", 1, "failed"), ("2", 2, "complete"), ("3", 1, "complete")]
    for entry in state["iterations"]:
        assert [bench.sha(commit) for commit in entry["commits"]] == entry["commits"]
        assert "timed_out" not in entry
        assert "tokens_estimated" not in entry
    first = state["iterations"][0]["commits"]
    assert [bench.git("log", "-1", "--format=%s", c) for c in first] == ["own", "checkpoint: 1"]
    assert state["iterations"][3]["commits"] == [bench.sha("ralph/demo")]


@pytest.mark.parametrize("flag", ["--timeout", "--idle-timeout"])
def test_S004_R1_S3_timed_out_is_marked(bench: Bench, flag: str) -> None:
    bench.only_stories(1)
    bench.plan({1: [["child", "stubborn"], ["ignore_signals"], ["sleep", 600]]})
    bench.loop(flag, "0.02").ok()
    first, second = bench.state()["iterations"]
    assert first["timed_out"] is True
    assert "timed_out" not in second
    assert bench.processes() == []


def test_S004_R2_S1_tasks_is_the_default_with_a_tasks_file_in_the_change(bench: Bench) -> None:
    bench.plan()
    result = bench.loop().ok()
    assert bench.state()["done_criteria"] == "tasks"
    assert WARNING not in result.stderr


def test_S004_R2_S1_tasks_file_in_the_worktree_root_ends_a_plain_loop(bench: Bench) -> None:
    bench.write("tasks.md", "# Tasks\n\n- [ ] 1.1 one\n- [ ] 2.1 two\n")
    bench.commit("root tasks")
    bench.plan(
        {
            1: [["tick", "1", "tasks.md"], ["say", "one"]],
            2: [["tick", "2", "tasks.md"], ["say", "two"]],
        }
    )
    result = bench.loop("polish", "--task", "Polish").ok()
    assert WARNING not in result.stderr
    assert len(bench.calls()) == 2
    state = bench.state()
    assert (state["done_criteria"], state["status"]) == ("tasks", "done")
    assert [entry["done_check"] for entry in state["iterations"]] == [False, True]


def test_S004_R2_S2_without_a_tasks_file_manual_with_a_warning(bench: Bench) -> None:
    # demo has a tasks.md, but it is another change's: it does not count.
    bench.plan({}, default=[["say", "nothing to do"]])
    result = bench.loop("polish", "--task", "Polish").ok(4)
    assert result.stderr.count(WARNING) == 1
    assert bench.state()["done_criteria"] == "manual"


def test_S004_R2_S3_explicit_manual_wins_over_ticked_boxes(bench: Bench) -> None:
    bench.plan({3: [["tick_all"], *DONE]})
    live = bench.begin("--done", "manual")
    until(lambda: (bench.root / "calls" / "3.end").exists())
    until(lambda: bench.state().get("phase") == "awaiting_person", what="awaiting_person")
    assert bench.state()["done_criteria"] == "manual"
    assert bench.state()["status"] == "running"
    assert live.alive()
    bench.run("done", "demo").ok()
    result = live.wait().ok()
    assert WARNING not in result.stderr
    assert bench.state()["status"] == "done"
    assert len(bench.calls()) == 3


def test_S004_R2_S3_explicit_manual_in_a_plain_loop_with_ticked_boxes(bench: Bench) -> None:
    bench.write("tasks.md", "- [x] all\n")
    bench.commit("ticked")
    bench.plan({}, default=[["say", "nothing to do"]])
    bench.loop("polish", "--task", "Polish", "--done", "manual").ok(4)
    assert bench.state()["done_criteria"] == "manual"
    assert len(bench.calls()) == 2


def check_interrupted(bench: Bench) -> None:
    """The record of a run that a signal ended in its first iteration."""
    until(lambda: bench.processes() == [], 2, "the end of the agent's group")
    state = bench.state()
    check_state(state, schema_of(bench))
    (entry,) = state["iterations"]
    assert (state["status"], entry["outcome"]) == ("stopped", "interrupted")
    assert not state.get("open_iteration")
    subjects = [bench.git("log", "-1", "--format=%s", commit) for commit in entry["commits"]]
    assert subjects == ["half way"]
    assert bench.branch() == "ralph/demo"


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=lambda v: str(int(v)))
def test_S004_R3_S1_S2_S3_signal_to_the_loop_alone_is_recorded(
    bench: Bench, number: int, code: int
) -> None:
    bench.plan({}, default=SLEEPER)
    live = bench.begin()
    live.wait_event("agent_text")
    live.signal(number)
    result = live.wait(5).ok(code)
    check_interrupted(bench)
    assert result.outcomes() == ["interrupted"]
    finished = result.one("finished")
    assert (finished["choice"], finished["status"]) == (None, "stopped")
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    entries = bench.state()["iterations"]
    assert [(e["story_id"], e["outcome"]) for e in entries] == [
        ("1", "interrupted"),
        ("1", "complete"),
        ("2", "complete"),
        ("3", "complete"),
    ]
    assert bench.subjects("feature/x..ralph/demo").count("initial state") == 1


def test_S004_R3_S1_interrupted_attempt_uses_up_no_retry(bench: Bench) -> None:
    bench.plan({}, default=SLEEPER)
    live = bench.begin("--max-retries", "0")
    live.wait_event("agent_text")
    live.signal(signal.SIGTERM)
    live.wait(5).ok(143)
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    assert bench.state()["status"] == "done"


def test_S004_R3_S2_ctrl_c_on_a_terminal_reaches_the_whole_group(bench: Bench) -> None:
    bench.plan({}, default=SLEEPER)
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent)
    until(lambda: len(bench.processes()) == 3, what="the agent and its children")
    terminal.type("\x03")
    assert terminal.wait(5) == 130
    check_interrupted(bench)


def test_S004_R3_S2_second_interrupt_corrupts_nothing(bench: Bench) -> None:
    bench.plan({}, default=[["ignore_signals"], *SLEEPER])
    with Poller(bench.state_path()) as poller:
        live = bench.begin()
        live.wait_event("agent_text")
        live.signal(signal.SIGINT)
        time.sleep(0.1)
        if live.alive():
            live.signal(signal.SIGINT)
        live.wait(8).ok(130)
    assert poller.errors == []
    check_interrupted(bench)


def test_S004_R3_S3_kill_9_is_repaired_by_status(bench: Bench) -> None:
    bench.plan({}, default=SLEEPER)
    live = bench.begin()
    live.wait_event("agent_text")
    live.signal(signal.SIGKILL)
    live.wait()
    (loop,) = bench.loops()
    assert (loop["status"], loop["alive"], loop["change_id"]) == ("stopped", False, "demo")
    state = bench.state()
    check_state(state, schema_of(bench))
    (entry,) = state["iterations"]
    assert (state["status"], entry["outcome"]) == ("stopped", "interrupted")
    assert not state.get("open_iteration")
    bench.loops()
    assert bench.state()["iterations"] == [entry]


@pytest.mark.parametrize("command", ["resume", "run"])
def test_S004_R3_S3_kill_9_then_go_on(bench: Bench, command: str) -> None:
    start = bench.sha()
    bench.plan({2: SLEEPER})
    live = bench.begin()
    bench.wait_call(2)
    until(lambda: len(bench.processes()) == 3, what="the agent and its children")
    live.signal(signal.SIGKILL)
    live.wait()
    left_over = bench.calls()[1].pid
    args = [command, "demo", "--json"]
    bench.run(*args, *(["--agent-cmd", bench.agent] if command == "run" else [])).ok()
    assert left_over not in [pid for pid, _ in bench.processes()]
    entries = bench.state()["iterations"]
    assert [(e["n"], e["story_id"], e["outcome"]) for e in entries] == [
        (1, "1", "complete"),
        (2, "2", "interrupted"),
        (3, "2", "complete"),
        (4, "3", "complete"),
    ]
    assert bench.calls()[2].files == bench.calls()[1].files
    assert bench.calls()[2].place == bench.calls()[1].place
    assert bench.subjects(f"{start}..ralph/demo") == [
        "initial state",
        "checkpoint: 1",
        "checkpoint: 2",
        "checkpoint: 3",
    ]
    assert bench.processes() == []


def test_S004_R3_S3_kill_9_while_waiting_for_the_choice(bench: Bench) -> None:
    bench.plan()
    live = bench.begin("--on-complete", "ask")
    live.wait_event("complete")
    live.signal(signal.SIGKILL)
    live.wait()
    (loop,) = bench.loops()
    assert (loop["alive"], len(loop["iterations"])) == (False, 3)
    bench.run("finish", "demo", "keep").ok()
    assert bench.state()["status"] == "done"
    assert len(bench.calls()) == 3


METERS = [
    ("1000", "1750"),
    ('{"total_tokens": 1000}', '{"total_tokens": 1750}'),
    (
        '{"input_tokens": 900, "output_tokens": 100, "total_tokens": 9}',
        '{"input_tokens": 1500, "output_tokens": 250, "total_tokens": 99}',
    ),
]


@pytest.mark.parametrize(("before", "after"), METERS, ids=["bare", "total", "input and output"])
def test_S004_R4_S1_tokens_are_the_difference_of_two_readings(
    bench: Bench, before: str, after: str
) -> None:
    bench.install_usage(before)
    bench.only_stories(1)
    bench.plan({1: [["meter", after], *DONE]})
    result = bench.loop().ok()
    state = bench.state()
    (entry,) = state["iterations"]
    assert (entry["tokens_used"], state["total_tokens"]) == (750, 750)
    assert "tokens_estimated" not in entry
    parts = (600, 150) if "output" in before else (750, 0)
    assert (entry["input_tokens"], entry["output_tokens"]) == parts
    assert result.one("iteration_ended")["tokens_used"] == 750
    for line in (bench.root / "meter.log").read_text().splitlines():
        first, since, *rest = line.split()
        assert (first, rest) == ("--since", ["--format", "json"])
        dt.datetime.fromisoformat(since)


def test_S004_R4_S1_total_is_the_sum_of_all_iterations(bench: Bench) -> None:
    bench.install_usage("1000")
    bench.plan(
        {
            1: [["meter", "1750"], *DONE],
            2: [["meter", "1800"], ["say", failed("no")]],
            3: [["meter", "2000"], *DONE],
            4: [["meter", "2001"], *DONE],
        }
    )
    bench.loop().ok()
    state = bench.state()
    assert [entry["tokens_used"] for entry in state["iterations"]] == [750, 50, 200, 1]
    assert state["total_tokens"] == 1001


@pytest.mark.parametrize("after", ["1000", "400"], ids=["zero", "negative"])
def test_S004_R4_S1_zero_or_negative_is_a_warning_on_stderr(bench: Bench, after: str) -> None:
    bench.install_usage("1000")
    bench.only_stories(1)
    bench.plan({1: [["meter", after], *DONE]})
    result = bench.loop().ok()
    assert "token" in result.stderr.lower()
    assert bench.state()["iterations"][0]["tokens_used"] >= 0
    assert bench.state()["total_tokens"] >= 0


def test_S004_R4_S2_growth_of_the_session_file_is_the_estimate(bench: Bench) -> None:
    # No usable meter, no numbers in the agent's own output: only the growth is left.
    bench.install_claude()
    bench.install_usage("broken", code=1)
    bench.only_stories(1)
    bench.plan(
        {1: [["usage", None], ["session", 4000], ["session", 9000, "foreign"], *DONE]},
    )
    bench.loop("--agent", "claude").ok()
    (entry,) = bench.state()["iterations"]
    assert (entry["tokens_used"], entry.get("tokens_estimated")) == (1000, True)
    assert bench.state()["total_tokens"] == 1000


def test_S004_R4_S2_measured_iterations_lack_the_flag(bench: Bench) -> None:
    bench.install_claude()
    bench.install_usage("broken", code=1)
    bench.only_stories(1)
    bench.plan({1: [["session", 4000], *DONE]})
    bench.loop("--agent", "claude").ok()
    (entry,) = bench.state()["iterations"]
    assert "tokens_estimated" not in entry
    names = ("tokens_used", "input_tokens", "output_tokens", "cache_read_tokens")
    assert [entry[name] for name in (*names, "cache_write_tokens", "cost_usd")] == [
        2490,
        2400,
        90,
        600,
        200,
        0.01252,
    ]
    assert bench.state()["total_cost_usd"] == pytest.approx(0.01252)


def test_S004_R4_S2_foreign_session_growth_alone_is_nothing(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1)
    bench.plan({1: [["usage", None], ["session", 9000, "foreign"], *DONE]})
    bench.loop("--agent", "claude").ok()
    assert bench.state()["iterations"][0]["tokens_used"] == 0


def on_terminal(bench: Bench, *args: str) -> Terminal:
    """A loop on a pty that keeps its branch at the end."""
    return bench.terminal("run", *args, "--agent-cmd", bench.agent, "--on-complete", "keep")


def test_S004_R5_S1_title_at_every_iteration_start(bench: Bench) -> None:
    say: list[Any] = ["say", "I am agent call {n}"]
    bench.plan({2: [say, ["say", failed("no")]]}, default=[say, *DONE])
    terminal = on_terminal(bench, "demo")
    assert terminal.wait() == 0
    assert terminal.titles == [
        "Ralph: demo [1/12]",
        "Ralph: demo [2/12]",
        "Ralph: demo [3/12]",
        "Ralph: demo [4/12]",
        "Ralph: demo [done]",
    ]
    first = terminal.raw.find(b"I am agent call 1")
    assert terminal.raw.find(b"\x1b]0;Ralph: demo [1/12]\x07") < (first if first >= 0 else 1 << 40)


def test_S004_R5_S2_title_when_stuck(bench: Bench) -> None:
    bench.plan({}, default=fails())
    terminal = on_terminal(bench, "demo", "--max-retries", "0")
    assert terminal.wait() == 3
    assert terminal.titles == ["Ralph: demo [1/3]", "Ralph: demo [stuck]"]


def test_S004_R5_S2_title_when_stalled(bench: Bench) -> None:
    bench.plan({}, default=[["say", "nothing"]])
    terminal = on_terminal(bench, "polish", "--task", "Polish")
    assert terminal.wait() == 4
    assert terminal.titles == [
        "Ralph: polish [1/10]",
        "Ralph: polish [2/10]",
        "Ralph: polish [stalled]",
    ]


def test_S004_R5_S2_title_when_stopped(bench: Bench) -> None:
    bench.plan({}, default=[["say", "x"], ["sleep", 600]])
    terminal = on_terminal(bench, "demo")
    bench.wait_call(1)
    os.kill(terminal.process.pid, signal.SIGTERM)
    assert terminal.wait(6) == 143
    assert terminal.titles == ["Ralph: demo [1/12]", "Ralph: demo [stopped]"]


@pytest.mark.parametrize("args", [[], ["--json"]])
def test_S004_R5_no_title_without_a_terminal(bench: Bench, args: list[str]) -> None:
    bench.plan({1: [["say", "\x1b]0;evil\x07" + COMPLETE]]})
    result = bench.run("run", "demo", "--agent-cmd", bench.agent, *args).ok()
    assert "\x1b" not in result.stdout + result.stderr


def test_S004_R5_agent_escape_sequences_never_reach_the_terminal(bench: Bench) -> None:
    evil = "\x1b]0;evil\x07\x1b[2J\x1b]52;c;ZXZpbA==\x07shown"
    bench.plan({}, default=[["say", evil], *DONE])
    terminal = on_terminal(bench, "demo")
    assert terminal.wait() == 0
    assert [title for title in terminal.titles if "evil" in title] == []
    assert b"\x1b]52" not in terminal.raw


def test_S004_R1_S3_tasks_file_is_ticked_at_the_end(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    assert "[ ]" not in bench.read(TASKS)
