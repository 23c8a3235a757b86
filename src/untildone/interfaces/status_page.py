"""One loop on one screen: what it is at, what is done, why it stopped, what to type next."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from untildone.app.wording import (
    after_restore,
    call_words,
    outcome_words,
    parked_words,
    reason_words,
)
from untildone.domain.costs.budget import said
from untildone.domain.plain_text import amount, count_of
from untildone.domain.reporting.account import UNCHANGED, Account, Call, total
from untildone.domain.run.run import Run
from untildone.domain.run.run_commands import is_checked
from untildone.domain.run.user_requests import waits_for_person
from untildone.domain.stories.parking import Why
from untildone.interfaces import render
from untildone.wiring.worktrees import has_ended

Loop = Mapping[str, object]
Told = tuple[Run, Account] | None

PHASES = {
    "opening": "is starting",
    "choosing_story": "between two calls",
    "agent": "the agent is at work",
    "measuring": "the call is over, its tokens are counted",
    "verifying": "the checks run",
    "settling": "the work is kept or put back",
    "waiting_limit": "waits for a limit to be over",
    "waiting_budget": "waits for a higher budget",
    "awaiting_decision": "waits for your decision about a story",
    "awaiting_person": "waits for you to say that it is done",
    "awaiting_choice": "waits for your choice",
}
LANE_PHASES = {
    "preparing": "its checkout is made",
    "idle": "has nothing to do now",
    "waiting_to_land": "finished, waits for its turn to land",
    "landing": "is brought together with what landed before it",
}
ENDINGS = {"cleanup": "cleaned up, the changes are on your branch", "keep": "kept"}
UNDO_CLEANUP = "undo (takes the cleanup back)"
NOT_DONE = {"not done": "failed", "interrupted": "cut short", "not started": "not started"}
MOST_NAMED = 5
AT_WORK = ("agent", "measuring", "verifying", "settling")


def page(loop: Loop, told: Told, now: datetime) -> str:
    """The screen of a loop; `told` is what its journal says, if there is one."""
    rows = [
        *(_lanes(loop, now) or _story(loop, told)),
        *_why(loop, told),
        *_done(loop, told),
        *_not_done(loop, told),
        *_times(loop, now),
        *_figures(loop, told),
        *_asked(loop, told),
        *_next(loop, told),
    ]
    return "\n".join(
        [f"{loop['change_id']}: {headline(loop, told)}", *(f"  {row}" for row in rows)]
    )


def headline(loop: Loop, told: Told) -> str:
    """Where a run stands, in half a sentence."""
    status, phase, choice = (str(loop.get(name) or "") for name in ("status", "phase", "choice"))
    if told and told[0].restored:
        return f"{status}, then restored: all is as it was before the run (not running)"
    if loop["alive"]:
        return f"{status}, {PHASES.get(phase, phase.replace('_', ' '))}"
    if phase == "died":
        return "died: its loop is gone without a word (killed, or the machine went down)"
    if phase == "awaiting_choice" and choice:
        return f"{status}, but its {choice} was cut short (not running)"
    if phase == "awaiting_choice":
        return f"{status}, your choice is still open (not running)"
    return f"{status}, {ENDINGS[choice]} (not running)" if choice else f"{status} (not running)"


def _story(loop: Loop, told: Told) -> Iterator[str]:
    call = told[1].calls[-1] if told and told[1].calls else None
    if call is None or not call.key[0]:
        return
    label = "story" if loop["alive"] and loop.get("phase") in AT_WORK else "last story"
    attempt = f", attempt {call.attempt}" if call.attempt else ""
    opened = loop.get("open_iteration")
    if isinstance(opened, dict):
        attempt = f", attempt {opened['attempt']}"
    yield f"{label}: {call.key[0]} {call.key[1]}".rstrip() + attempt


def _lanes(loop: Loop, now: datetime) -> list[str]:
    """A row for each lane that is at work, and who waits to land; nothing for a single one."""
    lanes, landing = loop.get("lanes"), loop.get("landing")
    if not (loop["alive"] and isinstance(lanes, list)):
        return []
    rows = []
    for lane in lanes:
        what = LANE_PHASES.get(lane["phase"]) or PHASES.get(lane["phase"], lane["phase"])
        story = f"story {lane['story_id']}, attempt {lane['attempt']}, " * bool(lane["story_id"])
        since = f", since {render.when(lane['since'], now)}" if lane["since"] else ""
        rows.append(f"lane {lane['lane']}: {story}{what}{since}")
    queue = landing["queue"] if isinstance(landing, dict) else []
    return [*rows, *([f"waiting to land: {', '.join(queue)}"] if queue else [])]


def _why(loop: Loop, told: Told) -> Iterator[str]:
    """Why it does not go on, in words; a run that is done or at work needs none."""
    if told and told[0].restored:
        yield f"why: {told[0].error}"
        return
    if loop.get("status") in ("stuck", "stalled", "stopped") and loop.get("phase") != "died":
        yield f"why: {loop.get('error') or reason_words(loop.get('reason'))}"
    last = _last_failure(told[1]) if told else None
    if last and loop.get("status") != "done":
        what, why = call_words(last.outcome, last.reason)
        reason = render.gist(why)
        told_why = f": {reason}" if reason and reason != what else ""
        yield f"last failed call: {last.n}, {what}{told_why}"


def _last_failure(account: Account) -> Call | None:
    over = (call for call in reversed(account.calls) if call.outcome not in ("", "interrupted"))
    last = next(over, None)
    return last if last and last.wasted else None


def _done(loop: Loop, told: Told) -> Iterator[str]:
    counts = loop.get("stories")
    if not isinstance(counts, dict):
        if loop.get("checked") is False:
            yield render.unchecked(loop)
        return
    text = f"done: {counts['finished']} of {count_of(counts['total'], 'story', 'stories')}"
    if told:
        verified = len(told[1].of_state("verified"))
        text += f", {verified or 'none'} verified by a check"
        if unchanged := len(told[1].of_state(UNCHANGED)):
            text += f", {count_of(unchanged, 'story', 'stories')} done, nothing changed"
        if not is_checked(told[0].plan):
            text += " (no check was given: by the agent's word alone)"
    yield text


def _not_done(loop: Loop, told: Told) -> Iterator[str]:
    """The stories of a run that does not go on by itself; parked ones have rows of their own."""
    if not told or loop["alive"] or loop.get("status") == "done":
        return
    rest = [story for story in told[1].stories if story.state in NOT_DONE]
    shown = [f"{story.id} {story.title} ({NOT_DONE[story.state]})" for story in rest[:MOST_NAMED]]
    if len(rest) > MOST_NAMED:
        shown.append(f"and {len(rest) - MOST_NAMED} more")
    if shown:
        yield f"not done: {', '.join(shown)}"


def _times(loop: Loop, now: datetime) -> Iterator[str]:
    yield f"started: {render.when(loop['started_at'], now)}"
    if loop.get("last_sign"):
        yield f"last sign of life: {render.when(loop['last_sign'], now)}"
    if loop.get("waiting_until"):
        kind = outcome_words(loop.get("waiting_for") or "a limit")
        yield f"waiting until {render.when(loop['waiting_until'], now)}: {kind}"


def _figures(loop: Loop, told: Told) -> Iterator[str]:
    yield f"calls: {loop['current_iteration']} of at most {loop['max_iterations']}, {loop['agent']}"
    yield f"tokens: {_tokens(loop, told)}"
    yield f"cost: {_cost(loop, told)}"
    for text in render.budgets(loop.get("budgets")):
        yield f"budget: {text}"
    rest = render.forecast(loop.get("forecast"))
    if rest:
        yield f"forecast: {rest}"
    if loop.get("saved_attempts"):
        size = amount(loop.get("saved_bytes"))
        yield f"saved attempts: {loop['saved_attempts']}, {size} that nothing else keeps"
    if loop.get("ignored"):
        yield f"lines not counted as tasks: {loop['ignored']} (`untildone stories` lists them)"
    yield f"worktree: {loop['worktree']}"
    yield from (f"learnings: {path}" for path in filter(None, [loop.get("learnings_file")]))


def _tokens(loop: Loop, told: Told) -> str:
    shown = render.tokens(loop["total_tokens"]) if loop["total_tokens"] else "unknown"
    silent = told[0].ledger.total.uncounted if told else 0
    if not silent or not loop["total_tokens"]:
        return shown if loop["current_iteration"] else "none yet"
    return f"{shown}, unknown for {count_of(silent, 'call')}"


def _cost(loop: Loop, told: Told) -> str:
    cost = loop.get("total_cost_usd")
    if not loop["current_iteration"]:
        return "none yet"
    if not isinstance(cost, int | float):
        return "unknown"
    sums = total(told[1].calls) if told else None
    part = sums and sums.priced < sums.calls
    more = f", known of {sums.priced} of {count_of(sums.calls, 'call')}" if sums and part else ""
    return f"{said('cost', cost)}{more}"


def _asked(loop: Loop, told: Told) -> Iterator[str]:
    """What waits for the person, each with the command that answers it."""
    change, rows = loop["change_id"], loop.get("parked")
    for row in rows if isinstance(rows, list) else []:
        text = render.first_line(row.get("question") or row.get("reason") or "")
        yield f"story {row['story_id']} {parked_words(row['why'])}" + (text and f": {text}")
        if told and has_ended(told[0]):
            continue
        label = {Why.QUESTION: "answer", Why.MARKED: "answer", Why.SKIPPED: "take it up again"}
        if row["why"] in label:
            command = _answer(change, row["story_id"], row["why"])
            yield f"  {label[row['why']]}: untildone {command}"


def _answer(change: object, story_id: str, why: str) -> str:
    """The command that lets a story go on which only the person can decide about."""
    skipped = why == Why.SKIPPED
    guide = f'guide {change} --story {story_id} "your answer"'
    return f"retry {change} {story_id}" if skipped else guide


def _next(loop: Loop, told: Told) -> Iterator[str]:
    """What to type, the likeliest first."""
    return (f"next: untildone {command}" for command in next_commands(loop, told))


def next_commands(loop: Loop, told: Told) -> Iterator[str]:
    """What to type after `untildone`, the likeliest first."""
    change, phase, choice = loop["change_id"], loop.get("phase"), loop.get("choice")
    over = loop.get("budget_reached")
    more = f" --budget {over['enough']}" if isinstance(over, dict) else ""
    if loop["alive"]:
        yield from _while_alive(change, phase, more)
    elif told and told[0].restored:
        yield from (f"{command} ({what})" for command, what in after_restore(told[0]))
    elif phase == "awaiting_choice" and choice:
        yield f"finish {change} {choice} (carries out the rest)"
    elif loop["status"] in ("stopped", "stuck", "stalled", "running", "starting"):
        yield from _to_go_on(loop, told, more)
    elif phase == "awaiting_choice":
        yield f"finish {change} cleanup|keep|pr"
    elif choice == "keep":
        yield f"finish {change} cleanup (the changes to your branch, uncommitted)"
        yield f"finish {change} pr (a pull request with them)"
    elif choice == "cleanup":
        yield UNDO_CLEANUP


def _to_go_on(loop: Loop, told: Told, more: str) -> Iterator[str]:
    change = loop["change_id"]
    # A start that was cut short, or a run that was cleaned up, has nothing to go on from.
    over = loop.get("choice") == "cleanup" or (told and told[0].abandoned)
    if over or not loop.get("backup_ref"):
        yield f"run {change}{more}"
        if loop.get("choice") == "cleanup":
            yield UNDO_CLEANUP
        return
    waiting = waits_for_person(told[0], told[0].book) if told else {}
    first = next(iter(waiting.items()), None)
    if first:
        yield _answer(change, first[0][0], first[1])
    yield f"resume {change}{more}" + (" (after that)" if first else "")
    yield f"report {change} (what happened, call by call)"
    yield f"finish {change} cleanup|keep|pr (ends the run as it is)"


def _while_alive(change: object, phase: object, more: str) -> Iterator[str]:
    match phase:
        case "waiting_budget":
            yield f"resume {change}{more}"
        case "awaiting_person":
            yield f"done {change}"
        case "awaiting_choice":
            yield f"finish {change} cleanup|keep|pr"
        case "awaiting_decision":
            yield f"retry {change} STORY (or skip, or guide --story)"
        case _:
            yield f"logs {change} --follow"
