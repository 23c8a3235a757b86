"""What the person asks of a run: sent to its live loop, or written down for the next one."""

import os
import time

from msgspec import Struct

from untildone.adapters.git.repository import STATE_FILE
from untildone.adapters.records.inbox import send, wish
from untildone.commands.control import refuse_agent
from untildone.commands.start_checks import refuse_ended
from untildone.domain.errors import StoriesError, UserError
from untildone.domain.run import fact as f
from untildone.domain.run.machine import apply
from untildone.domain.run.run import Run
from untildone.domain.run.user_requests import same_words
from untildone.domain.stories.parking import Why
from untildone.domain.stories.story import StoryBook, StoryKey
from untildone.wiring.repository import Repository, read_state
from untildone.wiring.sources import source_of


class Heard(Struct, frozen=True):
    """Where a wish went, and the run as it will be with it."""

    before: Run
    after: Run
    live: bool

    @property
    def released(self) -> list[str]:
        """Stories that are retried because of it."""
        return [key[0] for key in self.before.parked if key not in self.after.parked]

    @property
    def ask_the_same(self) -> list[str]:
        """Stories that still wait for an answer to a question that was just answered."""
        then, now = self.before.parked, self.after.parked
        answered = {same_words(then[key].text) for key in then if key not in now}
        return [key[0] for key, p in now.items() if p.asks and same_words(p.text) in answered]

    @property
    def asking(self) -> list[str]:
        """Stories that wait for an answer."""
        return [key[0] for key, parked in self.after.parked.items() if parked.asks]

    @property
    def change(self) -> str:
        return self.after.plan.change_id


def guide(repository: Repository, change: str, story_ids: tuple[str, ...], text: str) -> Heard:
    """Words for the next prompts, of all stories or of some; they may answer a question."""
    if not text.strip():
        raise UserError(
            "There is no guidance in the text", hint=f'untildone guide {change} "what to know"'
        )
    run = _run(repository, change)
    keys: list[StoryKey | None] = [_open_key(repository, run, id) for id in story_ids]
    facts = (
        f.Guided(text.strip(), key, f"{time.time_ns()}-{os.getpid()}") for key in keys or [None]
    )
    return _say(repository, run, *facts)


def clear(repository: Repository, change: str, story_ids: tuple[str, ...]) -> Heard:
    """Guidance is taken back."""
    run = _run(repository, change)
    keys: list[StoryKey | None] = [_key(repository, run, id) for id in story_ids]
    return _say(repository, run, *map(f.GuidanceCleared, keys or [None]))


def skip(repository: Repository, change: str, story_id: str, why: str) -> Heard:
    """A story is skipped; its boxes stay open."""
    run = _run(repository, change)
    key = _open_key(repository, run, story_id)
    return _say(repository, run, f.StoryParked(key, Why.SKIPPED, why))


def retry(repository: Repository, change: str, story_id: str) -> Heard:
    """A story is retried with all its retries."""
    run = _run(repository, change)
    return _say(repository, run, f.StoryRetried(_open_key(repository, run, story_id)))


def reorder(repository: Repository, change: str, story_ids: tuple[str, ...]) -> Heard:
    run = _run(repository, change)
    keys = tuple(_open_key(repository, run, story_id) for story_id in story_ids)
    return _say(repository, run, f.StoriesReordered(keys))


# ---------------------------------------------------------------------------------------------


def _run(repository: Repository, change: str) -> Run:
    run = repository.needed(change)
    refuse_agent(run.plan.run_id)
    refuse_ended(run)
    return run


def _say(repository: Repository, run: Run, *facts: f.Fact) -> Heard:
    state = read_state(repository.place.top / STATE_FILE) or {}
    now = repository.clock.now()
    if repository.alive() and state.get("run_id") == run.plan.run_id:
        pid, after = state.get("pid"), run
        for fact in facts:
            message = wish(run.plan.change_id, fact)
            send(repository.inbox.folder, pid if isinstance(pid, int) else 0, message)
            after = apply(after, fact, now)
        return Heard(run, after, live=True)
    repository.lock.take(run.plan.change_id)
    try:
        run = after = repository.needed(run.plan.change_id)
        for fact in facts:
            after = repository.note(after, fact)
        return Heard(run, after, live=False)
    finally:
        repository.lock.release()


def _open_key(repository: Repository, run: Run, story_id: str) -> StoryKey:
    """The story with this id, if there is still something to do for it."""
    key = _key(repository, run, story_id)
    if key in run.finished:
        raise UserError(
            f"Story {story_id} is finished",
            state="Nothing was changed.",
            hint=f"`untildone undo {run.plan.change_id}` takes back the newest checkpoint; "
            "`untildone undo --list` shows all of them",
        )
    return key


def _key(repository: Repository, run: Run, story_id: str) -> StoryKey:
    known = next((key for key in (*run.parked, *run.finished) if key[0] == story_id), None)
    if known:
        return known
    source = None if run.plan.plain else source_of(run.plan, repository.place.top)
    if source is None:
        raise UserError(
            f"The run of `{run.plan.change_id}` has no stories",
            state="Nothing was changed.",
            hint=f'untildone guide {run.plan.change_id} "what to know"',
        )
    book = source.load()
    found = next((story for story in book.stories if story.id == story_id), None)
    if found is None:
        raise _unknown(book, story_id)
    if found.done:
        raise UserError(
            f"Story {story_id} is done already: all its boxes are ticked",
            state="Nothing was changed.",
            hint=f"untildone stories {book.change}",
        )
    return found.key


def _unknown(book: StoryBook, story_id: str) -> StoriesError:
    from difflib import get_close_matches

    near = get_close_matches(story_id, [story.id for story in book.stories], n=1, cutoff=0.3)
    meant = f"; did you mean `{near[0]}`?" if near else ""
    return StoriesError(
        f"There is no story `{story_id}` in {book.path}{meant}",
        state="Nothing was changed.",
        hint=f"`untildone stories {book.change}` lists them",
    )
