"""What the command says: help, version, plain lines, JSON lines, the live view."""

# ruff: noqa: N802 - the ids of the requirement rows are part of the names
from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, failed, fails
from tests.e2e.change import STORIES
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


COMMANDS = [
    "run",
    "status",
    "stop",
    "resume",
    "finish",
    "done",
    "attempts",
    "restore",
    "gc",
    "logs",
    "usage",
    "init",
    "doctor",
    "demo",
    "stories",
]


def test_status_names_a_command_that_can_go_on(bench: Bench) -> None:
    bench.plan(default=fails())
    bench.loop("--max-retries", "0").ok(3)
    assert "next: untildone resume demo" in bench.run("status").ok().stdout
    bench.run("finish", "demo", "cleanup").ok()
    assert "next: untildone run demo" in bench.run("status").ok().stdout


def test_help_names_every_command(bench: Bench) -> None:
    said = bench.run("--help").ok().stdout
    assert [name for name in COMMANDS if not re.search(rf"\b{name}\b", said)] == []


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.installed
def test_every_command_has_help(bench: Bench, command: str) -> None:
    assert command in bench.run(command, "--help").ok().stdout


def test_S000_R1_S7_help_of_run_shows_three_retries(bench: Bench) -> None:
    said = bench.run("run", "--help", env={"COLUMNS": "200"}).ok().stdout
    assert re.search(r"--max-retries\b[^\n]*(\n\s[^\n]*)?\b3\b", said), said
    flags = (
        "--source --agent --agent-cmd --model --max-retries --max-iterations --done"
        " --stall-threshold --timeout --idle-timeout --verify --checkpoint --on-complete"
        " --json --quiet --no-color --task --task-file"
    )
    assert [flag for flag in flags.split() if flag not in said] == []


@pytest.mark.parametrize("command", ["run", "resume"])
def test_help_of_run_begins_with_what_most_people_need(bench: Bench, command: str) -> None:
    said = bench.run(command, "--help").ok().stdout
    sections = dict(re.findall(r"^([A-Z][\w ]*):\n((?:  .*\n)+)", said, re.MULTILINE))
    assert next(iter(sections)) == "Needed most"
    first = re.findall(r"^  --([\w-]+)", sections["Needed most"], re.MULTILINE)
    assert len(first) <= 6
    assert {"agent", "verify", "budget"} <= set(first)
    # A new setting has a section of its own choice.
    assert re.findall(r"--[\w-]+", sections["More"]) == ["--help"]


@pytest.mark.installed
def test_version(bench: Bench) -> None:
    assert re.search(r"\d+\.\d+", bench.run("--version").ok().stdout)


def test_json_is_pure_and_the_sequence_has_no_gap(bench: Bench) -> None:
    bench.plan({2: [["err", "noise"], ["raw", "no newline"], ["say", failed("x")]]})
    events = bench.loop().ok().events
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["v"] for event in events} == {1}
    times = [dt.datetime.fromisoformat(event["at"]) for event in events]
    assert times == sorted(times)
    assert all(moment.tzinfo for moment in times)
    names = [event["event"] for event in events]
    assert names[0] == "run_started"
    assert names[-1] == "finished"
    skeleton = [name for name in names if name not in ("agent_text", "agent_tool", "warning")]
    one = ["iteration_started", "iteration_ended", "checkpoint_saved"]
    assert [n for n in skeleton if n not in ("stories_loaded", "run_started")] == [
        *one,
        "iteration_started",
        "iteration_ended",
        "reverted",
        "retrying",
        *one,
        *one,
        "complete",
        "finished",
    ]
    assert "stories_loaded" in names


def test_quiet_prints_nothing_on_success(bench: Bench) -> None:
    # The agent ticks its own boxes: no warning is due.
    bench.plan({n: [["tick", str(n)], *DONE] for n in (1, 2, 3)})
    result = bench.run("run", "demo", "--quiet", "--agent-cmd", bench.agent).ok()
    assert (result.stdout, result.stderr) == ("", "")


def test_plain_lines_without_a_terminal(bench: Bench) -> None:
    bench.plan({1: fails("wrong colour")})
    said = bench.run("run", "demo", "--agent-cmd", bench.agent).ok()
    assert "\x1b" not in said.stdout + said.stderr
    for word in ("ralph/demo", STORIES[2], "wrong colour"):
        assert word in said.stdout, word


