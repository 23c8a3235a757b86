"""The one door to git: how it is started, and what we ask of commits, trees and refs.

One method per question or command; output NUL-separated, in the C locale.
"""

import contextlib
import copy
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.clock import monotonic, pause
from untildone.adapters.git.environment import (
    FALLBACK_IDENTITY,
    FLAGS,
    IDENTITY,
    clean_environment,
    disk_settings,
)
from untildone.adapters.git.object_files import (
    commit_body,
    head_text,
    loose_object,
    move_ref,
    objects_in_batch,
    ref_in_file,
    remove_ref,
    time_now,
)
from untildone.adapters.git.object_store import (
    ALSO_READ,
    OBJECTS,
    ObjectsGone,
    ObjectStore,
    also_read,
)
from untildone.adapters.git.place import Place
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Captured, Processes
from untildone.adapters.records.durable import sync_folder
from untildone.domain.agents.agent import Ending
from untildone.domain.errors import Interrupted, StepError
from untildone.domain.regex import regex

STEP_TIMEOUT_S = 600
IDLE_S = 5.0
PATIENCE_S = 0.5
LOCK_PATIENCE_S, LOCKED = 3.0, b"index.lock': File exists"

# Settings with which the author of a commit, or its form, is for git to say.
OWN_AUTHOR = (
    *("author.name", "author.email", "committer.name", "committer.email", "i18n.commitencoding"),
)
# An identity from which git would take nothing away.
_PLAIN_NAME = regex(r"\w(?:[\w .-]*\w)?")
_PLAIN_EMAIL = regex(r"\w[\w.+-]*@[\w.-]*\w")
_FULL_NAME = regex(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LARGEST_COMMIT = 1024 * 1024
_SPACES = regex(r"[ \t\n\v\f\r]+")

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


class Git:
    """Runs git in one worktree, under our own rules whatever the user has configured.

    A command that fails is a StepError with git's own words.
    """

    def __init__(
        self, processes: Processes, folder: Path, interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        self._processes = processes
        self._folder = folder
        self._program = shutil.which("git") or "git"
        self._interrupted = interrupted
        # An agent's `git replace` must not make one of our checkpoints look like another commit.
        self._environment = clean_environment(os.environ) | {"GIT_NO_REPLACE_OBJECTS": "1"}
        self.use_common_dir(folder / ".git")
        self._git_dir: Path | None = None
        self._author = ""
        self._config: dict[str, str] | None = None
        self._flags = [part for flag in FLAGS for part in ("-c", flag)]

    def use_excludes(self, path: Path) -> None:
        """Ignore rules of the run in the place of the user's global ones (it includes those)."""
        setting = f"core.excludesFile={path}"
        self._flags += ["-c", setting] if setting not in self._flags else []

    def use_disk(self, place: Place, *, only_look: bool = False) -> None:
        """Let git know what the worktree's disk can do; `only_look` writes nothing to find out."""
        known = disk_settings(place, only_look=only_look)
        self._flags += [part for setting in known for part in ("-c", setting)]
        if self._config is not None:
            rows = (setting.partition("=") for setting in known)
            self._config |= {name.lower(): value for name, _, value in rows}

    def use_index(self, path: Path) -> None:
        """An index of our own in the place of the worktree's."""
        self._environment["GIT_INDEX_FILE"] = str(path)

    def with_index(self, path: Path) -> Self:
        """The same commands on an index of our own."""
        other = copy.copy(self)
        other._environment = self._environment | {"GIT_INDEX_FILE": str(path)}
        other._flags = [*self._flags]
        return other

    def beside(self, processes: Processes) -> Self:
        """The same commands, with settings that are known, for another thread."""
        other = copy.copy(self)
        other._processes = processes
        other._environment, other._flags = {**self._environment}, [*self._flags]
        other._config = {**self._settings()}
        other.store = ObjectStore(self.objects_folder, self.common_dir / "objects")
        return other

    def index_of(self, place: Place) -> Path:
        """The index file that our commands use."""
        own = self._environment.get("GIT_INDEX_FILE")
        return Path(own) if own else place.git_dir / "index"

    def drafting(self, objects: Path, stored: Path, index: Path) -> Self:
        """The same commands on another index; what they write stays in a private folder.

        Every object is a file of its own there, large ones too, so that each can be left out.
        """
        draft = copy.copy(self)
        draft._environment = self._environment | {
            OBJECTS: str(objects),
            ALSO_READ: also_read(str(stored), self.store.held),
            "GIT_INDEX_FILE": str(index),
        }
        draft._flags = [*self._flags, "-c", f"core.bigFileThreshold={sys.maxsize}"]
        return draft

    def use_common_dir(self, path: Path, borrowed: Path | None = None) -> None:
        """The git folder that all worktrees share; `borrowed` objects are stored where they are."""
        self.common_dir, self.objects_folder = path, borrowed or path / "objects"
        self.store = ObjectStore(self.objects_folder, path / "objects")

    def hold_objects(self, run_folder: Path) -> None:
        """What our commands store stays, whoever tidies up meanwhile; also what they stored."""
        self.store.hold(run_folder)
        if self.store.held:
            self._environment[ALSO_READ] = also_read(self.store.held)
            self.store.put_back_lost(self.store.all_held(), self.do)

    def use_git_dir(self, path: Path) -> None:
        """The worktree's own git folder, where its HEAD is."""
        self._git_dir = path

    def use_fallback_identity_if_none(self) -> None:
        """Commit as the user, or as ourselves where git knows no identity."""
        special = any(self.config(name) for name in OWN_AUTHOR)
        special |= not self._environment.keys().isdisjoint(IDENTITY)
        name, email = self.config("user.name"), self.config("user.email")
        if not special and _PLAIN_NAME.fullmatch(name) and _PLAIN_EMAIL.fullmatch(email):
            self._author = f"{name} <{email}>"
            return
        answer = self.ask("var", "GIT_COMMITTER_IDENT")
        if not answer.ok:
            self._environment = FALLBACK_IDENTITY | self._environment
            answer = self.ask("var", "GIT_COMMITTER_IDENT")
        if not special:
            self._author = os.fsdecode(answer.stdout).strip().rsplit(" ", 2)[0]

    def config(self, name: str) -> str:
        """A configuration value by its name in lower case, or an empty string; read once."""
        return self._settings().get(name, "")

    def settings_between(self, start: str, end: str) -> tuple[str, ...]:
        """What stands between these in the names of settings: `lfs` in `filter.lfs.required`."""
        names = (key for key in self._settings() if key.startswith(start) and key.endswith(end))
        return tuple(name[len(start) : -len(end)] for name in names)

    def _settings(self) -> dict[str, str]:
        if self._config is None:
            rows = os.fsdecode(self.ask("config", "-z", "--list").stdout).split("\0")
            parts = (row.partition("\n") for row in rows)
            self._config = {key: value if given else "true" for key, given, value in parts}
        return self._config

    # -- the door ------------------------------------------------------------------------------

    def ask(
        self,
        *args: str,
        stdin: bytes = b"",
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
        limit_s: float = STEP_TIMEOUT_S,
    ) -> Captured:
        """Run a git command whatever its exit code; only an interruption raises."""
        environment = self._environment | dict(env or {})
        incoming = self.store.incoming_for(args[0], environment)
        environment |= incoming
        if index:
            environment["GIT_INDEX_FILE"] = str(index)
        command = Command(
            (self._program, *self._flags, *args),
            self._folder,
            environment,
            stdin,
            timeout_s=limit_s,
            idle_s=IDLE_S,
            grace_s=PATIENCE_S,
        )
        answer = self._processes.capture(command, self._interrupted)
        if answer.ending is Ending.IDLE_TIMEOUT:
            # It waits for somebody: for a pipe that an agent made, or for a slow disk.
            command = replace(command, idle_s=None)
            self._move_special_files()
            answer = self._processes.capture(command, self._interrupted)
        deadline = monotonic() + LOCK_PATIENCE_S
        while not answer.ok and LOCKED in answer.stderr and monotonic() < deadline:
            pause(0.02)  # the user's own git command holds the index: it ends soon
            answer = self._processes.capture(command, self._interrupted)
        if answer.ending is Ending.INTERRUPTED:
            raise Interrupted(f"`git {args[0]}` was cut short by a stop request")
        if incoming:
            self.store.take_in_all(incoming[OBJECTS])
        return answer

    def question(self, *args: str, index: Path | None = None) -> Captured:
        """Ask what may be answered with no: one that git did not live to answer is a StepError."""
        answer = self.ask(*args, index=index)
        if answer.ending is not Ending.EXITED or answer.exit_code < 0:
            raise git_failed(args, answer)
        return answer

    def _move_special_files(self) -> None:
        from untildone.adapters.git.damaged import move_special_files  # noqa: PLC0415 - rare

        git_dir = self._git_dir or self.common_dir
        aside = git_dir / "untildone" / "aside"
        move_special_files(self._folder, (git_dir, self.common_dir), aside)

    def do(
        self,
        *args: str,
        stdin: bytes = b"",
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run a git command that must succeed and return what it printed."""
        answer = self.ask(*args, stdin=stdin, index=index, env=env)
        if not answer.ok:
            raise git_failed(args, answer)
        return answer.stdout

    def line(self, *args: str, stdin: bytes = b"", index: Path | None = None) -> str:
        return os.fsdecode(self.do(*args, stdin=stdin, index=index)).strip()

    # -- questions -----------------------------------------------------------------------------

    def resolve(self, name: str) -> str:
        """The commit that a name stands for, or an empty string."""
        if name.startswith(("refs/heads/", "refs/ralph/")) and not set(name) & set("^~:@ "):
            found = ref_in_file(self.common_dir, name)
            if found is not None:
                return found
        words = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return os.fsdecode(self.question(*words).stdout).strip()

    def tree_of(self, commit: str) -> str:
        """The tree of a commit."""
        body = self.loose_commit(commit)
        if body:
            return body[len("tree ") : body.index(b"\n")].decode()
        return self.line("rev-parse", "--verify", f"{commit}^{{tree}}")

    def refs(self, *prefixes: str) -> dict[str, Ref]:
        """All refs below the prefixes."""
        form = "--format=%(objectname)%00%(refname)%00%(worktreepath)"
        rows = os.fsdecode(self.do("for-each-ref", form, *prefixes)).split("\n")
        parts = (row.split("\0") for row in rows if row)
        return {name: Ref(commit, worktree) for commit, name, worktree in parts}

    def is_ancestor(self, ancestor: str, commit: str) -> bool:
        """Whether `commit` builds on `ancestor`."""
        words = ("merge-base", "--is-ancestor", ancestor, commit)
        return ancestor == commit or self.question(*words).ok

    def merge_base(self, one: str, other: str) -> str:
        """The best common ancestor, or an empty string."""
        return os.fsdecode(self.question("merge-base", one, other).stdout).strip()

    def commits_since(self, base: str, tips: Iterable[str]) -> tuple[str, ...]:
        """Commits reachable from the tips and not from the base, oldest first."""
        wanted = [tip for tip in tips if tip and tip != base]
        if not wanted:
            return ()
        out = self.do("rev-list", "--reverse", "--topo-order", *wanted, f"^{base}")
        return tuple(os.fsdecode(out).split())

    def parents(self, commit: str) -> tuple[str, ...]:
        """The parents of a commit."""
        return tuple(self.line("rev-list", "--parents", "-n", "1", commit).split()[1:])

    def message(self, commit: str) -> str:
        """A commit's whole message."""
        head, _, message = self.loose_commit(commit).partition(b"\n\n")
        known = head and b"\nencoding " not in head
        return os.fsdecode(message if known else self.do("log", "-1", "--format=%B", commit))

    def loose_commit(self, name: str) -> bytes:
        """A commit that is a file of its own and is given by its full name; else nothing."""
        if not _FULL_NAME.fullmatch(name):
            return b""
        body = loose_object(self.objects_folder, name, _LARGEST_COMMIT) or b""
        return body if body.startswith(b"tree ") else b""

    def unreachable(self, old: Iterable[str], new: Iterable[str]) -> set[str]:
        """Which of the old tips the new ones do not build on."""
        wanted = set(old)
        lines = "".join(f"{tip}\n" for tip in (*wanted, *(f"^{tip}" for tip in new)))
        out = self.do("rev-list", "--stdin", stdin=lines.encode()) if wanted else b""
        return wanted & set(out.decode().split())

    def diff_trees(self, old: str, new: str, *at: str, folders: bool = False) -> tuple[Change, ...]:
        """What differs between two trees or commits, or `at` these paths; no rename detection."""
        if old == new:
            return ()
        words = ("-t" if folders else "-r", "-z", "--no-renames", "--no-commit-id", old, new)
        out = self.do("diff-tree", *words, "--", *(f":(top,literal){path}" for path in at))
        fields = os.fsdecode(out).split("\0")
        changes = []
        for meta, path in zip(fields[::2], fields[1::2], strict=False):
            old_mode, new_mode, _, blob, status = meta.lstrip(":").split(" ")
            changes.append(Change(status, old_mode, new_mode, blob, path))
        return tuple(changes)

    def blobs_at(self, tree: str, paths: Sequence[str] = ()) -> dict[str, str]:
        """All files of a tree or commit, or those of these paths."""
        rows = paths_in(self.do("ls-tree", "-r", "-z", "--full-tree", tree, "--", *paths))
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

    def objects(self, specs: Sequence[bytes]) -> dict[str, bytes]:
        """What git stores under these names, or paths of commits; those that are missing are not.

        By the full names of the objects.
        """
        listed = b"".join(b"%s\n" % spec for spec in specs)
        return objects_in_batch(self.do("cat-file", "--batch", stdin=listed))

    def content(self, commit: str, path: str) -> bytes:
        """The bytes of a file in a commit."""
        return self.do("cat-file", "blob", f"{commit}:{path}")

    def merged_tree(self, ours: str, theirs: str, *rules: str) -> tuple[str, tuple[str, ...]]:
        """The tree of a merge made in memory under these settings, and the paths that conflict."""
        flags = [part for rule in rules for part in ("-c", rule)]
        words = ("merge-tree", "--write-tree", "-z", "--no-messages", "--name-only", ours, theirs)
        answer = self.ask(*flags, *words)
        if answer.exit_code not in (0, 1):
            raise git_failed(("merge-tree",), answer)
        tree, *conflicts = paths_in(answer.stdout) or ("",)
        if not tree or (answer.exit_code == 1) != bool(conflicts):
            raise git_failed(("merge-tree",), answer)
        return tree, tuple(conflicts)

    # -- commands ------------------------------------------------------------------------------

    def write_tree(self, index: Path | None = None) -> str:
        """The index as a tree; ObjectsGone if content of it is not in the repository any more."""
        answer = self.ask("write-tree", index=index)
        if not answer.ok:
            failed = git_failed(("write-tree",), answer)
            raise ObjectsGone(failed.message) if b"invalid object" in answer.stderr else failed
        return os.fsdecode(answer.stdout).strip()

    def commit_tree(self, tree: str, parents: Iterable[str], message: str) -> str:
        """A commit of this tree; no hook runs and no branch moves."""
        known = list(parents)
        if self._author:
            with contextlib.suppress(OSError):  # git says what is wrong
                body = commit_body(tree, known, self._author, message)
                return self.store.store_commit(body)
        flags = [part for parent in known for part in ("-p", parent)]
        return self.line("commit-tree", tree, *flags, stdin=message.encode())

    def update_refs(
        self, updates: Sequence[RefUpdate], why: str, *, create_reflog: bool = False
    ) -> None:
        """Move refs together or not at all: (name, new or "" to delete, old or None)."""
        if len(updates) == 1 and self._moved_by_us(updates[0], why):
            sync_folder((self.common_dir / updates[0][0]).parent)
            self.store.settle(self.do)
            return
        lines = ["start", *map(_update_line, updates), "prepare", "commit", ""]
        flags = ("--create-reflog",) if create_reflog else ()
        self.do("update-ref", "-m", why, *flags, "--stdin", stdin="\n".join(lines).encode())
        for name in {name.rpartition("/")[0] for name, new, _ in updates if new}:
            sync_folder(self.common_dir / name)
        self.store.settle(self.do)

    def _moved_by_us(self, update: RefUpdate, why: str) -> bool:
        """Whether a ref could be moved without starting git, which is half of a story's price."""
        name, new, old = update
        logs = self._logs_of(name)
        if logs is None or (logs and not self._author):
            return False
        if not new:
            return bool(old) and not logs and remove_ref(self.common_dir, name, old or "")
        at = ref_in_file(self.common_dir, name) if old is None else old
        if at is None or (logs and not at):
            return False
        said = _SPACES.sub(" ", why).strip()
        return move_ref(
            self.common_dir, logs, (name, new, at), f"{self._author} {time_now()}\t{said}"
        )

    def _logs_of(self, name: str) -> list[Path] | None:
        """The logs that git would write to when this ref moves; None if only git knows."""
        usual = self.config("core.logallrefupdates") in ("", "true")
        special = self.config("extensions.refstorage") or self.config("core.sharedrepository")
        if self._git_dir is None or special or not usual:
            return None
        if name.startswith("refs/ralph/"):
            return []
        if not name.startswith("refs/heads/"):
            return None
        head = head_text(self._git_dir).strip()
        on_it = [self._git_dir / "logs" / "HEAD"] if head == f"ref: {name}".encode() else []
        return [self.common_dir / "logs" / name, *on_it]

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


def git_failed(args: Sequence[str], answer: Captured) -> StepError:
    """Git's own words as an error."""
    said = answer.stderr.decode(errors="replace").strip() or f"exit code {answer.exit_code}"
    verb = next((arg for arg in args if not arg.startswith("-")), args[0])
    return StepError(f"`git {verb}` failed: {said}")


def paths_in(out: bytes) -> tuple[str, ...]:
    """What git has listed with a NUL after each."""
    return tuple(path for path in os.fsdecode(out).split("\0") if path)


def _update_line(update: RefUpdate) -> str:
    name, new, old = update
    if not new:
        return f"delete {name}" + (f" {old}" if old else "")
    if old is None:
        return f"update {name} {new}"
    none = "0" * len(new)  # as many digits as the repository's names have
    return f"update {name} {new} {old or none}"
