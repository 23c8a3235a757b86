"""What every reader of JSON lines does, whatever the events are called."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from zlib import crc32

from msgspec.structs import replace

from untildone.adapters.agents.reading.conversation import Messages, text_notices
from untildone.adapters.agents.reading.error_kinds import why_line, with_reset
from untildone.adapters.agents.reading.json_lines import Lines, detail, parsed, short
from untildone.domain.agents.agent import CUT_SHORT, AgentTool, Intent, Notice, Reading
from untildone.domain.plain_text import plain

ERROR_CHARS = 2000


class EventReader(ABC):
    """Hands each event to `_on_event` as it comes and asks `_reading` when the output is over.

    Lines that begin with one of `_skipped` are not even parsed. `separates_tool_output`
    says that the agent's own words do not come mixed with what its tools print. `over` is true
    while the last event that was read is the one with which the program ends a call: what it says
    of the call is all there will be, also if the process lives on.
    """

    separates_tool_output = True
    _skipped: tuple[bytes, ...] = ()

    def __init__(self, intent: Intent) -> None:
        self._intent = intent
        self._messages = Messages()
        self._lines = Lines()
        self._exit_code: int | None = None
        self.over = False

    def feed(self, chunk: bytes) -> list[Notice]:
        """Take the next bytes of standard output; memory stays bounded whatever comes."""
        return [notice for line in self._lines.split(chunk) for notice in self._read(line)]

    def finish(self, exit_code: int | None, stderr_tail: bytes) -> Reading:
        """The output is over; an exit code explains an error, and proves no success."""
        self._exit_code = exit_code
        for line in self._lines.rest():
            self._read(line)
        reading = self._reading(stderr_tail)
        reset = with_reset(reading.trouble, stderr_text(stderr_tail), self._intent.asked)
        return replace(reading, question=reading.question or self._asked(), trouble=reset)

    def _read(self, line: bytes) -> list[Notice]:
        if line.startswith(self._skipped):
            self.over = False  # a piece of a message: the agent goes on
            return []
        return self._on_event(parsed(line))

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        """What this event makes the agent say or do; in plain text there are none."""
        return []

    def _asked(self) -> str:
        """The question at the end of what the agent said, or nothing."""
        return self._messages.question()

    @abstractmethod
    def _reading(self, stderr_tail: bytes) -> Reading:
        """The reading, once no event comes any more."""

    def _add_text(self, message_id: str, text: str) -> list[Notice]:
        """The agent's own text; a message may come in pieces under one id."""
        self._messages.add(message_id, text)
        return text_notices(text)

    def _cut_short(self, stderr_tail: bytes) -> str:
        """The error of a stream without its last event, with the program's last words."""
        lost = " (a line over 16 MiB was dropped)" if self._lines.dropped else ""
        why = why_line(stderr_text(stderr_tail))
        return f"{CUT_SHORT}{lost}{why and ': '}{why}"[:ERROR_CHARS]


def stderr_text(tail: bytes) -> str:
    """The end of what a program printed on its standard error, fit to be shown."""
    return plain(tail.decode("utf-8", "replace"))


def tool(name: object, arguments: object) -> AgentTool:
    mark = f"{name} {crc32(repr(arguments).encode('utf-8', 'replace')):08x}"
    return AgentTool(short(name), detail(arguments), mark)


def error_text(*candidates: str) -> str:
    """The first of these that says something, fit to be shown."""
    texts = (plain(text[:ERROR_CHARS]).strip() for text in candidates)
    return next(filter(None, texts), "reported an error without a message")


def first_line(stderr_tail: bytes) -> str:
    """Why a program did not even begin; the lines below it are advice."""
    said = stderr_tail.decode("utf-8", "replace").strip().partition("\n")[0]
    return error_text(said) if said else ""
