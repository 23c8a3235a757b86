"""Undo: the newest operation in this worktree is taken back, and that is an operation too."""

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from untildone.adapters.checkpoints.undo import moved_since
from untildone.adapters.checks.clean_checkout import CleanCheckout
from untildone.adapters.git.repository import head_ref, move_stale_locks
from untildone.adapters.records import journal as journals
from untildone.adapters.records.operations import Begun, Operation, OperationLog
from untildone.adapters.stories.story_file import PlanFiles
from untildone.app.recovery import UNDO_STORY, facts_before, story_base
from untildone.domain.errors import StoriesError, UserError
from untildone.domain.run import fact as f
from untildone.domain.run.landing import Conflict
from untildone.domain.run.run import RESTORED, Iteration, Outcome, Run
from untildone.domain.stories.story import StoryKey, as_before, open_tasks
from untildone.ports import RunBranch, StorySource
from untildone.wiring.build import build_closing
from untildone.wiring.repository import Repository
from untildone.wiring.sources import source_of
from untildone.wiring.worktrees import others


def operations(repository: Repository) -> list[Operation]:
    """Everything that was changed in this worktree, oldest first."""
    return OperationLog(repository.home).all()


def undo(repository: Repository, change: str = "") -> Operation:
    """Take back the newest operation; returns it. One of another change is left alone."""
    repository.lock.take("undo")
    try:
        cut_short = finish_begun(repository)
        if cut_short and cut_short.undone:
            return cut_short.undone  # that undo is what was asked for
        return _undo(repository, change)
    finally:
        repository.lock.release()


def _undo(repository: Repository, change: str) -> Operation:
    operation = _newest(repository, OperationLog(repository.home).all())
    if change not in ("", operation.change):
        raise UserError(
            f"The newest change here is the {operation.name} of `{operation.change}`, "
            f"not one of `{change}`",
            state="Nothing was changed.",
            hint=f"`untildone undo {operation.change}` takes that back; `untildone undo --list`",
        )
    run = repository.replay(operation.run_id)
    assert run is not None
    _refuse_open(run)
    facts = sum(1 for _ in journals.replayed(repository.folder(operation.run_id).journal))
    closing = build_closing(repository, run.plan)
    closing.undo(operation, facts, partial(tell, repository))
    return operation


def undo_story(
    repository: Repository, change: str, story_id: str, warn: Callable[[str], None]
) -> Operation:
    """Take the work of one finished story out again; what came after it stays."""
    repository.lock.take("undo")
    try:
        cut_short = finish_begun(repository)
        begun = cut_short.operation if cut_short else None
        if begun and (begun.name, begun.story) == (UNDO_STORY, story_id):
            return begun
        run = repository.needed(change)
        taken = _undo_story(repository, run, story_id)
        if _is_done(source_of(run.plan, repository.place.top), story_id):
            warn(f"Story {story_id} is still marked as done in {run.plan.source}: open it by hand")
        return taken
    finally:
        repository.lock.release()


def _undo_story(repository: Repository, run: Run, story_id: str) -> Operation:
    _refuse_open(run)
    kept = _kept(run, story_id)
    branch = _run_branch(repository, run)
    facts = list(journals.replayed(repository.folder(run.plan.run_id).journal))
    change, commit, tip = run.plan.change_id, kept.commits[-1], branch.tip()
    base = story_base(facts, commit)
    if not base or not branch.builds_on(commit):
        raise UserError(
            f"The commit of story {story_id}, {commit[:12]}, is not on `ralph/{change}`",
            state="Nothing was changed.",
            hint=f"git log ralph/{change}",
        )
    source = source_of(run.plan, repository.place.top)
    beside = sorted(source.load().files) if source else []
    merged = branch.merge(tip, commit, base, beside)
    if isinstance(merged, Conflict):
        met = "; ".join(one.subject for one in merged.met)
        raise UserError(
            f"Story {story_id} cannot be taken out alone: what came after it changed the same "
            f"places, in: {', '.join(merged.files)}",
            state=f"Nothing was changed. What came after it there: {met}.",
            hint=f"`git -C {repository.place.top} revert {commit[:12]}` lets you decide by hand",
        )
    opened = _opened(repository, run, kept.story_key, branch, (merged.tree, tip, base))
    message = f"undo: {story_id}\n\nTakes back {commit}\n"
    candidate = branch.candidate(tip, merged.tree, message, opened)
    closing = build_closing(repository, run.plan)
    closing.advance(UNDO_STORY, story_id, candidate, len(facts), partial(tell, repository))
    return operations(repository)[-1]


