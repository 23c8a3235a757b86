"""What a worker does for a story: the loop itself, in a slot, then a push that overwrites nothing.

The branch on the remote is the ledger: a story whose commit is there is never done again, and a
push counts only if the branch is where it was when the story began.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from untildone.adapters.clock import monotonic
from untildone.adapters.git.push import RefPush, UsersGit, without
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Ended
from untildone.adapters.records import journal as journals
from untildone.commands.fleet.checkout import Checkout, Host, Task, as_flags, as_words
from untildone.commands.look import status
from untildone.commands.start import early_guidance
from untildone.domain.errors import Interrupted, StepError, UntildoneError
from untildone.domain.fleet.order import (
    ChangeOrder,
    LandResult,
    Stories,
    StoryOrder,
    StoryResult,
    StoryRow,
    Verdict,
)
from untildone.domain.plain_text import plain
from untildone.domain.run.fact import Guided, Opened
from untildone.domain.run.run import Run
from untildone.domain.secrets import redactor
from untildone.domain.stories.story import StoryBook, StoryKey
from untildone.settings.fleet import without_fleet
from untildone.settings.load import load
from untildone.wiring.repository import Repository
from untildone.wiring.sources import options_of

# After a stop the loop ends its agent and writes down what it did.
GRACE_S = 7.0
FEW_WORDS = 400
# So long a remote that does not answer is waited for with work that is done; tried so often.
PATIENCE_S, PAUSE_S = 3600.0, 3.0
REFUSALS = 3


class StoryWork:
    """The worker's side of every activity; each call is one thread's."""

    def __init__(self, host: Host, mark: tuple[str, str]) -> None:
        self._host, self._mark = host, mark

    def read(self, order: ChangeOrder, task: Task) -> Stories:
        """The stories of a change, those on the remote's branch as done."""
        with self._host.lane() as lane:
            checkout = Checkout(self._host, lane, order, task)
            try:
                repository, _ = checkout.at(checkout.tips.start, set_up=False)
                return Stories(_rows(repository, order, checkout.finished()), self._host.name)
            finally:
                checkout.close()

    def run(self, order: StoryOrder, task: Task) -> StoryResult:
        """One story, unless its commit is there already."""
        with self._host.lane() as lane:
            checkout = Checkout(self._host, lane, order.change, task)
            try:
                if commit := checkout.finished().get(order.story_id):
                    return StoryResult(
                        order.story_id, Verdict.SKIPPED, self._host.name, commit=commit
                    )
                return self._done(order, checkout, task)
            finally:
                checkout.close()

    def land(self, order: ChangeOrder, task: Task) -> LandResult:
        """A finished change onto its base branch."""
        from untildone.commands.fleet.land import land

        with self._host.lane() as lane:
            checkout = Checkout(self._host, lane, order, task)
            try:
                return land(checkout, self._host.name, task)
            finally:
                checkout.close()

    # -- one story -------------------------------------------------------------------------------

    def _done(self, order: StoryOrder, checkout: Checkout, task: Task) -> StoryResult:
        repository, variables = checkout.at(checkout.tips.start)
        _tell(repository, order)
        if task.is_stopped():
            raise Interrupted("The story was not begun")
        ended, words = self._loop(order, checkout, repository, variables, task)
        run = repository.latest(order.change.change_id)
        outcome = _Outcome.of(run, order.story_id, ended, words)
        if task.is_stopped() and outcome.verdict is not Verdict.DONE:
            checkout.rescued(checkout.tips.start)  # the remote may be out of reach
            raise Interrupted(f"The story {order.story_id} was ended on request")
        sent, rows = _Published(""), tuple[StoryRow, ...]()
        if run and outcome.verdict is Verdict.DONE:
            sent = self._published(checkout, repository, run, order.story_id, task)
            rows = _rows(repository, order.change, checkout.finished() | {order.story_id: ""})
        elif run:
            sent = _Published("", kept=self._kept(checkout, repository, run, order))
        return StoryResult(
            order.story_id,
            sent.verdict(outcome.verdict),
            self._host.name,
            outcome.reason or sent.reason,
            rows if sent.commit else (),
            sent.commit,
            outcome.calls,
            outcome.cost_usd,
            outcome.tokens,
            outcome.verified and bool(sent.commit),
            sent.kept,
            sent.refused,
        )

    def _loop(
        self,
        order: StoryOrder,
        checkout: Checkout,
        repository: Repository,
        variables: Mapping[str, str],
        task: Task,
    ) -> tuple[Ended, str]:
        """The loop over this one story, in a process of its own: the command as it is installed."""
        change = order.change
        words = ["run", change.change_id, "--story", order.story_id, "--json"]
        words += [*as_words(change), "--on-complete=keep", "--checkpoint=branch", "--lanes=1"]
        argv = (sys.executable, "-P", "-m", "untildone", *words)
        environment = without_fleet(os.environ) | dict(variables) | dict([self._mark])
        command = Command(argv, repository.place.top, environment, grace_s=GRACE_S)
        events, pids = _Events(task), list[int]()

        def interrupted() -> bool:
            stopped = task.is_stopped()
            if stopped:
                with suppress(ProcessLookupError):
                    os.kill(pids[0], signal.SIGTERM)
            return stopped

        ended = checkout.processes.run(command, events.feed, interrupted, pids.append)
        said = ended.error or ended.stderr_tail.decode(errors="replace")
        return ended, redactor(os.environ)(plain(said).encode()).decode(errors="replace")

    def _published(
        self, checkout: Checkout, repository: Repository, run: Run, story: str, task: Task
    ) -> "_Published":
        """The story's commit on the remote's branch, unless somebody else's came first.

        The agent is paid by now: a remote that is out of reach is waited for, and one that says no
        is a result, or the engine would buy the same work again.
        """
        git, tips, order = repository.git(), checkout.tips, checkout.order
        git.use_fallback_identity_if_none()
        tip = git.resolve(f"refs/heads/{order.branch}")
        commit = without(git, tips.start, tip, _initial(repository, run))
        git.update_refs([(f"refs/ralph/moved/{order.change_id}/{story}", commit, None)], "fleet")
        users = UsersGit(checkout.processes, repository.place.top, task.is_stopped)
        pushed = [RefPush(f"refs/heads/{order.branch}", commit, tips.branch)]
        give_up, refusals = monotonic() + PATIENCE_S, 0
        while not (answer := users.publish(order.repository, pushed)).ok:
            if task.is_stopped():
                checkout.rescued(tips.start)
                raise Interrupted(f"The story {story} is done and could not be pushed any more")
            with suppress(StepError):  # out of reach
                checkout.tips = checkout.look()
                if theirs := checkout.finished().get(story):
                    return _Published(theirs, refused=theirs != commit)
                if checkout.tips.branch != tips.branch:
                    checkout.rescued(tips.start)
                    raise UntildoneError(f"{order.branch} has moved on the remote: once more")
                refusals += 1
            if refusals >= REFUSALS or monotonic() >= give_up:
                why = checkout.mirror.refused("did not take the story", answer).message
                kept = checkout.rescued(tips.start)
                return _Published("", reason=why, kept=self._in_mirror(checkout, kept))
            task.wake.wait(PAUSE_S)
        return _Published(commit)

    def _in_mirror(self, checkout: Checkout, refs: Sequence[str]) -> str:
        return f"{self._host.name}:{checkout.mirror.place.top} {' '.join(refs)}".strip()

    def _kept(self, checkout: Checkout, repository: Repository, run: Run, order: StoryOrder) -> str:
        """Where failed attempts are: on the remote if it takes them, else in this host's mirror."""
        git, change, run_id = repository.git(), order.change.change_id, run.plan.run_id
        saved = [it.saved_ref for it in run.iterations if it.saved_ref]
        found = {ref: commit for ref in saved if (commit := git.resolve(ref))}
        where = f"refs/ralph/attempts/{change}/{order.story_id}/{run_id}"
        pushed = [
            RefPush(f"{where}-{ref.rpartition('/')[2]}", commit) for ref, commit in found.items()
        ]
        users = UsersGit(checkout.processes, repository.place.top)
        if not pushed:
            return ""
        if users.publish(order.change.repository, pushed).ok:
            return f"{where}-*"
        return self._in_mirror(checkout, checkout.rescued(checkout.tips.start))


