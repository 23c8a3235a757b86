"""A snapshot of the worktree as a tree, without what the checkpoint's rules ignore."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct

from untildone.adapters.checkpoints.guard import DEFAULT, Flag, Guard, NewFiles
from untildone.adapters.checkpoints.snapshot import unaddable_files
from untildone.adapters.checkpoints.snapshot.draft_index import DraftDiff, DraftIndex, is_new_link
from untildone.adapters.checkpoints.snapshot.file_modes import FileModes, unlock
from untildone.adapters.checkpoints.snapshot.ignore_rules import IgnoreRules
from untildone.adapters.checkpoints.snapshot.obstacles import Obstacles
from untildone.adapters.checkpoints.snapshot.skipped_files import clear_index_flags
from untildone.adapters.checkpoints.snapshot.submodules import Submodules
from untildone.adapters.checkpoints.snapshot.unaddable_files import (
    inside_submodule,
    not_regular,
    without_commit,
)
from untildone.adapters.checkpoints.snapshot.unconverted_bytes import (
    DiskBlobs,
    UnconvertedBytes,
    Written,
    WrittenFiles,
    is_attributes_file,
)
from untildone.adapters.clock import pause
from untildone.adapters.git.git import STEP_TIMEOUT_S, Change, Git, git_failed
from untildone.adapters.git.index import (
    add_all,
    add_as_is,
    add_tree_below,
    drop_from_index,
    entries,
    fill_index,
    forget_stat,
    has_path,
    untracked_entries,
)
from untildone.adapters.git.object_store import ADVICE, ObjectsGone
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import STATE_FILE
from untildone.adapters.process.process import Captured
from untildone.domain.agents.agent import Ending
from untildone.domain.errors import StepError

TRIES = 6
LOCK_TRIES = 200
LONG_S = 10.0
MOST_NESTED = 200
MOST_LEFT_OUT = 1000
RULES = (".gitignore", ".gitattributes", ".gitmodules")
BROKEN_INDEX = ("index file", "bad signature", "bad index")


class Added(Struct, frozen=True):
    """What `git add` did: repositories without a commit, files left out of it, its own words."""

    orphans: tuple[str, ...]
    left_out: tuple[Flag, ...]
    said: bytes


class Snapshot(Struct, frozen=True):
    """The worktree as a tree; `changes` against the base it was taken for.

    `disk_blobs` are bytes that git would not give back, to be kept with the commit of the tree.
    `added` are the paths that git has taken, where trees were not compared.
    """

    tree: str
    changes: tuple[Change, ...]
    nested: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    flagged: tuple[Flag, ...] = ()
    disk_blobs: DiskBlobs | None = None
    added: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Everything that is not as in the base."""
        return self.added or tuple(change.path for change in self.changes)

    @property
    def changed_tree(self) -> str:
        """The tree, or nothing if it is the base's own."""
        return self.tree if self.changes else ""


