"""Landing: a story's work on top of the run branch, merged in memory, in one commit.

Three-way merges that git calls clean, and nothing else: no side is ever taken for a file, and two
texts are never put one after the other. The user's files, index and HEAD are not touched.
"""

import fnmatch
import os
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from untildone.adapters.checks.clean_checkout import CleanCheckout
from untildone.adapters.git.git import Change, Git
from untildone.adapters.git.object_files import content, head_text, is_plain_file
from untildone.adapters.git.place import Place
from untildone.adapters.git.trees import Entry, Trees
from untildone.domain.errors import StepError, UserError
from untildone.plain_files import read_bytes

# The first that has `merge-tree --write-tree`.
OLDEST_GIT = (2, 38)
MOST_COMMITS = 50
# What a person likes, or an attributes file says, must not make a merge clean that is not.
RULES = ("merge.renames=true", "merge.directoryRenames=conflict", "merge.union.driver=false")
# A merge driver that says yes to everything keeps one side and drops the other.
YES = ("true", "/bin/true", "/usr/bin/true", ":", "exit 0")

# Runs a declared command in a folder; what it says if it fails, else nothing.
Regenerate = Callable[[str, Path], str]


class Met(Struct, frozen=True):
    """A commit that a story met on the run branch."""

    commit: str
    subject: str


class Merged(Struct, frozen=True):
    """The story and the tip as one tree; `regenerated` files were made by their commands."""

    tree: str
    regenerated: tuple[str, ...] = ()


class Conflict(Struct, frozen=True):
    """Files that cannot be merged, the commits since the base that touched them, and more."""

    files: tuple[str, ...]
    met: tuple[Met, ...]
    why: str = ""


class Standing(StrEnum):
    """Where the run branch is after a crash."""

    LANDED = "landed"
    BEFORE = "before"
    ELSEWHERE = "elsewhere"


