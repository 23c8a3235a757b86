"""`push-run` and `pull-run`: a run between two clones, with nothing but git between them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, fails

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
BRANCH = "ralph/demo"


class TwoMachines:
    """The bench's repository, a bare remote, and a second clone with a home of its own."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.remote, self.other = bench, bench.root / "remote.git", bench.root / "b"
        bench.git("init", "-q", "--bare", "-b", "main", str(self.remote), cwd=bench.root)
        bench.git("remote", "add", "origin", f"file://{self.remote}")
        bench.git("push", "-q", "origin", "feature/x")
        home = bench.root / "home-b"
        shutil.copytree(bench.home, home)
        self.env = {"HOME": str(home)}
        clone = ("clone", "-q", "-b", "feature/x", f"file://{self.remote}", str(self.other))
        bench.git(*clone, cwd=bench.root)

    def there(self, *refs: str) -> dict[str, str]:
        rows = self.bench.git(
            "for-each-ref", "--format=%(refname) %(objectname)", *refs, cwd=self.remote
        )
        return dict(row.split(" ") for row in rows.splitlines())

    def journal(self) -> str:
        (ledger,) = self.there("refs/ralph/carried/")
        return self.bench.git("show", f"{ledger}:journal.jsonl", cwd=self.remote)

    def subjects(self, cwd: Path) -> list[str]:
        return self.bench.git(
            "log", "--reverse", "--format=%s", "feature/x..", cwd=cwd
        ).splitlines()


def test_a_killed_run_goes_on_on_another_machine_and_comes_back(bench: Bench) -> None:
    two = TwoMachines(bench)
    half = [["write", "half.txt", "half\n"], ["wait", bench.gate("never")]]
    bench.plan({2: half})
    live = bench.begin()
    bench.wait_call(2)
    live.kill_unguarded()
    pushed = bench.run("push-run", "demo", "--json").ok().json()
    assert {"refs/heads/ralph/demo", "refs/ralph/attempts/demo/2/1"} <= set(pushed["refs"])
    assert set(pushed["refs"]) == set(two.there()) - {"refs/heads/feature/x"}

    pulled = bench.run("pull-run", "demo", cwd=two.other, env=two.env).ok()
    executed = " ".join(pulled.stderr.split())
    assert f"`resume` will execute here: `{bench.agent}` (agent)" in executed
    assert bench.branch(two.other) == BRANCH
    (loop,) = bench.run("status", "--json", cwd=two.other, env=two.env).ok().json()["loops"]
    assert (loop["status"], [i["outcome"] for i in loop["iterations"]]) == (
        *("stopped", ["complete", "interrupted"]),
    )
    shown = bench.run("attempts", "demo", "--show", "2/1", cwd=two.other, env=two.env).ok()
    assert "half.txt" in shown.stdout
    bench.plan()
    bench.run("resume", "demo", "--json", cwd=two.other, env=two.env).ok()
    done = ["initial state", "checkpoint: 1", "checkpoint: 2", "checkpoint: 3"]
    assert two.subjects(two.other) == done
    assert {call.cwd for call in bench.calls()[2:]} == {str(two.other)}
    bench.run("push-run", "demo", "origin", cwd=two.other, env=two.env).ok()

    bench.run("pull-run", "demo").ok()
    assert two.subjects(bench.repo) == done
    bench.run("finish", "demo", "cleanup").ok()
    assert bench.branch() == "feature/x"
    assert "work-1.txt" in "".join(bench.status())


def test_nothing_newer_is_overwritten(bench: Bench) -> None:
    two = TwoMachines(bench)
    bench.plan({1: DONE}, default=fails("no idea"))
    bench.loop("--max-retries", "0").ok(3)
    bench.run("push-run", "demo").ok()
    bench.run("pull-run", "demo", cwd=two.other, env=two.env).ok()
    # Both go on: the second to push is refused, whoever it is, and so is a pull over its work.
    for cwd, env in ((bench.repo, {}), (two.other, two.env)):
        bench.run("resume", "demo", cwd=cwd, env=env).ok(3)
    bench.run("push-run", "demo", cwd=two.other, env=two.env).ok()
    before, here = two.there(), bench.snapshot()
    refused = bench.run("push-run", "demo").ok(2)
    assert "goes on from another machine" in refused.stderr
    refused = bench.run("pull-run", "demo").ok(2)
    assert "has gone on here" in refused.stderr
    assert (two.there(), bench.snapshot()) == (before, here)


def test_other_work_on_the_branch_of_the_remote_is_not_overwritten(bench: Bench) -> None:
    two = TwoMachines(bench)
    bench.loop().ok()
    bench.git("commit", "-q", "--allow-empty", "-m", "of a colleague", cwd=two.other)
    bench.git("push", "-q", "origin", f"HEAD:{BRANCH}", cwd=two.other)
    before = two.there()
    assert "other commits" in bench.run("push-run", "demo").ok(2).stderr
    assert two.there() == before


def test_what_is_of_this_machine_does_not_travel(bench: Bench) -> None:
    two = TwoMachines(bench)
    bench.install_claude()
    bench.plan(default=[["say", f"token {TOKEN}"], *DONE, ["say", COMPLETE]])
    bench.loop("--agent", "claude").ok()
    own = bench.repo / ".git" / "untildone" / "runs"
    assert any(TOKEN in path.read_text() for path in own.rglob("journal.jsonl"))
    bench.run("push-run", "demo").ok()
    text = two.journal()
    assert TOKEN not in text
    assert str(bench.repo) not in text
    assert str(bench.home) not in text
    facts = [json.loads(row) for row in text.splitlines()]
    ended = [row["data"] for row in facts if row.get("fact") == "AttemptEnded"]
    assert [data["session"] for data in ended] == [None] * 3


