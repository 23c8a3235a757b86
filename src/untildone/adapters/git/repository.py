"""The repository the loop runs in: where its folders are, and whether a run may start in it."""

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from untildone.adapters.clock import monotonic, pause
from untildone.adapters.git.damaged import move_broken_index, repair_around
from untildone.adapters.git.git import Git
from untildone.adapters.git.index import entries, files_in_index, has_unmerged
from untildone.adapters.git.object_files import content, files_below, has_no_refs, head_text
from untildone.adapters.git.place import Place
from untildone.adapters.process.process import Captured, Processes
from untildone.adapters.records.durable import replace_file, shared_draft
from untildone.domain.errors import StepError, UserError
from untildone.domain.regex import regex
from untildone.domain.run.run import Origin
from untildone.plain_files import read_bytes

STATE_FILE = ".claude/loop-state.json"
EXCLUDE_LINE = f"/{STATE_FILE}*"
LONGEST_NAME = 120
# Names of which git's rules need not be asked.
_PLAIN_NAME = regex(r"\w(?:[\w-]|\.(?!\.))*", re.ASCII)
LOCK_WAIT_S = 1.0
SHARED_LOCKS = ("packed-refs.lock", "config.lock", "shallow.lock")
INDEX_WAIT_S = 3.0

IN_PROGRESS = {
    "MERGE_HEAD": ("merge", "git merge --abort"),
    "rebase-merge": ("rebase", "git rebase --abort"),
    "rebase-apply": ("rebase", "git rebase --abort"),
    "CHERRY_PICK_HEAD": ("cherry-pick", "git cherry-pick --abort"),
    "REVERT_HEAD": ("revert", "git revert --abort"),
    "BISECT_LOG": ("bisect", "git bisect reset"),
}


def discover(processes: Processes, folder: Path) -> Place:
    """The repository around a folder; outside of one, or in a bare one, a UserError."""
    git = Git(processes, folder)
    asked = (
        *("--is-bare-repository", "--is-inside-work-tree", "--absolute-git-dir"),
        *("--git-common-dir", "--show-toplevel"),
    )
    answer = git.ask("rev-parse", *asked)
    if not answer.ok and repair_around(folder):
        answer = git.ask("rev-parse", *asked)
    if (answer.exit_code or 0) < 0:
        raise UserError(
            f"git was killed by signal {-(answer.exit_code or 0)} before it could say where it is",
            state="Nothing was changed.",
            hint="Try again.",
        )
    if not answer.stdout:
        raise _no_repository(folder, answer)
    bare, inside, *folders = os.fsdecode(answer.stdout).removesuffix("\n").split("\n")
    if bare == "true" or inside != "true" or not answer.ok:
        raise UserError(
            f"This is a bare repository or a git folder, it has no files to work on: {folder}",
            hint="Run untildone in a clone or a worktree: `git worktree add ../work`",
        )
    _refuse_unprintable_paths(answer.stdout, folders)
    git_dir, common, top = folders
    return Place(Path(top), Path(git_dir), (folder / common).resolve())


def _no_repository(folder: Path, answer: Captured) -> UserError:
    if b"dubious ownership" in answer.stderr:
        return UserError(
            "Git does not trust this repository: it belongs to another user",
            hint=f"git config --global --add safe.directory {folder}",
        )
    if answer.exit_code == 127:
        return UserError("git was not found", hint="Install git and try again.")
    return UserError(
        f"This is not a git repository: {folder}",
        hint="`cd` into your repository, or make one with `git init`",
    )


def _refuse_unprintable_paths(said: bytes, folders: list[str]) -> None:
    """Journal, state file and git's own pointers have paths as lines of UTF-8."""
    try:
        said.decode()
        odd = "a line break" if len(folders) != 3 else ""  # else as many as were asked
    except UnicodeDecodeError:
        odd = "bytes that are not UTF-8"
    if odd:
        path = os.fsencode(folders[-1]).decode(errors="replace")
        raise UserError(
            f"The path of this repository has {odd} in it: {path}",
            state="Nothing was changed.",
            hint="Rename the folder, then try again.",
        )


def home(place: Place) -> Path:
    """Our folder in the git folder of this worktree: journal, logs, lock, inbox."""
    return place.git_dir / "untildone"


