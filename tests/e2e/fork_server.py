"""Starts the command as a copy of a process that has loaded it: milliseconds instead of tenths.

A copy is a process like any other, with its own session, folder, environment, signals and
terminal; only the start of Python and the imports have happened before. One server for each
process that runs tests; it ends with it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import functools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_LENGTH = struct.Struct("!I")
_PR_SET_CHILD_SUBREAPER = 36
_FDS = 4  # the three standard streams and the pipe for the exit status


class Forked:
    """A copy of the server that runs the command."""

    def __init__(self, args: Sequence[str], pid: int, status: int) -> None:
        self.args = args
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
        return code

    def send_signal(self, sig: int, /) -> None:
        """Send a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        """End it, if it has not ended."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            answer = os.read(self._status, _LENGTH.size)
            os.close(self._status)
            self.returncode = os.waitstatus_to_exitcode(*_LENGTH.unpack(answer))
        return self.returncode


def forked(
    args: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    *,
    on_terminal: bool = False,
) -> Forked:
    """`untildone` with these arguments in a session of its own."""
    line = _server(os.getpid())
    hears, status = os.pipe()
    request = {"args": args, "cwd": str(cwd), "env": env, "terminal": on_terminal}
    data = json.dumps(request).encode("utf-8", "surrogateescape")
    try:
        socket.send_fds(line, [_LENGTH.pack(len(data))], [*streams, status])
    finally:
        os.close(status)
    line.sendall(data)
    (pid,) = _LENGTH.unpack(_exactly(line, _LENGTH.size))
    return Forked(args, pid, hears)


@functools.cache
def _server(_owner: int) -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            cwd="/",
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _exactly(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = line.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


# The server's side.


def _serve(line: socket.socket) -> dict[str, Any]:
    """Fork for every request. Returns in the copies only, with what the command needs."""
    # The dead whose parents are dead come to us: an init that buries late would hold up the tests.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    died, dies = os.pipe2(os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(dies)
    living: dict[int, int] = {}
    while True:
        ready = select.select([line.fileno(), died], [], [])[0]
        if died in ready:
            os.read(died, 4096)
            _bury(living)
        if line.fileno() in ready:
            try:
                request, streams, status = _next_request(line)
            except EOFError:
                sys.exit(0)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for fd in (died, dies, status, *living.values()):
                    os.close(fd)
                line.close()
                _stand_alone(request, streams)
                return request
            for fd in streams:
                os.close(fd)
            living[pid] = status
            line.sendall(_LENGTH.pack(pid))


def _bury(living: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            pid, ended = found
            if pid in living:
                with open(living.pop(pid), "wb") as status:
                    status.write(_LENGTH.pack(ended))


def _next_request(line: socket.socket) -> tuple[dict[str, Any], list[int], int]:
    head, fds, _, _ = socket.recv_fds(line, _LENGTH.size, _FDS)
    if not head:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    request = json.loads(_exactly(line, size).decode("utf-8", "surrogateescape"))
    return request, fds[:3], fds[3]


def _stand_alone(request: dict[str, Any], streams: list[int]) -> None:
    os.setsid()
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.stdin = _stream(0, "r")
    sys.stdout = _stream(1, "w")
    sys.stderr = _stream(2, "w")
    sys.argv = ["untildone", *request["args"]]


def _stream(fd: int, mode: str) -> Any:
    like = (sys.__stdin__, sys.__stdout__, sys.__stderr__)[fd]
    assert like is not None
    line_buffered = mode == "w" and (fd == 2 or os.isatty(fd))
    return open(
        fd,
        mode,
        buffering=1 if line_buffered else -1,
        encoding="utf-8",
        errors=like.errors,
        closefd=False,
    )


def _leave(code: int) -> NoReturn:
    """As Python ends, without taking apart every module that was loaded."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _load() -> None:
    """All modules of the program and what they import at need."""
    import gc
    import importlib
    import pkgutil

    import untildone

    for module in pkgutil.walk_packages(untildone.__path__, "untildone."):
        importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from untildone.__main__ import main

    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _leave(main())
