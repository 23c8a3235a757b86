"""`untildone plan`: the agent drafts in a copy, `lint` judges, and the person says yes."""

from __future__ import annotations

import json
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import COMPLETE, failed
from tests.e2e.process_table import command_lines
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Result

pytestmark = pytest.mark.e2e

FOLDER = "openspec/changes/people-can-log-out"
TASKS = f"{FOLDER}/tasks.md"
STORIES = """\
# Tasks

## 1. End the session

Verify: `python3 -m unittest -q`
Touches: src/session.py

- [ ] 1.1 Delete the session in src/session.py, so that the next request gets 401

## 2. Show the button

Verify: `python3 -m unittest -q tests.test_page`
Touches: src/page.py
Depends: 1

- [ ] 2.1 Show "Log out" in src/page.py to who is logged in
"""
NEVER = STORIES.replace("python3 -m unittest -q tests.test_page", "pytset -q")
PROPOSAL = "# Proposal\n\n## Why\n\nPeople share computers.\n"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def drafts(text: str, path: str = TASKS, *more: list[Any]) -> list[list[Any]]:
    """A call that writes the stories."""
    return [*more, ["write", path, text], ["say", COMPLETE]]


GOOD = drafts(STORIES, TASKS, ["write", f"{FOLDER}/proposal.md", PROPOSAL])


def plan(bench: Bench, *words: str, **options: Any) -> Result:
    return bench.run("plan", *words, "--agent-cmd", bench.agent, **options)


def nothing_left(bench: Bench) -> bool:
    own = bench.path(".git/untildone")
    return not (own / "drafting").exists() and not list((bench.root / "tmp").iterdir())


def test_nothing_is_written_before_a_yes_and_the_draft_is_not_paid_for_twice(bench: Bench) -> None:
    bench.plan(default=GOOD)
    bench.write("src/app.py", "print('my own edit')\n")
    before = bench.snapshot()
    result = plan(bench, "People can log out").ok(5)
    assert bench.snapshot() == before
    assert "+## 2. Show the button" in result.stdout
    assert "2 stories" in result.stdout
    assert "1 call, tokens unknown, cost unknown" in result.stdout
    assert "untildone plan --apply --change people-can-log-out" in result.stderr
    (call,) = bench.calls()
    assert not call.cwd.startswith(str(bench.repo))
    assert call.status == " M src/app.py"  # as the user left it
    assert ".env" not in call.files
    assert call.subject == "change demo"  # the history is there
    assert nothing_left(bench)
    applied = bench.run("plan", "--apply").ok()
    assert "untildone run people-can-log-out" in applied.stdout
    assert bench.read(TASKS) == STORIES
    assert bench.read(f"{FOLDER}/proposal.md") == PROPOSAL
    assert len(bench.calls()) == 1
    assert "no draft" in bench.run("plan", "--apply").ok(2).stderr
    bench.run("lint", "people-can-log-out").ok()


def test_what_lint_finds_is_mended_by_the_agent_in_bounded_rounds(bench: Bench) -> None:
    bench.plan({1: drafts(NEVER)}, default=drafts(STORIES))
    said = plan(bench, "People can log out", "--yes", "--json").ok().json()
    first, second = bench.calls()
    assert "There is a draft" not in first.prompt
    assert "no program `pytset`" in second.prompt
    assert f"{TASKS}:12" in second.prompt
    assert (said["written"], said["calls"], said["files"]) == (True, 2, [TASKS])
    assert [story["story_id"] for story in said["stories"]] == ["1", "2"]
    assert "+## 1. End the session" in said["diff"]
    assert bench.read(TASKS) == STORIES


def test_a_draft_with_errors_left_is_kept_and_not_written_by_yes(bench: Bench) -> None:
    bench.plan(default=drafts(NEVER))
    before = bench.snapshot()
    result = plan(bench, "People can log out", "--yes", "--rounds", "2").ok(3)
    assert len(bench.calls()) == 2
    assert "1 error" in result.stderr
    assert bench.snapshot() == before
    bench.run("plan", "--apply", "--change", "people-can-log-out").ok()
    assert bench.read(TASKS) == NEVER


def test_only_files_of_the_plan_are_taken_over(bench: Bench) -> None:
    code = ["write", "src/app.py", "print('implemented')\n"]
    other = ["write", "openspec/changes/demo/tasks.md", "gone\n"]
    link = ["symlink", "/etc/passwd", f"{FOLDER}/design.md"]
    bench.plan(default=drafts(STORIES, TASKS, code, other, ["mkdir", FOLDER], link))
    files = bench.contents()
    said = plan(bench, "People can log out", "--yes", "--json").ok().json()
    assert set(said["left_out"]) == {"src/app.py", "openspec/changes/demo/tasks.md"}
    assert bench.contents().keys() - files.keys() == {TASKS}
    assert {name: bench.contents()[name] for name in files} == files


