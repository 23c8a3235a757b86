"""Entries `ralph:CHANGE:STORY` in the user's stash list, made without touching the tree."""

import os
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from untildone.adapters.checkpoints.refs_and_settings import (
    STASH,
    STASH_LOG,
    held_ref,
)
from untildone.adapters.git.git import Git, RefUpdate
from untildone.adapters.git.object_files import content, ref_in_file
from untildone.adapters.git.trees import Entry, Trees, empty_tree
from untildone.domain.run.run import Origin

MARK = "Untildone-Checkpoint: "


class Stash(Struct, frozen=True):
    """An entry of the stash list."""

    commit: str
    message: str

    @property
    def name(self) -> str:
        """The part of `On BRANCH: NAME` that the user of `git stash push -m` gives."""
        return self.message.partition(": ")[2]


class StateBefore(Struct, frozen=True):
    """The state before a story: the user's commit, the tree of what is staged, all files."""

    origin: Origin
    staged: str
    checkpoint: str


class Split(Struct, frozen=True):
    """All files of a tree in two: those that the tree of what is staged has, and the others."""

    staged: str
    tree: str
    tracked: str
    untracked: str


class StashEntries:
    """Our entries are known by their whole name; nobody else's is ever touched.

    An entry of that very name which we did not make is stored under a ref before it is dropped.
    """

    def __init__(self, git: Git, change: str) -> None:
        self._git = git
        self._change = change
        self._prefix = f"ralph:{change}:"
        self._trees = Trees(git)
        self._last: Split | None = None

    def store(self, story_id: str, before: StateBefore) -> tuple[dict[str, str], tuple[str, ...]]:
        """The state as `git stash push -u` would store it; none for a clean tree.

        Returns where refs are now that were moved for it, and remarks.
        """
        name, git = self._prefix + story_id, self._git
        tree = git.tree_of(before.checkpoint)
        if tree == before.staged == git.tree_of(before.origin.commit):
            return {}, ()
        earlier = [stash for stash in stash_list(git) if stash.name == name]
        if any(MARK + before.checkpoint in git.message(stash.commit) for stash in earlier):
            return {}, ()
        message = f"On {before.origin.branch or '(no branch)'}: {name}"
        commit = self._commit(message, tree, before)
        # As `git stash store` does it, and held by a ref of ours from the first instant.
        moved = {STASH: commit, held_ref(commit): commit}
        updates: list[RefUpdate] = [(ref, commit, None) for ref in moved]
        git.update_refs(updates, message, create_reflog=True)
        return moved, self._drop(lambda stash: stash in earlier) if earlier else ()

    def only_entry(self, story_id: str) -> str:
        """The commit of a story's entry if it is ours and the list has no other, else nothing.

        Then it is dropped by deleting the list's ref, which can go together with other refs.
        """
        listed = stash_list(self._git)
        if [stash.name for stash in listed] != [self._prefix + story_id]:
            return ""
        return listed[0].commit if self._is_ours(listed[0]) else ""

    def held(self, story_id: str) -> list[RefUpdate]:
        """The updates that let go of what holds a story's entries, for when they are dropped."""
        listed = [s for s in stash_list(self._git) if s.name == self._prefix + story_id]
        refs = {held_ref(stash.commit): stash.commit for stash in listed}
        return [(ref, "", old) for ref, old in refs.items() if self._git.resolve(ref) == old]

    def drop(self, story_id: str) -> tuple[str, ...]:
        """Remove the entry of one story."""
        return self._drop(lambda stash: stash.name == self._prefix + story_id)

    def drop_all(self) -> tuple[str, ...]:
        """Remove every entry of this change."""
        return self._drop(lambda stash: stash.name.startswith(self._prefix))

    def drop_own(self) -> None:
        """Remove every entry of this change that we made, and no other."""
        self._drop(lambda stash: change_of_entry(self._git, stash) == self._change)

    def _drop(self, unwanted: Callable[[Stash], bool]) -> tuple[str, ...]:
        remarks: list[str] = []
        # Git drops by number only, so the list is read again before each.
        while found := [(n, s) for n, s in enumerate(stash_list(self._git)) if unwanted(s)]:
            number, stash = found[-1]
            if not self._is_ours(stash):
                remarks.append(self._keep(stash))
            said = self._git.do("stash", "drop", f"stash@{{{number}}}").decode(errors="replace")
            if stash.commit not in said:
                self._store_again(said.rpartition("(")[2].partition(")")[0])
        return tuple(remarks)

    def _keep(self, stash: Stash) -> str:
        ref = f"refs/ralph/moved/{self._change}/{stash.commit[:16]}"
        self._git.update_refs([(ref, stash.commit, None)], "untildone: keep a stash entry")
        return f"The stash entry `{stash.name}` was not of this run; it is stored as: {ref}"

    def _store_again(self, commit: str) -> None:
        """Somebody stashed in that very instant: their entry was hit, it goes back on top."""
        message = self._git.message(commit).strip()
        self._git.do("stash", "store", "-q", "-m", message, commit)

    def _is_ours(self, stash: Stash) -> bool:
        return MARK in self._git.message(stash.commit)

    def _commit(self, message: str, tree: str, before: StateBefore) -> str:
        """Three commits as git makes them: index, untracked files, tracked files on top."""
        git, head, staged = self._git, before.origin.commit, before.staged
        tracked, untracked = self._split_by_staged(staged, tree)
        label = message.removeprefix("On ")
        parents = [head, git.commit_tree(staged, [head], f"index on {label}")]
        if untracked:
            parents.append(git.commit_tree(untracked, [], f"untracked files on {label}"))
        return git.commit_tree(tracked, parents, f"{message}\n\n{MARK}{before.checkpoint}\n")

    def _split_by_staged(self, staged: str, tree: str) -> tuple[str, str]:
        """Trees of the files that are tracked and of those that are not (empty if there are none).

        They grow from the ones of the story before, or the price would grow with every story.
        """
        last = self._last
        if not (last and last.staged == staged and self._is_stored(last)):
            last = Split(staged, staged, staged, "")
        changes = {d.path: d.new for d in self._trees.diff(last.tree, tree)}
        tracked = {path for path in changes if self._trees.entry(staged, path)}
        self._last = Split(
            staged,
            tree,
            self._changed(last.tracked, changes, tracked),
            self._changed(last.untracked, changes, changes.keys() - tracked),
        )
        nothing = self._last.untracked == empty_tree(len(tree))
        return self._last.tracked, "" if nothing else self._last.untracked

    def _changed(
        self, tree: str, changes: Mapping[bytes, Entry | None], paths: Collection[bytes]
    ) -> str:
        return self._trees.changed(tree, ((p, changes[p]) for p in paths)) if paths else tree

    def _is_stored(self, split: Split) -> bool:
        """Whether its trees are there yet: the entry was dropped, and somebody may run `git gc`."""
        folder = self._git.objects_folder
        trees = {split.tracked, split.untracked} - {split.staged, ""}
        return all((folder / tree[:2] / tree[2:]).exists() for tree in trees)


def stash_list(git: Git) -> tuple[Stash, ...]:
    """All entries, newest first."""
    tip = ref_in_file(git.common_dir, STASH)
    if tip == "":
        return ()
    listed = _logged(content(git.common_dir / STASH_LOG))
    if listed and listed[0].commit == tip:
        return tuple(listed)
    # Packed, or not kept in files at all.
    rows = os.fsdecode(git.do("stash", "list", "-z", "--format=%H%n%gs")).split("\0")[:-1]
    return tuple(Stash(*row.split("\n", 1)) for row in rows)


def _logged(log: bytes) -> list[Stash]:
    rows = [os.fsdecode(line).partition("\t") for line in log.split(b"\n")[:-1]]
    return [Stash(meta.split(" ")[1], message) for meta, _, message in reversed(rows)]


def change_of_entry(git: Git, stash: Stash) -> str:
    """The change of an entry that we made; empty for all others."""
    tool, _, rest = stash.name.partition(":")
    ours = tool == "ralph" and MARK in git.message(stash.commit)
    return rest.partition(":")[0] if ours else ""
