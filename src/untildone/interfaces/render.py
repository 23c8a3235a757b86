"""Events and states as words: pure functions from an event object to human lines."""

from collections.abc import Mapping
from datetime import datetime

from untildone.app.wording import call_words, parked_words, reason_words
from untildone.domain.costs.budget import said
from untildone.domain.plain_text import count_of, plain

EventObject = Mapping[str, object]

TEXT_WIDTH = 160
TEXT_LINES = 6
UNCHECKED = "nothing is checked after COMPLETE: the agent's word alone counts"
ONLY_YOU = "nothing is checked: the work of every call is kept, and only you end this run"


def safe(event: EventObject) -> EventObject:
    """The event without anything that a terminal would obey, for every window."""
    return {name: _safe(value) for name, value in event.items()}


def _safe(value: object) -> object:
    match value:
        case str():
            return plain(value)
        case list() | tuple():
            return [_safe(item) for item in value]
        case Mapping():
            return safe(value)
        case _:
            return value


def line(event: EventObject) -> str:
    """One line for an event, or an empty string for what is not worth one."""
    words = _WORDS.get(str(event["event"]))
    text = words(event) if words else ""
    lane = event.get("lane")
    if lane is None or not text:
        return text
    return "\n".join(f"[{lane}] {row}" for row in text.split("\n"))


def complaint(event: EventObject) -> str:
    """What goes to standard error in every mode: warnings and errors."""
    name = event["event"]
    if name == "warning":
        return f"warning: {event['message']}"
    if name == "error":
        reason = str(event.get("reason") or "")
        more = f"\n  reason: {reason}" if reason and reason != event["message"] else ""
        saved = event.get("saved_ref")
        more += f"\n  saved: {saved}" if saved else ""
        hint = f"\nhint: {event['hint']}" if event.get("hint") else ""
        return f"error: {event['message']}{more}{hint}"
    return ""


def title(event: EventObject, state: dict[str, object]) -> str:
    """The window title after this event, or an empty string to leave it."""
    name = event["event"]
    if name == "run_started":
        state["change"] = event["change_id"]
        state["max"] = event["max_iterations"]
    if name == "iteration_started":
        return f"Ralph: {state.get('change')} [{event['n']}/{state.get('max')}]"
    if name == "finished":
        return f"Ralph: {state.get('change')} [{event['status']}]"
    return ""


def clock_time(at: object) -> str:
    """A stamp as local hours, minutes and seconds."""
    return datetime.fromisoformat(str(at)).astimezone().strftime("%H:%M:%S")


def when(at: object, now: datetime) -> str:
    """A stamp as local time, with the day unless it is today, and how long ago it was."""
    local = datetime.fromisoformat(str(at)).astimezone()
    today = local.date() == now.astimezone().date()
    shown = local.strftime("%H:%M:%S" if today else "%b %d %H:%M")
    seconds = (now - local).total_seconds()
    span = duration(abs(seconds))
    return f"{shown} ({span} ago)" if seconds >= 0 else f"{shown} (in {span})"


def moment(at: object) -> float | None:
    """A stamp as seconds since 1970; None for no stamp."""
    return datetime.fromisoformat(str(at)).timestamp() if at else None


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"


def tokens(count: object) -> str:
    """A token count, short."""
    number = count if isinstance(count, int) else 0
    return f"{number / 1000:.1f}k" if number >= 10_000 else str(number)


def tokens_used(count: object) -> str:
    """What a call took: none at all means that nobody has told."""
    return f"{tokens(count)} tokens" if count else "tokens unknown"


def budgets(rows: object) -> list[str]:
    """Each budget as spent and limit."""
    if not isinstance(rows, list):
        return []
    return [
        f"{row['name']} {said(row['name'], row['spent'])} of {said(row['name'], row['limit'])}"
        for row in rows
    ]


def forecast(rest: object) -> str:
    """What the rest will cost, and how far the budgets will take it; empty if nobody knows yet."""
    if not isinstance(rest, Mapping):
        return ""
    left, cost, short = rest["stories_left"], rest["cost_usd"], rest["enough_for"]
    parts = [f"{said('tokens', rest['tokens'])} tokens"] if rest["tokens"] else []
    parts += [said("cost", cost)] if cost is not None else []
    parts.append(said("time", rest["minutes"]))
    text = f"{count_of(left, 'story', 'stories')} left, about {', '.join(parts)}"
    if short is not None:
        text += f"; the budget of {rest['budget']} is enough for about {short} of {left}"
    return text


def first_line(text: object, width: int = TEXT_WIDTH) -> str:
    """The first line that says something, cut to a width."""
    row = next((row.strip() for row in str(text).splitlines() if row.strip()), "")
    return row if len(row) <= width else row[: width - 1] + "…"


