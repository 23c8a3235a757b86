"""The live view on a terminal: story list, current attempt, last agent lines, progress."""

import time
from collections import deque
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from untildone.domain.plain_text import count_of
from untildone.interfaces import render
from untildone.interfaces.output import NARROWEST

EventObject = Mapping[str, object]

MARKS = {
    "done": ("✓", "green"),
    "open": ("○", "dim"),
    "running": ("▶", "cyan"),
    "failed": ("✗", "red"),
}
CHOICES = {
    "cleanup": "back to your branch, all changes as uncommitted edits",
    "keep": "stay on the ralph branch with one commit per story",
    "later": "leave everything as it is; `finish` or `resume` go on from there",
}
LAST_LINES = 5
CATCH_UP_LINES = 20
MOST_STORIES = 12
REFRESH_PER_S = 4
# What a lane is at after an event of it, where there are several.
IN_LANE = {
    "slot_ready": "ready",
    "iteration_started": "story {story_id} {title}",
    "verify_started": "checks: {command}",
    "iteration_ended": "story {story_id}: {outcome}",
    "landing": "story {story_id} lands",
    "landed": "story {story_id} has landed",
    "requeued": "story {story_id} is done again",
    "reverted": "story {story_id} was put back",
    "waiting": "waits: {why}",
}
# With these the loop is at work (again).
GOES_ON = ("run_started", "iteration_started")


