"""Workers and servers that die, freeze and forget: no story is lost, none lands twice."""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.waiting import until
from tests.fleet.scene import needs_temporal

if TYPE_CHECKING:
    from tests.fleet.scene import Fleet

pytestmark = [pytest.mark.e2e, needs_temporal]
TWO = ("One", "Two")
SMALL, LARGE = 4, 24
COUNTS = [pytest.param(SMALL), pytest.param(LARGE, marks=pytest.mark.full)]
SLOTS = 2


def names(count: int) -> list[str]:
    return [f"c{n}" for n in range(count)]


@pytest.mark.parametrize("count", COUNTS)
def test_a_worker_that_is_killed_loses_nothing(fleet: Fleet, count: int) -> None:
    changes = names(count)
    remote = fleet.repository("app", dict.fromkeys(changes, TWO))
    fleet.script("any", "sleep 0.6")
    fleet.submit(remote, *changes)
    killed = fleet.worker(SLOTS)
    fleet.worker(SLOTS)
    fleet.wait_effects(3)
    killed.kill()
    own = {pid for _, _, pid in fleet.started()}
    until(lambda: killed.poll() is not None)
    time.sleep(0.5)
    # The watchdog has ended what the dead worker had begun, or it had ended before.
    assert len(set(fleet.agents_alive()) & own) <= SLOTS
    fleet.wait_done(remote, changes, 2)
    fleet.checked(remote, changes, 2, repeats=SLOTS)


@pytest.mark.parametrize("count", COUNTS)
def test_a_worker_that_freezes_and_wakes_up_does_no_harm(fleet: Fleet, count: int) -> None:
    changes = names(count)
    remote = fleet.repository("app", dict.fromkeys(changes, TWO))
    fleet.script("any", "sleep 0.6")
    fleet.submit(remote, *changes)
    frozen = fleet.worker(SLOTS)
    fleet.wait_effects(2)
    below = _below(frozen.pid)
    for pid in below:
        os.kill(pid, signal.SIGSTOP)
    fleet.worker(SLOTS)
    time.sleep(1.5 * fleet.heartbeat)
    for pid in reversed(below):
        os.kill(pid, signal.SIGCONT)
    fleet.wait_done(remote, changes, 2)
    fleet.checked(remote, changes, 2, repeats=2 * SLOTS)


def _below(pid: int) -> list[int]:
    """A process and all that it has started, sessions of their own included."""
    found, left = [], [pid]
    while left:
        one = left.pop()
        found.append(one)
        with open(f"/proc/{one}/task/{one}/children") as file:
            left += map(int, file.read().split())
    return found


@pytest.mark.parametrize("count", COUNTS)
def test_a_server_that_is_killed_comes_back_and_goes_on(fleet: Fleet, count: int) -> None:
    changes = names(count)
    remote = fleet.repository("app", dict.fromkeys(changes, TWO))
    fleet.submit(remote, *changes)
    fleet.worker(SLOTS)
    fleet.wait_effects(2)
    os.kill(fleet.server["pid"], signal.SIGKILL)
    time.sleep(1)
    fleet.up(int(fleet.server["address"].rpartition(":")[2]))
    fleet.wait_done(remote, changes, 2)
    fleet.checked(remote, changes, 2, repeats=SLOTS)


@pytest.mark.parametrize("count", COUNTS)
def test_a_server_that_loses_its_database_loses_no_work(fleet: Fleet, count: int) -> None:
    changes = names(count)
    remote = fleet.repository("app", dict.fromkeys(changes, TWO))
    fleet.submit(remote, *changes)
    fleet.worker(SLOTS)
    fleet.wait_effects(count, "end")
    port = int(fleet.server["address"].rpartition(":")[2])
    os.kill(fleet.server["pid"], signal.SIGKILL)
    state = fleet.home / ".local/state/untildone/fleet"
    for path in state.glob("temporal.db*"):
        path.unlink()
    before = {change: fleet.stories(remote, change) for change in changes}
    fleet.up(port)
    assert fleet.ask("status")["changes"] == []
    again = fleet.ask("reconcile")["changes"]
    assert {row["change_id"] for row in again} == set(changes)
    fleet.wait_done(remote, changes, 2)
    counts = fleet.checked(remote, changes, 2, repeats=SLOTS)
    print({"stories that were there before": sum(map(len, before.values())), **counts})


def test_a_cancel_ends_the_agents_and_keeps_what_is_pushed(fleet: Fleet) -> None:
    remote = fleet.repository("app", {"c0": TWO})
    fleet.script("c0-2", "sleep 300")
    fleet.submit(remote, "c0")
    fleet.worker(1)
    fleet.wait_effects(2)
    begun = time.monotonic()
    fleet.run("fleet", "cancel", "c0")
    until(lambda: not fleet.agents_alive(), 20, "no agent")
    took = time.monotonic() - begun
    print({"seconds until the agents were gone": round(took, 1)})
    assert took < 10
    assert fleet.wait_status("c0", "cancelled")["stories"] == {"total": 2, "finished": 1}
    assert fleet.stories(remote, "c0") == ["1"]
    fleet.script("c0-2", "true")
    fleet.submit(remote, "c0")
    fleet.wait_done(remote, ["c0"], 2)
    fleet.checked(remote, ["c0"], 2, repeats=1)


@pytest.mark.parametrize("count", [pytest.param(8), pytest.param(200, marks=pytest.mark.full)])
@pytest.mark.timeout(900)
def test_every_branch_has_exactly_its_stories_in_order(fleet: Fleet, count: int) -> None:
    changes = names(count)
    remote = fleet.repository("app", dict.fromkeys(changes, TWO))
    fleet.script("any", "true")
    fleet.submit(remote, *changes)
    workers = [fleet.worker(SLOTS, "--once") for _ in range(2)]
    for worker in workers:
        assert worker.wait(800) == 0
    fleet.checked(remote, changes, 2, repeats=0)
    assert {row["status"] for row in fleet.ask("status")["changes"]} == {"done"}
    shutil.rmtree(fleet.home / ".local/state/untildone/fleet/orders.jsonl", ignore_errors=True)
    assert {row["status"] for row in fleet.submit(remote, *changes)["changes"]} == {"submitted"}
    assert fleet.worker(SLOTS, "--once").wait(300) == 0
    fleet.checked(remote, changes, 2, repeats=0)
