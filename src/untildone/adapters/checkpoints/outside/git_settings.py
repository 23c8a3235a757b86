"""Git's own settings and hooks: as they were before an attempt, and back to that after it."""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.place import Place
from untildone.adapters.records.durable import replace_file, shared_draft
from untildone.plain_files import opened, read_bytes

HOOKS = "hooks"
FOLDERS = (HOOKS, "info")
# Where history ends, and where else objects are: what an attempt fetched may need its own lines.
REACH = ("shallow", "objects/info/alternates")
SHARED = ("config", "info/exclude", "info/attributes", "info/grafts", *REACH)
OWN = ("config.worktree", "info/sparse-checkout")
NO_HOOKS = (".sample", ".untildone")


class FileState(Struct, frozen=True):
    """What has a name: where it points to if it is a link, mode and bytes of the file there.

    Without a file there are no bytes; what else is there (a folder, a pipe) is told by the mode.
    """

    link: str = ""
    mode: int = 0
    data: bytes | None = None

    @property
    def exists(self) -> bool:
        """Whether something has the name, be it a link to nothing."""
        return bool(self.link or self.mode)


NOTHING = FileState()


def file_state(path: Path | str) -> FileState:
    """Look at one name; only plain files are opened, since others may never come to an end."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return NOTHING
    link = os.readlink(path) if stat.S_ISLNK(mode) else ""  # noqa: PTH115 - as below
    with contextlib.suppress(OSError):  # a link to nothing, or a file that may not be read
        if link:
            mode = os.stat(path).st_mode  # noqa: PTH116 - asked before every agent call
        if stat.S_ISREG(mode):
            return FileState(link, mode, read_bytes(path))
    return FileState(link, stat.S_IFMT(mode))


class GitSettings:
    """The files that git obeys and an attempt must leave alone, hooks included.

    A folder of hooks that is itself a link, or that an attempt has made one, is kept as a link: the
    files behind it are not in this repository and are nobody's to remove.
    """

    def __init__(self, place: Place, run_folder: Path) -> None:
        self._place = place
        # Text: all names are looked at before and after every call.
        self._own, self._common = str(place.git_dir), str(place.common_dir)
        self._run_folder = run_folder
        self.noted: dict[str, FileState] = {}
        self.removed_lines: dict[str, bytes] = {}

    def note(self) -> None:
        """Remember all as it is now."""
        self.noted = {}
        self.noted = self._now()

    def put_back(self) -> Iterator[str]:
        """Undo what was changed since; a sentence for each."""
        self.removed_lines = {}
        if self.noted and self._now() != self.noted:
            yield from self._folders_back()
            yield from self._files_back()

    def _folders_back(self) -> Iterator[str]:
        for folder in FOLDERS:
            before, now = self.noted.get(folder, NOTHING), file_state(self._path(folder))
            if (before.link, before.mode) != (now.link, now.mode) and (before.exists or now.link):
                yield self._remark(folder, self._move_aside(folder) if now.exists else None)
                self._make_folder(folder, before)

    def _files_back(self) -> Iterator[str]:
        for name in self._names():
            before, now = self.noted.get(name, NOTHING), file_state(self._path(name))
            if name not in FOLDERS and before != now:
                yield self._remark(name, self._keep(name, before, now))
                self._write(name, before)
                if name in REACH and now.data:
                    self.removed_lines[name] = now.data

    def add_fetched_lines(self) -> Iterator[str]:
        """Without its lines what an attempt fetched would be incomplete: theirs beside ours."""
        for name, data in self.removed_lines.items():
            before = self.noted.get(name, NOTHING)
            lines = dict.fromkeys(((before.data or b"") + b"\n" + data).split(b"\n"))
            mode = before.mode or stat.S_IFREG | 0o644
            joined = b"".join(line + b"\n" for line in lines if line)
            self._write(name, FileState(before.link, mode, joined))
            yield f"What an attempt fetched needs its lines of `.git/{name}`; they were added again"

    def _now(self) -> dict[str, FileState]:
        """All names as they are."""
        return {name: file_state(self._text_path(name)) for name in self._names()}

    def _names(self) -> list[str]:
        """Folders, then files; hooks by what is there now, and by what was noted."""
        hooks = f"{self._common}/{HOOKS}"
        plain = os.path.isdir(hooks) and not os.path.islink(hooks)  # noqa: PTH112, PTH114 - text
        found = {f"{HOOKS}/{name}" for name in (os.listdir(hooks) if plain else ())}  # noqa: PTH208
        noted = {name for name in self.noted if name.startswith(f"{HOOKS}/")}
        hook_names = (name for name in found | noted if not name.endswith(NO_HOOKS))
        return [*FOLDERS, *SHARED, *OWN, *sorted(hook_names)]

    def _path(self, name: str) -> Path:
        return Path(self._text_path(name))

    def _text_path(self, name: str) -> str:
        return f"{self._own if name in OWN else self._common}/{name}"

    @staticmethod
    def _remark(name: str, copy: Path | None) -> str:
        kept = f", a copy is at: {copy}" if copy else ""
        return f"An attempt changed `.git/{name}`; it was put back{kept}"

    def _keep(self, name: str, before: FileState, now: FileState) -> Path | None:
        """Store what an attempt left there; all but a plain file, which is replaced, goes away."""
        if now.data is not None and now.link == before.link:
            copy = self._free_name(name)
            # It may hold a token, whatever the mode it is kept under in the git folder.
            with opened(copy, "wb", private=True) as file:
                file.write(now.data)
            return copy
        return self._move_aside(name) if now.exists else None

    def _move_aside(self, name: str) -> Path:
        copy = self._free_name(name)
        shutil.move(self._path(name), copy)
        return copy

    def _free_name(self, name: str) -> Path:
        """A name in the run's folder that nothing has."""
        first = self._run_folder / f"changed-{name.replace('/', '-')}"
        others = (first.with_name(f"{first.name}.{k}") for k in range(1, 10_000))
        return next(path for path in (first, *others) if not os.path.lexists(path))

    def _make_folder(self, name: str, before: FileState) -> None:
        path = self._path(name)
        if before.link:
            path.symlink_to(before.link)
        elif stat.S_ISDIR(before.mode):
            path.mkdir()

    def _write(self, name: str, before: FileState) -> None:
        path = self._path(name)
        if before.link and not path.is_symlink():
            path.symlink_to(before.link)
        if before.data is not None:
            path.parent.mkdir(exist_ok=True)
            # In one step: half a `config` would make the whole repository unusable.
            place = Path(os.path.realpath(path))
            draft = shared_draft(place, self._place.git_dir.name)
            replace_file(place, [before.data], draft, stat.S_IMODE(before.mode))
        elif not before.exists:
            path.unlink(missing_ok=True)


def to_json(noted: Mapping[str, FileState]) -> dict[str, list[str | int | None]]:
    """Link, mode and bytes of each, as JSON can hold them."""
    return {
        name: [seen.link, seen.mode, None if seen.data is None else seen.data.hex()]
        for name, seen in noted.items()
    }


def from_json(rows: Mapping[str, tuple[str, int, str | None]]) -> dict[str, FileState]:
    """The reverse of `to_json`."""
    return {
        name: FileState(link, mode, None if text is None else bytes.fromhex(text))
        for name, (link, mode, text) in rows.items()
    }
