"""The four screens over one run: what is read of it, and what of that is in sight."""

from collections.abc import Callable, Sequence
from datetime import datetime

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import ContentSwitcher, Input

from untildone.commands.look.feed import Followed, recorded
from untildone.commands.run_account import Changes, Size
from untildone.domain.plain_text import count_of
from untildone.domain.reporting.account import Call, StoryAccount
from untildone.interfaces import render
from untildone.interfaces.tui import pages, tables, texts
from untildone.interfaces.tui.actions import Action, footer, possible
from untildone.interfaces.tui.lines import MOST_ENTRIES, Entry, Line, Part, clean, fit
from untildone.interfaces.tui.look import EventObject, Heard, Look, New, Reader, key_of
from untildone.interfaces.tui.panes import Bar, Pane, Rows
from untildone.interfaces.tui.threads import Threads
from untildone.wiring.repository import Repository

NOTHING: New = {}
TITLED = ("run_started", "iteration_started", "finished")


class View(Vertical):
    """One screen: a list, and below it what belongs to the chosen row."""

    def compose(self) -> ComposeResult:
        yield Bar(id=f"{self.id}-top")
        yield Rows(id=f"{self.id}-rows")
        yield Bar(id=f"{self.id}-rule")
        yield Pane(id=f"{self.id}-pane")


