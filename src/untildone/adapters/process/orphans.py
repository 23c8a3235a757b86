"""Processes that a killed loop left running: known by their start time and their mark."""

import contextlib
import json
import os
import signal
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

from untildone.adapters.process.tree import below, end_all, has_proc
from untildone.plain_files import read_text

Mark = tuple[str, str]

# Fields of /proc/PID/stat, counted after the program's name.
STATE, PARENT, STARTED = 0, 1, 19


def started_at(pid: int) -> float | None:
    """When a process started, in clock ticks since boot: a pid that is used again differs."""
    if not has_proc():
        # The start time as text serves as well as a number.
        told = _ps(pid, "lstart")
        return float(zlib.crc32(told)) if told else None
    stat = _stat(pid)
    return float(stat[STARTED]) if stat else None


def note_agent(path: Path, pid: int) -> None:
    """Write down which process the agent is, for the next loop if this one is killed."""
    noted = {"pid": pid, "started": started_at(pid), "loop": os.getpid()}
    path.write_text(json.dumps(noted))


def own_mark() -> Mark:
    """What the programs of this very loop carry in their environment, and no others."""
    pid = os.getpid()
    return "UNTILDONE_LOOP", f"{pid}-{started_at(pid) or 0:.0f}"


def end_leftovers(note: Path, mark: Mark, loop: int = 0) -> tuple[str, ...]:
    """End what a killed loop left running; the programs that were ended.

    Only what is known to be ours: the noted agent if it is still that very process (and was called
    by `loop`, if that is given), its group and all below it, and (Linux) whatever carries the mark
    in its environment, with all below that.
    """
    spared = _own_family()
    agent = _noted(note, spared, loop)
    programs: dict[int, str] = {}

    def find() -> set[int]:
        known = {*marked(mark), *([agent] if agent else ())} - spared
        found = {*_alive(*known, *(pid for top in known for pid in below(top)))} - spared
        programs.update({pid: _program(pid) for pid in found - programs.keys()})
        return found

    _signal_group(agent, signal.SIGSTOP)  # as in `end_all`: all are stopped before one is killed
    end_all(find)
    _signal_group(agent, signal.SIGKILL)
    if agent or not loop:  # the note of another loop stays
        note.unlink(missing_ok=True)
    return tuple(sorted(programs.values()))


def marked(mark: Mark) -> Iterator[int]:
    """Processes with this environment variable (Linux); the dead have none."""
    pair = "=".join(mark).encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if pair in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


def _noted(path: Path, spared: set[int], loop: int) -> int:
    """The noted agent if it is still that very process and may be ended, else 0."""
    try:
        noted = json.loads(read_text(path))
        pid, started = int(noted["pid"]), noted["started"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    if loop and noted.get("loop") != loop:
        return 0
    same = started is not None and started_at(pid) == started
    return pid if same and pid not in spared else 0


def _signal_group(group: int, signum: int) -> None:
    if group:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signum)


def _alive(*pids: int) -> Iterator[int]:
    """Those that still run: a dead process may wait long for its parent to notice."""
    for pid in pids:
        state = _stat(pid)[STATE:PARENT] if has_proc() else [_ps(pid, "state").decode()[:1]]
        if state and state[0] not in ("", "Z", "X"):
            yield pid


def _program(pid: int) -> str:
    if not has_proc():
        return os.path.basename(_ps(pid, "comm").decode(errors="replace"))  # noqa: PTH119 - text
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    return "?"


def _own_family() -> set[int]:
    """This process and its ancestors: a shell inside an agent may be running us."""
    family, pid = set(), os.getpid()
    while pid > 1 and pid not in family:
        family.add(pid)
        pid = int(stat[PARENT]) if (stat := _stat(pid)) else 0
    return family


def _stat(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - one per agent, see RunFolder
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _ps(pid: int, column: str) -> bytes:
    asked = subprocess.run(
        ["ps", "-o", f"{column}=", "-p", str(pid)], capture_output=True, check=False, timeout=5
    )
    return asked.stdout.strip()
