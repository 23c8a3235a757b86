"""Whether a run may start or go on here, found out without touching anything."""

from collections.abc import Callable, Mapping, Set
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.checkpoints.guard import Flag, Guard, new_files, unfiltered
from untildone.adapters.checks.detect import missing_program
from untildone.adapters.git.git import Git
from untildone.adapters.git.object_files import has_no_refs
from untildone.adapters.git.own_worktree import user_of
from untildone.adapters.git.repository import head_of, preflight
from untildone.adapters.records.run_folder import new_run_id
from untildone.adapters.terminal import Person
from untildone.app.wording import STATE_OF, check_hint, next_command, restored_hint, unfinished_hint
from untildone.commands.start.lint import at_start
from untildone.commands.start.plan import (
    Prepared,
    Wanted,
    guarding_nothing,
    hiding_failures,
    missing_scripts,
    prepare,
    renewed,
    with_files,
)
from untildone.commands.start.story_checks import not_obeyed, terms_of_stories
from untildone.domain.checks.checks import Level, parse
from untildone.domain.checks.terms import all_written
from untildone.domain.costs.budget import Budget
from untildone.domain.errors import UserError
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Origin, Run, Status
from untildone.domain.run.run_commands import CHECK, run_commands
from untildone.domain.run.run_endings import iterations_used
from untildone.domain.run.spending import still_over
from untildone.domain.run.user_requests import waits_for_person
from untildone.domain.stories.parking import ALL, NAMED, unasked
from untildone.domain.stories.story import Story, StoryBook, StoryKey
from untildone.ports import StorySource
from untildone.settings.settings import Settings
from untildone.wiring.agents import agent_options_of, check_agents, with_holds
from untildone.wiring.learnings import store_of
from untildone.wiring.repository import Repository
from untildone.wiring.sandbox import settled
from untildone.wiring.sources import source_of
from untildone.wiring.worktrees import has_ended, lacks_worktree, refuse_ignored, user_place

_LONGEST = 80


class Asking(Struct, frozen=True):
    """Whether somebody can be asked, and whether the process was told to end meanwhile.

    A dry run calls nobody, so an agent that is not installed is only told.
    """

    at_terminal: bool
    signalled: Callable[[], bool]
    dry_run: bool = False


class Ready(Struct, frozen=True):
    """A run that may start. `idle` says why there is nothing to do, if that is so."""

    prepared: Prepared
    origin: Origin
    idle: str = ""


def ready(
    repo: Repository, settings: Settings, wanted: Wanted, change: str, asking: Asking
) -> Ready:
    """A new run with everything checked; whatever is wrong is an error before the first change."""
    git = repo.git(asking.signalled)
    origin = preflight(git, repo.place, change)
    _refuse_elsewhere(repo, change)
    run_id = new_run_id(repo.home, repo.clock.now())
    prepared = prepare(repo.place.top, settings, wanted, change, run_id)
    idle = _nothing_to_do(prepared, repo.place.top)
    if idle:
        return Ready(prepared, origin, idle)
    refuse_unknown_stories(prepared.plan, prepared.book)
    trusted, top = settings.trust_story_checks, repo.place.top
    terms = terms_of_stories(prepared.book, top, git, origin, trusted=trusted)
    plan = with_holds(replace(prepared.plan, terms=terms))
    missing = installed_agents(plan, repo.place.top, settings, dry_run=asking.dry_run)
    if not wanted.include_flagged:
        refuse_flagged(repo, git, prepared.plan.limits.max_file_mb, asking)
    store = store_of(settings.learnings, repo.place, change)
    plan = with_files(replace(plan, learnings=store), repo.place.top)
    plan, remarks = settled(plan, repo.processes, repo.place.top)
    plan, decided = _with_lanes(repo, git, plan, asking)
    judged = at_start(plan, prepared.book, top, strict=settings.strict)
    refuse_missing_programs(plan)
    if plan.checkpoint == "worktree":
        stories = prepared.source.load().path if prepared.source else ""
        refuse_ignored(repo, (stories, plan.prompt_template, plan.script))
    if plan.on_complete == "pr":
        from untildone.commands.pull_request import ready_to_hand_over

        remarks += ready_to_hand_over(git, origin, plan, prepared.book, settings.forge)
    bare = guarding_nothing(plan, repo.place.top)
    warnings = (*prepared.warnings, *judged, *missing, *remarks, *decided, *not_obeyed(plan))
    warnings = (*warnings, *hiding_failures(plan))
    warnings = (*warnings, *missing_scripts(plan, repo.place.top), *bare)
    return Ready(replace(prepared, plan=plan, warnings=warnings), origin)