def test_a_live_run_edits_and_a_stash_run_are_refused(bench: Bench) -> None:
    two = TwoMachines(bench)
    bench.plan({1: [["wait", bench.gate("one")], *DONE]})
    live = bench.begin()
    bench.wait_call(1)
    assert "A loop is running" in bench.run("push-run", "demo").ok(2).stderr
    bench.open_gate("one")
    live.wait().ok()
    bench.write("mine.txt", "mine\n")
    assert "not committed" in bench.run("push-run", "demo").ok(2).stderr
    assert "has no run of `demo`" in bench.run("pull-run", "demo").ok(2).stderr
    assert two.there("refs/heads/ralph", "refs/ralph") == {}
    bench.run("finish", "demo", "cleanup").ok()
    bench.run("restore", "demo").ok()
    bench.plan(default=DONE)
    bench.loop("--checkpoint", "stash").ok()
    assert "--checkpoint stash" in bench.run("push-run", "demo").ok(2).stderr


def test_a_run_in_lanes_gets_a_worktree_there_too(bench: Bench) -> None:
    two = TwoMachines(bench)
    bench.plan({1: DONE}, default=fails("no idea"))
    bench.loop("--lanes", "2", "--optimistic", "--max-retries", "0").ok(3)
    bench.run("push-run", "demo").ok()
    bench.run("pull-run", "demo", cwd=two.other, env=two.env).ok()
    assert bench.branch(two.other) == "feature/x"
    bench.plan()
    bench.run("resume", "demo", cwd=two.other, env=two.env).ok()
    log = bench.git("log", "--format=%s", f"feature/x..{BRANCH}", cwd=two.other).splitlines()
    assert sorted(log) == ["checkpoint: 1", "checkpoint: 2", "checkpoint: 3", "initial state"]


class Hostile:
    """Whoever may push to the remote writes the journal of a run there."""

    def __init__(self, two: TwoMachines) -> None:
        self._two, self._own = two, two.journal()
        (self.ref,) = two.there("refs/ralph/carried/")

    def push(self, journal: str, ref: str = "") -> None:
        """Another journal, under the name of the run or another one."""
        blob = self._git("hash-object", "-w", "--stdin", stdin=journal)
        tree = self._git("mktree", stdin=f"100644 blob {blob}\tjournal.jsonl\n")
        commit = self._git("commit-tree", tree, "-m", "x")
        self._git("update-ref", ref or self.ref, commit)

    def planned(self, **plan: object) -> str:
        """The journal with another plan."""
        first, rest = self._own.split("\n", 1)
        row = json.loads(first)
        row["data"]["plan"] |= plan
        return f"{json.dumps(row)}\n{rest}"

    def more(self, line: str) -> str:
        return f"{self._own}\n{line}\n"

    def with_checkpoint(self, name: str) -> str:
        return re.sub(r'"checkpoint": "\w{40}"', f'"checkpoint": "{name}"', self._own)

    def _git(self, *words: str, stdin: str = "") -> str:
        return subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@y", *words],
            cwd=self._two.remote,
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()


def test_a_hostile_journal_is_refused_before_anything_is_written(bench: Bench) -> None:
    two = TwoMachines(bench)
    bench.only_stories(1)
    bench.loop().ok()
    bench.run("push-run", "demo").ok()
    hostile, at = Hostile(two), '"at": "2026-11-18T21:30:26+00:00"'
    before = bench.git("for-each-ref", cwd=two.other)
    for journal, why in (
        (hostile.planned(run_id="../../../../elsewhere"), "of another run"),
        (hostile.planned(change_id="other"), "of another run"),
        (hostile.planned(limits="none"), "cannot be read"),
        (hostile.more(f'{{{at}, "fact": "StepFailed", "data": 7}}'), "cannot be read: StepFailed"),
        (hostile.with_checkpoint("--output=x"), "no commit and no branch: --output=x"),
    ):
        hostile.push(journal)
        refused = bench.run("pull-run", "demo", cwd=two.other, env=two.env).ok(2)
        assert why in " ".join(refused.stderr.split())
        assert "Nothing was changed" in refused.stderr
        assert bench.git("for-each-ref", cwd=two.other) == before
    hostile.push(hostile.more("[" * 200_000), hostile.ref)
    hostile.push("{}", f"{hostile.ref.rpartition('/')[0]}/z/evil")
    bench.run("pull-run", "demo", cwd=two.other, env=two.env).ok()


def test_no_remote_names_the_file_that_the_loop_writes_learnings_to(bench: Bench) -> None:
    two = TwoMachines(bench)
    bench.plan({1: fails("no idea")})
    bench.loop("--max-retries", "0").ok(3)
    bench.run("push-run", "demo").ok()
    hostile, mine = Hostile(two), bench.root / "home-b" / ".profile"
    mine.write_text("mine\n")
    hostile.push(hostile.planned(learnings="@untildone:user@/.profile"))
    bench.run("pull-run", "demo", cwd=two.other, env=two.env).ok()
    bench.plan(default=[["write", ".untildone-learnings-demo.md", "- evil\n"], *DONE])
    bench.run("resume", "demo", cwd=two.other, env=two.env).ok()
    assert mine.read_text() == "mine\n"
    kept = two.other / ".git" / "untildone" / "learnings" / "demo.md"
    assert kept.read_text() == "- evil\n"
