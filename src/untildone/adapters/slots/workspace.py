"""The work of one lane: saved and put back in its slot, and always stored in the user's repository.

All that decides what belongs to an attempt is that of every checkpoint; here is only what a slot
adds to it: a copy in the user's repository before anything is replaced.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from untildone.adapters.checkpoints.branch import BranchCheckpoint
from untildone.adapters.checkpoints.failed_attempts import FailedAttempts
from untildone.adapters.checkpoints.finish import Closing
from untildone.adapters.checkpoints.snapshot.skipped_files import write_skipped_files
from untildone.adapters.checkpoints.snapshot.snapshot import Snapshot, Snapshots
from untildone.adapters.checkpoints.snapshot.unconverted_bytes import NAMES
from untildone.adapters.checkpoints.snapshot.withheld_files import kept_folder
from untildone.adapters.git.git import Git, Ref, git_failed
from untildone.adapters.git.index import (
    entries,
    has_only_tracked,
    is_refreshed,
    untracked_entries,
)
from untildone.adapters.git.object_files import content, ref_in_file
from untildone.adapters.git.place import Place
from untildone.adapters.records.durable import free_name, move_file
from untildone.adapters.records.run_folder import USERS_INDEX
from untildone.adapters.slots.clone import has_own_objects, point
from untildone.domain.errors import Interrupted, StepError
from untildone.domain.run.fact import Saved

PINS = "refs/ralph/slots/"  # what slots borrow; they go with the slot
PASSES = 3


class Pins:
    """Refs that hold what slots borrow: one for each base in use."""

    def __init__(self, git: Git, key: str) -> None:
        self._git = git
        self._prefix = f"{PINS}{key}/"

    def add(self, lane: int, base: str) -> None:
        ref = f"{self._prefix}{lane}/{base[:16]}"
        if self._git.resolve(ref) != base:
            self._git.update_refs([(ref, base, None)], "untildone: a lane's base")

    def remove(self, lane: int, but: str = "") -> None:
        for ref, commit in self._of(f"{self._prefix}{lane}").items():
            if commit != but:
                self._git.update_refs(
                    [(ref, "", commit)], "untildone: a lane's base is used no more"
                )

    def _of(self, folder: str) -> dict[str, str]:
        """They are young, so mostly files of their own."""
        names = [path.name for path in (self._git.common_dir / folder).glob("*")]
        found = {n: ref_in_file(self._git.common_dir, f"{folder}/{n}") for n in names}
        packed = os.fsencode(folder) in content(self._git.common_dir / "packed-refs")
        if packed or not names or not all(found.values()):
            return {name: ref.commit for name, ref in self._git.refs(f"{folder}/").items()}
        return {f"{folder}/{name}": commit for name, commit in found.items() if commit}


class UsersRepository:
    """The user's repository as a slot sees it: refs are stored there, with all that they need.

    A linked worktree has its branch `head` there, which goes with it and holds nothing for good.
    """

    def __init__(self, git: Git, place: Place, run_folder: Path, slot: Place, head: str) -> None:
        self.git = git
        self.place = place
        self.run_folder = run_folder
        self._slot = slot
        self._head = head if self.shares_refs else PINS

    @property
    def shares_refs(self) -> bool:
        """Whether the slot is a worktree of it, and not a clone."""
        return self._slot.common_dir == self.place.common_dir

    def store(self, source: str, target: str) -> str:
        """What a ref of the slot holds, commits and files and all, under a ref of the user's.

        What we store ourselves is there already. What an agent's git has stored is copied: git
        itself sees to it that nothing is missing before the ref exists.
        """
        if self.shares_refs:
            if source != target:
                commit = self.git.resolve(source)
                self.git.update_refs([(target, commit, None)], "untildone: store a lane's work")
            return target
        stored = ref_in_file(self._slot.common_dir, source)
        if stored and not has_own_objects(self.place, self._slot):
            self.git.update_refs([(target, stored, None)], "untildone: store a lane's work")
            return target
        words = (
            *("-c", "protocol.file.allow=always", "-c", "fetch.writeCommitGraph=false"),
            *("fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--no-prune"),
            *("--no-recurse-submodules", "--no-show-forced-updates", str(self._slot.git_dir)),
        )
        self.git.do(*words, f"+{source}:{target}")
        return target

    def unstored(self, slot: Git, tips: Iterable[str]) -> set[str]:
        """Which commits of the slot no ref of the user's holds."""
        wanted = {tip for tip in tips if tip.strip("0")}
        if not wanted:
            return set()
        refs = self.git.refs("refs/").items()
        going = (PINS, self._head)
        known = {ref.commit for name, ref in refs if not name.startswith(going)}
        lines = [*wanted, *(f"^{commit}" for commit in known)]
        words = ("rev-list", "--ignore-missing", "--stdin")
        out = slot.do(*words, stdin="".join(f"{line}\n" for line in lines).encode())
        return wanted & set(out.decode().split())

    def holder(self, commit: str) -> str:
        """The first ref that holds a commit for good; empty if none does."""
        return holder_of(self.git, commit, self._head)


