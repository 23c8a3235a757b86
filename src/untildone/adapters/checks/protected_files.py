"""Protected files as they are before an attempt, and what an attempt did to them."""

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from untildone.adapters.git.git import Git
from untildone.adapters.records.durable import replace_file
from untildone.domain.checks.protection import Violation, is_pattern, is_protected
from untildone.plain_files import opened, read_text

CHUNK = 1024 * 1024
Fingerprint = tuple[str, str]


class ProtectedFiles:
    """Fingerprints by content and mode, read from disk: nothing that an agent tells git hides them.

    They are on disk too, so that a new process can compare after a crash.
    """

    def __init__(self, git: Git, top: Path, note: Path) -> None:
        self._git = git
        self._top = top
        self._note = note
        self._known: dict[str, Fingerprint] | None = None
        self._in_git: dict[str, bool] = {}
        self._listed: tuple[str, tuple[str, ...]] = ("", ())
        self._seen: dict[str, tuple[tuple[int, ...], Fingerprint]] = {}

    def note(self, checkpoint: str, patterns: Sequence[str], files: Sequence[str]) -> None:
        """Remember the contents of these files; names that do not exist are skipped.

        What git does not have stays as first noted: a revert does not bring it back, so a change
        of it is not forgotten.
        """
        earlier = self._known or {}
        self._known = {}
        if not (patterns or files):
            return
        for path in self._wanted(checkpoint, patterns, files):
            now = self._fingerprint(path)
            if now:
                first = earlier.get(path)
                self._known[path] = first if first and not self._in_git[path] else now
        self._known |= {p: was for p, was in earlier.items() if not self._in_git.get(p, True)}
        self._write()

    def _write(self) -> None:
        known = self._known or {}
        text = json.dumps({p: [*was, self._in_git[p]] for p, was in known.items()})
        if not self._note.exists() or read_text(self._note) != text:
            replace_file(self._note, [text.encode()], self._note.with_suffix(".draft"))

    def violations(self) -> tuple[Violation, ...]:
        """What differs now from what was noted."""
        if self._known is None:
            self._recall()
        found = []
        for path, was in sorted((self._known or {}).items()):
            now = self._fingerprint(path)
            if now != was:
                found.append(Violation(path, _difference(was, now), self._in_git[path]))
        return tuple(found)

    def _recall(self) -> None:
        self._known = {}
        if self._note.exists():
            for path, (mode, digest, in_git) in json.loads(read_text(self._note)).items():
                self._known[path] = (mode, digest)
                self._in_git[path] = in_git

    def _wanted(self, checkpoint: str, patterns: Sequence[str], files: Sequence[str]) -> list[str]:
        by_name = (*files, *(pattern for pattern in patterns if not is_pattern(pattern)))
        named = {path for path in by_name if self._is_file(path)}
        broad = [pattern for pattern in patterns if pattern not in named]
        matched = self._at(checkpoint) if broad else ()
        found = {path for path in matched if is_protected(path, broad)}
        self._in_git |= dict.fromkeys(found, True)
        self._ask_git(checkpoint, sorted(named - self._in_git.keys()))
        return sorted(found | named)

    def _ask_git(self, checkpoint: str, paths: list[str]) -> None:
        if paths:
            have = set(self._git.files_among(checkpoint, paths))
            self._in_git |= {path: path in have for path in paths}

    def _at(self, checkpoint: str) -> tuple[str, ...]:
        if self._listed[0] != checkpoint:
            self._listed = (checkpoint, self._git.files_at(checkpoint))
        return self._listed[1]

    def _is_file(self, path: str) -> bool:
        try:
            mode = os.lstat(self._top / path).st_mode
        except OSError:
            return False
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode)

    def _fingerprint(self, path: str) -> Fingerprint | None:
        target = self._top / path
        try:
            now = os.lstat(target)
            # The kernel sets the change time: it cannot be turned back by who owns the file.
            state = (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_mode)
            known = self._seen.get(path)
            if known and known[0] == state:
                return known[1]
            found = _read_fingerprint(target, now.st_mode)
        except OSError:
            return None
        self._seen[path] = (state, found)
        return found


def _read_fingerprint(path: Path, mode: int) -> Fingerprint:
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and few runs need it

    if stat.S_ISLNK(mode):
        return "link", os.readlink(path)  # noqa: PTH115 - text
    if not stat.S_ISREG(mode):
        return "special", ""
    digest = hashlib.sha256()
    with opened(path) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return "executable" if mode & stat.S_IXUSR else "file", digest.hexdigest()


def _difference(was: Fingerprint, now: Fingerprint | None) -> str:
    if now is None:
        return "deleted or renamed"
    return "changed" if was[1] != now[1] else f"was {was[0]}, is {now[0]}"
