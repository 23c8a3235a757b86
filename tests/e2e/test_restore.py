"""`untildone restore`: the state before the run, to the last flag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json

pytestmark = pytest.mark.e2e


def dirty_start(bench: Bench) -> None:
    """Staged, unstaged, both in one file, deleted, untracked, intent to add, exec bit."""
    bench.write("README.md", "# staged\n")
    bench.write("new.txt", "staged new\n")
    bench.git("add", "README.md", "new.txt")
    bench.write("README.md", "# staged and more\n")
    bench.path("src/app.py").unlink()
    bench.write("loose file.txt", "loose\n")
    bench.write("planned.txt", "planned\n")
    bench.git("add", "-N", "planned.txt")
    bench.path("run.sh").chmod(0o755)


def exact(bench: Bench) -> Json:
    """The user's exact state."""
    return {
        "branch": bench.branch(),
        "head": bench.sha(),
        "status": bench.status(),
        "staged": bench.staged(),
        "unstaged": bench.git("diff"),
        "index": bench.git("ls-files", "-s"),
        "files": bench.contents(),
    }


@pytest.mark.parametrize("ending", ["keep", "cleanup"])
def test_restore_brings_back_exactly_the_original_state(bench: Bench, ending: str) -> None:
    dirty_start(bench)
    before = exact(bench)
    bench.plan({1: [["write", "loose file.txt", "overwritten\n"], *DONE]})
    bench.loop("--on-complete", ending).ok()
    assert exact(bench) != before
    bench.run("restore", "demo").ok()
    assert exact(bench) == before


def test_restore_of_a_detached_start(bench: Bench) -> None:
    bench.git("checkout", "-q", "--detach")
    dirty_start(bench)
    before = exact(bench)
    bench.plan()
    bench.loop().ok()
    bench.run("restore", "demo").ok()
    assert exact(bench) == before
    assert before["branch"] == "HEAD"


def test_restore_after_kill_9(bench: Bench) -> None:
    dirty_start(bench)
    before = exact(bench)
    bench.plan({}, default=[["write", "README.md", "broken\n"], ["sleep", 600]])
    live = bench.begin()
    bench.wait_call(1)
    live.process.kill()
    live.wait()
    bench.run("restore", "demo").ok()
    assert exact(bench) == before
    assert bench.processes() == []


def test_restore_saves_what_it_replaces(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    tip = bench.sha("ralph/demo")
    bench.write("later.txt", "precious\n")
    bench.run("restore", "demo").ok()
    refs = bench.refs()
    assert any(bench.contains(ref, tip) for ref in refs)
    blobs = [bench.git("show", f"{ref}:later.txt", ok=False) for ref in refs]
    assert "precious" in blobs or bench.path("later.txt").exists()


def test_backup_ref_is_there_before_the_first_call(bench: Bench) -> None:
    dirty_start(bench)
    bench.plan({}, default=[["sleep", 600]])
    bench.begin()
    bench.wait_call(1)
    assert len(bench.refs("refs/ralph/backup/demo/")) == 1
