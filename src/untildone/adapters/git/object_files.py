"""What can be told from a git folder's files, or put there, without starting git."""

import contextlib
import hashlib
import os
import re
import stat
import time
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from untildone.domain.regex import regex
from untildone.plain_files import opened, read_bytes

Stamp = tuple[int, int, int]

_COMMIT = regex(rb"([0-9a-f]{40}|[0-9a-f]{64})\n?")
_PART = 1024 * 1024
_HASHES = {40: "sha1", 64: "sha256"}


def content(path: Path | str) -> bytes:
    """What a file holds; nothing if it is not there."""
    try:
        return read_bytes(path)
    except OSError:
        return b""


def head_text(git_dir: Path) -> bytes:
    """HEAD as a line; it may be a link to its branch, as `core.preferSymlinkRefs` makes it."""
    path = f"{git_dir}/HEAD"
    with contextlib.suppress(OSError):
        target = os.fsencode(os.readlink(path))  # noqa: PTH115 - as above
        if target.startswith(b"refs/"):
            return b"ref: %s\n" % target
    return content(path)


def files_below(folder: str) -> list[str]:
    """All that is no folder; text, because `os.walk` and paths cost more than the listing."""
    found: list[str] = []
    folders = [folder]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else found).append(entry.path)
    return found


def stamp(path: Path | str) -> Stamp | None:
    """What tells a file from one that was put in its place or written to."""
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def ref_in_file(common: Path, name: str) -> str | None:
    """Where a ref points: empty if there is none, None if only git can tell."""
    data = content(common / name)
    if data:
        found = _COMMIT.fullmatch(data)
        return found[1].decode() if found else None
    return "" if has_no_refs(common, name) else None


def has_no_refs(common: Path, prefix: str) -> bool:
    """Whether surely no ref of this name, or below it, exists."""
    if not (common / "refs").is_dir() or (common / "reftable").exists():
        return False
    if os.path.lexists(common / prefix):
        return False
    return not (common / "packed-refs").exists() or os.fsencode(prefix) not in content(
        common / "packed-refs"
    )


def move_ref(common: Path, logs: Sequence[Path], update: tuple[str, str, str], entry: str) -> bool:
    """Move a ref that is a file from `old` to `new`, as git would: locked, logged, synced, renamed.

    Without `old` there is no such ref yet. False, and nothing is changed, where that is for git to
    do: the ref is packed, a link or elsewhere by now, somebody holds its lock, or a log is missing.
    """
    name, new, old = update
    path, lock = f"{common}/{name}", f"{common}/{name}.lock"
    if (old and not is_plain_file(Path(path))) or not all(map(is_plain_file, logs)):
        return False
    try:
        if not old:
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - as text
        fd = _locked(lock)
    except OSError:
        return False
    try:
        with os.fdopen(fd, "wb") as file:
            known = _is_at(common, name, old)
            if known:
                file.write(f"{new}\n".encode())
                file.flush()
                os.fsync(fd)
        if not known:
            os.unlink(lock)  # noqa: PTH108
            return False
        line = f"{old or '0' * len(new)} {new} {entry}\n".encode("utf-8", "surrogateescape")
        for log in logs:
            with opened(log, "ab", 0) as file:
                file.write(line)
        os.rename(lock, path)  # noqa: PTH104
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(lock)  # noqa: PTH108
        return False
    return True


def remove_ref(common: Path, name: str, old: str) -> bool:
    """Remove a ref without a log that is a file and at `old`; False where that is for git to do.

    If somebody packs refs in this very moment it may stay: one ref too many holds nothing up.
    """
    path, lock, packed = f"{common}/{name}", f"{common}/{name}.lock", f"{common}/packed-refs"
    if os.path.lexists(f"{packed}.lock") or os.fsencode(name) in content(packed):
        return False
    try:
        os.close(_locked(lock))
    except OSError:
        return False
    try:
        if not is_plain_file(Path(path)) or not _is_at(common, name, old):
            return False
        os.unlink(path)  # noqa: PTH108
    finally:
        os.unlink(lock)  # noqa: PTH108
    with contextlib.suppress(OSError):  # others are below
        # As git does it: `refs/heads` and its like stay, for without `refs` it is no repository.
        for folder in list(PurePosixPath(name).parents)[:-3]:
            (common / folder).rmdir()
    return True