def test_what_is_no_file_is_neither_replaced_nor_waited_for(bench: Bench) -> None:
    bench.plan(default=GOOD)
    plan(bench, "People can log out").ok(5)
    bench.path(FOLDER).mkdir()
    for make in (os.mkfifo, os.mkdir):
        make(bench.path(TASKS))
        assert "no file" in bench.run("plan", "--apply").ok(2).stderr
        assert not bench.path(TASKS).is_file()
        (os.unlink if make is os.mkfifo else os.rmdir)(bench.path(TASKS))
    (draft,) = bench.path(".git/untildone/drafts").glob("*.json")
    kept = draft.read_bytes()
    for torn in (kept[:100], b"[" * 100_000, b""):
        draft.write_bytes(torn)
        assert "cannot be read" in bench.run("plan", "--apply").ok(2).stderr
    draft.write_bytes(kept)
    bench.run("plan", "--apply").ok()
    assert bench.read(TASKS) == STORIES


def test_a_secret_is_refused_and_kept_nowhere(bench: Bench) -> None:
    leaky = PROPOSAL + f"\nThe token is {TOKEN}\n"
    bench.plan(default=drafts(STORIES, TASKS, ["write", f"{FOLDER}/proposal.md", leaky]))
    result = plan(bench, "People can log out", "--yes", "--rounds", "1").ok(3)
    assert "a secret" in result.stderr
    assert f"{FOLDER}/proposal.md:7: error" in result.stdout
    assert TOKEN not in result.stdout + result.stderr
    assert "no draft" in bench.run("plan", "--apply").ok(2).stderr
    assert not bench.path(FOLDER).exists()


@pytest.mark.parametrize("source", ["tasks-md", "prd-json"])
def test_the_other_formats(bench: Bench, source: str) -> None:
    prd = {"userStories": [{"id": "US-1", "title": "End the session", "passes": False}]}
    prd["userStories"][0]["acceptanceCriteria"] = ["The next request gets a 401"]
    prd["userStories"][0]["notes"] = "Verify: `python3 -m unittest -q`\nTouches: src/session.py"
    path, text = {
        "tasks-md": ("tasks.md", STORIES),
        "prd-json": ("prd.json", json.dumps(prd, indent=2)),
    }[source]
    bench.plan(default=drafts(text, path))
    said = plan(bench, "People can log out", "--source", source, "--yes", "--json").ok().json()
    assert said["files"] == [path]
    assert [f for f in said["findings"] if f["level"] == "error"] == []
    assert path in bench.calls()[0].prompt
    bench.run("lint", said["change_id"], "--source", source).ok()


def test_stories_that_are_there_stay_as_they_are(bench: Bench) -> None:
    bench.git("rm", "-rq", "openspec")
    old = "# Tasks\n\n## 1. Older\n\n- [x] 1.1 Done\n- [ ] 1.2 Test it\n"
    bench.write("tasks.md", old)
    bench.commit("older")
    more = "\n## 2. Log out\n\n- [ ] 2.1 Write it; `curl` then prints 401\n"
    bench.plan({1: drafts("# Tasks" + more, "tasks.md")}, default=drafts(old + more, "tasks.md"))
    said = plan(bench, "Log out", "--verify", "true", "--yes", "--json").ok().json()
    assert "story 1 would be gone" in bench.calls()[1].prompt
    assert [story["story_id"] for story in said["stories"]] == ["2"]
    assert bench.read("tasks.md") == old + more


def test_what_was_edited_meanwhile_is_not_overwritten(bench: Bench) -> None:
    bench.git("rm", "-rq", "openspec")
    bench.commit("gone")
    bench.plan(default=drafts(STORIES, "tasks.md"))
    plan(bench, "Log out").ok(5)
    bench.write("tasks.md", "- [ ] my own\n")
    assert "tasks.md" in bench.run("plan", "--apply").ok(5).stderr
    assert bench.read("tasks.md") == "- [ ] my own\n"
    bench.path("tasks.md").unlink()
    bench.run("plan", "--apply").ok()
    assert bench.read("tasks.md") == STORIES


def test_the_idea_may_be_a_file_or_standard_input(bench: Bench) -> None:
    bench.plan(default=GOOD)
    (bench.root / "people-can-log-out.md").write_text("They share computers, {braces} and all.\n")
    plan(bench, "--from", str(bench.root / "people-can-log-out.md"), "--yes").ok()
    assert "They share computers, {braces} and all." in bench.calls()[0].prompt
    assert bench.read(TASKS) == STORIES
    shutil.rmtree(bench.path(FOLDER))
    words = ("People can log out", "--from", "-", "--change", "people-can-log-out", "--yes")
    plan(bench, *words, stdin="In one click.").ok()
    assert "People can log out\n\nIn one click." in bench.calls()[1].prompt


