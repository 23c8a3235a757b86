"""Decides what to answer: where in its story a request stands, and whether the day is bad."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.modelserver.script import BadDay, Day, Run, Script, Story, Tokens, Write, tokens_of
from tests.modelserver.tools import call_for
from tests.modelserver.wire import Answer

if TYPE_CHECKING:
    from tests.modelserver.wire import Ask, Failure, Wire

TITLE = "A short title"
LOST = "This is no story of the script."
# Words of a client that has no tools and reads whole files out of the model's text instead.
LISTINGS = "*file listing*"
IN_STREAM = (Day.CUT, Day.EARLY_END, Day.MALFORMED)


@dataclass(frozen=True)
class Reply:
    """What goes back for one request, and what of it is told about tokens."""

    main: bool
    story: str
    step: int
    answer: Answer
    sent: Tokens
    bad: BadDay | None = None
    failure: Failure | None = None


class Play:
    """The script as it is played; every answer has other tokens."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._n = 0
        self._lock = threading.Lock()

    def reply(self, wire: Wire, ask: Ask, now: float) -> Reply:
        """The answer to this request; bad days are for main requests only."""
        with self._lock:
            self._n += 1
            n = self._n
        listing = not ask.tools and any(LISTINGS in turn.text for turn in ask.turns)
        main = bool(ask.tools) or listing
        story, step = self._place(ask)
        bad = self._script.trouble() if main else None
        tokens = wire.carried(tokens_of(n))
        refused = bad is not None and bad.day is Day.REFUSAL
        plain = Answer(n, ask.model, tokens, refused=refused)
        marker = story.marker if story else ""
        if bad is None:
            answer = self._turn(plain, ask, story if main else None, step)
            return Reply(main, marker, step, answer, tokens)
        if bad.day in IN_STREAM:
            begun = wire.begun(tokens)
            return Reply(main, marker, step, _words(plain, "Half of an answer"), begun, bad)
        if refused:
            return Reply(main, marker, step, plain, tokens, bad)
        failure = None if bad.day is Day.HANG else wire.failure(bad, now)
        return Reply(main, marker, step, plain, Tokens(), bad, failure)

    def _place(self, ask: Ask) -> tuple[Story | None, int]:
        """The story of the last prompt, and how many tools have answered since."""
        story, step = None, 0
        for turn in ask.turns:
            if turn.result:
                step += 1
            elif found := self._script.story_in(turn.text):
                story, step = found, 0
        return story, step

    def _turn(self, plain: Answer, ask: Ask, story: Story | None, step: int) -> Answer:
        if story is None:
            return _words(plain, LOST if ask.tools else TITLE)
        if not ask.tools:
            return _words(plain, _listed(story))
        if step < len(story.actions):
            call = call_for(story.actions[step], ask.tools, f"call_{plain.n:04d}")
            return Answer(plain.n, plain.model, plain.tokens, call=call)
        return _words(plain, story.say)


def _words(plain: Answer, text: str) -> Answer:
    return Answer(plain.n, plain.model, plain.tokens, text=text)


def _listed(story: Story) -> str:
    """All files of the story as listings, then its words; commands cannot be run this way."""
    files = [action for action in story.actions if isinstance(action, Write)]
    assert not any(isinstance(action, Run) for action in story.actions), "no tools, no commands"
    listings = (f"{Path(file.path).name}\n```\n{file.text}```\n\n" for file in files)
    return "".join(listings) + story.say