class _Published(Struct, frozen=True):
    """What the remote has now; or why it has not, and where the commit is instead."""

    commit: str
    refused: bool = False
    reason: str = ""
    kept: str = ""

    def verdict(self, wanted: Verdict) -> Verdict:
        if self.reason:
            return Verdict.STUCK
        return Verdict.SKIPPED if self.refused else wanted


class _Events:
    """What the loop tells while it runs, as the progress of the activity."""

    def __init__(self, task: Task) -> None:
        self._task, self._torn = task, b""

    def feed(self, chunk: bytes) -> None:
        *lines, self._torn = (self._torn + chunk).split(b"\n")
        for line in lines:
            if b'"event": "iteration_started"' in line or b'"iteration_ended"' in line:
                with suppress(ValueError):
                    self._heard(json.loads(line))

    def _heard(self, event: dict[str, object]) -> None:
        if event.get("event") == "iteration_started" and not self._task.progress:
            self._task.begun()
        wanted = ("event", "n", "story_id", "attempt", "outcome")
        self._task.progress.update({name: event[name] for name in wanted if name in event})


class _Outcome(Struct, frozen=True):
    """A run of one story in a few words."""

    verdict: Verdict
    reason: str = ""
    calls: int = 0
    cost_usd: float | None = None
    tokens: int = 0
    verified: bool = False

    @classmethod
    def of(cls, run: Run | None, story: str, ended: Ended, said: str) -> "_Outcome":
        if run is None or not run.iterations:
            words = said.strip()[-FEW_WORDS:] or f"the loop ended with exit code {ended.exit_code}"
            return cls(Verdict.STUCK, (run.error if run else "") or words)
        verdict, reason = _verdict(run, story)
        total, last = run.ledger.total, run.iterations[-1]
        verified = verdict is Verdict.DONE and bool(last.checks or run.plan.verify)
        counted = len(run.iterations), total.cost_usd, total.tokens
        return cls(verdict, reason, *counted, verified=verified)


