"""What reaches a live loop from outside: signals, and messages left in a folder."""

import contextlib
import json
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.records.codec import decode, encode
from untildone.adapters.records.durable import replace_file
from untildone.domain.costs.budget import parsed
from untildone.domain.run.fact import (
    BudgetSet,
    ChoiceMade,
    Fact,
    GuidanceCleared,
    Guided,
    PersonDone,
    StopRequested,
    StoriesReordered,
    StoryAdded,
    StoryParked,
    StoryRetried,
)
from untildone.domain.run.run import Choice, Stop, StopHow
from untildone.plain_files import read_text
from untildone.ports import Report

WISH = "wish"
REQUESTS = {
    kind.__name__: kind
    for kind in (
        *(Guided, GuidanceCleared, StoryParked, StoryRetried, StoriesReordered, StoryAdded),
    )
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_S = 1.0


class Inbox:
    """Collects requests; whoever waits is woken at once."""

    def __init__(self, folder: Path, wake: WakePipe) -> None:
        self.folder = folder
        self._pending: list[Fact] = []
        self._name = str(folder)
        self._kept: list[str] = []
        self._taken: list[str] = []
        self._handlers: dict[int, object] = {}
        self._reports: deque[Report] = deque()
        self.wake = wake

    def listen(self, change: str = "") -> None:
        """Turn signals into requests from now on, and forget messages to an earlier loop.

        What the person wished for this change stays: a loop that died may not have heard it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self._messages():
            if not (change and _is_wish(path, change)):
                _remove(path)
        for signum in SIGNALS:
            # Under `nohup` a hang-up stays what it is there: nothing.
            if signal.getsignal(signum) is not signal.SIG_IGN or signum != signal.SIGHUP:
                self._handlers[signum] = signal.signal(signum, self._on_signal)
        self._handlers[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._on_message)

    def survive_hang_up(self, then: Callable[[], None] = lambda: None) -> None:
        """A terminal that goes ends nothing from now on. Programs are told of it as usual."""
        signal.signal(signal.SIGHUP, lambda signum, frame: then())

    def take(self) -> tuple[Fact, ...]:
        """All requests since the last call."""
        self._poll()
        taken, self._pending = self._pending, []  # a signal in between still lands in `taken`
        # What comes after this is not in the journal when `recorded` is called.
        self._taken += self._kept[len(self._taken) :]
        return tuple(taken)

    def recorded(self) -> None:
        """What was taken is in the journal: its messages can go."""
        for path in self._taken:
            _remove(path)
            self._kept.remove(path)
        self._taken = []

    def stop_now(self) -> bool:
        """Whether somebody wants the loop to stop at once."""
        self._poll()
        return any(
            isinstance(f, StopRequested) and f.stop.how is StopHow.NOW for f in self._pending
        )

    def ends_call(self, story_id: str) -> bool:
        """Whether the agent's call for this story should end: a stop, or the story is skipped."""
        skipped = (f.key[0] for f in self._pending if isinstance(f, StoryParked))
        return self.stop_now() or story_id in skipped

    def signalled(self) -> bool:
        """Whether the process itself was told to end."""
        self._poll()
        return any(isinstance(f, StopRequested) and f.stop.signal for f in self._pending)

    def waiting(self) -> bool:
        """Whether any request or report is there."""
        self._poll()
        return bool(self._pending or self._reports)

    def report(self, report: Report) -> None:
        """From the thread of a lane; all else here is the main thread's."""
        self._reports.append(report)
        self.wake.set()

    def reports(self) -> tuple[Report, ...]:
        """What lanes have reported since the last call."""
        return tuple(self._reports.popleft() for _ in range(len(self._reports)))

    def _poll(self) -> None:
        self.wake.clear()
        for path in self._messages():
            if path in self._kept:
                continue  # read before; it stays until the journal has it, in case we die
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AssertionError):
                message = _read(path)
                self._pending.append(_message(message))
                if message["kind"] == WISH:
                    self._kept.append(path)
                    continue
            _remove(path)

    def _messages(self) -> list[str]:
        # Asked many times a story: one listing, and no object per name.
        try:
            names = os.listdir(self._name)  # noqa: PTH208 - as above
        except OSError:
            return []
        return [f"{self._name}/{name}" for name in sorted(names) if name.endswith(".json")]

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self._pending.append(StopRequested(Stop(StopHow.NOW, signum)))
        self.wake.set()

    def _on_message(self, signum: int, frame: FrameType | None) -> None:
        self.wake.set()


def wish(change: str, fact: Fact) -> dict[str, object]:
    """The message of a person's wish for the run of a change."""
    return {"kind": WISH, "change": change, "what": type(fact).__name__, "fact": encode(fact)}


def send(folder: Path, pid: int, message: Mapping[str, object]) -> None:
    """Leave a message for a live loop and wake it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.time_ns()}-{os.getpid()}.json"
    draft = path.with_suffix(".draft")
    replace_file(path, [json.dumps(message).encode()], draft)
    if pid > 0:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGUSR1)


def _read(path: str) -> dict[str, str]:
    message: dict[str, str] = json.loads(read_text(Path(path)))
    return message


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)


def _is_wish(path: str, change: str) -> bool:
    try:
        message = _read(path)
        return bool(message["kind"] == WISH and message["change"] == change)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _message(data: dict[str, str]) -> Fact:
    match data["kind"]:
        case "wish":
            wished: Fact = decode(REQUESTS[data["what"]], data["fact"])  # type: ignore[assignment]  # one of REQUESTS
            return wished
        case "stop":
            return StopRequested(Stop(StopHow(data["how"])))
        case "choice":
            return ChoiceMade(Choice(data["choice"]))
        case "done":
            return PersonDone()
        case "budget":
            return BudgetSet(parsed(data["budget"]))
        case _:
            raise ValueError(data["kind"])
