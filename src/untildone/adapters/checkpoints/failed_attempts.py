"""A failed attempt: stored under a ref with all it made, then put back."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from untildone.adapters.checkpoints.snapshot.file_modes import (
    check_gone,
    make_writable,
    modes_kept,
    unlock,
)
from untildone.adapters.checkpoints.snapshot.skipped_files import write_skipped_files
from untildone.adapters.checkpoints.snapshot.snapshot import Snapshot, Snapshots
from untildone.adapters.checkpoints.snapshot.unaddable_files import (
    folders_below,
    is_folder,
    make_readable,
)
from untildone.adapters.checkpoints.snapshot.unconverted_bytes import DiskBlobs
from untildone.adapters.checkpoints.snapshot.withheld_files import keep, kept_folder
from untildone.adapters.git.git import Git, RefUpdate, git_failed
from untildone.adapters.git.index import overlay, untracked_entries
from untildone.adapters.git.place import Place
from untildone.adapters.process.process import Captured

PUT_BACK_TRIES = 3


class FailedAttempts:
    """Stores attempts of one run and puts the tree back; nothing is overwritten unsaved."""

    def __init__(
        self, git: Git, place: Place, snapshots: Snapshots, folder: Path, change: str
    ) -> None:
        self._git = git
        self._place = place
        self._snapshots = snapshots
        self._folder = folder
        self._run_id = folder.name
        self._prefix = f"refs/ralph/attempts/{change}/"

    def store(self, ref: str, snapshot: Snapshot, checkpoint: str, tips: list[str]) -> str:
        """Store files and commits of an attempt; a second look adds to the first."""
        git, raw = self._git, self._snapshots.unconverted
        earlier = earlier_of_run(git, ref, self._run_id)
        tree, disk_blobs = snapshot.tree, snapshot.disk_blobs
        flagged = [flag.path for flag in snapshot.flagged]
        kept = self._snapshots.staged
        staged = kept.commits(checkpoint, tree, flagged, self._snapshots.ignore_rules.ignored)
        if earlier:
            # A second look (late files, or a crash in mid put-back) adds to the attempt.
            disk_blobs = disk_blobs and self._added(disk_blobs, earlier, checkpoint)
            if not snapshot.changes and not staged:
                raw.keep(earlier, disk_blobs)
                return earlier
            index = self._folder / "attempt.index"
            tree = overlay(git, git.tree_of(earlier), snapshot.changes, index)
            index.unlink()
        strays = [tip for tip in tips if tip != checkpoint]
        parents = [checkpoint, *strays, *staged, *([earlier] if earlier else [])]
        label = ref.removeprefix("refs/ralph/attempts/")
        message = f"attempt: {label}\n\nUntildone-Run: {self._run_id}\n"
        commit = git.commit_tree(tree, parents, message)
        raw.keep(commit, disk_blobs)
        git.update_refs([(ref, commit, earlier)], "untildone: save the attempt")
        self._snapshots.staged.forget()
        return commit

    def _added(self, disk_blobs: DiskBlobs, earlier: str, checkpoint: str) -> DiskBlobs:
        """The bytes of an earlier look, and those of a later one that are not the checkpoint's."""
        raw = self._snapshots.unconverted
        before = raw.of(checkpoint)
        return raw.of(earlier) | {
            p: name for p, name in disk_blobs.items() if before.get(p) != name
        }

    def _clear_obstacles(self, ref: str, snapshot: Snapshot) -> None:
        top, obstacles = self._place.top, self._snapshots.obstacles
        unlock(top, (change.path for change in snapshot.changes))
        unlock(top, (flag.path for flag in snapshot.flagged))
        unlock(top, (f"{path}/" for path in snapshot.nested))
        kept = kept_folder(self._folder, ref.removeprefix(self._prefix))
        make_readable(top, snapshot.flagged)
        keep(top, snapshot.flagged, kept, obstacles)
        self._snapshots.move_unconverted(snapshot.changes)
        for path in snapshot.nested:
            if (top / path).is_dir():
                obstacles.move_aside(top / path)
        for change in snapshot.changes:
            # Ignored files and folders in the place of a tracked file: git would overwrite them.
            obstacle = obstacles.at(change.path) if change.status == "D" else ""
            if obstacle:
                make_writable(top / obstacle)  # a folder that is locked cannot be moved
                obstacles.move_aside(top / obstacle)

    def put_back(
        self, ref: str, snapshot: Snapshot, checkpoint: str, since: float
    ) -> tuple[str, ...]:
        """Bring the files back to the checkpoint; what is in the way is moved aside.

        Says what of the attempt made since then was moved and is not in its commit.
        """
        with modes_kept(self._place.top, (change.path for change in snapshot.changes)):
            late = self._put_back(ref, snapshot, checkpoint, since)
        self._snapshots.modes.put_back()
        return late

    def _put_back(
        self, ref: str, snapshot: Snapshot, checkpoint: str, since: float
    ) -> tuple[str, ...]:
        tries = PUT_BACK_TRIES
        while not (answer := self._check_out(ref, snapshot, checkpoint)).ok:
            tries -= 1
            if not tries:
                raise git_failed(("read-tree",), answer)
            # A file changed after the snapshot, and git refuses to lose it: look again.
            snapshot = self._snapshots.take(checkpoint, with_hidden=True)
            self.store(ref, snapshot, checkpoint, [])
        new = (change.path for change in snapshot.changes if change.status == "A")
        check_gone(self._place.top, new, answer)
        write_skipped_files(self._git, self._place.top, self._folder)
        raw = self._snapshots.unconverted
        raw.put_back(checkpoint, raw.of(checkpoint), snapshot.disk_blobs or {})
        self._snapshots.submodules.put_back(ref)
        left = untracked_entries(self._git)
        moved = (*self._move_unread(left, since), *self._move_repositories(checkpoint, left, since))
        self._remove_new_empty_folders(left, since)
        return moved

    def _check_out(self, ref: str, snapshot: Snapshot, checkpoint: str) -> Captured:
        self._clear_obstacles(ref, snapshot)
        return self._git.checkout_tree(checkpoint)

    def _move_unread(self, left: tuple[str, ...], since: float) -> tuple[str, ...]:
        """Folders that the attempt locked, so that git could not look into them."""
        top, moved = self._place.top, []
        for entry in left:
            path = top / entry.rstrip("/")
            if path.is_symlink() or not path.is_dir() or os.access(path, os.R_OK | os.X_OK):
                continue
            if path.stat().st_ctime >= since and make_writable(path) and any(path.iterdir()):
                place = self._snapshots.obstacles.move_aside(path)
                moved.append(f"Nobody could read `{entry}`; it was moved to: {place}")
        return tuple(moved)

    def _move_repositories(
        self, checkpoint: str, left: tuple[str, ...], since: float
    ) -> tuple[str, ...]:
        top, moved = self._place.top, []
        for path in _nested_git_folders(self._git, top, checkpoint, left, since):
            unlock(top, [f"{path.relative_to(top)}/"])
            place = self._snapshots.obstacles.move_aside(path)
            moved.append(f"The attempt made `{path.relative_to(top)}`; it was moved to: {place}")
        return tuple(moved)

    def _remove_new_empty_folders(self, left: tuple[str, ...], since: float) -> None:
        # Git tracks no folders: those that the attempt made and left empty are found by their age.
        for entry in left:
            top = self._place.top / entry
            folders = list(folders_below(top)) if entry.endswith("/") else []
            if not all(is_folder(found) for folder in folders for found in _in(folder)):
                continue
            for path in reversed(folders):
                if path.stat().st_ctime >= since:
                    if path.parent != self._place.top and path.parent.stat().st_ctime >= since:
                        make_writable(path.parent)
                    with contextlib.suppress(OSError):
                        path.rmdir()


