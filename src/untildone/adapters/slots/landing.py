"""Landing: a story's work on top of the run branch, merged in memory, in one commit.

Three-way merges that git calls clean, and nothing else: no side is ever taken for a file, and two
texts are never put one after the other. The user's files, index and HEAD are not touched.
"""

import fnmatch
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from untildone.adapters.checkpoints.failed_attempts import earlier_of_run
from untildone.adapters.checkpoints.snapshot.skipped_files import write_skipped_files
from untildone.adapters.checks.clean_checkout import CleanCheckout
from untildone.adapters.git.git import Change, Git, git_failed
from untildone.adapters.git.object_files import (
    Stamp,
    content,
    head_text,
    is_plain_file,
    loose_object,
    object_name,
    stamp,
)
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import head_of
from untildone.adapters.git.trees import FOLDER, Entry, Trees, UnlikeTree
from untildone.domain.errors import StepError, UserError
from untildone.domain.run.landing import Conflict, Merged, Met, Standing
from untildone.plain_files import read_bytes
from untildone.ports import Regenerate

# The first that has `merge-tree --write-tree`.
OLDEST_GIT = (2, 38)
MOST_COMMITS = 50
LARGEST = 4 * 1024 * 1024
# What a person likes, or an attributes file says, must not make a merge clean that is not.
RULES = ("merge.renames=true", "merge.directoryRenames=conflict", "merge.union.driver=false")
# A merge driver that says yes to everything keeps one side and drops the other.
YES = ("true", "/bin/true", "/usr/bin/true", ":", "exit 0")


class KnownContent:
    """What lanes that land one after the other need not ask git again.

    `as_is` are paths whose bytes git took as they are, with the state of all attributes files then.
    """

    def __init__(self, git: Git) -> None:
        self.trees = Trees(git)
        self.as_is = set[tuple[str, tuple[Stamp | None, ...]]]()


