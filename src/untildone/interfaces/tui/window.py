"""The window of `untildone ui`: its keys, its palette, and how to get from screen to screen.

It only looks: what is asked of a run goes to its inbox, as the commands do it. Leaving it, or its
end in any other way, changes nothing in the run.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.widgets import ContentSwitcher, Input

from untildone.commands.look.feed import Followed, recorded
from untildone.interfaces.tui import pages
from untildone.interfaces.tui.actions import Action, explained
from untildone.interfaces.tui.dialogs import Ask, Help, Offer
from untildone.interfaces.tui.drawing import NOTHING
from untildone.interfaces.tui.lines import Entry, clean
from untildone.interfaces.tui.look import key_of
from untildone.interfaces.tui.panes import Moving, Rows
from untildone.interfaces.tui.steering import Steering
from untildone.interfaces.tui.themes import THEMES, chosen_theme
from untildone.wiring.repository import Repository

MOST_RUNS = 30


class Commands(Provider):
    """The palette: everything that works now, each with its command."""

    def _offers(self) -> Iterator[tuple[str, Text, Callable[[], object]]]:
        window = self.app
        assert isinstance(window, Window)
        for action in window.actions:
            said = Text(clean(action.title))
            said.append(f"\n{clean(action.command)}" if action.command else "", style="dim")
            yield action.title, said, window.doing(action)
        yield "Theme", Text("Another theme\nuntildone ui --theme NAME"), window.action_change_theme

    async def discover(self) -> Hits:
        for title, said, run in self._offers():
            yield DiscoveryHit(said, run, text=title)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for title, said, run in self._offers():
            if (score := matcher.match(said.plain)) > 0:
                yield Hit(score, said, run, text=title)


class Window(Steering):
    """The application; `choices` are the live runs, if there are several."""

    CSS_PATH = "window.tcss"
    TITLE = "untildone"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Commands}
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(k), f"go('{name}')") for k, name in enumerate(pages.VIEWS, 1)),
        *(Binding(key, f"key('{key}')") for key in "abeirsxdlcpftuw"),
        Binding("left", "attempt(-1)"),
        Binding("right", "attempt(1)"),
        # At once: the next key is part of what is looked for, however fast it comes.
        Binding("slash", "find", priority=True),
        Binding("colon", "palette"),
        Binding("question_mark", "help"),
        Binding("escape", "back"),
        Binding("q,ctrl+c", "quit"),
    ]

    def __init__(
        self,
        repository: Repository,
        source: Followed | None,
        choices: list[Followed],
        no_run: Callable[[], list[Entry]],
        theme: str = "",
    ) -> None:
        super().__init__(repository, source, no_run)
        self._choices = choices
        for one in THEMES:
            self.register_theme(one)
        self.theme = chosen_theme(theme, self.available_themes)

    @property
    def failure(self) -> Exception | None:
        """What has ended the window, if that was a defect."""
        return self._exception

    def leave(self) -> None:
        """For a signal: the terminal is left as it was."""
        self.call_later(self.exit)

    def _fatal_error(self) -> None:
        # Textual's own page shows local variables, which may hold secrets; the command reports.
        self._close_messages_no_wait()

    def on_mount(self) -> None:
        self.set_interval(1.0, self.tick)
        self.rows.focus()
        if self.source:
            self.follow_run(self.source)
        elif self._choices:
            self._choose_run(self._choices)
        self.draw(NOTHING)

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw, NOTHING)

    # --- keys, palette and mouse -------------------------------------------------------------

    def doing(self, action: Action) -> Callable[[], object]:
        """What a row of the table does."""

        async def run() -> None:
            await self.run_action(action.call if "(" in action.call else f"{action.call}()")

        return run

    async def action_key(self, key: str) -> None:
        """A key works if its row is in the table."""
        for action in self.actions:
            if action.key == key:
                await self.run_action(action.call if "(" in action.call else f"{action.call}()")
                return

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        if message.rows is self.rows:
            self.draw(NOTHING)

    def on_pane_moved(self) -> None:
        self.draw(NOTHING)

    async def on_rows_opened(self) -> None:
        await self.action_key("enter")

    # --- from screen to screen ---------------------------------------------------------------

    def action_go(self, name: str) -> None:
        story = self.story
        if self.look is None or (name == "story" and story is None):
            return
        if name == "story" and story:
            self.stories.choose(key_of(story))
        self.view, self.section, self.compared = name, "log", False
        self.query_one(ContentSwitcher).current = name
        self.show_anew()
        (self.pane if name == "story" else self.rows).focus()

    async def action_back(self) -> None:
        if self.query_one("#find", Input).display:
            self._close_find()
        elif self.view != "stories":
            self.action_go("stories")

    def action_section(self, name: str) -> None:
        """Another text about the attempt; `diff` once more: compared with the attempt before."""
        if self.view != "story":
            self.action_go("story")
        elif name == self.section == "diff" and self.call and self.earlier(self.call):
            self.compared = not self.compared
        self.section = name
        self.show_anew()

    def action_toggle_diff(self) -> None:
        self.section = "log" if self.section == "diff" else "diff"
        self.show_anew()

    def action_attempt(self, by: int) -> None:
        if self.view == "story":
            self.rows.action_move(by)

    def action_follow(self) -> None:
        self.pane.follow(on=not self.pane.following)
        self.draw(NOTHING)

    # --- search ------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No search begins within a text that is typed, or behind a dialog."""
        if action == "find":
            return isinstance(self.focused, Moving) and len(self.screen_stack) == 1
        return super().check_action(action, parameters)

    def action_find(self) -> None:
        field = self.query_one("#find", Input)
        field.value = ""
        field.display = True
        self.screen.set_focus(field)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if not self._close_find().find(event.value.strip()):
            self.say(f"Not found: {event.value}")

    def _close_find(self) -> Moving:
        self.query_one("#find", Input).display = False
        target: Moving = self.pane if self.view == "story" else self.rows
        target.focus()
        return target

    # --- beside the screens ------------------------------------------------------------------

    def action_palette(self) -> None:
        self.push_screen(CommandPalette())

    def action_help(self) -> None:
        self.push_screen(Help(explained(self.actions)))

    def action_runs(self) -> None:
        self._choose_run(recorded([self.repository])[:MOST_RUNS])

    def _choose_run(self, runs: list[Followed]) -> None:
        """Choose among runs of the repository."""
        by_id = {run.run_id: run for run in runs}
        offers = [
            Offer(str(k) if k < 10 else " ", *_named(run), run.run_id)
            for k, run in enumerate(runs, 1)
        ]

        def chosen(run_id: str | None) -> None:
            if run_id:
                self.follow_run(by_id[run_id])
                self.view = "stories"
                self.query_one(ContentSwitcher).current = "stories"
                self.show_anew()
                self.rows.focus()

        if offers:
            self.push_screen(Ask("Which run?", offers), chosen)


def _named(run: Followed) -> tuple[str, str]:
    """A run by its change, whether it is live, and when it began."""
    day, clock = run.run_id[:8], run.run_id[9:15]
    when = f"{day[:4]}-{day[4:6]}-{day[6:]} {clock[:2]}:{clock[2:4]} UTC"
    return clean(run.change), f"{'▶ live ' if run.alive() else 'ended'}  began {when}"
