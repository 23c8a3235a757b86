"""`--lanes N`: several stories at once, and the result as if they had come one by one."""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.change import TASKS
from tests.e2e.users_tree import finish, linked, users_own

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.e2e.bench import Bench
    from tests.e2e.command import Live, Result

pytestmark = pytest.mark.e2e

BRANCH = "ralph/demo"
AGENT = """\
#!/bin/sh
cat > "{root}/prompt-$UNTILDONE_STORY_ID-$UNTILDONE_ATTEMPT"
echo "$UNTILDONE_STORY_ID $UNTILDONE_ATTEMPT $UNTILDONE_LANE $PWD" >> "{root}/lane-calls"
for name in "$UNTILDONE_STORY_ID-$UNTILDONE_ATTEMPT" "$UNTILDONE_STORY_ID" any; do
  if [ -f "{root}/story-$name" ]; then . "{root}/story-$name"; break; fi
done
echo "<promise>COMPLETE</promise>"
"""
WORK = "echo $UNTILDONE_STORY_ID > work-$UNTILDONE_STORY_ID.txt"


class Lanes:
    """A change with stories that touch files of their own, and an agent that is a shell script."""

    def __init__(self, bench: Bench, count: int, scripts: Mapping[str, str] | None = None) -> None:
        self.bench = bench
        rows = [
            f"\n## {n}. Story {n}\n\nTouches: own-{n}.txt\n\n- [ ] {n}.1 Write file {n}\n"
            for n in range(1, count + 1)
        ]
        bench.write(TASKS, "# Tasks\n" + "".join(rows))
        bench.commit("stories")
        for name, script in {"any": WORK, **(scripts or {})}.items():
            (bench.root / f"story-{name}").write_text(script + "\n")
        self.agent = str(bench.program("shell-agent", AGENT.format(root=bench.root)))

    def args(self, lanes: int, *more: str) -> tuple[str, ...]:
        return ("--agent-cmd", self.agent, "--lanes", str(lanes), *more)

    def run(self, lanes: int, *more: str) -> Result:
        return self.bench.loop(*self.args(lanes, *more))

    def begin(self, lanes: int, *more: str) -> Live:
        return self.bench.begin(*self.args(lanes, *more))

    def calls(self) -> list[list[str]]:
        """Story, attempt, lane and folder of every call."""
        path = self.bench.root / "lane-calls"
        return [row.split(" ", 3) for row in path.read_text().splitlines()] if path.exists() else []

    def until_calls(self, count: int, patience: float = 30.0) -> None:
        end = time.monotonic() + patience
        while len(self.calls()) < count:
            assert time.monotonic() < end, f"no {count} calls: {self.calls()}"
            time.sleep(0.01)

    def landed(self) -> list[str]:
        """The stories on the run branch, first one first."""
        subjects = self.bench.subjects(f"feature/x..{BRANCH}")
        return [s.removeprefix("checkpoint: ") for s in subjects if s.startswith("checkpoint: ")]

    def shown(self, path: str) -> str:
        return self.bench.git("show", f"{BRANCH}:{path}")

    def assert_whole(self, count: int) -> None:
        """Every story landed once, in one commit each, and its box is ticked."""
        assert sorted(self.landed(), key=int) == [str(n) for n in range(1, count + 1)]
        assert self.bench.git("rev-list", "--min-parents=2", f"feature/x..{BRANCH}") == ""
        text = self.shown(TASKS)
        assert (text.count("[x]"), text.count("[ ]")) == (count, 0)
        assert self.bench.status(linked(self.bench)) == []


