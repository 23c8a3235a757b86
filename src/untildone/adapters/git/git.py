"""What we ask git and tell it to do: one method per question or verb, NUL-separated, C locale."""

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.command import git_failed
from untildone.adapters.git.index import GitIndex, paths_in
from untildone.adapters.git.object_files import commit_body, ref_in_file, store_commit
from untildone.adapters.process.process import Captured
from untildone.adapters.records.durable import sync_folder

RefUpdate = tuple[str, str, str | None]

GITLINK = "160000"
FOLDER = "040000"


class Change(Struct, frozen=True):
    """One path that differs between two trees."""

    status: str
    old_mode: str
    new_mode: str
    blob: str
    path: str


class Ref(Struct, frozen=True):
    """A branch or tag: where it points and which worktree has it checked out."""

    commit: str
    worktree: str = ""


class Stash(Struct, frozen=True):
    """An entry of the stash list; `body` is what its commit says below the first line."""

    commit: str
    message: str
    body: str


class Git(GitIndex):
    """Git commands in one worktree. A failing command is a StepError with git's own words."""

    # -- questions -----------------------------------------------------------------------------

    def resolve(self, name: str) -> str:
        """The commit that a name stands for, or an empty string."""
        if name.startswith(("refs/heads/", "refs/ralph/")) and not set(name) & set("^~:@ "):
            found = ref_in_file(self._refs_root, name)
            if found is not None:
                return found
        answer = self.ask("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return os.fsdecode(answer.stdout).strip() if answer.ok else ""

    def tree_of(self, commit: str) -> str:
        """The tree of a commit."""
        return self._line("rev-parse", "--verify", f"{commit}^{{tree}}")

    def refs(self, *prefixes: str) -> dict[str, Ref]:
        """All refs below the prefixes."""
        form = "--format=%(objectname)%00%(refname)%00%(worktreepath)"
        rows = os.fsdecode(self.do("for-each-ref", form, *prefixes)).split("\n")
        parts = (row.split("\0") for row in rows if row)
        return {name: Ref(commit, worktree) for commit, name, worktree in parts}

    def is_ancestor(self, ancestor: str, commit: str) -> bool:
        """Whether `commit` builds on `ancestor`."""
        return ancestor == commit or self.ask("merge-base", "--is-ancestor", ancestor, commit).ok

    def merge_base(self, one: str, other: str) -> str:
        """The best common ancestor, or an empty string."""
        answer = self.ask("merge-base", one, other)
        return os.fsdecode(answer.stdout).strip() if answer.ok else ""

    def commits_since(self, base: str, tips: Iterable[str]) -> tuple[str, ...]:
        """Commits reachable from the tips and not from the base, oldest first."""
        wanted = [tip for tip in tips if tip and tip != base]
        if not wanted:
            return ()
        out = self.do("rev-list", "--reverse", "--topo-order", *wanted, f"^{base}")
        return tuple(os.fsdecode(out).split())

    def parents(self, commit: str) -> tuple[str, ...]:
        """The parents of a commit."""
        return tuple(self._line("rev-list", "--parents", "-n", "1", commit).split()[1:])

    def diff_trees(self, old: str, new: str, *, folders: bool = False) -> tuple[Change, ...]:
        """What differs between two trees or commits, without rename detection."""
        if old == new:
            return ()
        depth = ("-r", "-t") if folders else ("-r",)
        out = self.do("diff-tree", *depth, "-z", "--no-renames", "--no-commit-id", old, new)
        fields = os.fsdecode(out).split("\0")
        changes = []
        for meta, path in zip(fields[::2], fields[1::2], strict=False):
            old_mode, new_mode, _, blob, status = meta.lstrip(":").split(" ")
            changes.append(Change(status, old_mode, new_mode, blob, path))
        return tuple(changes)

    def ignored_entries(self) -> tuple[str, ...]:
        """What is ignored now; whole folders end with a slash."""
        out = self.do("ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z")
        return paths_in(out)

    def ignored_files(self, folders: Sequence[str]) -> tuple[str, ...]:
        """Ignored files one by one, below these entries."""
        specs = [f":(top,literal){path.rstrip('/')}" for path in folders]
        return paths_in(self.do("ls-files", "-o", "-i", "--exclude-standard", "-z", "--", *specs))

    def untracked_entries(self) -> tuple[str, ...]:
        """Untracked files and folders, empty folders included; folders end with a slash."""
        return paths_in(self.do("ls-files", "-o", "--directory", "--exclude-standard", "-z"))

    def untracked_files(self) -> tuple[str, ...]:
        """Untracked files one by one, without ignored ones."""
        return paths_in(self.do("ls-files", "-o", "--exclude-standard", "-z"))

    def blobs_at(self, tree: str) -> dict[str, str]:
        """All files of a tree or commit."""
        rows = paths_in(self.do("ls-tree", "-r", "-z", "--full-tree", tree))
        parts = (row.partition("\t") for row in rows)
        return {path: meta.split(" ")[2] for meta, _, path in parts}

    def files_at(self, commit: str) -> tuple[str, ...]:
        """All paths of a commit."""
        return paths_in(self.do("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit))

    def files_among(self, commit: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Which of these paths a commit has."""
        return paths_in(
            self.do("ls-tree", "-z", "--name-only", "--full-tree", commit, "--", *paths)
        )

    def files_in(self, commit: str, name: str) -> tuple[str, ...]:
        """Paths of a commit whose last part is `name`."""
        return tuple(p for p in self.files_at(commit) if p.rpartition("/")[2] == name)

    def trees_at(self, commit: str, folders: Iterable[bytes]) -> dict[str, bytes]:
        """What git stores of these folders of a commit, by the names of their trees."""
        asked = [b"%s:%s\n" % (commit.encode(), folder) for folder in folders]
        rest, found = self.do("cat-file", "--batch", stdin=b"".join(asked)), {}
        while rest:
            head, _, rest = rest.partition(b"\n")
            if head.endswith(b" missing"):
                continue
            name, _, size = head.split(b" ")
            found[name.decode()], rest = rest[: int(size)], rest[int(size) + 1 :]
        return found

    def content(self, commit: str, path: str) -> bytes:
        """The bytes of a file in a commit."""
        return self.do("cat-file", "blob", f"{commit}:{path}")

    def stashes(self) -> tuple[Stash, ...]:
        """The stash list, newest first."""
        form = ("--no-show-signature", "--format=%H%n%gs%n%b")
        rows = os.fsdecode(self.do("stash", "list", "-z", *form)).split("\0")[:-1]
        return tuple(Stash(*row.split("\n", 2)) for row in rows)

    def same_on_disk(self, commit: str, paths: Sequence[str]) -> bool:
        """Whether these files on disk are as the commit has them."""
        specs = [f":(top,literal){path}" for path in paths]
        return self.ask("diff", "--quiet", "--no-ext-diff", commit, "--", *specs).ok

    def empty_tree(self) -> str:
        """The tree without files."""
        return self._line("mktree")

    def message(self, commit: str) -> str:
        """A commit's whole message."""
        return os.fsdecode(self.do("log", "-1", "--format=%B", commit))

    def ignored_under(self, rules: Path, git_dir: Path, paths: Sequence[str]) -> tuple[str, ...]:
        """Which paths the ignore files below `rules` (and the run's excludes) match."""
        answer = self.ask(
            f"--git-dir={git_dir}",
            f"--work-tree={rules}",
            *("check-ignore", "--no-index", "-z", "--stdin"),
            stdin="".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape"),
        )
        if answer.exit_code not in (0, 1):
            raise git_failed(("check-ignore",), answer)
        return paths_in(answer.stdout)

    def merged_tree(self, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
        """The tree of a merge made in memory, and the paths that conflict."""
        answer = self.ask(
            *("merge-tree", "--write-tree", "-z", "--no-messages", "--name-only", ours, theirs)
        )
        if answer.exit_code not in (0, 1):
            raise git_failed(("merge-tree",), answer)
        tree, *conflicts = paths_in(answer.stdout) or ("",)
        if not tree:
            raise git_failed(("merge-tree",), answer)
        return tree, tuple(conflicts)

    def dropped(self, old: Iterable[str], new: Iterable[str]) -> set[str]:
        """Which of the old tips the new ones do not build on."""
        wanted = set(old)
        lines = "".join(f"{tip}\n" for tip in (*wanted, *(f"^{tip}" for tip in new)))
        out = self.do("rev-list", "--stdin", stdin=lines.encode()) if wanted else b""
        return wanted & set(out.decode().split())

    # -- verbs ---------------------------------------------------------------------------------

    def add_all(self, *pathspec: str, index: Path | None = None, go_on: bool = False) -> Captured:
        """Record every file that is not ignored in the index; says what it adds and removes.

        With `go_on` a file that git cannot take does not keep it from looking at the others.
        """
        flags = ("-A", "-v", "--sparse", *(("--ignore-errors",) if go_on else ()))
        return self.ask("add", *flags, "--", ":/", *pathspec, index=index)

    def commit_tree(self, tree: str, parents: Iterable[str], message: str) -> str:
        """A commit of this tree; no hook runs and no branch moves."""
        known = list(parents)
        if self._who:
            with contextlib.suppress(OSError):  # git says what is wrong
                body = commit_body(tree, known, self._who, message)
                return store_commit(self._refs_root / "objects", body)
        flags = [part for parent in known for part in ("-p", parent)]
        return self._line("commit-tree", tree, *flags, stdin=message.encode())

    def update_refs(self, updates: Sequence[RefUpdate], why: str) -> None:
        """Move refs together or not at all: (name, new or "" to delete, old or None)."""
        lines = ["start"]
        for name, new, old in updates:
            if not new:
                lines.append(f"delete {name}" + (f" {old}" if old else ""))
            elif old is None:
                lines.append(f"update {name} {new}")
            else:
                none = "0" * len(new)  # as many digits as the repository's names have
                lines.append(f"update {name} {new} {old or none}")
        lines += ["prepare", "commit", ""]
        self.do("update-ref", "-m", why, "--stdin", stdin="\n".join(lines).encode())
        for name in {name.rpartition("/")[0] for name, new, _ in updates if new}:
            sync_folder(self._refs_root / name)

    def point_head(self, branch: str, why: str) -> None:
        """HEAD onto a branch; no file is touched."""
        self.do("symbolic-ref", "-m", why, "HEAD", f"refs/heads/{branch}")

    def detach_head(self, commit: str, why: str) -> None:
        """HEAD onto a bare commit; no file is touched."""
        self.do("update-ref", "--no-deref", "-m", why, "HEAD", commit)

    def checkout_tree(self, tree: str, index: Path | None = None) -> Captured:
        """Bring index and files to a tree; refuses to lose a change that the index does not have.

        Ignored files are no obstacle to git: callers make way for them first.
        """
        return self.ask("read-tree", "-m", "-u", tree, index=index)

    def overlay(
        self, tree: str, changes: Iterable[Change], index: Path, *, with_deletions: bool = False
    ) -> str:
        """A tree with the files of `changes` put over it."""
        taken = [c for c in changes if with_deletions or c.status != "D"]
        rows = "".join(f"{c.new_mode.lstrip('0') or '0'} {c.blob}\t{c.path}\0" for c in taken)
        self.do("read-tree", tree, index=index)
        listed = rows.encode("utf-8", "surrogateescape")
        self.do("update-index", "-z", "--index-info", stdin=listed, index=index)
        return self.write_tree(index=index)
