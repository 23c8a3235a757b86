"""The lists: stories, attempts, lanes, checkpoints; a row is texts by the names of columns."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from untildone.app.wording import call_words, parked_words
from untildone.commands.run_account import Size
from untildone.domain.reporting.account import UNCHANGED, Call, StoryAccount, total
from untildone.domain.stories.parking import Why
from untildone.interfaces import render
from untildone.interfaces.report import formatting
from untildone.interfaces.status_page import LANE_PHASES, PHASES
from untildone.interfaces.tui.lines import Line, Part, clean, column
from untildone.interfaces.tui.look import Look

WIDEST, WIDE, MIDDLE = 150, 110, 76


class State(NamedTuple):
    """A state as a sign and a word: the colour says nothing more."""

    sign: str
    word: str
    style: str


RUNNING = State("▶", "running", "accent")
RETRYING = State("↻", "retrying", "warn")
STATES = {
    "verified": State("✓", "verified", "good"),
    "done, not verified": State("✓", "unverified", "warn"),
    UNCHANGED: State("✓", "unchanged", "warn"),
    "done before": State("✓", "done before", "dim"),
    "kept": State("✓", "kept", "good"),
    "not done": State("✗", "failed", "bad"),
    "interrupted": State("✗", "cut short", "warn"),
    "not started": State("○", "not started", "dim"),
}
PARKED = {
    Why.QUESTION: State("?", "asks", "warn"),
    Why.MARKED: State("?", "asks", "warn"),
    Why.FAILED: State("✗", "failed", "bad"),
    Why.STUCK: State("✗", "no progress", "bad"),
    Why.SKIPPED: State("↷", "skipped", "dim"),
}
SHORT_PHASES = {
    "agent": "agent",
    "measuring": "counting",
    "verifying": "checks",
    "settling": "settling",
    "landing": "landing",
    "waiting_to_land": "queued",
}


# --- stories ---


def state_of(look: Look, story: StoryAccount) -> State:
    if work := look.at_work(story):
        phase = SHORT_PHASES.get(lane_of(look, work[0])["phase"], "running")
        return RUNNING._replace(word=phase)
    if parked := look.parked(story):
        return PARKED[parked.why]
    if story.state == "not done" and look.alive and not look.run.ended:
        return RETRYING
    last = story.last_call
    cut_short = story.state == "not done" and last and last.outcome == "interrupted"
    known = "interrupted" if cut_short else story.state
    return STATES.get(known, State("·", known, "dim"))


def lane_of(look: Look, lane: int) -> Mapping[str, str]:
    """A lane as `status --json` has it; the only one of a run without lanes."""
    lanes = look.state.get("lanes")
    if isinstance(lanes, list):
        found: Mapping[str, str] = lanes[lane]
        return found
    return {"phase": look.phase, "slot": "", "story_id": str(look.state["story_id"])}


def id_width(look: Look) -> int:
    return max([2, *(min(len(clean(story.id)), 8) for story in look.account.stories[:200])])


def _story_columns(width: int) -> list[tuple[str, int]]:
    if width < MIDDLE:
        return [("attempt", 7), ("time", 8)]
    if width < WIDE:
        return [("attempt", 8), ("time", 10), ("cost", 9)]
    columns = [("attempt", 8), ("last sign", 10), ("took", 9), ("cost", 9)]
    return [("what it does", 30), *columns] if width >= WIDEST else columns


def story_head(look: Look, width: int) -> Line:
    left = Part("state"), Part(""), Part("story")
    columns = _story_columns(width)
    return _row(width, (14, id_width(look)), left, columns, {name: name for name, _ in columns})


def story_line(look: Look, story: StoryAccount, width: int, now: datetime) -> Line:
    state, style = state_of(look, story), ""
    texts = _at_work(look, story, now) or _at_rest(look, story)
    if state.style == "dim":
        style = "dim"
    sign = Part(f"{state.sign} {state.word}", state.style)
    left = sign, Part(clean(story.id), "dim"), Part(clean(story.title), style)
    return _row(width, (14, id_width(look)), left, _story_columns(width), texts)


def _at_work(look: Look, story: StoryAccount, now: datetime) -> dict[str, str]:
    """The columns of a story that an agent is at work on; empty for any other."""
    work = look.at_work(story)
    if work is None:
        return {}
    (lane, call), before = work, total(story.calls).seconds
    sign = ago(look, lane, now)
    return {
        "what it does": phase_words(lane_of(look, lane)["phase"]),
        "attempt": f"{call.attempt} of {call.attempts_allowed}",
        "last sign": sign,
        "time": sign,
        "took": render.duration(max(0.0, (now - call.started).total_seconds()) + before),
        "cost": _cost(story),
    }


def _at_rest(look: Look, story: StoryAccount) -> dict[str, str]:
    parked, took = look.parked(story), total(story.calls).seconds
    shown = {"what it does": parked_words(parked.why) if parked else ""}
    if story.calls:
        shown |= {"attempt": _attempts(story), "cost": _cost(story)}
        shown |= dict.fromkeys(("time", "took"), render.duration(took))
    return shown


def _cost(story: StoryAccount) -> str:
    sums = total(story.calls)
    return formatting.money(sums.usage.cost_usd) if sums.priced else "unknown"


def _attempts(story: StoryAccount) -> str:
    most = max([0, *(call.attempt for call in story.calls)])
    return str(most) if most else ""


def ago(look: Look, lane: int, now: datetime) -> str:
    at = look.signs.get(lane)
    return f"{render.duration(max(0.0, (now - at).total_seconds()))} ago" if at else ""


def phase_words(phase: str) -> str:
    return LANE_PHASES.get(phase) or PHASES.get(phase, phase.replace("_", " "))


def _row(
    width: int,
    rooms: tuple[int, int],
    left: tuple[Part, Part, Part],
    columns: list[tuple[str, int]],
    texts: Mapping[str, str],
) -> Line:
    """Two columns, a third that takes what is left, and those on the right by their names."""
    taken = sum(rooms) + 1 + sum(room + 1 for _, room in columns)
    third = max(4, width - taken)
    line = [
        part._replace(text=column(part.text, room))
        for part, room in zip(left, (*rooms, third), strict=True)
    ]
    line[1] = line[1]._replace(text=line[1].text + " ")
    right = ((texts.get(name, ""), room) for name, room in columns)
    return line + [Part(" " + column(text, room), "dim") for text, room in right]


# --- attempts ---


def _call_columns(width: int) -> list[tuple[str, int]]:
    if width < MIDDLE:
        return [("cost", 8)]
    return [("tokens", 8), ("cost", 9), ("work", 24 if width >= WIDE else 14)]


def call_head(width: int) -> Line:
    columns = _call_columns(width)
    left = Part("attempt"), Part("took"), Part("result")
    return _row(width, (8, 8), left, columns, {name: name for name, _ in columns})


def call_line(look: Look, call: Call, width: int, now: datetime) -> Line:
    """One attempt, beside the others."""
    seconds = call.seconds if call.ended else (now - call.started).total_seconds() * look.alive
    number = str(call.attempt or running_attempt(look, call) or "–")
    left = Part(number), Part(render.duration(max(0.0, seconds)), "dim"), _result(look, call)
    texts = {"work": work_of(call, width)}
    if call.usage:
        texts["tokens"] = formatting.tokens(call.usage)
        texts["cost"] = formatting.money(call.usage.cost_usd)
    return _row(width, (8, 8), left, _call_columns(width), texts)


def _result(look: Look, call: Call) -> Part:
    """How a call went, and why."""
    if not call.outcome:
        return Part("▶ at work", "accent") if look.alive else Part("✗ cut short", "warn")
    what, reason = call_words(call.outcome, call.reason)
    text = clean(f"{what}: {render.gist(reason)}" if reason.strip() else what)
    if call.limit:
        return Part(f"‖ {text}", "warn")
    if call.outcome == "complete" and not call.wasted:
        return Part(f"✓ {text}", "good" if call.kept else "accent")
    return Part(f"✗ {text}", "bad")


def running_attempt(look: Look, call: Call) -> int:
    return next((it.attempt for it in look.run.open_iterations if it.n == call.n), 0)


def work_of(call: Call, width: int) -> str:
    """What became of a call's work."""
    if call.kept:
        return f"kept {call.commit[:8]}" if call.commit else "kept"
    if call.saved_ref:
        name = call.saved_ref.rpartition("/")[2]
        return f"put back, saved as {clean(name)}" if width >= WIDE else "put back"
    return "put back" if call.settled else ""