def _nested_git_folders(
    git: Git, top: Path, checkpoint: str, untracked: Iterable[str], since: float
) -> list[Path]:
    """Those that an attempt made, in folders of the checkpoint and in what it left untracked."""
    found = [top / folder / ".git" for folder in _folders(git, checkpoint)]
    for entry in untracked:
        found += (folder / ".git" for folder in folders_below(top / entry))
    return [path for path in found if os.path.lexists(path) and _is_made_since(path, since)]


def _in(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(folder.iterdir())
    return []


def _folders(git: Git, commit: str) -> Iterator[str]:
    rows = os.fsdecode(git.do("ls-tree", "-r", "-d", "-z", "--full-tree", commit)).split("\0")
    for row in rows:
        meta, _, path = row.partition("\t")
        if " tree " in meta:  # submodules are listed, too
            yield path


def _is_made_since(path: Path, since: float) -> bool:
    """By the age of all that is in it: git commands touch a part of an old repository only."""
    inside = path.iterdir() if path.is_dir() and not path.is_symlink() else ()
    return all(entry.lstat().st_ctime >= since for entry in (path, *inside))


def earlier_of_run(git: Git, ref: str, run_id: str) -> str:
    """The attempt stored under this ref, if this run stored it; an older run's makes room."""
    earlier = git.resolve(ref)
    if not earlier or f"Untildone-Run: {run_id}" in git.message(earlier).splitlines():
        return earlier
    older = ref.replace("refs/ralph/attempts/", "refs/ralph/archive/", 1)
    updates: list[RefUpdate] = [(f"{older}-{earlier[:12]}", earlier, None), (ref, "", earlier)]
    git.update_refs(updates, "untildone: make room for this run's attempt")
    return ""
