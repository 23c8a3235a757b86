"""Kill the loop before, after or in the middle of every git call of a run, then recover.

Run it with `make torture`. A wrapper `git` on PATH counts calls and kills the loop with SIGKILL at
call k. Afterwards a new process goes on with the run and ends it with cleanup;
then reflogs are expired, the repository is collected, and everything that the user had and that a
finished story made is looked for. Prints counts; exits 1 if anything is lost.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

UNTILDONE = str(Path(sys.executable).parent / "untildone")
GIT = shutil.which("git") or "git"
MODES = ("before", "after", "during")

WRAPPER = f"""#!/bin/sh
n=$(($(cat "$COUNT_FILE") + 1))
echo $n > "$COUNT_FILE"
loop=$(cat "$LOOP_PID_FILE" 2>/dev/null)
if [ "$n" = "$KILL_AT" ]; then
  case $KILL_MODE in
    before) kill -9 $loop; exit 137 ;;
    after) {GIT} "$@"; kill -9 $loop; exit 137 ;;
    during) {GIT} "$@" & sleep 0.001; kill -9 $! $loop; exit 137 ;;
  esac
fi
exec {GIT} "$@"
"""

AGENT = """#!/bin/sh
cat > /dev/null
echo "call $UNTILDONE_STORY_ID" >> "$AGENT_LOG"
echo "work of story $UNTILDONE_STORY_ID" > "story-$UNTILDONE_STORY_ID.txt"
echo "more" >> tracked.txt
if [ "$UNTILDONE_STORY_ID" = 2 ] && [ ! -e "$FAILED_ONCE" ]; then
  touch "$FAILED_ONCE"
  echo junk > junk.txt
  echo "<promise>FAILED: not yet</promise>"
else
  echo "<promise>COMPLETE</promise>"
