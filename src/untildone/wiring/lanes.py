"""The lanes of a run: each has a slot, and processes that a stop reaches without the others."""

import os
from functools import partial
from pathlib import Path

from msgspec import Struct

from untildone.adapters.agents.call import AgentCaller
from untildone.adapters.checkpoints.guard import Guard
from untildone.adapters.checks.clean_checkout import CleanCheckout
from untildone.adapters.checks.protected_files import ProtectedFiles
from untildone.adapters.checks.shell import ShellChecks
from untildone.adapters.clock import monotonic
from untildone.adapters.git.git import Git
from untildone.adapters.git.place import Place
from untildone.adapters.process.orphans import note_of_lane
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.sandbox import RunEnvironment
from untildone.adapters.sessions.meter import UsageMeter
from untildone.adapters.sessions.watch import SessionWatch
from untildone.adapters.slots.clone import UsersSettings
from untildone.adapters.slots.landing import KnownContent, Landing
from untildone.adapters.slots.lane_environment import free_memory, has_room
from untildone.adapters.slots.setup import SetUp, set_up_of
from untildone.adapters.slots.slot import slots_folder
from untildone.adapters.slots.slots import Prepared, Slots
from untildone.adapters.stories.story_file import PlanFiles
from untildone.domain.errors import Interrupted
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Run
from untildone.ports import LanePorts, RunBranch
from untildone.wiring.agents import agent_programs
from untildone.wiring.learnings import learnings_file_of
from untildone.wiring.repository import AGENT, Repository
from untildone.wiring.sandbox import sandbox_of
from untildone.wiring.sources import source_of
from untildone.wiring.worktrees import user_place

OFF = "off"
# So long nobody but us has been in a slot that was prepared and in which nothing was run.
FRESH_S = 60.0


def run_branch(
    repo: Repository, plan: Plan, git: Git, known: KnownContent | None = None
) -> RunBranch:
    """The branch of a run, for one thread."""
    git.use_fallback_identity_if_none()
    folder = repo.folder(plan.run_id).path
    return Landing(git, repo.place, plan.change_id, folder, known=known)


