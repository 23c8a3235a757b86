"""A throw-away repository with a dirty tree, an agent made of shell lines, and the command.

The agent keeps its own record outside the repository: which story each call was for, which files
(by their hash) and which commit were there when the call ended, and what it promised.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.fork_server import Forked, forked

UNTILDONE = str(Path(sys.executable).parent / "untildone")
GIT = shutil.which("git") or "git"
INJECTED = str(Path(__file__).parent / "injected")
PATIENCE_S = 60
KILLED = -signal.SIGKILL
LANES = ("--lanes", "4", "--optimistic", "--check-slots", "2")

# Each call plays plan/N, or plan/default: lines of shell in the repository. What is in the tree at
# the end of a call must never be lost, but for ignored files and the boxes of the task list.
AGENT = """#!/bin/sh
root=ROOT
cat > /dev/null
n=1
until mkdir "$root/calls/$n" 2> /dev/null; do n=$((n + 1)); done
echo "$UNTILDONE_STORY_ID" > "$root/calls/$n/story"
top=$(pwd)
plan="$root/plan/$n"
[ -e "$plan" ] || plan="$root/plan/default"
promise=COMPLETE
. "$plan" > /dev/null 2>&1
cd "$top"
if [ -z "$UNTILDONE_LANE" ]; then # a lane has no ignored files of the user's
  [ -e .env ] || touch "$root/agent-removed-env"
  [ -e build/cache.bin ] || touch "$root/agent-removed-cache"
fi
git rev-parse -q --verify HEAD > "$root/calls/$n/head" 2> /dev/null
find . -name .git -prune -o -name .claude -prune -o -name build -prune -o -type f \\
  ! -name .env ! -name tasks.md -exec git hash-object --no-filters -- {} + > "$root/calls/$n/left"
[ "$promise" != crash ] || kill -9 $$
echo "$promise" > "$root/calls/$n/promise"
[ -z "$promise" ] || echo "<promise>$promise</promise>"
"""

USERS_FILES = {
    "tracked.txt": "edited by the user\n",
    "both.txt": "staged, then edited\n",
    "later.txt": "to be added later\n",
    "notes/untracked.txt": "untracked\n",
    "notes/späte notiz.txt": "odd name\n",
    ".env": "secret\n",
    "build/cache.bin": "cache\n",
}
USERS_EXCLUDES = "".join(f"private-{n}.txt\n" for n in range(50))
USERS_BYTES = (*USERS_FILES.values(), "only staged\n", "staged away\n", "first stash\n", "second\n")


@dataclass(frozen=True, slots=True)
class Fault:
    """Where and how the loop's process is hit; number 0 hits nothing.

    The number counts everything, or what `of` names.
    """

    at: int = 0
    mode: str = "before"
    delay_ms: float = 0
    of: str = ""

    def env(self, root: Path) -> dict[str, str]:
        """What the injected code reads."""
        return {
            "PYTHONPATH": INJECTED,
            "FAULT_ROOT": str(root),
            "FAULT_AT": str(self.at),
            "FAULT_OF": self.of,
            "FAULT_MODE": self.mode,
            "FAULT_DELAY_MS": str(self.delay_ms),
        }


@dataclass(frozen=True, slots=True)
class AgentCall:
    """One call by the agent's own record; `promise` is None if the call was cut short."""

    n: int
    story: str
    left: frozenset[str]
    head: str
    promise: str | None


