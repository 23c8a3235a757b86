"""The person at the terminal: reads the completion choice while the inbox stays open."""

import os
import sys
from collections.abc import Mapping
from typing import TypeVar

from untildone.adapters.inbox import POLL_S, Inbox
from untildone.domain.run import Choice

WORDS = {"c": Choice.CLEANUP, "cleanup": Choice.CLEANUP, "k": Choice.KEEP, "keep": Choice.KEEP}
YES_NO = {"y": True, "yes": True, "n": False, "no": False}

T = TypeVar("T")


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
        while not self._inbox.waiting():
            if not self._at_terminal:
                self._inbox.wake.wait(POLL_S)  # `untildone finish` will say it
                continue
            choice = self._typed(WORDS, "Please type cleanup or keep (or c, k): ")
            if choice:
                return choice
        return None

    def agrees(self, question: str) -> bool:
        """Whether the person at the terminal says yes; a request or no terminal means no."""
        _say(question)
        return self._typed(YES_NO, "Please type y or n: ") or False

    def _typed(self, words: Mapping[str, T], again: str) -> T | None:
        """The meaning of the typed word; None when a request or the terminal's end comes first."""
        typed = b""
        while self._at_terminal and not self._inbox.waiting():
            if 0 not in self._inbox.wake.wait(POLL_S, (0,)):
                continue
            chunk = _read_line()
            if chunk is None:
                self._at_terminal = False
                break
            typed += chunk or b"\n"  # Ctrl-D is no answer either
            *lines, typed = typed.split(b"\n")
            for line in lines:
                word = line.decode(errors="replace").strip().lower()
                if word in words:
                    return words[word]
                _say(again)
        return None

    def wait_for_word(self) -> None:
        """Until something is in the inbox."""
        while not self._inbox.waiting():
            self._inbox.wake.wait(POLL_S)

    def wait_until(self, seconds: float) -> None:
        """At most this long, less if a request comes."""
        if not self._inbox.waiting() and seconds > 0:
            self._inbox.wake.wait(min(seconds, POLL_S))


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _read_line() -> bytes | None:
    try:
        chunk = os.read(0, 4096)
    except OSError:
        return None
    return chunk if chunk or os.isatty(0) else None