def test_stories_are_worked_on_at_once_and_land_one_by_one(bench: Bench) -> None:
    lanes = Lanes(bench, 8, {"any": f"sleep 0.3; {WORK}"})
    before = users_own(bench)
    done = lanes.run(4).ok()
    lanes.assert_whole(8)
    assert users_own(bench) == before
    assert {call[2] for call in lanes.calls()} == {"0", "1", "2", "3"}
    assert len({call[3] for call in lanes.calls()}) == 4
    assert all(not call[3].startswith(str(bench.repo)) for call in lanes.calls())
    for n in range(1, 9):
        assert lanes.shown(f"work-{n}.txt") == str(n)
    assert len(done.named("slot_ready")) == 4
    assert len(done.named("landing")) == 8
    for landed, saved in zip(done.named("landed"), done.named("checkpoint_saved"), strict=True):
        assert (landed["story_id"], landed["commit"]) == (saved["story_id"], saved["commit"])
    ended = done.named("iteration_ended")
    assert all(event["outcome"] == "complete" and event["lane"] in range(4) for event in ended)
    (state,) = bench.loops()
    assert [lane["lane"] for lane in state["lanes"]] == [0, 1, 2, 3]
    assert state["landing"]["queue"] == []
    assert not [ref for ref in bench.refs() if "attempts" in ref]
    assert "cleanup: done" in finish(bench).ok().stdout
    assert bench.read("work-8.txt") == "8\n"


def test_a_single_lane_has_no_word_of_lanes(bench: Bench) -> None:
    done = bench.loop("--lanes", "1").ok()
    assert not any("lane" in event for event in done.events)
    assert not {"lanes", "landing"} & set(bench.state())
    assert bench.branch() == BRANCH


def test_two_inserts_at_one_line_are_both_there_in_the_end(bench: Bench) -> None:
    insert = "sleep 0.3; echo text $UNTILDONE_STORY_ID >> README.md"
    lanes = Lanes(bench, 2, {"any": insert})
    done = lanes.run(2).ok()
    (again,) = done.named("requeued")
    assert (again["files"], again["requeues"]) == (["README.md"], 1)
    lanes.assert_whole(2)
    assert {"text 1", "text 2"} <= set(lanes.shown("README.md").splitlines())
    story = again["story_id"]
    prompt = (bench.root / f"prompt-{story}-2").read_text()
    assert f"+text {story}" in prompt
    assert "do the same again" in prompt
    assert bench.has(f"refs/ralph/attempts/demo/{story}/1")


@pytest.mark.parametrize("more", [(), ("--clean-room",), ("--slots", "worktree")])
def test_work_that_is_green_alone_and_red_together_does_not_land(
    bench: Bench, more: tuple[str, ...]
) -> None:
    check = 'for f in use-*; do test -f "$f" || continue; test -f $(cat $f) || exit 1; done'
    scripts = {
        "1": "git mv run.sh go.sh; sleep 0.2",
        "2": "sleep 0.6; test -f run.sh && echo run.sh > use-it || echo go.sh > use-it",
    }
    lanes = Lanes(bench, 2, scripts)
    done = lanes.run(2, "--verify", check, *more).ok()
    (again,) = done.named("requeued")
    assert again["story_id"] == "2"
    assert "red together" in again["why"]
    lanes.assert_whole(2)
    assert lanes.shown("use-it") == "go.sh"


def test_a_check_that_fails_once_is_told_and_not_held_against_a_story(bench: Bench) -> None:
    # Red for the first time when both files are there: on the sum, and on nothing else.
    flag = bench.root / "was-red"
    check = (
        f"test ! -f work-1.txt || test ! -f work-2.txt || test -f {flag} || "
        f"{{ touch {flag}; exit 1; }}"
    )
    lanes = Lanes(bench, 2, {"any": f"sleep 0.3; {WORK}"})
    done = lanes.run(2, "--verify", check).ok()
    lanes.assert_whole(2)
    assert done.named("requeued") == []
    told = [event["message"] for event in done.named("warning")]
    assert any("passed on the very same files" in text for text in told)
    # What was checked has landed, so that no slot holds anything of its own.
    slots = bench.run("slots", "--json").ok().json()["slots"]
    assert [slot["state"] for slot in slots] == ["spare", "spare"]


