"""The person at the terminal: reads the completion choice while the inbox stays open."""

import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from untildone.adapters.records.inbox import POLL_S, Inbox
from untildone.domain.costs.budget import EXAMPLES, parsed
from untildone.domain.plain_text import plain
from untildone.domain.run.fact import (
    BudgetSet,
    GivenUp,
    Guided,
    StopRequested,
    StoryParked,
    StoryRetried,
    UserRequest,
)
from untildone.domain.run.run import Choice, Stop, StopHow
from untildone.domain.stories.parking import Why
from untildone.domain.stories.story import StoryKey

LATER = StopRequested(Stop(StopHow.NOW))
WORDS: dict[str, Choice | StopRequested] = {
    "c": Choice.CLEANUP,
    "cleanup": Choice.CLEANUP,
    "k": Choice.KEEP,
    "keep": Choice.KEEP,
    "l": LATER,
    "later": LATER,
}
STOP_WORDS = ("s", "stop", "q", "quit")
DECIDE = "Please type retry, skip or stop, or what the agent should know: "
YES_NO = {"y": True, "yes": True, "n": False, "no": False}

T = TypeVar("T")


def output_files(folder: Path) -> tuple[str, ...]:
    """Files below a folder that our own output goes to (`> run.log`), as paths in it."""
    found = []
    for fd in (1, 2):
        try:
            inside = stat.S_ISREG(os.fstat(fd).st_mode)
            path = Path(os.readlink(f"/proc/self/fd/{fd}")) if inside else None  # noqa: PTH115
        except OSError:  # closed, or a system that does not tell
            continue
        if path and path.is_relative_to(folder.resolve()):
            found.append(path.relative_to(folder.resolve()).as_posix())
    return tuple(dict.fromkeys(name for name in found if not name.startswith(".git/")))


class Person:
    """Answers the completion choice by flag, by typing, or by a message to the inbox."""

    def __init__(self, inbox: Inbox, answer: str, *, at_terminal: bool) -> None:
        self._inbox = inbox
        self._answer = answer
        self._at_terminal = at_terminal

    def choose(self) -> Choice | StopRequested | None:
        """The choice, a stop if it is left for later, None when a request in the inbox is first."""
        if self._answer != "ask":
            return Choice(self._answer)
        while not self._inbox.waiting():
            if not self._at_terminal:
                self._inbox.wake.wait(POLL_S)  # `untildone finish` will say it
                continue
            choice = self._typed(_word(WORDS, "Please type cleanup, keep or later (or c, k, l): "))
            if choice:
                return choice
        return None

    def agrees(self, question: str) -> bool:
        """Whether the person at the terminal says yes; a request or no terminal means no."""
        _say(question)
        return self._typed(_word(YES_NO, "Please type y or n: ")) or False

    def present(self) -> bool:
        """Whether somebody at a terminal can be asked."""
        return self._at_terminal

    def new_budget(self, name: str) -> BudgetSet | StopRequested | None:
        """What is typed in place of the used up budget; None when a request comes first."""
        said = self._typed(lambda line: _budget(name, line)) if self._at_terminal else None
        if said is None and not self._at_terminal:
            self.wait_for_word()  # `untildone resume --budget` or `stop` will say it
        return said

    def decide(self, key: StoryKey) -> UserRequest | None:
        """What is typed about a story: a word, or guidance for it; None when a request comes."""
        return self._typed(lambda line: _decision(key, line))

    def _typed(self, meaning: Callable[[str], T]) -> T | None:
        """What the typed line means; None when a request or the terminal's end comes first."""
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
                try:
                    return meaning(line.decode(errors="replace").strip())
                except ValueError as wrong:
                    _say(str(wrong))
        if self._at_terminal:
            _say("\n")  # nobody has pressed Enter: the question, or `^C`, is still on this line
        return None

    def wait_for_word(self) -> None:
        """Until something is in the inbox."""
        while not self._inbox.waiting():
            self._inbox.wake.wait(POLL_S)

    def wait_until(self, seconds: float) -> None:
        """At most this long, less if a request comes."""
        if not self._inbox.waiting() and seconds > 0:
            self._inbox.wake.wait(min(seconds, POLL_S))


def _word(words: Mapping[str, T], again: str) -> Callable[[str], T]:
    def meaning(word: str) -> T:
        if word.lower() not in words:
            raise ValueError(again)
        return words[word.lower()]

    return meaning


def _decision(key: StoryKey, line: str) -> UserRequest:
    match line.lower():
        case "":
            raise ValueError(DECIDE)
        case "r" | "retry":
            return StoryRetried(key)
        case "s" | "skip":
            return StoryParked(key, Why.SKIPPED)
        case "q" | "quit" | "stop":
            return GivenUp(key)
        case _:
            return Guided(line, key)


def _budget(name: str, line: str) -> BudgetSet | StopRequested:
    line = line.lower()
    if line in STOP_WORDS:
        return StopRequested(Stop(StopHow.NOW))
    if not line:
        raise ValueError(f"Please type an amount, such as {name}={EXAMPLES[name]}, or stop: ")
    try:
        return BudgetSet(parsed(line if "=" in line else f"{name}={line}"))
    except ValueError as wrong:
        raise ValueError(f"{wrong}, or type stop: ") from None


def _say(text: str) -> None:
    sys.stderr.write(plain(text))
    sys.stderr.flush()


def _read_line() -> bytes | None:
    try:
        chunk = os.read(0, 4096)
    except OSError:
        return None
    return chunk if chunk or os.isatty(0) else None
