"""The person at the terminal: reads the completion choice while the inbox stays open."""

import os
import sys

from untildone.adapters.inbox import POLL_S, Inbox
from untildone.domain.run import Choice

WORDS = {"c": Choice.CLEANUP, "cleanup": Choice.CLEANUP, "k": Choice.KEEP, "keep": Choice.KEEP}


class Person:
    """Answers the completion choice by flag, by typing, or by a message to the inbox."""

    def __init__(self, inbox: Inbox, answer: str, *, at_terminal: bool) -> None:
        self._inbox = inbox
        self._answer = answer
        self._at_terminal = at_terminal

    def choose(self) -> Choice | None:
        """The choice, or None when a request in the inbox comes first."""
        if self._answer != "ask":
            return Choice(self._answer)
        typed = b""
        while not self._inbox.waiting():
            watched = (0,) if self._at_terminal else ()
            if 0 not in self._inbox.wake.wait(POLL_S, watched):
                continue
            chunk = _read_line()
            if chunk is None:
                self._at_terminal = False  # the terminal went away: wait for `untildone finish`
                continue
            typed += chunk or b"\n"  # Ctrl-D is no answer either
            *lines, typed = typed.split(b"\n")
            for line in lines:
                choice = WORDS.get(line.decode(errors="replace").strip().lower())
                if choice:
                    return choice
                sys.stderr.write("Please type cleanup or keep (or c, k): ")
                sys.stderr.flush()
        return None

    def wait_for_word(self) -> None:
        """Until something is in the inbox."""
        while not self._inbox.waiting():
            self._inbox.wake.wait(POLL_S)

    def wait_until(self, seconds: float) -> None:
        """At most this long, less if a request comes."""
        if not self._inbox.waiting() and seconds > 0:
            self._inbox.wake.wait(min(seconds, POLL_S))


def _read_line() -> bytes | None:
    try:
        chunk = os.read(0, 4096)
    except OSError:
        return None
    return chunk if chunk or os.isatty(0) else None
