"""HEAD and index as git needs them: an attempt may have made them something it cannot read."""

import os
import stat
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