def holder_of(git: Git, commit: str, but: str = PINS) -> str:
    """The first ref of a repository that holds a commit, no pin and not `but` that; or nothing."""
    answer = git.ask("for-each-ref", "--format=%(refname)", "--contains", commit)
    names = os.fsdecode(answer.stdout).split()
    return next((name for name in names if not name.startswith((PINS, but))), "")


class SlotSnapshots(Snapshots):
    """Snapshots of a slot, whose index may name what is not there any more.

    A file that an agent staged may have been, as a blob, an object of the user's that nothing kept:
    git wrote no second one, and a `git gc` of the user has removed it. The file still has it.
    """

    def are_at(self, commit: str) -> bool:
        """Whether index and files are surely those of a commit, byte for byte.

        New files are not looked for. It costs a fraction of `take`, and leaves an index that knows
        the files: one that was written anew with the same bytes is no obstacle to a checkout.
        """
        index = self._git.index_of(self._place)
        if self.unconverted.knows(commit) or self.unconverted.may_convert():
            return False
        if self.staged.has_any():
            return False
        if b"attributes\0" in content(index):  # in whatever folder: git may write other bytes
            return False
        ours = self._draft.is_index_of(commit) or self._is_plain_index_of(commit, index)
        return ours and is_refreshed(self._git)

    def _is_plain_index_of(self, commit: str, index: Path) -> bool:
        """Whether an index, of whomever, has what a commit has, and hides no file from git."""
        rows = entries(self._git, index).split(b"\0")
        plain = all(row.startswith(b"H ") for row in rows if row)
        return plain and self._git.ask("diff-index", "--cached", "--quiet", commit).ok

    def take(
        self, base: str, *, with_hidden: bool = False, listed: bool = True, look: bool = False
    ) -> Snapshot:
        """As for every worktree; an index with gaps is made anew from the files."""
        take = partial(super().take, base, with_hidden=with_hidden, listed=listed, look=look)
        try:
            return take()
        except Interrupted:
            raise
        except StepError:
            (self._place.git_dir / "index").unlink(missing_ok=True)
            return take()


class SlotAttempts(FailedAttempts):
    """Failed attempts of a lane: in the user's repository before they are put back."""

    def __init__(
        self,
        git: Git,
        place: Place,
        snapshots: Snapshots,
        folder: Path,
        change: str,
        users: UsersRepository,
    ) -> None:
        super().__init__(git, place, snapshots, folder, change)
        self._users = users

    def store(self, ref: str, snapshot: Snapshot, checkpoint: str, tips: list[str]) -> str:
        """As for every attempt, and then a copy of it."""
        commit = super().store(ref, snapshot, checkpoint, tips)
        try:
            self._users.store(ref, ref)
        except Interrupted:
            raise
        except StepError:
            if tips in ([], [checkpoint]):
                raise
            # A commit of the agent has a gap, as git says: the files are stored all the same.
            self._git.update_refs([(ref, "", commit)], "untildone: without the agent's commits")
            return self.store(ref, snapshot, checkpoint, [])
        return commit

    def put_back(
        self, ref: str, snapshot: Snapshot, checkpoint: str, since: float
    ) -> tuple[str, ...]:
        """As for every attempt; what stays out of git goes to the user's own folder of the run."""
        remarks = super().put_back(ref, snapshot, checkpoint, since)
        label = ref.removeprefix(self._prefix)
        kept = kept_folder(self._folder, label)
        for at, _, names in os.walk(kept):
            for name in names:
                path = Path(at, name)
                target = kept_folder(self._users.run_folder, label) / path.relative_to(kept)
                move_file(path, free_name(target.parent, name) if target.exists() else target)
        return remarks

    def checked_out(self, commit: str) -> bool:
        """Bring files that are all in a commit to another one; False if git sees an obstacle."""
        done = self._git.checkout_tree(commit).ok
        if done:
            write_skipped_files(self._git, self._place.top, self._folder)
        return done

    def check_out(self, ref: str, snapshot: Snapshot, commit: str) -> None:
        """Bring the files to any commit; all that the snapshot has is stored."""
        obstacles = self._snapshots.obstacles
        for path in obstacles.overwritten_by(snapshot.tree, commit):
            obstacles.move_aside(self._place.top / path)
        answer = self._check_out(ref, snapshot, commit)
        if not answer.ok:
            raise git_failed(("read-tree",), answer)
        write_skipped_files(self._git, self._place.top, self._folder)
        # What git takes for unchanged, although it would write other bytes.
        self._snapshots.unconverted.put_back(commit, {}, snapshot.disk_blobs or {})

    def left(self) -> tuple[str, ...]:
        """What is neither tracked nor ignored; empty folders go, whoever made them."""
        left = untracked_entries(self._git)
        self._remove_new_empty_folders(left, since=0)
        return tuple(entry for entry in left if os.path.lexists(self._place.top / entry))


