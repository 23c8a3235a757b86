"""The ports of a loop, made of adapters."""

from collections.abc import Callable
from typing import TypedDict

from untildone.adapters.agents.call import AgentCaller
from untildone.adapters.checkpoints.branch import BranchCheckpoint
from untildone.adapters.checkpoints.finish import Closing
from untildone.adapters.checkpoints.guard import Guard
from untildone.adapters.checks.clean_checkout import CleanCheckout
from untildone.adapters.checks.protected_files import ProtectedFiles
from untildone.adapters.checks.shell import ShellChecks
from untildone.adapters.process.orphans import own_mark
from untildone.adapters.records.journal import Journal
from untildone.adapters.sandbox import RunEnvironment
from untildone.adapters.sessions.meter import UsageMeter
from untildone.adapters.sessions.watch import SessionWatch
from untildone.adapters.stories.story_file import PlanFiles
from untildone.adapters.terminal import Person
from untildone.app.bus import Bus
from untildone.app.record import RunRecord
from untildone.app.run_driver import Ports
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Origin, Run
from untildone.ports import Checkpoint, Lanes, Predicted, RunBranch
from untildone.wiring.agents import agent_programs
from untildone.wiring.learnings import learnings_file_of
from untildone.wiring.repository import AGENT, PLAN_LOCK, Repository, at, this_process
from untildone.wiring.sandbox import sandbox_of
from untildone.wiring.sources import source_of
from untildone.wiring.user_files import template_of
from untildone.wiring.worktrees import user_place


def build_ports(
    repo: Repository,
    run: Run,
    origin: Origin,
    bus: Bus,
    person: Person,
    agent_env: tuple[str, ...] = (),
) -> Ports:
    """Everything a loop over this run reaches the world through."""
    plan, top = run.plan, repo.place.top
    folder = repo.folder(plan.run_id)
    folder.make()
    folder.note_origin(f"{origin.branch}\n{origin.commit}\n")
    state = repo.state_file(plan.run_id)
    state.keep_unknown_fields()
    stop_now = repo.inbox.stop_now
    marks = {"UNTILDONE_RUN_ID": plan.run_id, "UNTILDONE_STATE_FILE": str(state.path)}
    marks |= dict([own_mark()])
    environment = RunEnvironment(marks, sandbox_of(plan, repo.place))
    sessions = SessionWatch(top, repo.clock.now)
    return Ports(
        agent=AgentCaller(
            repo.processes,
            agent_programs(run, top, agent_env),
            environment,
            repo.home / AGENT,
            repo.inbox.ends_call,
        ),
        source=source_of(plan, top),
        checkpoint=build_checkpoint(repo, plan, origin),
        verifier=ShellChecks(repo.processes, environment, top, folder.path / "reports", stop_now),
        clean_checkout=CleanCheckout(repo.git(stop_now), repo.place, folder.path),
        protected_files=ProtectedFiles(repo.git(stop_now), top, folder.path / "protected.json"),
        meter=UsageMeter(
            repo.processes, sessions, plan.usage_cmd, lambda: run.started_at, stop_now
        ),
        mail=repo.inbox,
        human=person,
        record=RunRecord(Journal(folder.journal), state, bus, this_process()),
        folder=folder,
        clock=repo.clock,
        cwd=str(top),
        template=template_of(top, plan.prompt_template),
        learnings=learnings_file_of(plan, top),
        archive=_archiver(repo, plan) if plan.archive else None,
        plan_files=PlanFiles(top, repo.home / PLAN_LOCK),
        **build_lanes(repo, run, marks, agent_env),
        predicted=_predictions(repo, plan) if plan.lanes > 1 else None,
    )


class LanesOf(TypedDict, total=False):
    """What only a run with several lanes has."""

    lanes: Lanes
    branch: RunBranch


def build_lanes(
    repo: Repository,
    run: Run,
    marks: dict[str, str] | None = None,
    agent_env: tuple[str, ...] = (),
) -> LanesOf:
    """The lanes of a run and the branch that they land on; nothing if it has a single one."""
    if run.plan.lanes == 1 and len(run.lanes) == 1:
        return {}
    from untildone.wiring.lanes import RunLanes, run_branch

    lanes = RunLanes(repo, run, marks or {}, agent_env)
    return {"lanes": lanes, "branch": run_branch(repo, run.plan, repo.git())}


def _predictions(repo: Repository, plan: Plan) -> Predicted:
    from untildone.adapters.git.history import FileHistory

    return FileHistory(repo.git(repo.inbox.signalled), plan.change_id).predicted


def build_checkpoint(repo: Repository, plan: Plan, origin: Origin) -> Checkpoint:
    if plan.checkpoint == "stash":
        from untildone.adapters.checkpoints.stash import StashCheckpoint

        git, folder = repo.git(repo.inbox.signalled), repo.folder(plan.run_id).path
        guard = Guard.of(plan.limits.max_file_mb)
        return StashCheckpoint(git, repo.place, folder, plan.change_id, origin, guard)
    closing = build_closing(repo, plan)
    user = user_place(repo.place)
    if user:
        from untildone.adapters.checkpoints.worktree import WorktreeCheckpoint

        users = at(user).git(repo.inbox.signalled)
        return WorktreeCheckpoint(closing.git, repo.place, plan.change_id, closing, users, user)
    return BranchCheckpoint(closing.git, repo.place, plan.change_id, closing)


def build_closing(repo: Repository, plan: Plan) -> Closing:
    """What ends a run; its git obeys signals."""
    git = repo.git(repo.inbox.signalled)
    guard = Guard.of(plan.limits.max_file_mb)
    return Closing(git, repo.place, plan.change_id, plan.run_id, repo.stamp, guard)


def _archiver(repo: Repository, plan: Plan) -> Callable[[], str]:
    from untildone.adapters.stories.openspec_archive import archive

    def put_away() -> str:
        today = repo.clock.now().astimezone().strftime("%Y-%m-%d")
        return archive(repo.place.top, plan.change_id, today)

    return put_away
