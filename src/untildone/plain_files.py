"""Opening files that anybody may have replaced: this door never waits.

Opening a pipe that nobody writes to would last for ever, deaf to every signal. Here whatever is
not a regular file is an OSError at once.
"""

import errno
import os
import stat
from typing import IO

Name = str | bytes | os.PathLike[str]


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
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, permissions)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
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
    """All bytes of a file."""
    with opened(path) as file:
        return file.read()


def read_text(path: Name, errors: str = "strict") -> str:
    """The text of a file, which is UTF-8; line ends are as Python wants them."""
    with open(path, encoding="utf-8", errors=errors, opener=_opener) as file:
        return file.read()
