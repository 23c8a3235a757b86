"""What the window asks, and what it tells beside the screens."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.option_list import Option

from untildone.interfaces.tui.lines import column

# Narrower than this, what an answer means stands below it.
NARROW = 80


class Offer(NamedTuple):
    """One answer: the key for it, its name, and what it means."""

    key: str
    name: str
    about: str
    value: str


class Ask(ModalScreen[str | None]):
    """A question with its answers; esc is none of them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)"),
        Binding("j", "move(1)"),
        Binding("k", "move(-1)"),
    ]

    def __init__(self, question: str, offers: Sequence[Offer], about: str = "") -> None:
        super().__init__()
        self._question, self._offers, self._about = question, offers, about

    def compose(self) -> ComposeResult:
        wide = max(len(offer.name) for offer in self._offers) + 2
        with Vertical(classes="dialog"):
            yield Static(Content(self._question), classes="question")
            if self._about:
                yield Static(Content(self._about), classes="about")
            beside = self.app.size.width >= NARROW
            rows = (
                Content.assemble(
                    (f" {offer.key}  ", "bold"),
                    (column(offer.name, wide) if beside else offer.name, "bold"),
                    ("" if beside or not offer.about else "\n    ") + offer.about,
                )
                for offer in self._offers
            )
            yield OptionList(*(Option(row) for row in rows))

    def on_key(self, event: events.Key) -> None:
        for offer in self._offers:
            if event.key == offer.key:
                event.stop()
                self.dismiss(offer.value)

    def action_move(self, by: int) -> None:
        listed = self.query_one(OptionList)
        if by > 0:
            listed.action_cursor_down()
        else:
            listed.action_cursor_up()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._offers[event.option_index].value)


class Words(TextArea):
    """A text of the person: Enter sends it, Ctrl-J begins a new line."""

    class Sent(Message):
        """It is complete."""

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.post_message(self.Sent())
        elif event.key == "ctrl+j":
            event.stop()
            event.prevent_default()
            self.insert("\n")
        else:
            await super()._on_key(event)


class Tell(ModalScreen[str | None]):
    """Asks for a text; esc sends none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", priority=True)]

    def __init__(self, question: str, about: str = "", text: str = "") -> None:
        super().__init__()
        self._question, self._about, self._text = question, about, text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._question), classes="question")
            if self._about:
                yield Static(Content(self._about), classes="about")
            yield Words(self._text, soft_wrap=True, tab_behavior="focus")
            yield Static(Content("enter sends   ctrl+j new line   esc cancels"), classes="hint")

    def on_words_sent(self) -> None:
        text = self.query_one(Words).text.strip()
        if text:
            self.dismiss(text)


class Help(ModalScreen[None]):
    """The keys that work now, and the commands that do the same."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss"),
        Binding("j,down", "scroll(1)"),
        Binding("k,up", "scroll(-1)"),
    ]

    def __init__(self, rows: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._rows = rows

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog help"):
            yield Static(Content("Keys"), classes="question")
            for key, text, command in self._rows:
                more = f"\n{' ' * 13}{command}" if command else ""
                yield Static(
                    Content.assemble((column(key, 13), "$text-accent"), text, (more, "$text-muted"))
                )

    def action_scroll(self, by: int) -> None:
        self.query_one(Vertical).scroll_relative(y=by, animate=False)
