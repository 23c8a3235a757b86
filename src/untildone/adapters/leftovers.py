"""Processes that a killed loop left running: known by their start time and their mark."""

import contextlib
import json
import os
import signal
import subprocess
import zlib
from pathlib import Path


def started_at(pid: int) -> float | None:
    """When a process started, in clock ticks since boot: a pid that is used again differs."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - one per agent, see RunFolder
            stat = file.read()
    except OSError:
        return _started_by_ps(pid)
    return float(stat.rpartition(")")[2].split()[19])


def _started_by_ps(pid: int) -> float | None:
    # macOS has no /proc; the start time as text serves as well as a number.
    if Path("/proc/self/stat").exists():
        return None
    asked = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, check=False, timeout=5
    )
    return float(zlib.crc32(asked.stdout)) if asked.stdout.strip() else None


def end_marked(name: str, value: str) -> tuple[int, ...]:
    """End every process that carries this environment variable (Linux), ours excepted."""
    mark = f"{name}={value}".encode()
    spared = _own_family()
    ended = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        pid = int(path.parent.name)
        try:
            marked = pid not in spared and mark in path.read_bytes().split(b"\0")
        except OSError:
            continue
        if marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
    return tuple(ended)


def note_agent(path: Path, pid: int) -> None:
    """Write down which process the agent is, for the next loop if this one is killed."""
    path.write_text(json.dumps({"pid": pid, "started": started_at(pid)}))


def end_noted_agent(path: Path) -> int:
    """End the group of the noted agent if it is still that very process; how many were ended."""
    try:
        noted = json.loads(path.read_text())
        pid, started = int(noted["pid"]), noted["started"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    path.unlink(missing_ok=True)
    if started is None or started_at(pid) != started:
        return 0
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
        return 1
    return 0


def _own_family() -> set[int]:
    """This process and its ancestors: a shell inside an agent may be running us."""
    family, pid = set(), os.getpid()
    while pid > 1 and pid not in family:
        family.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return family