def _agent_text(event: EventObject) -> str:
    """The last lines that say something, each cut to a width; what is left out is counted."""
    rows = [row.strip() for row in str(event["text"]).splitlines() if row.strip()]
    more = len(rows) - TEXT_LINES
    left_out = [f"… {count_of(more, 'more line')}: `untildone logs`"] if more > 0 else []
    shown = [*left_out, *map(first_line, rows[-TEXT_LINES:])]
    return "\n".join(f"  │ {row}" for row in shown)


def _run_started(event: EventObject) -> str:
    how = "going on with" if event.get("resumed") else "run of"
    what = f"{event['change_id']} with {event['agent']} (from {event['original_branch']})"
    sandbox = f", sandbox: {event['sandbox']}" if event.get("sandbox") else ""
    granted = f", permissions: {event['permissions']}" if event.get("permissions") else ""
    kept = [f"budget: {text}" for text in budgets(event.get("budgets"))]
    told = (text for text in _texts(event.get("notify")) if not text.startswith("cmd:"))
    kept += [f"tells: {text}" for text in told]  # a command is among the commands
    rows = [f"▶ {how} {what}{granted}{sandbox}", *_agent_rows(event), *_checks(event), *kept]
    return "\n  ".join(rows)


def _agent_rows(event: EventObject) -> list[str]:
    """What the agents are really kept from, and what the configuration gives them."""
    rows = _texts(event.get("permissions_hold"))
    for word, key in (("argument", "agent_args"), ("variable", "agent_env")):
        pairs = (text.partition("=") for text in _texts(event.get(key)))
        rows += [f"{word} for {name}: {given}" for name, _, given in pairs]
    return rows


def _checks(event: EventObject) -> list[str]:
    """What is checked, or could be: one line each, so that nothing of it is silent."""
    rows = _commands(event)
    if found := _texts(event.get("verify_found")):
        listed = ", ".join(f"`{command}`" for command in found)
        rows.append(f"nothing is checked after COMPLETE; `--verify auto` would run: {listed}")
    elif event.get("checked") is False:
        rows.append(unchecked(event))
    if event.get("protected"):
        rows.append(f"protected: {', '.join(_texts(event['protected']))}")
    return rows


def unchecked(about: EventObject) -> str:
    """What ends a run, or a story of it, where there is no check."""
    if about.get("done_criteria") == "manual" and not about.get("source"):
        return ONLY_YOU
    return f"{UNCHECKED}; `--verify CMD` names a check"


def command(row: EventObject) -> str:
    """A command that will be executed, and where it comes from."""
    story = f" of story {row['story_id']}" if row["story_id"] else ""
    return f"{row['what']}{story}: {row['command']} (from {row['origin']})"


def _commands(event: EventObject) -> list[str]:
    """Every command that will be executed, and where it comes from."""
    rows = event.get("commands")
    if not isinstance(rows, list | tuple):  # of an earlier release
        return [f"check: {text}" for text in _texts(event.get("verify"))]
    shown = [command(row) for row in rows]
    off = [text for text in _texts(event.get("verify")) if text.startswith("off:")]
    return shown + [f"check: {text}" for text in off]


def _stories_loaded(event: EventObject) -> str:
    total = count_of(int(str(event["total"])), "task")
    return f"  {event['complete']} of {total} done" if event.get("stories") else ""


def _iteration_started(event: EventObject) -> str:
    attempt = f"attempt {event['attempt']} of {event['attempts_allowed']}"
    story = f"story {event['story_id']} {event.get('title', '')}".rstrip()
    what = f"{story}, {attempt}" if event["story_id"] else "plain loop"
    agent, model = event.get("agent"), event.get("model")
    by = f", by {agent}:{model}" if model else f", by {agent}"
    return f"▶ iteration {event['n']}: {what}{by if event.get('instead_of') else ''}"


def _iteration_ended(event: EventObject) -> str:
    mark = "✓" if event["outcome"] == "complete" else "✗"
    what, why = call_words(event["outcome"], event.get("reason"))
    tail = f": {gist(why)}" if why.strip() else ""
    return f"{mark} iteration {event['n']}: {what}, {tokens_used(event['tokens_used'])}{tail}"


def _texts(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, list | tuple) else []


def gist(reason: object) -> str:
    """A reason in one line: its first, and after a colon its last."""
    rows = [row.strip() for row in str(reason or "").splitlines() if row.strip()]
    if len(rows) > 1 and rows[0].endswith(":"):
        return first_line(f"{rows[0]} {rows[-1]}")
    return first_line(rows[0]) if rows else ""


def _reverted(event: Mapping[str, object]) -> str:
    where = event["saved_ref"]
    said = f"the attempt is saved as {where}" if where else "there was nothing to save"
    return f"↶ put back; {said}"