class Drawing(Threads):
    """Reads a run, or waits for one, and draws what is known of it."""

    def __init__(
        self, repository: Repository, source: Followed | None, no_run: Callable[[], list[Entry]]
    ) -> None:
        super().__init__()
        self.repository, self.source, self.no_run = repository, source, no_run
        self.look: Look | None = None
        self.actions: list[Action] = []
        self.view = "stories"
        self.section = "log"
        self.compared = False  # the diff: with the attempt before instead of the base
        self._reader: Reader | None = None
        self._heard = Heard()
        self._shown: object = None  # what the pane of the screen shows
        self._changes = Changes(repository)
        self._sizes: dict[int, Size | None] = {}
        self._gone = ""
        self._titles: dict[str, object] = {}

    def compose(self) -> ComposeResult:
        for name in ("head", "tabs", "notice"):
            yield Bar(id=name)
        with ContentSwitcher(initial="stories"):
            for name in pages.VIEWS:
                yield View(id=name)
        yield Input(id="find", placeholder="search")
        yield Bar(id="footer")

    def on_unmount(self) -> None:
        if self._reader:
            self._reader.close()

    # --- what is read ------------------------------------------------------------------------

    def follow_run(self, source: Followed) -> None:
        """Look at another run from now on."""
        if self._reader:
            self._reader.close()
        self.source, self.look, self._gone = source, None, ""
        self._heard, self._shown, self._titles = Heard(), None, {}
        self._changes, self._sizes = Changes(source.repository), {}
        self._reader = Reader(
            source,
            lambda look: self.from_thread(self._tell, look),
            lambda why: self.from_thread(self._lose, source, why),
        )
        self._reader.start()

    def _tell(self, look: Look) -> None:
        """A new look at the run."""
        if look.source is not self.source:
            return
        first, self.look = self.look is None, look
        new = self._heard.add(look.events)
        self._entitle(look.events)
        self.draw(new)
        if first:
            self._begin(look)

    def _begin(self, look: Look) -> None:
        """The cursor goes to where something happens, or should."""
        stories = look.account.stories
        at_work = [story for story in stories if look.at_work(story)]
        parked = [story for story in stories if look.parked(story)]
        if found := next(iter((*at_work, *parked)), None):
            self.stories.choose(key_of(found))
            self.draw(NOTHING)

    def _lose(self, source: Followed, why: str) -> None:
        """The record is gone: removed, or moved with the worktree of the run."""
        if self.source is not source:
            return
        again = next(
            (run for run in recorded([self.repository]) if run.run_id == source.run_id), None
        )
        if again and again.repository.place != source.repository.place:
            self.follow_run(again)
            return
        self._gone = f"{why}: {source.change or source.run_id}"
        self.draw(NOTHING)

    def tick(self) -> None:
        """Once a second: how long ago things were, and whether there is a run by now."""
        if self.source is None and len(self.screen_stack) == 1:
            runs = recorded([self.repository])
            if runs:
                self.follow_run(runs[0])
        self.draw(NOTHING)

    def _entitle(self, events: Sequence[EventObject]) -> None:
        """The terminal's title, as a run sets it."""
        title = ""
        for event in events:
            if event["event"] in TITLED:
                title = render.title(render.safe(event), self._titles) or title
        if title and title != self.title and self._driver and not self.is_headless:
            self._driver.write(f"\x1b]0;{title}\x07")
        self.title = title or self.title

    # --- what is chosen ----------------------------------------------------------------------

    @property
    def stories(self) -> Rows[StoryAccount]:
        return self.query_one("#stories-rows", Rows)

    @property
    def calls(self) -> Rows[Call]:
        return self.query_one("#story-rows", Rows)

    @property
    def lanes(self) -> Rows[tables.LaneRow]:
        return self.query_one("#lanes-rows", Rows)

    @property
    def kept(self) -> Rows[Call]:
        return self.query_one("#evidence-rows", Rows)

    @property
    def rows(self) -> Rows[object]:
        """The list of the screen that is in sight."""
        return self.query_one(f"#{self.view}-rows", Rows)

    @property
    def pane(self) -> Pane:
        return self.query_one(f"#{self.view}-pane", Pane)

    def bar(self, name: str) -> Bar:
        return self.query_one(f"#{name}", Bar)

    @property
    def story(self) -> StoryAccount | None:
        """The story that is meant, whatever the screen."""
        look = self.look
        if look is None:
            return None
        if self.view == "lanes" and (row := self.lanes.chosen):
            return next((story for story in look.account.stories if story.id == row.story_id), None)
        if self.view == "evidence" and (call := self.kept.chosen):
            return look.story(call.key)
        chosen = self.stories.chosen
        return look.story(key_of(chosen)) if chosen else None

    @property
    def call(self) -> Call | None:
        """The call whose text is shown."""
        if self.view == "stories":
            return self.story.last_call if self.story else None
        rows = self.calls if self.view == "story" else self.kept
        return rows.chosen

    def earlier(self, call: Call) -> Call | None:
        """The attempt before, if git has what it did."""
        calls = self.story.calls if self.story else ()
        before = [one for one in calls if one.n < call.n and (one.tip or one.saved_ref)]
        return before[-1] if before else None

    # --- what is shown -----------------------------------------------------------------------

    def draw(self, new: New) -> None:
        """Everything that is in sight; `new` is what was said since, by the number of the call."""
        look, width = self.look, self.size.width
        if not (width and self.query(Bar)):
            return
        if look is None:
            self._draw_nothing()
            return
        self.bar("head").show([pages.top(look, width, self.now)])
        self._fill_rows(look)
        self.actions = possible(look, self.view, self.story)
        self.bar("tabs").show([pages.tabs(look, self.view, self.story, width)])
        gone: list[Line] = [[Part(f"   {fit(clean(self._gone), width - 4)}", "bad")]]
        self.bar("notice").show(gone if self._gone else pages.notice(look, width))
        self.bar("footer").show([footer(self.actions, width)])
        self._fill_pane(look, new)

    @property
    def now(self) -> datetime:
        return self.repository.clock.now()

    def _draw_nothing(self) -> None:
        waits = self.source is not None and not self._gone
        self.bar("head").show([[Part(" untildone", "strong")]])
        self.bar("tabs").show([])
        self.bar("notice").show([])
        entries = [Entry("Reading the journal …", "dim")] if waits else self.no_run()
        if self._gone:
            entries = [Entry(clean(self._gone), "bad"), Entry(""), *entries]
        self._show_once(("nothing", tuple(entries)), entries)
        self.actions = [Action("w", "runs", "Runs of this repository", "runs", "untildone status")]
        self.actions.append(Action("q", "leave", "Leave", "quit"))
        self.bar("footer").show([footer(self.actions, self.size.width)])

    def _fill_rows(self, look: Look) -> None:
        now = self.now
        self.stories.show(
            look.account.stories,
            lambda story, width: tables.story_line(look, story, width, now),
            lambda width: tables.story_head(look, width),
            key_of,
        )
        if self.view == "story":
            calls = self.story.calls if self.story else ()
            at_end = self.calls.cursor >= len(self.calls.items) - 1
            draw = lambda call, width: tables.call_line(look, call, width, now)  # noqa: E731
            self.calls.show(calls, draw, tables.call_head, lambda call: call.n)
            if at_end and calls:
                self.calls.choose(calls[-1].n)
        elif self.view == "lanes":
            draw_lane = lambda row, width: tables.lane_line(look, row, width, now)  # noqa: E731
            self.lanes.show(
                tables.lane_rows(look), draw_lane, tables.lane_head, lambda row: row.lane
            )
        elif self.view == "evidence":
            self.kept.show(
                tables.checkpoints(look),
                lambda call, width: tables.evidence_line(call, width, self._size_of(call)),
                tables.evidence_head,
                lambda call: call.n,
            )

    def _fill_pane(self, look: Look, new: New) -> None:
        width, call, story = self.size.width, self.call, self.story
        top: list[Line] = []
        if self.view == "stories":
            title = f"story {story.id}" if story else "nothing is chosen"
            self._rule(title + (f", attempt {call.attempt}" if call and call.attempt else ""))
            self._fill_log(call, new) if call else self._show_once(
                None, texts.not_begun(look, story)
            )
        elif self.view == "story":
            top = pages.story_top(look, story, width) if story else []
            before = self.earlier(call) if call and self.compared else None
            line = pages.sections(self.section, before, width, self._below())
            self.bar("story-rule").show([line])
            self._fill_section(look, call, new)
        elif self.view == "lanes":
            self._rule("landing queue, and what was waited for")
            entries = texts.queue(look)
            self._show_once(("queue", tuple(entries)), entries)
        else:
            self._rule("diff of the checkpoint" if self.section == "diff" else "receipt")
            self._fill_evidence(look, call)
        self.bar(f"{self.view}-top").show(top)

    def _rule(self, title: str) -> None:
        shown, width = f"─ {clean(title)} ", self.size.width
        line = [Part(shown + "─" * max(0, width - len(shown)), "bar")]
        self.bar(f"{self.view}-rule").show([line])

    def _below(self) -> str:
        """What of the log is out of sight, or that its end is followed."""
        if self.section != "log":
            return ""
        going = self.look and self.look.alive and self.call and not self.call.settled
        if self.pane.following and going:
            return "follows"
        below = self.pane.below
        return f"{count_of(below, 'line')} below" if below else ""

    def _fill_section(self, look: Look, call: Call | None, new: New) -> None:
        if call is None:
            self._show_once(None, texts.not_begun(look, self.story))
        elif self.section == "log":
            self._fill_log(call, new)
        elif self.section == "diff":
            self._fill_diff(look, call, self.earlier(call) if self.compared else None)
        elif self.section == "checks":
            entries = texts.checks(call)
            self._show_once(("checks", call.n, tuple(entries)), entries)
        else:
            self._fill_later(
                ("prompt", call.n),
                lambda: texts.text(look.source.prompt(call.n), "The prompt is not kept."),
            )

    def _fill_log(self, call: Call, new: New) -> None:
        """What the agent says in a call, while it says it."""
        name = ("log", self.view, call.n)
        known = self._heard.of(call.n)
        if self._shown == name:
            self.pane.add(texts.words(new.get(call.n, ())))
        elif known is not None:
            self._shown = name
            self.pane.show(texts.words(known), follow=True)
        elif look := self.look:
            source = look.source
            self._fill_later(
                name, lambda: texts.words(source.events_of(call.n, MOST_ENTRIES)), end=True
            )

    def _fill_diff(self, look: Look, call: Call, against: Call | None) -> None:
        name = ("diff", call.n, against.n if against else 0, call.tip, call.saved_ref)
        if not (call.tip or call.saved_ref):
            self._show_once(name, texts.diff("") if call.settled else [texts.NO_DIFF_YET])
            return
        changes, run = self._changes, look.run

        def patch() -> list[Entry]:
            if against:
                return texts.diff(changes.between(run, call, against))
            return texts.diff(changes.diffs(run, [call]).get(call.n, ""))

        self._fill_later(name, patch)

    def _fill_evidence(self, look: Look, call: Call | None) -> None:
        if call is None:
            self._show_once(None, [texts.NOTHING_KEPT])
        elif self.section == "diff":
            self._fill_diff(look, call, None)
        else:
            entries = texts.receipt(call)
            self._show_once(("receipt", call.n, tuple(entries)), entries)

    def _size_of(self, call: Call) -> Size | None:
        """How much a checkpoint has changed; asked of git for all of them at once."""
        if call.n not in self._sizes and self.look:
            wanted = [one for one in tables.checkpoints(self.look) if one.n not in self._sizes]
            self._sizes |= dict.fromkeys(one.n for one in wanted)
            changes, run = self._changes, self.look.run
            self.beside(lambda: changes.sizes(run, wanted), self._learn_sizes)
        return self._sizes.get(call.n)

    def _learn_sizes(self, found: dict[int, Size]) -> None:
        self._sizes |= found
        self.rows.refresh()

    def show_anew(self) -> None:
        """Whatever the pane shows, it is filled again."""
        self._shown = None
        self.draw(NOTHING)

    def _show_once(self, name: tuple[object, ...] | None, entries: list[Entry]) -> None:
        """Another text in the pane, unless it is there; one of its kind stays where it was."""
        name = name or tuple(entries)
        if self._shown != name:
            same = isinstance(self._shown, tuple) and self._shown[:2] == name[:2]
            at = self.pane.scroll_offset.y if same else 0
            self._shown = name
            self.pane.show(entries)
            if at:
                self.pane.scroll_to(y=at, animate=False)

    def _fill_later(
        self, name: object, work: Callable[[], list[Entry]], *, end: bool = False
    ) -> None:
        """A text that takes time: it comes when it is there, if it is still asked for."""
        if self._shown == name:
            return
        self._shown = name
        self.pane.show([Entry("…", "dim")])
        pane = self.pane

        def there(entries: list[Entry]) -> None:
            if self._shown == name:
                pane.show(entries, follow=end)

        self.beside(work, there)
