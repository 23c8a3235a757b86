"""`run --dry-run`: everything a start finds out, and nothing it does."""

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.git.history import FileHistory
from untildone.adapters.slots.setup import SetUp, set_up_of
from untildone.app.rehearsal import Rehearsed, interrupted, rehearse
from untildone.commands.start.early_guidance import as_now, waiting
from untildone.commands.start.plan import Wanted, given_budgets, pick_change, with_detected
from untildone.commands.start.start_checks import (
    Asking,
    all_done,
    branch_of_run,
    cut_short_closing,
    goes_on,
    installed_agents,
    nothing_open,
    plan_to_go_on,
    ready,
    refuse_ended,
    refuse_spent,
    refuse_unfinished,
    run_of_branch,
)
from untildone.commands.start.story_checks import not_obeyed
from untildone.domain.agents.agent import Intent, Invocation
from untildone.domain.agents.learnings import Notes
from untildone.domain.errors import UserError
from untildone.domain.run.brief import Place, intent_of
from untildone.domain.run.fact import AskedAgain, Resumed, Started
from untildone.domain.run.machine import apply, begin
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Origin, Run, Status
from untildone.domain.stories.predicted_files import Beside, beside
from untildone.domain.stories.story import StoryBook
from untildone.settings.settings import Settings
from untildone.wiring.agents import AgentOptions, agent_options_of, agent_program
from untildone.wiring.learnings import learnings_file_of
from untildone.wiring.repository import Repository
from untildone.wiring.sandbox import settled
from untildone.wiring.sources import source_of
from untildone.wiring.user_files import template_of
from untildone.wiring.worktrees import worktree_running

SCRATCH = "(a private folder)"


class LaneRehearsal(Struct, frozen=True):
    """What lanes would begin with, and what each slot gets before an agent sees it."""

    beside: Beside
    setup: SetUp


class DryRun(Struct, frozen=True):
    """What a run would do.

    `going_on` is set where it would go on with a run; `idle` says why it would do nothing;
    `refusal` is the error that a real run ends with while another loop is alive. `lanes` is what
    several of them would do.
    """

    plan: Plan
    origin: Origin
    going_on: bool = False
    told: Rehearsed | None = None
    book: StoryBook | None = None
    intent: Intent | None = None
    invocation: Invocation | None = None
    warnings: tuple[str, ...] = ()
    idle: str = ""
    refusal: UserError | None = None
    lanes: LaneRehearsal | None = None
    agent_env: tuple[str, ...] = ()


def dry_run(
    repo: Repository, settings: Settings, flags: dict[str, object], wanted: Wanted
) -> DryRun:
    """Look, and touch nothing: no lock, no file, no ref, no object."""
    change = pick_change(repo, wanted)
    repo = worktree_running(repo, change, tidy=False)
    refusal = repo.lock.refusal()
    newest = repo.latest()
    if newest and cut_short_closing(newest) and not refusal:
        idle = f"The {newest.choice} of `{newest.plan.change_id}` was cut short: it comes first."
        return DryRun(newest.plan, _origin(newest), going_on=True, idle=idle)
    branch = branch_of_run(repo, newest)
    if goes_on(repo, newest, branch, change):
        run = run_of_branch(repo, newest, change, wanted.task)
        if not refusal:
            refuse_spent(run, given_budgets(flags), repo.place.top)
        found = _going_on(repo, run, settings, flags)
    else:
        if not refusal:
            refuse_unfinished(repo, newest, branch)
        found = _starting(repo, settings, wanted, change)
    return replace(found, refusal=refusal)


def _starting(repo: Repository, settings: Settings, wanted: Wanted, change: str) -> DryRun:
    # Nobody is asked, and a message in the inbox is for the loop that is alive.
    asking = Asking(at_terminal=False, signalled=_never, dry_run=True)
    found = ready(repo, settings, wanted, change, asking)
    plan = found.prepared.plan
    env = agent_options_of(settings).env
    told = found.prepared.warnings
    dry = DryRun(plan, found.origin, warnings=told, idle=found.idle, agent_env=env)
    now = repo.clock.now()
    run = begin(Started(plan), now)
    for piece in waiting(repo, change):
        if fact := as_now(piece, found.prepared.book):
            run = apply(run, fact, now)
    return _rehearsed(repo, dry, run, now)


def _going_on(repo: Repository, run: Run, settings: Settings, flags: dict[str, object]) -> DryRun:
    refuse_ended(run)
    top, now = repo.place.top, repo.clock.now()
    env = agent_options_of(settings).env
    dry = DryRun(run.plan, _origin(run), going_on=True, agent_env=env)
    if run.origin is None:
        return replace(dry, idle="The start of this run was cut short; what is there comes first.")
    if run.status is Status.DONE and run.closed and nothing_open(run, top):
        return _rehearsed(repo, replace(dry, idle=all_done(run.plan.change_id)), run, now)
    settings, unchecked, detected = with_detected(settings, top)
    plan = plan_to_go_on(repo, run, settings, flags, detected)
    if run.status is Status.DONE and not run.closed:
        plan = replace(plan, limits=run.plan.limits)
        return _rehearsed(repo, replace(dry, plan=plan), apply(run, AskedAgain(plan), now), now)
    missing = installed_agents(plan, top, settings, run.finished, dry_run=True)
    plan, warnings = settled(plan, repo.processes, top)
    run = apply(interrupted(run, now), Resumed(plan), now)
    told = (*missing, *warnings, *unchecked, *not_obeyed(plan, run.finished))
    dry = replace(dry, plan=plan, warnings=told)
    return _rehearsed(repo, dry, run, now)


def _rehearsed(repo: Repository, dry: DryRun, run: Run, now: datetime) -> DryRun:
    top, plan = repo.place.top, dry.plan
    source = source_of(plan, top)
    if dry.idle:
        return replace(dry, book=source.load() if source else None)
    if plan.lanes > 1:
        # One lane shows what the first call is; the others are told as a schedule.
        run = replace(run, plan=replace(plan, lanes=1), lanes=run.lanes[:1])
    template, learnings = template_of(top, plan.prompt_template), learnings_file_of(plan, top)
    notes = learnings.look() if learnings else Notes()
    told = rehearse(run, dry.origin, source, now, template, notes)
    dry = replace(dry, told=told, book=told.run.book)
    if plan.lanes > 1 and dry.book:
        dry = replace(dry, lanes=_lanes(repo, plan, dry.book))
    if told.call is None:
        return dry
    intent = intent_of(told.run, told.call, told.prompt, Place(str(top), SCRATCH), now)
    options = AgentOptions(plan.agent_args, dry.agent_env)
    agent = agent_program(intent.agent, plan.agent_cmd, plan.script, top, options)
    return replace(dry, intent=intent, invocation=agent.invocation(intent))


def _lanes(repo: Repository, plan: Plan, book: StoryBook) -> LaneRehearsal:
    git = repo.git()
    known = FileHistory(git, plan.change_id).predicted(book)
    setup = set_up_of(git, repo.place.top, plan.lane_setup)
    return LaneRehearsal(beside(known, plan.lanes, optimistic=plan.optimistic), setup)


def _origin(run: Run) -> Origin:
    return run.origin or Origin("", "")


def _never() -> bool:
    return False