def _verdict(run: Run, story: str) -> tuple[Verdict, str]:
    if any(key[0] == story for key in run.finished):
        return Verdict.DONE, ""
    parked = next((p for key, p in run.parked.items() if key[0] == story), None)
    if parked and parked.asks:
        return Verdict.QUESTION, parked.text
    last = run.iterations[-1]
    return Verdict.STUCK, last.reason or run.error or last.outcome_class


def _tell(repository: Repository, order: StoryOrder) -> None:
    """What the person says to the agent is there before its run begins."""
    texts = (text for text in order.guidance if text.strip())
    said = tuple(Guided(text, None, f"fleet-{n}") for n, text in enumerate(texts))
    early_guidance.store(repository, order.change.change_id, said)


def _initial(repository: Repository, run: Run) -> str:
    facts = journals.replayed(repository.folder(run.plan.run_id).journal)
    found = next((fact.checkpoint for fact, _ in facts if isinstance(fact, Opened)), "")
    if not found:
        raise StepError("The run of the story has no beginning")
    return found


def _rows(
    repository: Repository, order: ChangeOrder, finished: Mapping[str, str]
) -> tuple[StoryRow, ...]:
    """The stories in the order in which they can be done; what cannot be begun comes last."""
    settings = load(repository.place.top, os.environ, as_flags(order))
    book = status.stories(repository, order.change_id, settings.source, options_of(settings))
    if book.problems:
        first = book.problems[0]
        raise UntildoneError(f"{first.path or book.path}:{first.line}: {first.why}")
    known = frozenset(s.key for s in book.stories if s.done or s.id in finished)
    return tuple(_ordered(book, known))


def _ordered(book: StoryBook, known: frozenset[StoryKey]) -> list[StoryRow]:
    rows = [StoryRow(s.id, s.title, done=True) for s in book.stories if s.key in known]
    while story := book.next_story(known):
        rows.append(StoryRow(story.id, story.title, done=False))
        known |= {story.key}
    rest = (s for s in book.stories if s.key not in known)
    return [*rows, *(StoryRow(s.id, s.title, done=False) for s in rest)]
