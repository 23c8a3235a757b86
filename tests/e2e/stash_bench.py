"""What the tests of the stash variant share: a dirty start, and looks at the stash list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions, Call
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json, Live

STASH = ("--checkpoint", "stash")
WORK = "refs/ralph/work/demo"


def make_dirty(bench: Bench) -> None:
    """Staged, staged and edited again, edited, deleted, intent-to-add and untracked files."""
    bench.write("README.md", "# staged\n")
    bench.write("staged new.txt", "staged new\n")
    bench.git("add", "README.md", "staged new.txt")
    bench.write("README.md", "# staged and more\n")
    bench.write("run.sh", "#!/bin/sh\necho edited\n")
    bench.path("src/app.py").unlink()
    bench.write("intended.txt", "intended\n")
    bench.git("add", "-N", "intended.txt")
    bench.write("src/new.py", "new\n")
    bench.write("notes/ünï cödé.txt", "untracked\n")


def users_view(bench: Bench) -> Json:
    """All that a run must leave as it is: HEAD, branches, index, stash list, files."""
    return {
        "head": bench.path(".git/HEAD").read_text(),
        "heads": bench.refs("refs/heads/"),
        "index": bench.git("ls-files", "-s", "-t"),
        "staged": bench.staged(),
        "status": bench.status(),
        "stash": listed(bench),
        "files": bench.contents(),
    }


def listed(bench: Bench) -> list[str]:
    """The stash list: hash and message of each entry, newest first."""
    return bench.git("stash", "list", "--format=%H %gs").splitlines()


def entries(bench: Bench) -> list[str]:
    """The messages of the stash list without `On BRANCH: `, newest first."""
    return [line.partition(": ")[2] for line in listed(bench)]


def names(call: Call) -> list[str]:
    """The stash list as an agent call saw it: names only."""
    return [line.split(": ", 2)[2] for line in call.stash.splitlines()]


def held(bench: Bench, *, at: int, then: Actions) -> tuple[Live, Call]:
    """A stash run whose call `at` waits at the gate `go` before it acts."""
    bench.plan({at: [["wait", bench.gate("go")], *then]})
    live = bench.begin(*STASH)
    return live, bench.wait_call(at)


def killed(bench: Bench, *more: str, at: int = 2, does: Actions | None = None) -> None:
    """A stash run killed with -9 while call `at` is at work."""
    actions: Actions = does or [["write", "half.txt", "half\n"]]
    mark = bench.root / "acted"
    bench.plan({at: [*actions, ["sh", f"touch {mark}"], ["sleep", 600]]})
    live = bench.begin(*STASH, *more)
    until(mark.exists, what="the agent's acts")
    live.process.kill()
    live.wait()
    bench.plan()
