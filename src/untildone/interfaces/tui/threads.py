"""What takes time is done in threads, so that no disk and no git holds up a window."""

import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from textual.app import App

from untildone.domain.errors import UntildoneError
from untildone.interfaces.tui.lines import clean

T = TypeVar("T")
# A window that is closed, or that a person has stopped, shows nothing any more.
SHOWN_S = 10.0


class Threads(App[None]):
    """An application with work beside it."""

    def beside(self, work: Callable[[], T], then: Callable[[T], object]) -> None:
        """Do something that takes time, then show what came of it."""

        def run() -> None:
            try:
                found = work()
            except (UntildoneError, OSError) as error:
                self.from_thread(self.say, error)
            else:
                self.from_thread(then, found)

        threading.Thread(target=run, daemon=True).start()

    def from_thread(self, show: Callable[..., object], *found: object) -> None:
        """Show what a thread has found; the thread waits until it is shown."""
        done = threading.Event()

        def shown() -> None:
            try:
                if self.query("#head"):  # else the window is closed by now
                    show(*found)
            finally:
                done.set()

        with contextlib.suppress(RuntimeError):  # as above
            if self.call_later(shown):
                done.wait(SHOWN_S)

    def say(self, said: str | UntildoneError | OSError) -> None:
        """A sentence about what was done, or why it was not."""
        if isinstance(said, str):
            self.notify(clean(said), markup=False, timeout=6)
            return
        rows = [f"The machine refused: {said}"]
        if isinstance(said, UntildoneError):
            rows = [said.message, said.state, f"next: {said.hint}" if said.hint else ""]
        text = "\n".join(clean(row) for row in rows if row)
        self.notify(text, severity="error", markup=False, timeout=12)
