"""A checkpoint that is saved without comparing trees is the one that a full look would save."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.worktree import Worktree, made, shell_git
from untildone.adapters.git.git import Change, Git

# Git's own words in a name: `add -v` prints it as two lines.
TWO_LINES = "a.txt'\nadd 'b.txt"
SECRET = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEow" * 20 + "\n"


def nested(repo: Worktree, *, commit: bool) -> None:
    inner = repo.top / "inner"
    inner.mkdir()
    shell_git(inner, "init", "-q")
    (inner / "x.txt").write_text("x\n")
    if commit:
        shell_git(inner, "add", "-A")
        shell_git(inner, "commit", "-qm", "inner")


def staged(repo: Worktree, name: str, text: str) -> None:
    repo.write(name, text)
    repo.sh("add", "-f", name)


def hidden(repo: Worktree) -> None:
    repo.write(".gitignore", "*.log\n")
    repo.write("x.log", "x\n")


def shown(repo: Worktree) -> None:
    repo.write(".gitignore", "!build.tmp\n")


def elsewhere(repo: Worktree) -> None:
    repo.write("z.txt", "z\n")
    repo.sh("add", "z.txt")
    (repo.top / "z.txt").unlink()


def folder_for_file(repo: Worktree) -> None:
    (repo.top / "b.txt").unlink()
    repo.write("b.txt/x", "")


def file_for_folder(repo: Worktree) -> None:
    (repo.top / "d" / "only.txt").unlink()
    (repo.top / "d").rmdir()
    repo.write("d", "a file now\n")


def converted(repo: Worktree) -> None:
    repo.write(".gitattributes", "* text=auto\n")
    (repo.top / "w").write_bytes(b"\r\n")


def committed(repo: Worktree) -> None:
    repo.write("m.txt", "m\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-qm", "m")


def looked_at(repo: Worktree) -> None:
    (repo.top / "b.txt").touch()  # so that git writes the index anew, in whichever second it is
    repo.sh("status")


def packed(repo: Worktree, paths: list[str]) -> None:
    """As after a clone: no object is a file of its own."""
    for path in paths:
        repo.write(path, f"{path}\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-qm", "all")
    repo.sh("repack", "-adq")


DEEDS: dict[str, Callable[[Worktree], object]] = {
    "nothing": lambda repo: None,
    "an edit": lambda repo: repo.write("a.txt", "edited\n"),
    "a new file": lambda repo: repo.write("deep/er/n.txt", "n\n"),
    "a deletion": lambda repo: (repo.top / "b.txt").unlink(),
    "a renaming": lambda repo: (repo.top / "b.txt").rename(repo.top / "c.txt"),
    "a mode": lambda repo: (repo.top / "a.txt").chmod(0o755),
    "a link": lambda repo: (repo.top / "l").symlink_to("nowhere"),
    "odd names": lambda repo: [
        repo.write(n, "x") for n in ("it's", "new\nline", "ü ", "-v", "a'\nadd 'b")
    ],
    "an edit of a name like git's words": lambda repo: repo.write(TWO_LINES, "edited\n"),
    "such a name and another edit": lambda repo: [
        repo.write(n, "edited\n") for n in (TWO_LINES, "a.txt", "b.txt")
    ],
    "a file for a folder": file_for_folder,
    "a folder less": lambda repo: (repo.top / "d" / "only.txt").unlink(),
    "content that git has": lambda repo: repo.write("copy.txt", "b\n"),
    "a folder for a file": folder_for_file,
    "a fifo": lambda repo: os.mkfifo(repo.top / "f"),
    "a secret": lambda repo: repo.write("id_rsa", SECRET),
    "a secret in a known file": lambda repo: repo.write("a.txt", SECRET),
    "a staged secret": lambda repo: staged(repo, "id_rsa", SECRET),
    "a staged file that is gone": elsewhere,
    "a large file": lambda repo: repo.write("big.bin", "x" * 60 * 1024 * 1024),
    "a look by git": looked_at,
    "a new rule": hidden,
    "a rule against a rule": shown,
    "a staged ignored file": lambda repo: staged(repo, "build.tmp", "b\n"),
    "attributes": converted,
    "a repository": lambda repo: nested(repo, commit=True),
    "a repository without a commit": lambda repo: nested(repo, commit=False),
    "a commit": committed,
    "an index that is gone": lambda repo: (repo.place.git_dir / "index").unlink(),
}


def story(
    repo: Worktree, deed: Callable[[Worktree], object], *, again: bool, before: bool = True
) -> tuple[str, ...]:
    """Save a story with this deed, by the same process or by a new one; `before` it another."""
    repo.write(".gitignore", "*.tmp\n")
    repo.write("build.tmp", "mine\n")
    repo.write("b.txt", "b\n")
    repo.write(TWO_LINES, "odd\n")
    repo.write("d/only.txt", "d\n")
    checkpoint, opened = repo.open()
    last = opened.checkpoint
    repo.write("first.txt", "1\n")
    if before:
        checkpoint.ensure_at(last, "1")
        last = checkpoint.save(0, last, "checkpoint: 1\n", only_changes=False).checkpoint
    checkpoint.ensure_at(last, "2")
    deed(repo)
    if again:
        checkpoint = repo.checkpoint()
    checkpoint.commits(last)
    second = checkpoint.save(0, last, "checkpoint: 2\n", only_changes=False)
    repo.sh("fsck", "--strict")
    tree = repo.sh("rev-parse", f"{second.checkpoint}^{{tree}}")
    return tree, repo.sh("status", "--porcelain"), *second.remarks


@pytest.mark.parametrize("before", [True, False], ids=["a later story", "the first story"])
@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
def test_it_makes_no_difference(
    tmp_path: Path, deed: Callable[[Worktree], object], *, before: bool
) -> None:
    quick = story(made(tmp_path / "quick"), deed, again=False, before=before)
    full = story(made(tmp_path / "full"), deed, again=True, before=before)
    assert quick == full


@pytest.mark.parametrize(("deed", "looks"), [("a new file", 0), ("a look by git", 1)])
def test_trees_are_compared_when_needed(
    repo: Worktree, deed: str, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Git, "diff_trees", _counted(Git.diff_trees, seen))
    story(repo, DEEDS[deed], again=False)
    assert len([new for new in seen if new]) - 1 == looks  # one is of the start


@pytest.mark.parametrize("seed", range(12))
def test_any_run_of_ordinary_stories_is_saved_as_git_would(repo: Worktree, seed: int) -> None:
    drawn = random.Random(seed)
    folders = ["", "d/", "d/e/", "d.e/", "d0/", "long/er/way/"]
    paths = [f"{folder}{name}" for folder in folders for name in ("a", "a.b", "a0", "ü b")]
    if seed % 2:
        packed(repo, paths)
    checkpoint, opened = repo.open()
    last = opened.checkpoint
    for n in range(15):
        checkpoint.ensure_at(last, str(n))
        for path in drawn.sample(paths, drawn.randint(0, 4)):
            target = repo.top / path
            if target.exists() and drawn.random() < 0.4:
                target.unlink()
            elif target.exists() and drawn.random() < 0.3:
                target.chmod(drawn.choice((0o644, 0o755)))
            else:
                repo.write(path, f"{n} {drawn.random()}\n")
        last = checkpoint.save(0, last, f"checkpoint: {n}\n", only_changes=False).checkpoint
        index = repo.top.parent / f"index-{n}"
        shell_git(repo.top, "add", "-A", index=index)
        expected = shell_git(repo.top, "write-tree", index=index)
        assert repo.sh("rev-parse", f"{last}^{{tree}}") == expected
    repo.sh("fsck", "--strict")
    assert repo.sh("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("deed", "asked"),
    [("an edit", 0), ("a new file", 0), ("a deletion", 0), ("a link", 1), ("a mode", 1)],
)
def test_git_makes_the_tree_when_the_change_is_not_ordinary(
    repo: Worktree, deed: str, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Git] = []
    real = Git.write_tree

    def noted(self: Git, index: Path | None = None) -> str:
        seen.append(self)
        return real(self, index)

    def from_here(repo: Worktree) -> None:
        seen.clear()
        DEEDS[deed](repo)

    monkeypatch.setattr(Git, "write_tree", noted)
    story(repo, from_here, again=False)
    assert len(seen) == asked


def test_trees_in_a_pack_are_asked_for_at_once(
    repo: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(repo, ["d/a", "d/e/b", "f/c", "g"])
    checkpoint, opened = repo.open()
    for path in ("d/e/b", "f/c", "f/new/x"):
        repo.write(path, "edited\n")
    checkpoint.ensure_at(opened.checkpoint, "1")
    asked: list[str] = []
    ask = Git.ask

    def noted(self: Git, *args: str, **more: Any) -> object:
        asked.append(args[0])
        return ask(self, *args, **more)

    monkeypatch.setattr(Git, "ask", noted)
    saved = checkpoint.save(0, opened.checkpoint, "checkpoint: 1\n", only_changes=False)
    assert asked == ["add", "cat-file", "update-ref"]
    monkeypatch.undo()
    repo.sh("fsck", "--strict")
    repo.sh("diff", "--exit-code", saved.checkpoint)
    assert repo.sh("status", "--porcelain") == ""


def _counted(real: Callable[..., tuple[Change, ...]], seen: list[str]) -> Callable[..., object]:
    def look(self: Git, old: str, new: str, **more: bool) -> tuple[Change, ...]:
        seen.append(new)
        return real(self, old, new, **more)

    return look
