"""Real families of processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from untildone.adapters.process import tree

FAMILY = "sh -c 'sh -c \"sleep 60 & echo up; wait\"; :'; :"
PAIR = Path(__file__).parents[2] / "e2e" / "escapees.py"


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    """A shell in a shell in a shell, with a `sleep` in the last."""
    with subprocess.Popen(
        ["sh", "-c", FAMILY], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        os.killpg(process.pid, signal.SIGKILL)


def test_all_below_parents_first(family: subprocess.Popen[bytes]) -> None:
    found = tree.below(family.pid)
    parents = [int(Path(f"/proc/{pid}/stat").read_text().split()[3]) for pid in found]
    assert parents == [family.pid, *found[:-1]]
    assert len(found) == 3
    assert tree.below(family.pid, spared=[found[1]]) == found[:1]
    assert tree.below(found[-1]) == []
    assert tree.below(2**22 + 1) == []


def test_ps_says_the_same_as_proc(family: subprocess.Popen[bytes]) -> None:
    table = tree.by_ps()
    chain, pid = [], family.pid
    while pid in table:
        (pid,) = table[pid]
        chain.append(pid)
    assert chain == tree.below(family.pid)


def test_a_pair_that_restarts_each_other_is_ended(tmp_path: Path) -> None:
    # In a process of its own: only a subreaper keeps sight of both.
    script = (
        "import os, subprocess, sys, time\n"
        "from untildone.adapters.process.process import Processes\n"
        "from untildone.adapters.process.tree import below, end_all\n"
        "Processes(0).adopt_orphans()\n"
        f"subprocess.Popen([sys.executable, '-IS', {str(PAIR)!r}, {str(tmp_path)!r}, 'pair'])\n"
        f"while len(below(os.getpid())) < 2: time.sleep(0.01)\n"
        "ended = end_all(lambda: below(os.getpid()))\n"
        "print(len(ended), below(os.getpid()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, timeout=30
    )
    assert done.stdout == b"2 []\n"


def test_what_may_not_be_signalled_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, signum: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    started = time.monotonic()
    assert tree.end_all(lambda: [1]) == set()
    assert time.monotonic() - started < tree.END_S


def test_processor_time_of_many_with_children_they_waited_for() -> None:
    script = (
        "import os, sys, time\n"
        "if not os.fork():\n"
        "    while time.process_time() < 0.3: pass\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    argv = [sys.executable, "-IS", "-c", script]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert 0.25 < tree.cpu_seconds([process.pid, 2**22 + 1]) < 5
        assert tree.cpu_by_ps([process.pid]) < 5
    assert tree.cpu_seconds([]) == tree.cpu_by_ps([]) == 0


SHOWN = {"00:00:07": 7.0, "0:07.25": 7.25, "01:02:03": 3723.0, "2-00:00:01": 172801.0}


@pytest.mark.parametrize("shown", SHOWN)
def test_times_of_ps(shown: str) -> None:
    assert tree.seconds_of(shown) == SHOWN[shown]
