"""Opening files that anybody may have replaced: this door never waits.

Opening a pipe that nobody writes to would last for ever, deaf to every signal. Here whatever is
not a regular file is an OSError at once.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # `typing` would cost `status --json` a third of its own time
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO

Name = str | bytes | os.PathLike[str]
_PART = 1024 * 1024


def opened(
    path: Name, mode: str = "rb", buffering: int = -1, *, private: bool = False
) -> IO[bytes]:
    """A file for bytes, as `open` gives it; a new `private` one is for its owner alone."""
    opener = _private if private else _opener
    found: IO[bytes] = open(path, mode, buffering, opener=opener)
    return found


def _private(path: Name, flags: int) -> int:
    return _opener(path, flags, 0o600)


def _opener(path: Name, flags: int, permissions: int = 0o666) -> int:
    return _measured(path, flags, permissions)[0]


def _measured(path: Name, flags: int, permissions: int = 0o666) -> tuple[int, int]:
    """An open file and its size."""
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, permissions)
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode):
        return fd, found.st_size
    os.close(fd)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "Not a regular file", path)


def new_file(path: Name) -> IO[bytes]:
    """An empty file under a name of ours; whatever else has that name goes."""
    try:
        return opened(path, "wb")
    except OSError:
        if not os.path.lexists(path) or stat.S_ISDIR(os.lstat(path).st_mode):
            raise
        os.unlink(path)
        return opened(path, "wb")


def read_bytes(path: Name) -> bytes:
    """All bytes of a file. A story reads dozens, and a file object doubles the system calls."""
    fd, size = _measured(path, os.O_RDONLY)
    try:
        data = os.read(fd, size + 1)
        if len(data) == size:
            return data
        parts = [data]  # it grows, or its disk does not know its size, as that of /proc
        while part := os.read(fd, _PART):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def tail(path: Name, start: int, most: int = 16 * 1024) -> str:
    """The last part of a text file, from a place on."""
    with opened(path) as file:
        file.seek(max(start, file.seek(0, os.SEEK_END) - most))
        return file.read().decode(errors="replace")


def contents(paths: Iterable[str]) -> dict[str, bytes]:
    """What each of these files holds; of one that cannot be read nothing."""
    found = {}
    for path in paths:
        try:
            found[path] = read_bytes(path)
        except OSError:
            found[path] = b""
    return found


def read_text(path: Name, errors: str = "strict") -> str:
    """The text of a file, which is UTF-8; line ends are as Python wants them."""
    with open(path, encoding="utf-8", errors=errors, opener=_opener) as file:
        return file.read()
