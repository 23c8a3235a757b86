"""Decides what to answer: where in its story a request stands, and whether the day is bad."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.modelserver.script import BadDay, Day, Run, Script, Story, Tokens, Write, tokens_of
from tests.modelserver.tools import NoTool, call_for
from tests.modelserver.wire import Answer

if TYPE_CHECKING:
    from tests.modelserver.wire import Ask, Failure, Wire

TITLE = "A short title"
LOST = "This is no story of the script."
HALF = "Half of an answer"
# Words of a client that has no tools and reads whole files out of the model's text instead.
LISTINGS = "*file listing*"
IN_STREAM = (Day.CUT, Day.EARLY_END, Day.MALFORMED)


@dataclass(frozen=True)
class Place:
    """Where a request stands: the story of its last prompt, and how many tools answered since.

    A side request (a title, a commit message) is not `main`. `prompts` are those of stories in the
    whole conversation.
    """

    main: bool
    story: Story | None = None
    prompt: str = ""
    step: int = 0
    prompts: int = 0


@dataclass(frozen=True)
class Reply:
    """What goes back for one request, and what of it is told about tokens."""

    place: Place
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
        place = self._place(ask)
        bad = self._script.trouble() if place.main else None
        tokens = wire.carried(tokens_of(n))
        plain = Answer(n, ask.model, tokens)
        if bad is None:
            return Reply(place, _turn(plain, ask, place), tokens)
        if bad.day in IN_STREAM:
            return Reply(place, replace(plain, text=HALF), wire.begun(tokens), bad)
        if bad.day is Day.REFUSAL:
            return Reply(place, replace(plain, refused=True), tokens, bad)
        failure = None if bad.day is Day.HANG else wire.failure(bad, now)
        return Reply(place, plain, Tokens(), bad, failure)

    def _place(self, ask: Ask) -> Place:
        listing = not ask.tools and any(LISTINGS in turn.text for turn in ask.turns)
        place = Place(bool(ask.tools) or listing)
        for turn in ask.turns:
            if turn.result:
                place = replace(place, step=place.step + 1)
            elif found := self._script.story_in(turn.text):
                place = Place(place.main, found, turn.text, prompts=place.prompts + 1)
        return place


def _turn(plain: Answer, ask: Ask, place: Place) -> Answer:
    """The next turn of the story."""
    story = place.story
    if not place.main:
        return replace(plain, text=TITLE)
    if story is None:
        return replace(plain, text=LOST)
    if not ask.tools:
        return replace(plain, text=_listed(story))
    if place.step < len(story.actions):
        action = story.actions[place.step]
        try:
            return replace(plain, call=call_for(action, ask.tools, f"call_{plain.n:04d}"))
        except NoTool:
            # A client that holds its model to edits need not offer commands.
            if not isinstance(action, Run):
                raise
    return replace(plain, text=story.say)


def _listed(story: Story) -> str:
    """All files of the story as listings, then its words; commands cannot be run this way."""
    files = [action for action in story.actions if isinstance(action, Write)]
    assert not any(isinstance(action, Run) for action in story.actions), "no tools, no commands"
    listings = (f"{Path(file.path).name}\n```\n{file.text}```\n\n" for file in files)
    return "".join(listings) + story.say