class Snapshots:
    """Takes snapshots of one worktree."""

    def __init__(
        self, git: Git, place: Place, run_folder: Path, guard: Guard, *, state_tracked: bool
    ) -> None:
        self._git = git
        self._place = place
        self._run_folder = run_folder
        self._users_index = run_folder / "index.orig"
        self.index_flagged: tuple[str, ...] = ()
        self._draft = DraftIndex(git, place, run_folder)
        self.staged = self._draft.staged
        self.obstacles = Obstacles(git, place, run_folder)
        self.ignore_rules = IgnoreRules(git, place, run_folder)
        self.new_files = NewFiles(git, place, guard, self.ignore_rules.at_start.covers)
        self.submodules = Submodules(git, place, run_folder)
        self.unconverted = UnconvertedBytes(git, place, run_folder)
        self._written_files = WrittenFiles(git, place, run_folder, self.unconverted)
        self.modes = FileModes(place.top, run_folder)
        self._as_is: list[str] = []
        self._skip = (f":(exclude,top,literal){STATE_FILE}",) if state_tracked else ()

    @classmethod
    def of_run(cls, git: Git, place: Place, folder: Path, guard: Guard = DEFAULT) -> Self:
        """With the rules and the identity that hold for a whole run."""
        git.use_disk(place)
        git.hold_objects(folder)
        for lock in folder.glob("*.lock"):
            lock.unlink()  # of one of our own indexes, by a git that was killed
        try:
            tracked = has_path(entries(git, git.index_of(place)), STATE_FILE)
        except (StepError, OSError):
            # The next snapshot makes a broken index anew; until then HEAD knows.
            tracked = git.ask("cat-file", "-e", f"HEAD:{STATE_FILE}").ok
        if (folder / "excludes").exists():
            git.use_excludes(folder / "excludes")
        git.use_fallback_identity_if_none()
        return cls(git, place, folder, guard, state_tracked=tracked)

    def opened(self, commit: str) -> None:
        """This first checkpoint is in the index, and its files were looked at."""
        self._draft.opened(commit)
        self.new_files.note_free_space()

    def call_starts(self, commit: str) -> None:
        """An agent starts from this checkpoint."""
        self._written_files.note(commit, self._git.index_of(self._place))

    def saved(self, commit: str) -> None:
        """What was taken last is this checkpoint."""
        self._draft.saved_as(commit)

    def take(
        self, base: str, *, with_hidden: bool = False, listed: bool = True, look: bool = False
    ) -> Snapshot:
        """Index and tree of everything in the worktree that the base's rules do not ignore.

        Without `listed` the changes may be missing, which spares a comparison of trees.
        `with_hidden` also looks for what an attempt hid behind ignore rules of its own making.
        New files that the guard flags are left out. Unless the caller moves them (`with_hidden`),
        they stay where they are and are ignored from now on; not so after a mere `look`.
        """
        for anew in (False, *[True] * TRIES):
            with contextlib.suppress(ObjectsGone):
                return self._take(
                    base, with_hidden=with_hidden, listed=listed, look=look, anew=anew
                )
        raise StepError(
            "Somebody removes git's objects as fast as they are stored",
            hint=ADVICE,
        )

    def _take(
        self, base: str, *, with_hidden: bool, listed: bool, look: bool, anew: bool
    ) -> Snapshot:
        self.obstacles.move_locks_and_merges()
        draft = self._draft.begin(anew=anew)
        if with_hidden or not self._draft.started_from(base):
            self._clear_index_flags(draft)
        added = self._add_all(draft, base, self.new_files.large(draft))
        self._refuse_missing(base, () if with_hidden or look else added.left_out)
        needs_diff = listed or with_hidden or not self._draft.started_from(base)
        if not needs_diff and self._is_simple_change(base, added):
            return self._simple_snapshot(draft, added.said)
        return self._full_snapshot(draft, base, added, with_hidden=with_hidden, look=look)

    def _is_simple_change(self, base: str, added: Added) -> bool:
        """Whether git added and removed plain files only, none that the guard stops."""
        if added.left_out or added.orphans or self._as_is or self._written_files.converts(base):
            return False
        return all(map(self._is_simple_line, filter(None, os.fsdecode(added.said).split("\n"))))

    def _is_simple_line(self, line: str) -> bool:
        verb, _, quoted = line.partition(" ")
        path = quoted[1:-1]
        if path.rpartition("/")[2] in RULES or self.ignore_rules.at_start.covers(path):
            return False
        return verb == "remove" or self.new_files.is_unflagged_file(path)

    def _simple_snapshot(self, draft: Git, said: bytes) -> Snapshot:
        """Without a comparison of trees: what `git add` has said is all there is."""
        trees = self._draft.trees_after(said)
        tree = trees.top if trees else draft.write_tree()
        self._install(lambda: self._draft.install_all(trees))
        lines = filter(None, os.fsdecode(said).split("\n"))
        paths = tuple(line.partition(" ")[2][1:-1] for line in lines)
        return Snapshot(tree, (), remarks=tuple(self._inside_submodules()), added=paths)

    def _full_snapshot(
        self, draft: Git, base: str, added: Added, *, with_hidden: bool, look: bool
    ) -> Snapshot:
        diff = DraftDiff(draft, base)
        written = self._written(draft, diff, with_hidden=with_hidden)
        if written and written.converted and not self._draft.started_from(base):
            # Somebody's git has seen these files while other rules were in force.
            forget_stat(draft, written.converted)
            added = self._add_all(draft, base, added.left_out)
            diff.refresh()
            written = self._written(draft, diff, with_hidden=with_hidden)
        nested, refused = self._apply_rules(draft, diff, added.orphans, with_hidden=with_hidden)
        flagged, remarks = self.new_files.flagged(diff.changes, (*added.left_out, *refused))
        if flagged:
            drop_from_index(draft, [flag.path for flag in flagged])
            diff.refresh()
            if not (with_hidden or look):
                self.ignore_rules.at_start.add([flag.path for flag in flagged])
        complete = diff.refreshed == 0
        self._install(lambda: self._draft.install(diff.objects, complete=complete))
        blobs = self._written_files.disk_blobs(written, diff) if written and not look else None
        remarks += [f"A nested git repository is kept as plain files: {p}" for p in nested]
        remarks += self._inside_submodules()
        return Snapshot(diff.tree, diff.changes, nested, tuple(remarks), flagged, blobs)

    def _apply_rules(
        self, draft: Git, diff: DraftDiff, orphans: tuple[str, ...], *, with_hidden: bool
    ) -> tuple[tuple[str, ...], tuple[Flag, ...]]:
        """Nested repositories as files, ignored files out, hidden ones in.

        Returns the nested repositories, and the hidden files that git refuses.
        """
        linked = [change.path for change in diff.changes if is_new_link(change)]
        nested = (*linked, *orphans)
        if nested:
            self._flatten(draft, linked, nested)
        ignored = self.ignore_rules.ignored_changes(diff.base, diff.changes)
        if ignored:
            drop_from_index(draft, ignored)
        hidden = self.ignore_rules.hidden_by_attempt(draft, diff.base) if with_hidden else ()
        refused = unaddable_files.force_add(draft, self._place.top, hidden)
        if nested or ignored or hidden:
            diff.refresh()
        return nested, refused

    def _written(self, draft: Git, diff: DraftDiff, *, with_hidden: bool) -> Written | None:
        """What was written since the last call began, if git may be wrong about it."""
        ours = self._draft.started_from(diff.base) and not with_hidden
        rules = any(is_attributes_file(change.path) for change in diff.changes)
        if ours and not rules and not self._written_files.converts(diff.base):
            return None
        return self._written_files.written(draft, diff)

    def add_users_files(
        self, index: Path, staged: str, left_out: Sequence[Flag] = ()
    ) -> tuple[str, tuple[str, ...], DiskBlobs | None]:
        """The user's files as a tree, by a private index; their nested repositories left out.

        With the bytes of files that git would not give back.
        """
        nested: list[str] = []
        flagged = [flag.path for flag in left_out]
        self.index_flagged = clear_index_flags(self._git, self._place.top, self._users_index, index)
        while not (answer := self._add(self._git, [*flagged, *nested], index)).ok:
            orphans = without_commit(os.fsdecode(answer.stderr))
            if not orphans or len(nested) > MOST_NESTED:
                raise git_failed(("add",), answer)
            nested += orphans
        if unaddable_files.in_closed_folders(self._place.top, answer):
            raise git_failed(("add",), answer)
        if flagged:
            drop_from_index(self._git, flagged, index=index)  # some may be of `git add -N`
        tree = self._git.write_tree(index=index)
        linked = [c.path for c in self._git.diff_trees(staged, tree) if is_new_link(c)]
        if linked:
            drop_from_index(self._git, linked, index=index)
            tree = self._git.write_tree(index=index)
        return tree, (*nested, *linked), self.unconverted.converted_files(index)

    def _clear_index_flags(self, draft: Git) -> None:
        """A file that is marked assume-unchanged or skip-worktree counts like all others."""
        if not self._draft.index.exists():
            return
        with contextlib.suppress(StepError):  # a broken index is repaired when files are added
            clear_index_flags(draft, self._place.top, self._users_index)

    def _refuse_missing(self, base: str, flags: tuple[Flag, ...]) -> None:
        if barred := [flag for flag in flags if unaddable_files.is_refused_by_git(flag)]:
            unaddable_files.refuse_missing(
                barred, self._git.files_among(base, [flag.path for flag in barred])
            )

    def _inside_submodules(self) -> list[str]:
        return [inside_submodule(path) for path in self.submodules.changed()]

    def _install(self, install: Callable[[], None]) -> None:
        for _ in range(LOCK_TRIES):
            try:
                install()
            except FileExistsError:
                self.obstacles.move_locks_and_merges()
                pause(0.01)  # the user's own git commands take turns with us
            else:
                return
        raise StepError(f"The index stays locked: {self._git.index_of(self._place)}.lock")

    def _add_all(self, draft: Git, base: str, flags: tuple[Flag, ...]) -> Added:
        """Record all files; whatever git refuses is left out, and tried without it."""
        left_out, tries = unaddable_files.LeftOut(list(flags)), TRIES
        self._as_is = left_out.as_is
        if not self._draft.index.exists():
            self._new_index(draft, base)
        while not (answer := self._add_but(draft, left_out)).ok:
            said = os.fsdecode(answer.stderr)
            full = len(left_out.paths) > MOST_LEFT_OUT
            left_out.flags += (deep := self._too_long(draft, answer, left_out))
            if not full and (left_out.learn(self._place.top, said) or deep):
                continue
            tries -= 1
            if full or not tries:
                raise git_failed(("add",), answer)
            self._repair(draft, base, said, anew=tries < TRIES - 1)
        if closed := unaddable_files.in_closed_folders(self._place.top, answer):
            unlock(self._place.top, closed)
            if unaddable_files.in_closed_folders(self._place.top, answer):
                raise git_failed(("add",), answer)
            again = self._add_all(draft, base, tuple(left_out.flags))
            return Added(again.orphans, again.left_out, answer.stdout + again.said)
        left_out.flags += self._too_long(draft, answer, left_out)
        if left_out.as_is:
            add_as_is(draft, left_out.as_is, self._place.top)
        return Added(tuple(left_out.orphans), tuple(left_out.flags), answer.stdout)

    def _too_long(
        self, draft: Git, answer: Captured, left_out: unaddable_files.LeftOut
    ) -> list[Flag]:
        if not unaddable_files.is_too_long(answer.stderr):
            return []
        return unaddable_files.too_long(self._place.top, untracked_entries(draft), left_out.flags)

    def _repair(self, draft: Git, base: str, said: str, *, anew: bool) -> None:
        """Out of the way with what stopped git, so that it can try again."""
        for path in not_regular(said):
            self.obstacles.move_aside(
                self._place.top / path
            )  # git cannot record it, and we lose nothing
        self.obstacles.move_locks_and_merges()
        self._draft.index.with_name("index.lock").unlink(missing_ok=True)  # its `add` has died
        broken = any(words in said for words in BROKEN_INDEX)
        index = self._git.index_of(self._place)
        if broken and index.exists():
            self.obstacles.move_aside(index)
        if broken or anew:
            self._new_index(draft, base)

    def move_unconverted(self, changes: Iterable[Change]) -> None:
        """Files that git stored as they are, against its rules, bar the way of a checkout."""
        leaving = {change.path for change in changes} if self._as_is else set()
        for path in self._as_is:
            if path in leaving and os.path.lexists(self._place.top / path):
                self.obstacles.move_aside(self._place.top / path)

    def _new_index(self, draft: Git, base: str) -> None:
        # It grows from the user's own index, which knows the files outside a sparse checkout.
        index, users = self._draft.index, self._users_index
        index.unlink(missing_ok=True)
        if users.exists():
            shutil.copy2(users, index)
        fill_index(draft, base)
        self._clear_index_flags(draft)

    def _add(
        self,
        git: Git,
        left_out: list[str],
        index: Path | None = None,
        *,
        go_on: bool = False,
        limit_s: float = STEP_TIMEOUT_S,
    ) -> Captured:
        skipped = (f":(exclude,top,literal){path}" for path in left_out)
        return add_all(git, *self._skip, *skipped, index=index, go_on=go_on, limit_s=limit_s)

    def _add_but(self, draft: Git, left_out: unaddable_files.LeftOut) -> Captured:
        """Add all but these. When git takes long, it may be reading a very large file.

        One with holes takes no room on the disk, so that only a look at all new files finds it.
        """
        go_on = bool(left_out.flags)
        answer = self._add(draft, left_out.paths, go_on=go_on, limit_s=LONG_S)
        if answer.ending is not Ending.TIMEOUT:
            return answer
        self._draft.index.with_name("index.lock").unlink(missing_ok=True)
        known = {flag.path for flag in left_out.flags}
        left_out.flags += [f for f in self.new_files.large_among_all(draft) if f.path not in known]
        return self._add(draft, left_out.paths, go_on=bool(left_out.flags))

    def _flatten(self, draft: Git, linked: list[str], nested: tuple[str, ...]) -> None:
        if linked:
            drop_from_index(draft, linked)
        for path in nested:
            index = self._run_folder / "nested.index"
            index.unlink(missing_ok=True)
            place = {
                "GIT_DIR": str(self._place.git_dir),
                "GIT_WORK_TREE": str(self._place.top / path),
            }
            draft.do("-C", path, "add", "-A", "--sparse", ".", index=index, env=place)
            tree = draft.write_tree(index=index)
            add_tree_below(draft, path, tree)
            with contextlib.suppress(FileNotFoundError):
                index.unlink()
