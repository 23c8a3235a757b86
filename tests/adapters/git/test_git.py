"""Git's answers, from real repositories with awkward names."""

import os
from pathlib import Path

import pytest

from tests.adapters.worktree import Worktree, shell_git
from untildone.adapters.git.environment import clean_environment
from untildone.adapters.git.git import Change, Ref, git_failed
from untildone.adapters.git.index import (
    add_all,
    add_tree_below,
    drop_from_index,
    files_in_index,
    fill_index,
    ignored_entries,
    ignored_under,
    overlay,
    reset_index,
)
from untildone.adapters.process.process import Captured, Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.domain.errors import Interrupted, StepError

ODD = "spåce\tand\nnewline \udcff.txt"


def test_inherited_variables_are_ignored() -> None:
    given = {"GIT_DIR": "/elsewhere", "GIT_INDEX_FILE": "x", "HOME": "/h", "LC_ALL": "de_DE"}
    users = {"GIT_CONFIG_GLOBAL": "/mine", "GIT_AUTHOR_NAME": "Ada", "EMAIL": "ada@x.invalid"}
    assert clean_environment(given | users) == users | {
        "HOME": "/h",
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }


def test_resolve_and_ancestors(repo: Worktree) -> None:
    git, base = repo.git(), repo.sh("rev-parse", "HEAD")
    repo.sh("commit", "-q", "--allow-empty", "-m", "second\n\nbody")
    head = repo.sh("rev-parse", "HEAD")
    assert (git.resolve("HEAD"), git.resolve("nowhere")) == (head, "")
    assert (git.is_ancestor(base, head), git.is_ancestor(head, base)) == (True, False)
    assert git.is_ancestor(head, head)
    assert git.commits_since(base, [head, "", base]) == (head,)
    assert git.commits_since(base, [base]) == ()
    assert git.message(head).strip() == "second\n\nbody"
    assert git.tree_of(base) == repo.sh("rev-parse", "HEAD~^{tree}")


