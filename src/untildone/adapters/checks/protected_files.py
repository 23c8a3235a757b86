"""Protected files as they are before an attempt, and what an attempt did to them."""

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import convert, to_builtins

from untildone.adapters.git.git import Git
from untildone.adapters.records.durable import replace_file
from untildone.domain.checks.protection import Violation, is_pattern, is_protected
from untildone.domain.checks.runner_settings import (
    BROKEN,
    RunnerSetting,
    content,
    file_names,
    held_in,
)
from untildone.plain_files import opened, read_text

CHUNK = 1024 * 1024
# No runner takes settings from here; they hold more files than all the rest.
FOREIGN = frozenset((".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox"))
Fingerprint = tuple[str, str]
# By path and part, what each setting of a runner says.
Settings = dict[tuple[str, str], str]


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
        self._wanted_settings: tuple[RunnerSetting, ...] = ()
        self._settings: Settings = {}

    def note(
        self,
        checkpoint: str,
        patterns: Sequence[str],
        files: Sequence[str],
        settings: Sequence[RunnerSetting] = (),
    ) -> None:
        """Remember the contents of these files; names that do not exist are skipped.

        What git does not have stays as first noted: a revert does not bring it back, so a change
        of it is not forgotten. Of settings it is remembered, too, that they are not there.
        """
        earlier = self._known or {}
        first_look = self._known is None
        self._known = {}
        self._note_settings(checkpoint, tuple(settings), first=first_look)
        if not (patterns or files or settings):
            return
        for path in self._wanted(checkpoint, patterns, files):
            now = self._fingerprint(path)
            if now:
                first = earlier.get(path)
                self._known[path] = first if first and not self._in_git[path] else now
        self._known |= {p: was for p, was in earlier.items() if not self._in_git.get(p, True)}
        self._write()

    def _note_settings(
        self, checkpoint: str, settings: tuple[RunnerSetting, ...], *, first: bool
    ) -> None:
        now, was = self._settings_now(settings), self._settings
        differing = sorted(
            {key[0] for key in now.keys() | was.keys() if now.get(key) != was.get(key)}
        )
        if not first and differing:
            in_git = set(self._git.files_among(checkpoint, differing))
            kept = {key: said for key, said in was.items() if key[0] not in in_git}
            now = {k: said for k, said in now.items() if k in was or k[0] in in_git} | kept
        self._wanted_settings, self._settings = settings, now

    def _settings_now(self, settings: tuple[RunnerSetting, ...]) -> Settings:
        """What the settings say on disk, wherever they are and whatever git is told to ignore."""
        broad = [setting for setting in settings if is_pattern(setting.path)]
        paths = self._files_called(file_names(broad).match, "") if broad else ()
        held = [(path, setting) for path in paths for setting in held_in(path, broad)]
        # A folder of that name is in the way like a file.
        held += [(each.path, each) for each in settings if not is_pattern(each.path)]
        told = {(path, each.part): self._said(path, each) for path, each in held}
        return {key: said for key, said in told.items() if said}

    def _files_called(self, match: Callable[[str], object], folder: str) -> Iterator[str]:
        with contextlib.suppress(OSError):  # a folder that cannot be read
            for entry in sorted(os.scandir(self._top / folder), key=lambda each: each.name):
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in FOREIGN:
                        yield from self._files_called(match, f"{folder}{entry.name}/")
                elif match(entry.name):
                    yield f"{folder}{entry.name}"

    def _said(self, path: str, setting: RunnerSetting) -> str:
        if not setting.part:
            return " ".join(self._fingerprint(path) or ())
        if not os.path.lexists(self._top / path) or (self._top / path).is_dir():
            return ""
        try:
            return content(setting, path, read_text(self._top / path))
        except (OSError, UnicodeDecodeError):
            return BROKEN

    def _write(self) -> None:
        known = self._known or {}
        noted: dict[str, object] = {p: [*was, self._in_git[p]] for p, was in known.items()}
        if self._wanted_settings:
            rows = [[*key, said] for key, said in sorted(self._settings.items())]
            # No path is empty.
            noted[""] = {"of": to_builtins(self._wanted_settings), "said": rows}
        text = json.dumps(noted)
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
        return (*found, *self._changed_settings())

    def _changed_settings(self) -> Iterator[Violation]:
        was, now = self._settings, self._settings_now(self._wanted_settings)
        for key in sorted(was.keys() | now.keys()):
            if was.get(key) != now.get(key):
                path, part = key
                what = _what(was.get(key, ""), now.get(key, ""))
                yield Violation(path, f"{part}: {what}" if part else what)

    def _recall(self) -> None:
        self._known = {}
        noted = json.loads(read_text(self._note)) if self._note.exists() else {}
        settings = noted.pop("", {"of": [], "said": []})
        self._wanted_settings = convert(settings["of"], tuple[RunnerSetting, ...])
        self._settings = {(path, part): said for path, part, said in settings["said"]}
        for path, (mode, digest, in_git) in noted.items():
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


def _what(was: str, now: str) -> str:
    if now == BROKEN:
        return BROKEN
    if not now:
        return "deleted or renamed"
    return "changed" if was else "new"


def _difference(was: Fingerprint, now: Fingerprint | None) -> str:
    if now is None:
        return "deleted or renamed"
    return "changed" if was[1] != now[1] else f"was {was[0]}, is {now[0]}"
