"""What an attempt may have made unreadable for git: HEAD, the index, and files that are pipes now.

Git sees no repository without a HEAD, and would wait for a pipe, socket or device for ever.
"""

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from untildone.adapters.git.object_files import Stamp, content, head_text, stamp
from untildone.adapters.records.durable import free_name, replace_file
from untildone.domain.regex import regex

# What git takes for a HEAD; without one it sees no repository at all.
_HEAD = regex(rb"ref:\s*refs/[^\n]+\n?|[0-9a-f]{40}\s*|[0-9a-f]{64}\s*")
NOTE = "HEAD"


def note_head(git_dir: Path) -> None:
    """Write down where HEAD is, in our own folder: costs two short reads if it is known."""
    head, note = head_text(git_dir), _note(git_dir)
    if _HEAD.fullmatch(head) and content(note) != head:
        Path(note).parent.mkdir(exist_ok=True)
        replace_file(Path(note), [head], Path(f"{note}.draft"))


def _note(git_dir: Path) -> str:
    """As text: it is read several times per story, and paths cost more than the reading."""
    return f"{git_dir}/untildone/{NOTE}"


def repair_head(git_dir: Path) -> Path | None:
    """Put HEAD back to the note if git cannot read it; where the damaged one is now."""
    noted = content(_note(git_dir))
    if not noted or is_readable(f"{git_dir}/HEAD"):
        return None
    head, aside = git_dir / "HEAD", git_dir / "untildone" / "damaged"
    aside.mkdir(exist_ok=True)
    target = free_name(aside, "HEAD")
    if os.path.lexists(head):
        head.rename(target)
    replace_file(head, [noted], git_dir / "HEAD.untildone")
    return target


def repair_around(folder: Path) -> bool:
    """The same for the repository around a folder which git sees no more."""
    for above in (folder, *folder.parents):
        pointer = above / ".git"
        if pointer.is_file():
            text = os.fsdecode(content(pointer)).strip().removeprefix("gitdir: ")
            return repair_head(above / text) is not None
        if pointer.is_dir():
            return repair_head(pointer) is not None
    return False


def move_broken_index(git_dir: Path, aside: Path) -> Path | None:
    """Move an index away that is no file; where it is now."""
    index = git_dir / "index"
    if not os.path.lexists(index) or index.is_file():
        return None
    aside.mkdir(parents=True, exist_ok=True)
    target = free_name(aside, "index")
    index.rename(target)
    return target


class IndexCopy:
    """An index that is not the run's, kept while an attempt goes on.

    Whoever it belongs to may write it meanwhile: only one that git cannot read is put back.
    """

    def __init__(self, git_dir: Path, run_folder: Path) -> None:
        self._index = git_dir / "index"
        self._copy = run_folder / f"index-of-{git_dir.name.lstrip('.')}"
        self._aside = run_folder / "aside"
        self._seen: Stamp | None = None

    def note(self) -> None:
        """Copy it unless it is as it was; one that cannot be read is nothing to go back to."""
        now = stamp(self._index)
        if now and now == self._seen:
            return
        self._seen = now
        if not _is_index(self._index):
            self._copy.unlink(missing_ok=True)
            return
        draft = self._copy.with_suffix(".draft")
        with contextlib.suppress(FileNotFoundError):  # git is just putting a new one in its place
            shutil.copy2(self._index, draft)
            draft.replace(self._copy)

    def put_back(self) -> bool:
        """Put the copy in the place of what git cannot read, which is moved aside."""
        now = stamp(self._index)
        as_noted = now is not None and now == self._seen
        if as_noted or not self._copy.is_file() or _is_index(self._index):
            return False
        if os.path.lexists(self._index.with_suffix(".lock")):
            return False  # some git command is about to write it
        if os.path.lexists(self._index):
            self._aside.mkdir(parents=True, exist_ok=True)
            shutil.move(self._index, free_name(self._aside, "index"))
        draft = self._index.with_suffix(".untildone")
        shutil.copy2(self._copy, draft)  # with its times: git trusts stat data by them
        draft.replace(self._index)
        return True


def _is_index(path: Path) -> bool:
    """Whether git can read this: it begins with git's word and ends with its own checksum."""
    data = content(path) if path.is_file() else b""
    if not data.startswith(b"DIRC"):
        return False
    for size, name in ((20, "sha1"), (32, "sha256")):
        end = data[-size:]
        if end in (bytes(size), hashlib.new(name, data[:-size], usedforsecurity=False).digest()):
            return True  # zeros: `index.skipHash`
    return False


def is_readable(head: Path | str) -> bool:
    """Whether git takes this for a HEAD."""
    try:
        mode = os.lstat(head).st_mode
    except OSError:
        return False
    if stat.S_ISLNK(mode):
        return os.readlink(head).startswith("refs/")  # noqa: PTH115 - as above
    return stat.S_ISREG(mode) and bool(_HEAD.fullmatch(content(head)))


READ_IN_EVERY_FOLDER = {".gitignore", ".gitattributes", ".gitmodules"}
OWN = "untildone"


def move_special_files(top: Path, folders: Iterable[Path], aside: Path) -> tuple[str, ...]:
    """Move pipes and the like out of git's way, from worktree and git folders; says which."""
    moved = []
    for path in (*_read_by_git(top), *(p for folder in set(folders) for p in _in_git(folder))):
        aside.mkdir(parents=True, exist_ok=True)
        path.rename(free_name(aside, path.name))
        moved.append(str(path))
    return tuple(moved)


def _read_by_git(top: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(top):
        if ".git" in folders:
            folders.remove(".git")
        names = (Path(folder, name) for name in READ_IN_EVERY_FOLDER.intersection(files))
        yield from filter(_is_special, names)


def _in_git(git_dir: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(git_dir):
        if folder == str(git_dir) and OWN in folders:
            folders.remove(OWN)  # we know how to read our own
        yield from filter(_is_special, (Path(folder, name) for name in files))


def _is_special(path: Path) -> bool:
    """As git sees it, which follows links; one to nowhere is no obstacle."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
