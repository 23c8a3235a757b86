"""Faults in the loop's process, put in from outside: Python imports this file when it starts.

With its folder on PYTHONPATH, everything the process does to the outside is counted: programs it
starts, bytes it writes, files it renames, removes or makes below one folder. At number AT the
process is killed in the way that MODE says: `before` or `after` it, or in the middle (`during` for
a program, which dies too, `half` for a write). `agent` spares the program, `child` the loop.
With FAULT_OF (such as `git merge-tree` or `write journal.jsonl`) only these are counted, in
whatever thread: where several work at once, a number among all means something else each time.
With FAULT_CLOCK_S each look at the clock shows a time so many seconds before the last one, with
FAULT_CLOCK_OFF_S all are so many seconds behind.
Without these nothing is changed.
"""

import builtins
import datetime
import io
import itertools
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

# Taken out of the environment, so that agents and git are left alone.
LOG = os.environ.pop("FAULT_LOG", "")
ROOT = os.environ.pop("FAULT_ROOT", "")
OF = os.environ.pop("FAULT_OF", "")
AT = int(os.environ.pop("FAULT_AT", "0"))
MODE = os.environ.pop("FAULT_MODE", "before")
DELAY_S = float(os.environ.pop("FAULT_DELAY_MS", "0")) / 1000
CLOCK_S = float(os.environ.pop("FAULT_CLOCK_S", "0"))
CLOCK_OFF_S = float(os.environ.pop("FAULT_CLOCK_OFF_S", "0"))

_open = io.open
_write = os.write
_count = itertools.count(1)  # its `next` is atomic


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def due(kind: str, what: str) -> bool:
    """Count one effect; whether it is the one to be hit."""
    sort = f"{kind} {sort_of(what)}"
    if LOG:
        with _open(LOG, "a") as file:
            file.write(f"{sort}\n")
    if (OF and sort != OF) or next(_count) != AT:
        return False
    if MODE == "before":
        die()
    return True


def sort_of(what: str) -> str:
    """The last part of a name, without what chance has put into it."""
    return re.sub(r"^[0-9a-f]{2}$|[0-9a-f]{7,}|\d+(-[0-9a-f]+)*", "N", os.path.basename(what))


def ours(path: object) -> bool:
    """Whether a path is below the watched folder."""
    return isinstance(path, str | os.PathLike) and os.path.abspath(path).startswith(ROOT + "/")


def name(path: Any) -> str:
    """A path as the log shows it."""
    return os.path.relpath(path, ROOT)


class Program(subprocess.Popen[bytes]):
    """A program that is hit before, while or after it runs."""

    def __init__(self, args: Any, *more: Any, **options: Any) -> None:
        words = [args] if isinstance(args, str) else [str(word) for word in args]
        is_git = os.path.basename(words[0]) == "git"
        self._fatal = False
        verb = next((w for w in words[1:] if "=" not in w and not w.startswith("-")), "")
        hit = due("git" if is_git else "agent", verb if is_git else words[0])
        super().__init__(args, *more, **options)
        if hit and MODE == "after":
            self._fatal = True
        elif hit:
            threading.Thread(target=self._hit, daemon=True).start()

    def _hit(self) -> None:
        time.sleep(DELAY_S)
        if MODE != "agent":  # an agent outlives its loop
            self.kill()
        if MODE != "child":  # only the program dies, the loop has to cope
            die()

    def _handle_exitstatus(self, sts: int, *more: Any, **options: Any) -> None:
        if self._fatal:
            die()
        super()._handle_exitstatus(sts, *more, **options)  # type: ignore[misc]  # CPython's own


class Written(io.FileIO):
    """A file whose write is hit before, in the middle or after."""

    def write(self, data: Any) -> int:
        return torn(super().write, data, str(self.name))


def torn(write: Callable[[Any], int], data: Any, path: str) -> int:
    """Write all, or half and die."""
    if not due("write", name(path)) or MODE == "child":
        return write(data)
    write(data if MODE == "after" else bytes(data)[: len(data) // 2])
    die()
    return 0


def opened(file: Any, mode: str = "r", buffering: int = -1, *more: Any, **options: Any) -> Any:
    """`open`, with writes below the watched folder under watch."""
    if not ours(file) or not set(mode) & set("wax"):
        return _open(file, mode, buffering, *more, **options)
    raw = Written(os.fspath(file), mode.replace("t", ""))
    if buffering == 0:
        return raw
    buffered = io.BufferedWriter(raw)
    return buffered if "b" in mode else io.TextIOWrapper(buffered, *more, **options)


def written(fd: int, data: bytes) -> int:
    """`os.write`, with regular files under watch."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return _write(fd, data)
    return torn(lambda part: _write(fd, part), data, os.readlink(f"/proc/self/fd/{fd}"))


def watched(kind: str, act: Callable[..., Any]) -> Callable[..., Any]:
    """A call that changes a folder, hit before or after."""

    def acting(*paths: Any, **options: Any) -> Any:
        # Python tries a folder first and its parents on failure.
        parent = os.path.dirname(os.path.abspath(paths[0]))
        nothing_to_do = kind == "mkdir" and (os.path.isdir(paths[0]) or not os.path.isdir(parent))
        # How many of these a run makes is a matter of chance, and an empty one means nothing.
        nothing_to_do |= kind == "mkdir" and len(os.path.basename(paths[0])) == 2
        nothing_to_do |= kind == "unlink" and not os.path.lexists(paths[0])
        if nothing_to_do or not any(map(ours, paths)):
            return act(*paths, **options)
        hit = due(kind, name(paths[-1] if ours(paths[-1]) else paths[0]))
        done = act(*paths, **options)
        if hit and MODE != "child":
            die()
        return done

    return acting


class BackwardClock(datetime.datetime):
    """Each look shows an earlier time than the last one."""

    looks = -1

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "BackwardClock":
        BackwardClock.looks += 1
        behind = CLOCK_OFF_S + CLOCK_S * BackwardClock.looks
        return super().now(tz) - datetime.timedelta(seconds=behind)


if CLOCK_S or CLOCK_OFF_S:
    datetime.datetime = BackwardClock  # type: ignore[misc]

if ROOT and (LOG or AT):
    subprocess.Popen = Program  # type: ignore[misc,assignment]
    io.open = builtins.open = opened
    os.write = written  # type: ignore[assignment]
    shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]  # copies through `write`
    for _kind in ("replace", "rename", "link", "unlink", "mkdir", "rmdir"):
        setattr(os, _kind, watched(_kind, getattr(os, _kind)))
