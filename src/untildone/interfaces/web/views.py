"""What the pages say of a run: plain values, made of its feed. Nothing here is markup."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from urllib.parse import quote

from msgspec import Struct

from untildone.commands.look.feed import EventObject, Feed
from untildone.domain.agents.agent import Usage
from untildone.domain.plain_text import count_of, plain
from untildone.domain.reporting.account import (
    UNCHANGED,
    Account,
    Totals,
    total,
)
from untildone.domain.run.run import Status
from untildone.domain.stories.parking import Why
from untildone.interfaces import render
from untildone.interfaces.report import formatting
from untildone.interfaces.status_page import LANE_PHASES, PHASES, headline

# The light: what is shown in the tab's icon and title, each with a shape of its own.
GLYPHS = {
    "running": "▶",
    "waiting": "◔",
    "question": "?",
    "done": "✓",
    "failed": "✗",
    "stopped": "■",
}
WORDS = {
    "running": "running",
    "waiting": "waiting",
    "question": "needs you",
    "done": "done",
    "failed": "failed",
    "stopped": "stopped",
}
ASKS_PERSON = ("awaiting_decision", "awaiting_person", "awaiting_choice")
WAITS = ("waiting_limit", "waiting_budget")

Loop = Mapping[str, object]


def light(state: Loop) -> str:
    """How a run stands, in one of six words."""
    phase, status = state.get("phase"), state.get("status")
    if state["alive"]:
        if phase in ASKS_PERSON or any(True for _ in _asking(state)):
            return "question"
        return "waiting" if phase in WAITS else "running"
    if phase == "died" or status in (Status.STUCK, Status.STALLED):
        return "failed"
    return "done" if status == Status.DONE else "stopped"


def _asking(state: Loop) -> Iterator[Mapping[str, str]]:
    parked = state.get("parked")
    for row in parked if isinstance(parked, list) else ():
        if row["why"] in (Why.QUESTION, Why.MARKED):
            yield row


class Counts(Struct, frozen=True):
    """How many stories are finished."""

    finished: int
    total: int
    verified: int

    @property
    def percent(self) -> float:
        return 100 * self.finished / self.total if self.total else 0.0


class RunView(Struct, frozen=True):
    """The head of a page, and a row of the board."""

    run_id: str
    change: str
    place: str
    worktree: str
    light: str
    alive: bool
    said: str
    counts: Counts | None
    agent: str
    calls: str
    started: str
    over: str
    taken: str
    tokens: str
    cost: str
    budgets: tuple[str, ...]
    forecast: str
    at_work: str
    questions: int
    waiting_until: str

    @property
    def glyph(self) -> str:
        return GLYPHS[self.light]

    @property
    def word(self) -> str:
        return WORDS[self.light]

    @property
    def href(self) -> str:
        return f"/runs/{quote(self.run_id, safe='')}"

    @property
    def title(self) -> str:
        """What the tab says."""
        progress = f"{self.counts.finished}/{self.counts.total} " if self.counts else ""
        return f"{self.glyph} {progress}{self.change}"


def run_view(feed: Feed) -> RunView:
    state, run, account = feed.state(), feed.run, feed.account()
    everything = total(account.calls)
    took = (account.last - account.first).total_seconds()
    top = (feed.source.user or feed.source.repository).place.top
    return RunView(
        run_id=run.plan.run_id,
        change=run.plan.change_id,
        place=top.name,
        worktree=str(top),
        light=light(state),
        alive=feed.alive,
        said=headline(state, (run, account)),
        counts=_counts(state, account),
        agent=" ".join(filter(None, (run.plan.agent, _model(account)))),
        calls=f"{run.current_iteration} of {run.plan.limits.max_iterations}",
        started=as_text(account.first),
        over="" if feed.alive else as_text(account.last),
        taken=render.duration(took),
        tokens=render.tokens(everything.usage.total) if everything.counted else "unknown",
        cost=_cost(everything),
        budgets=tuple(render.budgets(state.get("budgets"))),
        forecast=render.forecast(state.get("forecast")) if feed.alive else "",
        at_work=_at_work(state),
        questions=sum(1 for _ in _asking(state)),
        waiting_until=str(state.get("waiting_until") or ""),
    )


def _at_work(state: Loop) -> str:
    opened = state.get("open_iteration")
    if not (state["alive"] and isinstance(opened, dict) and opened["story_id"]):
        return ""
    return f"{opened['story_id']}, attempt {opened['attempt']}"


def _model(account: Account) -> str:
    last = account.calls[-1] if account.calls else None
    return ((last.usage.model if last.usage else "") or last.model) if last else ""


def _counts(state: Loop, account: Account) -> Counts | None:
    told = state.get("stories")
    if not isinstance(told, dict):
        return None
    return Counts(told["finished"], told["total"], len(account.of_state("verified")))


def _cost(sums: Totals) -> str:
    return formatting.money(sums.usage.cost_usd) if sums.calls else "$0.00"


def as_text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def row(feed: Feed) -> dict[str, object]:
    """A run as `GET /api/runs` lists it, with what the board shows of it."""
    state = {name: value for name, value in feed.state().items() if name != "iterations"}
    sums = total(feed.account().calls)
    totals = {"total_tokens": sums.usage.total, "total_cost_usd": sums.usage.cost_usd}
    return state | totals | {"light": light(state), "seq": feed.seq, "view": run_view(feed)}


class LaneView(Struct, frozen=True):
    """What a lane is at."""

    lane: int
    story_id: str
    attempt: str
    said: str
    since: str


def lanes(state: Loop) -> list[LaneView]:
    rows = state.get("lanes")
    return [
        LaneView(
            lane["lane"],
            lane["story_id"],
            str(lane["attempt"] or ""),
            LANE_PHASES.get(lane["phase"]) or PHASES.get(lane["phase"], lane["phase"]),
            lane["since"] or "",
        )
        for lane in (rows if isinstance(rows, list) else ())
    ]


def landing(state: Loop) -> list[str]:
    """Who waits to land, in order."""
    told = state.get("landing")
    return list(told["queue"]) if isinstance(told, dict) else []


class Figure(Struct, frozen=True):
    """A number and what it counts."""

    name: str
    value: str
    note: str = ""


def figures(account: Account) -> list[Figure]:
    """What the run has cost, and what that has bought."""
    everything, wasted = total(account.calls), total(c for c in account.calls if c.wasted)
    verified = len(account.of_state("verified"))
    share = everything.per(verified)
    unproven = len(account.of_state("done, not verified", UNCHANGED))
    found = []
    if share:
        told = [*_known(share.usage), f"{formatting.span(share.seconds)} of the agent"]
        of = count_of(verified, "verified story", "verified stories")
        found.append(Figure("per verified story", told[0], ", ".join([*told[1:], of])))
    else:
        found.append(Figure("per verified story", "–", "no story is verified by a check yet"))
    found.append(Figure("cost so far", _cost(everything), _part_known(everything)))
    lost = formatting.money(wasted.usage.cost_usd) if wasted.usage.cost_usd is not None else ""
    calls = f"{wasted.calls} of {count_of(everything.calls, 'call')}"
    note = ", ".join(filter(None, (lost, formatting.span(wasted.seconds) if wasted.calls else "")))
    found.append(Figure("put back or cut short", calls, note))
    if unproven:
        found.append(Figure("done, not verified", str(unproven), "by the agent's word alone"))
    return found


def _known(usage: Usage) -> list[str]:
    cost = [] if usage.cost_usd is None else [formatting.money(usage.cost_usd)]
    return cost + ([f"{formatting.tokens(usage)} tokens"] if usage.told else [])


def _part_known(sums: Totals) -> str:
    known = f"{formatting.tokens(sums.usage)} tokens" if sums.counted else "tokens unknown"
    part = f", known of {sums.priced} of {count_of(sums.calls, 'call')}"
    return known + (part if 0 < sums.priced < sums.calls else "")


class Line(Struct, frozen=True):
    """A row of the live log."""

    seq: int
    at: str
    clock: str
    name: str
    text: str
    lane: str


def lines(events: Iterable[EventObject]) -> list[Line]:
    """The words of events; those that have none are left out."""
    found = []
    for event in map(render.safe, events):
        lane = event.get("lane")
        told = {name: value for name, value in event.items() if name != "lane"}
        if text := render.complaint(told) or render.line(told):
            rows = (row.strip().removeprefix("│ ") for row in plain(text).split("\n"))
            at, name = str(event["at"]), str(event["event"])
            tag = "" if lane is None else f"lane {lane}"
            seq, clock = int(str(event["seq"])), render.clock_time(at)
            found.append(Line(seq, at, clock, name, "\n".join(rows), tag))
    return found
