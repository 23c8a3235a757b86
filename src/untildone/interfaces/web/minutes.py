"""Where the minutes of a run went, and who was at work when."""

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from untildone.domain.reporting.account import Account, Call
from untildone.interfaces.report.formatting import span
from untildone.interfaces.report.plots import how, kind_of

AGENT, CHECKS, WAITING, IDLE = KINDS = ("agent", "checks", "waiting", "idle")
WIDTH = 1000.0
THINNEST = 2.0
MOST_ROWS = 60
MOST_MARKS = 200

Interval = tuple[datetime, datetime, str]


class Share(Struct, frozen=True):
    """The minutes of one kind; `x` and `width` are its place in a bar."""

    kind: str
    seconds: float
    percent: float
    x: float
    width: float

    @property
    def shown(self) -> str:
        return span(self.seconds)


class Mark(Struct, frozen=True):
    """A stretch of time in a row; `outcome` is what became of the call."""

    kind: str
    outcome: str
    x: float
    width: float
    title: str


class Row(Struct, frozen=True):
    """A story and when it was worked on."""

    story_id: str
    title: str
    marks: tuple[Mark, ...]
    shown: str


def shares(account: Account, end: datetime) -> tuple[Share, ...]:
    """Each moment counts once: for an agent, else for checks, for waiting, for nothing."""
    whole = max((end - account.first).total_seconds(), 0.001)
    spent = dict.fromkeys(KINDS, 0.0)
    for seconds, kind in _swept(list(_intervals(account, end))):
        spent[kind] += seconds
    spent[IDLE] = max(whole - sum(spent.values()), 0.0)
    found, x = [], 0.0
    for kind, seconds in spent.items():
        width = WIDTH * seconds / whole
        found.append(Share(kind, seconds, 100 * seconds / whole, x, width))
        x += width
    return tuple(found)


def _swept(intervals: list[Interval]) -> Iterator[tuple[float, str]]:
    """The time between two moments at which anything begins or ends, and what it was for."""
    edges = [(start, 1, kind) for start, _, kind in intervals]
    edges += [(end, -1, kind) for _, end, kind in intervals]
    count = dict.fromkeys(KINDS, 0)
    last: datetime | None = None
    for moment, step, kind in sorted(edges):
        busy = next((name for name in KINDS if count[name]), "")
        if last and busy:
            yield (moment - last).total_seconds(), busy
        count[kind] += step
        last = moment


def _intervals(account: Account, end: datetime) -> Iterator[Interval]:
    for call in account.calls:
        yield call.started, _ended(call, end), AGENT
        for check in call.all_checks:
            until = check.ended or (call.closed or end)
            yield check.started, max(until, check.started), CHECKS
    for pause in account.pauses:
        yield pause.started, max(pause.ended, pause.started), WAITING


def _ended(call: Call, end: datetime) -> datetime:
    return max(call.ended or call.closed or end, call.started)


def rows(account: Account, end: datetime) -> tuple[Row, ...]:
    """One for each story that was worked on, the last ones if there are many."""
    called = [story for story in account.stories if story.calls][-MOST_ROWS:]
    scale = WIDTH / max((end - account.first).total_seconds(), 0.001)

    def mark(start: datetime, until: datetime, kind: str, outcome: str, title: str) -> Mark:
        x = (start - account.first).total_seconds() * scale
        width = max((until - start).total_seconds() * scale, THINNEST)
        return Mark(kind, outcome, round(min(x, WIDTH - THINNEST), 1), round(width, 1), title)

    def marks(calls: tuple[Call, ...]) -> Iterator[Mark]:
        for call in calls[-MOST_MARKS:]:
            until = _ended(call, end)
            taken = span((until - call.started).total_seconds())
            title = f"attempt {call.attempt or ''}, {how(call)}, {taken}".replace(" ,", ",")
            yield mark(call.started, until, AGENT, kind_of(call), title)
            for check in call.all_checks:
                word = {True: "passed", False: "failed", None: "no end"}[check.passed]
                outcome = {True: "kept", False: "failed", None: "open"}[check.passed]
                over = check.ended or (call.closed or end)
                text = f"check {word}, {span(check.seconds)}: {check.command}"
                yield mark(check.started, over, CHECKS, outcome, text)

    return tuple(
        Row(
            story.id,
            story.title,
            tuple(marks(story.calls)),
            span(sum((_ended(call, end) - call.started).total_seconds() for call in story.calls)),
        )
        for story in called
    )