# --- lanes ---


class LaneRow(NamedTuple):
    """One lane, as `status --json` has it."""

    lane: int
    story_id: str
    attempt: object
    phase: str
    since: object
    slot: str


def lane_rows(look: Look) -> list[LaneRow]:
    lanes = look.state.get("lanes")
    if isinstance(lanes, list):
        names = ("lane", "story_id", "attempt", "phase", "since", "slot")
        return [LaneRow(*(row[name] for name in names)) for row in lanes]
    opened = look.state.get("open_iteration")
    call: Mapping[str, object] = opened if isinstance(opened, dict) else {}
    story = str(call.get("story_id") or "")
    return [LaneRow(0, story, call.get("attempt"), look.phase, call.get("started"), "")]


def _lane_columns(width: int) -> list[tuple[str, int]]:
    return [("for", 9), ("last sign", 10)] if width >= MIDDLE else [("for", 8)]


def lane_head(width: int) -> Line:
    left, columns = (Part("lane"), Part("story"), Part("what it does")), _lane_columns(width)
    return _row(width, (6, 10), left, columns, {name: name for name, _ in columns})


def lane_line(look: Look, row: LaneRow, width: int, now: datetime) -> Line:
    text = phase_words(row.phase) if look.alive else "not running"
    text += f", attempt {row.attempt}" if row.attempt else ""
    since = datetime.fromisoformat(str(row.since)) if row.since else now
    texts = {"last sign": ago(look, row.lane, now)}
    if row.since:
        texts["for"] = render.duration(max(0.0, (now - since).total_seconds()))
    style = "accent" if row.story_id and look.alive else "dim"
    left = Part(str(row.lane)), Part(clean(row.story_id)), Part(text, style)
    return _row(width, (6, 10), left, _lane_columns(width), texts)


