"""`git prune` and `git gc` in another terminal take nothing that a run has stored."""

from __future__ import annotations

import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, failed
from tests.e2e.hazard_ledger import assert_nothing_lost, users_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

PRUNE = ("git", "prune", "--expire=now")
GC = ("git", "gc", "--prune=now", "--quiet")
# Ours are held by refs at once: reflogs of the bench would hide what is missing.
NO_REFLOGS = ("git", "reflog", "expire", "--expire=now", "--all")


@contextmanager
def tidied(bench: Bench, command: tuple[str, ...]) -> Iterator[None]:
    """Somebody runs this command again and again, in two terminals."""
    over = threading.Event()

    def play() -> None:
        for _ in range(2000):
            if over.is_set():
                return
            subprocess.run(command, cwd=bench.repo, env=bench.env(), capture_output=True)

    threads = [threading.Thread(target=play) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize(
    ("checkpoint", "command"),
    [
        ("branch", PRUNE),
        *(
            pytest.param(checkpoint, command, marks=pytest.mark.full)
            for checkpoint in ("branch", "stash", "worktree")
            for command in (PRUNE, GC)
            if (checkpoint, command) != ("branch", PRUNE)
        ),
    ],
)
def test_hazard_20_prune_and_gc_beside_the_loop(
    bench: Bench, checkpoint: str, command: tuple[str, ...]
) -> None:
    bench.write("untracked/notes.txt", "mine\n")
    bench.write("src/app.py", "staged\n")
    bench.git("add", "src/app.py")
    bench.write("src/app.py", "on disk\n")
    users = users_bytes(bench)
    mess: Actions = [
        ["sh", "for k in 1 2 3 4 5 6; do mkdir -p m$k/b; echo mess {n} $k > m$k/b/c; done"],
        ["say", failed("no luck")],
    ]
    work: Actions = [
        ["sh", "for k in 1 2 3 4 5 6; do mkdir -p w$k/b; echo work {n} $k > w$k/b/{n}; done"],
        # Git finds these in its store, where nothing leads to them.
        ["sh", "echo there already {n} > there-{n}; git hash-object -w there-{n}"],
        *DONE,
    ]
    bench.plan({n: mess if n % 2 else work for n in range(1, 7)})
    with tidied(bench, command):
        ended = bench.loop("--checkpoint", checkpoint, "--on-complete", "keep", timeout=90)
    ended.ok()
    bench.git("fsck", "--full", "--strict", "--connectivity-only", "--no-reflogs")
    saved = [event["commit"] for event in ended.named("checkpoint_saved")]
    assert len(saved) == 3
    for k, commit in enumerate(saved, 1):
        for name in (f"w6/b/{2 * k}", f"there-{2 * k}", f"work-{2 * k}.txt"):
            assert bench.blob(commit, name)
    subprocess.run(NO_REFLOGS, cwd=bench.repo, env=bench.env(), check=True)
    assert_nothing_lost(bench, users)
    with tidied(bench, command):
        bench.run("finish", "demo", "cleanup").ok()
        bench.run("undo").ok()
        bench.run("attempts", "demo", "--restore", "1/1").ok()
        bench.run("restore", "demo").ok()
    bench.git("fsck", "--full", "--strict", "--connectivity-only", "--no-reflogs")
    assert_nothing_lost(bench, users)
