"""What we ask the index and the files beside it, and do to an index."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import local

from untildone.adapters.git.git import STEP_TIMEOUT_S, Change, Git, git_failed, paths_in
from untildone.adapters.git.place import Place
from untildone.adapters.process.process import Captured
from untildone.plain_files import read_bytes

MOST_SPECS = 500
# Each thread has its own: the slots of lanes are looked at all at once.
_last = local()


def entries(git: Git, index: Path) -> bytes:
    """All entries of an index as `ls-files -v -s -z` prints them: tag, mode, blob, stage, path.

    A start asks five things of the user's index and one of its copy: git is asked once for the
    same bytes.
    """
    try:
        key = hashlib.sha1(read_bytes(index), usedforsecurity=False).digest()
    except FileNotFoundError:
        return b""
    except OSError:
        key = b""  # no file: git says what is wrong
    if not key or getattr(_last, "key", b"") != key:
        _last.listing, _last.key = git.do("ls-files", "-v", "-s", "-z", index=index), key
    listing: bytes = _last.listing
    return listing


def copy_index(git: Git, place: Place, source: Path, target: Path) -> None:
    """A copy of an index that needs no other file, with its times: git trusts stat data by them.

    A split one (`core.splitIndex`) holds little itself. The rest is in a file that git deletes when
    it is old: `splitIndex.sharedIndexExpire`.
    """
    shutil.copy2(source, target)
    if any(name.startswith("sharedindex.") for name in os.listdir(place.git_dir)):  # noqa: PTH208
        git.ask("update-index", "--force-write-index", index=target)


def link_or_copy(source: Path, target: Path) -> None:
    """An index under a second name."""
    # Git never writes into an index, it puts a new one in its place: a second name is a copy.
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copy2(source, target)


def has_path(listing: bytes, path: str) -> bool:
    """Whether a path is among the entries."""
    return b"\t%s\0" % os.fsencode(path) in listing


def has_unmerged(listing: bytes) -> bool:
    """Whether one of the entries is of a merge that is not resolved."""
    return listing.startswith(b"M ") or b"\0M " in listing


def files_in_index(git: Git, *paths: str) -> tuple[str, ...]:
    """Which of these paths the index has."""
    return paths_in(git.do("ls-files", "-z", "--", *paths))


def blobs_in_index(git: Git, paths: Sequence[str]) -> dict[str, str]:
    """What the index has for these files."""
    parts = (row.partition("\t") for row in _entries(git, paths))
    wanted = set(paths)
    return {path: meta.split(" ")[1] for meta, _, path in parts if path in wanted}


def written_since(git: Git, index: Path) -> tuple[str, ...]:
    """Files that were written or removed since this index was made, whatever they hold now."""
    words = ("diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=all")
    return paths_in(git.do(*words, index=index))


def is_refreshed(git: Git) -> bool:
    """Whether all files hold what the index has; it knows them by their new times then."""
    return git.ask("update-index", "--really-refresh").ok


def untracked_files(git: Git) -> tuple[str, ...]:
    """Untracked files one by one, without ignored ones."""
    return paths_in(git.do("ls-files", "-o", "--exclude-standard", "-z"))


def untracked_entries(git: Git) -> tuple[str, ...]:
    """Untracked files and folders, empty folders included; folders end with a slash."""
    return paths_in(git.do("ls-files", "-o", "--directory", "--exclude-standard", "-z"))


def has_only_tracked(git: Git) -> bool:
    """Whether nothing is there but tracked files: no ignored ones, no empty folders."""
    return not git.do("ls-files", "-o", "--directory", "-z")


def ignored_entries(git: Git) -> tuple[str, ...]:
    """What is ignored now; whole folders end with a slash."""
    out = git.do("ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z")
    return paths_in(out)


def ignored_files(git: Git, folders: Sequence[str]) -> tuple[str, ...]:
    """Ignored files one by one, below these entries."""
    specs = [f":(top,literal){path.rstrip('/')}" for path in folders]
    return paths_in(git.do("ls-files", "-o", "-i", "--exclude-standard", "-z", "--", *specs))


def ignored_under(git: Git, rules: Path, git_dir: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """Which paths the ignore files below `rules` (and the run's excludes) match."""
    answer = git.ask(
        f"--git-dir={git_dir}",
        f"--work-tree={rules}",
        *("check-ignore", "--no-index", "-z", "--stdin"),
        stdin="".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape"),
    )
    if answer.exit_code not in (0, 1):
        raise git_failed(("check-ignore",), answer)
    return paths_in(answer.stdout)


def _entries(git: Git, paths: Sequence[str]) -> tuple[str, ...]:
    few = paths if len(paths) <= MOST_SPECS else ()
    specs = [f":(top,literal){path}" for path in few]
    return paths_in(git.do("ls-files", "-s", "-z", "--", *specs))


def add_all(
    git: Git,
    *pathspec: str,
    index: Path | None = None,
    go_on: bool = False,
    limit_s: float = STEP_TIMEOUT_S,
) -> Captured:
    """Record every file that is not ignored in the index; says what it adds and removes.

    With `go_on` a file that git cannot take does not keep it from looking at the others.
    """
    flags = ("-A", "-v", "--sparse", *(("--ignore-errors",) if go_on else ()))
    return git.ask("add", *flags, "--", ":/", *pathspec, index=index, limit_s=limit_s)


def force_into_index(git: Git, paths: Iterable[str]) -> None:
    """Record files in the index, ignored or not."""
    listed = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    git.do("update-index", "--add", "-z", "--stdin", stdin=listed)


def add_as_is(git: Git, paths: Iterable[str], top: Path) -> None:
    """Record files in the index without any conversion."""
    rows = []
    for path in paths:
        mode = "100755" if os.access(top / path, os.X_OK) else "100644"
        data = read_bytes(top / path)
        rows.append(f"{mode} {git.line('hash-object', '-w', '--stdin', stdin=data)}\t{path}\0")
    listed = "".join(rows).encode("utf-8", "surrogateescape")
    git.do("update-index", "-z", "--index-info", stdin=listed)


def drop_from_index(git: Git, paths: Iterable[str], index: Path | None = None) -> None:
    """Forget paths in the index; files stay."""
    listed = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    git.do("update-index", "--force-remove", "-z", "--stdin", stdin=listed, index=index)


def forget_stat(git: Git, paths: Sequence[str]) -> None:
    """Let git look into these files again, even if they seem to be as it last saw them."""
    wanted = set(paths)
    rows = [row for row in _entries(git, paths) if row.partition("\t")[2] in wanted]
    listed = "".join(f"{row}\0" for row in rows).encode("utf-8", "surrogateescape")
    git.do("update-index", "-z", "--index-info", stdin=listed)


def reset_index(git: Git, tree: str) -> None:
    """The index as a tree has it; files stay."""
    git.do("read-tree", "-m", tree)


def fill_index(git: Git, tree: str) -> None:
    """A new index from a tree, whatever state the old one is in."""
    git.do("read-tree", "--reset", tree)


def add_tree_below(git: Git, prefix: str, tree: str) -> None:
    """Put a tree into the index below a folder."""
    git.do("read-tree", f"--prefix={prefix}/", tree)


def overlay(
    git: Git, tree: str, changes: Iterable[Change], index: Path, *, with_deletions: bool = False
) -> str:
    """A tree with the files of `changes` put over it."""
    taken = [c for c in changes if with_deletions or c.status != "D"]
    rows = "".join(f"{c.new_mode.lstrip('0') or '0'} {c.blob}\t{c.path}\0" for c in taken)
    git.do("read-tree", tree, index=index)
    listed = rows.encode("utf-8", "surrogateescape")
    git.do("update-index", "-z", "--index-info", stdin=listed, index=index)
    return git.write_tree(index=index)
