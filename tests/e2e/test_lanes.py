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
from tests.e2e.waiting import until

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


APPEND = "echo text $UNTILDONE_STORY_ID >> README.md"


def _always_late(bench: Bench, last: str) -> Lanes:
    """Five stories at the end of one file, and the first one comes too late twice."""
    shows = f"git -C {bench.repo} show {BRANCH}:README.md"
    landed = f"until {shows} | grep -q 'text {{}}'; do sleep 0.05; done"
    scripts = {
        "1-1": f"{landed.format(2)}; {APPEND}",
        "1-2": f"{landed.format(3)}; {APPEND}",
        "1": f"{last}; {APPEND}",
        "any": f"sleep 0.2; {APPEND}",
    }
    return Lanes(bench, 5, scripts)


def test_what_could_not_land_twice_has_the_run_to_itself(bench: Bench) -> None:
    lanes = _always_late(bench, "sleep 0.5")
    done = lanes.run(2, "--max-iterations", "20").ok()
    mine = [event for event in done.named("requeued") if event["story_id"] == "1"]
    assert [event["requeues"] for event in mine] == [1, 2]
    lanes.assert_whole(5)
    assert len(lanes.shown("README.md").split("text ")) == 6
    names = [(event["event"], event.get("story_id")) for event in done.events]
    third = max(n for n, name in enumerate(names) if name == ("iteration_started", "1"))
    over = names.index(("landed", "1"))
    beside = {
        name for name in names[third + 1 : over] if name[0] in ("iteration_started", "landed")
    }
    assert beside == set()
    assert [call[:2] for call in lanes.calls() if call[0] == "1"] == [
        ["1", "1"],
        ["1", "2"],
        ["1", "3"],
    ]


def test_what_cannot_land_alone_either_is_parked_and_the_others_go_on(bench: Bench) -> None:
    lanes = _always_late(bench, f"while [ ! -f {bench.gate('go')} ]; do sleep 0.02; done")
    text = bench.read(TASKS).replace("## 5. Story 5\n", "## 5. Story 5\n\nDepends: 1\n")
    text += "\n## 6. Story 6\n\nTouches: own-6.txt\n\n- [ ] 6.1 Write file 6\n"
    bench.write(TASKS, text)
    bench.commit("depends")
    live = lanes.begin(2, "--max-iterations", "20")
    live.wait_event("iteration_started", story_id="1", attempt=3)
    with (linked(bench) / "README.md").open("a") as file:
        file.write("mine\n")
    bench.git("commit", "-qam", "mine", cwd=linked(bench))
    bench.open_gate("go")
    done = live.wait().ok(3)
    mine = [event for event in done.named("requeued") if event["story_id"] == "1"]
    assert [event["requeues"] for event in mine] == [1, 2, 3]
    (state,) = bench.loops()
    (parked,) = state["parked"]
    assert parked["story_id"] == "1"
    assert "README.md" in parked["reason"]
    assert bench.has("refs/ralph/attempts/demo/1/3")
    assert {*lanes.landed()} == {"2", "3", "4", "6"}
    assert not [call for call in lanes.calls() if call[0] == "5"]


def test_what_an_attempt_changed_is_known_to_the_next_one(bench: Bench) -> None:
    lanes = Lanes(bench, 3, {"any": f"sleep 0.5; {APPEND}"})
    bench.write(TASKS, "".join(f"## {n}. Story {n}\n\n- [ ] {n}.1 do {n}\n\n" for n in (1, 2, 3)))
    bench.commit("without a word of files")
    done = lanes.run(3, "--optimistic").ok()
    lanes.assert_whole(3)
    assert len(done.named("requeued")) == 2  # all at once, then one after the other
    assert len(lanes.calls()) == 5


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


GENERATE = "cat part-* > all.gen"
PART = f"sleep 0.3; echo $UNTILDONE_STORY_ID > part-$UNTILDONE_STORY_ID; {GENERATE}"


def _with_generated_file(bench: Bench, command: str) -> Lanes:
    bench.write("part-0", "0\n")
    bench.write("all.gen", "0\n")
    bench.write("untildone.toml", f'[regenerate]\n"*.gen" = "{command}"\n')
    return Lanes(bench, 2, {"any": PART})