def _with_lanes(
    repo: Repository, git: Git, plan: Plan, asking: Asking
) -> tuple[Plan, tuple[str, ...]]:
    """The plan with what is decided about lanes now; somebody at a terminal is asked."""
    if plan.lanes == 1:
        return plan, ()
    from untildone.adapters.slots.clone import refuse_what_needs_more
    from untildone.adapters.slots.landing import check_git
    from untildone.commands.start.lanes import with_lanes

    check_git(git)
    if plan.slots == "clone":
        refuse_what_needs_more(git, "HEAD")
    person = Person(repo.inbox, "ask", at_terminal=asking.at_terminal)
    return with_lanes(repo, plan, person.agrees if asking.at_terminal else None)


def installed_agents(
    plan: Plan,
    top: Path,
    settings: Settings,
    finished: Set[StoryKey] = frozenset(),
    *,
    dry_run: bool = False,
) -> tuple[str, ...]:
    """Refuse a plan whose agents are not all there; a dry run only says which are not."""
    missing = check_agents(plan, top, agent_options_of(settings).env, finished)
    if missing and not dry_run:
        raise missing[0]
    return tuple(f"{error.message}. {error.hint}" for error in missing)


def _refuse_elsewhere(repo: Repository, change: str) -> None:
    if not has_no_refs(repo.place.common_dir, "refs/ralph/work"):
        from untildone.commands.leftovers import refuse_elsewhere

        refuse_elsewhere(repo, change)


def branch_of_run(repo: Repository, run: Run | None) -> str:
    """The branch of the newest run if it has none of its own and has not ended, else HEAD's."""
    if run and run.plan.checkpoint == "stash" and not (run.closed or run.abandoned):
        return f"ralph/{run.plan.change_id}"
    return head_of(repo.place.git_dir)[0]


def goes_on(repo: Repository, newest: Run | None, branch: str, change: str) -> bool:
    """Whether `run` goes on with the run of this branch instead of starting one."""
    undone = newest is not None and newest.plan.change_id == change and lacks_worktree(repo, newest)
    return branch == f"ralph/{change}" or undone or bool(user_of(repo.place))


def run_of_branch(repo: Repository, newest: Run | None, change: str, task: str) -> Run:
    """The run to go on with; a task that is given has to be its own."""
    run = _run_of(repo, newest, change)
    if run is None:
        raise UserError(
            f"The worktree is on `ralph/{change}`, but no run of it is recorded here",
            state="Nothing was changed.",
            hint="Check out the branch to start from, then `untildone run` again.",
        )
    if task and task.strip() != run.plan.task.strip():
        back = run.origin.label if run.origin else "your branch"
        raise UserError(
            f"This is the run of `{change}`, and its task is another one: {_short(run.plan.task)}",
            state="Nothing was changed.",
            hint=f"`untildone resume {change}` goes on with it; for the new task `git checkout "
            f"{back}`, or give it a name of its own: `untildone run NAME --task … --done promise`",
        )
    return run


def _run_of(repo: Repository, newest: Run | None, change: str) -> Run | None:
    """The newest run of a change, without a second look at the newest of all."""
    known = newest and newest.plan.change_id == change
    return newest if known else repo.latest(change)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def refuse_unfinished(repo: Repository, newest: Run | None, branch: str) -> None:
    """Another run of this worktree that has not ended comes first."""
    if not branch.startswith("ralph/"):
        return
    other = branch.removeprefix("ralph/")
    run = _run_of(repo, newest, other)
    if run and not run.closed and not run.abandoned:
        raise UserError(
            f"The run of `{other}` in this worktree has not ended: it comes first",
            state="Nothing was changed.",
            hint=f"`untildone resume {other}`, or `untildone finish {other} cleanup`",
        )


