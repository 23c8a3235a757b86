"""Entries `ralph:CHANGE:STORY` in the user's stash list, made without touching the tree."""

from pathlib import Path

from untildone.adapters.git import Git
from untildone.domain.run import Origin

STASH = "refs/stash"


class StashEntries:
    """Our entries are known by their whole message; nobody else's is ever touched."""

    def __init__(self, git: Git, folder: Path, change: str, origin: Origin) -> None:
        self._git = git
        self._folder = folder
        self._prefix = f"ralph:{change}:"
        self._origin = origin

    def store(self, story_id: str, checkpoint: str, staged: str) -> None:
        """The state before a story as `git stash push -u` would store it; none for a clean tree."""
        name = self._prefix + story_id
        head = self._git.tree_of(self._origin.commit)
        if self._found(name) or (self._git.tree_of(checkpoint) == head == staged):
            return
        message = f"On {self._origin.branch or '(no branch)'}: {name}"
        commit = self._commit(message, self._git.tree_of(checkpoint), staged)
        self._git.do("stash", "store", "-q", "-m", message, commit)

    def drop(self, story_id: str) -> None:
        """Remove the entry of one story."""
        self._drop(self._found(self._prefix + story_id))

    def drop_all(self) -> int:
        """Remove every entry of this change; how many there were."""
        listed = enumerate(self._git.stashes())
        ours = [k for k, message in listed if _name(message).startswith(self._prefix)]
        self._drop(ours)
        return len(ours)

    def _found(self, name: str) -> list[int]:
        return [k for k, message in enumerate(self._git.stashes()) if _name(message) == name]

    def _drop(self, numbers: list[int]) -> None:
        for number in reversed(numbers):  # the later ones keep their numbers
            self._git.do("stash", "drop", "-q", f"stash@{{{number}}}")

    def _commit(self, message: str, tree: str, staged: str) -> str:
        """Three commits as git makes them: index, untracked files, tracked files on top."""
        git, head = self._git, self._origin.commit
        index = self._folder / "stash.index"
        new = [change for change in git.diff_trees(staged, tree) if change.status == "A"]
        gone = [change for change in git.diff_trees(tree, staged) if change.status == "D"]
        label = message.replace("On ", "", 1)
        parents = [head, git.commit_tree(staged, [head], f"index on {label}")]
        if new:
            untracked = git.overlay(git.empty_tree(), new, index)
            parents.append(git.commit_tree(untracked, [], f"untracked files on {label}"))
            tree = git.overlay(tree, gone, index, with_deletions=True)
            index.unlink()
        return git.commit_tree(tree, parents, message)


def _name(message: str) -> str:
    """The part of `On BRANCH: NAME` that the user of `git stash push -m` gives."""
    return message.partition(": ")[2]