@pytest.mark.parametrize("way", ["variable", "flag"])
def test_no_color_on_a_terminal(bench: Bench, way: str) -> None:
    bench.plan()
    args = ["run", "demo", "--agent-cmd", bench.agent, "--on-complete", "keep"]
    if way == "flag":
        terminal = bench.terminal(*args, "--no-color")
    else:
        terminal = bench.terminal(*args, env={"NO_COLOR": "1"})
    assert terminal.wait() == 0
    colours = re.findall(rb"\x1b\[[0-9;]*m", terminal.raw)
    # Bold and dim are no colours.
    assert [c for c in colours if re.search(rb"\[(\d;)*(3|4|9|10)\d", c)] == []


def test_live_view_on_a_terminal_shows_the_stories(bench: Bench) -> None:
    bench.plan({2: [["say", "thinking hard"], ["wait", bench.gate("go")], *DONE]})
    args = ["run", "demo", "--agent-cmd", bench.agent, "--on-complete", "keep"]
    terminal = bench.terminal(*args)
    bench.wait_call(2)
    terminal.wait_text(STORIES[1])
    until(lambda: all(story in terminal.screen() for story in STORIES), 10, "the story list")
    bench.open_gate("go")
    assert terminal.wait() == 0


SAYS_LITTLE = "the disk is full and nobody has told those who look after it, so nothing was written"


@pytest.mark.parametrize("columns", [60, 80])
def test_the_live_view_breaks_lines_at_words(bench: Bench, columns: int) -> None:
    bench.plan({1: fails(SAYS_LITTLE)}, default=DONE)
    args = ("run", "demo", "--agent-cmd", bench.agent, "--on-complete", "keep")
    terminal = bench.terminal(*args, env={"COLUMNS": str(columns)})
    assert terminal.wait() == 0
    text = terminal.screen()
    assert max(len(row) for row in text.split("\n")) <= columns
    words = " ".join(text.split())
    assert f"✗ iteration 1: the agent gave up, tokens unknown: {SAYS_LITTLE}" in words
    assert "Later: `untildone finish demo cleanup`" in words


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_an_error_on_a_terminal_is_broken_at_words(bench: Bench, columns: int) -> None:
    terminal = bench.terminal("run", "no-such-change-here", env={"COLUMNS": str(columns)})
    assert terminal.wait() == 2
    rows = terminal.raw.decode().replace("\r", "").split("\n")
    assert max(map(len, rows)) <= columns
    whole = bench.run("run", "no-such-change-here").ok(2).stderr
    assert " ".join(" ".join(rows).split()) == " ".join(whole.split())


def test_the_live_view_marks_failure_in_red_and_progress_in_green(bench: Bench) -> None:
    bench.plan({1: fails()}, default=DONE)
    args = ("run", "demo", "--agent-cmd", bench.agent, "--on-complete", "keep")
    terminal = bench.terminal(*args)
    assert terminal.wait() == 0
    raw = terminal.raw.decode()
    assert "\x1b[31m✗ iteration 1" in raw
    assert "\x1b[32m✓ iteration 2" in raw
    assert not re.search(r"\x1b\[(\d+;)*38;[25];", raw)  # colours that no theme can make fit
    assert "\x1b[32m━" in raw


def test_no_word_of_the_state_file_is_shown_to_people(bench: Bench) -> None:
    silent = [["write", "a.txt", "a\n"], ["say", "nothing"]]
    bench.plan({1: silent, 2: [["say", "<promise>ASK: Which one?</promise>"]]})
    run = bench.run("run", "demo", "--agent-cmd", bench.agent, "--verify", "test -e work-4.txt")
    shown = {
        "run": run.ok(3),
        "status": bench.run("status").ok(),
        "attempts": bench.run("attempts", "demo").ok(),
        "show": bench.run("attempts", "demo", "--show", "1/1").ok(),
        "logs": bench.run("logs", "demo").ok(),
        "report": bench.run("report", "demo").ok(),
        "replay": bench.run("replay", "demo").ok(),
    }
    wrong = {
        f"{name}: {word}"
        for name, result in shown.items()
        for word in re.findall(r"\b[a-z]+\\?_[a-z]+\b", result.stdout + result.stderr)
    }
    assert wrong == set()


