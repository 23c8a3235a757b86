"""Starts a program that lives on after this one, and ends it later by its number."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from untildone.adapters.clock import monotonic, pause
from untildone.adapters.process.orphans import started_at
from untildone.plain_files import opened

END_S = 10.0


def start(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> int:
    """A program in a session of its own, in `/`, what it prints in a private file."""
    with opened(log, "ab", private=True) as file:
        process = subprocess.Popen(
            [*argv],
            cwd="/",
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    pid = process.pid
    process.returncode = 0  # nobody waits for it here: it is not ours any more
    return pid


def is_alive(pid: int, started: float | None) -> bool:
    """Whether this very process is there still, and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return started is not None and started_at(pid) == started
    return stat[0] not in "ZX" and started_at(pid) == started


def end(pid: int, started: float | None) -> bool:
    """Ask it to end, then kill it; False if it was gone already."""
    if not is_alive(pid, started):
        return False
    os.kill(pid, signal.SIGTERM)
    give_up = monotonic() + END_S
    while is_alive(pid, started):
        if monotonic() > give_up:
            os.kill(pid, signal.SIGKILL)
        pause(0.05)
    return True
