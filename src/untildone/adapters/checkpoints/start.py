"""The start of a run: the user's exact state stored, and the rules that hold for all of it."""

import contextlib
import shutil
from pathlib import Path

from msgspec import Struct

from untildone.adapters.checkpoints.snapshot.snapshot import TRIES, Snapshots
from untildone.adapters.checkpoints.snapshot.unconverted_bytes import DiskBlobs
from untildone.adapters.git.git import Git, RefUpdate
from untildone.adapters.git.index import copy_index
from untildone.adapters.git.object_store import ObjectsGone
from untildone.adapters.git.place import Place
from untildone.adapters.records.operations import RepoState
from untildone.adapters.records.run_folder import USERS_INDEX
from untildone.domain.errors import Interrupted, StepError, UserError
from untildone.domain.run.fact import Opened
from untildone.domain.run.run import Origin


class Stored(Struct, frozen=True):
    """What `open` goes on with: the refs to move and an index that has every file."""

    opened: Opened
    updates: list[RefUpdate]
    index: Path
    before: RepoState


class Opening:
    """Stores the state before the run; neither HEAD nor index nor files are touched."""

    def __init__(
        self, git: Git, place: Place, snapshots: Snapshots, folder: Path, change: str
    ) -> None:
        self._git = git
        self._place = place
        self._snapshots = snapshots
        self._folder = folder
        self._change = change
        self.backup_ref = f"refs/ralph/backup/{change}/{folder.name}"

    def store(self, origin: Origin, own: str, stamp: str) -> Stored:
        """Commits of index and files before the run, and the first checkpoint for the ref `own`."""
        git = self._git
        index, copy = self._place.git_dir / "index", self._folder / USERS_INDEX
        copy_index(git, self._place, index, copy)
        staged = git.write_tree(index=self._copied_index("index.staged"))
        work, tree, nested, disk_blobs = self._add_users_files(staged)
        self._snapshots.ignore_rules.freeze(nested)
        self._snapshots.modes.note_start(git.files_at(tree))
        trailer = f"\n\nUntildone-Run: {self._folder.name}\n"
        index_commit = git.commit_tree(staged, [origin.commit], "index before the run" + trailer)
        parents = [origin.commit, index_commit]
        backup = git.commit_tree(tree, parents, "files before the run" + trailer)
        initial = git.commit_tree(tree, [origin.commit], "initial state" + trailer)
        for commit in (backup, initial):
            self._snapshots.unconverted.keep(commit, disk_blobs)
        updates: list[RefUpdate] = [(self.backup_ref, backup, "")]
        earlier = git.resolve(own)
        archived = ""
        if earlier and not git.is_ancestor(earlier, origin.commit):
            archived = f"refs/ralph/archive/{self._change}/{stamp}"
            updates.append((archived, earlier, ""))
        updates.append((own, initial, earlier))
        remarks = tuple(f"A nested git repository is left out of the run: {p}" for p in nested)
        remarks += tuple(_index_flagged(path) for path in self._snapshots.index_flagged)
        before = RepoState(origin.head, {own: earlier}, backup, USERS_INDEX)
        opened = Opened(origin, initial, self.backup_ref, archived, remarks)
        return Stored(opened, updates, work, before)

    def _add_users_files(self, staged: str) -> tuple[Path, str, tuple[str, ...], DiskBlobs | None]:
        try:
            for _ in range(TRIES):
                work = self._copied_index("index.work")
                with contextlib.suppress(ObjectsGone):
                    return work, *self._snapshots.add_users_files(work, staged)
            raise StepError("Somebody removes git's objects as fast as they are stored.")
        except Interrupted:
            raise
        except StepError as error:
            raise UserError(
                f"Git cannot record the files as they are. {error.message}",
                state="Nothing was changed.",
                hint="Make `git add -A --dry-run` work, then start again.",
            ) from error

    def _copied_index(self, name: str) -> Path:
        path = self._folder / name
        shutil.copy2(self._folder / USERS_INDEX, path)
        return path


def _index_flagged(path: str) -> str:
    return f"Git was told to overlook `{path}`; `initial state` holds it as it is on disk"
