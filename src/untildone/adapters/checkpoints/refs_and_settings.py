"""What an attempt must leave alone: other refs, stashes and the repository's settings."""

import contextlib
import json
import math
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from untildone.adapters.checkpoints.snapshot.submodules import Submodules
from untildone.adapters.git.damaged import (
    IndexCopy,
    move_broken_index,
    note_head,
    repair_head,
)
from untildone.adapters.git.git import Git, Ref, RefUpdate
from untildone.adapters.git.object_files import content
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import git_folder_gone, is_elsewhere, move_stale_locks
from untildone.adapters.records.durable import replace_file, shared_draft
from untildone.plain_files import opened, read_bytes, read_text

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


STASH = "refs/stash"
STASH_LOG = "logs/refs/stash"
KINDS = ("backup", "archive", "attempts", "moved", "raw", "carried")
KEPT = tuple(f"refs/ralph/{kind}/" for kind in KINDS)
# An attempt has no business there. Elsewhere (`git fetch`) refs may move, but no commit gets lost.
REPLACED = "refs/replace/"
FIXED = ("refs/heads/", "refs/tags/", "refs/notes/", REPLACED, STASH)
OF_ONE_WORKTREE = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")


class RefsAndSettings:
    """Notes the surroundings before an attempt and puts them back after it.

    The note is on disk, so that a new process can do the same after a crash.
    """

    def __init__(self, git: Git, place: Place, change: str, folder: Path) -> None:
        self._git = git
        self._place = place
        self._change = change
        self._folder = folder
        self._submodules = Submodules(git, place, folder)
        self._note = folder / "before.json"
        self._written: object = None
        self._spared = ""
        self._refs: dict[str, Ref] | None = None
        self._settings = GitSettings(place, folder)
        self._log = place.common_dir / STASH_LOG
        self._known_log: bytes | None = None
        self._others: dict[Path, IndexCopy] = {}
        self.watch(place.common_dir)
        self._read_note()

    def watch(self, git_dir: Path) -> None:
        """An attempt reaches this folder too: its HEAD and its index must stay readable."""
        if git_dir != self._place.git_dir:
            self._others.setdefault(git_dir, IndexCopy(git_dir, self._folder))

    def spare(self, ref: str) -> None:
        """This ref moves while attempts go on: not by them, and so it is never put back."""
        self._spared = ref

    def note(self, refs: dict[str, Ref], own: str) -> None:
        """Remember refs, settings and submodules as they are before the agent starts.

        Without the run's own ref: it moves with every story, and the note would be written and
        synced each time, but `refs_back` never looks at it.
        """
        self._submodules.note()
        watched = (name for name in refs if name != own and self._is_watched(name))
        self._refs = {name: refs[name] for name in watched}
        self._settings.note()
        note_head(self._place.git_dir)
        for git_dir, index in self._others.items():
            note_head(git_dir)
            index.note()
        self._known_log = file_state(self._log).data
        seen = (self._refs, self._settings.noted, self._known_log)
        if seen != self._written:
            self._hold_stashes(refs)
            self._write_note()
            self._written = seen
        os.utime(self._note)

    def _write_note(self) -> None:
        assert self._refs is not None
        text = json.dumps(
            {
                "refs": {name: [ref.commit, ref.worktree] for name, ref in self._refs.items()},
                "settings": to_json(self._settings.noted),
                "stashes": None if self._known_log is None else self._known_log.hex(),
            }
        )
        replace_file(self._note, [text.encode()], self._note.with_suffix(".draft"), 0o600)

    def _hold_stashes(self, refs: dict[str, Ref]) -> None:
        # An entry lives in a log only: `git stash clear` and `git gc` by an agent would end it.
        wanted = {held_ref(commit): commit for commit in _logged(self._known_log)}
        held: list[RefUpdate] = [(r, c, None) for r, c in wanted.items() if r not in refs]
        if held:
            self._git.update_refs(held, "untildone: hold the stash entries")

    def noted_at(self) -> float:
        """When the last attempt began, in file-system time."""
        return self._note.stat().st_mtime if self._note.exists() else math.inf

    def put_settings_back(self) -> tuple[str, ...]:
        """Undo edits of git's own settings before our next git command obeys them."""
        if not self._folder.is_dir():
            raise git_folder_gone(self._place.git_dir)
        # All processes of the agent have ended: whatever git it ran, nobody holds these any more.
        locks = move_stale_locks(self._place, self._folder / "aside")
        remarks = [f"An attempt left a lock behind; it was moved aside: {lock}" for lock in locks]
        remarks += self._settings.put_back()
        remarks += self._heads_back()
        if aside := move_broken_index(self._place.git_dir, self._folder / "aside"):
            remarks.append(f"An attempt made `.git/index` no file; it was moved to: {aside}")
        damaged = (git_dir for git_dir, index in self._others.items() if index.put_back())
        remarks += [f"An attempt damaged `{each}/index`; it was put back" for each in damaged]
        if self._settings.removed_lines and not self._has_all_objects():
            remarks += self._settings.add_fetched_lines()
        return tuple(remarks)

    def _heads_back(self) -> Iterator[str]:
        for git_dir in (self._place.git_dir, *self._others):
            if aside := repair_head(git_dir):
                name = ".git" if git_dir == self._place.git_dir else git_dir
                copy = f", a copy is at: {aside}" if os.path.lexists(aside) else ""
                yield f"An attempt damaged `{name}/HEAD`; it was put back{copy}"

    def _has_all_objects(self) -> bool:
        """Whether all objects are there that refs and index need."""
        needs = ("--all", "--indexed-objects", "--objects", "--quiet")
        return self._git.ask("rev-list", *needs).ok

    def refs_back(
        self, now: dict[str, Ref], strays: list[str], own: str
    ) -> tuple[list[RefUpdate], tuple[str, ...]]:
        """Updates that put moved branches and tags back; every moved tip is stored first."""
        before = self._refs if self._refs is not None else now
        updates: list[RefUpdate] = [self.store(tip) for tip in strays]
        remarks = []
        for name, ref in before.items():
            found = now.get(name)
            if name not in (own, STASH) and not (found and found.commit == ref.commit):
                back = self._moved_back(name, ref, found)
                updates += back
                if any(update[0] == name for update in back):
                    remarks.append(
                        f"An attempt moved `{name}`; it was put back to {ref.commit[:12]}"
                    )
        updates += self._dropped_by_fetch(before, now)
        for name in _new_replacements(before, now):
            updates += [self.store(now[name].commit), (name, "", now[name].commit)]
            remarks.append(f"An attempt made `{name}`; it was removed and is stored")
        self._remove_clashing_refs([own, *(name for name, new, _ in updates if new)], before, now)
        remarks += self._stash_back(before.get(STASH), now.get(STASH))
        return list(dict.fromkeys(updates)), tuple(remarks)

    def _moved_back(self, name: str, ref: Ref, found: Ref | None) -> list[RefUpdate]:
        """A ref that was moved or deleted; none if somebody else may have done that."""
        if found is None:
            return [(name, ref.commit, "")]
        if not name.startswith(FIXED) or self._used_elsewhere(found):
            return []
        if self._came_from_elsewhere(found.commit):
            return [self.store(ref.commit)]
        return [self.store(found.commit), (name, ref.commit, found.commit)]

    def _dropped_by_fetch(self, before: dict[str, Ref], now: dict[str, Ref]) -> list[RefUpdate]:
        """Commits that a remote-tracking branch no longer leads to are stored."""
        free = {name for name in before if not name.startswith((*FIXED, "refs/ralph/"))}
        moved = [name for name in free & now.keys() if now[name].commit != before[name].commit]
        old, new = ([refs[name].commit for name in moved] for refs in (before, now))
        return [self.store(commit) for commit in sorted(self._git.unreachable(old, new))]

    def _remove_clashing_refs(
        self, wanted: list[str], before: dict[str, Ref], now: dict[str, Ref]
    ) -> None:
        """New refs that bar the way (`a/b` for `a`, or `a` for `a/b`) are stored and removed."""
        for name, ref in now.items():
            bars = any(w.startswith(f"{name}/") or name.startswith(f"{w}/") for w in wanted)
            if bars and name not in before:
                updates = [self.store(ref.commit), (name, "", ref.commit)]
                self._git.update_refs(updates, "untildone: make room for a branch put back")

    def _stash_back(self, before: Ref | None, now: Ref | None) -> list[str]:
        if self._refs is None:
            return []
        log, known_log = file_state(self._log).data, self._known_log
        same_tip = before == now or (before and now and before.commit == now.commit)
        if same_tip and log == known_log:
            return []
        if self._stashed_elsewhere(_logged(log), _logged(known_log)):
            return []
        if before is None:
            self._git.update_refs([(STASH, "", None)], "untildone: stash list put back")
        else:
            self._git.update_refs([(STASH, before.commit, None)], "untildone: stash list put back")
            self._write_log(known_log)
        return ["An attempt changed the stash list; it was put back and its stashes are stored"]

    def _stashed_elsewhere(self, listed: list[str], known: list[str]) -> bool:
        """Whether the stash list has entries made in another worktree; what is new is stored."""
        new = [commit for commit in listed if commit not in known]
        if any(self._came_from_elsewhere(self._git.parents(commit)[0]) for commit in new):
            gone = [self.store(commit) for commit in known if commit not in listed]
            self._git.update_refs(gone, "untildone: keep what left the stash list")
            return True
        if new:
            saved = [self.store(commit) for commit in new]
            self._git.update_refs(saved, "untildone: keep the attempt's stash")
        return False

    def store(self, commit: str) -> RefUpdate:
        """The update that keeps a commit which nobody else keeps any more."""
        return (f"refs/ralph/moved/{self._change}/{commit[:16]}", commit, None)

    def _is_watched(self, name: str) -> bool:
        if name == self._spared:
            return False
        if name.startswith("refs/ralph/"):
            return name.startswith(KEPT)  # the others are for some loop to drop
        tracking = name.startswith("refs/remotes/") and name.endswith("/HEAD")
        return not tracking and not name.startswith(OF_ONE_WORKTREE)

    def _used_elsewhere(self, ref: Ref) -> bool:
        # Somebody may work on that branch in another worktree: theirs to move.
        return is_elsewhere(self._git, self._place, ref.worktree)

    def _came_from_elsewhere(self, commit: str) -> bool:
        # They may also have left the branch again since, or put their work on the stash list.
        return _head_was_at(self._place, commit, self.noted_at())

    def _write_log(self, data: bytes | None) -> None:
        if data is None:
            self._log.unlink(missing_ok=True)
            return
        self._log.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._log, [data], shared_draft(self._log, self._place.git_dir.name))

    def _read_note(self) -> None:
        if self._note.exists():
            noted = json.loads(read_text(self._note))
            self._refs = {name: Ref(*pair) for name, pair in noted["refs"].items()}
            self._settings.noted = from_json(noted["settings"])
            log = noted["stashes"]
            self._known_log = None if log is None else bytes.fromhex(log)