fi
"""


class Scene:
    """One throw-away repository with a dirty tree and a change of two stories."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = root / "repo"
        self.bin = root / "bin"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "AGENT_LOG": str(root / "agent.log"),
            "FAILED_ONCE": str(root / "failed-once"),
            "COUNT_FILE": str(root / "count"),
            "LOOP_PID_FILE": str(root / "pid"),
        }
        self.repo.mkdir()
        self.bin.mkdir()
        for path, text in ((self.bin / "git", WRAPPER), (root / "agent", AGENT)):
            path.write_text(text)
            path.chmod(0o755)
        (root / "count").write_text("0\n")
        self._fill()

    def _fill(self) -> None:
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "A")
        self.git("config", "user.email", "a@example.invalid")
        tasks = "## 1. One\n\n- [ ] 1.1 first\n\n## 2. Two\n\n- [ ] 2.1 second\n"
        (self.repo / "tasks.md").write_text(tasks)
        (self.repo / "tracked.txt").write_text("base\n")
        (self.repo / "staged.txt").write_text("base\n")
        (self.repo / ".gitignore").write_text(".env\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "base")
        (self.repo / "tracked.txt").write_text("edited by the user\n")
        (self.repo / "staged.txt").write_text("only staged\n")
        self.git("add", "staged.txt")
        (self.repo / "staged.txt").write_text("staged, then edited\n")
        (self.repo / "untracked.txt").write_text("untracked\n")
        (self.repo / ".env").write_text("secret\n")

    def git(self, *args: str) -> str:
        """The real git."""
        done = subprocess.run(
            [GIT, *args], cwd=self.repo, env=self.env, capture_output=True, text=True, check=True
        )
        return done.stdout

    def loop(self, *args: str, kill_at: int = 0, mode: str = "before") -> int:
        """Run the command with the counting git first on PATH."""
        path = f"{self.bin}:{self.env['PATH']}"
        env = self.env | {"PATH": path, "KILL_AT": str(kill_at), "KILL_MODE": mode}
        Path(env["COUNT_FILE"]).write_text("0\n")
        process = subprocess.Popen(
            ["/bin/sh", "-c", 'echo $$ > "$LOOP_PID_FILE"; exec "$0" "$@"', UNTILDONE, *args],
            cwd=self.repo,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=(self.root / "out.txt").open("ab"),
            stderr=subprocess.STDOUT,
        )
        return process.wait(60)

    def blobs(self) -> set[str]:
        """Content hashes of all that is reachable from refs, and of all files on disk."""
        found = set()
        self.git("reflog", "expire", "--expire=all", "--all")
        self.git("gc", "-q", "--prune=now")
        for line in self.git("rev-list", "--objects", "--all", "--no-object-names").split():
            if self.git("cat-file", "-t", line).strip() == "blob":
                data = subprocess.run(
                    [GIT, "cat-file", "blob", line], cwd=self.repo, capture_output=True, check=True
                ).stdout
                found.add(hashlib.sha256(data).hexdigest())
        for path in self.repo.rglob("*"):
            if path.is_file() and ".git" not in path.relative_to(self.repo).parts[:1]:
                found.add(hashlib.sha256(path.read_bytes()).hexdigest())
        return found


WANTED = {
    "the user's edit": "edited by the user\n",
    "the staged version": "only staged\n",
    "the edit over it": "staged, then edited\n",
    "the untracked file": "untracked\n",
    "the ignored file": "secret\n",
    "story 1": "work of story 1\n",
    "story 2": "work of story 2\n",
}


def one(kill_at: int, mode: str) -> tuple[bool, list[str]]:
    """One kill; whether the point was reached, and what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder))
        args = ("run", "x", "--agent-cmd", str(scene.root / "agent"), "--on-complete", "cleanup")
        code = scene.loop(*args, kill_at=kill_at, mode=mode)
        reached = code == -9
        wrong = [] if reached or not code else [f"the run exits {code}"]
        if reached:
            state = scene.loop("status", "--json")
            wrong += [f"status exits {state}"] if state else []
            wrong += _recover(scene, args)
        try:
            wrong += _losses(scene)
        except subprocess.CalledProcessError as error:
            wrong.append(f"{error.cmd}: {error.stderr}")
        calls = Counter((scene.root / "agent.log").read_text().split("\n"))
        if calls["call 1"] > 1 + reached:
            wrong.append(f"story 1 was called {calls['call 1']} times")
        if wrong:
            wrong.append((scene.root / "out.txt").read_text()[-1500:])
        return reached, wrong


def _losses(scene: Scene) -> list[str]:
    have = scene.blobs()
    wrong = [
        f"lost: {name}"
        for name, text in WANTED.items()
        if hashlib.sha256(text.encode()).hexdigest() not in have
    ]
    if scene.git("symbolic-ref", "--short", "HEAD").strip() != "main":
        wrong.append("not back on main")
    if "MM staged.txt" not in scene.git("status", "--porcelain"):
        wrong.append("the staged split is gone")
    scene.git("fsck", "--no-dangling")
    return wrong


def _recover(scene: Scene, args: tuple[str, ...]) -> list[str]:
    log = scene.root / "agent.log"
    finished = "checkpoint: 1" in scene.git("log", "--all", "--format=%s")
    before = log.read_text().count("call 1\n") if log.exists() else 0
    code = scene.loop(*args)
    wrong = [] if code == 0 else [f"going on exits {code}"]
    if finished and log.read_text().count("call 1\n") > before:
        wrong.append("a finished story was run again")
    return wrong


def main() -> int:
    """Every kill point in every mode."""
    counts: Counter[str] = Counter()
    for mode in MODES:
        k = 1
        while True:
            reached, wrong = one(k, mode)
            if not reached:
                break
            counts["kills"] += 1
            counts["bad"] += bool(wrong)
            if wrong:
                print(f"{mode} call {k}: {'; '.join(wrong)}")
            k += 1
    print(f"{counts['kills']} kills, {counts['bad']} bad")
    return 1 if counts["bad"] or not counts["kills"] else 0


if __name__ == "__main__":
    sys.exit(main())