def _locked(lock: str) -> int:
    return os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)


def _is_at(common: Path, name: str, commit: str) -> bool:
    """Whether a ref that we have locked is at a commit; without one, whether it may be made."""
    if commit:
        return content(common / name).strip().decode(errors="replace") == commit
    packed = content(common / "packed-refs")
    above = (parent.as_posix() for parent in PurePosixPath(name).parents)
    return has_no_refs(common, name) and not any(
        b" %s\n" % os.fsencode(parent) in packed for parent in above
    )


def time_now() -> str:
    """The moment as commits and reflogs write it: seconds and the zone."""
    now = int(time.time())
    minutes = time.localtime(now).tm_gmtoff // 60
    sign, minutes = ("-", -minutes) if minutes < 0 else ("+", minutes)
    return f"{now} {sign}{minutes // 60:02d}{minutes % 60:02d}"


def commit_body(tree: str, parents: list[str], who: str, message: str) -> bytes:
    """A commit as git would write it now, by this author."""
    when = time_now()
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {who} {when}", f"committer {who} {when}", "", message]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def object_name(kind: str, body: bytes, digits: int) -> str:
    """The name that git gives an object; `digits` tells which hash the repository uses."""
    return hashed(whole(kind, body), digits)


def file_name(path: Path, digits: int) -> str:
    """The name that git would give the file's bytes as they are."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        hashing = hashlib.new(_HASHES[digits], b"blob %d\0" % size, usedforsecurity=False)
        while part := file.read(_PART):
            hashing.update(part)
    return hashing.hexdigest()


def is_plain_file(path: Path) -> bool:
    """Whether it is a file itself, not a link to one, whose bytes may be read."""
    try:
        return stat.S_ISREG(path.lstat().st_mode) and os.access(path, os.R_OK)
    except OSError:
        return False


def loose_object(objects: Path, name: str, most: int) -> bytes | None:
    """What an object holds that is a file of its own; None if it is not, or is too large."""
    packed = content(f"{objects}/{name[:2]}/{name[2:]}")
    if not packed:
        return None
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, most)
    except zlib.error:
        return None
    return data.partition(b"\0")[2] if unpacking.eof else None


def objects_in_batch(out: bytes) -> dict[str, bytes]:
    """What `git cat-file --batch` has printed, by the full names; what is missing is not there."""
    found: dict[str, bytes] = {}
    while out:
        head, _, out = out.partition(b"\n")
        if head.endswith(b" missing"):
            continue
        name, _, size = head.split(b" ")
        found[name.decode()], out = out[: int(size)], out[int(size) + 1 :]
    return found


def entries_of_tree(body: bytes, size: int) -> dict[bytes, tuple[bytes, bytes]]:
    """Mode and name of the object for every name in a tree; `size` is that of a raw hash."""
    entry = re.compile(rb"([0-7]+) ([^\0]+)\0(.{%d})" % size, re.DOTALL)
    return {name: (mode, sha) for mode, name, sha in entry.findall(body)}


def entries_in_index(path: Path) -> int:
    """How many entries an index has; -1 if it is none."""
    try:
        with opened(path) as file:
            head = file.read(12)
    except OSError:
        return -1
    return int.from_bytes(head[8:12]) if head[:4] == b"DIRC" and len(head) == 12 else -1


def whole(kind: str, body: bytes) -> bytes:
    """An object as git stores it, before it is packed."""
    return b"%s %d\0" % (kind.encode(), len(body)) + body


def hashed(data: bytes, digits: int) -> str:
    """The name of an object."""
    return hashlib.new(_HASHES[digits], data, usedforsecurity=False).hexdigest()
