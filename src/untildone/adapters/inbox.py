"""What reaches a live loop from outside: signals, and messages left in a folder."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from types import FrameType

from untildone.adapters.wake import Wake
from untildone.domain.budget import parsed
from untildone.domain.fact import BudgetSet, ChoiceMade, Fact, PersonDone, StopRequested
from untildone.domain.run import Choice, Stop, StopHow

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_S = 1.0


class Inbox:
    """Collects requests; whoever waits is woken at once."""

    def __init__(self, folder: Path, wake: Wake) -> None:
        self.folder = folder
        self._pending: list[Fact] = []
        self._handlers: dict[int, object] = {}
        self.wake = wake

    def listen(self) -> None:
        """Turn signals into requests from now on, and forget messages to an earlier loop."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self._messages():
            path.unlink(missing_ok=True)
        for signum in SIGNALS:
            self._handlers[signum] = signal.signal(signum, self._on_signal)
        self._handlers[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._on_message)

    def take(self) -> tuple[Fact, ...]:
        """All requests since the last call."""
        self._poll()
        taken, self._pending = self._pending, []  # a signal in between still lands in `taken`
        return tuple(taken)

    def stop_now(self) -> bool:
        """Whether somebody wants the loop to stop at once."""
        self._poll()
        return any(
            isinstance(f, StopRequested) and f.stop.how is StopHow.NOW for f in self._pending
        )

    def signalled(self) -> bool:
        """Whether the process itself was told to end."""
        self._poll()
        return any(isinstance(f, StopRequested) and f.stop.signal for f in self._pending)

    def waiting(self) -> bool:
        """Whether any request is there."""
        self._poll()
        return bool(self._pending)

    def _poll(self) -> None:
        self.wake.clear()
        for path in self._messages():
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                self._pending.append(_message(json.loads(path.read_text())))
            path.unlink(missing_ok=True)

    def _messages(self) -> list[Path]:
        # Asked many times a story, and a plain listing costs a tenth of a glob.
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if path.suffix == ".json")

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self._pending.append(StopRequested(Stop(StopHow.NOW, signum)))
        self.wake.set()

    def _on_message(self, signum: int, frame: FrameType | None) -> None:
        self.wake.set()


def send(folder: Path, pid: int, message: dict[str, str]) -> None:
    """Leave a message for a live loop and wake it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.time_ns()}-{os.getpid()}.json"
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(message))
    draft.replace(path)
    if pid > 0:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGUSR1)


def _message(data: dict[str, str]) -> Fact:
    match data["kind"]:
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