def _retrying(event: EventObject) -> str:
    said = f"↻ story {event['story_id']}: attempt {event['attempt']} of {event['attempts_allowed']}"
    if event.get("same_failure"):
        said += f", the same failure {event['same_failure']} times in a row"
    return f"{said}; {event['agent']} takes over" if event.get("agent") else said


def _story_parked(event: EventObject) -> str:
    said = first_line(event.get("question") or event.get("reason") or "")
    row = f"‖ story {event['story_id']} {parked_words(event['why'])}" + (
        f": {said}" if said else ""
    )
    waits = _listed(event.get("blocks"))
    return f"{row}\n  not started because of it: {waits}" if waits else row


def _listed(names: object) -> str:
    return ", ".join(map(str, names)) if isinstance(names, list | tuple) else ""


def _guided(event: EventObject) -> str:
    about = f" for story {event['story_id']}" if event.get("story_id") else ""
    return f"✎ guidance{about}: {first_line(event['text'])}"


def _verify_ended(event: EventObject) -> str:
    level = f" ({event['level']})" if event.get("level", "required") != "required" else ""
    how = "passed" if event["passed"] else "failed"
    return f"  check {how}{level}{_with_tests(event)}: {event['command']}"


def _with_tests(event: EventObject) -> str:
    return " with the tests as they were" if event.get("earlier_tests") else ""


def _waiting(event: EventObject) -> str:
    until = f" until {clock_time(event['until'])}" if event.get("until") else ""
    return f"⏳ waiting{until}: {event['why']}"


def _budget_set(event: EventObject) -> str:
    kept = ", ".join(budgets(event["budgets"])) or "none"
    return f"  budget: {kept}"


def _complete(event: EventObject) -> str:
    said = "done" if event["reason"] == "success" else f"ended: {reason_words(event['reason'])}"
    return f"● {said}{proof(event)}"


def proof(about: EventObject) -> str:
    """What stands behind the finished stories, as the end of a sentence."""
    counts = about.get("stories")
    parts = []
    if about.get("checked") is False:
        by_person = about.get("by") == "person"
        parts.append("no check ran" + ("" if by_person else ": by the agent's word alone"))
    elif isinstance(counts, Mapping) and "verified" in counts:
        parts.append(f"{count_of(counts['verified'], 'story', 'stories')} verified by a check")
    if isinstance(counts, Mapping) and counts.get("unchanged"):
        parts.append(f"{count_of(counts['unchanged'], 'story', 'stories')} done, nothing changed")
    return "".join(f", {part}" for part in parts)


def _requeued(event: EventObject) -> str:
    return f"↻ story {event['story_id']} is done again on what has landed: {gist(event['why'])}"


def _checkpoint_saved(event: EventObject) -> str:
    how = ", nothing changed" if event.get("unchanged") else ""
    return f"⚑ checkpoint {str(event['commit'])[:12]} for {event['story_id']}{how}"


def _finished(event: EventObject) -> str:
    choice = event.get("choice")
    notes = event.get("notes")
    more = "".join(f"\n  {note}" for note in notes) if isinstance(notes, list) else ""
    return f"● finished: {event['status']}" + (f", {choice}" if choice else "") + more


def _pull_request(event: EventObject) -> str:
    return f"▲ pull request: {event['url']}"


_WORDS = {
    "run_started": _run_started,
    "stories_loaded": _stories_loaded,
    "iteration_started": _iteration_started,
    "agent_text": _agent_text,
    "agent_tool": lambda e: f"  ⚒ {e['tool']} {first_line(e.get('detail', ''), 100)}".rstrip(),
    "checks_tried": lambda e: "  trying the checks first: " + ", ".join(_texts(e["commands"])),
    "verify_started": lambda e: f"  check{_with_tests(e)}: {e['command']}",
    "verify_ended": _verify_ended,
    "iteration_ended": _iteration_ended,
    "slot_ready": lambda e: f"  works in {e['path']}",
    "requeued": _requeued,
    "checkpoint_saved": _checkpoint_saved,
    "archived": lambda e: f"▤ {e['change_id']} is archived: {e['path']}",
    "reverted": _reverted,
    "retrying": _retrying,
    "story_parked": _story_parked,
    "guided": _guided,
    "added": lambda e: f"  added: story {e['story_id']} ({e['title']})",
    "reordered": lambda e: f"  to come first: {_listed(e['story_ids'])}",
    "story_released": lambda e: f"▷ story {e['story_id']} is retried",
    "waiting": _waiting,
    "budget_set": _budget_set,
    "complete": _complete,
    "finished": _finished,
    "pull_request": _pull_request,
}
