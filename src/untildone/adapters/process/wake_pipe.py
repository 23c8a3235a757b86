"""A pipe that ends any wait at once: signals and other threads write to it, waits watch it."""

import os
import select
from collections.abc import Sequence


class WakePipe:
    """A self-pipe; `fd` becomes readable when somebody called `set`."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)

    def set(self) -> None:
        """Wake whoever waits; safe in a signal handler."""
        try:
            os.write(self._write_fd, b"!")
        except BlockingIOError:
            return  # the pipe is full, so it is readable already

    def clear(self) -> None:
        """Forget earlier calls of `set`."""
        try:
            while os.read(self.fd, 4096):
                pass
        except BlockingIOError:
            return

    def wait(self, seconds: float | None, also: Sequence[int] = ()) -> tuple[int, ...]:
        """Wait until woken, until one of the descriptors is readable, or for `seconds`."""
        ready, _, _ = select.select([self.fd, *also], [], [], seconds)
        return tuple(ready)

    def close(self) -> None:
        """Nobody waits any more."""
        os.close(self.fd)
        os.close(self._write_fd)
