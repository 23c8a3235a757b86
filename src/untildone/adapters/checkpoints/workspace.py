"""What every way of checkpointing shares: one ref of ours, snapshots, attempts, surroundings."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from untildone.adapters.checkpoints.failed_attempts import FailedAttempts
from untildone.adapters.checkpoints.refs_and_settings import RefsAndSettings
from untildone.adapters.checkpoints.snapshot.snapshot import Snapshots
from untildone.adapters.checkpoints.start import Opening
from untildone.adapters.git.git import Git, Ref
from untildone.adapters.git.object_files import files_below, stamp
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import IN_PROGRESS, git_folder_gone, head_of, home
from untildone.adapters.records.operations import Operation, OperationLog, RepoState
from untildone.plain_files import contents
from untildone.ports import Pending

MERGE_LEFT_OPEN = "A merge, rebase or cherry-pick was left open with conflicts. Finish or abort it."


class Workspace:
    """A run's checkpoints are commits on `ref`; a subclass says where HEAD and index stand."""

    def __init__(
        self, git: Git, place: Place, folder: Path, change: str, ref: str, snapshots: Snapshots
    ) -> None:
        self._git = git
        self._place = place
        self._folder = folder
        self._change = change
        self._run_id = folder.name
        self._ref = ref
        self._snapshots = snapshots
        self._opening = Opening(git, place, snapshots, folder, change)
        self._attempts = FailedAttempts(git, place, snapshots, folder, change)
        self._outside = RefsAndSettings(git, place, change, folder)
        self._refs = RefCache(git, place)
        self._remarks: tuple[str, ...] = ()
        self._log = OperationLog(home(place))

    def _note(self, name: str, before: RepoState, after: RepoState, story: str = "") -> None:
        operation = Operation(name, self._change, self._run_id, before, after, story=story)
        self._log.add(operation)

    def saved_as(self, checkpoint: str, story_id: str, attempt: int) -> str:
        """After a crash while saving: the commit of this very attempt, if it was made."""
        tip = self._git.resolve(self._ref)
        if not tip or tip == checkpoint:
            return ""
        message = self._git.message(tip)
        wanted = (
            f"Untildone-Run: {self._run_id}",
            f"Untildone-Story: {story_id}",
            f"Untildone-Attempt: {attempt}",
        )
        return tip if all(line in message.splitlines() for line in wanted) else ""

    def pending(self, checkpoint: str) -> Pending:
        """What a checkpoint would hold now."""
        snapshot = self._snapshots.take(checkpoint, look=True)
        return Pending(snapshot.tree, snapshot.paths)

    def had(self, checkpoint: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Which of these paths the checkpoint has."""
        return self._git.files_among(checkpoint, paths) if paths else ()

    def changed_between(self, before: str, after: str) -> tuple[str, ...]:
        """The paths that differ between two trees."""
        return tuple(change.path for change in self._git.diff_trees(before, after))

    def _refuse_without_folder(self) -> None:
        """Without our notes the last attempt was not put back: its files are no result."""
        if not self._folder.is_dir():
            raise git_folder_gone(self._place.git_dir)

    def _attempt_ref(self, story_id: str, attempt: int) -> str:
        return f"refs/ralph/attempts/{self._change}/{story_id}/{attempt}"

    def _keep_edits(self, tip: str) -> tuple[str, tuple[str, ...]]:
        """What was edited by hand since the tip, as a commit on our ref; the tip if nothing."""
        snapshot = self._snapshots.take(tip)
        remarks = (*snapshot.remarks, *self._keep_staged(tip, snapshot.tree))
        if not snapshot.changes:
            self._snapshots.unconverted.keep(tip, snapshot.disk_blobs)
            return tip, remarks
        message = f"edits by hand\n\nUntildone-Run: {self._run_id}\n"
        commit = self._git.commit_tree(snapshot.tree, [tip], message)
        self._snapshots.unconverted.keep(commit, snapshot.disk_blobs)
        self._git.update_refs([(self._ref, commit, tip)], "untildone: keep edits by hand")
        self._snapshots.modes.note(snapshot.paths)
        return commit, remarks

    def _keep_staged(self, tip: str, tree: str) -> Iterator[str]:
        """What was staged by hand and is neither in the files nor in a commit."""
        for commit in self._snapshots.staged.commits(tip, tree):
            ref, *_ = update = self._outside.store(commit)
            self._git.update_refs([update], "untildone: keep what was staged")
            yield f"What you had staged differs from your files; it is stored as: {ref}"
        self._snapshots.staged.forget()

    def _left_in_conflict(self) -> bool:
        half_done = not IN_PROGRESS.keys().isdisjoint(os.listdir(self._place.git_dir))  # noqa: PTH208
        index = self._place.git_dir / "index"
        return half_done and bool(self._git.do("ls-files", "-u", "-z", index=index))

    def _put_settings_back(self) -> tuple[str, ...]:
        remarks = (*self._remarks, *self._outside.put_settings_back())
        self._remarks = ()
        return remarks

    def _head_commit(self, refs: dict[str, Ref]) -> str:
        branch, commit = head_of(self._place.git_dir)
        name = f"refs/heads/{branch}"
        return commit or (refs[name].commit if name in refs else "")


def trailer(message: str, name: str) -> str:
    """What a commit message says under this name."""
    lines = (line.partition(": ") for line in message.splitlines())
    return next((value for key, _, value in lines if key == name), "")


Fingerprint = dict[str, object]


class RefCache:
    """All refs as they are now: git is asked again only when their files change.

    A look at the files costs a fraction of a git process.
    """

    def __init__(self, git: Git, place: Place) -> None:
        self._git = git
        self._refs: dict[str, Ref] = {}
        self._fingerprint: Fingerprint | None = None
        # Plain text: looked at several times per story, and joining paths costs more than reading.
        self._common = str(place.common_dir)

    def now(self) -> dict[str, Ref]:
        """All refs."""
        seen = self._fingerprint_now()
        if seen != self._fingerprint:
            self._refs = self._git.refs("refs/")
            self._fingerprint = seen
        return self._refs

    def last(self) -> dict[str, Ref]:
        """All refs by the last look, for a question that follows it at once."""
        return self.now() if self._fingerprint is None else self._refs

    def known(self, refs: dict[str, Ref]) -> None:
        """These are all refs now: whoever says so has made them."""
        self._refs, self._fingerprint = refs, self._fingerprint_now()

    def moved(self, refs: Mapping[str, str]) -> None:
        """We moved these refs (empty: deleted): known without asking, if no other moved too."""
        expected, known = dict(self._fingerprint or {}), dict(self._refs)
        for ref, commit in refs.items():
            path = f"{self._common}/{ref}"
            before = known.pop(ref, None)
            expected.pop(path, None)
            if commit:
                expected[path] = f"{commit}\n".encode()
                known[ref] = Ref(commit, before.worktree if before else "")
            if commit and not before and ref.startswith("refs/heads/"):
                return  # some worktree may have this branch checked out: git knows which
        self._refs, self._fingerprint = known, expected  # the next look compares it

    def _fingerprint_now(self) -> Fingerprint:
        common = self._common
        paths = [f"{common}/HEAD", f"{common}/reftable/tables.list"]
        paths += files_below(f"{common}/refs")
        paths += (p for p in files_below(f"{common}/worktrees") if p.endswith("/HEAD"))
        return {"packed-refs": stamp(f"{common}/packed-refs"), **contents(paths)}