def git_folder_gone(git_dir: Path) -> StepError:
    """The error when somebody removed the git folder or ours, or made a new one in its place."""
    state = "The files of the worktree are as they were left; nothing was put back."
    if git_dir.parent.name == "worktrees" and _has_backups(git_dir.parent.parent):
        return StepError(
            f"The git folder of the run's worktree is gone or damaged: {git_dir}",
            state=f"{state} Finished stories are on the branch `ralph/…`.",
            hint="`git branch --list 'ralph/*'` names it, `git merge --squash BRANCH` brings its "
            "work to yours; `untildone run` starts anew with what is open there",
        )
    if _has_backups(git_dir):
        return StepError(
            f"The git folder of the run is gone or damaged: {git_dir / 'untildone'}",
            state=state,
            hint="`git for-each-ref refs/ralph/backup` names your state before the run; `git "
            "checkout REF -- .` brings its files back",
        )
    return StepError(
        f"The git folder of the run is gone or damaged: {git_dir}",
        state=state,
        hint="Bring the git folder back from a clone or a backup, then `untildone status`.",
    )


def _has_backups(git_dir: Path) -> bool:
    packed = b" refs/ralph/backup/" in content(git_dir / "packed-refs")
    return packed or (git_dir / "refs" / "ralph" / "backup").is_dir()


def head_of(git_dir: Path) -> tuple[str, str]:
    """HEAD without asking git: (branch, "") or ("", commit)."""
    text = os.fsdecode(head_text(git_dir)).strip()
    if not text:
        raise git_folder_gone(git_dir)
    if text.startswith("ref: refs/heads/"):
        return text.removeprefix("ref: refs/heads/"), ""
    return "", text


def is_here(place: Place, worktree: str) -> bool:
    """Whether this is the worktree that we are in, by the path that git gives for it."""
    paths, common = {place.top.resolve()}, place.common_dir.resolve()
    if place.git_dir.resolve() == common:
        # Of the main worktree git only knows the git folder, wherever its files are.
        paths.add(common.parent if common.name == ".git" else common)
    return Path(worktree).resolve() in paths


def is_elsewhere(git: Git, place: Place, worktree: str) -> bool:
    """Whether this path, as git gives it with a branch, is another worktree that has files.

    Of a bare repository git gives its own folder: its HEAD only says what a clone begins with.
    """
    if not worktree or is_here(place, worktree):
        return False
    if Path(worktree).resolve() != place.common_dir.resolve():
        return True
    # By its name: `safe.bareRepository` may forbid git to find one by itself.
    return git.line(f"--git-dir={worktree}", "rev-parse", "--is-bare-repository") != "true"


def head_ref(place: Place) -> str:
    """HEAD as the full name of a branch, or as a commit."""
    branch, commit = head_of(place.git_dir)
    return f"refs/heads/{branch}" if branch else commit


def install_index(place: Place, source: Path) -> None:
    """Replace the index by git's own protocol: whoever makes index.lock may put it in place."""
    lock = place.git_dir / "index.lock"
    with _take_lock(lock) as file:
        file.write(read_bytes(source))
        file.flush()
        os.fsync(file.fileno())
    # With a newer time git would trust stat data of files that changed in the same second.
    times = source.stat()
    os.utime(lock, ns=(times.st_atime_ns, times.st_mtime_ns))
    lock.replace(place.git_dir / "index")


def missing_index_back(place: Place, kept: Path) -> tuple[str, ...]:
    """Somebody removed the user's index: the one that was kept of it takes its place, and is told.

    Without one git takes every file for deleted, and no ending would come about.
    """
    if (place.git_dir / "index").is_file() or not kept.is_file():
        return ()
    move_broken_index(place.git_dir, kept.parent / "aside")
    install_index(place, kept)
    return (
        "Your git index was gone; it was put back as the run has kept it: `git status` shows what "
        "is staged, `git reset` stages nothing",
    )


def _take_lock(lock: Path) -> IO[bytes]:
    deadline = monotonic() + INDEX_WAIT_S
    while True:
        try:
            return lock.open("xb")
        except FileExistsError:
            if monotonic() > deadline:
                raise StepError(
                    f"Another git command holds the index: {lock}",
                    hint="Wait for its end, or move the file away if no git command runs.",
                ) from None
            pause(0.02)