@pytest.mark.parametrize("more", [(), ("--verify", "true", "--clean-room")], ids=["bare", "clean"])
def test_slots_hold_nothing_of_their_own_after_a_run(bench: Bench, more: tuple[str, ...]) -> None:
    stages = "echo staged > x-$UNTILDONE_LANE; git add -A; echo more > x-$UNTILDONE_LANE"
    ticks = f"sed -i 's/\\[ \\]/[x]/' {TASKS}"
    Lanes(bench, 3, {"any": f"{WORK}; {stages}; {ticks}"}).run(3, *more).ok()
    slots = bench.run("slots", "--json").ok().json()["slots"]
    assert [slot["state"] for slot in slots] == ["spare"] * 3


def test_commits_of_a_person_on_the_run_branch_stay(bench: Bench) -> None:
    lanes = Lanes(
        bench, 2, {"any": f"while [ ! -f {bench.gate('go')} ]; do sleep 0.02; done; {WORK}"}
    )
    live = lanes.begin(2)
    lanes.until_calls(2)
    (linked(bench) / "mine.txt").write_text("mine\n")
    bench.git("add", "mine.txt", cwd=linked(bench))
    bench.git("commit", "-q", "-m", "mine", cwd=linked(bench))
    (linked(bench) / "loose.txt").write_text("loose\n")
    time.sleep(1.1)  # what is written within a second after the last step is nobody's edit yet
    bench.open_gate("go")
    live.wait().ok()
    lanes.assert_whole(2)
    assert (lanes.shown("mine.txt"), lanes.shown("loose.txt")) == ("mine", "loose")


VANDAL = """\
git stash clear; git gc -q --prune=now; git checkout -q -b elsewhere; git reset -q --hard
git branch -D ralph/demo; git config core.bare true; rm -rf .git
"""


@pytest.mark.parametrize("script", [VANDAL, "rm -rf .git * .[a-z]*; mkdir .git"])
def test_what_an_agent_does_to_git_in_its_slot_stays_there(bench: Bench, script: str) -> None:
    bench.write("README.md", "stashed\n")
    bench.git("stash", "push", "-q", "-m", "mine")
    lanes = Lanes(bench, 3, {"2-1": f"{script}\necho '<promise>FAILED: vandal</promise>'; exit 0"})
    before = users_own(bench)
    done = lanes.run(2).ok()
    assert users_own(bench) == before
    assert "mine" in bench.git("stash", "list")
    lanes.assert_whole(3)
    assert bench.git("fsck", "--no-dangling") == ""
    assert [e["story_id"] for e in done.named("retrying")] == ["2"]


def test_twenty_agents_that_commit_everything_land_all(bench: Bench) -> None:
    script = f'{WORK}; sed -i "s/\\[ \\] $UNTILDONE_STORY_ID\\./[x] $UNTILDONE_STORY_ID./" {TASKS}'
    lanes = Lanes(bench, 20, {"any": f"{script}; git add -A; git commit -q -m all"})
    lanes.run(4).ok()
    lanes.assert_whole(20)


