"""The plots of a run: time, tokens and cost per story and attempt, and the checks over time."""

from collections.abc import Callable, Sequence

from untildone.app.wording import call_words
from untildone.domain.plain_text import count_of
from untildone.domain.reporting.account import Account, Call, CheckRun, StoryAccount
from untildone.interfaces import render
from untildone.interfaces.report.blocks import (
    MOST_BARS,
    MOST_ROWS,
    Bar,
    Bars,
    Lanes,
    Mark,
    Segment,
)
from untildone.interfaces.report.formatting import money, span

LEGEND = (
    ("kept", "kept"),
    ("failed", "put back"),
    ("limit", "ended at a limit"),
    ("open", "not over"),
)
MOST_SEGMENTS = 12
MOST_LANES = 20

Measure = tuple[str, Callable[[Call], float], Callable[[float], str]]
MEASURES: tuple[Measure, ...] = (
    ("Time of the agent per story and attempt", lambda call: call.seconds, span),
    (
        "Tokens per story and attempt, input and output",
        lambda call: float(call.usage.total if call.usage else 0),
        lambda value: render.tokens(int(value)),
    ),
    (
        "Cost per story and attempt",
        lambda call: (call.usage.cost_usd or 0.0) if call.usage else 0.0,
        money,
    ),
)


def kind_of(call: Call) -> str:
    """What became of a call, as a colour."""
    if not call.settled:
        return "open"
    return "limit" if call.limit else "kept" if call.kept else "failed"


def bars(account: Account) -> list[Bars]:
    """One plot per measure that has anything to show."""
    called = [story for story in account.stories if story.calls]
    groups, note = _groups(called)
    plots = []
    for title, value, shown in MEASURES:
        made = tuple(_bar(label, calls, value, shown) for label, calls in groups)
        if any(bar.value for bar in made):
            plots.append(Bars(title, made, note))
    return plots


def timeline(account: Account) -> Lanes | None:
    """What each lane was at, where there are several."""
    rows: dict[int, list[Mark]] = {}
    for call in account.calls:
        start = (call.started - account.first).total_seconds()
        over = call.closed or account.last
        ended = min(call.ended or over, over)
        title = f"iteration {call.n}, story {call.key[0]}"
        marks = rows.setdefault(call.lane, [])
        worked = (ended - account.first).total_seconds()
        marks.append(Mark(start, worked, kind_of(call), f"{title}, {how(call)}"))
        marks += [_check_mark(account, call, check) for check in call.all_checks]
    if set(rows) <= {0}:
        return None
    cut = [(f"lane {lane}", _thinned(marks)) for lane, marks in sorted(rows.items())][:MOST_LANES]
    seconds = (account.last - account.first).total_seconds()
    title = "Lanes over the time of the run: calls and their checks"
    return Lanes(title, seconds, tuple(cut), span(seconds), as_text=True)


def _check_mark(account: Account, call: Call, check: CheckRun) -> Mark:
    start = (check.started - account.first).total_seconds()
    kind = "open" if check.passed is None else "kept" if check.passed else "failed"
    word = {"open": "no end", "kept": "passed", "failed": "failed"}[kind]
    title = f"iteration {call.n}: {word}, {span(check.seconds)}: {check.command}"
    return Mark(start, start + check.seconds, kind, title)


def checks(account: Account) -> Lanes | None:
    """When which check ran, and how it went."""
    lanes: dict[str, list[Mark]] = {}
    for call in account.calls:
        for check in call.all_checks:
            lanes.setdefault(check.command, []).append(_check_mark(account, call, check))
    if not lanes:
        return None
    seconds = (account.last - account.first).total_seconds()
    cut = [(name, _thinned(marks)) for name, marks in list(lanes.items())[:MOST_LANES]]
    whole = sum(map(len, lanes.values())) == sum(len(marks) for _, marks in cut)
    note = "" if whole else "Not every run of a check is drawn; `--json` has all."
    title = "Checks over the time of the run, filled: passed, pale: failed"
    return Lanes(title, seconds, tuple(cut), span(seconds), note)


def _thinned(marks: list[Mark]) -> tuple[Mark, ...]:
    """Every failure, as far as a plot can bear, and some of the rest."""
    if len(marks) <= MOST_ROWS:
        return tuple(marks)
    step = len(marks) // MOST_ROWS + 1
    return tuple(marks[::step])


def _groups(stories: Sequence[StoryAccount]) -> tuple[list[tuple[str, list[Call]]], str]:
    """A bar per story; of too many, neighbours share one."""
    size = -(-len(stories) // MOST_BARS) if stories else 1
    groups = []
    for k in range(0, len(stories), size):
        part = stories[k : k + size]
        label = f"{part[0].id} {part[0].title}".strip()
        if len(part) > 1:
            label = f"{part[0].id} … {part[-1].id}"
        groups.append((label, [call for story in part for call in story.calls]))
    note = f"Each bar is {size} in a row." if size > 1 else ""
    return groups, note


def _bar(
    label: str,
    calls: list[Call],
    value: Callable[[Call], float],
    shown: Callable[[float], str],
) -> Bar:
    whole = shown(sum(map(value, calls)))
    if len(calls) > MOST_SEGMENTS:
        return Bar(label, _merged(calls, value, shown), whole)
    segments = tuple(
        Segment(
            value(call),
            kind_of(call),
            f"iteration {call.n}, {how(call)}: {shown(value(call))}",
        )
        for call in calls
    )
    return Bar(label, segments, whole)


def _merged(
    calls: list[Call], value: Callable[[Call], float], shown: Callable[[float], str]
) -> tuple[Segment, ...]:
    """One segment for all calls of a kind."""
    segments = []
    for kind, name in LEGEND:
        mine = [value(call) for call in calls if kind_of(call) == kind]
        if mine:
            title = f"{count_of(len(mine), 'call')} {name}: {shown(sum(mine))}"
            segments.append(Segment(sum(mine), kind, title))
    return tuple(segments)


def how(call: Call) -> str:
    """How a call went, in words."""
    if call.requeued:
        return "done, to be done again on top of the others"
    return call_words(call.outcome, call.reason)[0] if call.outcome else "running"