def refuse_ended(run: Run) -> None:
    plan = run.plan
    if run.restored:
        raise UserError(
            f"The run of `{plan.change_id}` was restored, it cannot go on",
            state="Nothing was changed.",
            hint=restored_hint(run),
        )
    if has_ended(run):
        back = run.origin.label if run.origin else "your branch"
        raise UserError(
            f"The run of `{plan.change_id}` was ended, it cannot go on",
            state="Nothing was changed.",
            hint=f"`git checkout {back}`, then `untildone run {plan.change_id}`",
        )


def refuse_missing_programs(plan: Plan) -> None:
    """A check that cannot start would fail every attempt, each of them paid for."""
    for found in run_commands(plan):
        check = parse(found.command)
        missing = missing_program(check.command) if found.what == CHECK else ""
        if missing and check.level is Level.REQUIRED:
            raise UserError(
                f"A check cannot start, there is no program `{missing}` here: `{check.command}` "
                f"({found.origin})",
                state="Nothing was changed.",
                hint=check_hint(plan.change_id),
            )


def plan_to_go_on(
    repo: Repository,
    run: Run,
    settings: Settings,
    flags: dict[str, object],
    detected: Mapping[str, str],
) -> Plan:
    """The plan of a run that goes on, with the given flags and a new cap."""
    source = source_of(run.plan, repo.place.top)
    book = source.load() if source and not run.archived else None
    if book and not run.plan.plain and not repo.inbox.waiting():
        _refuse_waiting(run, book)
    plan = renewed(run.plan, settings, flags, iterations_used(run), book, detected)
    refuse_unknown_stories(plan, book)
    if flags.get("learnings") is not None:
        place = user_place(repo.place) or repo.place
        store = store_of(settings.learnings, place, plan.change_id)
        plan = replace(plan, learnings=store)
    if book and flags.get("trust_story_checks"):
        plan = replace(plan, terms=all_written(book))
    if _decides(plan) == _decides(run.plan):
        return with_holds(plan)
    refuse_missing_programs(plan)
    return with_files(with_holds(plan), repo.place.top)


def story_of(book: StoryBook, story_id: str) -> Story:
    """The story with this id; an unknown one is an error that names near ones."""
    found = next((story for story in book.stories if story.id == story_id), None)
    if found:
        return found
    from difflib import get_close_matches

    near = get_close_matches(story_id, [story.id for story in book.stories], n=3, cutoff=0.3)
    meant = f"; did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else ""
    raise UserError(
        f"There is no story `{story_id}` in {book.path}{meant}",
        state="Nothing was changed.",
        hint=f"`untildone stories {book.change}` lists them",
    )


def refuse_unknown_stories(plan: Plan, book: StoryBook | None) -> None:
    """The stories of `--story` are there, and nothing else that is open keeps them waiting."""
    if not plan.only or ALL in plan.only:
        return
    if book is None or plan.plain:
        raise UserError(
            "`--story` picks stories, and this run has none",
            state="Nothing was changed.",
            hint=f"untildone run {plan.change_id}",
        )
    for name in plan.only:
        story_of(book, name)
    _refuse_selection(plan, book)


def _refuse_selection(plan: Plan, book: StoryBook) -> None:
    others = unasked(book, plan.only, deps=plan.with_deps)
    opened = book.open_stories(frozenset())
    missing = {story.id for story in opened if story.key in others}
    if opened and len(missing) == len(opened):
        raise UserError(
            f"Done already: {', '.join(plan.only)}; open: {', '.join(sorted(missing)[:NAMED])}",
            state="Nothing was changed.",
            hint=f"`untildone stories {plan.change_id}` lists them; `--story all` runs every one",
        )
    for story in (story for story in opened if story.id not in missing):
        if needed := missing.intersection(story.depends_on):
            raise UserError(
                f"Story {story.id} depends on {', '.join(sorted(needed))}, which would not be run",
                state="Nothing was changed.",
                hint=f"untildone run {plan.change_id} --story {story.id} --with-deps",
            )


def _decides(plan: Plan) -> tuple[object, ...]:
    """What makes other files worth protecting."""
    return plan.verify, plan.story_verify, plan.terms, plan.protect_checks


