"""The lines around the lists: where the run stands, what waits, which story and why."""

from collections.abc import Iterator
from datetime import datetime

from untildone.app.wording import call_words
from untildone.domain.costs.budget import said
from untildone.domain.plain_text import count_of
from untildone.domain.reporting.account import Call, StoryAccount
from untildone.interfaces import render
from untildone.interfaces.report import formatting
from untildone.interfaces.status_page import headline, next_commands
from untildone.interfaces.tui.lines import (
    Line,
    Part,
    apart,
    cells,
    clean,
    fit,
    shortened,
    wrapped,
)
from untildone.interfaces.tui.look import Look
from untildone.interfaces.tui.tables import MIDDLE, state_of

VIEWS = ("stories", "story", "lanes", "evidence")
SECTIONS = ("log", "diff", "checks", "prompt")
MOST_WHY = 4


RUN_SIGNS = {
    "done": ("●", "good"),
    "stuck": ("✗", "bad"),
    "stalled": ("✗", "bad"),
    "stopped": ("■", "warn"),
}


def top(look: Look, width: int, now: datetime) -> Line:
    """Where the run stands, and its figures; the less important ones give way."""
    sign, style = run_sign(look)
    name = clean(look.change)
    status = clean(headline(look.loop, (look.run, look.account)))
    figures = list(_figures(look, now))
    room = width - len(name) - 8
    while figures and sum(map(len, figures)) + 3 * len(figures) > room - min(len(status), 22):
        figures.pop()
    right = " · ".join(figures)
    left = shortened(status, max(8, room - len(right) - 1))
    line = [Part(f" {sign} ", style), Part(name, "strong"), Part(f"  {left}", style)]
    return apart(line, [Part(right + " ")], width)


def run_sign(look: Look) -> tuple[str, str]:
    if look.alive:
        waits = look.phase.startswith(("waiting", "awaiting"))
        return ("‖", "warn") if waits else ("▶", "accent")
    return RUN_SIGNS.get(str(look.state["status"]), ("■", "warn"))


def _figures(look: Look, now: datetime) -> Iterator[str]:
    """The most important first."""
    run, state = look.run, look.state
    counts = state.get("stories")
    if isinstance(counts, dict):
        yield f"{counts['finished']} of {count_of(counts['total'], 'story', 'stories')}"
    spent = run.ledger.total.cost_usd
    budgets = state.get("budgets")
    held = {row["name"]: row for row in budgets} if isinstance(budgets, list) else {}
    if "cost" in held:
        yield f"{said('cost', held['cost']['spent'])} of {said('cost', held['cost']['limit'])}"
    elif spent is not None:
        yield formatting.money(spent)
    end = now if look.alive else look.account.last
    yield render.duration(max(0.0, (end - run.started_at).total_seconds()))
    yield f"call {run.current_iteration} of {run.plan.limits.max_iterations}"
    yield clean(run.plan.agent)


def tabs(look: Look, view: str, story: StoryAccount | None, width: int) -> Line:
    """The screens, with their keys; the rest of the line is how far the run is."""
    names = {"stories": "Stories", "story": "Story", "lanes": "Lanes", "evidence": "Evidence"}
    if story and width >= MIDDLE:
        names["story"] = f"Story {fit(clean(story.id), 12)}"
    line: Line = [Part(" ")]
    for k, (name, label) in enumerate(names.items(), 1):
        chosen = "chosen" if name == view else ""
        action = f"app.go('{name}')"
        line += [Part(f" {k} ", chosen or "key", action), Part(f"{label} ", chosen, action)]
    counts = look.state.get("stories")
    room = width - cells(line) - 4
    if not isinstance(counts, dict) or room < 12:
        return line
    room = min(room, 40)
    done = room * counts["finished"] // max(counts["total"], 1)
    return apart(
        line, [Part("━" * done, "good"), Part("─" * (room - done), "bar"), Part(" ")], width
    )


def notice(look: Look, width: int) -> list[Line]:
    """What waits for the person, or what can be typed after the end."""
    text, key = _waits_for_person(look)
    if text:
        shown = fit(clean(text), width - len(key) - 8)
        return [[Part(" ‖ ", "warn"), Part(shown, "warn"), Part("  "), Part(key, "key")]]
    commands = next_commands(look.loop, (look.run, look.account))
    first = "" if look.alive else next(commands, "")
    text = fit(clean(f"next: untildone {first}"), width - 4)
    return [[Part(f"   {text}", "dim")]] if first else []


def _waits_for_person(look: Look) -> tuple[str, str]:
    """What the run waits for, and the key that answers."""
    match look.phase if look.alive else "":
        case "awaiting_choice":
            return "the run is over and waits for your choice", "e chooses"
        case "awaiting_person":
            return "all stories are finished, and only you end this run", "e says so"
        case "waiting_budget":
            over = look.state.get("budget_reached")
            name = over["name"] if isinstance(over, dict) else ""
            return f"the budget of {name} is used up, the run waits", "b raises it"
        case _:
            return _question(look)


def _question(look: Look) -> tuple[str, str]:
    asking = [(key, entry) for key, entry in look.run.parked.items() if entry.asks]
    if not asking or look.run.closed:
        return "", ""
    (story_id, _), entry = asking[0]
    return f"story {story_id} asks: {render.gist(entry.text)}", "a answers"


def story_top(look: Look, story: StoryAccount, width: int) -> list[Line]:
    """Which story it is, and why its last call failed."""
    state = state_of(look, story)
    right = [Part(f"{state.sign} {state.word} ", state.style)]
    title = fit(clean(f"{story.id}  {story.title}"), width - cells(right) - 4)
    lines = [apart([Part("  "), Part(title, "strong")], right, width)]
    text, style = why(look, story)
    rows = [
        row
        for line in text.split("\n")
        if line.strip()
        for row in wrapped(clean(line.strip()), width - 4)
    ]
    if len(rows) > MOST_WHY:
        rows = [*rows[: MOST_WHY - 1], "…"]
    return [*lines, *([Part("  "), Part(row, style)] for row in rows)]


def why(look: Look, story: StoryAccount) -> tuple[str, str]:
    """Why a story is not done, or what it asks; empty if there is nothing to say."""
    parked = look.parked(story)
    if parked and parked.asks:
        return parked.text, "warn"
    last = next((call for call in reversed(story.calls) if call.outcome), None)
    if parked and parked.text and not parked.tried:
        return parked.text, "dim"
    if last is None or last.kept or last.outcome == "complete":
        return "", ""
    what, reason = call_words(last.outcome, last.reason)
    return (f"{what}: {reason}" if reason.strip() else what), "bad"


def sections(chosen: str, before: Call | None, width: int, right: str) -> Line:
    """What of an attempt is shown below."""
    line: Line = [Part(" ")]
    for name in SECTIONS:
        style, key = ("chosen", "chosen") if name == chosen else ("", "key")
        action = f"app.section('{name}')"
        line += [Part(f" {name[0]}", key, action), Part(f"{name[1:]} ", style, action)]
    if chosen == "diff":
        since = f"since attempt {before.attempt}" if before else "since its checkpoint"
        line.append(Part(f"  {since}", "dim"))
    room = max(0, width - cells(line) - 2)
    return apart(line, [Part(fit(right, room) + " ", "dim")], width)
