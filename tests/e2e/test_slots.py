"""`untildone slots`, and what `gc` and `doctor --fix` make of slots: never the only copy."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from untildone.adapters.git.git import Git
from untildone.adapters.git.repository import discover
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.slots.slots import Slots

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from untildone.adapters.slots.slots import Prepared

pytestmark = pytest.mark.e2e
DAY = 24 * 3600


class Lane:
    """A slot as a loop with lanes leaves it, for the newest run of the change `demo`."""

    def __init__(self, bench: Bench, kind: str = "clone", lane: int = 0) -> None:
        processes = Processes(WakePipe().fd)
        place = discover(processes, bench.repo.resolve())
        git = Git(processes, place.top)
        git.use_common_dir(place.common_dir)
        root = bench.home / ".cache/untildone/slots"
        self.slots, self.lane = Slots(processes, git, place, root, kind), lane
        run_id = str(bench.state()["run_id"])
        self.prepared: Prepared = self.slots.prepare(
            lane, "demo", run_id, bench.git("rev-parse", "HEAD")
        )
        self.top = self.prepared.slot.top

    def end(self) -> None:
        self.slots.release(self.lane)

    def age(self, days: int) -> None:
        then = time.time() - days * DAY
        os.utime(self.prepared.slot.folder / "slot.json", (then, then))


def ended(bench: Bench) -> None:
    bench.plan()
    bench.loop("--on-complete", "keep").ok()


def test_slots_are_listed_with_weight_owner_and_what_only_they_hold(bench: Bench) -> None:
    assert "has no slots" in bench.run("slots").ok().stdout
    ended(bench)
    lane = Lane(bench)
    (row,) = bench.run("slots", "--json").ok().json()["slots"]
    assert (row["lane"], row["change_id"], row["state"]) == (0, "demo", "in use")
    assert row["run_id"] == bench.state()["run_id"]
    assert row["bytes"] > 10_000
    lane.end()
    said = bench.run("slots").ok().stdout
    assert f"demo ({row['run_id']}): all of it is elsewhere" in said
    (lane.top / "new.txt").write_text("mine\n")
    said = bench.run("slots").ok().stdout
    assert "holds what is nowhere else" in said
    assert f"No commit holds its files: new.txt\n  look: git -C {lane.top} status" in said


@pytest.mark.parametrize("kind", ["clone", "worktree"])
def test_doctor_deletes_a_slot_with_the_proof_and_never_the_only_copy(
    bench: Bench, kind: str
) -> None:
    ended(bench)
    lane = Lane(bench, kind)
    assert "in use" in str(bench.run("slots", "--json").json())
    assert "Deleted" not in bench.run("doctor", "--fix").stdout
    lane.end()
    (lane.top / "new.txt").write_text("mine\n")
    said = bench.run("doctor", "--fix").stdout
    assert "No commit holds its files: new.txt" in said
    assert (lane.top / "new.txt").read_text() == "mine\n"
    (lane.top / "new.txt").unlink()
    said = " ".join(bench.run("doctor", "--fix").stdout.split())
    tip = bench.git("rev-parse", "HEAD")[:12]
    assert "fixed Deleted the slot of lane 0 of `demo`" in said
    assert f"all of it is elsewhere: {tip} is held by refs/heads/ralph/demo ok" in said
    assert not lane.prepared.slot.folder.exists()
    assert bench.refs("refs/ralph/slots/") == {}
    assert bench.git("worktree", "list").count("\n") == 0


def test_gc_deletes_old_slots_only_and_keeps_the_only_copy(bench: Bench) -> None:
    ended(bench)
    spare, only, young = (Lane(bench, lane=n) for n in range(3))
    (only.top / "new.txt").write_text("mine\n")
    for lane, days in ((spare, 40), (only, 40), (young, 1)):
        lane.end()
        lane.age(days)
    seen = bench.run("gc", "--dry-run", "--json").ok().json()
    assert [row["lane"] for row in seen["slots"]] == [0]
    assert spare.top.exists()
    said = bench.run("gc").ok().stdout
    assert "the slot of lane 0 of `demo`" in said
    assert "is held by refs/heads/ralph/demo" in said
    assert "kept: the slot of lane 1 of `demo`" in said
    assert [lane.top.exists() for lane in (spare, only, young)] == [False, True, True]
    gone = bench.run("gc", "--all", "--yes", "--json").ok().json()
    assert [row["lane"] for row in gone["slots"]] == [2]
    assert [row["lane"] for row in gone["slots_kept"]] == [1]


def test_the_slot_of_a_run_that_can_be_resumed_is_left_alone(bench: Bench) -> None:
    bench.plan({1: [["exit", 1]]})
    bench.loop("--max-retries", "0").ok(3)
    lane = Lane(bench)
    lane.end()
    lane.age(400)
    before = sorted(lane.prepared.slot.folder.rglob("*"))
    assert "its run can be resumed" in bench.run("slots").ok().stdout
    bench.run("gc", "--all", "--yes").ok()
    bench.run("doctor", "--fix")
    assert sorted(lane.prepared.slot.folder.rglob("*")) == before


def test_refs_of_slots_that_were_deleted_by_hand_go_if_something_else_holds_them(
    bench: Bench,
) -> None:
    ended(bench)
    first, second = Lane(bench), Lane(bench, lane=1)
    base = bench.git("rev-parse", "HEAD")
    lost = bench.git("commit-tree", "-m", "alone", "HEAD^{tree}")
    key = next(iter(bench.refs("refs/ralph/slots/"))).split("/")[3]
    bench.git("update-ref", f"refs/ralph/slots/{key}/1/{lost[:16]}", lost)
    for lane in (first, second):
        lane.end()
        subprocess.run(["rm", "-rf", lane.prepared.slot.folder], check=True)
    assert "Refs of slots that are gone" in bench.run("doctor").stdout
    bench.run("doctor", "--fix")
    assert list(bench.refs("refs/ralph/slots/").values()) == [lost]
    assert base in bench.refs("refs/heads/").values()


def test_a_deletion_that_was_killed_is_finished_by_doctor(bench: Bench) -> None:
    ended(bench)
    lane = Lane(bench, "worktree")
    lane.end()
    folder = lane.prepared.slot.folder
    folder.rename(folder.with_name("deleted-lane-0.0"))
    said = bench.run("doctor", "--fix").stdout
    assert "left of a slot that was being deleted" in said
    assert not list(folder.parent.iterdir())
    assert bench.git("worktree", "list").count("\n") == 0
    assert bench.refs("refs/ralph/slots/") == {}


def test_a_slot_whose_repository_is_gone_is_named_and_left_alone(bench: Bench) -> None:
    ended(bench)
    lane = Lane(bench)
    lane.end()
    lost = bench.home / ".cache/untildone/slots/gone-00000000/lane-0"
    lost.mkdir(parents=True)
    note = (lane.prepared.slot.folder / "slot.json").read_text()
    (lost / "slot.json").write_text(note.replace(str(bench.repo / ".git"), "/nowhere/.git"))
    said = bench.run("slots").ok().stdout
    assert f"Its repository is gone, look before you delete it: {lost}" in said
    assert bench.run("slots", "--json").ok().json()["without_repository"] == [str(lost)]
    bench.run("doctor", "--fix")
    bench.run("gc", "--all", "--yes").ok()
    assert (lost / "slot.json").exists()