def test_a_generated_file_is_made_anew_where_two_stories_changed_it(bench: Bench) -> None:
    lanes = _with_generated_file(bench, GENERATE)
    shown = bench.run("run", "demo", *lanes.args(2), "--dry-run").ok().stdout
    assert "makes *.gen anew" in shown
    assert "untildone.toml:1" in shown
    done = lanes.run(2, "--verify", 'test "$(cat part-*)" = "$(cat all.gen)"').ok()
    assert done.named("requeued") == []
    assert len(lanes.calls()) == 2
    lanes.assert_whole(2)
    assert lanes.shown("all.gen") == "0\n1\n2"
    assert any("made it anew: all.gen" in e["message"] for e in done.named("warning"))


def test_a_command_that_cannot_make_the_file_is_why_the_story_is_done_again(bench: Bench) -> None:
    lanes = _with_generated_file(bench, "echo no generator here; exit 4")
    done = lanes.run(2).ok()
    (again,) = done.named("requeued")
    assert again["files"] == ["all.gen"]
    assert "no generator here" in again["why"]
    assert "exit code 4" in again["why"]
    lanes.assert_whole(2)
    assert lanes.shown("all.gen") == "0\n1\n2"


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


def test_a_landing_that_git_refuses_keeps_the_work_and_is_done_later(bench: Bench) -> None:
    gate = f"while [ ! -f {bench.gate('go')} ]; do sleep 0.02; done"
    lanes = Lanes(bench, 2, {"any": f"{gate}; {WORK}"})
    live = lanes.begin(2)
    lanes.until_calls(2)
    lock = bench.repo / ".git/refs/heads/ralph/demo.lock"
    lock.touch()
    bench.open_gate("go")
    said = live.wait().ok(3).named("error")[-1]
    assert "demo.lock" in said["message"]
    assert lanes.landed() == []
    assert {f"refs/ralph/attempts/demo/{n}/1" for n in (1, 2)} & {*bench.refs("refs/ralph/")}
    lock.unlink()
    bench.run("resume", "demo", "--json").ok()
    lanes.assert_whole(2)
    assert len(lanes.calls()) == 2


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


SLOW_GIT = """\
#!/bin/sh
case "$PWD $*" in
*/slots/*read-tree*) [ -f "{root}/fast" ] || {{ touch "{root}/slow"; sleep 60; }} ;;
esac
exec {git} "$@"
"""


@pytest.mark.parametrize("used_before", [False, True])
@pytest.mark.parametrize("how", ["signal", "stop"])
def test_a_stop_does_not_wait_for_a_checkout(bench: Bench, how: str, *, used_before: bool) -> None:
    lanes = Lanes(bench, 4)
    fast = bench.root / "fast"
    bench.program("git", SLOW_GIT.format(root=bench.root, git=shutil.which("git")))
    fast.touch()
    if used_before:
        lanes.run(2, "--max-iterations", "2").ok(3)
    fast.unlink()
    again = ("resume", "demo", "--json", "--max-iterations", "9")
    live = bench.start(*again) if used_before else lanes.begin(2)
    until((bench.root / "slow").exists, what="a checkout in a slot")
    began = time.monotonic()
    if how == "signal":
        live.signal(signal.SIGTERM)
    else:
        bench.run("stop", "demo", "--now").ok()
    live.wait().ok(143 if how == "signal" else 6)
    assert time.monotonic() - began < 5
    fast.touch()
    bench.run(*again).ok()
    lanes.assert_whole(4)
    assert bench.git("fsck", "--no-dangling") == ""


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


