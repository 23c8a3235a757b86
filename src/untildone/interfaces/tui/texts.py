"""The texts below the lists: what an agent says, a diff, checks, a prompt, the landing queue."""

from collections.abc import Iterable, Iterator

from untildone.domain.plain_text import count_of, plain
from untildone.domain.reporting.account import Call, CheckRun, StoryAccount
from untildone.interfaces import render
from untildone.interfaces.report import formatting
from untildone.interfaces.tui.lines import Entry, clean
from untildone.interfaces.tui.look import EventObject, Look
from untildone.interfaces.tui.pages import why
from untildone.interfaces.tui.tables import lane_rows

NO_DIFF_YET = Entry("The attempt is not over: its diff is there when it is.", "dim")
NOTHING_KEPT = Entry("Nothing is kept yet: a checkpoint is made of each finished story.", "dim")
STYLE_OF = {
    "agent_tool": "accent",
    "checkpoint_saved": "good",
    "landed": "good",
    "reverted": "warn",
    "retrying": "warn",
    "requeued": "warn",
    "waiting": "warn",
    "warning": "warn",
    "story_parked": "warn",
    "error": "bad",
    "iteration_started": "strong",
    "complete": "strong",
    "finished": "strong",
}


def words(events: Iterable[EventObject]) -> list[Entry]:
    """What was said and done, each with its time."""
    return [entry for event in events for entry in _entries(event)]


def _entries(event: EventObject) -> Iterable[Entry]:
    name, gutter = str(event["event"]), f"{render.clock_time(event['at'])}  "
    if name == "agent_text":
        rows, style = plain(str(event["text"])).strip("\n").split("\n"), ""
    else:
        shown = render.safe(event)
        text = render.complaint(shown) or render.line({**shown, "lane": None})
        rows, style = text.strip("\n").split("\n") if text else [], style_of(event)
    for k, row in enumerate(rows):
        yield Entry(clean(row.strip() if k == 0 else row), style, gutter if k == 0 else " " * 10)


def style_of(event: EventObject) -> str:
    if event["event"] == "iteration_ended":
        return "good" if event["outcome"] == "complete" else "bad"
    if event["event"] == "verify_ended":
        return "good" if event["passed"] else "bad"
    return STYLE_OF.get(str(event["event"]), "dim")


def diff(patch: str) -> list[Entry]:
    """A patch; what is added and removed has its sign besides its colour."""
    if not patch.strip():
        return [Entry("Nothing was changed, or git does not have it any more.", "dim")]
    return [Entry(clean(row), _diff_style(row)) for row in patch.split("\n")]


def _diff_style(row: str) -> str:
    if row.startswith(
        ("diff ", "+++", "---", "index ", "new file", "deleted file", "old mode", "new mode")
    ):
        return "strong"
    if row.startswith("@@"):
        return "accent"
    return {"+": "added", "-": "removed"}.get(row[:1], "")


def checks(call: Call) -> list[Entry]:
    """Every run of a check after a call, with what it said."""
    found = [entry for check in call.checks for entry in _check(check, "")]
    found += [entry for check in call.on_sum for entry in _check(check, ", on what has landed")]
    return found or [Entry("No check ran after this call.", "dim")]


def _check(check: CheckRun, where: str) -> Iterator[Entry]:
    sign, word, style = {
        True: ("✓", "passed", "good"),
        False: ("✗", "failed", "bad"),
        None: ("▶", "runs", "accent"),
    }[check.passed]
    level = f" ({check.level})" if check.level != "required" else ""
    took = f", {formatting.span(check.seconds)}" if check.ended else ""
    yield Entry(clean(f"{sign} {check.command}: {word}{level}{where}{took}"), style)
    yield from (Entry(f"  {clean(row)}") for row in check.reason.split("\n") if row.strip())


def text(content: str, empty: str) -> list[Entry]:
    if not content.strip():
        return [Entry(empty, "dim")]
    return [
        Entry(clean(row), "strong" if row.startswith("#") else "") for row in content.split("\n")
    ]


def queue(look: Look) -> list[Entry]:
    """Who waits to land, and what is being brought together now."""
    landing = look.state.get("landing")
    if not isinstance(landing, dict):
        rows = [Entry("One story at a time: each lands as soon as it is done.", "dim")]
        rows.append(Entry("`untildone run CHANGE --lanes N` works on several at once.", "dim"))
        return [*rows, *_remarks(look)]
    found = [
        Entry(f"{k}. story {clean(story)}", "strong") for k, story in enumerate(landing["queue"], 1)
    ]
    rows = found or [Entry("Nobody waits to land.", "dim")]
    if landing.get("checking"):
        rows.append(
            Entry(
                f"story {clean(landing['checking'])}: is checked together with what has landed",
                "accent",
            )
        )
    if landing.get("candidate"):
        rows.append(
            Entry(f"candidate {landing['candidate'][:12]} on {str(landing['base'])[:12]}", "accent")
        )
    for lane in lane_rows(look):
        if lane.slot:
            rows.append(Entry(f"lane {lane.lane} works in {clean(lane.slot)}", "dim"))
    return [*rows, *_remarks(look)]


def _remarks(look: Look) -> Iterator[Entry]:
    for pause in look.account.pauses[-20:]:
        yield Entry(
            clean(f"waited {render.duration(pause.seconds)}: {pause.why}"),
            "warn",
            f"{render.clock_time(pause.started)}  ",
        )
    for remark in look.account.remarks[-50:]:
        yield Entry(clean(remark.text), "", f"{render.clock_time(remark.at)}  ")


def receipt(call: Call) -> list[Entry]:
    """What is written down about a checkpoint."""
    rows = [
        Entry(
            f"commit {call.commit}" if call.commit else "no commit: nothing was changed", "strong"
        )
    ]
    by = f"{call.agent}:{call.model}" if call.model else call.agent
    rows.append(Entry(clean(f"by {by}, call {call.n}, attempt {call.attempt}")))
    if call.own_tests:
        rows.append(
            Entry(clean(f"judged by what it wrote itself: {', '.join(call.own_tests)}"), "warn")
        )
    if call.let_through:
        rows.append(Entry(f"{count_of(call.let_through, 'old failure')} let through", "warn"))
    if call.flaky:
        rows.append(
            Entry(
                clean(f"failed once and passed on the same files: {', '.join(call.flaky)}"), "warn"
            )
        )
    return [*rows, Entry(""), *checks(call)]


def not_begun(look: Look, story: StoryAccount | None) -> list[Entry]:
    """What there is to say about a story without a call."""
    if story is None:
        return [Entry("No story is known yet.", "dim")]
    text, style = why(look, story)
    before = story.state == "done before"
    told = "It was done before this run." if before else "No call was made for this story yet."
    return [*([Entry(clean(text), style)] if text else []), Entry(told, "dim")]
