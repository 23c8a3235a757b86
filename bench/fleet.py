"""What a fleet costs: `python -m bench.fleet [cost] [workers] [status] [simulate] [--quick]`.

It is apart from the other benchmarks: it needs the extra `fleet` and the program `temporal` (`make
temporal`), an idle machine, and some minutes.

cost      processor time of server, workers and loops per change, and of the same changes in lanes
workers   the same changes with 1, 2, 4 and 8 workers: wall time
status    `fleet status --json` with 1,000 changes that wait
simulate  10,000 changes and 500 workers: story times from a file or a distribution, the load on the
          server from what `cost` and a drain without agents measure, and where it breaks
"""

from __future__ import annotations

import argparse
import heapq
import json
import multiprocessing
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fleet.histories import REPOSITORY, FakeWork
from tests.fleet.scene import COMMAND, Fleet
from untildone.adapters.temporal.connection import Connection
from untildone.adapters.temporal.engine import Engine
from untildone.adapters.temporal.worker import WorkerOptions, run_worker
from untildone.domain.fleet.order import ChangeOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TWO = ("One", "Two")
TICKS = os.sysconf("SC_CLK_TCK")
BAR_STATUS_S = 1.0
# Unless times are given: half of the stories take less than six minutes, a tenth over twenty.
MEDIAN_S, SPREAD = 360.0, 0.95
BEATS_S = 3.0
Row = dict[str, object]


