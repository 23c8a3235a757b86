"""A snapshot of the worktree as a tree, without what the checkpoint's rules ignore."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from untildone.adapters.checkpoints.guard.secrets_and_sizes import DEFAULT, Flag, Guard
from untildone.adapters.checkpoints.snapshot import unaddable_files
from untildone.adapters.checkpoints.snapshot.compare import Snapshot, View, is_new_link
from untildone.adapters.checkpoints.snapshot.draft_index import Drafts
from untildone.adapters.checkpoints.snapshot.files_written import Standing, Written
from untildone.adapters.checkpoints.snapshot.git_messages import (
    inside_submodule,
    not_encoded,
    not_regular,
    without_commit,
)
from untildone.adapters.checkpoints.snapshot.hidden_index_flags import see_all
from untildone.adapters.checkpoints.snapshot.ignored_at_start import Frozen
from untildone.adapters.checkpoints.snapshot.new_files import Watch
from untildone.adapters.checkpoints.snapshot.readonly_folders import unlock
from untildone.adapters.checkpoints.snapshot.submodules import Submodules
from untildone.adapters.checkpoints.snapshot.unconverted_bytes import RawBytes, Raws, is_rules
from untildone.adapters.clock import pause
from untildone.adapters.git.git import Change, Git, git_failed
from untildone.adapters.git.index import (
    add_all,
    add_as_is,
    add_tree_below,
    drop_from_index,
    fill_index,
    forget_stat,
    ignored_entries,
    ignored_files,
    ignored_under,
)
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import IN_PROGRESS, STATE_FILE, is_stale
from untildone.adapters.process.process import Captured
from untildone.domain.errors import StepError

LOCK_WAIT_S = 2.0
TRIES = 6
LOCK_TRIES = 200
MOST_NESTED = 200
MOST_LEFT_OUT = 1000
RULES = (".gitignore", ".gitattributes", ".gitmodules")
BROKEN_INDEX = ("index file", "bad signature", "bad index")
LEFT_OPEN = (
    *(*IN_PROGRESS, "MERGE_MSG", "MERGE_MODE", "SQUASH_MSG", "sequencer", "AUTO_MERGE"),
    *("REBASE_HEAD", "BISECT_START", "BISECT_NAMES", "BISECT_TERMS", "BISECT_ANCESTORS_OK"),
    *("BISECT_EXPECTED_REV", "BISECT_FIRST_PARENT", "BISECT_HEAD", "BISECT_RUN"),
)


class Snapshots:
    """Takes snapshots of one worktree; what is in the way is moved aside, never deleted."""

    def __init__(
        self, git: Git, place: Place, run_folder: Path, guard: Guard, *, state_tracked: bool
    ) -> None:
        self._git = git
        self._place = place
        self._run_folder = run_folder
        self._users_index = run_folder / "index.orig"
        self.overlooked: tuple[str, ...] = ()
        self._drafts = Drafts(git, place, run_folder)
        self.staged = self._drafts.staged
        self.frozen = Frozen(run_folder)
        self.watch = Watch(git, place, guard, self.frozen)
        self.submodules = Submodules(git, place, run_folder)
        self.raw = RawBytes(git, place, run_folder)
        self._standing = Standing(git, place, run_folder, self.raw)
        self._as_is: list[str] = []
        self._skip = (f":(exclude,top,literal){STATE_FILE}",) if state_tracked else ()

    @staticmethod
    def of_run(git: Git, place: Place, folder: Path, guard: Guard = DEFAULT) -> "Snapshots":
        """With the rules and the identity that hold for a whole run."""
        listed = git.ask("ls-files", "-z", "--", STATE_FILE)
        tracked = bool(listed.stdout)
        if not listed.ok:
            # The next snapshot makes a broken index anew; until then HEAD knows.
            tracked = git.ask("cat-file", "-e", f"HEAD:{STATE_FILE}").ok
        if (folder / "excludes").exists():
            git.use_excludes(folder / "excludes")
        git.use_fallback_identity_if_none()
        return Snapshots(git, place, folder, guard, state_tracked=tracked)

    def opened(self, commit: str) -> None:
        """This first checkpoint is in the index, and its files were looked at."""
        self._drafts.opened(commit)
        self.watch.looked()

    def stands(self, commit: str) -> None:
        """An agent starts from this checkpoint."""
        self._standing.note(commit, self._git.index_of(self._place))

    def saved(self, commit: str) -> None:
        """What was taken last is this checkpoint."""
        self._drafts.became(commit)

    def take(
        self, base: str, *, with_hidden: bool = False, listed: bool = True, look: bool = False
    ) -> Snapshot:
        """Index and tree of everything in the worktree that the base's rules do not ignore.

        Without `listed` the changes may be missing, which spares a comparison of trees.
        `with_hidden` also looks for what an attempt hid behind ignore rules of its own making.
        New files that the guard flags are left out. Unless the caller moves them (`with_hidden`),
        they stay where they are and are ignored from now on; not so after a mere `look`.
        """
        self.clear_the_way()
        draft = self._drafts.begin()
        if with_hidden or not self._drafts.is_of(base):
            self._see_all(draft)
        orphans, large, said = self._add_all(draft, base, self.watch.large(draft))
        self._refuse_less(base, () if with_hidden or look else large)
        rare = listed or with_hidden or large or orphans or self._as_is
        ordinary = not rare and self._drafts.is_of(base)
        if ordinary and self._nothing_odd(base, said):
            trees = self._drafts.trees_after(said)
            tree = trees.top if trees else draft.write_tree()
            self._install(lambda: self._drafts.install_all(trees))
            return Snapshot(tree, (), remarks=tuple(self._inside_submodules()))
        view = View(draft, base)
        written = self._written(draft, view, with_hidden=with_hidden)
        if written and written.odd and not self._drafts.is_of(base):
            # Somebody's git has seen these files while other rules were in force.
            forget_stat(draft, written.odd)
            orphans, large, _ = self._add_all(draft, base, large)
            view.again()
            written = self._written(draft, view, with_hidden=with_hidden)
        linked = [c.path for c in view.changes if is_new_link(c)]
        nested = (*linked, *orphans)
        if nested:
            self._flatten(draft, linked, nested)
        ignored = self._ignored_by_base(base, view.changes)
        if ignored:
            drop_from_index(draft, ignored)
        hidden = self._hidden_by_attempt(draft, base) if with_hidden else ()
        large += unaddable_files.force_into(draft, self._place.top, hidden)
        if nested or ignored or hidden:
            view.again()
        flagged, remarks = self.watch.flagged(view.changes, large)
        if flagged:
            drop_from_index(draft, [flag.path for flag in flagged])
            view.again()
            if not (with_hidden or look):
                self.frozen.add([flag.path for flag in flagged])
        self._install(lambda: self._drafts.install(view.objects, complete=view.looks == 1))
        raws = self._standing.raws(written, view) if written and not look else None
        remarks += [f"A nested git repository is kept as plain files: {p}" for p in nested]
        remarks += self._inside_submodules()
        return Snapshot(view.tree, view.changes, nested, tuple(remarks), flagged, raws)

    def _written(self, draft: Git, view: View, *, with_hidden: bool) -> Written | None:
        """What was written since the last call began, if git may be wrong about it."""
        ours = self._drafts.is_of(view.base) and not with_hidden
        rules = any(is_rules(change.path) for change in view.changes)
        if ours and not rules and not self._standing.converts(view.base):
            return None
        return self._standing.written(draft, view)

    def add_users_files(
        self, index: Path, staged: str, left_out: Sequence[Flag] = ()
    ) -> tuple[str, tuple[str, ...], Raws | None]:
        """The user's files as a tree, by a private index; their nested repositories left out.

        With the bytes of files that git would not give back.
        """
        nested: list[str] = []
        flagged = [flag.path for flag in left_out]
        self.overlooked = see_all(self._git, self._place.top, self._users_index, index)
        while not (answer := self._add(self._git, [*flagged, *nested], index)).ok:
            orphans = without_commit(os.fsdecode(answer.stderr))
            if not orphans or len(nested) > MOST_NESTED:
                raise git_failed(("add",), answer)
            nested += orphans
        if unaddable_files.out_of_reach(self._place.top, answer):
            raise git_failed(("add",), answer)
        if flagged:
            drop_from_index(self._git, flagged, index=index)  # some may be announced
        tree = self._git.write_tree(index=index)
        linked = [c.path for c in self._git.diff_trees(staged, tree) if is_new_link(c)]
        if linked:
            drop_from_index(self._git, linked, index=index)
            tree = self._git.write_tree(index=index)
        return tree, (*nested, *linked), self.raw.not_coming_back(index)

    def clear_the_way(self) -> None:
        """A stale lock and half-done merges are moved into the run's folder."""
        for index in {self._git.index_of(self._place), self._place.git_dir / "index"}:
            lock = index.with_name("index.lock")
            if is_stale(lock, LOCK_WAIT_S):
                self.move_aside(lock)
        present = set(os.listdir(self._place.git_dir))  # noqa: PTH208 - names are all we want
        for name in LEFT_OPEN:
            if name in present:
                self.move_aside(self._place.git_dir / name)

    def in_the_way(self, now: str, target: str) -> tuple[str, ...]:
        """Files on disk that neither tree nor index know and that a checkout would overwrite."""
        changes = self._git.diff_trees(now, target)
        leaving = {change.path for change in changes if change.status == "D"}
        found = dict.fromkeys(self.obstacle(c.path) for c in changes if c.status == "A")
        return tuple(path for path in found if path and not self._leaves(path, leaving))

    def _leaves(self, path: str, leaving: set[str]) -> bool:
        """Whether nothing is left at this path once these files are gone."""
        target = self._place.top / path
        if target.is_symlink() or not target.is_dir():
            return path in leaving
        return all(
            os.fspath(found.relative_to(self._place.top)) in leaving
            for found in target.rglob("*")
            if found.is_symlink() or not found.is_dir()
        )

    def obstacle(self, path: str, top: Path | None = None) -> str:
        """What stands on disk where this file is to go: itself, or a file in place of a folder."""
        top = top or self._place.top
        parts = path.split("/")
        for k in range(1, len(parts)):
            above = "/".join(parts[:k])
            target = top / above
            if os.path.lexists(target) and (target.is_symlink() or not target.is_dir()):
                return above
        return path if os.path.lexists(top / path) else ""

    def move_aside(self, path: Path) -> Path:
        """Rename something into the run's folder, under a name that says where it was."""
        aside = self._run_folder / "aside"
        aside.mkdir(exist_ok=True)
        root = self._place.top if path.is_relative_to(self._place.top) else path.parent
        label = os.fsdecode(os.fsencode(path.relative_to(root)).replace(b"/", b"__")[-150:])
        for k in range(10_000):
            target = aside / f"{k:04d}-{label}"
            if not os.path.lexists(target):
                try:
                    shutil.move(path, target)
                except OSError as error:
                    why = f"it cannot be moved out of the way of `git read-tree`: {error}"
                    raise StepError(f"{path} is not as git expects it, and {why}") from error
                return target
        raise StepError(f"No room to move a file aside: {aside}")

    def _see_all(self, draft: Git) -> None:
        """Whoever told git to overlook a file must not lose what is in it."""
        if not self._drafts.index.exists():
            return
        with contextlib.suppress(StepError):  # a broken index is mended when files are added
            see_all(draft, self._place.top, self._users_index)

    def _refuse_less(self, base: str, flags: tuple[Flag, ...]) -> None:
        if barred := [flag for flag in flags if unaddable_files.is_refused(flag)]:
            unaddable_files.refuse_less(
                barred, self._git.files_among(base, [flag.path for flag in barred])
            )

    def _inside_submodules(self) -> list[str]:
        return [inside_submodule(path) for path in self.submodules.changed()]

    def _nothing_odd(self, base: str, said: bytes) -> bool:
        """Whether git added and removed ordinary files only, none that the guard stops."""
        if self._standing.converts(base):
            return False
        for line in filter(None, os.fsdecode(said).split("\n")):
            verb, _, quoted = line.partition(" ")
            path = quoted[1:-1]
            if path.rpartition("/")[2] in RULES or self.frozen.covers(path):
                return False
            if verb != "remove" and not self.watch.is_ordinary(path):
                return False
        return True

    def _install(self, install: Callable[[], None]) -> None:
        for _ in range(LOCK_TRIES):
            try:
                install()
            except FileExistsError:
                self.clear_the_way()
                pause(0.01)  # the user's own git commands take turns with us
            else:
                return
        raise StepError(f"The index stays locked: {self._git.index_of(self._place)}.lock")

    def _add_all(
        self, draft: Git, base: str, left_out: tuple[Flag, ...]
    ) -> tuple[tuple[str, ...], tuple[Flag, ...], bytes]:
        """Nested repositories without a commit, what else stays out of git, and git's words."""
        orphans: list[str] = []
        self._as_is = []
        out, tries = list(left_out), TRIES
        if not self._drafts.index.exists():
            self._new_index(draft, base)
        while not (answer := self._add_but(draft, out, orphans)).ok:
            said = os.fsdecode(answer.stderr)
            repositories, as_is = without_commit(said), not_encoded(said)
            barred = unaddable_files.named(self._place.top, said, out)
            tries -= 0 if repositories or as_is or barred else 1
            if tries == 0 or len(orphans) + len(out) + len(self._as_is) > MOST_LEFT_OUT:
                raise git_failed(("add",), answer)
            orphans += repositories
            self._as_is += as_is
            out += barred
            if not (repositories or as_is or barred):
                self._mend(draft, base, said, anew=tries < TRIES - 1)
        if closed := unaddable_files.out_of_reach(self._place.top, answer):
            unlock(self._place.top, closed)
            if unaddable_files.out_of_reach(self._place.top, answer):
                raise git_failed(("add",), answer)
            found, left_out, more = self._add_all(draft, base, tuple(out))
            return found, left_out, answer.stdout + more
        if self._as_is:
            add_as_is(draft, self._as_is, self._place.top)
        return tuple(orphans), tuple(out), answer.stdout

    def _add_but(self, draft: Git, out: list[Flag], orphans: list[str]) -> Captured:
        skipped = [*(flag.path for flag in out), *orphans, *self._as_is]
        return self._add(draft, skipped, go_on=bool(out))

    def _mend(self, draft: Git, base: str, said: str, *, anew: bool) -> None:
        """Out of the way with what stopped git, so that it can try again."""
        for path in not_regular(said):
            self.move_aside(self._place.top / path)  # git cannot record it, and we lose nothing
        self.clear_the_way()
        self._drafts.index.with_name("index.lock").unlink(missing_ok=True)  # its `add` has died
        broken = any(words in said for words in BROKEN_INDEX)
        index = self._git.index_of(self._place)
        if broken and index.exists():
            self.move_aside(index)
        if broken or anew:
            self._new_index(draft, base)

    def let_go(self, changes: Iterable[Change]) -> None:
        """Files that git stored as they are, against its rules, bar the way of a checkout."""
        leaving = {change.path for change in changes} if self._as_is else set()
        for path in self._as_is:
            if path in leaving and os.path.lexists(self._place.top / path):
                self.move_aside(self._place.top / path)

    def _new_index(self, draft: Git, base: str) -> None:
        # It grows from the user's own index, which knows the files outside a sparse checkout.
        index, users = self._drafts.index, self._users_index
        index.unlink(missing_ok=True)
        if users.exists():
            shutil.copy2(users, index)
        fill_index(draft, base)
        self._see_all(draft)

    def _add(
        self, git: Git, left_out: list[str], index: Path | None = None, *, go_on: bool = False
    ) -> Captured:
        skipped = (f":(exclude,top,literal){path}" for path in left_out)
        return add_all(git, *self._skip, *skipped, index=index, go_on=go_on)

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

    def _ignored_by_base(self, base: str, changes: tuple[Change, ...]) -> tuple[str, ...]:
        # An attempt that edits ignore files must neither commit nor lose what was ignored before.
        added = [change.path for change in changes if change.status == "A"]
        if any(change.path.rpartition("/")[2] == ".gitignore" for change in changes):
            return self.ignored(base, added)
        return tuple(path for path in added if self.frozen.covers(path))

    def ignored(self, base: str, paths: list[str]) -> tuple[str, ...]:
        """Which of these new files the base's rules ignore."""
        frozen = [path for path in paths if self.frozen.covers(path)]
        return *frozen, *self._matched_by_base(base, [p for p in paths if p not in frozen])

    def _hidden_by_attempt(self, draft: Git, base: str) -> tuple[str, ...]:
        entries = [p for p in ignored_entries(draft) if not self.frozen.covers(p.rstrip("/"))]
        allowed = set(self._matched_by_base(base, entries))
        suspects = [path for path in entries if path not in allowed]
        if not suspects:
            return ()
        files = ignored_files(draft, suspects)
        kept = set(self._matched_by_base(base, files))
        return tuple(path for path in files if path not in kept and not self.frozen.covers(path))

    def _matched_by_base(self, base: str, paths: Sequence[str]) -> tuple[str, ...]:
        if not paths:
            return ()
        rules = self._run_folder / "rules"
        shutil.rmtree(rules, ignore_errors=True)
        rules.mkdir()
        for path in self._git.files_in(base, ".gitignore"):
            target = rules / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self._git.content(base, path))
        for path in paths:
            if path.endswith("/"):
                (rules / path).mkdir(parents=True, exist_ok=True)  # rules for folders need one
        return ignored_under(self._git, rules, self._place.git_dir, paths)
