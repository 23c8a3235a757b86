"""The agent's own text as notices: whole messages, or fragments joined to lines."""

from untildone.domain.agents.agent import AgentText, Notice
from untildone.domain.plain_text import plain

NOTICE_CHARS = 64 * 1024


def spoken(text: str) -> list[Notice]:
    """The notice of a text; none of a blank one."""
    return [AgentText(plain(text[:NOTICE_CHARS]))] if text.strip() else []


class Fragments:
    """Joins fragments of a few letters to whole lines, so that not every word is a notice."""

    def __init__(self) -> None:
        self._message_id = ""
        self._open = ""

    def add(self, message_id: str, text: str) -> list[Notice]:
        """The lines that end in this fragment; another message begins a new line."""
        before = self.flush() if message_id != self._message_id else []
        self._message_id = message_id
        self._open += text
        if len(self._open) > NOTICE_CHARS:
            return [*before, *self.flush()]
        whole, end, self._open = self._open.rpartition("\n")
        return [*before, *spoken(whole + end)]

    def flush(self) -> list[Notice]:
        """What is left of the last line, as if it ended here."""
        rest, self._open = self._open, ""
        return spoken(rest)