def is_stale(lock: Path | str, wait_s: float) -> bool:
    """Whether a lock stays the very same for so long that the git command of it must be dead."""
    first = _identity(lock)
    deadline = monotonic() + wait_s
    while first and first == _identity(lock):
        if monotonic() > deadline:
            return True
        pause(0.02)
    return False


def _identity(path: Path | str) -> tuple[int, int, int] | None:
    try:
        stat = os.lstat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_ctime_ns, stat.st_size


def move_stale_locks(place: Place, aside: Path, *, index: bool = True) -> tuple[str, ...]:
    """Locks of git commands that were killed, moved aside into the run's folder.

    That of the index is left alone on request: `git commit -a` of the user's may hold it for long.
    """
    common, own, run_folder = map(str, (place.common_dir, place.git_dir, aside.parent))
    named = [f"{own}/HEAD.lock", *(f"{common}/{name}" for name in SHARED_LOCKS)]
    if index:
        drafts = os.listdir(run_folder) if os.path.isdir(run_folder) else ()  # noqa: PTH112, PTH208
        named += [f"{own}/index.lock", *(f"{run_folder}/{name}" for name in drafts)]
    deadline = monotonic() + LOCK_WAIT_S
    moved = []
    for path in (*named, *files_below(f"{common}/refs")):
        # A git command that is alive ends soon.
        if path.endswith(".lock") and is_stale(path, deadline - monotonic()):
            lock = Path(path)
            aside.mkdir(parents=True, exist_ok=True)
            lock.replace(aside / f"{len(list(aside.iterdir())):04d}-{lock.name}")
            moved.append(str(lock.relative_to(place.common_dir)))
    return tuple(moved)


def check_name(git: Git, change: str) -> None:
    """The change's name must be usable as a branch name."""
    legal = change and len(change.encode()) <= LONGEST_NAME and not change.startswith("-")
    plain = legal and _PLAIN_NAME.fullmatch(change) and not change.endswith((".lock", "."))
    if not plain and not (legal and git.ask("check-ref-format", f"refs/heads/ralph/{change}").ok):
        raise UserError(
            f"The change name cannot be used as a git branch name: {change!r}",
            hint=f"Use letters, digits, `.`, `_` and `-`, as in: {slug(change) or 'my-change'}",
        )