@pytest.mark.parametrize("after", [1, 3, 5])
def test_after_a_kill_the_run_goes_on_and_nothing_is_done_twice(bench: Bench, after: int) -> None:
    lanes = Lanes(bench, 6, {"any": f"sleep 0.$UNTILDONE_STORY_ID; {WORK}"})
    live = lanes.begin(4)
    lanes.until_calls(after)
    time.sleep(0.05 * after)
    live.signal(signal.SIGKILL)
    live.wait()
    landed = lanes.landed()
    calls = len(lanes.calls())
    bench.run("resume", "demo", "--json").ok()
    lanes.assert_whole(6)
    again = {call[0] for call in lanes.calls()[calls:]}
    assert not again & set(landed)
    assert bench.git("fsck", "--no-dangling") == ""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_lanes_and_the_run_can_go_on(bench: Bench, signum: int) -> None:
    wait = f"touch half; test -f {bench.gate('go')} || sleep 60; {WORK}"
    lanes = Lanes(bench, 3, {"any": wait})
    live = lanes.begin(3)
    lanes.until_calls(3)
    began = time.monotonic()
    live.signal(signum)
    assert live.wait().code == 128 + signum
    assert time.monotonic() - began < 5
    state = bench.state(linked(bench))
    assert (state["status"], state["open_iteration"]) == ("stopped", None)
    assert [it["outcome"] for it in state["iterations"]] == ["interrupted"] * 3
    assert all(bench.has(it["saved_ref"]) for it in state["iterations"])
    assert [lane["story_id"] for lane in state["lanes"]] == ["", "", ""]
    bench.open_gate("go")
    bench.run("resume", "demo", "--json").ok()
    lanes.assert_whole(3)


def test_a_stop_after_the_story_lets_the_others_finish(bench: Bench) -> None:
    lanes = Lanes(bench, 6, {"any": f"sleep 0.5; {WORK}"})
    live = lanes.begin(2)
    lanes.until_calls(2)
    bench.run("stop", "demo", "--after-story").ok()
    live.wait().ok(6)
    assert 0 < len(lanes.landed()) < 6
    assert len(lanes.calls()) == len(lanes.landed())
    bench.run("resume", "demo", "--json").ok()
    lanes.assert_whole(6)


def test_a_run_goes_on_with_more_or_fewer_lanes(bench: Bench) -> None:
    lanes = Lanes(bench, 6)
    lanes.run(3, "--max-iterations", "2").ok(3)
    bench.run("resume", "demo", "--json", "--lanes", "1", "--max-iterations", "1").ok(3)
    assert len(lanes.landed()) == 3
    assert lanes.calls()[-1][3] == str(linked(bench))
    bench.run("resume", "demo", "--json", "--lanes", "2", "--max-iterations", "9").ok()
    lanes.assert_whole(6)


def test_a_run_in_your_own_files_gets_no_lanes(bench: Bench) -> None:
    bench.loop("--max-iterations", "1").ok(3)
    refused = bench.run("resume", "demo", "--lanes", "2").ok(2)
    assert "need a worktree of its own" in refused.stderr


def test_a_story_that_is_skipped_ends_alone(bench: Bench) -> None:
    lanes = Lanes(bench, 3, {"2": "sleep 60", "any": f"sleep 0.5; {WORK}"})
    live = lanes.begin(3)
    lanes.until_calls(3)
    bench.run("skip", "demo", "2").ok()
    live.wait().ok(3)
    assert sorted(lanes.landed()) == ["1", "3"]


REFUSALS: dict[tuple[str, ...], str] = {
    ("--checkpoint", "stash", "--lanes", "2"): "makes no commits",
    ("--task", "do it", "--done", "promise", "--lanes", "2"): "a run with one task has none",
    ("--lanes", "17"): "at most 16",
    ("--lanes", "many"): "a whole number from 1 to 16, or auto",
}


@pytest.mark.parametrize("flags", REFUSALS)
def test_what_lanes_cannot_do_is_refused_before_anything_is_touched(
    bench: Bench, flags: tuple[str, ...]
) -> None:
    before = bench.snapshot()
    refused = bench.loop(*flags).ok(2)
    assert REFUSALS[flags] in refused.stderr
    assert bench.snapshot() == before


def test_a_git_that_cannot_merge_in_memory_is_refused(bench: Bench) -> None:
    real = shutil.which("git")
    bench.program(
        "git",
        '#!/bin/sh\nfor last; do :; done\n[ "$last" = version ] && exec echo git version 2.37.1\n'
        f'exec {real} "$@"\n',
    )
    refused = bench.loop("--lanes", "2").ok(2)
    assert "2.38 or newer" in refused.stderr
    assert "--lanes 1" in refused.stderr