# --- evidence ---


def _evidence_columns(width: int) -> list[tuple[str, int]]:
    return [("checks", 8), ("change", 22)] if width >= WIDE else [("checks", 8)]


def evidence_head(width: int) -> Line:
    left, columns = (Part("proof"), Part("commit"), Part("story")), _evidence_columns(width)
    return _row(width, (12, 9), left, columns, {name: name for name, _ in columns})


def evidence_line(call: Call, width: int, size: Size | None) -> Line:
    """A checkpoint and what stands behind it."""
    state = STATES["verified"] if call.verified else STATES["done, not verified"]
    if call.unchanged:
        state = STATES[UNCHANGED]
    passed = sum(check.passed is True for check in call.all_checks)
    texts = {
        "checks": f"{passed} of {len(call.all_checks)}" if call.all_checks else "none",
        "change": formatting.size(size) if size else "",
    }
    title = clean(f"{call.key[0]} {call.key[1]}".strip() or f"iteration {call.n}")
    proof = Part(f"{state.sign} {state.word}", state.style)
    left = proof, Part(call.commit[:8], "dim"), Part(title)
    return _row(width, (12, 9), left, _evidence_columns(width), texts)


def checkpoints(look: Look) -> list[Call]:
    """The calls whose work is kept, the newest first."""
    return [call for call in reversed(look.account.calls) if call.kept]
