"""The bench of the black-box tests: a repository, a fake agent, and the installed command."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

COMMAND = Path(sys.executable).parent / "untildone"
COMPLETE = "<promise>COMPLETE</promise>"
DONE: list[list[Any]] = [
    ["write", "work-{n}.txt", "work {n}\n"],
    ["say", f"All done.\n{COMPLETE}"],
]
PATIENCE = 40.0
STATUSES = {"starting", "running", "done", "stuck", "stalled", "stopped"}
STORIES = ("Alpha greeting", "Bravo greeting", "Charlie greeting")
TASKS = "openspec/changes/demo/tasks.md"
TITLE = re.compile(rb"\x1b\]0;([^\x07\x1b]*)\x07")

# Makes the pty the controlling terminal, so that Ctrl-C reaches the foreground group.
LAUNCH = (
    "import fcntl,os,sys,termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)

Json = dict[str, Any]
Actions = list[list[Any]]


def failed(reason: str) -> str:
    """A FAILED promise as an agent prints it."""
    return f"<promise>FAILED: {reason}</promise>"


def fails(reason: str = "no luck") -> Actions:
    """A call that leaves a mess and says FAILED."""
    return [["write", "mess-{n}.txt", "mess\n"], ["say", failed(reason)]]


def tasks_text(done: Sequence[int] = (), stories: Sequence[str] = STORIES) -> str:
    """The tasks.md of the change, with the given story numbers ticked."""
    parts = ["# Tasks\n"]
    for n, title in enumerate(stories, 1):
        word, box = title.split()[0].lower(), "x" if n in done else " "
        parts.append(
            f"\n## {n}. {title}\n\n"
            f"- [{box}] {n}.1 Write the {word} file\n- [{box}] {n}.2 Check the {word} file\n"
        )
    return "".join(parts)


def until(check: Callable[[], Any], timeout: float = PATIENCE, what: str = "a condition") -> Any:
    """Poll until the check is true and return its value."""
    end = time.monotonic() + timeout
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {timeout} s in vain for {what}")
        time.sleep(0.01)


def parse_events(text: str) -> list[Json]:
    """The JSON lines of a standard output; anything else there is an error."""
    events = []
    for line in text.splitlines():
        value = json.loads(line)
        assert isinstance(value, dict), f"not an event: {line!r}"
        events.append(value)
    return events


@dataclasses.dataclass(frozen=True)
class Call:
    """What one agent call saw."""

    n: int
    argv: list[str]
    stdin: str
    cwd: str
    branch: str
    head: str
    parent: str
    subject: str
    status: str
    stash: str
    env: dict[str, str]
    files: dict[str, str]
    state: str | None
    pid: int
    pgid: int
    time: float

    @property
    def prompt(self) -> str:
        """The prompt text, also when it came as a stream-json message."""
        if not self.stdin.lstrip().startswith('{"'):
            return self.stdin
        texts = []
        for line in self.stdin.splitlines():
            content = json.loads(line)["message"]["content"]
            blocks = [{"text": content}] if isinstance(content, str) else content
            texts += [block["text"] for block in blocks]
        return "\n".join(texts)

    @property
    def loop_state(self) -> Json:
        """The state file as it was when the agent started."""
        assert self.state is not None, "no state file when the agent started"
        value: Json = json.loads(self.state)
        return value

    @property
    def place(self) -> tuple[str, str, str]:
        """Branch, HEAD and status together."""
        return self.branch, self.head, self.status


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


class Live:
    """A command running in the background, its output collected by threads."""

    def __init__(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._out = bytearray()
        self._err = bytearray()
        self._threads = [
            threading.Thread(target=self._collect, args=pair, daemon=True)
            for pair in ((self.process.stdout, self._out), (self.process.stderr, self._err))
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _collect(pipe: Any, into: bytearray) -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), 65536):
                into += chunk

    def kill_unguarded(self) -> None:
        """SIGKILL for the watchdog, whose command line is the loop's, and then for the loop."""
        lines = dict(command_lines())
        below = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for watchdog in (pid for pid in map(int, below) if lines.get(pid) == lines[self.pid]):
            os.kill(watchdog, signal.SIGKILL)
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
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            seen = f"{self.text()}\n{self._processes()}"
            raise AssertionError(f"still running after {timeout} s\n{seen}") from None
        for thread in self._threads:
            thread.join(5)
        return Result(
            self.process.returncode, self.stdout, bytes(self._err).decode(errors="replace")
        )

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

    def __init__(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._master, slave = os.openpty()
        termios.tcsetwinsize(self._master, (40, 120))
        self.process = subprocess.Popen(
            [sys.executable, "-IS", "-c", LAUNCH, *argv],
            cwd=cwd,
            env=env,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
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


class Bench:
    """A private HOME, a repository on `feature/x` with the change `demo`, and the fake agent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.repo = root / "repo"
        self.bin = root / "bin"
        self._opened: list[Live | Terminal] = []
        for folder in (self.home, self.repo, self.bin, root / "calls", root / "tmp"):
            folder.mkdir(parents=True)
        (self.home / ".gitconfig").write_text(
            "[user]\n\tname = Ada Bench\n\temail = ada@bench.invalid\n"
            "[init]\n\tdefaultBranch = main\n"
        )
        self._install("agent")
        self._make_repository()

    # set-up

    def _install(self, name: str) -> Path:
        source = (Path(__file__).parent / "fake_agent.py").read_text(encoding="utf-8")
        path = self.bin / name
        path.write_text(
            f"#!{sys.executable} -IS\n" + source.replace("@ROOT@", str(self.root)),
            encoding="utf-8",
        )
        path.chmod(0o755)
        return path

    def install_claude(self) -> None:
        """Put the fake agent on PATH under the name `claude`."""
        self._install("claude")

    def install_usage(self, first: str, code: int = 0) -> None:
        """Put a fake `wt-usage` on PATH: it logs its arguments and answers the meter file."""
        (self.root / "meter").write_text(first)
        path = self.bin / "wt-usage"
        path.write_text(
            f'#!/bin/sh\necho "$@" >> {self.root}/meter.log\ncat {self.root}/meter\nexit {code}\n'
        )
        path.chmod(0o755)

    def program(self, name: str, text: str) -> Path:
        """Put a program on PATH."""
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def _make_repository(self) -> None:
        self.git("init", "-q", "-b", "feature/x")
        self.write("README.md", "# Bench\n")
        self.write("src/app.py", "print('hello')\n")
        self.write("run.sh", "#!/bin/sh\n")
        self.write(".gitignore", ".env\nbuild/\n")
        self.write(".env", "SECRET=1\n")
        self.write("build/cache.bin", "cache\n")
        self.commit("base")
        self.write("openspec/changes/demo/proposal.md", "# Proposal\n\nGreet three times.\n")
        self.write(TASKS, tasks_text())
        self.commit("change demo")

    # the repository

    def path(self, name: str) -> Path:
        """A file of the repository."""
        return self.repo / name

    def write(self, name: str, text: str) -> None:
        """Write a file of the repository."""
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        """Read a file of the repository."""
        return self.path(name).read_text(encoding="utf-8")

    def commit(self, message: str) -> str:
        """Commit everything as the user; the new sha."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def only_stories(self, *numbers: int) -> None:
        """Tick all other stories and commit that."""
        self.write(TASKS, tasks_text([n for n in (1, 2, 3) if n not in numbers]))
        self.commit("ticked")

    def git(self, *args: str, cwd: Path | None = None, ok: bool = True) -> str:
        """Run git as the user would; its output without the last newline."""
        done = subprocess.run(
            ["git", *args],
            cwd=cwd or self.repo,
            env=self.env(),
            capture_output=True,
            check=False,
        )
        if ok:
            assert done.returncode == 0, f"git {args}: {done.stderr.decode(errors='replace')}"
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def branch(self, cwd: Path | None = None) -> str:
        """The current branch, `HEAD` when detached."""
        return self.git("rev-parse", "--abbrev-ref", "HEAD", cwd=cwd)

    def sha(self, name: str = "HEAD") -> str:
        """The full hash of a name."""
        return self.git("rev-parse", "--verify", f"{name}^{{commit}}")

    def has(self, name: str) -> bool:
        """Whether a ref or object exists."""
        return bool(self.git("rev-parse", "-q", "--verify", name, ok=False))

    def refs(self, under: str = "") -> dict[str, str]:
        """All refs (below a prefix) with their hashes."""
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        pairs = dict(line.split(" ", 1) for line in lines)
        return {name: sha for name, sha in pairs.items() if name.startswith(under)}

    def subjects(self, span: str) -> list[str]:
        """Commit subjects of a range, oldest first."""
        return self.git("log", "--reverse", "--format=%s", span).splitlines()

    def status(self, cwd: Path | None = None) -> list[str]:
        """`git status --porcelain`, folders listed file by file."""
        return self.git("status", "--porcelain", "-uall", cwd=cwd).splitlines()

    def staged(self) -> str:
        """What is staged."""
        return self.git("diff", "--cached")

    def tree(self, cwd: Path | None = None) -> str:
        """The tree id of the working tree through a throw-away index."""
        index = self.root / "throw-away-index"
        index.unlink(missing_ok=True)
        env = self.env() | {"GIT_INDEX_FILE": str(index)}
        add = ["git", "add", "-A", "--", ".", ":(exclude).claude"]
        subprocess.run(add, cwd=cwd or self.repo, env=env, capture_output=True, check=True)
        write = ["git", "write-tree"]
        done = subprocess.run(write, cwd=cwd or self.repo, env=env, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def tree_of(self, name: str) -> str:
        """The tree id of a commit."""
        return self.git("rev-parse", f"{name}^{{tree}}")

    def blob(self, name: str, path: str) -> str:
        """A file as a commit has it."""
        return self.git("show", f"{name}:{path}")

    def contents(self, folder: Path | None = None, *, runtime: bool = False) -> dict[str, str]:
        """Every file with kind and hash; `.claude` only on request."""
        top = folder or self.repo
        hidden = {".git"} if runtime else {".git", ".claude"}
        found = {}
        for path in sorted(top.rglob("*")):
            name = path.relative_to(top)
            if name.parts[0] in hidden or (path.is_dir() and not path.is_symlink()):
                continue
            if path.is_symlink():
                found[str(name)] = "link:" + os.readlink(path)
            elif path.is_file():
                kind = "exec:" if os.access(path, os.X_OK) else "file:"
                found[str(name)] = kind + hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def snapshot(self, *, runtime: bool = True) -> Json:
        """All that a refused command must leave as it was."""
        return {
            "refs": self.refs(),
            "head": (self.repo / ".git" / "HEAD").read_text(),
            "status": self.status(),
            "index": self.git("ls-files", "-s", "-t"),
            "stash": self.git("stash", "list"),
            "worktrees": self.git("worktree", "list", "--porcelain"),
            "files": self.contents(runtime=runtime),
            "config": (self.repo / ".git" / "config").read_text(),
        }

    # the agent

    @property
    def agent(self) -> str:
        """The fake agent as a value of `--agent-cmd`."""
        return shlex.quote(str(self.bin / "agent"))

    def plan(self, calls: Mapping[int, Actions] | None = None, default: Actions = DONE) -> None:
        """What the agent does in each call."""
        plan: Json = {str(n): actions for n, actions in (calls or {}).items()}
        plan["default"] = default
        path = self.root / "plan.json"
        path.with_suffix(".tmp").write_text(json.dumps(plan))
        path.with_suffix(".tmp").rename(path)

    def calls(self) -> list[Call]:
        """The calls so far."""
        names = sorted((self.root / "calls").glob("*.json"), key=lambda p: int(p.stem))
        return [Call(**json.loads(path.read_text())) for path in names]

    def wait_call(self, n: int, timeout: float = PATIENCE) -> Call:
        """Wait until call n has logged what it saw."""
        until((self.root / "calls" / f"{n}.json").exists, timeout, f"agent call {n}")
        return self.calls()[n - 1]

    def gate(self, name: str) -> str:
        """The path of a file that a plan waits for."""
        return str(self.root / f"gate-{name}")

    def open_gate(self, name: str) -> None:
        """Let a waiting agent go on."""
        Path(self.gate(name)).touch()

    def processes(self) -> list[tuple[int, list[str]]]:
        """Living processes of the fake agent and its children."""
        marks = {str(self.bin / "agent"), str(self.bin / "claude"), f"child-of:{self.root}"}
        return [
            (pid, argv)
            for pid, argv in command_lines()
            if marks & set(argv) and Path(argv[0]).name.startswith("python")
            if "--agent-cmd" not in argv
        ]

    # the command

    def env(self, extra: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """A clean environment: private HOME, our bin first, nothing inherited."""
        found = Path(shutil.which("git") or "/usr/bin/git").parent
        env: dict[str, str] = {
            "HOME": str(self.home),
            "PATH": f"{self.bin}:{found}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "TMPDIR": str(self.root / "tmp"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "USER": "ada",
        }
        # `make check` measures the coverage of the command itself; nothing else is inherited.
        env |= {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
        for name, value in (extra or {}).items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        return env

    def start(
        self,
        *args: str,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
    ) -> Live:
        """Start the command in the background."""
        live = Live([str(COMMAND), *args], cwd or self.repo, self.env(env))
        self._opened.append(live)
        return live

    def run(
        self,
        *args: str,
        stdin: str = "",
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        timeout: float = PATIENCE,
    ) -> Result:
        """Run the command to its end."""
        if not stdin:
            return self.start(*args, env=env, cwd=cwd).wait(timeout)
        done = subprocess.run(
            [str(COMMAND), *args],
            input=stdin.encode(),
            cwd=cwd or self.repo,
            env=self.env(env),
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))

    def loop_args(self, *more: str) -> list[str]:
        """`run demo` with events and the fake agent; a `--agent` or `--task` of its own wins."""
        args = ["run"] if "--task" in more else ["run", "demo"]
        args += ["--json"]
        if "--agent" not in more and "--agent-cmd" not in more:
            args += ["--agent-cmd", self.agent]
        return [*args, *more]

    def loop(self, *more: str, **options: Any) -> Result:
        """A loop over the change to its end, with events."""
        return self.run(*self.loop_args(*more), **options)

    def begin(self, *more: str, **options: Any) -> Live:
        """A loop over the change in the background, with events."""
        return self.start(*self.loop_args(*more), **options)

    def terminal(self, *args: str, env: Mapping[str, str | None] | None = None) -> Terminal:
        """The command on a pty."""
        terminal = Terminal([str(COMMAND), *args], self.repo, self.env(env))
        self._opened.append(terminal)
        return terminal

    def state_path(self, cwd: Path | None = None) -> Path:
        """Where the state file is."""
        return (cwd or self.repo) / ".claude" / "loop-state.json"

    def state(self, cwd: Path | None = None) -> Json:
        """The state file."""
        value: Json = json.loads(self.state_path(cwd).read_text())
        return value

    def loops(self) -> list[Json]:
        """The loops of `status --json`."""
        value: list[Json] = self.run("status", "--json").ok().json()["loops"]
        return value

    def close(self) -> None:
        """End everything that this bench started."""
        for live in self._opened:
            live.close()
        for pid, _ in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)


def process_stats() -> dict[int, tuple[int, str, int]]:
    """Parent, state and processor time of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            rest = path.read_text().rpartition(")")[2].split()
            found[int(path.parent.name)] = int(rest[1]), rest[0], int(rest[11]) + int(rest[12])
    return found


def command_lines() -> Iterator[tuple[int, list[str]]]:
    """All processes with their arguments; zombies have none."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                argv = (folder / "cmdline").read_bytes().decode(errors="replace")
                if argv:
                    yield int(folder.name), argv.rstrip("\0").split("\0")


class Poller:
    """Reads the state file every 5 ms and keeps every version and every parse error."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.versions: list[Json] = []
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> Poller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def _poll(self) -> None:
        last = ""
        while not self._stop.is_set():
            text = self._read()
            if text is not None and text != last:
                last = text
                try:
                    self.versions.append(json.loads(text))
                except ValueError as error:
                    self.errors.append(f"{error}: {text!r}")
            self._stop.wait(0.005)

    def _read(self) -> str | None:
        try:
            return self.path.read_text(encoding="utf-8")
        except OSError as error:
            if self.versions:
                self.errors.append(f"the file was gone: {error}")
            return None
