"""The bench of the black-box tests: a repository, a fake agent, and the command."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import marshal
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.e2e.agent_calls import DONE, Call
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.command import COMMAND, Live, Result, Terminal
from tests.e2e.process_table import command_lines
from tests.e2e.waiting import PATIENCE, until
from tests.template_folder import copy_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.agent_calls import Actions
    from tests.e2e.command import Json


class Bench:
    """A private HOME, a repository on `feature/x` with the change `demo`, and the fake agent."""

    def __init__(self, root: Path, *, installed: bool = False) -> None:
        self.root = root
        self.home = root / "home"
        self.repo = root / "repo"
        self.bin = root / "bin"
        self.installed = installed
        self._opened: list[Live | Terminal] = []
        copy_of(_fill, root)
        self.git("update-index", "-q", "--refresh")

    # set-up

    def install_claude(self) -> None:
        """Put the fake agent on PATH under the name `claude`."""
        _write_agent(self.bin / "claude")

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

    def contains(self, ref: str, commit: str) -> bool:
        """Whether a commit can be reached from a ref."""
        return bool(self.git("for-each-ref", f"--contains={commit}", ref, ok=False))

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
        plan = {0: default, **(calls or {})}
        path = self.root / "plan"
        path.with_suffix(".tmp").write_bytes(marshal.dumps(plan))
        path.with_suffix(".tmp").rename(path)

    def calls(self) -> list[Call]:
        """The calls so far."""
        names = sorted((self.root / "calls").glob("*.call"), key=lambda p: int(p.stem))
        return [Call(**marshal.loads(path.read_bytes())) for path in names]  # noqa: S302

    def wait_call(self, n: int, timeout: float = PATIENCE) -> Call:
        """Wait until call n has logged what it saw."""
        until((self.root / "calls" / f"{n}.call").exists, timeout, f"agent call {n}")
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
        stdin: str = "",
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
    ) -> Live:
        """Start the command in the background."""
        live = Live(
            [str(COMMAND), *args],
            cwd or self.repo,
            self.env(env),
            stdin=stdin.encode(),
            installed=self.installed,
        )
        self._opened.append(live)
        return live

    def run(self, *args: str, timeout: float = PATIENCE, **options: Any) -> Result:
        """Run the command to its end."""
        return self.start(*args, **options).wait(timeout)

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
        terminal = Terminal(
            [str(COMMAND), *args], self.repo, self.env(env), installed=self.installed
        )
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


def new_bench(top: str = "", *, installed: bool = False) -> Bench:
    """A bench on a short path of letters and digits, so that agents' path slugs are plain."""
    folder = Path(top or tempfile.gettempdir()).resolve()
    return Bench(folder / f"ud{secrets.token_hex(6)}", installed=installed)


def _fill(root: Path) -> None:
    """What every bench starts with."""
    for folder in ("home", "repo", "bin", "calls", "tmp"):
        (root / folder).mkdir()
    (root / "home" / ".gitconfig").write_text(
        "[user]\n\tname = Ada Bench\n\temail = ada@bench.invalid\n[init]\n\tdefaultBranch = main\n"
    )
    _write_agent(root / "bin" / "agent")
    commits = {
        "base": {
            "README.md": "# Bench\n",
            "src/app.py": "print('hello')\n",
            "run.sh": "#!/bin/sh\n",
            ".gitignore": ".env\nbuild/\n",
            ".env": "SECRET=1\n",
            "build/cache.bin": "cache\n",
        },
        "change demo": {
            "openspec/changes/demo/proposal.md": "# Proposal\n\nGreet three times.\n",
            TASKS: tasks_text(),
        },
    }
    repo = root / "repo"
    env = {"PATH": os.environ["PATH"], "HOME": str(root / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    git = functools.partial(subprocess.run, cwd=repo, env=env, check=True)
    git(["git", "init", "-q", "-b", "feature/x"])
    for message, files in commits.items():
        for name, text in files.items():
            (repo / name).parent.mkdir(parents=True, exist_ok=True)
            (repo / name).write_text(text, encoding="utf-8")
        git(["git", "add", "-A"])
        git(["git", "commit", "-q", "-m", message])


def _write_agent(path: Path) -> None:
    """The fake agent under a name; loaded as a module, so that Python compiles it once."""
    path.write_text(
        f"#!{sys.executable} -IS\nimport sys\nsys.path.append({str(Path(__file__).parent)!r})\n"
        "import fake_agent\nfake_agent.main()\n"
    )
    path.chmod(0o755)
