"""What an attempt may have made unreadable for git: HEAD, the index, and files that are pipes now.

Git sees no repository without a HEAD, and would wait for a pipe, socket or device for ever.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from untildone.adapters.git.object_files import content, head_text
from untildone.adapters.records.durable import free_name, replace_file
from untildone.domain.regex import regex

# What git takes for a HEAD; without one it sees no repository at all.
_HEAD = regex(rb"ref:\s*refs/[^\n]+\n?|[0-9a-f]{40}\s*|[0-9a-f]{64}\s*")
NOTE = "HEAD"


def note_head(git_dir: Path) -> None:
    """Write down where HEAD is, in our own folder: costs two short reads if it is known."""
    head, note = head_text(git_dir), _note(git_dir)
    if _HEAD.fullmatch(head) and content(note) != head:
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