class SlotWorkspace(BranchCheckpoint):
    """A lane's checkpoints: commits on a branch in its slot, each stored in the user's repository.

    The base of a story is its checkpoint.
    """

    def __init__(
        self,
        closing: Closing,
        snapshots: SlotSnapshots,
        place: Place,
        change: str,
        branch: str,
        users: UsersRepository,
    ) -> None:
        git, folder = closing.git, closing.folder
        closing.snapshots = self._saved_files = snapshots
        self.has_only_tracked = False
        self._stored = set[str]()
        super().__init__(git, place, change, closing, branch)
        self._users = users
        self._lane = SlotAttempts(git, place, self._snapshots, folder, change, users)
        self._attempts = self._lane
        if users.shares_refs:
            # It moves while lanes work, and no attempt has moved it.
            self._outside.spare(f"refs/heads/ralph/{change}")

    def is_of(self, change: str, run_id: str) -> bool:
        return (self._change, self._run_id) == (change, run_id)

    def has_one_ref(self, commit: str) -> None:
        """Its git folder was emptied: no other ref is there than the branch, at this commit."""
        self._refs.known({self._ref: Ref(commit, str(self._place.top))})

    def let_go(self) -> None:
        """At the end of a run: all that was stored is there."""
        self._git.store.let_go(self._git.do)

    def forget_bytes(self) -> None:
        """Bytes that git would not give back were of commits that the slot does not have now."""
        (self._folder / NAMES).unlink(missing_ok=True)

    def begin(self, commit: str, *, none_ignored: bool = False) -> None:
        """The files are those of this commit, freshly checked out or brought to it.

        What is ignored now stays so for the attempt; what a sparse checkout leaves out stays out.
        """
        users = self._folder / USERS_INDEX
        # No second name of the index: what an agent writes into that must not be here, too.
        shutil.copy2(self._place.git_dir / "index", users)
        self._snapshots.ignore_rules.freeze(none_ignored=none_ignored)
        self._snapshots.opened(commit)
        self._stored = set()

    def commits(self, checkpoint: str) -> tuple[str, ...]:
        """The agent's commits; git must find the slot's own repository first."""
        point(self._place, self._place.top.parent / "damaged")
        return super().commits(checkpoint)

    def save(self, lane: int, checkpoint: str, message: str, *, only_changes: bool) -> Saved:
        """The story's work as a commit in the slot, and in the user's repository."""
        saved = super().save(lane, checkpoint, message, only_changes=only_changes)
        self._store_work(checkpoint)
        return saved

    def saved_as(self, checkpoint: str, story_id: str, attempt: int) -> str:
        """The commit of this attempt, if it was made; its copy may still be missing."""
        commit = super().saved_as(checkpoint, story_id, attempt)
        if commit:
            self._store_work(checkpoint)
        return commit

    def _store_work(self, base: str) -> None:
        commit = self._git.resolve(self._ref)
        target, *_ = self._outside.store(commit)
        self._users.store(self._ref, target)
        self._stored |= {commit, base}  # the work builds on its base
        # What was staged, and commits beside the work: nobody may use this slot again for long.
        self._store_strays(commit, f"refs/ralph/moved/{self._change}/{commit[:16]}")

    # -- for the next story --------------------------------------------------------------------

    def bring_to(self, commit: str, moved: str) -> tuple[str, ...]:
        """The files exactly as a commit has them; ignored ones stay. Returns where things are now.

        All that only this slot has is stored first, below the prefix `moved`. A second look finds
        what was ignored by rules that the new commit does not have.
        """
        tip = self._git.resolve(self._ref) or commit
        stored = self._store_strays(tip, moved)
        self.has_only_tracked = has_only_tracked(self._git)
        clean = self.has_only_tracked and self._saved_files.are_at(tip)
        if clean and self._lane.checked_out(commit):
            return tuple(stored)
        for _ in range(PASSES):
            ref = f"{moved}-files-{tip[:12]}"
            snapshot = self._snapshots.take(tip)
            staged = self._snapshots.staged.commits(tip, snapshot.tree)
            if snapshot.changes or snapshot.flagged or staged:
                self._lane.store(ref, snapshot, tip, [])
                stored.append(ref)
            self._lane.check_out(ref, snapshot, commit)
            self._snapshots.staged.forget()  # nothing of the next story
            tip = commit
            self.has_only_tracked = has_only_tracked(self._git)
            if self.has_only_tracked or not self._lane.left():
                return tuple(stored)
        raise StepError(f"Files in a slot come back after they were removed: {self._place.top}")

    def left_behind(self) -> tuple[str, ...]:
        """What is in the files and in no commit: paths, against the last commit of the slot."""
        tip = self._git.resolve(self._ref)
        snapshot = self._snapshots.take(tip, with_hidden=True, look=True)
        found = (*(c.path for c in snapshot.changes), *(flag.path for flag in snapshot.flagged))
        return tuple(dict.fromkeys(found))

    def tips(self) -> set[str]:
        """All commits that a ref or a log of the slot names; of shared refs, its own branch."""
        refs = self._refs.now()
        shared = self._users.shares_refs
        own = [ref for name, ref in refs.items() if not shared or name == self._ref]
        known = {ref.commit for ref in own} | {self._head_commit(refs), *self._logged()}
        return {tip for tip in known if tip.strip("0")}

    def _logged(self) -> Iterator[str]:
        logs = self._place.git_dir / "logs"
        for path in (Path(at, name) for at, _, names in os.walk(logs) for name in names):
            rows = (line.split(b" ", 2) for line in content(path).splitlines())
            yield from (row[1].decode(errors="replace") for row in rows if len(row) == 3)

    def stray_tips(self) -> set[str]:
        """Those of them that no ref of the user's repository holds for good."""
        return self._users.unstored(self._git, self.tips())

    def _store_strays(self, base: str, prefix: str) -> list[str]:
        """Store the commits that only this slot has; where they are now, if there were any."""
        tips = self.tips() - self._stored
        stray = self._users.unstored(self._git, tips - set(self._held(tips)))
        stored = (
            [self._store_tips(stray, base, f"{prefix}-commits-{min(stray)[:12]}")] if stray else []
        )
        self._stored |= tips
        return stored

    def _held(self, tips: Iterable[str]) -> Iterator[str]:
        """What an earlier process has stored of these, as `_store_work` does, and its parents."""
        for tip in tips:
            ref, *_ = self._outside.store(tip)
            if ref_in_file(self._users.place.common_dir, ref) == tip:
                yield tip
                head = self._git.loose_commit(tip).partition(b"\n\n")[0]
                lines = (line.partition(b" ") for line in head.split(b"\n"))
                yield from (name.decode() for word, _, name in lines if word == b"parent")

    def _store_tips(self, tips: set[str], base: str, ref: str) -> str:
        """Commits that nothing else holds, as parents of one that is stored under a ref."""
        message = f"what only a slot had\n\nUntildone-Run: {self._run_id}\n"
        commit = self._git.commit_tree(self._git.tree_of(base), sorted({base, *tips}), message)
        self._git.update_refs([(ref, commit, None)], "untildone: store what only a slot had")
        return self._users.store(ref, ref)

    def hand_over(self, folders: Iterable[Path], lane: int) -> None:
        """What no commit has, because git must not or cannot have it, to the user's run folder."""
        own = self._folder
        for folder in (*folders, own / "kept", own / "aside"):
            if folder.is_dir() and any(folder.iterdir()):
                target = self._users.run_folder / f"lane-{lane}"
                target.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.move(folder, free_name(target, folder.name))
