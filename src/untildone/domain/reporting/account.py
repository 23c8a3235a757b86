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
REMARKS = (f.Saved, f.Reverted, f.Adopted, f.SlotReady, f.Landed, f.Requeued)
ALL_LANES = -1
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
    nothing (`unchanged`), or tests that were there before (`own_tests`). Beside other lanes, its
    work was checked again together with theirs (`on_sum`), and what could not be brought together
    was `requeued`; `flaky` are checks that failed once on files that they passed with.
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
    lane: int = 0
    closed: datetime | None = None
    on_sum: tuple[CheckRun, ...] = ()
    requeued: bool = False
    flaky: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long the agent was at work; nothing while that is not known."""
        return (self.ended - self.started).total_seconds() if self.ended else 0.0

    @property
    def kept(self) -> bool:
        """Whether its work is part of the result."""
        return self.settled and not (self.saved_ref or self.limit or self.requeued)

    @property
    def verified(self) -> bool:
        """Whether a required check ran after COMPLETE and the loop let the work through."""
        ran = any(check.level == REQUIRED for check in self.all_checks)
        proves = not (self.unchanged or self.own_tests)
        return self.kept and self.proven and ran and proves

    @property
    def all_checks(self) -> tuple[CheckRun, ...]:
        """Those of its own work, then those of the sum."""
        return (*self.checks, *self.on_sum)

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


class Bought(Struct, frozen=True):
    """What several lanes were good for: the time that they took and what one lane would have.

    `extra_tokens` are those of calls whose work could not be brought together, in per cent of all
    others; None where tokens are unknown. `again_s` is the time of checks on the sum.
    """

    lanes: int
    wall_s: float
    serial_s: float
    requeues: int
    flaky: int
    extra_tokens: float | None
    again_s: float

    @property
    def paid(self) -> bool:
        """Whether it took less time than one lane would have, by a tenth at least."""
        return self.wall_s < 0.9 * self.serial_s


class StoryAccount(Struct, frozen=True):
    """A story and its calls."""

    id: str
    title: str
    state: str
    calls: tuple[Call, ...] = ()

    @property
    def kept(self) -> Call | None:
        """The last call whose work is part of the result."""
        return next((call for call in reversed(self.calls) if call.kept), None)

    @property
    def last_call(self) -> Call | None:
        return self.calls[-1] if self.calls else None


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
    ledger = Ledger(run.started_at)
    for what, at in told:
        ledger.add(what, at)
    return ledger.account(run)


class Ledger:
    """What is known so far."""

    def __init__(self, first: datetime) -> None:
        self.last = first
        self.stories: dict[StoryKey, bool] = {}
        self.archived_ref = ""
        self.remarks: list[Remarked] = []
        self._calls: list[Call] = []
        self._open: dict[int, Call] = {}
        self._judged: set[int] = set()
        self._pauses: list[Pause] = []
        # By lane; a budget holds up all of them.
        self._waits: dict[int, tuple[str, datetime | None, datetime]] = {}
        self._checkpoint = ""
        # A fact that takes others back names how many remain.
        self._checkpoints = [""]

    def account(self, run: Run) -> Account:
        entries = {it.n: it for it in run.iterations}
        calls = tuple(_as_judged(call, entries) for call in self.all_calls())
        return Account(
            calls,
            _stories(run, self.stories, calls),
            self.all_pauses(),
            run.started_at,
            self.last,
            self.archived_ref,
            tuple(self.remarks),
        )

    def all_calls(self) -> list[Call]:
        """Those that are over, then those that are not."""
        return [*self._calls, *self._open.values()]

    def all_pauses(self) -> tuple[Pause, ...]:
        """Those that are over, then the present one."""
        present = (Pause(since, self.last, why) for why, _, since in self._waits.values())
        return (*self._pauses, *present)

    def add(self, what: f.Fact | Event, at: datetime) -> None:
        self.last = max(self.last, at)
        if isinstance(what, Event):
            self._event(what, at)
            return
        self._waiting(what, at)
        self._fact(what, at)
        if isinstance(what, REMARKS):
            self.remarks += [Remarked(at, text) for text in what.remarks]
        self._checkpoints.append(self._checkpoint)

    def _fact(self, what: f.Fact, at: datetime) -> None:
        match what:
            case f.Opened():
                self._checkpoint, self.archived_ref = what.checkpoint, what.archived_ref
            case f.Adopted() | f.StoryUndone():
                self._checkpoint = what.checkpoint
            case f.TakenBack(facts):
                self._checkpoint = self._checkpoints[facts]
            case f.AttemptStarted():
                base = what.base or self._checkpoint
                call = Call(what.n, what.story_key, what.agent, at, base, model=what.model)
                self._open[what.lane] = replace(call, lane=what.lane)
                self._judged.discard(what.lane)
            case f.AttemptEnded() | f.UsageMeasured() | f.Verified():
                self._open[what.lane] = _learned(self._open[what.lane], what, at)
                if isinstance(what, f.Verified):
                    self._judged.add(what.lane)
            case f.Saved() | f.Reverted() | f.Landed() | f.Requeued():
                self._settled(what, at)
            case _:
                return

    def _settled(self, what: f.Saved | f.Reverted | f.Landed | f.Requeued, at: datetime) -> None:
        """What became of a call's work."""
        call = replace(self._open.pop(what.lane), settled=True, closed=at)
        match what:
            case f.Saved():
                tip = what.checkpoint if what.commit else ""
                seen = {"unchanged": what.unchanged, "own_tests": what.own_tests}
                call = replace(call, tip=tip, commit=what.commit, **seen)
                self._checkpoint = what.checkpoint
            case f.Landed():
                call = replace(call, tip=what.commit, commit=what.commit, flaky=what.flaky)
                self._checkpoint = what.commit
            case _:
                again = isinstance(what, f.Requeued)
                call = replace(call, saved_ref=what.saved_ref, requeued=again)
        self._calls.append(call)

    def _waiting(self, what: f.Fact, at: datetime) -> None:
        if isinstance(what, f.WaitStarted):
            self._waits[what.lane] = what.why, what.until, at
        elif isinstance(what, f.BudgetReached) and what.waits:
            self._waits[ALL_LANES] = f"budget {what.reached.name}", None, at
        elif isinstance(what, ENDS_A_WAIT):
            over = what.lane if isinstance(what, f.WaitOver) else None
            for lane in [lane for lane in self._waits if over in (None, lane)]:
                why, until, since = self._waits.pop(lane)
                # After a crash the next fact may be a day later.
                ended = min(at, until or at) if over is None else at
                self._pauses.append(Pause(since, ended, why))

    def _event(self, event: Event, at: datetime) -> None:
        data = event.data
        if event.name == "stories_loaded" and not self.stories:
            self.stories = dict(_listed(data))
        elif event.name in ("verify_started", "verify_ended") and self._open:
            told = data.get("lane")
            lane = told if isinstance(told, int) and told in self._open else next(iter(self._open))
            call = self._open[lane]
            # Whatever is checked after the work itself was judged is the sum.
            field = "on_sum" if lane in self._judged else "checks"
            checks = _with_check(getattr(call, field), event.name, data, at)
            self._open[lane] = replace(call, **{field: checks})


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


