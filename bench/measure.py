"""The one door that starts processes: CPU and wall of a tree, CPU and peak of one process."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TICK = os.sysconf("SC_CLK_TCK")
LIMIT = 3600.0
SAMPLE = 0.02


class BenchError(Exception):
    """Something could not be measured; the message says what and why."""


@dataclass(frozen=True)
class Spent:
    """What one run cost: seconds of the tree, of the process alone, wall; peak memory in MB."""

    tree: float
    alone: float
    wall: float
    peak: float

    def __sub__(self, other: "Spent") -> "Spent":
        times = (self.tree - other.tree, self.alone - other.alone, self.wall - other.wall)
        return Spent(*times, self.peak)

    def __truediv__(self, count: int) -> "Spent":
        return Spent(self.tree / count, self.alone / count, self.wall / count, self.peak)


@dataclass(frozen=True)
class Command:
    """A program to run: how, where, and which exit codes mean that it did its work."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: Path | None = None
    stdout: Path | None = None
    expect: tuple[int, ...] = (0,)
    on_line: Callable[[int, bytes], None] | None = None
    limit: float = LIMIT
    # What the program is started through, such as `unshare`.
    prefix: tuple[str, ...] = ()


def spend(command: Command) -> Spent:
    """Run a command to its end and say what it cost."""
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = _start(command, errors)
        guard = threading.Timer(command.limit, _end, (process.pid,))
        guard.start()
        peak = _Peak(process.pid)
        try:
            if command.on_line is not None and process.stdout is not None:
                for line in process.stdout:
                    command.on_line(process.pid, line)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        except BaseException:
            _end(process.pid)
            raise
        finally:
            guard.cancel()
            alone = _alone(process.pid)
            # wait4 counts the process and every descendant that was waited for.
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - started
            process.returncode = os.waitstatus_to_exitcode(status)
            peak.stop()
            if process.stdout is not None:
                process.stdout.close()
        if process.returncode not in command.expect:
            raise BenchError(_complaint(command, process.returncode, errors))
    return Spent(usage.ru_utime + usage.ru_stime, alone, wall, peak.megabytes)


def quiet(argv: Sequence[str], cwd: Path, env: Mapping[str, str], feed: bytes | None = None) -> str:
    """Run a set-up command that is not measured and give its output."""
    done = subprocess.run(
        list(argv), cwd=cwd, env=dict(env), input=feed, capture_output=True, check=False
    )
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip()[-500:]
        raise BenchError(f"`{argv[0]} {argv[1]}` ended with {done.returncode}: {told}")
    return done.stdout.decode(errors="replace")


def interleave(rounds: int, *actions: Callable[[], Spent]) -> list[Spent]:
    """Run the actions in turn, every other round backwards, and give the best of each."""
    runs: list[list[Spent]] = [[] for _ in actions]
    for number in range(rounds):
        order = range(len(actions))
        for index in order if number % 2 == 0 else reversed(order):
            runs[index].append(actions[index]())
    return [best(each) for each in runs]


def best(runs: Sequence[Spent]) -> Spent:
    """The least time of each kind and the greatest peak."""
    return Spent(
        min(run.tree for run in runs),
        min(run.alone for run in runs),
        min(run.wall for run in runs),
        max(run.peak for run in runs),
    )


def tree_so_far(pid: int) -> float:
    """CPU seconds of a live process and its waited-for descendants up to now."""
    return sum(_ticks(pid)) / TICK


def _alone(pid: int) -> float:
    # A zombie keeps its counters until it is reaped; its memory figures are gone.
    user, system, _, _ = _ticks(pid)
    return (user + system) / TICK


def _ticks(pid: int) -> tuple[int, int, int, int]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return (0, 0, 0, 0)
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]), int(fields[12]), int(fields[13]), int(fields[14]))


class _Peak:
    """Samples VmHWM: wait4's ru_maxrss is the greatest of the whole tree, so git would count."""

    def __init__(self, pid: int) -> None:
        self.megabytes = 0.0
        self._path = Path(f"/proc/{pid}/status")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the sampling."""
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE):
            try:
                text = self._path.read_text()
            except OSError:
                return
            for line in text.splitlines():
                if line.startswith("VmHWM:"):
                    self.megabytes = max(self.megabytes, int(line.split()[1]) / 1024)


def _start(command: Command, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    stdin = open(command.stdin or os.devnull, "rb")  # noqa: SIM115 - closed below
    stdout: int | IO[bytes] = subprocess.DEVNULL
    if command.on_line is not None:
        stdout = subprocess.PIPE
    elif command.stdout is not None:
        stdout = command.stdout.open("wb")
    try:
        return subprocess.Popen(
            (*command.prefix, *command.argv),
            cwd=command.cwd,
            env=dict(command.env),
            stdin=stdin,
            stdout=stdout,
            stderr=errors,
            start_new_session=True,
        )
    except OSError as error:
        raise BenchError(f"`{Path(command.argv[0]).name}` cannot be started: {error}") from error
    finally:
        stdin.close()
        if not isinstance(stdout, int):
            stdout.close()


def _end(pid: int) -> None:
    """TERM, ten seconds, KILL: of the process group that was started here, nothing else."""
    for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 0.0)):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            return
        until = time.monotonic() + patience
        while time.monotonic() < until:
            if _over(pid):
                return
            time.sleep(0.05)


def _over(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:  # already reaped: the number may be somebody else's now
        return True


def _complaint(command: Command, code: int, errors: IO[bytes]) -> str:
    errors.seek(0)
    told = errors.read().decode(errors="replace").strip()[-600:]
    shown = " ".join((Path(command.argv[0]).name, *command.argv[1:3]))
    return f"`{shown}` ended with {code}: {told or 'no word on standard error'}"
