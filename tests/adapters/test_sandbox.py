"""Calls of bubblewrap, and what a real one does."""

import os
from pathlib import Path

from tests.adapters.worktree import Worktree
from tests.e2e.needs import needs_bwrap
from untildone.adapters.git.place import Place
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.adapters.sandbox import RunEnvironment, Sandbox, sandbox_for, trouble
from untildone.domain.agents.agent import Ending


def mounts(words: tuple[str, ...], kind: str) -> list[str]:
    return [words[k + 1] for k, word in enumerate(words) if word == kind]


def test_later_mounts_cover_earlier_ones(tmp_path: Path) -> None:
    box = Sandbox(("/w",), ("/w/.git/config",))
    own = tmp_path / "own"
    words = box.wrap(("agent", "-x"), "/w", (str(own),), "/w/.git/scratch")
    assert words[0] == "bwrap"
    assert words[-5:] == ("--chdir", "/w", "--", "agent", "-x")
    assert mounts(words, "--ro-bind") == ["/"]
    assert mounts(words, "--bind-try") == ["/w", str(own), "/w/.git/scratch"]
    assert mounts(words, "--ro-bind-try") == ["/w/.git/config"]
    order = [words.index(p) for p in ("/", "/w", str(own), "/w/.git/config", "/w/.git/scratch")]
    assert order == sorted(order)


def test_the_network_is_a_choice() -> None:
    assert "--unshare-net" not in Sandbox().wrap(("x",), "/")
    assert "--unshare-net" in Sandbox(network=False).wrap(("x",), "/")


def test_what_a_worktree_opens_and_protects(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    (real / ".git").mkdir(parents=True)
    link.symlink_to(real)
    place = Place(link, link / ".git", link / ".git")
    environ = {"HOME": str(tmp_path), "TMPDIR": "/var/tmp"}
    box = sandbox_for(place, environ, ["/more"], network=True)
    opened: list[str | Path] = [
        "/tmp",
        "/var/tmp",
        tmp_path / ".cache",
        "/more",
        real,
        real / ".git",
    ]
    assert box.writable == tuple(os.path.realpath(path) for path in opened)
    names = ("config", "config.worktree", "hooks", "info", "untildone", "commondir", "gitdir")
    assert box.protected == tuple(str(real / ".git" / name) for name in names)


def test_a_linked_worktree_protects_the_others(tmp_path: Path) -> None:
    common = tmp_path / "main" / ".git"
    for name in ("mine", "other"):
        (common / "worktrees" / name).mkdir(parents=True)
    top = tmp_path / "mine"
    top.mkdir()
    (top / ".git").write_text("gitdir: elsewhere\n")
    mine = common / "worktrees" / "mine"
    box = sandbox_for(Place(top, mine, common), {}, [], network=True)
    for path in (common / "HEAD", common / "config", mine / "gitdir", mine / "untildone"):
        assert str(path) in box.protected
    assert str(common / "worktrees" / "other") in box.protected
    assert str(top / ".git") in box.protected
    assert str(mine) not in box.protected
    assert {str(top), str(common), str(mine)} < set(box.writable)


def test_containment_without_a_sandbox_marks_and_sweeps(tmp_path: Path) -> None:
    held = RunEnvironment({"MARK": "r1"}).applied_to(Command(("x",), tmp_path, {"A": "b"}))
    assert held == Command(("x",), tmp_path, {"A": "b", "MARK": "r1"}, end_descendants=True)


def test_why_it_cannot_be_used(processes: Processes, tmp_path: Path) -> None:
    path = os.environ["PATH"]
    try:
        os.environ["PATH"] = str(tmp_path)
        assert trouble(processes, tmp_path) == "the program `bwrap` was not found"
        (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: no' >&2\nexit 1\n")
        (tmp_path / "bwrap").chmod(0o755)
        assert trouble(processes, tmp_path) == "bubblewrap cannot make namespaces here: bwrap: no"
    finally:
        os.environ["PATH"] = path


@needs_bwrap
def test_one_inside_that_cleans_up_on_term_may(processes: Processes, tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.02; done"
    said: list[bytes] = []
    box = RunEnvironment({}, Sandbox((str(tmp_path),)))
    call = Command(("/bin/sh", "-c", script), tmp_path, dict(os.environ), timeout_s=0.5)
    ended = processes.run(box.applied_to(call), said.append, lambda: False)
    assert (ended.ending, ended.exit_code) == (Ending.TIMEOUT, 7)
    assert b"".join(said) == b"up\nbye\n"


@needs_bwrap
def test_it_works_here(processes: Processes, repo: Worktree) -> None:
    assert trouble(processes, repo.top) == ""
