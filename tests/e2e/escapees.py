"""Starts the seven processes that like to outlive an agent; ends when all of them are up.

Run as `python -IS escapees.py ROOT`: standard library only. Each carries `child-of:ROOT` among its
arguments, so that a bench can find it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

KINDS = ("background", "nohup", "setsid", "daemon", "stubborn", "pair")


def up(root: str, kind: str) -> None:
    """Say that this one runs."""
    with open(f"{root}/up-{kind}", "w", encoding="utf-8"):
        pass


def gone(pid: int) -> bool:
    """Whether a process is dead, also when nobody has waited for it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def pair(root: str) -> None:
    """Two that watch each other without a pause; who is alone makes itself a new partner."""
    partner = 0
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if gone(partner):
            me = os.getpid()
            partner = os.fork()
            if not partner:
                os.setsid()
                partner = me
            up(root, "pair")


def live(root: str, kind: str) -> None:
    """What the process does all day."""
    if kind == "daemon":
        if os.fork():
            os._exit(0)
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
    if kind == "stubborn":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if kind == "pair":
        pair(root)
    up(root, kind)
    time.sleep(60)


def start(root: str, kind: str) -> None:
    """One escapee in the background."""
    before = ["nohup"] if kind == "nohup" else []
    subprocess.Popen(
        [*before, sys.executable, "-IS", __file__, root, kind, f"child-of:{root}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=kind in ("setsid", "pair"),
    )


def main() -> None:
    """All of them, or the one that is named."""
    root, *kinds = sys.argv[1:]
    if kinds:
        live(root, kinds[0])
        return
    for kind in KINDS:
        start(root, kind)
    while not all(os.path.exists(f"{root}/up-{kind}") for kind in KINDS):
        time.sleep(0.01)


if __name__ == "__main__":
    main()