def _kept(run: Run, story_id: str) -> Iteration:
    """The call whose work is to be taken out."""
    change = run.plan.change_id
    done = [it for it in run.iterations if it.story_key in run.finished and it.commits]
    found = [it for it in done if it.story_id == story_id and it.outcome is Outcome.COMPLETE]
    if found and run.plan.checkpoint != "stash":
        return found[-1]
    known = ", ".join(dict.fromkeys(it.story_id for it in done)) or "none"
    why = f"The last run of `{change}` has not finished a story {story_id}; those it has: {known}"
    if found:
        why = "`--checkpoint stash` makes no commits, so that no single story can be taken out"
    raise UserError(why, state="Nothing was changed.", hint=f"untildone stories {change}")


def _run_branch(repository: Repository, run: Run) -> RunBranch:
    """The branch of a run, with the worktree on it."""
    from untildone.wiring.lanes import run_branch

    change = run.plan.change_id
    if head_ref(repository.place) != f"refs/heads/ralph/{change}":
        raise UserError(
            f"This worktree is not on `ralph/{change}`: {repository.place.top}",
            state="Nothing was changed.",
            hint=f"git checkout ralph/{change}, or `untildone undo {change}` after a cleanup",
        )
    return run_branch(repository, run.plan, repository.git())


def _opened(
    repository: Repository, run: Run, key: StoryKey, branch: RunBranch, trees: tuple[str, str, str]
) -> dict[str, bytes | None]:
    """The files with the tasks of a story open that were so before it.

    `trees`: where it is taken out, the tip, and where it began. Read in a checkout of their own.
    """
    tree, tip, base = trees
    git, folder = repository.git(), repository.folder(run.plan.run_id).path
    room = CleanCheckout(git, repository.place, folder)
    try:
        top = Path(room.make(tree, tip))
        source, files = source_of(run.plan, top), PlanFiles(top)
        if source is None:
            return {}
        now = source.load()
        wanted = files.read(now.files)
        for path, data in branch.read(branch.tree_of(base), now.files).items():
            files.write(path, data)
        began = open_tasks(source.load())
        for path, data in wanted.items():
            files.write(path, data)
        others = {story.key for story in now.stories} - {key}
        source.take_back(as_before(now, began, others))
        return {path: data for path, data in files.read(wanted).items() if data != wanted[path]}
    finally:
        room.remove()


def finish_begun(
    repository: Repository, warn: Callable[[str], None] = lambda text: None
) -> Begun | None:
    """Finish what a killed command has begun here; whoever takes the lock calls this."""
    log = OperationLog(repository.home)
    begun = log.begun()
    # Git was killed with it. The user's own may hold the index for as long as an editor is open.
    for lock in move_stale_locks(repository.place, repository.home / "aside", index=bool(begun)):
        warn(f"Moved a lock aside that a killed git command had left: {lock}")
    run = repository.replay(begun.operation.run_id) if begun else None
    if begun is None or run is None:
        log.drop()
        return None
    stored = build_closing(repository, run.plan).finish(begun, partial(tell, repository))
    name, change = begun.operation.name, begun.operation.change
    warn(f"The {name} of `{change}` that was cut short was finished; stored before: {stored}")
    return begun


