"""An agent that says or does the same thing over and over gets nowhere, however busy it looks."""

from untildone.domain.agents.agent import AgentText, Notice

# A tool call costs more than a line, and nobody calls one so often in vain.
LINES_PER_CALL = 10


class Repetition:
    """Counts the same line, and the same tool call with the same input, in a row; 0 is no limit.

    Anything new in between starts both counts anew.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line, self._lines = "", 0
        self._call, self._calls = "", 0

    def heard(self, notice: Notice) -> bool:
        """Whether this was once too often."""
        if isinstance(notice, AgentText):
            for line in filter(None, map(str.strip, notice.text.split("\n"))):
                self._said(line)
        else:
            self._did(notice.mark)
        too_often = self._lines > self._limit or self._calls > self._limit // LINES_PER_CALL
        return bool(self._limit) and too_often

    def _said(self, line: str) -> None:
        if line != self._line:
            self._line, self._lines, self._calls = line, 0, 0
        self._lines += 1

    def _did(self, mark: str) -> None:
        if not mark or mark != self._call:
            self._call, self._lines, self._calls = mark, 0, 0
        self._calls += bool(mark)
