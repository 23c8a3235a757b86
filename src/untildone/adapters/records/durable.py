"""What a power cut must not undo: a new or moved file needs its folder synced too."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from untildone.plain_files import new_file, opened

# Wait for what is on its way, write the rest, wait for it: SYNC_FILE_RANGE_* of sync_file_range(2).
WRITE_AND_WAIT = 1 | 2 | 4


def sync_folder(path: Path) -> None:
    """Put a folder's entries (or a file) on disk; where the platform cannot, do without."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


# Text too: some of these are written for every story, and pathlib costs more than the call.
Name = str | os.PathLike[str]


def replace_file(
    path: Name,
    parts: Iterable[bytes | bytearray],
    draft: Name,
    mode: int | None = None,
    *,
    new_draft: bool = False,
) -> None:
    """Write a whole file anew: readers see the old content or the new one, never a part.

    `new_draft`: a draft that is there already is a FileExistsError and stays.
    """
    with opened(draft, "xb") if new_draft else new_file(draft) as file:
        try:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
            if mode is not None:
                os.chmod(draft, mode)  # noqa: PTH101 - as above
            os.replace(draft, path)  # noqa: PTH105 - as above
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)  # noqa: PTH108 - as above
            raise


def shared_draft(path: Path, worktree: str) -> Path:
    """Where a file that all worktrees share is drafted: loops in two of them may both write it."""
    return path.with_name(f"{path.name}.{worktree}.untildone")


def move_file(source: Path, target: Path) -> None:
    """Move a file: at any instant, a power cut included, it is whole under one of its names."""
    target.parent.mkdir(parents=True, exist_ok=True)
    sync_folder(source)
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # Another disk: the copy is complete before the source goes.
        part = target.with_name(f"{target.name}.part")
        shutil.copy2(source, part)
        sync_folder(part)
        part.rename(target)
        sync_folder(target.parent)
        source.unlink()
    sync_folder(target.parent)


def write_out(fd: int) -> None:
    """Bring a file's bytes to the disk, to be made safe by the next sync of a file beside it.

    A sync of its own would cost a commit of the file system's journal each time.
    """
    call = _sync_file_range()
    if call is None or call(fd, 0, 0, WRITE_AND_WAIT):
        os.fsync(fd)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    import ctypes  # noqa: PLC0415 - costs start-up time, only a live loop needs it

    call = getattr(ctypes.CDLL(None), "sync_file_range", None)  # Linux only
    if call:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call


def free_name(folder: Path, name: str) -> Path:
    names = (folder / f"{name}.{k}" for k in range(10_000))
    return next(path for path in names if not os.path.lexists(path))
