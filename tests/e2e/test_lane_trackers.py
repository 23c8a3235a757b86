"""Issues of GitHub and Beads in several lanes: closed when their work is on the branch."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.users_tree import linked
from tests.e2e.waiting import until
from tests.fakes.trackers import BD, GH, Tracker, bead, issue

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Live, Result

pytestmark = pytest.mark.e2e

AGENT = """\
#!/bin/sh
cat > /dev/null
echo "$UNTILDONE_STORY_ID" >> "{root}/lane-calls"
for name in "$UNTILDONE_STORY_ID-$UNTILDONE_ATTEMPT" "$UNTILDONE_STORY_ID"; do
  if [ -f "{root}/story-$name" ]; then . "{root}/story-$name"; break; fi
done
echo work > work-$UNTILDONE_STORY_ID.txt
echo "<promise>COMPLETE</promise>"
"""
FAILED = "echo '<promise>FAILED: no luck</promise>'; exit 0"


class Tracked:
    """Issues in a stand-in for `gh` or `bd`, and a shell script for an agent."""

    def __init__(self, bench: Bench, source: str, count: int, **scripts: str) -> None:
        self.bench, self.source = bench, source
        self.change = "night" if source == "github" else "beads"
        numbers = range(1, count + 1)
        if source == "github":
            issues = {str(n): issue(n, f"Story {n}", "night", body=self.body(n)) for n in numbers}
            self.tracker = Tracker(bench.bin, "gh", GH, issues)
        else:
            beads = {
                f"x-{n}": bead(f"x-{n}", f"Story {n}", description=self.body(n)) for n in numbers
            }
            self.tracker = Tracker(bench.bin, "bd", BD, beads)
            bench.write(".beads/issues.jsonl", "{}\n")
            bench.commit("beads")
        for name, script in scripts.items():
            (bench.root / f"story-{name.removeprefix('s').replace('_', '-')}").write_text(script)
        self.agent = str(bench.program("shell-agent", AGENT.format(root=bench.root)))
        self.words = ("--source", source, "--json", "--agent-cmd", self.agent, "--lanes", "2")

    @staticmethod
    def body(number: int) -> str:
        return f"Touches: work-{number}.txt"

    def run(self, *more: str) -> Result:
        return self.bench.run("run", self.change, *self.words, *more)

    def start(self, *more: str) -> Live:
        return self.bench.start("run", self.change, *self.words, *more)

    def resume(self, *more: str) -> Result:
        return self.bench.run("resume", self.change, "--json", *more)

    def states(self) -> list[str]:
        return [each[_state(self.source)].lower() for each in self.tracker.state["issues"].values()]

    def calls(self) -> list[str]:
        path = self.bench.root / "lane-calls"
        return path.read_text().split() if path.exists() else []

    def landed(self) -> set[str]:
        subjects = self.bench.subjects(f"feature/x..ralph/{self.change}")
        return {s.removeprefix("checkpoint: ") for s in subjects if s.startswith("checkpoint: ")}

    def closed(self) -> list[str]:
        """Which issues the loop has closed, in this order."""
        if self.source == "beads":
            return [call[1] for call in self.tracker.calls("close") if "--reason" in call]
        return [call[2] for call in self.tracker.calls("issue", "close") if "--comment" in call]

    def reopened(self) -> list[str]:
        at = 1 if self.source == "beads" else 2
        words = ("reopen",) if self.source == "beads" else ("issue", "reopen")
        return [call[at] for call in self.tracker.calls(*words)]


def _state(source: str) -> str:
    return "state" if source == "github" else "status"


@pytest.mark.parametrize("source", ["github", "beads"])
def test_issues_are_closed_once_each_by_the_loop(bench: Bench, source: str) -> None:
    change = Tracked(bench, source, 4)
    done = change.run().ok()
    assert change.states() == ["closed"] * 4
    assert len(change.landed()) == len(set(change.closed())) == len(change.closed()) == 4
    assert change.reopened() == []
    assert len(done.named("landed")) == 4
    assert bench.status(linked(bench, change.change)) == []


@pytest.mark.parametrize("source", ["github", "beads"])
def test_an_issue_that_an_agent_closes_is_believed_when_its_work_has_landed(
    bench: Bench, source: str
) -> None:
    close = "gh issue close" if source == "github" else "bd close"
    one, two, three = ("1", "2", "3") if source == "github" else ("x-1", "x-2", "x-3")
    gate, closed = bench.gate("go"), bench.gate("closed")
    waits = "while [ ! -f {} ]; do sleep 0.02; done"
    change = Tracked(bench, source, 3)
    if source == "github":
        change.tracker.change(three, body="Touches: work-3.txt\nDepends on #1")
    else:
        needs = [{"issue_id": three, "depends_on_id": one, "type": "blocks"}]
        change.tracker.change(three, dependencies=needs)
    # The first one closes itself and what depends on it, fails, and does its work the second time.
    early = f"{close} {one}; {close} {three}; touch {closed}"
    (bench.root / f"story-{one}-1").write_text(f"{early}; {waits.format(gate)}; {FAILED}")
    (bench.root / f"story-{two}-1").write_text(f"{waits.format(closed)}; {close} {two}")
    live = change.start()
    live.wait_event("landed", story_id=two)
    until(lambda: three in change.reopened(), what="the issue that nobody works on is open again")
    assert one not in change.reopened()
    assert three not in change.calls()
    bench.open_gate("go")
    live.wait().ok()
    assert change.calls().count(one) == 2
    assert change.calls()[-1] == three
    assert one in change.reopened()
    assert change.landed() == {one, two, three}
    assert change.states() == ["closed"] * 3


DIES = """\
#!/bin/sh
case "$*" in
"issue close"*--comment*) [ -f {flag} ] || {{ touch {flag}; kill -9 $PPID; exit 1; }} ;;
esac
exec {real} "$@"
"""


def test_a_story_that_landed_before_a_crash_is_closed_by_resume_and_not_done_again(
    bench: Bench,
) -> None:
    change = Tracked(bench, "github", 3)
    (bench.bin / "gh").rename(bench.bin / "real-gh")
    flag = bench.root / "died"
    bench.program("gh", DIES.format(flag=flag, real=bench.bin / "real-gh"))
    change.start().wait().ok(-signal.SIGKILL)
    landed = change.landed()
    assert len(landed) == 1
    assert change.closed() == []
    change.resume().ok()
    assert change.states() == ["closed"] * 3
    assert len(change.closed()) == 3
    assert all(change.calls().count(story) == 1 for story in landed)


def test_a_story_that_landed_while_the_tracker_was_away_is_closed_by_resume(bench: Bench) -> None:
    change = Tracked(bench, "github", 2)
    (bench.bin / "gh").rename(bench.bin / "real-gh")
    away = bench.root / "away"
    real = bench.bin / "real-gh"
    bench.program(
        "gh",
        f'#!/bin/sh\n[ "$2" != close ] || [ ! -f {away} ] || exit 1\nexec {real} "$@"\n',
    )
    away.touch()
    stuck = change.run().ok(3)
    assert "`gh issue close" in stuck.named("error")[-1]["message"]
    assert change.landed()
    assert "open" in change.states()
    away.unlink()
    change.resume().ok()
    assert change.states() == ["closed"] * 2
    assert sorted(change.calls()) == ["1", "2"]


def test_what_agents_closed_before_a_kill_is_open_again(bench: Bench) -> None:
    change = Tracked(bench, "beads", 3)
    wait = "while :; do sleep 0.05; done"
    (bench.root / "story-x-1-1").write_text(
        f"bd close x-1; bd close x-3; touch {bench.root}/did; {wait}"
    )
    live = change.start()
    until((bench.root / "did").exists, what="the agent closes issues")
    live.signal(signal.SIGKILL)
    live.wait()
    change.resume().ok()
    assert {"x-1", "x-3"} <= set(change.reopened())
    assert change.landed() == {"x-1", "x-2", "x-3"}
    assert change.states() == ["closed"] * 3


def test_the_database_of_beads_is_no_work_of_a_story(bench: Bench) -> None:
    change = Tracked(bench, "beads", 2)
    (bench.root / "story-x-1").write_text(
        "echo spoilt > .beads/issues.jsonl; echo x > .beads/new\n"
    )
    change.run().ok()
    assert bench.git("show", "ralph/beads:.beads/issues.jsonl") == "{}"
    assert ".beads/new" not in bench.git("ls-tree", "-r", "--name-only", "ralph/beads")


def test_a_story_of_a_tracker_that_is_taken_out_is_open_again(bench: Bench) -> None:
    change = Tracked(bench, "github", 3)
    change.run().ok()
    bench.run("undo", "night", "--story", "2").ok()
    assert change.states() == ["closed", "open", "closed"]
    change.resume().ok()
    assert change.states() == ["closed"] * 3
    assert change.calls().count("2") == 2
