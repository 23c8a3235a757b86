"""The processes below another one, and how to end many of them at once."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

END_S = 2.0
LOOK_S = 0.002
PS_WAIT_S = 5


@cache
def has_proc() -> bool:
    """Whether there is Linux's /proc; asked for every agent call."""
    return os.path.exists("/proc/self/task")  # noqa: PTH110 - text


def below(pid: int, spared: Iterable[int] = ()) -> list[int]:
    """Every descendant of a process, parents first; spared ones and theirs are left out."""
    if has_proc():
        return _walk(pid, _children, set(spared))
    table = by_ps()
    return _walk(pid, lambda parent: table.get(parent, ()), set(spared))


def by_ps() -> Mapping[int, Sequence[int]]:
    """The children of every process, by `ps`: for systems without /proc."""
    asked = subprocess.run(
        ["ps", "-axo", "pid=,ppid="], capture_output=True, check=False, timeout=PS_WAIT_S
    )
    table: dict[int, list[int]] = {}
    for line in asked.stdout.splitlines():
        pid, parent = map(int, line.split())
        table.setdefault(parent, []).append(pid)
    return table


def carries(pid: int, mark: str) -> bool:
    """Whether a process has this NAME=VALUE in its environment (Linux); the dead have none."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - as below
            return mark.encode() in file.read().split(b"\0")
    except OSError:
        return False


def cpu_seconds(pids: Sequence[int]) -> float:
    """Processor time that these have used, with that of children they have waited for."""
    if has_proc():
        return sum(map(_ticks, pids)) / os.sysconf("SC_CLK_TCK")
    return cpu_by_ps(pids)


def cpu_by_ps(pids: Sequence[int]) -> float:
    """The same by `ps`, for systems without /proc."""
    listed = ",".join(map(str, pids)) or "0"
    asked = subprocess.run(
        ["ps", "-o", "time=", "-p", listed], capture_output=True, check=False, timeout=PS_WAIT_S
    )
    return sum(map(seconds_of, asked.stdout.decode().split()))


def seconds_of(shown: str) -> float:
    """A time of `ps`: `[[days-]hours:]minutes:seconds`."""
    days, _, rest = shown.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + 86400 * int(days or 0)


def end_all(find: Callable[[], Iterable[int]]) -> set[int]:
    """End all that `find` finds until it finds none; returns those that were ended.

    All are stopped before the first is killed: of a pair that restarts each other, neither gets
    a turn. What may not be signalled is not ours and is left alone.
    """
    deadline = time.monotonic() + END_S
    ended: set[int] = set()
    foreign: set[int] = set()
    while time.monotonic() < deadline:
        stopped: set[int] = set()
        while fresh := set(find()) - stopped - foreign:
            allowed = {pid for pid in fresh if send(pid, signal.SIGSTOP)}
            foreign |= fresh - allowed
            stopped |= allowed
        if not stopped:
            break
        for pid in stopped:
            send(pid, signal.SIGKILL)
        ended |= stopped
        for pid in stopped:
            _reap(pid, deadline)
        time.sleep(LOOK_S)
    return ended


def send(pid: int, signum: int) -> bool:
    """Signal a process; False if it is not ours to signal. One that is gone needs no signal."""
    try:
        os.kill(pid, signum)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def exists(pid: int) -> bool:
    """Whether there is such a process, dead or alive, that may be signalled."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _walk(pid: int, children: Callable[[int], Iterable[int]], spared: set[int]) -> list[int]:
    found: list[int] = []
    seen = {pid, *spared}
    parents = [pid]
    for parent in parents:
        fresh = [child for child in children(parent) if child not in seen]
        seen.update(fresh)
        found += fresh
        parents += fresh
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    # A child belongs to the thread that made it, so every thread is asked.
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - as above
            with open(f"/proc/{pid}/task/{thread}/children") as file:  # noqa: PTH123 - as above
                found += map(int, file.read().split())
    return found


def _ticks(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - as above
            # The program's name stands in brackets and may hold blanks and brackets itself.
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime


def _reap(pid: int, deadline: float) -> None:
    """Wait for a child of ours that was killed; others are somebody else's to wait for."""
    with contextlib.suppress(ChildProcessError):
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
            time.sleep(LOOK_S)