def test_what_cannot_be_planned_is_refused_before_a_call(bench: Bench) -> None:
    assert "no idea" in plan(bench).ok(2).stderr
    assert "neither a file nor an issue" in plan(bench, "--from", "nowhere.md").ok(2).stderr
    assert "already: demo" in plan(bench, "Demo").ok(2).stderr
    absent = bench.run("plan", "x y z", "--agent", "cursor-agent")
    assert "program was not found: cursor-agent" in absent.ok(2).stderr
    assert bench.calls() == []


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([["say", failed("the idea is empty")]], "the idea is empty"),
        ([["say", "<promise>ASK: which page?</promise>"]], "which page?"),
        ([["say", COMPLETE]], "has written no plan"),
        ([["exit", 7]], "exited with code 7"),
    ],
)
def test_an_agent_that_drafts_nothing(bench: Bench, calls: list[list[Any]], words: str) -> None:
    bench.plan(default=calls)
    before = bench.snapshot()
    assert words in plan(bench, "People can log out", "--yes", "--rounds", "1").ok(3).stderr
    assert bench.snapshot() == before
    assert nothing_left(bench)


def test_a_silent_agent_is_ended(bench: Bench) -> None:
    bench.plan(default=[["sleep", 600]])
    assert "silent" in plan(bench, "x y z", "--idle-timeout", "0.02", "--yes").ok(3).stderr
    assert nothing_left(bench)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(bench: Bench, number: signal.Signals) -> None:
    bench.plan(default=[["write", "src/app.py", "x"], ["sleep", 600]])
    before = bench.snapshot()
    live = bench.start("plan", "People can log out", "--agent-cmd", bench.agent)
    bench.wait_call(1)
    live.signal(number)
    assert live.wait().code == 128 + number
    assert bench.snapshot() == before
    assert bench.processes() == []
    assert nothing_left(bench)


def test_a_kill_ends_the_agent_and_the_next_call_cleans_up(bench: Bench) -> None:
    bench.plan({1: [["sleep", 600]]}, default=GOOD)
    before = bench.snapshot()
    live = bench.start("plan", "People can log out", "--agent-cmd", bench.agent)
    bench.wait_call(1)
    live.signal(signal.SIGKILL)
    live.wait()
    until(lambda: not bench.processes(), what="the agent's end")
    assert bench.snapshot() == before
    plan(bench, "People can log out", "--yes").ok()
    assert bench.read(TASKS) == STORIES
    assert nothing_left(bench)


def test_a_draft_of_an_earlier_round_outlives_what_comes_after(bench: Bench) -> None:
    bench.plan({1: drafts(NEVER)}, default=[["sleep", 600]])
    live = bench.start("plan", "People can log out", "--agent-cmd", bench.agent)
    bench.wait_call(2)
    live.signal(signal.SIGINT)
    assert live.wait().code == 130
    assert not bench.path(FOLDER).exists()
    bench.run("plan", "--apply").ok()
    assert bench.read(TASKS) == NEVER


def test_beside_a_live_loop_nothing_is_written_into_its_story(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("loop")], ["say", COMPLETE]]}, default=GOOD)
    loop = bench.begin("--on-complete", "keep")
    bench.wait_call(1)
    result = plan(bench, "People can log out", "--yes").ok(5)
    assert "untildone wait demo" in result.stderr
    assert loop.alive()
    loop.signal(signal.SIGTERM)
    loop.wait()
    assert not bench.path(FOLDER).exists()


def test_on_a_terminal_the_person_sees_it_and_decides(bench: Bench) -> None:
    wanted = STORIES.replace("Log out", "Sign out")
    bench.plan({2: drafts(wanted)}, default=drafts(STORIES))
    terminal = bench.terminal("plan", "People can log out", "--agent-cmd", bench.agent)
    terminal.wait_text("what should be different")
    assert not bench.path(FOLDER).exists()
    terminal.type("Call it sign out\n")
    terminal.wait_text('+- [ ] 2.1 Show "Sign out"')
    assert "Call it sign out" in bench.wait_call(2).prompt
    terminal.type("y\n")
    assert terminal.wait() == 0
    assert bench.read(TASKS) == wanted
    assert nothing_left(bench)


def test_on_a_terminal_no_and_control_c_write_nothing(bench: Bench) -> None:
    bench.plan(default=drafts(STORIES))
    for key, code in (("n\n", 5), ("\x03", 130)):
        terminal = bench.terminal("plan", "People can log out", "--agent-cmd", bench.agent)
        terminal.wait_text("what should be different")
        terminal.type(key)
        assert terminal.wait() == code
        assert not bench.path(FOLDER).exists()
        assert nothing_left(bench)


def test_a_repository_without_a_commit(bench: Bench) -> None:
    new = bench.root / "new"
    new.mkdir()
    bench.git("init", "-q", cwd=new)
    (new / "idea.txt").write_text("x\n")
    bench.plan(default=drafts(STORIES, "tasks.md"))
    plan(bench, "Log out", "--yes", cwd=new).ok()
    assert (new / "tasks.md").read_text() == STORIES
    assert "idea.txt" in bench.calls()[0].files


def test_one_draft_at_a_time(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("draft")], ["say", COMPLETE]]}, default=GOOD)
    live = bench.start("plan", "First idea", "--agent-cmd", bench.agent)
    bench.wait_call(1)
    assert "at work on a plan" in plan(bench, "Second idea").ok(2).stderr
    live.signal(signal.SIGTERM)
    assert live.wait().code == 143
    assert [argv for _, argv in command_lines() if str(bench.root) in " ".join(argv)] == []
