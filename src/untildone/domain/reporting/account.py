"""What happened in a run, call by call: told by its facts and by the events of its checks."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from untildone.domain.agents.agent import Usage
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as f
from untildone.domain.run.run import Iteration, Outcome, Run
from untildone.domain.stories.story import StoryKey

Told = tuple[f.Fact | Event, datetime]
ENDS_A_WAIT = (
    *(f.WaitOver, f.BudgetSet, f.StopRequested, f.Resumed),
    *(f.Abandoned, f.StepFailed, f.ChoiceMade),
)
REQUIRED = "required"
UNCHANGED = "done, nothing changed"


class CheckRun(Struct, frozen=True):
    """One run of one check; `passed` is None when its end was never told."""

    command: str
    level: str
    started: datetime
    ended: datetime | None = None
    passed: bool | None = None
    reason: str = ""

    @property
    def seconds(self) -> float:
        """How long it took; nothing while that is not known."""
        return (self.ended - self.started).total_seconds() if self.ended else 0.0


class Call(Struct, frozen=True):
    """One agent call and what became of its work.

    From `base` to `tip` is what it changed, if it was kept. A call that ended at a limit is no
    attempt: its number is 0. `proven` says that the loop's own checks let the work through, with
    `let_through` failures that were there before the run. That proves nothing if it has changed
    nothing (`unchanged`), or tests that were there before (`own_tests`).
    """

    n: int
    key: StoryKey
    agent: str
    started: datetime
    base: str = ""
    attempt: int = 0
    model: str = ""
    ended: datetime | None = None
    outcome: str = ""
    reason: str = ""
    usage: Usage | None = None
    tip: str = ""
    commit: str = ""
    saved_ref: str = ""
    checks: tuple[CheckRun, ...] = ()
    limit: bool = False
    proven: bool = False
    let_through: int = 0
    settled: bool = False
    unchanged: bool = False
    own_tests: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long the agent was at work; nothing while that is not known."""
        return (self.ended - self.started).total_seconds() if self.ended else 0.0

    @property
    def kept(self) -> bool:
        """Whether its work is part of the result."""
        return self.settled and not self.saved_ref and not self.limit

    @property
    def verified(self) -> bool:
        """Whether a required check ran after COMPLETE and the loop let the work through."""
        ran = any(check.level == REQUIRED for check in self.checks)
        proves = not (self.unchanged or self.own_tests)
        return self.kept and self.proven and ran and proves

    @property
    def wasted(self) -> bool:
        """Whether it was paid for and put back, or came to nothing at a limit."""
        return self.settled and not self.kept


class Pause(Struct, frozen=True):
    """A limit or a budget that was waited for, or is."""

    started: datetime
    ended: datetime
    why: str

    @property
    def seconds(self) -> float:
        """How long nothing was done."""
        return max((self.ended - self.started).total_seconds(), 0.0)


class StoryAccount(Struct, frozen=True):
    """A story and its calls."""

    id: str
    title: str
    state: str
    calls: tuple[Call, ...] = ()


