"""Looking at runs, live or ended: state files, journals, stories, attempts."""

import os
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from untildone.adapters.git.disk_usage import bytes_of_objects
from untildone.adapters.git.history import FileHistory
from untildone.adapters.records import journal as journals
from untildone.adapters.stories.source_kind import NO_OPTIONS, Options
from untildone.commands.look.feed import Followed
from untildone.commands.run_account import told_account
from untildone.commands.start.plan import known_change
from untildone.domain.errors import UserError
from untildone.domain.plain_text import plain
from untildone.domain.reporting.account import Account
from untildone.domain.run.plan import MOST_LANES
from untildone.domain.run.run import Run
from untildone.domain.stories.predicted_files import Beside, beside
from untildone.domain.stories.story import Remark, Story, StoryBook
from untildone.glance import look
from untildone.plain_files import opened
from untildone.wiring.repository import Repository, here
from untildone.wiring.sources import changes, story_source
from untildone.wiring.worktrees import others

CHUNK = 1024 * 1024


def schema() -> str:
    """The JSON Schema of the state file."""
    return resources.files("untildone").joinpath("schemas/loop-state.v1.json").read_text()


def loops(repository: Repository) -> list[dict[str, object]]:
    """Every state file of this repository, after repairing what a dead loop left open."""
    for worktree in (repository, *others(repository)):
        worktree.repair()
    found = look(os.fspath(repository.place.top)) or []
    for loop in found:
        if not loop["alive"] and loop.get("status") in ("starting", "running"):
            # It could not be repaired: the disk is full, or the file may not be written.
            loop |= {"status": "stopped", "phase": "died", "died_at": loop["last_sign"]}
    return found


def weigh(repository: Repository, loops: list[dict[str, object]]) -> None:
    """Add to each loop how many attempts of its change are saved and what only they keep."""
    git = repository.git()
    for loop in loops:
        refs = git.refs(f"refs/ralph/attempts/{loop.get('change_id')}/")
        commits = {ref.commit for ref in refs.values()}
        loop["saved_attempts"] = len(refs)
        loop["saved_bytes"] = bytes_of_objects(git, commits) if commits else 0


def told(loop: dict[str, object]) -> tuple[Run, Account] | None:
    """What the journal of a loop's run tells; None where there is none any more."""
    repository, run_id = here(Path(str(loop["worktree"]))), str(loop.get("run_id") or "")
    if not run_id or not repository.folder(run_id).journal.exists():
        return None
    run, account, _ = told_account(repository, run_id)
    return run, account


def stories(
    repository: Repository, change: str, source: str, options: Options = NO_OPTIONS
) -> StoryBook:
    found = story_source(source, repository.place.top, change, options)
    if found is None:
        known_change(repository.place.top, change)
        raise UserError(
            f"The change has no tasks.md: {change}",
            hint=f"`untildone run {change}` works on it as a plain loop",
        )
    return found.load()


def may_run_beside(
    repository: Repository, book: StoryBook, *, optimistic: bool = False
) -> tuple[StoryBook, Beside]:
    """The book with the files that each story will probably change, and what may run at once."""
    book = FileHistory(repository.git(), book.change).predicted(book)
    return book, beside(book, MOST_LANES, optimistic=optimistic)


def beside_json(book: StoryBook, found: Beside) -> dict[str, object]:
    """What may run at once as `stories --graph --json` prints it."""
    return {
        "change": book.change,
        "source": book.source,
        "stories": [
            {
                "id": story.id,
                "title": story.title,
                "state": "done" if story.done else "open",
                "depends_on": list(story.depends_on),
                "parallel": story.parallel,
                "touches": list(story.touches),
                "predicted": list(story.predicted),
            }
            for story in book.stories
        ],
        "rounds": [[story.id for story in stories] for stories in found.rounds],
        "apart": [
            {"stories": [pair.one.id, pair.other.id], "cause": pair.cause, "why": pair.why}
            for pair in found.apart
        ],
        "unknown": [story.id for story in found.unknown],
    }


def changes_json(repository: Repository, source: str = "auto") -> list[dict[str, object]]:
    """Every change that could be run here, of this source or of all."""
    return [
        {
            "name": row.name,
            "source": row.source,
            "tasks": {"total": row.found.total, "complete": row.found.complete},
            "state": "broken" if row.found.why else "open" if row.found.open else "done",
            "why": row.found.why,
        }
        for row in changes(repository.place.top)
        if source in ("auto", row.source)
    ]


def book_json(book: StoryBook) -> dict[str, object]:
    """A story book as `stories --json` prints it."""
    return {
        "change": book.change,
        "source": book.source,
        "path": book.path,
        "tasks": {"total": book.total, "complete": book.complete},
        "stories": [
            *[_story_json(book, story) for story in book.stories],
            *[_story_json(book, record, opened="record") for record in book.records],
        ],
        "ignored": [_remark_json(book, remark) for remark in book.ignored],
        "problems": [_remark_json(book, remark) for remark in book.problems],
    }


def _story_json(book: StoryBook, story: Story, opened: str = "open") -> dict[str, object]:
    return {
        "id": story.id,
        "title": story.title,
        "state": "done" if story.done else opened,
        "depends_on": list(story.depends_on),
        "question": story.question,
        "priority": story.priority,
        "parallel": story.parallel,
        "acceptance": list(story.acceptance),
        "agent": story.agent,
        "model": story.model,
        "path": book.place(story),
        "line": story.line,
        "tasks": [
            {"id": task.id, "text": task.text, "done": task.done, "line": task.line}
            for task in story.tasks
        ],
    }


def _remark_json(book: StoryBook, remark: Remark) -> dict[str, object]:
    return {"line": remark.line, "why": remark.why, "path": remark.path or book.path}


def events(
    run: Followed, iteration: int | None, lane: int | None, *, follow: bool
) -> Iterator[dict[str, object]]:
    """The events of a run, of one iteration or lane if asked, on and on if followed."""
    current: dict[object, object] = {}
    for batch in run.batches(run.pause):
        for event in batch:
            own = event.get("lane", 0)
            if event["event"] == "iteration_started":
                current[own] = event["n"]
            if iteration in (None, current.get(own)) and lane in (None, own):
                yield event
        if not follow:
            return


def raw_output(
    repository: Repository, change: str, iteration: int | None, lane: int | None
) -> Iterator[str]:
    """The agent's raw output with everything a terminal would obey taken out."""
    run = run_of(repository, change)
    folder = repository.folder(run.plan.run_id)
    wanted = f"{iteration:04d}.log" if iteration else "*.log"
    paths = sorted((folder.path / "logs").glob(wanted))
    if lane is not None:
        begun = (e for e in journals.events(folder.journal) if e["event"] == "iteration_started")
        own = {f"{event['n']:04d}.log" for event in begun if event.get("lane", 0) == lane}
        paths = [path for path in paths if path.name in own]
    for path in paths:
        with opened(path) as file:
            while chunk := file.read(CHUNK):
                yield plain(chunk.decode(errors="replace"))


def run_of(repository: Repository, change: str) -> Run:
    run = repository.needed(change) if change else repository.latest()
    if run is None:
        raise UserError("No loop has run in this worktree yet", hint="untildone run")
    return run
