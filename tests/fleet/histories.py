"""Histories of workflows, to be replayed by later releases.

`python -m tests.fleet.histories` plays every way a change can go against a real server, with work
that costs nothing, and writes those that are not there yet below `histories/`. What is there stays:
a release must still be able to go on with what an earlier one has begun.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from temporalio.client import Client

from tests.fleet.scene import Fleet
from untildone import __version__
from untildone.adapters.temporal.connection import CONVERTER, Connection
from untildone.adapters.temporal.engine import Engine
from untildone.adapters.temporal.worker import Task, WorkerOptions, run_worker
from untildone.domain.errors import Interrupted, StepError
from untildone.domain.fleet.order import (
    ChangeOrder,
    LandResult,
    Stories,
    StoryOrder,
    StoryResult,
    StoryRow,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(__file__).parent / "histories"
REPOSITORY = "https://git.invalid/app.git"


class FakeWork:
    """Work without agents: what becomes of a story is in the name of its change."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.calls: list[str] = []

    def read(self, order: ChangeOrder, task: Task) -> Stories:
        del task
        if order.change_id.startswith("unreadable") and self.calls.count(order.change_id) < 1:
            self.calls.append(order.change_id)
            raise StepError("the repository cannot be read")
        return Stories((StoryRow("1", "One", done=False), StoryRow("2", "Two", done=False)), "host")

    def run(self, order: StoryOrder, task: Task) -> StoryResult:
        task.begun()
        change, story = order.change.change_id, order.story_id
        self.calls.append(f"{change}/{story}")
        again = self.calls.count(f"{change}/{story}") > 1
        end = time.monotonic() + (60 if change.startswith("cancelled") else self.seconds)
        while time.monotonic() < end and not task.is_stopped():
            time.sleep(0.05)
        if task.is_stopped() and story == "1":
            raise StepError("the push fails just now")
        if task.is_stopped():
            raise Interrupted("ended")
        if change.startswith("stuck") and story == "2" and not again:
            return StoryResult(story, Verdict.STUCK, "host", "a red check", kept="refs/x")
        if change.startswith("asks") and story == "1" and not order.guidance:
            return StoryResult(story, Verdict.QUESTION, "host", "which?")
        return StoryResult(story, Verdict.DONE, "host", commit="c" * 40, calls=1, cost_usd=0.5)

    def land(self, order: ChangeOrder, task: Task) -> LandResult:
        del task
        self.calls.append(f"land {order.change_id}")
        red = order.change_id.endswith("red") and self.calls.count(f"land {order.change_id}") < 2
        return LandResult(not red, "host", "" if red else "d" * 40, "red" if red else "")


ORDERS = (
    ChangeOrder(REPOSITORY, "done"),
    ChangeOrder(REPOSITORY, "stuck"),
    ChangeOrder(REPOSITORY, "asks"),
    ChangeOrder(REPOSITORY, "cancelled", heartbeat_s=10),
    ChangeOrder(REPOSITORY, "unreadable"),
    ChangeOrder(REPOSITORY, "accounted", account="acme", reserve=1.0),
    ChangeOrder(REPOSITORY, "landed", land=True),
    ChangeOrder(REPOSITORY, "landed-red", land=True),
    ChangeOrder(REPOSITORY, "paused"),
)


def play(connection: Connection, orders: Sequence[ChangeOrder], work: FakeWork) -> None:
    """Submit them and work until there is nothing to do; a person says what has to be said."""
    engine = Engine(connection)
    engine.set_account("acme", 1, 10.0)
    engine.submit(orders)
    for order in orders:
        if order.change_id.startswith("paused"):
            engine.tell(order.workflow_id, "pause")
    person = threading.Thread(target=_person, args=(engine,), daemon=True)
    person.start()
    run_worker(connection, work, WorkerOptions(4, "worker 1 4", once=True))
    person.join()


def _person(engine: Engine) -> None:
    """Answers, retries, resumes and cancels, once each."""
    said, quiet = set[str](), 0
    while quiet < 4:
        time.sleep(0.3)
        rows = engine.changes()
        quiet = 0 if any(row.open for row in rows) else quiet + 1
        for row in rows:
            status, name = str(row.view.get("status")), row.workflow_id
            if not row.open or name in said:
                continue
            if status in ("stuck", "question"):
                engine.tell(name, "retry", "the blue one")
            elif status == "paused":
                engine.tell(name, "resume")
            elif status == "running" and row.change_id.startswith("cancelled"):
                engine.cancel(name)
            else:
                continue
            said.add(name)


async def _fetched(connection: Connection, names: Sequence[str]) -> dict[str, str]:
    client = await Client.connect(connection.address, data_converter=CONVERTER)
    found = {}
    for name in names:
        history = await client.get_workflow_handle(name).fetch_history()
        found[name] = history.to_json()
    return found


def write(connection: Connection) -> None:
    """Those that are not there yet, as this release plays them."""
    names = [order.workflow_id for order in ORDERS]
    names += ["account/acme", f"train/{ORDERS[0].fairness_key}"]
    FOLDER.mkdir(exist_ok=True)
    for name, text in asyncio.run(_fetched(connection, names)).items():
        path = FOLDER / f"{__version__}-{name.rpartition('/')[2]}.json"
        if not path.exists():
            # The name of this machine is in nothing that is kept.
            text = re.sub(r'"\d+@[^"]*"', '"somebody"', text)
            data = json.dumps({"id": name, "history": json.loads(text)})
            path.write_text(data + "\n")
            print(path.name)


def main() -> None:
    fleet = Fleet()
    try:
        fleet.up()
        connection = Connection(fleet.server["address"])
        play(connection, ORDERS, FakeWork(0.2))
        write(connection)
    finally:
        fleet.close()


if __name__ == "__main__":
    main()
