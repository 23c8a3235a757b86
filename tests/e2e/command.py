"""The command as a process: to its end, in the background, or on a terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.e2e.fork_server import forked
from tests.e2e.process_table import command_lines, process_stats
from tests.e2e.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.e2e.fork_server import Forked

COMMAND = Path(sys.executable).parent / "untildone"
# Variables that Python, or `coverage` in it, reads when it starts.
PYTHONS = re.compile("PYTHON|COVERAGE_|LC_")
TITLE = re.compile(rb"\x1b\]0;([^\x07\x1b]*)\x07")

# Makes the pty the controlling terminal, so that Ctrl-C reaches the foreground group.
LAUNCH = (
    "import fcntl,os,sys,termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)

Json = dict[str, Any]


def parse_events(text: str) -> list[Json]:
    """The JSON lines of a standard output; anything else there is an error."""
    events = []
    for line in text.splitlines():
        value = json.loads(line)
        assert isinstance(value, dict), f"not an event: {line!r}"
        events.append(value)
    return events


@dataclasses.dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def events(self) -> list[Json]:
        """Standard output as events."""
        return parse_events(self.stdout)

    def named(self, name: str) -> list[Json]:
        """All events of one name."""
        return [event for event in self.events if event["event"] == name]

    def one(self, name: str) -> Json:
        """The only event of this name."""
        found = self.named(name)
        assert len(found) == 1, f"{len(found)} x {name}: {[e['event'] for e in self.events]}"
        return found[0]

    def outcomes(self) -> list[str]:
        """The outcome of each iteration."""
        return [event["outcome"] for event in self.named("iteration_ended")]

    def json(self) -> Any:
        """Standard output as one JSON value."""
        return json.loads(self.stdout)

    def ok(self, code: int = 0) -> Result:
        """The result itself, if the exit code is the expected one."""
        assert self.code == code, f"exit {self.code}, not {code}\n{self.stdout}\n{self.stderr}"
        return self


def start(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    *,
    installed: bool = False,
    on_terminal: bool = False,
) -> subprocess.Popen[bytes] | Forked:
    """Start the command in a session of its own, from its file or as a copy of one that is loaded.

    What decides how Python itself starts needs a Python that starts.
    """
    ours = argv[0] == str(COMMAND) and sys.platform == "linux"
    if ours and not installed and not any(map(PYTHONS.match, env)):
        return forked(argv[1:], cwd, env, streams, on_terminal=on_terminal)
    launch = [sys.executable, "-IS", "-c", LAUNCH] if on_terminal else []
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        [*launch, *argv],
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


class Live:
    """A command running in the background, its output collected by threads."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        *,
        stdin: bytes = b"",
        installed: bool = False,
    ) -> None:
        self._out = bytearray()
        self._err = bytearray()
        said, in_said = os.pipe()
        wrong, in_wrong = os.pipe()
        heard, told = os.pipe()
        streams = heard, in_said, in_wrong
        try:
            self.process = start(argv, cwd, env, streams, installed=installed)
        finally:
            for fd in streams:
                os.close(fd)
        tasks: list[tuple[Callable[[int, Any], None], int, bytes | bytearray]] = [
            (self._collect, said, self._out),
            (self._collect, wrong, self._err),
        ]
        if stdin:
            tasks.append((self._tell, told, stdin))
        else:
            os.close(told)
        self._threads = [
            threading.Thread(target=task, args=args, daemon=True) for task, *args in tasks
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _collect(pipe: int, into: bytearray) -> None:
        try:
            while chunk := os.read(pipe, 65536):
                into += chunk
        finally:
            os.close(pipe)

    @staticmethod
    def _tell(pipe: int, words: bytes) -> None:
        with contextlib.suppress(BrokenPipeError), open(pipe, "wb") as file:
            file.write(words)

    def watchdog(self) -> int:
        """The process that ends the loop's programs; its command line is the loop's."""
        lines = dict(command_lines())
        below = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        (found,) = (pid for pid in map(int, below) if lines.get(pid) == lines[self.pid])
        return found

    def kill_unguarded(self) -> None:
        """SIGKILL for the watchdog and then for the loop."""
        os.kill(self.watchdog(), signal.SIGKILL)
        self.signal(signal.SIGKILL)
        self.wait()

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return self.process.pid

    @property
    def stdout(self) -> str:
        """Standard output so far."""
        return bytes(self._out).decode()

    @property
    def events(self) -> list[Json]:
        """Complete event lines so far."""
        text = self.stdout
        return parse_events(text[: text.rfind("\n") + 1])

    def wait_event(self, name: str, timeout: float = PATIENCE, **match: Any) -> Json:
        """The first event of this name with these values."""

        def look() -> Json | None:
            ended = self.process.poll() is not None
            for event in self.events:
                if event["event"] == name and match.items() <= event.items():
                    return event
            assert not ended, f"ended ({self.process.returncode}) without {name}: {self.text()}"
            return None

        found: Json = until(look, timeout, f"event {name} {match}")
        return found

    def text(self) -> str:
        """Everything it said, for a failure message."""
        return self.stdout + "\n" + bytes(self._err).decode(errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal to the command alone."""
        self.process.send_signal(number)

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def wait(self, timeout: float = PATIENCE) -> Result:
        """Wait for the end."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            seen = f"{self.text()}\n{self._processes()}"
            raise AssertionError(f"still running after {timeout} s\n{seen}") from None
        for thread in self._threads:
            thread.join(5)
        return Result(code, self.stdout, bytes(self._err).decode(errors="replace"))

    def _processes(self) -> str:
        """Its processes, what they wait for and whether they work, for a failure message."""
        early, lines = process_stats(), dict(command_lines())
        time.sleep(5)
        rows, mine = [], {self.pid}
        for pid, (parent, state, ticks) in sorted(process_stats().items()):
            if pid in mine or parent in mine:
                mine.add(pid)
                more = ticks - early[pid][2] if pid in early else ticks
                with contextlib.suppress(OSError):
                    waits = Path(f"/proc/{pid}/wchan").read_text()
                    work = f"{ticks} ticks, {more} in the last 5 s"
                    rows.append(f"{pid} {state} {waits} {work}: {lines.get(pid, [])[:3]}")
        return "\n".join(rows)

    def close(self) -> None:
        """Kill it if it still lives."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(10)
        for thread in self._threads:
            thread.join(2)


class Terminal:
    """A command on a pseudo terminal of 120 x 40."""

    def __init__(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, installed: bool = False
    ) -> None:
        self._master, slave = os.openpty()
        termios.tcsetwinsize(self._master, (40, 120))
        streams = slave, slave, slave
        self.process = start(argv, cwd, env, streams, installed=installed, on_terminal=True)
        os.close(slave)
        self._raw = bytearray()
        self._leaves = threading.Event()
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        # A blocked read would keep the terminal open after `hang_up`.
        with contextlib.suppress(OSError):
            while not self._leaves.is_set():
                if select.select([self._master], [], [], 0.02)[0]:
                    self._raw += os.read(self._master, 65536)

    @property
    def raw(self) -> bytes:
        """All bytes written to the terminal."""
        return bytes(self._raw)

    @property
    def titles(self) -> list[str]:
        """The OSC 0 titles, repeated ones once."""
        found: list[str] = []
        for match in TITLE.finditer(self.raw):
            text = match[1].decode()
            if not found or found[-1] != text:
                found.append(text)
        return found

    def screen(self) -> str:
        """What a person sees now."""
        import pyte

        screen = pyte.Screen(120, 40)
        pyte.ByteStream(screen).feed(self.raw)
        return "\n".join(line.rstrip() for line in screen.display)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def wait_text(self, text: str, timeout: float = PATIENCE) -> None:
        """Wait until the text was written, colours and cursor moves ignored."""

        def look() -> bool:
            plain = re.sub(rb"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)", b"", self.raw)
            return text.encode() in plain

        try:
            until(look, timeout)
        except AssertionError:
            raise AssertionError(f"no {text!r} on the screen:\n{self.screen()}") from None

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for the end; the exit code."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running:\n{self.screen()}") from None
        self._thread.join(2)
        return code

    def close(self) -> None:
        """Kill it if it still lives."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self._thread.join(2)
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal's window, or break its line."""
        self._leaves.set()
        self._thread.join()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1