def test_a_dead_quota_is_asked_at_most_once_by_each_lane(bench: Bench) -> None:
    lanes = Lanes(bench, 8)
    bench.install_claude()
    bench.plan(default=[["limit", 3600]])
    live = bench.begin("--agent", "claude", "--lanes", "4")
    live.wait_event("waiting")
    time.sleep(1)
    assert len(bench.calls()) <= 4
    (state,) = bench.loops()
    assert [lane["phase"] for lane in state["lanes"]].count("waiting_limit") == 1
    live.signal(signal.SIGTERM)
    live.wait().ok(143)
    assert lanes.landed() == []


def test_lanes_do_not_race_past_a_budget(bench: Bench) -> None:
    lanes = Lanes(bench, 8, {"any": f"sleep 0.2; {WORK}"})
    lanes.run(4, "--budget", "iterations=3").ok(6)
    assert len(lanes.calls()) == 3
    assert len(lanes.landed()) == 3


def test_a_check_of_one_story_that_another_breaks_is_found_in_the_end(bench: Bench) -> None:
    scripts = {"1": "echo yes > flag", "2": "sleep 0.5; echo no > flag", "any": WORK}
    lanes = Lanes(bench, 3, scripts)
    text = bench.read(TASKS).replace("## 2. Story 2\n", "## 2. Story 2\n\nDepends: 1\n")
    bench.write(TASKS, text)
    bench.commit("depends")
    done = lanes.run(2, "--story-verify", "1=grep -q yes flag").ok(3)
    error = done.named("error")[-1]
    assert "for the first time with story 2" in error["message"]
    assert len(lanes.landed()) == 3


def test_status_and_the_live_view_have_a_row_for_each_lane(bench: Bench) -> None:
    wait = f"while [ ! -f {bench.gate('go')} ]; do sleep 0.02; done; {WORK}"
    lanes = Lanes(bench, 2, {"any": wait})
    terminal = bench.terminal("run", "demo", *lanes.args(2), "--on-complete", "keep")
    lanes.until_calls(2)
    terminal.wait_text("[1] story 2 Story 2")
    shown = bench.run("status").ok().stdout
    assert "lane 0: story 1, attempt 1, the agent is at work" in shown
    assert "lane 1: story 2, attempt 1, the agent is at work" in shown
    (state,) = bench.loops()
    assert (state["open_iteration"]["n"], state["phase"]) == (1, "agent")
    assert all(lane["last_sign"] for lane in state["lanes"])
    bench.open_gate("go")
    assert terminal.wait() == 0
    lanes.assert_whole(2)


def test_processes_of_another_lane_outlive_a_call(bench: Bench) -> None:
    # The first call leaves a stray behind; the second one needs its own until it ends.
    stray = "setsid sh -c 'echo $$ > {0}; sleep 60' & while [ ! -s {0} ]; do sleep 0.02; done"
    pids = [bench.root / f"stray-{n}" for n in (1, 2)]
    gate = bench.gate("go")
    scripts = {
        "1": f"{stray.format(pids[0])}; {WORK}",
        "2": f"{stray.format(pids[1])}; while [ ! -f {gate} ]; do sleep 0.02; done; "
        f"kill -0 $(cat {pids[1]}) && {WORK}",
    }
    lanes = Lanes(bench, 2, scripts)
    live = lanes.begin(2, "--evidence")
    live.wait_event("landed", story_id="1")
    assert not _lives(pids[0])
    bench.open_gate("go")
    live.wait().ok()
    lanes.assert_whole(2)
    assert lanes.shown("work-2.txt") == "2"
    assert not _lives(pids[1])


def _lives(note: Path) -> bool:
    try:
        os.kill(int(note.read_text()), 0)
    except ProcessLookupError:
        return False
    return True
