"""Widgets of lines: some that are always there, a list with a cursor, a text that is followed."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from untildone.interfaces.tui.lines import (
    MOST_ENTRIES,
    STYLES,
    Entry,
    Line,
    Part,
    width_of,
    wrapped,
)

T = TypeVar("T")


class Drawn(Widget):
    """A widget that draws lines."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"lines--{name}" for name in STYLES}

    def strip(self, line: Line, width: int, under: str = "") -> Strip:
        """A line in its colours, as wide as asked for."""
        base = self.rich_style + self._styled(under) if under else self.rich_style
        pieces = [Segment(part.text, self._look(base, part)) for part in line if part.text]
        return Strip(pieces).adjust_cell_length(width, base)

    def _look(self, base: Style, part: Part) -> Style:
        style = base + self._styled(part.style) if part.style else base
        return style + Style.from_meta({"@click": part.action}) if part.action else style

    def _styled(self, name: str) -> Style:
        """Only what a style says itself, but its colours as they are on the background."""
        said = self.get_component_rich_style(f"lines--{name}", partial=True)
        seen = self.get_component_rich_style(f"lines--{name}")
        color = seen.color if said.color else None
        return said + Style(color=color, bgcolor=seen.bgcolor if said.bgcolor else None)


class Bar(Drawn):
    """Some lines that are always there."""

    def __init__(self, *, id: str = "") -> None:
        super().__init__(id=id or None)
        self._lines: list[Line] = []

    def show(self, lines: list[Line]) -> None:
        """What it shows from now on; it is as high as that."""
        if lines != self._lines:
            if len(lines) != len(self._lines):
                self.styles.height = len(lines)
            self._lines = lines
            self.refresh()

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else []
        return self.strip(line, self.size.width)


