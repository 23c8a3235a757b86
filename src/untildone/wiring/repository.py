"""A repository as the commands see it: its folders, git, and the runs recorded in it."""

import contextlib
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from msgspec import Struct

from untildone.adapters.clock import SystemClock
from untildone.adapters.git.git import Git
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import STATE_FILE, discover, home
from untildone.adapters.process import watchdog as watchdogs
from untildone.adapters.process.orphans import end_leftovers, own_mark, started_at
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.process.watchdog import Watchdog, read_ended
from untildone.adapters.records import journal as journals
from untildone.adapters.records.inbox import Inbox
from untildone.adapters.records.journal import Journal
from untildone.adapters.records.lock import WorktreeLock
from untildone.adapters.records.run_folder import RunFolder, change_of, run_ids
from untildone.adapters.records.state_file import StateFile
from untildone.app.announce import announce
from untildone.app.recovery import replay
from untildone.domain.errors import UserError
from untildone.domain.reporting import views
from untildone.domain.run.fact import Abandoned, Fact
from untildone.domain.run.machine import apply
from untildone.domain.run.run import Run
from untildone.glance import is_unfinished
from untildone.plain_files import read_text

AGENT = "agent.json"  # the agent that runs now
ENDED = "ended.json"  # what a watchdog has ended
PLAN_LOCK = "plan.lock"  # held by whoever writes the plan


class Repository(Struct, frozen=True):
    """One worktree: where it is and how to reach it."""

    place: Place
    home: Path
    inbox: Inbox
    processes: Processes
    lock: WorktreeLock
    clock: SystemClock

    def git(self, interrupted: Callable[[], bool] = lambda: False) -> Git:
        """Git commands at the top of the worktree."""
        git = Git(self.processes, self.place.top, interrupted)
        git.use_common_dir(self.place.common_dir)
        git.use_git_dir(self.place.git_dir)
        return git

    def folder(self, run_id: str) -> RunFolder:
        return RunFolder(self.home, run_id)

    def state_file(self, run_id: str = "") -> StateFile:
        """The file other tools read; of a run if it is to be written."""
        folder = self.folder(run_id).path if run_id else None
        return StateFile(self.place.top / STATE_FILE, folder)

    def replay(self, run_id: str) -> Run | None:
        """A run from its journal; None if that was removed by `gc`."""
        path = self.folder(run_id).journal
        return replay(journals.replayed(path)) if path.exists() else None

    def latest(self, change: str = "") -> Run | None:
        """The newest run of a change, or of any change."""
        run_id = self.newest(change)
        return self.replay(run_id) if run_id else None

    def newest(self, change: str = "") -> str:
        """The id of that run; empty if there is none."""
        ids = run_ids(self.home)
        return next((id for id in ids if not change or change_of(self.home, id) == change), "")

    def needed(self, change: str) -> Run:
        """The newest run of a change; none is a UserError that names those there are."""
        run = self.latest(change)
        if run is None:
            raise no_run(self, change)
        return run

    def stamp(self) -> str:
        """The time as part of a ref's name."""
        return self.clock.now().strftime("%Y%m%dT%H%M%S%f")

    def alive(self) -> bool:
        """Whether a loop runs in this worktree now."""
        return self.lock.is_held()

    def repair(self) -> None:
        """After a dead loop: its last iteration closed in the state file, status stopped."""
        shown = read_state(self.place.top / STATE_FILE) or {}
        run = self.latest()
        if run is None or self.alive() or not is_unfinished(shown):
            return
        with contextlib.suppress(OSError):  # a full or read-only disk: shown as it is, for now
            self.write_dead(run)

    def last_sign(self, run: Run) -> datetime:
        """The last sign of life of a loop that is gone; what was noted since is none."""
        shown = read_state(self.place.top / STATE_FILE) or {}
        if shown.get("run_id") == run.plan.run_id and (died := shown.get("died_at")):
            return datetime.fromisoformat(str(died))
        calls = [lane.iteration.log_file for lane in run.lanes if lane.iteration]
        moments = [Path(p).stat().st_mtime for p in calls if Path(p).is_file()]
        moments.append(self.folder(run.plan.run_id).journal.stat().st_mtime)
        return datetime.fromtimestamp(max(moments), UTC)

    def write_dead(self, run: Run, at: datetime | None = None) -> None:
        """The state file of a run that no process works on any more; its last sign was then."""
        state = self.state_file(run.plan.run_id)
        ended = views.left_behind(run, at or self.last_sign(run))
        state.keep_unknown_fields()
        state.write(views.state(ended, 0, None), ended.iterations)

    def abandon(self, run: Run, why: str) -> Run:
        """End a run that no process works on: in its journal and in the state file."""
        return self.note(run, Abandoned(why))

    def note(self, run: Run, fact: Fact) -> Run:
        """Add a fact to a run that no process works on: in its journal and in the state file."""
        now, last_sign = self.clock.now(), self.last_sign(run)
        after = apply(run, fact, now)
        journal = Journal(self.folder(run.plan.run_id).journal)
        journal.record(fact, announce(run, fact, after), now)
        journal.close()
        if self.place.top.exists():
            self.write_dead(after, last_sign)
        return after

    def end_leftovers(self, run_id: str) -> tuple[str, ...]:
        """End what an earlier, killed loop left running, only what is ours; their programs.

        Those that its watchdog has ended in the meantime are among them.
        """
        left = end_leftovers(self.home / AGENT, ("UNTILDONE_RUN_ID", run_id))
        return (*read_ended(self.home / ENDED), *left)

    def start_watchdog(self) -> Watchdog | None:
        """End the agent if this process, the loop, is killed."""
        watchdog = watchdogs.start(self.home / AGENT, own_mark(), self.home / ENDED)
        if watchdog:
            self.processes.spare(watchdog.pid)
        return watchdog


def no_run(repository: Repository, change: str) -> UserError:
    """The error when a change has no run in this worktree: it names those that have."""
    ids = run_ids(repository.home)
    known = sorted({change_of(repository.home, run_id) for run_id in ids} - {""})
    listed = f"Runs here: {', '.join(known)}" if known else "untildone run"
    if not change:
        return UserError("There is no run in this worktree", hint=listed)
    return UserError(f"There is no run of this change in this worktree: {change}", hint=listed)


@cache
def this_process() -> tuple[int, float | None]:
    """The number of this process and when it started: together they name it for ever."""
    return os.getpid(), started_at(os.getpid())


def here(folder: Path | None = None) -> Repository:
    """The repository around the current folder."""
    wake = WakePipe()
    return at(discover(Processes(wake.fd), (folder or Path.cwd()).resolve()), wake)


def at(place: Place, wake: WakePipe | None = None) -> Repository:
    """The repository in a place that is known."""
    wake, root = wake or WakePipe(), home(place)
    inbox, lock = Inbox(root / "inbox", wake), WorktreeLock(root / "lock")
    return Repository(place, root, inbox, Processes(wake.fd), lock, SystemClock())


def homes(repository: Repository) -> list[Path]:
    """Our folders in all worktrees of this repository, this one first."""
    common = repository.place.common_dir
    found = [home(repository.place), common / "untildone"]
    found += sorted((common / "worktrees").glob("*/untildone"))
    return list(dict.fromkeys(found))


def replayed(root: Path, run_id: str) -> Run | None:
    """A run from its journal in one of our folders."""
    return replay(journals.replayed(RunFolder(root, run_id).journal))


def read_state(path: Path) -> dict[str, object] | None:
    """A state file's content, or None."""
    try:
        data = json.loads(read_text(path)) if path.is_file() else None
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
