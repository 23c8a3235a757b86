"""What the person asks of a run: sent to its live loop, or written down for the next one."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from untildone.adapters.git.repository import STATE_FILE
from untildone.adapters.records import journal as journals
from untildone.adapters.records.inbox import POLL_S, send, wish
from untildone.commands.start.early_guidance import book_of, is_early, open_story, store, waiting
from untildone.commands.start.plan import given_budgets
from untildone.commands.start.start_checks import refuse_ended, refuse_spent
from untildone.domain.errors import CloseRefused, StoriesError, UserError
from untildone.domain.run import fact as f
from untildone.domain.run.machine import apply
from untildone.domain.run.plan import Done
from untildone.domain.run.run import Run
from untildone.domain.run.user_requests import same_words
from untildone.domain.stories.parking import Why
from untildone.domain.stories.story import StoryBook, StoryKey
from untildone.wiring.repository import Repository, at, read_state
from untildone.wiring.sources import source_of
from untildone.wiring.worktrees import user_place

STOP_WAIT_S = 15.0
CHOICE_WAIT_S = 120.0
ANSWER_WAIT_S = 15.0
PAUSED = "waiting_budget"


def stop(repository: Repository, change: str, how: str, patience: float = STOP_WAIT_S) -> str:
    """Ask the live loop to stop; for `now`, wait until it has."""
    state = live(repository, change)
    post(repository, state, {"kind": "stop", "how": how})
    if how != "now":
        return (
            f"The loop over {state['change_id']} will stop {how.replace('-', ' the current ', 1)}."
        )
    if _gone(repository, patience):
        return f"Stopped. `untildone resume {state['change_id']}` goes on."
    return "The loop was asked to stop and is still finishing; see `untildone status`."


def send_choice(repository: Repository, change: str, choice: str) -> None:
    """The choice for a loop that waits for it; one that it refuses is a CloseRefused."""
    state = live(repository, change)
    user = user_place(repository.place)
    refuse_agent(state.get("run_id"))
    if state.get("phase") != "awaiting_choice":
        waits = state.get("phase") == "awaiting_person"
        word = f"untildone done {change}" if waits else f"`untildone stop {change}` first, or wait"
        raise UserError(f"The loop over {change} is not at its end yet", hint=word)
    post(repository, state, {"kind": "choice", "choice": choice})
    if not _gone(repository, CHOICE_WAIT_S):
        raise UserError(
            "The loop has not carried out the choice yet",
            state=f"It was told to {choice} and is still at it.",
            hint="untildone status",
        )
    # After cleanup, a worktree that was made for the run is gone and the user's has its record.
    after = repository.latest(change) or (at(user).latest(change) if user else None)
    if not after or after.choice != choice:
        raise _refused(repository, str(state.get("run_id")), change, choice)


def _refused(repository: Repository, run_id: str, change: str, choice: str) -> CloseRefused:
    """Why the loop did not carry out the choice, in its own words."""
    path = repository.folder(run_id).journal
    facts = [fact for fact, _ in journals.replayed(path)] if path.exists() else []
    last = facts[-1] if facts else None
    if isinstance(last, f.Refused | f.StepFailed):
        return CloseRefused(last.message, hint=last.hint)
    return CloseRefused(
        f"The loop over {change} ended before it carried out the choice",
        state="Nothing was changed by it.",
        hint=f"untildone finish {change} {choice}",
    )


def send_done(repository: Repository, change: str) -> None:
    state = live(repository, change)
    refuse_agent(state.get("run_id"))
    run = repository.latest(change)
    if run and not run.plan.plain and run.plan.done is not Done.MANUAL:
        raise UserError(
            f"The run of `{change}` ends when its stories are done, not by `untildone done`",
            hint=f"`untildone stop {change}` stops it; `done` is for a run with `--done manual`",
        )
    post(repository, state, {"kind": "done"})


def refuse_agent(run_id: object) -> None:
    """Refuse a decision that an agent tries to make about its own run."""
    if run_id and os.environ.get("UNTILDONE_RUN_ID") == run_id:
        raise UserError(
            "This decision belongs to the person who runs the loop, not to its agent",
            state="Nothing was changed.",
            hint="End with a promise instead; `untildone status` only looks.",
        )


def live(repository: Repository, change: str) -> dict[str, object]:
    """The state of the loop that runs here; none, or another change's, is a UserError."""
    state = read_state(repository.place.top / STATE_FILE)
    if not repository.alive() or state is None:
        what = f"No loop over {change} is running" if change else "No loop is running"
        raise UserError(f"{what} in this worktree", hint="untildone status")
    if change and state.get("change_id") != change:
        raise UserError(
            f"The live loop of this worktree works on another change: {state.get('change_id')}",
            hint="untildone status",
        )
    return state