def cpu_of(pid: int) -> tuple[float, float]:
    """Processor seconds of a process, and of all that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS, (int(fields[13]) + int(fields[14])) / TICKS


def scene(changes: int) -> tuple[Fleet, Path, list[str]]:
    fleet = Fleet(heartbeat=60)
    fleet.up()
    fleet.script("any", "true")
    names = [f"c{n}" for n in range(changes)]
    return fleet, fleet.repository("app", dict.fromkeys(names, TWO)), names


def cost(*, quick: bool) -> list[Row]:
    """Server, worker and loops against lanes, both in this run."""
    count = 10 if quick else 50
    fleet, remote, names = scene(count)
    try:
        server = int(fleet.server["pid"])
        before = cpu_of(server)[0]
        fleet.submit(remote, *names)
        begun = time.monotonic()
        worker = fleet.worker(2)
        fleet.wait_done(remote, names, 2, 1200)
        wall = time.monotonic() - begun
        own, loops = cpu_of(worker.pid)
        spent = cpu_of(server)[0] - before
        fleet.checked(remote, names, 2, repeats=0)
        lanes = _lanes(fleet, remote, names)
        return [
            {
                "what": "cost per change of 2 stories",
                "changes": count,
                "wall_s": round(wall, 1),
                "server_ms": round(1000 * spent / count),
                "worker_ms": round(1000 * own / count),
                "loops_git_agents_ms": round(1000 * loops / count),
                "lanes_all_ms": round(1000 * lanes / count),
            }
        ]
    finally:
        fleet.close()


def _lanes(fleet: Fleet, remote: Path, names: Sequence[str]) -> float:
    """The same changes one after the other, each with two lanes; all processor time."""
    work = fleet.root / "lanes"
    fleet.git("clone", "-q", str(remote), str(work))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for name in names:
        words = ("run", name, "--lanes", "2", "--optimistic", "--on-complete", "cleanup")
        subprocess.run(
            [str(COMMAND), *words, "--agent-cmd", str(fleet.agent)],
            cwd=work,
            env=fleet.env(),
            capture_output=True,
            check=True,
        )
        fleet.git("stash", "-q", "-u", cwd=work)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def workers(*, quick: bool) -> list[Row]:
    """Agents that sleep three seconds; one slot each."""
    count, rows = (8 if quick else 24), []
    for number in (1, 2, 4, 8):
        fleet, remote, names = scene(count)
        try:
            fleet.script("any", "sleep 3")
            fleet.submit(remote, *names)
            begun = time.monotonic()
            for _ in range(number):
                fleet.worker(1)
            fleet.wait_done(remote, names, 2, 1200)
            wall = time.monotonic() - begun
            ideal = 3.0 * 2 * count / number
            rows.append(
                {"what": "workers", "number": number, "wall_s": round(wall, 1), "ideal_s": ideal}
            )
        finally:
            fleet.close()
    return rows


def status(*, quick: bool) -> list[Row]:
    """From the start of the command to its end."""
    count = 100 if quick else 1000
    fleet = Fleet()
    try:
        fleet.up()
        engine = Engine(Connection(fleet.server["address"]))
        engine.submit([ChangeOrder(REPOSITORY, f"c{n}") for n in range(count)])
        times = []
        for _ in range(5):
            begun = time.monotonic()
            rows = fleet.ask("status")["changes"]
            times.append(time.monotonic() - begun)
            assert len(rows) == count
        best = min(times)
        return [
            {
                "what": "fleet status --json",
                "changes": count,
                "best_s": round(best, 2),
                "worst_s": round(max(times), 2),
                "bar_s": BAR_STATUS_S,
                "held": best <= BAR_STATUS_S,
            }
        ]
    finally:
        fleet.close()


def _fake_worker(address: str, slots: int, seconds: float) -> None:
    name = f"bench {os.getpid()} {slots}"
    run_worker(Connection(address), FakeWork(seconds), WorkerOptions(slots, name, once=True))


def drained(changes: int, processes: int, slots: int, seconds: float) -> Row:
    """How many stories a second the server hands out and takes back, without agents."""
    fleet = Fleet()
    try:
        fleet.up()
        address, server = fleet.server["address"], int(fleet.server["pid"])
        Engine(Connection(address)).submit(
            [ChangeOrder(REPOSITORY, f"c{n}") for n in range(changes)]
        )
        before, begun = cpu_of(server)[0], time.monotonic()
        spawn = multiprocessing.get_context("spawn")
        pool = [
            spawn.Process(target=_fake_worker, args=(address, slots, seconds))
            for _ in range(processes)
        ]
        for one in pool:
            one.start()
        for one in pool:
            one.join()
        wall = time.monotonic() - begun
        rows = fleet.ask("status")["changes"]
        assert all(row["status"] == "done" for row in rows), rows[:3]
        spent = cpu_of(server)[0] - before
        return {
            "what": "drain",
            "changes": changes,
            "slots": processes * slots,
            "wall_s": round(wall, 1),
            "stories_per_s": round(2 * changes / wall, 1),
            "server_cpu_ms_per_story": round(1000 * spent / (2 * changes), 1),
        }
    finally:
        fleet.close()


def simulate(*, quick: bool, times: Path | None) -> list[Row]:
    """Every change has five stories; they are handed out in the order of the queue."""
    capacity = drained(40 if quick else 300, 2, 8, 0.0)
    rate = float(str(capacity["stories_per_s"]))
    chosen = random.Random(7)
    known: list[float] = json.loads(times.read_text()) if times else []

    def story() -> float:
        return chosen.choice(known) if known else MEDIAN_S * chosen.lognormvariate(0, SPREAD)

    numbers = (500, 2000, 8000)
    return [capacity, *(_simulated(10_000, 5, number, story, rate) for number in numbers)]


def _simulated(
    changes: int, stories: int, number: int, story: Callable[[], float], rate: float
) -> Row:
    """A queue in front of so many workers, and a server that takes so many stories a second."""
    free, queue, now, handed, peak = number, [(0.0, n) for n in range(changes)], 0.0, 0.0, 0
    left, ends = [stories] * changes, list[tuple[float, int]]()
    heapq.heapify(queue)
    busy = 0.0
    while queue or ends:
        while free and queue and queue[0][0] <= now:
            _, change = heapq.heappop(queue)
            handed = max(handed, now) + 1 / rate  # the server is one more station
            seconds = story()
            busy += seconds
            heapq.heappush(ends, (handed + seconds, change))
            free -= 1
        peak = max(peak, number - free)
        if not ends:
            now = queue[0][0]
            continue
        now, change = heapq.heappop(ends)
        free += 1
        left[change] -= 1
        if left[change]:
            heapq.heappush(queue, (now, change))
    mean = busy / (changes * stories)
    asked = number / mean
    return {
        "what": "simulation",
        "changes": changes,
        "stories": changes * stories,
        "workers": number,
        "hours": round(now / 3600, 1),
        "ideal_hours": round(busy / number / 3600, 1),
        "stories_per_s_asked": round(asked, 2),
        "server_can_per_s": rate,
        "heartbeats_per_s": round(number / BEATS_S),
        "breaks_at_workers": round(rate * mean),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--times", type=Path, help="JSON list of story times in seconds")
    asked = parser.parse_args()
    known: dict[str, Callable[[], list[Row]]] = {
        "cost": lambda: cost(quick=asked.quick),
        "workers": lambda: workers(quick=asked.quick),
        "status": lambda: status(quick=asked.quick),
        "simulate": lambda: simulate(quick=asked.quick, times=asked.times),
    }
    held = True
    for name in asked.names or known:
        for row in known[name]():
            held &= row.get("held") is not False
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
