"""What is in a slot is byte for byte what a checkout of the user's own would have."""

from pathlib import Path

import pytest

from tests.adapters.slots.lanes import Lanes, files, is_sound, shell
from tests.adapters.worktree import Worktree, shell_git
from untildone.adapters.git.repository import discover
from untildone.adapters.slots.slot import WORKTREE
from untildone.domain.errors import UserError


def commit(repo: Worktree, message: str = "more") -> str:
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", message)
    return repo.sh("rev-parse", "HEAD")


@pytest.mark.parametrize("setting", ["core.autocrlf true", "core.eol crlf", "core.autocrlf input"])
def test_line_ends_are_the_users(lanes: Lanes, setting: str) -> None:
    repo = lanes.repo
    repo.write(".gitattributes", "*.txt text\n*.bat text eol=crlf\n")
    repo.write("x.bat", "x\n")
    commit(repo)
    repo.sh("config", *setting.split())
    repo.sh("rm", "-rq", "--cached", ".")
    repo.sh("reset", "-q", "--hard")
    for path in ("a.txt", "x.bat"):
        (repo.top / path).unlink()
    repo.sh("checkout", "-q", ".")

    assert files(lanes.prepare().slot.top) == files(repo.top)
    work = lanes.story("printf 'one\\r\\ntwo\\r\\n' > new.txt")
    repo.write("new.txt", "one\r\ntwo\r\n")
    assert lanes.file(work, "new.txt") == repo.sh("show", f"{commit(repo)}:new.txt")


def test_filters_of_the_users_settings_work_in_a_slot(lanes: Lanes) -> None:
    repo = lanes.repo
    repo.sh("config", "filter.upper.smudge", "tr a-z A-Z")
    repo.sh("config", "filter.upper.clean", "tr A-Z a-z")
    repo.write(".git/info/attributes", "*.up filter=upper\n")
    repo.write("x.up", "HELLO\n")
    commit(repo)

    top = lanes.prepare().slot.top
    assert (top / "x.up").read_bytes() == b"HELLO\n"
    work = lanes.story("printf 'WORLD\\n' >> x.up")
    assert lanes.file(work, "x.up") == "hello\nworld"


def test_an_agents_commits_are_by_the_user_and_run_no_hook(lanes: Lanes, home: Path) -> None:
    included = home / "work.config"
    included.write_text('[user]\n\tname = "A \\"B\\" C"\n\temail = work@example.invalid\n')
    with (home / ".gitconfig").open("a") as file:
        file.write(f'[includeIf "gitdir:{lanes.repo.top}/"]\n\tpath = {included}\n')
        file.write(f"[core]\n\thooksPath = {home}/hooks\n[commit]\n\tgpgSign = true\n")
    (home / "hooks").mkdir()
    hook = home / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)

    prepared = lanes.prepare()
    lanes.attempt(prepared, "echo x > x; git add x; git commit -qm x")
    said = shell_git(prepared.slot.top, "log", "-1", "--format=%an <%ae>")
    assert said == 'A "B" C <work@example.invalid>'


def test_a_sparse_checkout_stays_sparse(lanes: Lanes) -> None:
    repo = lanes.repo
    repo.write("big/one.txt", "1\n")
    commit(repo)
    repo.sh("sparse-checkout", "set", "src")

    prepared = lanes.prepare()
    assert files(prepared.slot.top) == files(repo.top)
    assert "big/one.txt" not in files(prepared.slot.top)
    lanes.attempt(prepared, "echo x > src/new; mkdir big; echo y > big/new")
    work = lanes.save(prepared)
    assert set(repo.tree(work)) == {
        ".gitignore",
        "a.txt",
        "big/new",
        "big/one.txt",
        "src/b.txt",
        "src/new",
    }
    assert files(lanes.prepare().slot.top) == files(repo.top)


def test_a_sha_256_repository_has_slots(tmp_path: Path, repo: Worktree) -> None:
    top = tmp_path / "new"
    top.mkdir()
    shell_git(top, "init", "-q", "--object-format=sha256", "-b", "main")
    other = Worktree(top, repo.processes, discover(repo.processes, top))
    other.write("a.txt", "a\n")
    commit(other)
    lanes = Lanes(other, tmp_path / "slots")
    work = lanes.story("echo b > b; git add b; git commit -qm b; echo c > c")
    assert len(work) == 64
    assert lanes.file(work, "b") == "b"
    lanes.prepare()
    assert lanes.slots.delete(0).deleted
    assert is_sound(top)


def test_a_shallow_repository_has_slots(tmp_path: Path, lanes: Lanes) -> None:
    source = f"file://{lanes.repo.top}"
    shell_git(tmp_path, "clone", "-q", "--depth=1", source, "shallow")
    place = discover(lanes.repo.processes, tmp_path / "shallow")
    shallow = Lanes(Worktree(place.top, lanes.repo.processes, place), tmp_path / "slots")
    work = shallow.story("echo b > b; git add b; git commit -qm b")
    assert shallow.file(work, "b") == "b"
    assert is_sound(place.top)


def test_names_that_differ_in_case_only_are_two_files(lanes: Lanes) -> None:
    lanes.repo.sh("config", "core.ignorecase", "true")
    lanes.repo.write("Src/B.txt", "other\n")
    shell(lanes.repo.top, "git -c core.ignorecase=false add -A; git commit -qm case")
    assert files(lanes.prepare().slot.top) == files(lanes.repo.top)
    work = lanes.story("mv a.txt A.txt")
    assert "A.txt" in lanes.repo.tree(work)
    assert "a.txt" not in lanes.repo.tree(work)


def test_odd_names_and_modes_come_along(lanes: Lanes) -> None:
    script = "mkdir -p 'a b'; echo 1 > 'a b/-x'; printf x > \"$(printf 'n\\303\\251w\\nline')\"; "
    script += "ln -s nowhere link; echo run > run; chmod +x run"
    work = lanes.story(script)
    lanes.repo.sh("merge", "-q", "--ff-only", work)
    again = lanes.prepare()
    assert files(again.slot.top) == files(lanes.repo.top)
    assert (again.slot.top / "link").is_symlink()
    assert (again.slot.top / "run").stat().st_mode & 0o100


def test_submodules_are_refused_in_a_clone_and_work_in_a_worktree(
    lanes: Lanes, tmp_path: Path
) -> None:
    repo = lanes.repo
    shell_git(tmp_path, "clone", "-q", str(repo.top), "library")
    repo.sh("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "library"))
    commit(repo)

    with pytest.raises(UserError, match="submodules") as refused:
        lanes.prepare()
    assert "--slots worktree" in refused.value.hint
    linked = Lanes(repo, tmp_path / "slots", WORKTREE)
    work = linked.story("git -c protocol.file.allow=always submodule -q update --init; echo b > b")
    assert linked.file(work, "b") == "b"


def test_git_lfs_is_refused_in_a_clone(lanes: Lanes) -> None:
    lanes.repo.sh("config", "filter.lfs.clean", "cat")
    lanes.prepare()
    lanes.repo.write("img/.gitattributes", "*.png filter=lfs\n")
    commit(lanes.repo)
    lanes.slots.delete(0)
    with pytest.raises(UserError, match="Git LFS"):
        lanes.prepare()


def test_a_partial_clone_is_refused(lanes: Lanes) -> None:
    lanes.repo.sh("config", "core.repositoryformatversion", "1")
    lanes.repo.sh("config", "extensions.partialClone", "origin")
    with pytest.raises(UserError, match="partial clone"):
        lanes.prepare()
