"""A worktree of our own beside the user's: made for one run, moved to its folder afterwards."""

import errno
import os
import shutil
from pathlib import Path
from threading import Lock

from untildone.adapters.git.git import Git
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import home, slug
from untildone.adapters.records.durable import replace_file
from untildone.domain.errors import UserError
from untildone.plain_files import read_bytes, read_text

NOTE = "made_for"
RETIRING = "retiring"
LOCK_REASON = "untildone made it for: "


def make(git: Git, place: Place, change: str, commit: str) -> Path:
    """A linked worktree without files beside the user's top folder; returns where it is.

    It is locked with our reason: git's first note about it, so that a start that is cut short is
    known as ours, and `git worktree remove` cannot take the run's record along.
    """
    path = place.top.parent / f"{place.top.name}-ralph-{slug(change) or 'run'}"
    if os.path.lexists(path):
        raise UserError(
            f"The folder for the run exists already: {path}",
            state="Nothing was changed.",
            hint="`untildone status` says if another run is there; else move it away",
        )
    make_at(git, place, path, commit, f"{LOCK_REASON}{place.top}")
    return path


_one_at_a_time = Lock()  # lanes make theirs in threads, and a name that is free is free for all


def make_at(git: Git, place: Place, path: Path, commit: str, reason: str) -> None:
    """The same in a folder of its own that is not there yet, locked with this reason."""
    if git.config("extensions.worktreeconfig") or git.config("extensions.refstorage"):
        _ask_git(git, path, commit, reason)  # what belongs into it then is for git to say
    else:
        with _one_at_a_time:
            _make_whole(place, path, commit, reason)


def _make_whole(place: Place, path: Path, commit: str, reason: str) -> None:
    """As `git worktree add` does, but git's folder for it comes into its place as a whole.

    Git itself has a HEAD of zeros in it for a moment; a kill then would leave a repository in which
    every look at all refs fails.
    """
    worktrees, draft = place.common_dir / "worktrees", home(place) / "worktree.draft"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        worktrees.mkdir(exist_ok=True)
        git_dir = _free_name(worktrees, path.name)
        (draft / "commondir").write_text("../..\n")
        (draft / "gitdir").write_bytes(os.fsencode(path / ".git") + b"\n")
        (draft / "HEAD").write_text(f"{commit}\n")
        (draft / "locked").write_bytes(os.fsencode(reason) + b"\n")
        draft.rename(git_dir)
        _make_folder(path, git_dir, draft)
    except OSError as error:
        raise _cannot(str(error)) from error


def _free_name(worktrees: Path, name: str) -> Path:
    names = (name, *(f"{name}{k}" for k in range(1, 1000)))
    return next(worktrees / name for name in names if not (worktrees / name).exists())


def _make_folder(path: Path, git_dir: Path, draft: Path) -> None:
    try:
        path.mkdir()
        (path / ".git").write_bytes(b"gitdir: " + os.fsencode(git_dir) + b"\n")
    except OSError:
        git_dir.rename(draft)
        raise


def _ask_git(git: Git, path: Path, commit: str, reason: str) -> None:
    where = ("--no-checkout", "--detach", "--lock", "--reason", reason, str(path), commit)
    answer = git.ask("worktree", "add", "-q", *where)
    if not answer.ok:
        raise _cannot(answer.stderr.decode().strip())


def _cannot(why: str) -> UserError:
    return UserError(
        f"The worktree for the run cannot be made: {why}",
        state="Nothing was changed.",
        hint="Mend that, or use `--checkpoint branch`, which needs no second folder.",
    )


def note_user(linked: Place, user: Place) -> None:
    """Write down in a worktree of ours whose it is."""
    home(linked).mkdir(exist_ok=True)
    _write(home(linked) / NOTE, os.fsencode(user.top))


def user_of(linked: Place) -> Path | None:
    """The user's own worktree that this one was made for; None for an ordinary worktree."""
    note, lock = home(linked) / NOTE, linked.git_dir / "locked"
    if note.exists():
        return Path(os.fsdecode(read_bytes(note)))
    reason = os.fsdecode(read_bytes(lock)).strip() if lock.exists() else ""
    return Path(reason.removeprefix(LOCK_REASON)) if reason.startswith(LOCK_REASON) else None


def retire(linked: Place, user: Place, run_id: str) -> str:
    """Move a worktree: its files and git's notes about it beside its runs, at the user's own.

    Nothing is deleted. Each step leaves what the next call finds and goes on with.
    """
    own, runs = home(linked) / "runs", home(user) / "runs"
    for folder in (own / run_id, runs):
        folder.mkdir(parents=True, exist_ok=True)
    _write(home(linked) / RETIRING, run_id.encode())
    moved = _move_files(linked.top, own / run_id / "worktree")
    for folder in sorted(own.iterdir()):
        if not (runs / folder.name).exists():
            folder.rename(runs / folder.name)
    linked.git_dir.rename(runs / run_id / "worktree.git")
    kept = runs / run_id / "worktree" if moved else linked.top
    return f"The worktree of the run was moved, with ignored files and all, to: {kept}"


def bring_back(user: Place, run_id: str, branch: str) -> Place | None:
    """The reverse: a worktree that was moved beside its run stands where it was, on the branch.

    None if it is not there any more. If this is cut short, `retire` moves it again.
    """
    folder = home(user) / "runs" / run_id
    moved = folder / "worktree.git"
    if not moved.is_dir():
        return None
    worktrees, pointer = user.common_dir / "worktrees", os.fsdecode(read_bytes(moved / "gitdir"))
    top = Path(os.path.normpath(worktrees / "any" / pointer.strip())).parent  # it may be relative
    files = folder / "worktree"
    if files.is_dir() and os.path.lexists(top):
        raise UserError(
            f"The folder for the run exists already: {top}",
            state="Nothing was changed.",
            hint="Move it away, then try again.",
        )
    git_dir = _free_name(worktrees, top.name)
    linked = Place(top, git_dir, user.common_dir)
    where = b"gitdir: " + os.fsencode(git_dir) + b"\n"
    _write(moved / "HEAD", f"ref: refs/heads/{branch}\n".encode())
    if files.is_dir():
        (files / ".git").write_bytes(where)
    worktrees.mkdir(exist_ok=True)
    moved.rename(git_dir)
    own = home(linked) / "runs"
    own.mkdir(parents=True, exist_ok=True)
    folder.rename(own / run_id)
    if (own / run_id / files.name).is_dir():
        (own / run_id / files.name).rename(top)
    elif top.is_dir():  # on another disk the files had stayed
        (top / ".git").write_bytes(where)
    (home(linked) / RETIRING).unlink(missing_ok=True)
    return linked


def retiring(linked: Place) -> str:
    """The run with which a worktree was being moved when the process died; nothing else."""
    note = home(linked) / RETIRING
    return read_text(note) if note.exists() else ""


def _move_files(top: Path, kept: Path) -> bool:
    """The folder into ours, no worktree of git's any more; on another disk it stays in place."""
    moved = True
    if top.exists():
        try:
            top.rename(kept)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            moved = False
    ((kept if moved else top) / ".git").unlink(missing_ok=True)
    return moved


def _write(path: Path, data: bytes) -> None:
    replace_file(path, [data], path.with_suffix(".draft"))
