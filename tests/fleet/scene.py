"""A fleet on one machine: a server of its own, bare repositories, workers, and an effect log.

What is asserted is what the remotes' branches and the effect log say, never what the engine says.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BIN = Path(sys.executable).parent
COMMAND = BIN / "untildone"
TEMPORAL = BIN / "temporal"
PATIENCE = 90.0
needs_temporal = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not (TEMPORAL.exists() or shutil.which("temporal")),
    reason="the program `temporal` is not installed: `make temporal` installs it",
)
# Starts and ends of agents, in the order in which they happened.
AGENT = """\
#!/bin/sh
cat > "{root}/prompt-$$"
change=$(git symbolic-ref --short HEAD | sed 's#ralph/##')
echo "start $change $UNTILDONE_STORY_ID $$ $PWD" >> "{root}/effects"
for name in "$change-$UNTILDONE_STORY_ID" "any"; do
  if [ -f "{root}/script-$name" ]; then . "{root}/script-$name"; break; fi
done
echo "$change $UNTILDONE_STORY_ID" > "made-$change-$UNTILDONE_STORY_ID.txt"
echo "end $change $UNTILDONE_STORY_ID $$" >> "{root}/effects"
echo "<promise>COMPLETE</promise>"
"""
CONFIG = "[user]\n\tname = Ada Fleet\n\temail = ada@fleet.invalid\n[init]\n\tdefaultBranch = main\n"


class Counts(dict[str, int]):
    """What a chaos test prints."""


class Fleet:
    """One server and its surroundings; `heartbeat` seconds without a sign mean a lost host."""

    def __init__(self, *, heartbeat: float = 4.0) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="fleet-"))
        self.home = self.root / "home"
        self.home.mkdir()
        (self.home / ".gitconfig").write_text(CONFIG)
        self.effects = self.root / "effects"
        self.effects.touch()
        self.heartbeat = heartbeat
        self.workers: list[subprocess.Popen[bytes]] = []
        self.agent = self.root / "agent"
        self.agent.write_text(AGENT.format(root=self.root))
        self.agent.chmod(0o755)
        self.script("any", "sleep 0.2")
        self.server: dict[str, Any] = {}

    # -- commands ---------------------------------------------------------------------------------

    def env(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k.startswith("COVERAGE_")}
        return kept | {
            "HOME": str(self.home),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "TMPDIR": str(self.root),
            "UNTILDONE_FLEET_HEARTBEAT": f"{self.heartbeat / 60}",
            **more,
        }

    def run(self, *words: str, code: int = 0, cwd: Path | None = None) -> str:
        done = subprocess.run(
            [str(COMMAND), *words],
            cwd=cwd or self.root,
            env=self.env(),
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return (done.stdout if code == 0 else done.stderr).decode()

    def ask(self, *words: str) -> Any:
        return json.loads(self.run("fleet", *words, "--json"))

    def up(self, port: int = 0) -> None:
        self.server = self.ask("up", "--port", str(port))

    def worker(
        self, slots: int = 4, *more: str, prefix: Sequence[str] = (), **env: str
    ) -> subprocess.Popen[bytes]:
        log = self.root / f"worker-{len(self.workers)}.log"
        with log.open("wb") as file:
            words = [*prefix, str(COMMAND), "fleet", "worker", "--slots", str(slots), *more]
            worker = subprocess.Popen(
                words,
                cwd=self.root,
                env=self.env(**env),
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.workers.append(worker)
        return worker

    def log(self, n: int) -> str:
        return (self.root / f"worker-{n}.log").read_text()

    # -- repositories -----------------------------------------------------------------------------

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.root, env=self.env(), capture_output=True, check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.decode().rstrip("\n")

    def repository(self, name: str, changes: Mapping[str, Sequence[str]]) -> Path:
        """A bare repository with these changes, each a list of story titles."""
        bare, work = self.root / f"{name}.git", self.root / f"{name}-work"
        self.git("init", "-q", "--bare", "-b", "main", str(bare))
        self.git("init", "-q", str(work))
        for change, stories in changes.items():
            rows = [f"\n## {n}. {t}\n\n- [ ] {n}.1 Do {t}\n" for n, t in enumerate(stories, 1)]
            path = work / "openspec" / "changes" / change / "tasks.md"
            path.parent.mkdir(parents=True)
            path.write_text("# Tasks\n" + "".join(rows))
        (work / "README.md").write_text("# Work\n")
        self.git("add", "-A", cwd=work)
        self.git("commit", "-q", "-m", "base", cwd=work)
        self.git("push", "-q", str(bare), "HEAD:main", cwd=work)
        return bare

    def script(self, name: str, text: str) -> None:
        (self.root / f"script-{name}").write_text(text + "\n")

    def submit(self, repository: Path | str, *words: str) -> Any:
        return self.ask("submit", str(repository), *words, "--agent-cmd", str(self.agent))

    # -- what came of it --------------------------------------------------------------------------

    def stories(self, repository: Path, change: str) -> list[str]:
        """The stories on the branch of a change, oldest first, as the trailers have them."""
        form = "--format=%(trailers:key=Untildone-Story,valueonly)"
        done = subprocess.run(
            ["git", "log", "--reverse", form, f"main..ralph/{change}"],
            cwd=repository,
            env=self.env(),
            capture_output=True,
            check=False,
        )
        return done.stdout.decode().split() if done.returncode == 0 else []

    def started(self) -> list[tuple[str, str, int]]:
        rows = (line.split() for line in self.effects.read_text().splitlines())
        return [(row[1], row[2], int(row[3])) for row in rows if row[0] == "start"]

    def wait_done(
        self, repository: Path, changes: Sequence[str], count: int, timeout: float = PATIENCE
    ) -> None:
        """Until every branch has so many stories."""

        def missing() -> list[str]:
            return [name for name in changes if len(self.stories(repository, name)) < count]

        end = time.monotonic() + timeout
        while left := missing():
            if time.monotonic() > end:
                logs = "\n".join(self.log(n)[-2000:] for n in range(len(self.workers)))
                raise AssertionError(f"not done: {left}\n{self.ask('status')}\n{logs}")
            time.sleep(0.1)

    def checked(
        self, repository: Path, changes: Sequence[str], stories: int, *, repeats: int
    ) -> dict[str, int]:
        """Each branch has exactly its stories, once, in order; the counts, which are printed."""
        wanted = [str(n) for n in range(1, stories + 1)]
        found = {change: self.stories(repository, change) for change in changes}
        lost = {change: got for change, got in found.items() if got != wanted}
        calls = Counter((change, story) for change, story, _ in self.started())
        repeated = sum(calls.values()) - len(calls)
        counts = {
            "changes": len(changes),
            "stories": len(changes) * stories,
            "agents": sum(calls.values()),
            "repeated agents": repeated,
            "lost": sum(len(set(wanted) - set(got)) for got in found.values()),
            "twice": sum(len(got) - len(set(got)) for got in found.values()),
        }
        print(counts)
        assert lost == {}, counts
        for change in changes:  # the files of every story, too
            names = self.git("ls-tree", "--name-only", f"ralph/{change}", cwd=repository).split()
            made = {f"made-{change}-{n}.txt" for n in wanted}
            assert made <= set(names), (change, names)
            subjects = self.git("log", "--format=%s", f"main..ralph/{change}", cwd=repository)
            assert len(subjects.splitlines()) == stories, subjects
        assert repeated <= repeats, (counts, calls)
        return counts

    def agents_alive(self) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if str(self.agent).encode() in words and b"--agent-cmd" not in b" ".join(words):
                    found.append(int(path.parent.name))
        return found

    def wait_effects(self, count: int, what: str = "start") -> None:
        mark = re.compile(f"^{what} ", re.MULTILINE)
        until(lambda: len(mark.findall(self.effects.read_text())) >= count, PATIENCE, what)

    def wait_status(self, change: str, wanted: str) -> dict[str, Any]:
        def at() -> Any:
            rows = self.ask("status")["changes"]
            return next(
                (r for r in rows if (r["change_id"], r["status"]) == (change, wanted)), None
            )

        found: dict[str, Any] = self.poll(at, f"{change} {wanted}")
        return found

    def poll(self, look: Callable[[], Any], what: str, timeout: float = PATIENCE) -> Any:
        end = time.monotonic() + timeout
        while not (value := look()):
            if time.monotonic() > end:
                logs = "\n".join(self.log(n)[-2000:] for n in range(len(self.workers)))
                raise AssertionError(f"in vain: {what}\n{self.ask('status')}\n{logs}")
            time.sleep(0.2)
        return value

    def close(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGCONT)
            for _ in range(2):
                with contextlib.suppress(ProcessLookupError):
                    worker.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(3)
            worker.kill()
            worker.wait()
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self.run("fleet", "down")
        for pid in self.agents_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)