QUOTA = """\
#!/bin/sh
cat > /dev/null
[ -f "{root}/reset" ] || echo $(($(date +%s) + 4)) > "{root}/reset"
if [ $(date +%s) -lt $(cat "{root}/reset") ]; then
  echo dead >> "{root}/log"
  echo '{{"type": "rate_limit_event", "rate_limit_info": {{"status": "rejected",' \\
    '"rateLimitType": "five_hour", "resetsAt": '$(cat "{root}/reset")'}}}}'
  echo '{{"type": "result", "subtype": "success", "session_id": "s", "is_error": true,' \\
    '"api_error_status": 429, "result": "You have hit your limit"}}'
  exit 1
fi
echo start >> "{root}/log"
sleep 0.4
echo work > work-$UNTILDONE_STORY_ID.txt
echo end >> "{root}/log"
echo '{{"type": "result", "subtype": "success", "session_id": "s", "is_error": false,' \\
  '"result": "<promise>COMPLETE</promise>"}}'
"""


def test_after_a_dead_quota_one_call_probes_and_each_success_lets_one_more_in(
    bench: Bench,
) -> None:
    lanes = Lanes(bench, 8)
    bench.program("claude", QUOTA.format(root=bench.root))
    done = bench.loop("--agent", "claude", "--lanes", "4").ok()
    lanes.assert_whole(8)
    log = (bench.root / "log").read_text().split()
    assert 1 <= log.count("dead") <= 4
    assert "dead" not in log[log.index("start") :]
    running = ended = 0
    most = []
    for word in log[log.index("start") :]:
        running += 1 if word == "start" else -1
        ended += word == "end"
        most.append(running)
        assert running <= ended + 1, log
    assert max(most) > 1
    assert len(done.named("waiting")) == 1


def test_lanes_do_not_race_past_a_budget(bench: Bench) -> None:
    lanes = Lanes(bench, 8, {"any": f"sleep 0.2; {WORK}"})
    lanes.run(4, "--budget", "iterations=3").ok(6)
    assert len(lanes.calls()) == 3
    assert len(lanes.landed()) == 3


PAID = """\
#!/bin/sh
cat > /dev/null
echo "$UNTILDONE_STORY_ID" >> "{root}/lane-calls"
echo work > work-$UNTILDONE_STORY_ID.txt
cost=0.0884
[ "$UNTILDONE_STORY_ID" != 1 ] || cost=3.8687
said='"result": "<promise>COMPLETE</promise>", "usage": {{"input_tokens": 9, "output_tokens": 1}}'
echo '{{"type": "result", "subtype": "success", "session_id": "s",' "$said", \\
  '"is_error": false, "total_cost_usd": '$cost'}}'
"""


def test_four_lanes_do_not_race_past_a_cap_of_money(bench: Bench) -> None:
    lanes = Lanes(bench, 20)
    bench.program("claude", PAID.format(root=bench.root))
    paid = ("--agent", "claude", "--lanes", "4", "--json")
    bench.run("run", "demo", *paid, "--max-iterations", "11").ok(3)
    (state,) = bench.loops()
    assert (len(lanes.calls()), round(state["total_cost_usd"], 4)) == (11, 4.7527)
    more = ("--budget", "cost=5", "--max-iterations", "40", "--lanes", "4", "--json")
    bench.run("resume", "demo", *more).ok(6)
    (state,) = bench.loops()
    assert (len(lanes.calls()), round(state["total_cost_usd"], 4)) == (13, 4.9295)
    assert len(lanes.landed()) == 13


def test_the_first_call_that_a_budget_pays_runs_alone(bench: Bench) -> None:
    lanes = Lanes(bench, 4)
    dear = PAID.format(root=bench.root).replace("0.0884", "3.8687")
    bench.program("claude", dear)
    bench.loop("--agent", "claude", "--lanes", "4", "--budget", "cost=5").ok(6)
    assert len(lanes.calls()) == 1  # as dear as that, no second one fits
    bench.run("resume", "demo", "--json", "--budget", "cost=20").ok()
    lanes.assert_whole(4)


def test_a_check_of_one_story_that_another_breaks_is_found_in_the_end(bench: Bench) -> None:
    scripts = {"1": "echo yes > flag", "2": "sleep 0.5; echo no > flag", "any": WORK}
    lanes = Lanes(bench, 3, scripts)
    text = bench.read(TASKS).replace("## 2. Story 2\n", "## 2. Story 2\n\nDepends: 1\n")
    bench.write(TASKS, text)
    bench.commit("depends")
    done = lanes.run(2, "--story-verify", "1=grep -q yes flag").ok(3)
    error = done.named("error")[-1]
    assert "for the first time with story 2" in error["message"]
    assert "`untildone undo demo --story 2`" in error["hint"]
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


