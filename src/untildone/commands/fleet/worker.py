"""`fleet worker`: takes stories from the server until it is told to end."""

import os
from collections.abc import Callable
from pathlib import Path

from untildone.adapters.git.push import UsersGit
from untildone.adapters.process import watchdog
from untildone.adapters.process.orphans import started_at
from untildone.adapters.process.process import Captured, Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.commands.fleet.changes import connection, identity
from untildone.domain.fleet.order import ChangeOrder
from untildone.settings.fleet import WORKER, fleet_settings


def work(slots: int, *, once: bool, say: Callable[[str], None], address: str = "") -> None:
    """Stories, `slots` at once; `once`: until nothing is to be done."""
    where = connection(fleet_settings(os.environ), address)
    from platformdirs import user_cache_path

    from untildone.commands.fleet.checkout import Host
    from untildone.commands.fleet.story_work import StoryWork

    host = Host(user_cache_path("untildone") / "fleet")
    mark = (WORKER, f"{os.getpid()}-{started_at(os.getpid()) or 0:.0f}")
    # Before there are threads. If this process is killed, its loops and their agents are ended.
    note = host.root / f"worker-{host.number}.agents.json"
    guard = watchdog.start(note, mark, note.with_suffix(".ended"))
    try:
        from untildone.adapters.temporal.worker import WorkerOptions, run_worker

        name = identity(host.name, os.getpid(), slots)
        run_worker(where, StoryWork(host, mark), WorkerOptions(slots, name, once, say))
    finally:
        if guard:
            guard.stop()


def tip_of(order: ChangeOrder) -> str | None:
    """Where the branch of a change is on its remote; None if that does not answer."""
    users = UsersGit(Processes(WakePipe().fd), Path("/"))
    found = users.branches(order.repository, [order.branch])
    return None if isinstance(found, Captured) else found.tips.get(order.branch, "")
