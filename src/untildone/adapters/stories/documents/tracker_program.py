"""Stories that are kept by another program: asked for and written through it, never past it."""

import os
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.environment import clean_environment
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.stories.documents.json_text import Json, JsonText, NotJson, plain
from untildone.adapters.stories.documents.stateful_source import NewState, StatefulSource
from untildone.domain.agents.agent import Ending
from untildone.domain.errors import SourceAway, StoriesError
from untildone.domain.stories.story import StoryBook

TIMEOUT_S = 30.0
_QUIET = {"NO_COLOR": "1", "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1"}
_QUIET |= {"OPENSPEC_TELEMETRY": "0", "DO_NOT_TRACK": "1", "OPENSPEC_NO_UPDATE_CHECK": "1"}


class Refused(SourceAway):
    """The program said no; `said` are its own words."""

    def __init__(self, call: str, code: int, said: str, hint: str) -> None:
        how = f"exit code {code}" if code >= 0 else "it was ended by a signal"
        super().__init__(f"`{call}` failed ({how}): {said or 'it said nothing'}", hint=hint)
        self.code = code
        self.said = said


class Program(Struct, frozen=True):
    """A program on PATH that keeps stories."""

    name: str
    install: str

    def missing(self) -> str:
        """Why it cannot be used; empty when it can."""
        found = shutil.which(self.name)
        return "" if found else f"the program `{self.name}` is not on PATH. {self.install}"

    def ask(self, root: Path, *args: str) -> Json:
        """Its answer as JSON; an envelope around it is taken off."""
        answer = self.call(root, *args)
        try:
            value = JsonText(answer or b"[]").root().value
        except NotJson as error:
            raise SourceAway(
                f"`{self._shown(args)}` did not answer with JSON. {error.message}",
                hint=f"Look at the answer of `{self._shown(args)}`.",
            ) from error
        if isinstance(value, dict) and "schema_version" in value and "data" in value:
            return value["data"]
        return value

    def call(self, root: Path, *args: str) -> bytes:
        """What it prints; anything but success is a StoriesError with its own words."""
        if why := self.missing():
            raise SourceAway(f"These stories cannot be read: {why}", hint="untildone doctor")
        environment = {**clean_environment(os.environ), **_QUIET}
        command = Command((self.name, *args), root, environment, timeout_s=TIMEOUT_S)
        answer = _processes().capture(command, lambda: False)
        if answer.ok:
            return answer.stdout
        if answer.ending is Ending.TIMEOUT:
            raise SourceAway(
                f"`{self._shown(args)}` gave no answer within {TIMEOUT_S:.0f} s",
                hint=f"Try `{self._shown(args)}` by hand.",
            )
        said = plain((answer.stderr or answer.stdout).decode(errors="replace")).strip()[-2000:]
        raise Refused(
            self._shown(args), answer.exit_code, said, f"Try `{self._shown(args)}` by hand."
        )

    def _shown(self, args: Sequence[str]) -> str:
        return " ".join((self.name, *args[:3]))


class Listing:
    """The stories as the program listed them; `write` passes it one state after the other."""

    def __init__(self, book: StoryBook, write_state: Callable[[NewState], None]) -> None:
        self.book = book
        self._write_state = write_state

    def write(self, states: Sequence[NewState]) -> None:
        for new in states:
            self._write_state(new)


class TrackerSource(StatefulSource):
    """A source outside the worktree: putting back the files does not put back what is there.

    A state that could not be taken back is therefore remembered, and taken back before the next
    load. A person may have opened an issue again meanwhile: it is left open.
    """

    EXCLUSIVE = False

    def __init__(self, root: Path, change: str) -> None:
        self.root = root
        self.change = change
        self._to_take_back: list[StoryBook] = []

    def load(self) -> StoryBook:
        """Read the stories as they are now, after what is still to be taken back."""
        while self._to_take_back:
            super().take_back(self._to_take_back[0])
            self._to_take_back.pop(0)
        return super().load()

    def take_back(self, before: StoryBook) -> tuple[str, ...]:
        """Open again what was open in `before`."""
        try:
            return super().take_back(before)
        except StoriesError:
            self._to_take_back.append(before)
            raise


@cache
def _processes() -> Processes:
    return Processes(WakePipe().fd)
