"""Windows on a run: JSON lines, plain lines, the terminal title."""

import sys
from collections.abc import Mapping
from typing import TextIO

from untildone.interfaces import render
from untildone.interfaces.output import fitted, json_line

EventObject = Mapping[str, object]


class JsonLines:
    """Every event as one JSON object per line; warnings and errors on standard error as well."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err

    def __call__(self, event: EventObject) -> None:
        self._out.write(json_line(event) + "\n")
        self._out.flush()
        _complain(self._err, render.safe(event))


class PlainLines:
    """One line per event, with the time; for pipes and logs."""

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        quiet: bool = False,
        asks: bool = False,
        notices: bool = True,
    ) -> None:
        self._notices = notices
        self._out = out
        self._err = err
        self._quiet = quiet
        self._asks = asks
        self._change = ""
        self._last = ""

    def __call__(self, event: EventObject) -> None:
        if event["event"] in ("agent_text", "agent_tool") and not self._notices:
            return
        event = render.safe(event)
        self._change = str(event.get("change_id") or self._change)
        text = render.line(event)
        if event["event"] in ("iteration_started", "verify_started", "waiting", "complete"):
            self._last = text.strip()
        if text and not self._quiet:
            self._out.write(f"{render.clock_time(event['at'])} {text}\n")
            if self._asks and event["event"] == "complete" and event["reason"] != "stopped":
                self._out.write(f"  next: untildone finish {self._change} cleanup|keep|pr\n")
            self._out.flush()
        _complain(self._err, event)

    def heartbeat(self) -> None:
        """Nothing happened for a while: say so, a silent log looks like a dead loop."""
        if not self._quiet and self._last:
            self._out.write(f"  still at it: {self._last}\n")
            self._out.flush()


class Title:
    """Progress in the terminal's title bar."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._state: dict[str, object] = {}

    def __call__(self, event: EventObject) -> None:
        text = render.title(render.safe(event), self._state)
        if text:
            self._stream.write(f"\x1b]0;{text}\x07")
            self._stream.flush()


def terminal() -> TextIO | None:
    """A stream that reaches a terminal, standard error first so that output stays clean."""
    return next((s for s in (sys.stderr, sys.stdout) if s.isatty()), None)


def _complain(err: TextIO, event: EventObject) -> None:
    text = render.complaint(event)
    if text:
        err.write(fitted(text, err) + "\n")
        err.flush()
