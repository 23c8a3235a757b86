"""Which files somebody wrote to since a call began, whatever git takes for unchanged."""

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.checkpoints.snapshot.draft_index import DraftDiff
from untildone.adapters.checkpoints.snapshot.staged_content import link_or_copy
from untildone.adapters.checkpoints.snapshot.unconverted_bytes import (
    UnconvertedBytes,
    is_attributes_file,
)
from untildone.adapters.git.git import GITLINK, Change, Git
from untildone.adapters.git.index import blobs_in_index, files_in_index, written_since
from untildone.adapters.git.object_files import file_name, is_plain_file
from untildone.adapters.git.place import Place
from untildone.domain.errors import StepError


class Written(Struct, frozen=True):
    """What was written since a commit: changes as git sees them, and all files that were touched.

    The bytes of `converted` ones are not those that git has for them: it converts them, or an index
    is wrong about them. If nobody knows which files were touched, all are.
    """

    since: str
    changes: tuple[Change, ...]
    touched: tuple[str, ...]
    converted: tuple[str, ...]
    refreshed: int

    @property
    def paths(self) -> set[str]:
        """All files that are not as they were."""
        return {change.path for change in self.changes} | set(self.touched)

    @property
    def removed(self) -> set[str]:
        """Files that the tree does not have any more."""
        return {change.path for change in self.changes if change.status == "D"}


class WrittenFiles:
    """Keeps the index of the checkpoint that a call starts from, as it is then.

    Git forgets what the files of a checkpoint looked like as soon as somebody calls it while other
    attributes are in force: it takes what is there for unchanged. This index does not.
    """

    def __init__(self, git: Git, place: Place, run_folder: Path, raw: UnconvertedBytes) -> None:
        self._git = git
        self._place = place
        self._folder = run_folder / "standing"
        self._unconverted = raw
        self._commit: str | None = None

    def note(self, commit: str, index: Path) -> None:
        """A call starts from this commit, and the index is of it."""
        self._folder.mkdir(exist_ok=True)
        draft, target = self._folder / "draft", self._folder / commit
        draft.unlink(missing_ok=True)
        link_or_copy(index, draft)
        draft.replace(target)
        draft.unlink(missing_ok=True)  # both were the same file already
        if self._commit is None or self._commit != commit:
            for other in self._folder.iterdir():
                if other != target:
                    other.unlink()
        self._commit = commit

    @property
    def commit(self) -> str:
        """What the last call started from, or nothing."""
        if self._commit is None:
            names = sorted(self._folder.iterdir()) if self._folder.is_dir() else []
            self._commit = next((path.name for path in names if path.name != "draft"), "")
        return self._commit

    def converts(self, base: str) -> bool:
        """Whether bytes are kept for what the next snapshot grows from."""
        return self._unconverted.knows(base) or self._unconverted.knows(self.commit)

    def written(self, draft: Git, now: DraftDiff) -> Written:
        """What was written until now, as the draft has it."""
        since, changes, touched = self.commit or now.base, now.changes, None
        try:
            changes = self._changes(since, now)
            if self.commit:
                touched = written_since(self._git, self._folder / self.commit)
        except StepError:  # broken by an attempt, or the commit is gone
            since = now.base
        if touched is None:
            touched = files_in_index(draft)
        return Written(
            since, changes, touched, self._converted(draft, changes, touched), now.refreshed
        )

    def _changes(self, since: str, now: DraftDiff) -> tuple[Change, ...]:
        return now.changes if since == now.base else self._git.diff_trees(since, now.tree)

    def disk_blobs(self, written: Written, now: DraftDiff) -> dict[str, str] | None:
        """The bytes on disk where git would not give them back; None if it does for all files.

        Of what is in the tree now: the guard may have left out a secret since the look.
        """
        if now.refreshed > written.refreshed:
            written = replace(written, changes=self._changes(written.since, now))
        rules = any(is_attributes_file(change.path) for change in written.changes)
        if not (rules or written.converted or self._unconverted.knows(written.since)):
            return None
        before, paths = self._unconverted.of(written.since), written.paths
        disk_blobs = {path: raw for path, raw in before.items() if path not in paths}
        if rules:
            disk_blobs |= self._unconverted.converted_files() or {}
        return disk_blobs | self._unconverted.stored_from_disk(sorted(paths - written.removed))

    def _converted(
        self, draft: Git, changes: tuple[Change, ...], touched: tuple[str, ...]
    ) -> tuple[str, ...]:
        blobs = {c.path: c.blob for c in changes if c.status != "D" and c.new_mode != GITLINK}
        known = {change.path for change in changes}
        rest = [p for p in touched if p not in known and is_plain_file(self._place.top / p)]
        if rest:
            blobs |= blobs_in_index(draft, rest)
        return tuple(path for path, blob in blobs.items() if self._is_other(path, blob))

    def _is_other(self, path: str, blob: str) -> bool:
        """Whether a file on disk has other bytes than the blob."""
        file = self._place.top / path
        return is_plain_file(file) and file_name(file, len(blob)) != blob