def post(repository: Repository, state: dict[str, object], message: Mapping[str, object]) -> None:
    pid = state.get("pid")
    send(repository.inbox.folder, pid if isinstance(pid, int) else 0, message)


def _gone(repository: Repository, seconds: float) -> bool:
    end = repository.clock.monotonic() + seconds
    while repository.alive():
        if repository.clock.monotonic() >= end:
            return False
        repository.inbox.wake.wait(POLL_S / 20)
    return True


def raise_budget(repository: Repository, change: str, flags: Mapping[str, object]) -> str:
    """`resume --budget` gives a live loop its new budgets; empty if this is no such call."""
    state = read_state(repository.place.top / STATE_FILE) if repository.alive() else None
    if state is None:
        return ""
    more = given_budgets(flags)
    given = {name for name, value in flags.items() if value not in (None, ())}
    paused = state.get("phase") == PAUSED
    if given - {"budget"} or not (more or paused):
        return ""
    state = live(repository, change)
    refuse_agent(state.get("run_id"))
    run = repository.needed(str(state["change_id"]))
    refuse_spent(run, more, repository.place.top)
    if not more:
        return ""  # somebody else was quicker
    texts = [budget.written for budget in more]
    post(repository, state, {"kind": "budget", "budget": ",".join(texts)})
    words = ", ".join(texts)
    if not paused:
        return f"The loop over {run.plan.change_id} holds to {words} after the current call."
    if _leaves_pause(repository):
        return f"The loop over {run.plan.change_id} goes on with {words}."
    return "The loop was told and has not answered yet; see `untildone status`."


def _leaves_pause(repository: Repository) -> bool:
    end = repository.clock.monotonic() + ANSWER_WAIT_S
    while repository.clock.monotonic() < end:
        state = read_state(repository.place.top / STATE_FILE) or {}
        if state.get("phase") != PAUSED:
            return True
        repository.inbox.wake.wait(POLL_S / 20)
    return False


class Said(Struct, frozen=True):
    """One thing to know: for these stories, or for all of them."""

    text: str
    story_ids: tuple[str, ...] = ()


class Early(Struct, frozen=True):
    """What the next run of a change will be told: there is none yet."""

    change: str
    guidance: tuple[f.Guided, ...]

    def sentences(self, text: str) -> Iterator[str]:
        """What came of it, after its first sentence."""
        yield text
        yield f"Next: `untildone run {self.change}`"


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

    def sentences(self, text: str, *, goes_on: bool = True) -> Iterator[str]:
        """What came of it, after its first sentence."""
        yield text
        if self.released:
            yield f"Retried: {', '.join(self.released)}."
        if same := self.ask_the_same:
            stories = " ".join(f"--story {story_id}" for story_id in same)
            yield f"The same is asked by: {', '.join(same)}. To answer them, too:"
            yield f'  untildone guide {self.change} {stories} "your answer"'
        elif self.asking and not self.released:
            yield f"Still waiting for an answer of their own: {', '.join(self.asking)}."
        if not self.live and goes_on:
            yield f"Next: `untildone resume {self.change}`"


def guide(repository: Repository, change: str, *said: Said) -> Heard | Early:
    """Words for the next prompts, of all stories or of some; they may answer a question."""
    if not all(piece.text.strip() for piece in said):
        raise UserError(
            "There is no guidance in the text", hint=f'untildone guide {change} "what to know"'
        )
    if is_early(repository.latest(change)):
        refuse_agent(os.environ.get("UNTILDONE_RUN_ID"))
        keyed = _guided(said, lambda story_id: open_story(repository, change, story_id))
        book_of(repository, change)  # a change that is not known has no next run
        store(repository, change, (*waiting(repository, change), *keyed))
        return Early(change, waiting(repository, change))
    run = _run(repository, change)
    return _say(repository, run, *_guided(said, lambda id: _open_key(repository, run, id)))


def _guided(said: Iterable[Said], key_of: Callable[[str], StoryKey]) -> list[f.Guided]:
    keyed: list[tuple[str, StoryKey | None]] = []
    for piece in said:
        keys: list[StoryKey | None] = [key_of(story_id) for story_id in piece.story_ids]
        keyed += [(piece.text.strip(), key) for key in keys or [None]]
    stamp = f"{time.time_ns()}-{os.getpid()}"
    return [f.Guided(text, key, f"{stamp}-{n}") for n, (text, key) in enumerate(keyed)]


def clear(repository: Repository, change: str, story_ids: tuple[str, ...]) -> Heard | Early:
    """Guidance is taken back."""
    if is_early(repository.latest(change)):
        kept = [g for g in waiting(repository, change) if story_ids]
        left = tuple(g for g in kept if not (g.key and g.key[0] in story_ids))
        store(repository, change, left)
        return Early(change, left)
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
        after = run
        for fact in facts:
            post(repository, state, wish(run.plan.change_id, fact))
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