@pytest.mark.parametrize("lanes_count", [1, 3])
def test_one_story_is_taken_out_and_the_later_ones_stay(bench: Bench, lanes_count: int) -> None:
    lanes = Lanes(bench, 3, {"2": f"{WORK}; git add -A; git commit -q -m own; echo more > two.txt"})
    more = ("--checkpoint", "worktree") if lanes_count == 1 else ()
    lanes.run(lanes_count, *more).ok()
    before = bench.git("rev-parse", BRANCH)
    whole = lanes.shown(TASKS)
    taken = bench.run("undo", "demo", "--story", "2").ok().stdout
    assert "untildone resume demo" in taken
    assert bench.git("merge-base", before, BRANCH) == before
    tree = set(bench.git("ls-tree", "--name-only", BRANCH).splitlines())
    assert {"work-1.txt", "work-3.txt"} <= tree
    assert not {"work-2.txt", "two.txt"} & tree
    assert lanes.shown(TASKS) == whole.replace("[x] 2.1", "[ ] 2.1")
    assert bench.status(linked(bench)) == []
    (state,) = bench.loops()
    assert (state["status"], state["stories"]["finished"]) == ("stopped", 2)
    refused = bench.run("undo", "demo", "--story", "2").ok(2).stderr
    assert "has not finished a story 2" in refused
    bench.run("undo", "demo").ok()
    assert bench.git("rev-parse", BRANCH) == before
    assert bench.run("undo", "demo", "--json").ok().json()["undone"]["name"] == "undo"
    bench.run("resume", "demo", "--json").ok()
    assert [call[:2] for call in lanes.calls()][-1] == ["2", "2"]
    assert len(lanes.calls()) == 4
    assert lanes.shown(TASKS) == whole
    assert lanes.shown("two.txt") == "more"


def test_a_story_that_others_build_upon_is_not_taken_out(bench: Bench) -> None:
    lanes = Lanes(bench, 3, {"any": "echo $UNTILDONE_STORY_ID >> log.txt"})
    lanes.run(1, "--checkpoint", "worktree").ok()
    before = bench.refs()
    refused = bench.run("undo", "demo", "--story", "1").ok(2).stderr
    assert "in: log.txt" in refused
    assert "checkpoint: 2; checkpoint: 3" in refused
    assert bench.refs() == before
    bench.run("undo", "demo", "--story", "3").ok()
    assert lanes.shown("log.txt") == "1\n2"


def test_edits_of_a_person_stay_when_a_story_is_taken_out(bench: Bench) -> None:
    lanes = Lanes(bench, 2)
    lanes.run(1).ok()
    bench.write("README.md", "mine\n")
    bench.write("loose.txt", "loose\n")
    bench.run("undo", "--story", "1").ok()
    assert (bench.read("README.md"), bench.read("loose.txt")) == ("mine\n", "loose\n")
    assert not bench.path("work-1.txt").exists()
    assert "work-1.txt" not in bench.git("ls-tree", "--name-only", BRANCH)
    bench.write("work-2.txt", "edited\n")
    assert "in: work-2.txt" in bench.run("undo", "--story", "2").ok(2).stderr
    assert bench.read("work-2.txt") == "edited\n"


def test_no_story_is_taken_out_of_what_has_no_commits_of_its_own(bench: Bench) -> None:
    Lanes(bench, 2).run(1, "--checkpoint", "stash").ok()
    assert "makes no commits" in bench.run("undo", "demo", "--story", "1").ok(2).stderr


def test_no_story_is_taken_out_after_a_cleanup(bench: Bench) -> None:
    Lanes(bench, 2).run(1, "--on-complete", "cleanup").ok()
    refused = bench.run("undo", "demo", "--story", "1").ok(2).stderr
    assert "`untildone undo demo` after a cleanup" in refused
    bench.run("undo", "demo").ok()
    bench.run("undo", "demo", "--story", "1").ok()