class Landing:
    """Lands stories of one change on its run branch, in the user's repository.

    `beside` are paths that are no product of a story (the task list, state, learnings), folders
    with all that is below them: for these the tip's version stays.
    """

    def __init__(
        self, git: Git, place: Place, change: str, run_folder: Path, beside: Sequence[str] = ()
    ) -> None:
        self._git = git
        self._place = place
        self._change = change
        self._beside = tuple(beside)
        self.ref = f"refs/heads/ralph/{change}"
        room = run_folder / f"{run_folder.name}-landing"
        self._room = CleanCheckout(git, place, room)
        self._room_folder = room
        self._trees = Trees(git)

    def check_git(self) -> None:
        """Refuse a git that cannot merge in memory."""
        said = self._git.line("version")
        found = re.search(r"(\d+)\.(\d+)", said)
        if not found or (int(found[1]), int(found[2])) < OLDEST_GIT:
            wanted = ".".join(map(str, OLDEST_GIT))
            raise UserError(
                f"Lanes need git {wanted} or newer to merge without touching files; this is {said}",
                state="Nothing was changed.",
                hint="Install a newer git, or use `--lanes 1`.",
            )

    def tip(self) -> str:
        """Where the run branch is."""
        return self._git.resolve(self.ref)

    # -- merge ---------------------------------------------------------------------------------

    def merge(self, tip: str, base: str, story: str) -> Merged | Conflict:
        """What a story changed since its base, made to the tip.

        The story counts as one commit on its base, whatever history the agent has given it.
        """
        tree = self._product(base, story)
        if tip == base:
            return Merged(tree)
        flat = self._git.commit_tree(tree, [base], "a story on its base\n")
        merged, files = self._merged_tree(tip, flat)
        return Conflict(files, self._met(base, tip, files)) if files else Merged(merged)

    def regenerated(
        self,
        conflict: Conflict,
        sides: tuple[str, str, str],
        commands: Mapping[str, str],
        run: Regenerate,
    ) -> Merged | Conflict:
        """A conflict in generated files only, solved by the commands that make them.

        `sides` are tip, base and story. Each command finds the tip's version of its file in a
        checkout of the merge. One that fails, or leaves its file as it was, has not solved it.
        """
        tip, base, story = sides
        chosen = {path: _command_for(path, commands) for path in conflict.files}
        tree = self._git.tree_of(tip)
        seeds = {p: e for p in chosen if (e := self._trees.entry(tree, os.fsencode(p)))}
        if not all(chosen.values()) or len(seeds) < len(chosen):
            return conflict
        flat = self._git.commit_tree(self._product(base, story), [base], "a story on its base\n")
        seeded = self._with_entries(self._merged_tree(tip, flat)[0], seeds)
        made, why = self._run_in_checkout(seeded, tip, chosen, run)
        entries = {path: (seeds[path][0], name) for path, name in made.items()}
        if same := [path for path, seed in seeds.items() if entries.get(path, seed) == seed]:
            why = why or f"The command that makes it left it as it was: {', '.join(same)}"
            return Conflict(conflict.files, conflict.met, why)
        return Merged(self._with_entries(seeded, entries), tuple(made))

    def _run_in_checkout(
        self, tree: str, tip: str, commands: Mapping[str, str], run: Regenerate
    ) -> tuple[dict[str, bytes], str]:
        """The blobs that commands made of their files in a checkout of the tree; or why not."""
        self._room_folder.mkdir(exist_ok=True)
        folder = Path(self._room.make(tree, tip))
        try:
            for command in dict.fromkeys(commands.values()):
                if said := run(command, folder):
                    return {}, f"`{command}` failed: {said}"
            files = [path for path in commands if is_plain_file(folder / path)]
            return {path: self._blob(folder, path) for path in files}, ""
        finally:
            self._room.remove()

    def _blob(self, folder: Path, path: str) -> bytes:
        words = ("hash-object", "-w", "--stdin", "--path", path)
        return bytes.fromhex(self._git.line(*words, stdin=read_bytes(folder / path)))

    def _product(self, base: str, story: str) -> str:
        """The story's tree, with the base's version of what is none of its product."""
        back = self._git.diff_trees(story, base, *self._beside) if self._beside else ()
        return self._with_entries(
            self._git.tree_of(story), {change.path: _entry(change) for change in back}
        )

    def _with_entries(self, tree: str, entries: Mapping[str, Entry | None]) -> str:
        changes = {
            os.fsencode(path): entry
            for path, entry in entries.items()
            if self._trees.entry(tree, os.fsencode(path)) != entry
        }
        return self._trees.changed(tree, changes.items()) if changes else tree

    def _merged_tree(self, tip: str, story: str) -> tuple[str, tuple[str, ...]]:
        drivers = self._git.settings_between("merge.", ".driver")
        yes = [d for d in drivers if self._git.config(f"merge.{d}.driver").strip() in YES]
        rules = (*RULES, *(f"merge.{name}.driver=false" for name in yes))
        tree, files = self._git.merged_tree(tip, story, *rules)
        # A file in the way of a folder is told under a name with the commit behind it.
        plain = (path.removesuffix(f"~{tip}").removesuffix(f"~{story}") for path in files)
        return tree, tuple(dict.fromkeys(plain))

    def _met(self, base: str, tip: str, files: Sequence[str]) -> tuple[Met, ...]:
        specs = (f":(top,literal){path}" for path in files)
        words = ("--format=%H%x00%s%x00", f"--max-count={MOST_COMMITS}", f"{base}..{tip}")
        out = self._git.do("log", "--reverse", *words, "--", *specs)
        fields = [field.strip("\n") for field in out.decode(errors="replace").split("\0")]
        return tuple(Met(*pair) for pair in zip(fields[::2], fields[1::2], strict=False))

    # -- the branch ----------------------------------------------------------------------------

    def candidate(self, tip: str, tree: str, message: str) -> str:
        """The commit that is to land: one parent, the tip."""
        return self._git.commit_tree(tree, [tip], message)

    def swap(self, tip: str, candidate: str, why: str) -> bool:
        """Move the branch from the tip to the candidate; False if it was not at the tip."""
        try:
            self._git.update_refs([(self.ref, candidate, tip)], why)
        except StepError:
            if self.stands(tip, candidate) is Standing.BEFORE:
                raise  # not because somebody moved it
        return self.stands(tip, candidate) is Standing.LANDED

    def stands(self, tip: str, candidate: str) -> Standing:
        """Where the branch is: at the candidate, at the tip still, or where somebody moved it."""
        now = self.tip()
        if now == candidate:
            return Standing.LANDED
        return Standing.BEFORE if now == tip else Standing.ELSEWHERE

    def store_moved(self) -> str:
        """A branch that somebody moved: where it is now, under a ref that stays; the ref."""
        now = self.tip()
        if not now:
            return ""
        ref = f"refs/ralph/moved/{self._change}/{now[:16]}"
        self._git.update_refs([(ref, now, None)], "untildone: the run branch was moved")
        return ref

    def builds_on(self, tip: str) -> bool:
        """Whether the branch, wherever it is, still has all that had landed."""
        now = self.tip()
        return bool(now) and self._git.is_ancestor(tip, now)

    def checked_out_in(self) -> str:
        """A worktree whose HEAD is on the run branch: its files would not follow; else nothing."""
        wanted = f"ref: {self.ref}".encode()
        if head_text(self._place.common_dir).strip() == wanted:
            common = self._place.common_dir
            return str(common.parent if common.name == ".git" else common)
        for folder in (self._place.common_dir / "worktrees").glob("*/"):
            if head_text(folder).strip() == wanted:
                return os.fsdecode(content(folder / "gitdir").strip()).removesuffix("/.git")
        return ""


def _entry(change: Change) -> Entry | None:
    """What a path has on the second side of a comparison."""
    if change.status == "D":
        return None
    return change.new_mode.lstrip("0").encode(), bytes.fromhex(change.blob)


def _command_for(path: str, commands: Mapping[str, str]) -> str:
    """What makes a generated file: by its path, or by a pattern of paths."""
    found = (made for name, made in commands.items() if fnmatch.fnmatchcase(path, name))
    return commands.get(path) or next(found, "")
