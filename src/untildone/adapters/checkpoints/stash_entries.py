"""Entries `ralph:CHANGE:STORY` in the user's stash list, made without touching the tree."""

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.git import Git
from untildone.adapters.git.index import overlay
from untildone.domain.run.run import Origin

MARK = "Untildone-Checkpoint: "


class Stash(Struct, frozen=True):
    """An entry of the stash list; `body` is what its commit says below the first line."""

    commit: str
    message: str
    body: str


class StateBefore(Struct, frozen=True):
    """The state before a story: the user's commit, the tree of what is staged, all files."""

    origin: Origin
    staged: str
    checkpoint: str


class StashEntries:
    """Our entries are known by their whole name; nobody else's is ever touched.

    An entry of that very name which we did not make is stored under a ref before it is dropped.
    """

    def __init__(self, git: Git, change: str) -> None:
        self._git = git
        self._change = change
        self._prefix = f"ralph:{change}:"

    def store(self, story_id: str, before: StateBefore, scratch: Path) -> tuple[str, ...]:
        """The state as `git stash push -u` would store it; none for a clean tree."""
        name = self._prefix + story_id
        tree = self._git.tree_of(before.checkpoint)
        if tree == before.staged == self._git.tree_of(before.origin.commit):
            return ()
        earlier = [stash for stash in stash_list(self._git) if _name(stash) == name]
        if any(MARK + before.checkpoint in stash.body for stash in earlier):
            return ()
        message = f"On {before.origin.branch or '(no branch)'}: {name}"
        commit = self._commit(message, tree, before, scratch)
        self._git.do("stash", "store", "-q", "-m", message, commit)
        return self._drop(lambda stash: stash in earlier)

    def drop(self, story_id: str) -> tuple[str, ...]:
        """Remove the entry of one story."""
        return self._drop(lambda stash: _name(stash) == self._prefix + story_id)

    def drop_all(self) -> tuple[str, ...]:
        """Remove every entry of this change."""
        return self._drop(lambda stash: _name(stash).startswith(self._prefix))

    def drop_own(self) -> None:
        """Remove every entry of this change that we made, and no other."""
        self._drop(lambda stash: change_of_entry(stash) == self._change)

    def _drop(self, unwanted: Callable[[Stash], bool]) -> tuple[str, ...]:
        remarks: list[str] = []
        # Git drops by number only, so the list is read again before each.
        while found := [(n, s) for n, s in enumerate(stash_list(self._git)) if unwanted(s)]:
            number, stash = found[-1]
            if MARK not in stash.body:
                remarks.append(self._keep(stash))
            said = self._git.do("stash", "drop", f"stash@{{{number}}}").decode(errors="replace")
            if stash.commit not in said:
                self._store_again(said.rpartition("(")[2].partition(")")[0])
        return tuple(remarks)

    def _keep(self, stash: Stash) -> str:
        ref = f"refs/ralph/moved/{self._change}/{stash.commit[:16]}"
        self._git.update_refs([(ref, stash.commit, None)], "untildone: keep a stash entry")
        return f"The stash entry `{_name(stash)}` was not of this run; it is stored as: {ref}"

    def _store_again(self, commit: str) -> None:
        """Somebody stashed in that very instant: their entry was hit, it goes back on top."""
        message = self._git.message(commit).strip()
        self._git.do("stash", "store", "-q", "-m", message, commit)

    def _commit(self, message: str, tree: str, before: StateBefore, scratch: Path) -> str:
        """Three commits as git makes them: index, untracked files, tracked files on top."""
        git, head, staged = self._git, before.origin.commit, before.staged
        new = [change for change in git.diff_trees(staged, tree) if change.status == "A"]
        gone = [change for change in git.diff_trees(tree, staged) if change.status == "D"]
        label = message.removeprefix("On ")
        parents = [head, git.commit_tree(staged, [head], f"index on {label}")]
        if new:
            untracked = overlay(git, git.line("mktree"), new, scratch)
            parents.append(git.commit_tree(untracked, [], f"untracked files on {label}"))
            tree = overlay(git, tree, gone, scratch, with_deletions=True)
            scratch.unlink()
        return git.commit_tree(tree, parents, f"{message}\n\n{MARK}{before.checkpoint}\n")


def stash_list(git: Git) -> tuple[Stash, ...]:
    """All entries, newest first."""
    form = ("--no-show-signature", "--format=%H%n%gs%n%b")
    rows = os.fsdecode(git.do("stash", "list", "-z", *form)).split("\0")[:-1]
    return tuple(Stash(*row.split("\n", 2)) for row in rows)


def change_of_entry(stash: Stash) -> str:
    """The change of an entry that we made; empty for all others."""
    tool, _, rest = _name(stash).partition(":")
    return rest.partition(":")[0] if tool == "ralph" and MARK in stash.body else ""


def _name(stash: Stash) -> str:
    """The part of `On BRANCH: NAME` that the user of `git stash push -m` gives."""
    return stash.message.partition(": ")[2]