class Scene:
    """One repository in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = root / "repo"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root / "home"),
            "LANG": "C.UTF-8",
            "TMPDIR": str(root / "tmp"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONDONTWRITEBYTECODE": "1",  # a write cut short would break other runs
        }
        self.said = root / "said.txt"

    @classmethod
    def made(cls, root: Path, stories: int) -> "Scene":
        """A new repository with this many stories and a dirty tree."""
        scene = cls(root)
        for folder in ("repo", "home", "plan", "calls", "tmp"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "home" / ".gitconfig").write_text(
            "[user]\nname = A\nemail = a@example.invalid\n[gc]\nauto = 0\n[pack]\nthreads = 1\n"
        )
        scene._install_agent()
        scene._fill(stories)
        return scene

    def copied(self, root: Path) -> "Scene":
        """The same repository in another place."""
        shutil.copytree(self.root, root, symlinks=True)
        scene = Scene(root)
        scene._install_agent()
        return scene

    def _install_agent(self) -> None:
        path = self.root / "agent"
        path.write_text(AGENT.replace("ROOT", str(self.root)))
        path.chmod(0o755)

    def _fill(self, stories: int) -> None:
        self.git("init", "-q", "-b", "main")
        parts = [f"## {n}. Story {n}\n\n- [ ] {n}.1 do {n}\n\n" for n in range(1, stories + 1)]
        self.write("tasks.md", "".join(parts))
        for name in ("tracked.txt", "both.txt", "other.txt", "src/code.py"):
            self.write(name, "base\n")
        self.write("dropped.txt", "staged away\n")
        self.write(".gitignore", ".env\nbuild/\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "base")
        for text in ("first stash\n", "second\n"):
            self.write("other.txt", text)
            self.git("stash", "-q")
        self.write("both.txt", "only staged\n")
        self.git("add", "both.txt")
        self.git("rm", "-q", "--cached", "dropped.txt")
        for name, text in USERS_FILES.items():
            self.write(name, text)
        self.git("add", "-N", "later.txt")
        self.write(".git/info/exclude", USERS_EXCLUDES)

    def write(self, name: str, text: str) -> None:
        """Write a file of the user's."""
        path = self.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def configure(self, settings: Sequence[str]) -> None:
        """Settings of the user's git, in its own file."""
        (self.root / "home" / "attributes").write_text("*.txt filter=lossy\n")
        with (self.root / "home" / ".gitconfig").open("a") as file:
            file.writelines(settings)

    def plan(self, calls: Mapping[str, str]) -> None:
        """What the agent does in its n-th call, or by default."""
        for n, lines in calls.items():
            (self.root / "plan" / n).write_text(lines)

    def git(self, *args: str, stdin: bytes = b"") -> str:
        """The user's git, which must succeed."""
        return self.git_bytes(*args, stdin=stdin).decode("utf-8", "surrogateescape")

    def git_bytes(self, *args: str, stdin: bytes = b"") -> bytes:
        """As `git`, for any content."""
        done = subprocess.run(
            [GIT, *args], cwd=self.repo, env=self.env, input=stdin, capture_output=True, check=False
        )
        if done.returncode:
            raise AssertionError(f"git {' '.join(args)}: {done.stderr.decode(errors='replace')}")
        return done.stdout

    def command(
        self,
        *args: str,
        fault: Fault | None = None,
        log: Path | None = None,
        prefix: Sequence[str] = (),
    ) -> int:
        """Run `untildone`, behind other programs if need be; its exit code, or KILLED."""
        env: dict[str, str] = {}
        if fault or log:
            env |= (fault or Fault()).env(self.root)  # a linked worktree stands beside the other
            env |= {"FAULT_LOG": str(log)} if log else {}
        return self.end(self.begin(*args, env=env, prefix=prefix))

    def begin(
        self, *args: str, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> subprocess.Popen[bytes] | Forked:
        """Start `untildone`; all it says goes into a file.

        What is hit is started from its file, all else as a copy of a process that has loaded it.
        """
        hit = {name: value for name, value in (env or {}).items() if name.startswith("FAULT_")}
        with self.said.open("ab") as said, open(os.devnull, "rb") as nothing:
            said.write(f"$ untildone {' '.join(args)} {hit or ''}\n".encode())
            said.flush()
            if not (env or prefix):
                streams = nothing.fileno(), said.fileno(), said.fileno()
                return forked(args, self.repo, self.env, streams)
            return subprocess.Popen(
                [*prefix, UNTILDONE, *args],
                cwd=self.repo,
                env=self.env | dict(env or {}),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def end(self, process: subprocess.Popen[bytes] | Forked) -> int:
        """Wait for the end, with a limit; the exit code."""
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = 124
        with self.said.open("ab") as said:
            said.write(f"exit {code}\n".encode())
        return code

    def wait_for(self, path: Path) -> None:
        """Until a file is there."""
        end = time.monotonic() + PATIENCE_S
        while not path.exists():
            assert time.monotonic() < end, f"{path} never came\n{self.said.read_text()}"
            time.sleep(0.01)

    def run_args(self, variant: str, *more: str) -> tuple[str, ...]:
        """`run x` with the agent."""
        how = LANES if variant == "lanes" else ("--checkpoint", variant)
        return ("run", "x", "--agent-cmd", str(self.root / "agent"), *how, *more)

    def slots(self) -> list[Path]:
        """The checkouts of lanes."""
        return sorted((self.root / "home/.cache/untildone/slots").glob("*/lane-*/repo"))

    def calls(self) -> list[AgentCall]:
        """The agent's own record, in order; one that was ended before it wrote a word has none."""
        folders = sorted((self.root / "calls").iterdir(), key=lambda path: int(path.name))
        return [call for folder in folders if (call := _call(folder)).story]


BLOB = 40  # an agent that is ended while it writes may leave half a name


def _call(folder: Path) -> AgentCall:
    texts = {}
    for name in ("story", "left", "head", "promise"):
        path = folder / name
        texts[name] = path.read_text() if path.exists() else None
    return AgentCall(
        int(folder.name),
        (texts["story"] or "").strip(),
        frozenset(blob for blob in (texts["left"] or "").split() if len(blob) == BLOB),
        (texts["head"] or "").strip(),
        None if texts["promise"] is None else texts["promise"].strip(),
    )