def slug(text: str, longest: int = 40) -> str:
    """A short name made of a text, legal in a branch name."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:longest].strip("-")


def preflight(git: Git, place: Place, change: str) -> Origin:
    """Everything that would make a run unsafe is refused here, before anything is touched."""
    _refuse_homes(place)
    check_name(git, change)
    for name, (what, abort) in IN_PROGRESS.items():
        if (place.git_dir / name).exists():
            raise UserError(
                f"A {what} is in progress in this worktree",
                hint=f"Finish it, or undo it with `{abort}`, then start again.",
            )
    branch, commit = head_of(place.git_dir)
    commit = git.resolve(f"refs/heads/{branch}" if branch else "HEAD")
    if not commit:
        raise UserError(
            "This branch has no commit yet, so there is nothing to go back to",
            hint='git commit --allow-empty -m "start"',
        )
    if not (place.git_dir / "index").exists():
        raise UserError(
            "This worktree has no index yet, nothing is checked out", hint="git checkout"
        )
    if has_unmerged(entries(git, git.index_of(place))):
        raise UserError("The index has unmerged files", hint="Resolve them and `git add` them.")
    _refuse_branch_clashes(git, place, change)
    _refuse_ref_clashes(git, place, change)
    _refuse_dirty_submodules(git, place)
    _refuse_missing_filters(git)
    return Origin(branch, commit)


def ignore_line(path: str) -> str:
    """An ignore rule that means this file only."""
    return "/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", path)


def exclude_own_files(place: Place, leftover_files: Iterable[str] = ()) -> None:
    """Keep the state file, and what an agent drops, out of every commit.

    Through info/exclude: `.gitignore` is the user's.
    """
    path = place.common_dir / "info" / "exclude"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = read_bytes(path) if path.exists() else b""
    wanted = [line.encode() for line in (EXCLUDE_LINE, *leftover_files)]
    missing = [line for line in wanted if line not in text.splitlines()]
    if not missing:
        return
    gap = b"" if not text or text.endswith(b"\n") else b"\n"
    ours = b"\n".join([b"# untildone's own file", *missing, b""])
    replace_file(path, [text, gap, ours], shared_draft(path, place.git_dir.name))


def _refuse_homes(place: Place) -> None:
    user_home = Path(os.environ.get("HOME") or "/nonexistent")
    with contextlib.suppress(OSError):
        user_home = user_home.resolve()
    if place.top.resolve() in (user_home, Path("/")):
        raise UserError(
            f"The repository's top folder is your home folder or `/`: {place.top}",
            state="Nothing was changed. Running there would commit all your files.",
            hint="Make a repository in a folder of its own: `git init my-project`",
        )


def _refuse_dirty_submodules(git: Git, place: Place) -> None:
    if not (place.top / ".gitmodules").exists():
        return
    out = git.do("status", "--porcelain=v2", "-z", "--ignore-submodules=none", "-uno")
    rows = (row.split(" ", 8) for row in os.fsdecode(out).split("\0") if row.startswith("1 "))
    dirty = [row[8] for row in rows if row[2][0] == "S" and row[2][2:] != ".."]
    if dirty:
        raise UserError(
            f"Submodules have uncommitted changes, which cannot be saved: {', '.join(dirty)}",
            state="Nothing was changed.",
            hint=f"git -C {dirty[0]} stash -u",
        )


def _refuse_missing_filters(git: Git) -> None:
    """Git LFS and its like: without the program, files could be neither recorded nor put back."""
    for name in git.settings_between("filter.", ".required"):
        used = files_in_index(git, f":(attr:filter={name})")
        trial = git.ask("hash-object", "--stdin", "--path", used[0]) if used else None
        if trial and not trial.ok:
            said = trial.stderr.decode(errors="replace").strip()
            raise UserError(
                f"The git filter `{name}`, which `{used[0]}` needs, does not work: {said}",
                state="Nothing was changed.",
                hint=f"Install what `git config --get-regexp filter.{name}` names.",
            )


def _refuse_ref_clashes(git: Git, place: Place, change: str) -> None:
    """What is stored for `x` and for `x/1` would be in each other's way, now or in mid-run."""
    stored = "refs/ralph/backup/"
    if "/" not in change and has_no_refs(place.common_dir, f"{stored}{change}"):
        return
    known = {ref.removeprefix(stored).rpartition("/")[0] for ref in git.refs(stored)}
    bars = (
        k
        for k in sorted(known - {change})
        if f"{k}/".startswith(f"{change}/") or change.startswith(f"{k}/")
    )
    if clash := next(bars, ""):
        raise UserError(
            f"Work of the change `{clash}` is stored, so git can store none of `{change}`",
            state="Nothing was changed.",
            hint=f"Name the change otherwise, as in: {slug(change)}-2; or, if you need nothing of "
            f"`{clash}` any more: `untildone gc --all`",
        )


def _refuse_branch_clashes(git: Git, place: Place, change: str) -> None:
    if has_no_refs(place.common_dir, "refs/heads/ralph"):
        return
    refs = git.refs("refs/heads/ralph", "refs/heads/ralph/")
    if "refs/heads/ralph" in refs:
        raise UserError(
            "A branch called `ralph` exists, so no `ralph/…` branch can be made",
            hint="git branch -m ralph ralph-old",
        )
    mine = f"refs/heads/ralph/{change}"
    bars = (r for r in refs if r.startswith(f"{mine}/") or mine.startswith(f"{r}/"))
    if clash := next(bars, "").removeprefix("refs/heads/"):
        raise UserError(
            f"The branch `{clash}` exists, so `ralph/{change}` cannot be made",
            hint=f"git branch -m {clash} {clash.replace('/', '-')}-old",
        )
    elsewhere = refs[mine].worktree if mine in refs else ""
    if is_elsewhere(git, place, elsewhere):
        raise UserError(
            f"`ralph/{change}` is checked out in another worktree: {elsewhere}",
            hint=f"cd {elsewhere} && untildone status",
        )