class Moving(Drawn, ScrollView, can_focus=True):
    """Lines that can be moved through and searched in."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("g,home", "first", "First", show=False),
        Binding("G,end", "last", "Last", show=False),
        Binding("pagedown,ctrl+d,space", "leaf(1)", "Page down", show=False),
        Binding("pageup,ctrl+u,b", "leaf(-1)", "Page up", show=False),
        Binding("n", "again(1)", "Next match", show=False),
        Binding("N", "again(-1)", "Match before", show=False),
    ]

    needle = ""

    def find(self, needle: str) -> bool:
        """Go to the next place with this text; whether there is one."""
        self.needle = needle
        self.refresh()
        return not needle or self.seek(1)

    def seek(self, step: int) -> bool:
        raise NotImplementedError

    def action_again(self, step: int) -> None:
        if self.needle and not self.seek(step):
            self.notify(f"Not found: {self.needle}", markup=False, timeout=2)

    def matches(self, text: str) -> bool:
        """Whether what is looked for is there; small letters find capitals, too."""
        return self.needle in (text if self.needle != self.needle.lower() else text.lower())

    def marked(self, part: Part) -> Iterator[Part]:
        """A piece with what is looked for set apart."""
        text, needle = part.text, self.needle
        within = text if needle != needle.lower() else text.lower()
        start = 0
        while needle and len(within) == len(text) and (at := within.find(needle, start)) >= 0:
            yield part._replace(text=text[start:at])
            start = at + len(needle)
            yield part._replace(text=text[at:start], style="found")
        yield part._replace(text=text[start:])


class Rows(Moving, Generic[T]):
    """A list of things, one of which is chosen; its first line says what the columns are."""

    class Chosen(Message):
        """Another row is under the cursor now."""

        def __init__(self, rows: "Rows[T]") -> None:
            super().__init__()
            self.rows = rows

    class Opened(Message):
        """The row under the cursor is asked for."""

        def __init__(self, rows: "Rows[T]") -> None:
            super().__init__()
            self.rows = rows

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "Open", show=False)]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.items: Sequence[T] = ()
        self.cursor = 0
        self._row: Callable[[T, int], Line] = lambda _, __: []
        self._columns: Callable[[int], Line] = lambda _: []
        self._name_of: Callable[[T], object] = id_of

    def show(
        self,
        items: Sequence[T],
        draw: Callable[[T, int], Line],
        head: Callable[[int], Line],
        name: Callable[[T], object],
    ) -> None:
        """What it lists from now on; the cursor stays on what it was on."""
        old = self.chosen
        self._row, self._columns = draw, head
        moved = old is not None and (
            self.cursor >= len(items) or name(items[self.cursor]) != name(old)
        )
        if moved and old is not None:
            wanted = name(old)
            at = (k for k, item in enumerate(items) if name(item) == wanted)
            self.cursor = next(at, min(self.cursor, max(len(items) - 1, 0)))
        size = Size(0, len(items) + 1)
        self.items, self._name_of = items, name
        if size != self.virtual_size:
            self.virtual_size = size
            self.refresh(layout=True)
        self.refresh()

    @property
    def chosen(self) -> T | None:
        return self.items[self.cursor] if self.cursor < len(self.items) else None

    def choose(self, name: object) -> None:
        """Put the cursor on the thing of this name."""
        for k, item in enumerate(self.items):
            if self._name_of(item) == name:
                self._go(k)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            names = [part._replace(style="dim") for part in self._columns(width - 2)]
            return self.strip([Part(" "), *names], width)
        at = self.scroll_offset.y + y - 1
        if at >= len(self.items):
            return self.strip([], width)
        here = at == self.cursor
        line = [Part("▌" if here else " ", "accent"), *self._row(self.items[at], width - 2)]
        line = [piece for part in line for piece in self.marked(part)] if self.needle else line
        return self.strip(line, width, "cursor" if here and self.has_focus else "")

    def seek(self, step: int) -> bool:
        count = len(self.items)
        for k in range(1, count + 1):
            at = (self.cursor + k * step) % count
            if self.matches("".join(part.text for part in self._row(self.items[at], 400))):
                self._go(at)
                return True
        return False

    def action_move(self, by: int) -> None:
        self._go(self.cursor + by)

    def action_first(self) -> None:
        self._go(0)

    def action_last(self) -> None:
        self._go(len(self.items) - 1)

    def action_leaf(self, by: int) -> None:
        self._go(self.cursor + by * max(1, self.size.height - 2))

    def action_open(self) -> None:
        if self.items:
            self.post_message(self.Opened(self))

    def on_click(self, event: events.Click) -> None:
        at = self.scroll_offset.y + event.y - 1
        if event.y and 0 <= at < len(self.items):
            self._go(at)
            if event.chain == 2:
                self.action_open()

    def _go(self, at: int) -> None:
        at = max(0, min(at, len(self.items) - 1))
        top, room = self.scroll_offset.y, max(1, self.size.height - 1)
        if at < top or at >= top + room:
            self.scroll_to(y=at if at < top else at - room + 1, animate=False)
        if at != self.cursor:
            self.cursor = at
            self.refresh()
            self.post_message(self.Chosen(self))


def id_of(item: object) -> object:
    """What is its own name."""
    return item


class Pane(Moving):
    """A text that is broken at the width, and followed while it grows."""

    class Moved(Message):
        """Another part of it is in sight, because the person wants so."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._entries: deque[Entry] = deque(maxlen=MOST_ENTRIES)
        self._rows: deque[tuple[int, Line]] = deque()
        self._count = 0  # of all entries that ever were
        self._width = 0
        self._at = -1  # of the entry that was found last
        self.following = False

    def show(self, entries: Iterable[Entry], *, follow: bool = False) -> None:
        """Another text; with `follow` its end stays in sight."""
        self._entries.clear()
        self._rows.clear()
        self._count, self._at = 0, -1
        self.following = follow
        self.add(entries)
        if not follow:
            self.scroll_to(y=0, animate=False)

    def add(self, entries: Iterable[Entry]) -> None:
        """More of it; no more than the last so many lines are kept."""
        dropped = 0
        for entry in entries:
            self._entries.append(entry)
            self._rows.extend(self._broken(self._count, entry))
            self._count += 1
        first = self._count - len(self._entries)
        while self._rows and self._rows[0][0] < first:
            self._rows.popleft()
            dropped += 1
        self._settle(dropped)

    def _settle(self, dropped: int = 0) -> None:
        self.virtual_size = Size(0, len(self._rows))
        if self.following:
            self.scroll_to(y=max(0, len(self._rows) - self.size.height), animate=False)
        elif dropped:
            self.scroll_to(y=max(0, self.scroll_offset.y - dropped), animate=False)
        self.refresh()

    def _broken(self, number: int, entry: Entry) -> Iterator[tuple[int, Line]]:
        gutter = entry.gutter if self._width > 40 else ""
        room = max(10, self._width - width_of(gutter))
        for k, row in enumerate(wrapped(entry.text, room)):
            head = gutter if k == 0 else " " * len(gutter)
            yield number, [Part(head, "dim"), Part(row, entry.style)]

    def on_resize(self) -> None:
        width = self.size.width - 2
        if width != self._width:
            self._width = width
            number, top = self._count - len(self._entries), self._number_at(self.scroll_offset.y)
            self._rows = deque(
                row
                for k, entry in enumerate(self._entries)
                for row in self._broken(number + k, entry)
            )
            self._settle()
            if not self.following:
                self._scroll_to_entry(top)
        elif self.following:
            self._settle()

    def _number_at(self, y: int) -> int:
        return self._rows[y][0] if y < len(self._rows) else 0

    def _scroll_to_entry(self, number: int) -> None:
        for y, (owner, _) in enumerate(self._rows):
            if owner >= number:
                self.scroll_to(y=y, animate=False)
                return

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        line = self._rows[y][1] if y < len(self._rows) else []
        if self.needle:
            line = [piece for part in line for piece in self.marked(part)]
        return self.strip([Part(" "), *line], self.size.width)

    def seek(self, step: int) -> bool:
        first, count = self._count - len(self._entries), len(self._entries)
        start = (
            max(self._at, first) if self._at >= 0 else self._number_at(self.scroll_offset.y) - step
        )
        for k in range(1, count + 1):
            number = first + (start - first + k * step) % count
            if self.matches(self._entries[number - first].text):
                self._at, self.following = number, False
                self._scroll_to_entry(number)
                self.post_message(self.Moved())
                return True
        return False

    @property
    def below(self) -> int:
        """How many rows there are below what is in sight."""
        return max(0, len(self._rows) - self.scroll_offset.y - self.size.height)

    def action_move(self, by: int) -> None:
        self._to(self.scroll_offset.y + by)

    def action_leaf(self, by: int) -> None:
        self._to(self.scroll_offset.y + by * max(1, self.size.height - 1))

    def action_first(self) -> None:
        self._to(0)

    def action_last(self) -> None:
        self._to(len(self._rows))

    def follow(self, *, on: bool) -> None:
        self.following = on
        self._settle()

    def _to(self, y: int) -> None:
        self.following, self._at = False, -1
        self.scroll_to(y=max(0, y), animate=False)
        self.post_message(self.Moved())

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.following = False
        super()._on_mouse_scroll_up(event)