def held_ref(commit: str) -> str:
    """What keeps an entry of the stash list, in case that somebody clears the list."""
    return f"refs/ralph/stash/{commit[:16]}"


def _new_replacements(before: dict[str, Ref], now: dict[str, Ref]) -> list[str]:
    return [name for name in sorted(now.keys() - before.keys()) if name.startswith(REPLACED)]


def _logged(log: bytes | None) -> list[str]:
    """The commits that a ref's log has, oldest first."""
    return [line.split(" ")[1] for line in (log or b"").decode(errors="replace").splitlines()]


def _head_was_at(place: Place, commit: str, since: float) -> bool:
    """Whether HEAD of another worktree came to this commit since then, by its own log."""
    lines = (line for log in _logs(place) for line in content(log).splitlines())
    return any(_new(line) == commit and _time(line) >= int(since) for line in lines)


def _logs(place: Place) -> list[Path]:
    folders = [place.common_dir, *(place.common_dir / "worktrees").glob("*/")]
    return [folder / "logs" / "HEAD" for folder in folders if folder != place.git_dir]


def _new(line: bytes) -> str:
    return os.fsdecode(line.split(b" ", 2)[1])


def _time(line: bytes) -> int:
    return int(line.partition(b"> ")[2].split(b" ", 1)[0])