class Totals(Struct, frozen=True):
    """The sum of some calls; `priced` and `counted` are those whose cost and tokens are known."""

    calls: int = 0
    seconds: float = 0.0
    usage: Usage = Usage()
    priced: int = 0
    counted: int = 0

    def per(self, count: int) -> "Totals | None":
        """The share of one of `count` things."""
        if not count:
            return None
        used = self.usage
        cost = None if used.cost_usd is None else used.cost_usd / count
        shared = Usage(used.input_tokens // count, used.output_tokens // count, cost_usd=cost)
        return Totals(self.calls, self.seconds / count, shared, self.priced, self.counted)


class Remarked(Struct, frozen=True):
    """Something worth telling about how work was kept or put back."""

    at: datetime
    text: str


class Account(Struct, frozen=True):
    """Everything that the report tells of a run, but for what only git knows."""

    calls: tuple[Call, ...]
    stories: tuple[StoryAccount, ...]
    pauses: tuple[Pause, ...]
    first: datetime
    last: datetime
    archived_ref: str = ""
    remarks: tuple[Remarked, ...] = ()

    def of_state(self, *states: str) -> tuple[StoryAccount, ...]:
        return tuple(story for story in self.stories if story.state in states)


def total(calls: Iterable[Call]) -> Totals:
    """The sum; calls that cost nothing known are in the count."""
    count, seconds, usage, priced, counted = 0, 0.0, Usage(), 0, 0
    for call in calls:
        count, seconds = count + 1, seconds + call.seconds
        if call.usage:
            usage = usage.plus(call.usage)
            priced += call.usage.cost_usd is not None
            counted += call.usage.told
    return Totals(count, seconds, usage, priced, counted)


def account(run: Run, told: Iterable[Told]) -> Account:
    """The account of a run from everything its journal tells."""
    ledger = _Ledger(run.started_at)
    for what, at in told:
        ledger.add(what, at)
    entries = {it.n: it for it in run.iterations}
    calls = tuple(_as_judged(call, entries) for call in ledger.all_calls())
    return Account(
        calls,
        _stories(run, ledger.stories, calls),
        ledger.all_pauses(),
        run.started_at,
        ledger.last,
        ledger.archived_ref,
        tuple(ledger.remarks),
    )


class _Ledger:
    """What is known so far."""

    def __init__(self, first: datetime) -> None:
        self.last = first
        self.stories: dict[StoryKey, bool] = {}
        self.archived_ref = ""
        self.remarks: list[Remarked] = []
        self._calls: list[Call] = []
        self._open: dict[int, Call] = {}
        self._pauses: list[Pause] = []
        self._why = ""
        self._until: datetime | None = None
        self._since = first
        self._checkpoint = ""
        # A fact that takes others back names how many remain.
        self._checkpoints = [""]

    def all_calls(self) -> list[Call]:
        """Those that are over, then those that are not."""
        return [*self._calls, *self._open.values()]

    def all_pauses(self) -> tuple[Pause, ...]:
        """Those that are over, then the present one."""
        if self._why:
            return (*self._pauses, Pause(self._since, self.last, self._why))
        return tuple(self._pauses)

    def add(self, what: f.Fact | Event, at: datetime) -> None:
        self.last = max(self.last, at)
        if isinstance(what, Event):
            self._event(what, at)
            return
        self._waiting(what, at)
        self._fact(what, at)
        if isinstance(what, f.Saved | f.Reverted | f.Adopted):
            self.remarks += [Remarked(at, text) for text in what.remarks]
        self._checkpoints.append(self._checkpoint)

    def _fact(self, what: f.Fact, at: datetime) -> None:
        match what:
            case f.Opened():
                self._checkpoint, self.archived_ref = what.checkpoint, what.archived_ref
            case f.Adopted():
                self._checkpoint = what.checkpoint
            case f.TakenBack(facts):
                self._checkpoint = self._checkpoints[facts]
            case f.AttemptStarted():
                self._open[what.lane] = Call(
                    what.n, what.story_key, what.agent, at, self._checkpoint, model=what.model
                )
            case f.AttemptEnded() | f.UsageMeasured() | f.Verified():
                self._open[what.lane] = _learned(self._open[what.lane], what, at)
            case f.Saved():
                tip = what.checkpoint if what.commit else ""
                call = self._open[what.lane]
                seen = replace(call, unchanged=what.unchanged, own_tests=what.own_tests)
                self._open[what.lane] = seen
                self._settle(what.lane, tip=tip, commit=what.commit)
                self._checkpoint = what.checkpoint
            case f.Reverted():
                self._settle(what.lane, saved_ref=what.saved_ref)
            case _:
                return

    def _settle(self, lane: int, **changes: str) -> None:
        call = self._open.pop(lane)
        self._calls.append(replace(call, settled=True, **changes))

    def _waiting(self, what: f.Fact, at: datetime) -> None:
        if isinstance(what, f.WaitStarted):
            self._why, self._until, self._since = what.why, what.until, at
        elif isinstance(what, f.BudgetReached) and what.waits:
            self._why, self._until, self._since = f"budget {what.reached.name}", None, at
        elif self._why and isinstance(what, ENDS_A_WAIT):
            # After a crash the next fact may be a day later.
            ended = at if isinstance(what, f.WaitOver) else min(at, self._until or at)
            self._pauses.append(Pause(self._since, ended, self._why))
            self._why = ""

    def _event(self, event: Event, at: datetime) -> None:
        data = event.data
        if event.name == "stories_loaded" and not self.stories:
            self.stories = dict(_listed(data))
        elif event.name in ("verify_started", "verify_ended") and self._open:
            lane, call = next(iter(self._open.items()))
            checks = _with_check(call.checks, event.name, data, at)
            self._open[lane] = replace(call, checks=checks)


def _learned(call: Call, what: f.AttemptEnded | f.UsageMeasured | f.Verified, at: datetime) -> Call:
    if isinstance(what, f.UsageMeasured):
        return replace(call, usage=what.usage)
    if isinstance(what, f.Verified):
        if what.passed:
            old = sum(len(failing.names) or 1 for failing in what.still_failing)
            return replace(call, proven=True, let_through=old)
        return replace(call, proven=False, outcome=str(Outcome.VERIFY_FAILED), reason=what.reason)
    limit = what.trouble is not None and what.trouble.passing
    return replace(
        call,
        ended=max(at, call.started),
        outcome=str(what.trouble.kind if limit and what.trouble else what.outcome),
        reason=what.reason,
        usage=what.usage,
        limit=limit,
    )


def _with_check(
    checks: tuple[CheckRun, ...], name: str, data: Mapping[str, object], at: datetime
) -> tuple[CheckRun, ...]:
    if name == "verify_started":
        level = str(data.get("level") or REQUIRED)
        return (*checks, CheckRun(str(data.get("command")), level, at))
    if not checks:
        return checks
    reason = str(data.get("reason") or "")
    ended = replace(checks[-1], ended=at, passed=bool(data.get("passed")), reason=reason)
    return (*checks[:-1], ended)


def _listed(data: Mapping[str, object]) -> Iterable[tuple[StoryKey, bool]]:
    rows = data.get("stories")
    for row in rows if isinstance(rows, list | tuple) else ():
        yield (str(row["id"]), " ".join(str(row["title"]).split())), row["state"] == "done"


def _as_judged(call: Call, entries: Mapping[int, Iteration]) -> Call:
    """The run's own entry has the last word on how an attempt went."""
    entry = entries.get(call.n)
    if call.limit or entry is None:
        return call
    outcome = str(entry.outcome or call.outcome)
    return replace(
        call,
        attempt=entry.attempt,
        ended=entry.ended or call.ended,
        outcome=outcome,
        reason=entry.reason,
    )


def _stories(
    run: Run, listed: Mapping[StoryKey, bool], calls: tuple[Call, ...]
) -> tuple[StoryAccount, ...]:
    if run.plan.plain:
        return tuple(StoryAccount(f"iteration-{c.n}", "", _plain_state(c), (c,)) for c in calls)
    groups: dict[StoryKey, list[Call]] = {key: [] for key in listed}
    for call in calls:
        groups.setdefault(call.key, []).append(call)
    return tuple(
        StoryAccount(*key, _state(run, key, tuple(own), before=listed.get(key, False)), tuple(own))
        for key, own in groups.items()
    )


def _plain_state(call: Call) -> str:
    if call.verified:
        return "verified"
    return "kept" if call.kept else call.outcome or "running"


def _done_state(calls: tuple[Call, ...]) -> str:
    last = next((call for call in reversed(calls) if call.kept), None)
    if last and last.unchanged:
        return UNCHANGED
    return "verified" if last and last.verified else "done, not verified"


def _state(run: Run, key: StoryKey, calls: tuple[Call, ...], *, before: bool) -> str:
    if before and not calls:
        return "done before"
    if key in run.finished:
        return _done_state(calls)
    if key in run.parked:
        return "parked"
    if not all(call.settled for call in calls):
        return "interrupted" if run.ended else "running"
    return "not done" if calls else "not started"
