"""Real children: quiet ones, loud ones, stubborn ones."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from untildone.adapters.process.child import TAIL, Command
from untildone.adapters.process.process import Captured, Ended, Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.domain.agents.agent import Ending


def never() -> bool:
    return False


def sh(script: str, folder: Path, **more: object) -> Command:
    command = {"argv": ("/bin/sh", "-c", script), "cwd": folder, **more}
    return Command(**command)  # type: ignore[arg-type]  # named fields


def py(script: str, folder: Path, **more: object) -> Command:
    command = {"argv": (sys.executable, "-S", "-c", script), "cwd": folder, **more}
    return Command(**command)  # type: ignore[arg-type]  # named fields


def lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def noted(path: Path) -> int:
    return int(path.read_text())


def test_capture(processes: Processes, tmp_path: Path) -> None:
    script = 'cat; pwd; echo "$X" >&2; exit 3'
    command = sh(script, tmp_path, env={"X": "y", "PATH": os.environ["PATH"]}, stdin=b"in\n")
    answer = processes.capture(command, never)
    assert answer == Captured(3, f"in\n{tmp_path}\n".encode(), b"y\n")
    assert not answer.ok
    assert processes.capture(sh("true", tmp_path), never).ok


def test_own_session_and_no_terminal_input(processes: Processes, tmp_path: Path) -> None:
    script = "import os, sys; print(os.getsid(0) == os.getpid(), sys.stdin.read() == '')"
    assert processes.capture(py(script, tmp_path), never).stdout == b"True True\n"


def test_spawn_failure(processes: Processes, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    ended = processes.run(Command((nowhere,), tmp_path), print, never)
    error = f"{nowhere}: No such file or directory"
    assert ended == Ended(Ending.NOT_STARTED, None, b"", error)
    answer = processes.capture(Command((nowhere,), tmp_path), never)
    assert answer == Captured(127, b"", error.encode(), Ending.NOT_STARTED)
    gone = processes.run(Command(("true",), tmp_path / "gone"), print, never)
    assert gone.ending is Ending.NOT_STARTED


def test_no_descriptor_is_left_open(processes: Processes, tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        processes.capture(sh("cat", tmp_path, stdin=b"x"), never)
        processes.capture(Command(("/nowhere",), tmp_path), never)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("seconds", [1e10, 1e302])
def test_huge_time_outs(seconds: float, processes: Processes, tmp_path: Path) -> None:
    command = sh("sleep 0.05; echo x", tmp_path, timeout_s=seconds, idle_s=seconds)
    assert processes.capture(command, never) == Captured(0, b"x\n", b"")


def test_a_request_that_came_before_the_child_is_heeded(
    processes: Processes, tmp_path: Path
) -> None:
    ended = processes.run(sh("sleep 20", tmp_path), print, lambda: True)
    assert ended == Ended(Ending.INTERRUPTED, -signal.SIGTERM)


def test_hard_time_out(processes: Processes, tmp_path: Path) -> None:
    said: list[bytes] = []
    script = "echo hello; while :; do echo x; sleep 0.02; done"
    ended = processes.run(sh(script, tmp_path, timeout_s=0.15, idle_s=5), said.append, never)
    assert (ended.ending, ended.exit_code) == (Ending.TIMEOUT, -signal.SIGTERM)
    assert b"".join(said).startswith(b"hello\nx\n")


def test_idle_time_out(processes: Processes, tmp_path: Path) -> None:
    script = "for i in 1 2 3; do sleep 0.06; echo $i >&2; done; exec sleep 9"
    started = time.monotonic()
    command = sh(script, tmp_path, timeout_s=5, idle_s=0.15)
    ended = processes.run(command, print, never)
    assert (ended.ending, ended.stderr_tail) == (Ending.IDLE_TIMEOUT, b"1\n2\n3\n")
    assert 0.3 < time.monotonic() - started < 2


def test_one_that_lingers_after_its_last_word_is_ended(
    processes: Processes, tmp_path: Path
) -> None:
    def heard(chunk: bytes) -> Ending | None:
        return Ending.LINGERED if chunk.strip().endswith(b"end") else None

    script = (
        "echo end; sleep 0.05; echo more; sleep 0.3; echo end; sleep 0.05; echo the end; sleep 9"
    )
    started = time.monotonic()
    ended = processes.run(sh(script, tmp_path, timeout_s=5, linger_s=0.2), heard, never)
    assert (ended.ending, ended.exit_code) == (Ending.LINGERED, -signal.SIGTERM)
    assert 0.5 < time.monotonic() - started < 3
    quick = processes.run(sh("echo end; exit 3", tmp_path, linger_s=5), heard, never)
    assert (quick.ending, quick.exit_code) == (Ending.EXITED, 3)


def test_one_that_ignores_term_is_killed(processes: Processes, tmp_path: Path) -> None:
    script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    ended = processes.run(sh(script, tmp_path, timeout_s=0.1), print, never)
    assert (ended.ending, ended.exit_code) == (Ending.TIMEOUT, -signal.SIGKILL)
    assert not lives(noted(tmp_path / "pid"))


def test_one_that_cleans_up_on_term_may(processes: Processes, tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 7' TERM; while :; do sleep 0.02; done"
    said: list[bytes] = []
    ended = processes.run(sh(script, tmp_path, timeout_s=0.1), said.append, never)
    assert (ended.exit_code, said) == (7, [b"bye\n"])


def test_the_whole_group_ends_with_its_leader(processes: Processes, tmp_path: Path) -> None:
    ended = processes.run(sh("sleep 60 & echo $! > pid", tmp_path), print, never)
    assert (ended.ending, ended.exit_code) == (Ending.EXITED, 0)
    assert not lives(noted(tmp_path / "pid"))


ESCAPE = (
    "import os, subprocess, sys, time\n"
    "child = subprocess.Popen(['setsid', 'sleep', '60'])\n"
    "open('pid', 'w').write(str(child.pid))\n"
)


def test_one_that_escapes_the_group_is_ended(tmp_path: Path) -> None:
    # In a process of its own: what it adopts would be other tests' children too.
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from untildone.adapters.process.process import Command, Processes\n"
        "from untildone.adapters.process.wake_pipe import WakePipe\n"
        "processes = Processes(WakePipe().fd)\n"
        "processes.adopt_orphans()\n"
        f"folder = Path({str(tmp_path)!r})\n"
        f"call = Command((sys.executable, '-c', {ESCAPE!r}), folder, end_descendants=True)\n"
        "print(processes.run(call, print, lambda: False).ending)\n"
    )
    own = Processes(WakePipe().fd)
    command = Command((sys.executable, "-c", script), tmp_path, timeout_s=20)
    assert own.capture(command, never).stdout == b"exited\n"
    assert not lives(noted(tmp_path / "pid"))


def test_where_nobody_adopts_the_tree_is_walked_while_it_stands(
    processes: Processes, tmp_path: Path
) -> None:
    script = "setsid sh -c 'echo $$ > pid; exec sleep 60' & while :; do sleep 0.02; done"
    processes.run(sh(script, tmp_path, timeout_s=0.3, end_descendants=True), print, never)
    assert not lives(noted(tmp_path / "pid"))


def test_a_note_that_cannot_be_written_leaves_nothing_behind(
    processes: Processes, tmp_path: Path
) -> None:
    started: list[int] = []

    def fails(pid: int) -> None:
        started.append(pid)
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        processes.run(sh("exec sleep 60", tmp_path), print, never, on_start=fails)
    assert not lives(started[0])


def test_a_grandchild_that_holds_the_pipes_does_not_hold_us(
    processes: Processes, tmp_path: Path
) -> None:
    script = "setsid sh -c 'echo $$ > pid; exec sleep 60' & while [ ! -s pid ]; do :; done; echo x"
    started = time.monotonic()
    answer = processes.capture(sh(script, tmp_path), never)
    os.kill(noted(tmp_path / "pid"), signal.SIGKILL)
    assert answer.stdout == b"x\n"
    assert time.monotonic() - started < 2


def test_a_hundred_megabytes_without_a_newline(processes: Processes, tmp_path: Path) -> None:
    script = "import os\nfor _ in range(100): os.write(1, b'x' * 2**20)"
    sizes: list[int] = []
    command = py(script, tmp_path, idle_s=20)
    ended = processes.run(command, lambda chunk: sizes.append(len(chunk)), never)
    assert (ended.ending, sum(sizes)) == (Ending.EXITED, 100 * 2**20)
    assert max(sizes) <= 256 * 1024


def test_bytes_that_are_no_text(processes: Processes, tmp_path: Path) -> None:
    answer = processes.capture(sh(r"printf '\377\000\303'", tmp_path), never)
    assert answer.stdout == b"\xff\x00\xc3"


def test_standard_error_keeps_its_tail(processes: Processes, tmp_path: Path) -> None:
    script = f"import os; os.write(2, b'x' * {3 * TAIL}); os.write(2, b'end')"
    heard: list[bytes] = []
    ended = processes.run(py(script, tmp_path), print, never, on_error=heard.append)
    assert ended.stderr_tail == b"x" * (TAIL - 3) + b"end"
    assert len(b"".join(heard)) == 3 * TAIL + 3


def test_input_that_nobody_reads(processes: Processes, tmp_path: Path) -> None:
    big = b"x" * 3_000_000
    assert processes.capture(sh("exit 4", tmp_path, stdin=big), never).exit_code == 4
    assert processes.capture(sh("exec 0<&-; sleep 0.1", tmp_path, stdin=big), never).ok


def test_large_input_and_output_do_not_block(processes: Processes, tmp_path: Path) -> None:
    big = os.urandom(3_000_000)
    assert processes.capture(sh("cat", tmp_path, stdin=big), never).stdout == big


def test_interrupted_at_once(processes: Processes, wake: WakePipe, tmp_path: Path) -> None:
    threading.Timer(0.1, wake.set).start()
    started = time.monotonic()
    ended = processes.run(sh("exec sleep 60", tmp_path), print, lambda: True)
    assert ended.ending is Ending.INTERRUPTED
    assert time.monotonic() - started < 2


def test_a_wake_that_is_no_stop(processes: Processes, wake: WakePipe, tmp_path: Path) -> None:
    asked: list[int] = []

    def interrupted() -> bool:
        wake.clear()
        asked.append(1)
        return False

    wake.set()
    assert processes.run(sh("sleep 0.1", tmp_path), print, interrupted).ending is Ending.EXITED
    assert asked == [1]


def test_patience(processes: Processes, wake: WakePipe, tmp_path: Path) -> None:
    wake.set()
    short = sh("sleep 0.1; echo done", tmp_path, grace_s=5)
    assert processes.capture(short, lambda: True).stdout == b"done\n"
    long = sh("exec sleep 60", tmp_path, grace_s=0.1)
    assert processes.capture(long, lambda: True).ending is Ending.INTERRUPTED


def test_the_pid_is_told_before_any_output(processes: Processes, tmp_path: Path) -> None:
    told: list[object] = []
    processes.run(sh("echo $$", tmp_path), told.append, never, on_start=told.append)
    assert told == [told[0], f"{told[0]}\n".encode()]


def test_an_error_in_between_leaves_nothing_behind(processes: Processes, tmp_path: Path) -> None:
    def fails(chunk: bytes) -> None:
        raise RuntimeError(chunk)

    with pytest.raises(RuntimeError):
        processes.run(sh("echo $$ > pid; echo x; exec sleep 60", tmp_path), fails, never)
    assert not lives(noted(tmp_path / "pid"))
