"""Where a run may start, and what is refused."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.adapters.worktree import Worktree, shell_git
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import (
    EXCLUDE_LINE,
    check_name,
    discover,
    exclude_own_files,
    head_of,
    home,
    install_index,
    move_stale_locks,
    preflight,
    slug,
)
from untildone.adapters.process.process import Processes
from untildone.domain.errors import StepError, UserError
from untildone.domain.run.run import Origin


def test_discover_from_a_sub_folder_and_a_linked_worktree(repo: Worktree, tmp_path: Path) -> None:
    repo.write("deep/er/x")
    git_dir = repo.top / ".git"
    assert discover(repo.processes, repo.top / "deep/er") == Place(repo.top, git_dir, git_dir)
    repo.sh("worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    place = discover(repo.processes, tmp_path / "other")
    assert place == Place(tmp_path / "other", git_dir / "worktrees/other", git_dir)
    assert home(place) == git_dir / "worktrees/other/untildone"


def test_places_that_are_refused(processes: Processes, repo: Worktree, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a git repository"):
        discover(processes, tmp_path)
    with pytest.raises(UserError, match="bare repository"):
        discover(processes, repo.top / ".git")
    shell_git(tmp_path, "init", "-q", "--bare", "bare")
    with pytest.raises(UserError, match="bare repository"):
        discover(processes, tmp_path / "bare")


def test_no_git(repo: Worktree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="git was not found"):
        discover(repo.processes, repo.top)


def test_preflight(repo: Worktree) -> None:
    head = repo.sh("rev-parse", "HEAD")
    assert preflight(repo.git(), repo.place, "demo") == Origin("feature/x", head)
    assert head_of(repo.place.git_dir) == ("feature/x", "")
    repo.sh("checkout", "-q", "--detach")
    assert preflight(repo.git(), repo.place, "demo") == Origin("", head)
    assert head_of(repo.place.git_dir) == ("", head)


def _conflict(repo: Worktree) -> None:
    for branch in ("one", "two"):
        repo.sh("checkout", "-q", "-b", branch, "feature/x")
        repo.write("a.txt", branch)
        repo.sh("commit", "-q", "-a", "-m", branch)
    rows = [
        f"100644 {repo.sh('rev-parse', b + ':a.txt')} {n}\ta.txt"
        for n, b in ((1, "feature/x"), (2, "one"), (3, "two"))
    ]
    repo.sh("update-index", "--index-info", stdin="0 " + "0" * 40 + "\ta.txt\n" + "\n".join(rows))


def _elsewhere(repo: Worktree) -> None:
    repo.sh("worktree", "add", "-q", "-b", "ralph/demo", str(repo.top.parent / "other"))


REFUSED: dict[str, tuple[Callable[[Worktree], object], str]] = {
    "unborn": (lambda r: r.sh("checkout", "-q", "--orphan", "new"), "no commit yet"),
    "no index": (lambda r: (r.place.git_dir / "index").unlink(), "has no index yet"),
    "merge": (lambda r: (r.place.git_dir / "MERGE_HEAD").touch(), "A merge is in progress"),
    "bisect": (lambda r: (r.place.git_dir / "BISECT_LOG").touch(), "A bisect is in progress"),
    "rebase": (lambda r: (r.place.git_dir / "rebase-merge").mkdir(), "A rebase is in progress"),
    "unmerged": (_conflict, "unmerged files"),
    "ralph": (lambda r: r.sh("branch", "ralph"), "A branch called `ralph` exists"),
    "below": (lambda r: r.sh("branch", "ralph/demo/x"), "The branch `ralph/demo/x` exists"),
    "elsewhere": (_elsewhere, "checked out in another worktree"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_preflight_refuses(name: str, repo: Worktree) -> None:
    prepare, message = REFUSED[name]
    prepare(repo)
    with pytest.raises(UserError, match=message) as caught:
        preflight(repo.git(), repo.place, "demo")
    assert caught.value.hint


def test_a_branch_above_is_refused(repo: Worktree) -> None:
    repo.sh("branch", "ralph/demo")
    with pytest.raises(UserError, match="The branch `ralph/demo` exists"):
        preflight(repo.git(), repo.place, "demo/x")


def test_home_folders_are_refused(home: Path, processes: Processes) -> None:
    shell_git(home, "init", "-q")
    shell_git(home, "commit", "-q", "--allow-empty", "-m", "x")
    place = discover(processes, home)
    with pytest.raises(UserError, match="home folder"):
        preflight(Worktree(home, processes, place).git(), place, "demo")


@pytest.mark.parametrize("name", ["", "-x", "a b", "a..b", "a.lock", "x" * 121, "ä" * 61, "a\n"])
def test_illegal_names(name: str, repo: Worktree) -> None:
    with pytest.raises(UserError, match="cannot be used as a git branch name"):
        check_name(repo.git(), name)


def test_legal_names_and_slugs(repo: Worktree) -> None:
    check_name(repo.git(), "add-login")
    check_name(repo.git(), "größe/2")
    assert slug("Fix the  Login (please)!") == "fix-the-login-please"
    assert slug("x" * 39 + " yy") == "x" * 39


def test_what_an_agent_drops_is_excluded_once(repo: Worktree) -> None:
    for _ in range(2):
        exclude_own_files(repo.place, ("/.aider*",))
    repo.write(".aider.tags.cache.v4/x", "x")
    assert repo.sh("status", "--porcelain") == ""
    assert (repo.place.common_dir / "info/exclude").read_text().count("/.aider*") == 1


def test_loops_in_two_worktrees_exclude_their_files_at_once(repo: Worktree, tmp_path: Path) -> None:
    repo.sh("worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    places = [repo.place, discover(repo.processes, tmp_path / "other")]
    path = repo.place.common_dir / "info" / "exclude"
    with ThreadPoolExecutor(2) as pool:
        for _ in range(50):
            path.unlink(missing_ok=True)
            list(pool.map(exclude_own_files, places))
            assert EXCLUDE_LINE in path.read_text()
    assert not list(path.parent.glob("*.untildone"))


def test_own_files_are_excluded_once(repo: Worktree) -> None:
    path = repo.place.common_dir / "info" / "exclude"
    path.write_bytes(b"*.o")
    exclude_own_files(repo.place)
    exclude_own_files(repo.place)
    text = "*.o\n# untildone's own file\n" + EXCLUDE_LINE + "\n"
    assert path.read_text() == text
    path.unlink()
    path.parent.rmdir()
    exclude_own_files(repo.place)
    assert path.read_text() == text.removeprefix("*.o\n")
    repo.write(".claude/loop-state.json")
    assert repo.sh("status", "--porcelain") == ""


def _submodule(repo: Worktree) -> None:
    lib = repo.top.parent / "lib"
    lib.mkdir()
    shell_git(lib, "init", "-q")
    (lib / "lib.txt").write_text("lib\n")
    shell_git(lib, "add", "-A")
    shell_git(lib, "commit", "-q", "-m", "lib")
    allow = ("-c", "protocol.file.allow=always")
    repo.sh(*allow, "submodule", "--quiet", "add", str(lib), "vendor/lib")
    repo.sh("commit", "-q", "-m", "submodule")


@pytest.mark.parametrize("name", ["lib.txt", "new.txt"])
def test_dirty_submodules_are_refused(name: str, repo: Worktree) -> None:
    _submodule(repo)
    assert preflight(repo.git(), repo.place, "demo") == repo.origin
    repo.write(f"vendor/lib/{name}", "mine\n")
    with pytest.raises(UserError, match=r"uncommitted changes, .*: vendor/lib") as caught:
        preflight(repo.git(), repo.place, "demo")
    assert caught.value.hint == "git -C vendor/lib stash -u"


@pytest.mark.slow
def test_stale_locks_are_moved_aside(repo: Worktree) -> None:
    aside = repo.top.parent / "aside"
    assert move_stale_locks(repo.place, aside) == ()
    for name in ("HEAD.lock", "refs/heads/x.lock"):
        (repo.place.git_dir / name).write_text(name)
    assert move_stale_locks(repo.place, aside) == ("HEAD.lock", "refs/heads/x.lock")
    assert {path.name: path.read_text() for path in aside.iterdir()} == {
        "0000-HEAD.lock": "HEAD.lock",
        "0001-x.lock": "refs/heads/x.lock",
    }


@pytest.mark.slow
def test_the_index_is_replaced_by_gits_protocol(repo: Worktree) -> None:
    saved = repo.top.parent / "index"
    saved.write_bytes((repo.place.git_dir / "index").read_bytes())
    repo.write("new.txt")
    repo.sh("add", "-A")
    lock = repo.place.git_dir / "index.lock"
    lock.touch()
    with pytest.raises(StepError, match="Another git command holds the index"):
        install_index(repo.place, saved)
    lock.unlink()
    os.utime(saved, ns=(1_000_000_000, 1_000_000_001))
    install_index(repo.place, saved)
    assert (repo.place.git_dir / "index").stat().st_mtime_ns == 1_000_000_001
    assert repo.sh("status", "--porcelain") == "?? new.txt"
    assert os.listdir(repo.place.git_dir).count("index.lock") == 0