class RunLanes:
    """Slots, and what works in them; the ports of a lane are those of its thread alone."""

    def __init__(
        self,
        repo: Repository,
        run: Run,
        marks: dict[str, str],
        agent_env: tuple[str, ...] = (),
    ) -> None:
        user = user_place(repo.place) or repo.place
        users, runs = (_git(repo.processes, place) for place in (user, repo.place))
        shared = _Shared(user, users, UsersSettings(users), runs, KnownContent(runs))
        self._lanes = [
            _Lane(repo, run, lane, shared, marks, agent_env)
            for lane in range(max(run.plan.lanes, len(run.lanes)))
        ]
        self.checks_at_once = run.plan.check_slots or max(1, (os.cpu_count() or 1) // 2)

    def prepare(self, lane: int, base: str) -> LanePorts:
        """The slot at this commit, set up; nothing is run in it yet."""
        return self._lanes[lane].prepare(base)

    def ready(self, lane: int, base: str, *, may_be_cut: bool = False) -> LanePorts:
        """The same; what was prepared a moment ago need not be looked at again."""
        return self._lanes[lane].ready(base, may_be_cut=may_be_cut)

    def as_left(self, lane: int, base: str) -> LanePorts | None:
        """The slot as it is, if work from this base is in it."""
        return self._lanes[lane].as_left(base)

    def is_there(self, lane: int) -> bool:
        return self._lanes[lane].is_there()

    def is_interrupted(self, lane: int) -> bool:
        return self._lanes[lane].is_interrupted()

    def has_room(self) -> bool:
        return has_room(free_memory())

    def interrupt(self, lane: int, *, wanted: bool) -> None:
        """From the main thread: whoever waits in the lane looks up."""
        self._lanes[lane].interrupt(wanted=wanted)

    def release(self) -> None:
        for lane in self._lanes:
            lane.release()


class _Shared(Struct, frozen=True):
    """What all lanes know: the user's repository, and git in it and in the run's worktree."""

    user: Place
    users: Git
    settings: UsersSettings
    runs: Git
    known: KnownContent


class _Lane:
    """One lane: nothing of it but the wish to stop is touched by another thread."""

    def __init__(
        self,
        repo: Repository,
        run: Run,
        number: int,
        shared: _Shared,
        marks: dict[str, str],
        agent_env: tuple[str, ...],
    ) -> None:
        self._repo, self._run, self._number = repo, run, number
        self._marks, self._agent_env = marks, agent_env
        self._wake, self._stop = WakePipe(), False
        self._processes = repo.processes.beside(self._wake.fd, f"UNTILDONE_LANE={number}")
        self._users = shared.users.beside(self._processes)
        runs, user = shared.runs.beside(self._processes), shared.user
        self._branch = partial(run_branch, repo, run.plan, runs, shared.known)
        where = user, slots_folder(), run.plan.slots
        self._slots = Slots(self._processes, self._users, *where, self.is_interrupted)
        self._slots.use_runs(repo.home)
        self._slots.use_settings(shared.settings)
        self._user = user
        self._guard = Guard.of(run.plan.limits.max_file_mb)
        self._setup: SetUp | None = None
        self._ports: tuple[str, LanePorts] | None = None
        self._prepared: tuple[str, float] | None = None

    def interrupt(self, *, wanted: bool) -> None:
        self._stop = wanted
        if wanted:
            self._wake.set()

    def is_interrupted(self) -> bool:
        self._wake.clear()
        return self._stop

    def release(self) -> None:
        self._slots.release(self._number)

    def prepare(self, base: str) -> LanePorts:
        ports = self._brought_to(base, may_be_cut=True)
        self._prepared = base, monotonic()
        return ports

    def ready(self, base: str, *, may_be_cut: bool) -> LanePorts:
        prepared, self._prepared = self._prepared, None
        fresh = prepared and prepared[0] == base and monotonic() - prepared[1] < FRESH_S
        if fresh and self.is_there():
            assert self._ports is not None
            return self._ports[1]
        return self._brought_to(base, may_be_cut=may_be_cut)

    def is_there(self) -> bool:
        return self._slots.is_there(self._number)

    def _brought_to(self, base: str, *, may_be_cut: bool) -> LanePorts:
        if self._ports and not self.is_there():
            self._slots.forget(self._number)
            self._ports = None
        self._slots.may_be_cut = may_be_cut
        try:
            return self._set_up(base)
        except Interrupted:
            # What is known of the files is not true any more: as after a crash.
            self._slots.release(self._number)
            self._ports = None
            raise
        finally:
            self._slots.may_be_cut = False

    def _set_up(self, base: str) -> LanePorts:
        plan = self._run.plan
        if self._setup is None:
            asked = "" if plan.lane_setup == OFF else plan.lane_setup
            self._setup = set_up_of(self._users, self._user.top, asked)
        where = self._number, plan.change_id, plan.run_id, base
        found = self._slots.ready(*where, self._setup, self._guard)
        return self._as_ports(found.prepared, found.variables, base)

    def as_left(self, base: str) -> LanePorts | None:
        if self._ports and not self.is_there():
            return None
        if self._ports and self._ports[0] == base:
            return self._ports[1]
        left = self._slots.left(self._number, self._run.plan.run_id, base, self._guard)
        return self._as_ports(left, self._slots.environment(left.slot), base) if left else None

    def _as_ports(self, found: Prepared, variables: dict[str, str], base: str) -> LanePorts:
        repo, run, plan, top = self._repo, self._run, self._run.plan, found.slot.top
        stop = self.is_interrupted
        marks = {**self._marks, **variables}
        own_files = found.slot.temporary, *self._learnings()
        sandbox = sandbox_of(plan, found.place, own_files, slots_folder())
        environment = RunEnvironment(marks, sandbox)
        folder = repo.folder(plan.run_id).path
        own = folder / f"{plan.run_id}-lane-{self._number}"
        own.mkdir(exist_ok=True)
        known = self._ports[1] if self._ports else None
        sessions = SessionWatch(top, repo.clock.now)
        ports = LanePorts(
            agent=AgentCaller(
                self._processes,
                agent_programs(run, repo.place.top, self._agent_env),
                environment,
                note_of_lane(repo.home / AGENT, self._number),
                lambda story_id: stop(),
            ),
            # No slot has what a tracker needs to know the repository by.
            source=source_of(plan, repo.place.top if plan.in_tracker else top),
            plan_files=PlanFiles(top),
            checkpoint=found.workspace,
            verifier=ShellChecks(self._processes, environment, top, own / "reports", stop),
            protected_files=ProtectedFiles(
                _git(self._processes, found.place), top, own / "protected.json"
            ),
            clean_checkout=CleanCheckout(_git(self._processes, found.place), found.place, own),
            meter=known.meter
            if known
            else UsageMeter(
                self._processes, sessions, "", lambda: run.started_at, stop, alone=False
            ),
            branch=known.branch if known else self._branch(),
            cwd=str(top),
        )
        self._ports = base, ports
        return ports

    def _learnings(self) -> tuple[Path, ...]:
        """The one file outside of the slot that an agent writes to; a sandbox lets in what is."""
        plan = self._run.plan
        file = learnings_file_of(plan, self._repo.place.top) if plan.contained else None
        return (file.made(),) if file else ()


def _git(processes: Processes, place: Place) -> Git:
    git = Git(processes, place.top)
    git.use_common_dir(place.common_dir)
    git.use_git_dir(place.git_dir)
    return git