def bought(found: Account) -> Bought | None:
    """What lanes were good for, by the times of one journal; None of a run that had only one.

    One lane would have done every call but those that were requeued, each with its own checks. The
    time that lanes took is that with a call open in any of them.
    """
    calls = [call for call in found.calls if call.closed]
    lanes = {call.lane for call in calls}
    if lanes <= {0}:
        return None
    once, again = _apart(calls)
    return Bought(
        lanes=len(lanes),
        wall_s=_covered(calls),
        serial_s=sum(call.seconds + _seconds(call.checks) for call in once),
        requeues=len(again),
        flaky=sum(len(call.flaky) for call in calls),
        extra_tokens=_extra_tokens(once, again),
        again_s=sum(_seconds(call.on_sum) for call in calls),
    )


def _apart(calls: Iterable[Call]) -> tuple[list[Call], list[Call]]:
    """Those that one lane would have made as well, and those that it would not."""
    once: list[Call] = []
    again: list[Call] = []
    for call in calls:
        (again if call.requeued else once).append(call)
    return once, again


def _extra_tokens(once: list[Call], again: list[Call]) -> float | None:
    usual, extra = total(once), total(again)
    known = usual.counted + extra.counted == usual.calls + extra.calls
    return 100 * extra.usage.total / usual.usage.total if known and usual.usage.total else None


def _seconds(checks: Iterable[CheckRun]) -> float:
    return sum(check.seconds for check in checks)


def _covered(calls: Iterable[Call]) -> float:
    """The seconds with any of these calls open."""
    seconds, last = 0.0, None
    for call in sorted(calls, key=lambda call: call.started):
        closed = call.closed or call.started
        begun = max(call.started, last) if last else call.started
        seconds += max((closed - begun).total_seconds(), 0.0)
        last = max(closed, last) if last else closed
    return seconds


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