@pytest.mark.parametrize("command", [*COMMANDS, "completion", "guide", "report", "gc"])
def test_help_fits_into_80_columns(bench: Bench, command: str) -> None:
    said = bench.run(command, "--help", env={"COLUMNS": "80"}).ok().stdout
    assert [row for row in said.splitlines() if len(row) > 80] == []


MISTAKES = {
    "a flag that is none": (("run", "demo", "--max-retris", "2"), "untildone run --help"),
    "a value that is none": (("run", "demo", "--max-retries", "two"), "untildone run --help"),
    "a command that is none": (("rnu",), "untildone --help"),
    "no choice": (("finish",), "untildone finish --help"),
    "a flag without its value": (("attempts", "--show"), "untildone attempts --help"),
    "nothing to resume": (("resume",), "untildone run"),
    "nothing to stop": (("stop",), "untildone status"),
    "nothing to undo": (("undo",), "untildone status"),
    "a change that is none": (("run", "dmeo"), "untildone run demo"),
    "an agent that is none": (("run", "demo", "--agent", "claud"), "untildone agents"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_the_state_and_the_next_command(bench: Bench, mistake: str) -> None:
    words, command = MISTAKES[mistake]
    before = bench.snapshot()
    result = bench.run(*words).ok(2)
    first, *state, hint = result.stderr.splitlines()
    assert (result.stdout, first[:7], hint[:6]) == ("", "error: ", "hint: ")
    assert state == ["  Nothing was changed."]
    assert command in hint
    assert bench.snapshot() == before


def test_the_hint_of_an_empty_repository_ends_when_the_agent_is_done(bench: Bench) -> None:
    bench.git("rm", "-rq", "openspec")
    bench.commit("no change")
    said = bench.run("run").ok(2).stderr
    assert '--task "what should be done" --done promise' in said


# -- help TOPIC --------------------------------------------------------------------------------


def test_help_lists_its_topics_and_explains_each(bench: Bench) -> None:
    said = bench.run("help", cwd=bench.root).ok().stdout
    topics = re.findall(r"^  ([a-z-]+)  ", said, re.MULTILINE)
    assert {"exit-codes", "environment", "promise", "state-file", "formats"} <= set(topics)
    for topic in topics:
        assert len(bench.run("help", topic, cwd=bench.root).ok().stdout.splitlines()) > 5, topic


def test_help_knows_what_the_program_knows(bench: Bench) -> None:
    wide = {"COLUMNS": "200"}
    variables = bench.run("help", "environment", env=wide).ok().stdout
    assert "UNTILDONE_MAX_RETRIES" in variables
    offered = bench.run("stories", "--help", env=wide).ok().stdout
    (sources,) = re.findall(r"Story source: auto, ([\w, -]+)\.", " ".join(offered.split()))
    told = bench.run("help", "formats", env=wide).ok().stdout
    assert set(sources.split(", ")) == set(re.findall(r"^([a-z-]+)  ", told, re.MULTILINE))
    schema = bench.run("status", "--schema").ok().json()
    states = bench.run("help", "state-file", env=wide).ok().stdout
    assert set(schema["properties"]["status"]["enum"]) == set(
        re.findall(r"^([a-z]+)  ", states, re.MULTILINE)
    )


def test_variables_that_help_tells_of_are_there(bench: Bench) -> None:
    told = bench.run("help", "environment", env={"COLUMNS": "200"}).ok().stdout
    agents = set(re.findall(r"^(UNTILDONE_\w+) +set for (?:the agent|agents)", told, re.MULTILINE))
    checks = set(re.findall(r"^(UNTILDONE_\w+) +set for agents and checks", told, re.MULTILINE))
    bench.plan({1: [["sh", "env > agent.env"], *DONE]})
    bench.loop("--verify", "env > check.env").ok()
    for names, file in ((agents, "agent.env"), (checks, "check.env")):
        assert names
        assert names <= set(re.findall(r"^(\w+)=", bench.read(file), re.MULTILINE)), file


def test_help_of_a_command_and_of_nothing(bench: Bench) -> None:
    assert bench.run("help", "skip").ok().stdout == bench.run("skip", "--help").ok().stdout
    assert "untildone help exit-codes" in bench.run("help", "exitcodes").ok(2).stderr