def _refuse_waiting(run: Run, book: StoryBook) -> None:
    """A run whose open stories all wait for the person cannot go on by itself."""
    waiting, change = waits_for_person(run, book), run.plan.change_id
    if not waiting:
        return
    rows = [
        f"story {key[0]} {STATE_OF[why]}: {next_command(change, key[0], why)}"
        for key, why in waiting.items()
    ]
    raise UserError(
        f"Every open story of `{change}` waits for you, or for one that does",
        state="Nothing was changed.",
        hint="\n  ".join(rows[:NAMED]),
    )


def refuse_spent(run: Run, more: tuple[Budget, ...], top: Path) -> None:
    """A run whose budget is used up does not go on before it has a higher one."""
    if run.status is Status.DONE and not run.closed:
        return  # only the choice is missing
    if not more and any(lane.iteration for lane in run.lanes):
        return  # an attempt that was cut short is settled first, then the loop stops by itself
    over = still_over(replace(run, plan=run.plan.with_budgets(more)))
    if over and (run.plan.plain or not nothing_open(run, top)):
        raise UserError(
            over.said,
            state="Nothing was changed.",
            hint=f"untildone resume {run.plan.change_id} --budget {over.enough}",
        )


def cut_short_closing(run: Run | None) -> bool:
    """Whether a loop was killed while it carried out the choice: the rest of it comes first."""
    return bool(run and run.origin and run.choice and not run.closed and not run.abandoned)


def nothing_open(run: Run, top: Path) -> bool:
    source = None if run.archived else source_of(run.plan, top)
    book = source.load() if source else None
    return book is None or not (book.open_stories(run.finished) or book.unfinished)


def all_done(change: str) -> str:
    """The sentence for a change with nothing left to do."""
    return f"All stories of `{change}` are done; nothing was changed."


def _nothing_to_do(prepared: Prepared, top: Path) -> str:
    plan = prepared.plan
    if prepared.source and prepared.source.name == "openspec":
        from untildone.adapters.stories.openspec import archived

        if there := archived(top, plan.change_id):
            return f"The change `{plan.change_id}` is archived ({there}); nothing was changed."
    if prepared.open_stories == 0:
        _refuse_unrunnable(prepared)
        later = f" Nor archived: `openspec archive {plan.change_id}` does that without a run."
        return all_done(plan.change_id) + later * plan.archive
    if plan.plain and prepared.source and _all_ticked(prepared.source):
        return "Every box of tasks.md is ticked; nothing was changed. `--done manual` runs anyway."
    return ""


def _refuse_unrunnable(prepared: Prepared) -> None:
    """What is left cannot be run: that is not the same as nothing being left."""
    left = prepared.source.load().unfinished if prepared.source else ""
    if left:
        hint = unfinished_hint(prepared.plan.change_id, "run")
        raise UserError(left, state="Nothing was changed.", hint=hint)


def _all_ticked(source: StorySource) -> bool:
    book = source.load()
    return 0 < book.total == book.complete


def refuse_flagged(repo: Repository, git: Git, max_file_mb: float, asking: Asking) -> None:
    """Large files and secrets need a person's yes; nothing is written to find them.

    A signal at the question is no answer: it is in the inbox, for the caller to see.
    """
    guard, top = Guard.of(max_file_mb), repo.place.top
    git.use_disk(repo.place, only_look=True)
    flags = unfiltered(git, guard.check_all(top, new_files(git, repo.place)))
    if not flags:
        return
    person = Person(repo.inbox, "ask", at_terminal=asking.at_terminal)
    agreed = asking.at_terminal and person.agrees(_question(flags))
    if not agreed and not asking.signalled():
        raise _refusal(flags)


def _question(flags: tuple[Flag, ...]) -> str:
    rows = "".join(f"  {flag}\n" for flag in flags)
    return (
        f"These untracked files would be committed as part of the initial state:\n{rows}"
        "Take them along? (y, or n: nothing is changed) "
    )


def _refusal(flags: tuple[Flag, ...]) -> UserError:
    rows = "".join(f"\n  {flag}" for flag in flags)
    return UserError(
        f"Untracked files that are large or look like secrets would be committed:{rows}",
        state="Nothing was changed.",
        hint="Add them to .gitignore (or .git/info/exclude; after `git add -N` also `git rm "
        "--cached`), or take them along with `--include-flagged`; `--max-file-mb` sets the largest "
        "size",
    )