def tell(repository: Repository, begun: Begun) -> None:
    """What the run has to know of an operation; once only, whoever was killed over it."""
    operation = begun.operation
    run = repository.replay(operation.run_id)
    if run is None:
        return
    if operation.name == "restore":
        _tell_restore(repository, run, operation)
    if operation.name == UNDO_STORY:
        _tell_story(repository, run, operation)
    if begun.undone is None:
        return
    path = repository.folder(operation.run_id).journal
    facts = [fact for fact, _ in journals.replayed(path)]
    told = _told(begun.undone, facts) if len(facts) == operation.facts else None
    if told:
        journal = journals.Journal(path)
        journal.record(told, (), repository.clock.now())
        journal.close()
    after = repository.replay(operation.run_id)
    if after:
        repository.write_dead(after)


def _tell_story(repository: Repository, run: Run, operation: Operation) -> None:
    path = repository.folder(operation.run_id).journal
    if sum(1 for _ in journals.replayed(path)) > operation.facts:
        repository.write_dead(run)
        return
    key = _kept(run, operation.story).story_key
    with contextlib.suppress(StoriesError):  # the command says what is still to be opened by hand
        _open_in_place(source_of(run.plan, repository.place.top), key)
    (tip,) = operation.after.refs.values()
    repository.note(run, f.StoryUndone(key, tip))


def _open_in_place(source: StorySource | None, key: StoryKey) -> None:
    """Stories that no commit holds: a tracker's, or those of a file that git ignores."""
    book = source.load() if source else None
    story = book.find(key) if book else None
    if source and book and story and story.done:
        began = [[*key, *(task.text for task in story.tasks)]]
        source.take_back(as_before(book, began, frozenset()))


def _is_done(source: StorySource | None, story_id: str) -> bool:
    """Whether a story is still called done where it stands, or nobody can tell."""
    try:
        stories = source.load().stories if source else ()
    except StoriesError:
        return True
    return any(story.done for story in stories if story.id == story_id)


def _tell_restore(repository: Repository, run: Run, operation: Operation) -> None:
    git, plan = repository.git(), run.plan
    if plan.checkpoint == "stash":
        from untildone.adapters.checkpoints.stash import remove_traces

        remove_traces(git, plan.change_id, plan.run_id)
    if not run.abandoned:
        refs = git.refs(f"refs/ralph/archive/{plan.change_id}/")
        stored = (name for name, ref in refs.items() if ref.commit == operation.before.files)
        repository.abandon(run, f"{RESTORED}; the state before is stored as {next(stored, '')}")


def _newest(repository: Repository, known: list[Operation]) -> Operation:
    """The newest operation that came about; a crash may have come before it could."""
    git, place = repository.git(), repository.place
    for operation in reversed(known):
        if repository.replay(operation.run_id) is None:
            continue
        if not moved_since(git, place, operation) or operation is known[-1]:
            return operation
    own = (o.place.top for o in others(repository) if o.place.top.exists() and operations(o))
    hints = (f"cd {top} && untildone undo" for top in own)
    raise UserError(
        "There is nothing to undo in this worktree", hint=next(hints, "untildone status")
    )


def _refuse_open(run: Run) -> None:
    if any(lane.iteration for lane in run.lanes):
        change = run.plan.change_id
        raise UserError(
            f"The run of `{change}` was cut short in an attempt, which comes first",
            state="Nothing was changed.",
            hint=f"`untildone resume {change}`, or `untildone finish {change} keep`",
        )


def _told(operation: Operation, facts: list[f.Fact]) -> f.Fact | None:
    """What the run's journal has to know of it."""
    if operation.name == "undo":
        return f.TakenBack(operation.facts)
    if operation.name == "start":
        return f.Abandoned("the start was undone")
    position = facts_before(operation.name, operation.after.files, facts)
    return None if position is None else f.TakenBack(position)
