"""Where one loop works one plan: its folders, the agent on PATH, and an end that leaves nothing."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.outcomes import plan, project
from bench.outcomes.plan import Story

AGENT = Path(__file__).parent / "agent"
MARK = "BENCH_OUTCOMES_RUN"
LIMIT_S = 600.0
# Between the end of the loop and the count of what it left: time to die for what is dying.
GRACE_S = 2.0


@dataclass(frozen=True)
class Ending:
    """How a command ended: its exit code, None if it had to be ended, and its wall time."""

    code: int | None
    wall: float


@dataclass(frozen=True)
class Arena:
    """One loop, one plan."""

    root: Path
    stories: Sequence[Story]
    tools: Path
    limit_s: float = LIMIT_S
    started: float = field(default_factory=time.monotonic)

    @property
    def work(self) -> Path:
        """The repository that the loop and the agent see."""
        return self.root / "repo"

    @property
    def output(self) -> Path:
        """What the loop printed."""
        return self.root / "output.txt"

    @property
    def env(self) -> dict[str, str]:
        """The environment: an empty home, the agent first on PATH, and the mark of this run."""
        path = os.environ.get("PATH", os.defpath)
        return {
            MARK: str(self.root),
            "HOME": str(self.root / "home"),
            "PATH": f"{self.root / 'bin'}:{Path(sys.executable).parent}:{path}",
            "TMPDIR": str(self.root / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def build(self) -> None:
        """Lay out the folders, the repository and the agent."""
        for name in ("home", "bin", "tmp"):
            (self.root / name).mkdir(parents=True)
        (self.root / "home" / ".gitconfig").write_text(
            "[user]\n\tname = Ada\n\temail = ada@example.invalid\n"
        )
        shutil.copytree(AGENT, self.root / "agent", ignore=shutil.ignore_patterns("__pycache__"))
        claude = self.root / "bin" / "claude"
        claude.write_text(
            f"#!{sys.executable} -IS\nimport sys\n"
            f"sys.path.insert(0, {str(self.root / 'agent')!r})\n"
            f"from play import main\nmain({str(self.root)!r})\n"
        )
        claude.chmod(0o755)
        self.give_plan()
        self.configure({})
        project.build(self.work, self.stories, self.env)

    def give_plan(self) -> None:
        """Write the plan for the agent."""
        text = json.dumps(plan.script(self.stories))
        (self.root / "plan.json").write_text(text, encoding="utf-8")

    def configure(self, config: Mapping[str, object]) -> None:
        """Tell the agent what this loop's prompt asks of it."""
        (self.root / "config.json").write_text(json.dumps(config), encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """Write a file of the repository and commit it, as the user of that loop would."""
        (self.work / path).parent.mkdir(parents=True, exist_ok=True)
        (self.work / path).write_text(text, encoding="utf-8")
        self.git("add", path)
        self.git("commit", "-q", "-m", f"Add {path}", "--", path)

    def git(self, *args: str) -> str:
        """A git command of the benchmark; what it prints, whatever its exit code."""
        line = ["git", *args]
        done = subprocess.run(line, cwd=self.work, env=self.env, capture_output=True, check=False)
        return done.stdout.decode(errors="replace")

    def run(self, *argv: str, env: Mapping[str, str] | None = None) -> Ending:
        """Run a command of the loop, without a network, within what is left of the time."""
        began = time.monotonic()
        left = max(1.0, self.limit_s - (began - self.started))
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                [*no_network(), *argv],
                cwd=self.work,
                env={**self.env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code: int | None = process.wait(left)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        return Ending(code, time.monotonic() - began)

    def calls(self) -> list[dict[str, Any]]:
        """Everything that the agent wrote down."""
        path = self.root / "calls.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def left(self) -> int:
        """How many processes of this run live on after the loop's end."""
        until = time.monotonic() + GRACE_S
        while (pids := self._pids()) and time.monotonic() < until:
            time.sleep(0.05)
        return len(pids)

    def end(self) -> None:
        """End every process of this run, by its id."""
        for _ in range(5):
            for pid in self._pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def _pids(self) -> list[int]:
        mark = f"{MARK}={self.root}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if mark in (folder / "environ").read_bytes().split(b"\0"):
                        found.append(int(folder.name))
        return found


def no_network() -> tuple[str, ...]:
    """A prefix that takes the network away, where the machine allows it."""
    prefix = ("unshare", "-n", "--")
    if shutil.which("unshare") is None:
        return ()
    done = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    return prefix if done.returncode == 0 else ()