class Landing:
    """Lands stories of one change on its run branch, in the user's repository.

    `beside` are paths that are no product of a story (the task list, state, learnings), folders
    with all that is below them: for these the tip's version stays.
    """

    def __init__(
        self,
        git: Git,
        place: Place,
        change: str,
        run_folder: Path,
        beside: Sequence[str] = (),
        known: KnownContent | None = None,
    ) -> None:
        self._git = git
        self._place = place
        self._change = change
        self._beside = tuple(beside)
        self.ref = f"refs/heads/ralph/{change}"
        room = run_folder / f"{run_folder.name}-landing"
        self._room = CleanCheckout(git, place, room)
        self._room_folder = room
        self._run_folder = run_folder
        self._known = known or KnownContent(git)
        self._trees = self._known.trees

    def tip(self) -> str:
        """Where the run branch is."""
        return self._git.resolve(self.ref)

    def tree_of(self, commit: str) -> str:
        """The files of a commit, as a tree."""
        return self._git.tree_of(commit)

    # -- merge ---------------------------------------------------------------------------------

    def merge(
        self, tip: str, base: str, story: str, beside: Iterable[str] = ()
    ) -> Merged | Conflict:
        """What a story changed since its base, made to the tip.

        The story counts as one commit on its base, whatever history the agent has given it.
        `beside` it are more paths that are none of its product.
        """
        tree = self._product(base, story, beside)
        if tip == base:
            return Merged(tree)
        if both := self._united(base, tip, tree):
            return Merged(both)
        flat = self._git.commit_tree(tree, [base], "a story on its base\n")
        merged, files = self._merged_tree(tip, flat)
        return Conflict(files, self._met(base, tip, files)) if files else Merged(merged)

    def regenerated(
        self,
        conflict: Conflict,
        sides: tuple[str, str, str],
        commands: Mapping[str, str],
        run: Regenerate,
        beside: Iterable[str] = (),
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
        product = self._product(base, story, beside)
        flat = self._git.commit_tree(product, [base], "a story on its base\n")
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
                if said := run(command, str(folder)):
                    return {}, f"`{command}` failed: {said}"
            files = [path for path in commands if is_plain_file(folder / path)]
            return {path: self._blob(folder, path) for path in files}, ""
        finally:
            self._room.remove()

    def _blob(self, folder: Path, path: str) -> bytes:
        words = ("hash-object", "-w", "--stdin", "--path", path)
        return bytes.fromhex(self._git.line(*words, stdin=read_bytes(folder / path)))

    def _product(self, base: str, story: str, more: Iterable[str] = ()) -> str:
        """The story's tree, with the base's version of what is none of its product."""
        tree, old = self._git.tree_of(story), self._git.tree_of(base)
        back = dict[str, Entry | None]()
        for path in (*self._beside, *more):
            pair = [self._trees.at(each, _bytes(path)) for each in (tree, old)]
            if any(entry and entry[0] == FOLDER for entry in pair):
                changes = self._git.diff_trees(tree, old, path) if pair[0] != pair[1] else ()
                back |= {change.path: _entry(change) for change in changes}
            else:
                back[path] = pair[1]
        return self._with_entries(tree, back)

    def _united(self, base: str, tip: str, story: str) -> str:
        """The tree of both changes where git has nothing to merge; else nothing.

        They are of different files, and none is removed: a file that is may have been renamed.
        """
        old, ours = self._git.tree_of(base), self._git.tree_of(tip)
        landed, own = self._trees.diff(old, ours), self._trees.diff(old, story)
        if any(change.new is None for change in (*landed, *own)):
            return ""
        if {change.path for change in landed} & {change.path for change in own}:
            return ""
        try:
            return self._trees.changed(ours, ((change.path, change.new) for change in own))
        except UnlikeTree:  # a file here, a folder there
            return ""

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

    def candidate(
        self, tip: str, tree: str, message: str, files: Mapping[str, bytes | None] | None = None
    ) -> str:
        """The commit that is to land: one parent, the tip; some files are not as in the tree."""
        if files:
            tree = self._with_entries(tree, {p: self._made(tree, p, d) for p, d in files.items()})
        return self._git.commit_tree(tree, [tip], message)

    def read(self, tree: str, paths: Iterable[str]) -> dict[str, bytes]:
        """The files of a tree at these paths, and below those that are folders."""
        blobs = dict[str, str]()
        for path in sorted(paths):
            entry = self._trees.at(tree, _bytes(path))
            if entry and entry[0] == FOLDER:
                blobs |= self._git.blobs_at(tree, [path])
            elif entry:
                blobs[path] = entry[1].hex()
        known = {name: self._loose(name) for name in blobs.values()}
        packed = [name.encode() for name, data in known.items() if data is None]
        known |= self._git.objects(packed) if packed else {}
        return {path: data for path, name in blobs.items() if (data := known[name]) is not None}

    def _loose(self, name: str) -> bytes | None:
        return loose_object(self._git.objects_folder, name, LARGEST)

    def _made(self, tree: str, path: str, data: bytes | None) -> Entry | None:
        if data is None:
            return None
        old = self._trees.entry(tree, os.fsencode(path))
        return (old[0] if old else b"100644"), bytes.fromhex(self._stored(path, data, len(tree)))

    def _stored(self, path: str, data: bytes, digits: int) -> str:
        """The name of a file's blob; git is asked once how it takes the bytes of this path."""
        attributes = path, tuple(map(stamp, self._attributes_files(path)))
        if attributes in self._known.as_is and not self._may_convert(data):
            return self._git.store.store_blob(data, digits)
        name = self._git.line("hash-object", "-w", "--stdin", "--path", path, stdin=data)
        if name == object_name("blob", data, digits):
            self._known.as_is.add(attributes)
        return name

    def _may_convert(self, data: bytes) -> bool:
        """Whether what becomes of a file may depend on its bytes: line ends, keywords, filters."""
        filters = (self._git.settings_between("filter.", end) for end in (".clean", ".process"))
        return b"\r" in data or b"$Id" in data or any(filters)

    def _attributes_files(self, path: str) -> list[str]:
        config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
        own = self._git.config("core.attributesfile") or f"{config}/git/attributes"
        folders = (self._place.top / folder for folder in PurePosixPath(path).parents)
        others = (os.path.expanduser(own), f"{self._git.common_dir}/info/attributes")  # noqa: PTH111
        return [*(f"{folder}/.gitattributes" for folder in folders), *others]

    def land(self, tip: str, candidate: str, why: str) -> bool:
        """The branch from the tip to the candidate; False if somebody has moved it.

        The files of the run's own worktree go first: after a crash in between the branch follows
        them, while files that lag behind would look like edits by hand.
        """
        if self.tip() != tip:
            return False
        if head_of(self._place.git_dir)[0] != f"ralph/{self._change}":
            raise StepError(
                f"The worktree of the run is not on `ralph/{self._change}` any more",
                state="Nothing was changed.",
                hint=f"git -C {self._place.top} checkout ralph/{self._change} && "
                f"untildone resume {self._change}",
            )
        answer = self._git.checkout_tree(candidate)
        if not answer.ok:
            raise git_failed(("read-tree",), answer)
        write_skipped_files(self._git, self._place.top, self._run_folder)
        if self.swap(tip, candidate, why):
            return True
        self._git.checkout_tree(self.tip())
        return False

    # -- a story's work before it lands ----------------------------------------------------------

    def store_work(self, story_id: str, attempt: int, base: str, work: str) -> str:
        """Finished work as a saved attempt: whatever comes, it is not done again for nothing."""
        ref = self._attempt_ref(story_id, attempt)
        earlier = earlier_of_run(self._git, ref, self._run_folder.name)
        label = ref.removeprefix("refs/ralph/attempts/")
        message = f"attempt: {label}\n\nUntildone-Run: {self._run_folder.name}\n"
        commit = self._git.commit_tree(self._git.tree_of(work), [base, work], message)
        self._git.update_refs([(ref, commit, earlier)], "untildone: store finished work")
        return commit

    def stored_work(self, story_id: str, attempt: int) -> str:
        """The commit that `store_work` has made in this run; empty if it has not."""
        commit = self._git.resolve(self._attempt_ref(story_id, attempt))
        trailer = f"Untildone-Run: {self._run_folder.name}"
        return commit if commit and trailer in self._git.message(commit).splitlines() else ""

    def forget_work(self, story_id: str, attempt: int) -> None:
        """It has landed, and is no attempt that failed."""
        if commit := self.stored_work(story_id, attempt):
            updates = [(self._attempt_ref(story_id, attempt), "", commit)]
            self._git.update_refs(updates, "untildone: finished work has landed")

    def diff(self, ref: str) -> str:
        """What a saved attempt changed, as a patch; nothing if it is gone."""
        answer = self._git.ask("diff", "--no-ext-diff", "--no-color", f"{ref}^1", ref)
        return answer.stdout.decode(errors="replace") if answer.ok else ""

    def _attempt_ref(self, story_id: str, attempt: int) -> str:
        return f"refs/ralph/attempts/{self._change}/{story_id}/{attempt}"

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


def check_git(git: Git) -> None:
    """Refuse a git that cannot merge in memory."""
    said = git.line("version")
    found = re.search(r"(\d+)\.(\d+)", said)
    if not found or (int(found[1]), int(found[2])) < OLDEST_GIT:
        wanted = ".".join(map(str, OLDEST_GIT))
        raise UserError(
            f"Lanes need git {wanted} or newer to merge without touching files; this is {said}",
            state="Nothing was changed.",
            hint="Install a newer git, or use `--lanes 1`.",
        )


def _bytes(path: str) -> bytes:
    return os.fsencode(path.rstrip("/"))


def _entry(change: Change) -> Entry | None:
    """What a path has on the second side of a comparison."""
    if change.status == "D":
        return None
    return change.new_mode.lstrip("0").encode(), bytes.fromhex(change.blob)


def _command_for(path: str, commands: Mapping[str, str]) -> str:
    """What makes a generated file: by its path, or by a pattern of paths."""
    found = (made for name, made in commands.items() if fnmatch.fnmatchcase(path, name))
    return commands.get(path) or next(found, "")