def test_refs_know_their_worktree(repo: Worktree, tmp_path: Path) -> None:
    repo.sh("worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    repo.sh("tag", "v1")
    head = repo.sh("rev-parse", "HEAD")
    assert repo.git().refs("refs/heads/", "refs/tags/") == {
        "refs/heads/feature/x": Ref(head, str(repo.top)),
        "refs/heads/other": Ref(head, str(tmp_path / "other")),
        "refs/tags/v1": Ref(head),
    }


@pytest.mark.parametrize("name", ["a\u2028b", "a\u0085b", "größe"])
def test_refs_with_awkward_names(name: str, repo: Worktree) -> None:
    repo.sh("branch", name)
    head = repo.sh("rev-parse", "HEAD")
    assert repo.git().refs("refs/heads/") == {
        "refs/heads/feature/x": Ref(head, str(repo.top)),
        f"refs/heads/{name}": Ref(head),
    }


@pytest.mark.parametrize("unknown", ["nowhere", "1" * 40])
def test_a_merge_with_an_unknown_object_is_an_error(unknown: str, repo: Worktree) -> None:
    with pytest.raises(StepError, match="`git merge-tree` failed"):
        repo.git().merged_tree("HEAD", unknown)


def test_trees_with_awkward_names(repo: Worktree) -> None:
    git = repo.git()
    old = git.tree_of("HEAD")
    Path(os.fsencode(repo.top).decode("utf-8", "surrogateescape"), ODD).write_text("x")
    (repo.top / "a.txt").unlink()
    assert add_all(git).ok
    new = git.write_tree()
    blob = repo.sh("hash-object", "--stdin", stdin="x")
    old_blob, zero = repo.sh("rev-parse", "HEAD:a.txt"), "0" * 40
    assert git.diff_trees(old, new) == (
        Change("D", "100644", "000000", zero, "a.txt"),
        Change("A", "000000", "100644", blob, ODD),
    )
    assert git.diff_trees(old, old) == ()
    assert files_in_index(git, ODD, "a.txt") == (ODD,)
    assert git.files_at(new) == (ODD,)
    assert git.content("HEAD", "a.txt") == b"a\n"
    drop_from_index(git, [ODD])
    assert files_in_index(git, ODD) == ()
    index = repo.place.git_dir / "other.index"
    whole = overlay(git, old, git.diff_trees(old, new), index)
    assert {c.path for c in git.diff_trees(old, whole)} == {ODD}
    assert old_blob != blob


def test_refs_move_together_or_not_at_all(repo: Worktree) -> None:
    git, head = repo.git(), repo.sh("rev-parse", "HEAD")
    git.update_refs([("refs/x/a", head, ""), ("refs/x/b", head, None)], "why")
    with pytest.raises(StepError, match=r"`git update-ref` failed: .*refs/x/a"):
        git.update_refs([("refs/x/c", head, ""), ("refs/x/a", head, "")], "taken")
    assert set(git.refs("refs/x/")) == {"refs/x/a", "refs/x/b"}
    git.update_refs([("refs/x/a", "", head), ("refs/x/b", "", None)], "gone")
    assert git.refs("refs/x/") == {}


def test_a_removed_ref_takes_no_folder_along_that_git_needs(repo: Worktree) -> None:
    git, head = repo.git(), repo.sh("rev-parse", "HEAD")
    repo.sh("pack-refs", "--all")
    refs = repo.place.common_dir / "refs"
    (refs / "tags").rmdir()
    for name in ("refs/heads/ralph/demo", "refs/ralph/attempts/demo/1/1"):
        git.update_refs([(name, head, "")], "why")
        git.update_refs([(name, "", head)], "gone")
    assert repo.sh("rev-parse", "HEAD") == head
    assert sorted(path.name for path in refs.iterdir()) == ["heads", "ralph"]
    assert not any((refs / "ralph").iterdir())


def test_head_moves_without_touching_files(repo: Worktree) -> None:
    git, head = repo.git(), repo.sh("rev-parse", "HEAD")
    repo.write("a.txt", "edited\n")
    git.update_refs([("refs/heads/ralph/demo", head, "")], "why")
    git.point_head("ralph/demo", "why")
    assert repo.sh("branch", "--show-current") == "ralph/demo"
    git.detach_head(head, "why")
    assert repo.sh("branch", "--show-current") == ""
    assert repo.files() == {"a.txt": "edited\n"}


def test_index_to_and_fro(repo: Worktree) -> None:
    git = repo.git()
    repo.write("new.txt", "new\n")
    add_all(git)
    reset_index(git, "HEAD")
    assert repo.sh("status", "--porcelain") == "?? new.txt"
    (repo.place.git_dir / "index").write_bytes(b"broken")
    assert not add_all(git).ok
    (repo.place.git_dir / "index").unlink()
    fill_index(git, "HEAD")
    add_tree_below(git, "sub", git.tree_of("HEAD"))
    assert files_in_index(git) == ("a.txt", "sub/a.txt")
    assert not git.checkout_tree("nowhere").ok


def test_ignored(repo: Worktree) -> None:
    repo.write(".gitignore", "*.log\ncache/\n")
    repo.write("x.log")
    repo.write("cache/deep/x")
    git = repo.git()
    assert ignored_entries(git) == ("cache/", "x.log")
    rules = repo.place.git_dir / "rules"
    rules.mkdir()
    (rules / ".gitignore").write_text("*.env\n")
    paths = ["x.log", "a.env", ODD]
    assert ignored_under(git, rules, repo.place.git_dir, paths) == ("a.env",)
    assert ignored_under(git, rules, repo.place.git_dir, ["x.log"]) == ()
    excludes = repo.place.git_dir / "excludes"
    excludes.write_text("x.*\n")
    git.use_excludes(excludes)
    assert ignored_under(git, rules, repo.place.git_dir, paths) == ("x.log", "a.env")
    with pytest.raises(StepError, match="check-ignore"):
        ignored_under(git, rules, repo.top / "nowhere", paths)


def test_a_merge_in_memory(repo: Worktree) -> None:
    git = repo.git()
    base = repo.sh("rev-parse", "HEAD")
    commits = []
    for name, text in (("b.txt", "b\n"), ("c.txt", "c\n"), ("b.txt", "other\n")):
        repo.sh("checkout", "-q", base)
        repo.write(name, text)
        repo.sh("add", "-A")
        repo.sh("commit", "-q", "-m", name)
        commits.append(repo.sh("rev-parse", "HEAD"))
    tree, conflicts = git.merged_tree(commits[0], commits[1])
    assert (set(repo.tree(tree)), conflicts) == ({"a.txt", "b.txt", "c.txt"}, ())
    assert git.merged_tree(commits[0], commits[2])[1] == ("b.txt",)
    repo.sh("checkout", "-q", "--orphan", "unrelated")
    repo.sh("commit", "-q", "-m", "unrelated")
    with pytest.raises(StepError, match="unrelated histories"):
        git.merged_tree(base, repo.sh("rev-parse", "HEAD"))


def test_hooks_and_signing_stay_out(repo: Worktree) -> None:
    hook = repo.place.git_dir / "hooks" / "reference-transaction"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    repo.sh("config", "commit.gpgSign", "true")
    repo.sh("config", "gpg.program", "/nowhere")
    git = repo.git()
    commit = git.commit_tree(git.tree_of("HEAD"), ["HEAD"], "ours\n")
    git.update_refs([("refs/x/a", commit, "")], "why")
    assert git.resolve("refs/x/a") == commit
    assert repo.sh("log", "-1", "--format=%an %s", commit) == "Ada Tester ours"


def test_an_identity_where_there_is_none(repo: Worktree, home: Path) -> None:
    (home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    git = repo.git()
    git.use_fallback_identity_if_none()
    commit = git.commit_tree(git.tree_of("HEAD"), [], "ours\n")
    assert repo.sh("log", "-1", "--format=%an <%ae>", commit) == "untildone <untildone@localhost>"


def test_configuration(repo: Worktree) -> None:
    repo.sh("config", "core.excludesFile", "~/ig nore")
    repo.sh("config", "filter.Big.clean", "cat")
    git = repo.git()
    assert git.config("core.excludesfile") == "~/ig nore"
    assert git.config("filter.Big.clean") == "cat"
    assert git.config("no.such") == ""


def test_a_stop_request_cuts_it_short(repo: Worktree) -> None:
    wake = WakePipe()
    wake.set()
    git = Worktree(repo.top, Processes(wake.fd), repo.place).git(lambda: True)
    shell_git(repo.top, "config", "alias.wait", "!exec sleep 60")
    with pytest.raises(Interrupted, match="`git wait` was cut short"):
        git.ask("wait")


def test_gits_own_words() -> None:
    answer = Captured(128, b"", b"fatal: no\n")
    assert git_failed(("-C", "x", "add"), answer).message == "`git x` failed: fatal: no"
    assert git_failed(("--x",), Captured(7, b"", b"")).message == "`git --x` failed: exit code 7"
