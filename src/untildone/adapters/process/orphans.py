"""Processes that a killed loop left running: known by their start time and their mark."""

import contextlib
import json
import os
import signal
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

from untildone.adapters.process.tree import below, carries, end_all, has_proc
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


def note_of_lane(note: Path, lane: int) -> Path:
    """Where a lane notes its agent."""
    return note.with_stem(f"{note.stem}-{lane}")


def notes_beside(note: Path) -> list[Path]:
    """The note of a single agent, and those of lanes."""
    return [note, *note.parent.glob(f"{note.stem}-*{note.suffix}")]


def own_mark() -> Mark:
    """What the programs of this very loop carry in their environment, and no others."""
    pid = os.getpid()
    return "UNTILDONE_LOOP", f"{pid}-{started_at(pid) or 0:.0f}"


def end_leftovers(note: Path, mark: Mark, loop: int = 0) -> tuple[str, ...]:
    """End what a killed loop left running; the programs that were ended.

    Only what is known to be ours: the noted agents (each lane notes its own beside `note`) that are
    still that very process (and were called by `loop`, if that is given), their groups and all
    below them, and (Linux) whatever carries the mark in its environment, with all below that.
    """
    spared = _own_family()
    notes = {path: _noted(path, spared, loop) for path in notes_beside(note)}
    agents = [pid for pid in notes.values() if pid]
    programs: dict[int, str] = {}

    def find() -> set[int]:
        known = {*marked(mark), *agents} - spared
        found = {*_alive(*known, *(pid for top in known for pid in below(top)))} - spared
        programs.update({pid: _program(pid) for pid in found - programs.keys()})
        return found

    for agent in agents:  # as in `end_all`: all are stopped before one is killed
        _signal_group(agent, signal.SIGSTOP)
    end_all(find)
    for agent in agents:
        _signal_group(agent, signal.SIGKILL)
    for path, pid in notes.items():
        if pid or not loop:  # the note of another loop stays
            path.unlink(missing_ok=True)
    return tuple(sorted(programs.values()))


def marked(mark: Mark) -> Iterator[int]:
    """Processes with this environment variable (Linux); the dead have none."""
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    yield from (pid for pid in pids if carries(pid, "=".join(mark)))


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