class LiveView:
    """Calm: finished things scroll up as lines, the present stays at the bottom.

    With `answers` what the loop asks can be typed here; else the command for it is shown.
    """

    def __init__(self, *, color: bool, ask: bool, answers: bool = True) -> None:
        self._answers = answers
        self._console = Console(no_color=not color, highlight=False, stderr=False)
        self._ask = ask
        self._live: Live | None = None
        self._stories: dict[str, dict[str, str]] = {}
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._now = ""
        self._started = 0.0
        self._run_started = time.time()
        self._change = ""
        self._tokens = 0
        self._until: float | None = None
        self._forecast = ""
        self._lanes: dict[int, tuple[str, float]] = {}

    def __call__(self, event: EventObject) -> None:
        event = render.safe(event)
        name = str(event["event"])
        self._note(name, event)
        if name in ("agent_text", "agent_tool"):
            row = render.line(event)
            self._lines.extend(row.splitlines())
        else:
            self._print(event)
        match event:
            case {"event": "waiting", "class": "budget"}:
                self.stop()
                self._prompt("new amount, or stop? ", "resume {} --budget NAME=AMOUNT")
            case {"event": "waiting", "class": "decision"}:
                self.stop()
                self._prompt(
                    "retry, skip, stop, or what the agent should know? ",
                    "retry {} STORY (or skip, or guide --story)",
                )
            case {"event": "budget_set", "paused": True}:
                self._prompt("new amount, or stop? ", "resume {} --budget NAME=AMOUNT")
            case {"event": "complete"}:
                self.stop()
                if self._ask and event["reason"] != "stopped":
                    self._question()
            case {"event": "finished"}:
                self.stop()
            case _ if name in GOES_ON or name == "budget_set":
                self.start()
            case _:
                return

    def catch_up(self, events: Sequence[EventObject]) -> None:
        """What happened before anybody looked: all of it counts, the last of it is shown."""
        shown = deque[EventObject](maxlen=CATCH_UP_LINES)
        for event in map(render.safe, events):
            self._note(str(event["event"]), event)
            if event["event"] not in ("agent_text", "agent_tool") and render.line(event):
                shown.append(event)
        if len(shown) == CATCH_UP_LINES:
            self._console.print(Text(f"… earlier: untildone logs {self._change}", style="dim"))
        for event in shown:
            self._print(event)

    def start(self) -> None:
        """The present is shown from now on."""
        if self._live is None:
            self._live = Live(
                get_renderable=self._picture,
                console=self._console,
                refresh_per_second=REFRESH_PER_S,
                transient=True,
            )
            self._live.start()

    def _note(self, name: str, event: EventObject) -> None:
        story = str(event.get("story_id") or "")
        at = render.moment(event["at"]) or time.time()
        self._note_lane(name, event, at)
        match name:
            case "run_started":
                self._change = str(event["change_id"])
                self._run_started = at
            case "stories_loaded" | "budget_set":
                rows = event.get("stories")
                for row in rows if isinstance(rows, list) else []:
                    self._stories[row["id"]] = {"title": row["title"], "state": row["state"]}
                self._forecast = render.forecast(event.get("forecast"))
            case "iteration_started":
                self._now = render.line(event).removeprefix("▶ ")
                self._until = None
                self._started = at
                self._lines.clear()
                self._mark(story, "running", str(event.get("title", "")))
            case "waiting":
                self._now = render.line(event).removeprefix("⏳ ")
                self._started = at
                self._until = render.moment(event.get("until"))
            case "iteration_ended":
                used = event.get("tokens_used")
                self._tokens += used if isinstance(used, int) else 0
            case "checkpoint_saved":
                self._mark(story, "done", "")
                if event.get("unchanged") and story in self._stories:
                    self._stories[story]["title"] += " (nothing changed)"
            case "reverted" | "requeued":
                self._mark(story, "failed", "")
            case _:
                return

    def _note_lane(self, name: str, event: EventObject, at: float) -> None:
        if isinstance(lane := event.get("lane"), int) and name in IN_LANE:
            what = IN_LANE[name].format(**{"title": "", **event}).strip()
            self._lanes[lane] = what, at

    def _mark(self, story: str, state: str, title: str) -> None:
        if story and not story.startswith("iteration-"):
            known = self._stories.setdefault(story, {"title": title, "state": state})
            known["state"] = state

    def _print(self, event: EventObject) -> None:
        text = render.complaint(event) or render.line(event)
        if text:
            style = _style(event)
            stamp = f"{render.clock_time(event['at'])} "
            self._console.print(self._wrapped(stamp, Text(text, style=style)))

    def _wrapped(self, stamp: str, text: Text) -> Text:
        """The text beside its stamp, broken at spaces; what goes on is further to the right."""
        width = self._console.width - len(stamp)
        rows = text.wrap(self._console, width) if width >= NARROWEST else text.split("\n")
        heads = [(stamp, "dim"), *[(" " * len(stamp), "")] * (len(rows) - 1)]
        lines = (Text.assemble(head, row) for head, row in zip(heads, rows, strict=True))
        return Text("\n").join(lines)

    def _picture(self) -> RenderableType:
        parts: list[RenderableType] = [Text("")]
        if self._stories:
            parts += [self._table(), self._bar()]
        if self._forecast:
            parts.append(Text(self._forecast, style="dim", no_wrap=True, overflow="ellipsis"))
        elapsed = render.duration(time.time() - (self._started or self._run_started))
        total = render.duration(time.time() - self._run_started)
        for lane, (what, since) in sorted(self._lanes.items()):
            row = f"[{lane}] {what} · {render.duration(time.time() - since)}"
            parts.append(Text(row, no_wrap=True, overflow="ellipsis"))
        head = f"{self._now or 'starting'} · {elapsed}" if not self._lanes else "all lanes"
        if self._until is not None:
            head += f", {render.duration(max(0.0, self._until - time.time()))} left"
        parts.append(
            Text(f"{head} (run {total}, {render.tokens_used(self._tokens)})", style="bold")
        )
        parts += [Text(row, style="dim", no_wrap=True, overflow="ellipsis") for row in self._lines]
        return Group(*parts)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        rows = list(self._stories.items())
        here = next((k for k, (_, s) in enumerate(rows) if s["state"] in ("running", "failed")), 0)
        first = max(0, min(here - MOST_STORIES // 2, len(rows) - MOST_STORIES))
        for story_id, story in rows[first : first + MOST_STORIES]:
            mark, style = MARKS[story["state"]]
            title = Text(story["title"], style=style, no_wrap=True, overflow="ellipsis")
            table.add_row(Text(mark, style=style), Text(story_id, style=style), title)
        hidden = len(rows) - MOST_STORIES
        if hidden > 0:
            table.add_row("", "", Text(f"… {hidden} more", style="dim"))
        return table

    def _bar(self) -> RenderableType:
        done = sum(story["state"] == "done" for story in self._stories.values())
        grid = Table.grid(padding=(0, 1))
        width = max(10, min(40, self._console.width // 2))
        if self._console.no_color:  # the two halves of the other bar differ by colour alone
            filled = "#" * (width * done // len(self._stories))
            bar: RenderableType = Text(f"[{filled:-<{width}}]")
        else:
            bar = self._colored_bar(done, width)
        grid.add_row(bar, Text(f"{done} of {count_of(len(self._stories), 'story', 'stories')}"))
        return grid

    def _colored_bar(self, done: int, width: int) -> ProgressBar:
        # Colours by name: the terminal's own theme makes them fit, on light and on dark.
        return ProgressBar(
            len(self._stories),
            done,
            width,
            style="bright_black",
            complete_style="green",
            finished_style="green",
        )

    def stop(self) -> None:
        """It is shown no more, whatever the run does."""
        if self._live:
            self._live.stop()
            self._live = None

    def _question(self) -> None:
        for word, text in CHOICES.items():
            self._console.print(self._wrapped(f"  {word:<9}", Text(text)))
        self._prompt("cleanup, keep or later? ", "finish {} cleanup|keep")

    def _prompt(self, text: str, command: str) -> None:
        if not self._answers:
            self._console.print(f"  next: untildone {command.format(self._change)}")
            return
        self._console.print(text, end="")
        self._console.file.flush()


def _style(event: EventObject) -> str:
    if event["event"] == "iteration_ended":
        return "green" if event["outcome"] == "complete" else "red"
    if event["event"] == "verify_ended" and not event["passed"]:
        return "red"
    return _STYLES.get(str(event["event"]), "")


_STYLES = {
    "checkpoint_saved": "green",
    "reverted": "yellow",
    "retrying": "yellow",
    "requeued": "yellow",
    "waiting": "yellow",
    "warning": "yellow",
    "error": "red",
    "complete": "bold",
    "finished": "bold",
}
