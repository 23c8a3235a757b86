"""A quick look at every loop of a repository: state files and pids, nothing but os and json."""

import json
import os
import time

from untildone.plain_files import read_text

STATE_FILE = ".claude/loop-state.json"
ATTEMPTS = "refs/ralph/attempts/"


def look(folder: str) -> list[dict[str, object]] | None:
    """The state of every worktree's loop, or None outside a repository."""
    git_dir = _git_dir(folder)
    if git_dir is None:
        return None
    loops = []
    common = _common_dir(git_dir)
    saved = _saved(common)
    for top, own_dir in _worktrees(common):
        state = _state(os.path.join(top, STATE_FILE))
        if state is not None:
            state["worktree"] = top
            lock = os.path.join(own_dir, "untildone", "lock")
            # The folder is locked as well: an agent may have removed the file.
            state["alive"] = _locked(lock, os.O_RDWR) or _locked(own_dir, os.O_RDONLY)
            own = f"{ATTEMPTS}{state.get('change_id')}/"
            count = None if saved is None else sum(name.startswith(own) for name in saved)
            state["saved_attempts"] = count
            state["last_sign"] = _last_sign(state, own_dir)
            loops.append(state)
    return loops


def needs_repair(loops: list[dict[str, object]]) -> bool:
    """Whether a loop died without writing its end."""
    return any(not loop["alive"] and is_unfinished(loop) for loop in loops)


def is_unfinished(state: dict[str, object]) -> bool:
    """Whether only a living loop leaves a state like this: at work, or carrying out the choice."""
    closing = state.get("choice") and state.get("phase") == "awaiting_choice"
    return bool(closing) or state.get("status") in ("starting", "running")


def _git_dir(folder: str) -> str | None:
    folder = os.path.abspath(folder)
    while True:
        path = os.path.join(folder, ".git")
        if os.path.isdir(path):
            return path
        if os.path.isfile(path):
            return _pointed(path)
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _pointed(path: str) -> str:
    target = read_text(path).strip().removeprefix("gitdir: ")
    return os.path.normpath(os.path.join(os.path.dirname(path), target))


def _common_dir(git_dir: str) -> str:
    pointer = os.path.join(git_dir, "commondir")
    if not os.path.isfile(pointer):
        return git_dir
    return os.path.normpath(os.path.join(git_dir, read_text(pointer).strip()))


def _worktrees(common: str) -> list[tuple[str, str]]:
    """(top folder, git folder) of the main worktree and every linked one."""
    found = [(os.path.dirname(common), common)]
    linked = os.path.join(common, "worktrees")
    for name in sorted(os.listdir(linked)) if os.path.isdir(linked) else []:
        pointer = os.path.join(linked, name, "gitdir")
        if os.path.isfile(pointer):
            top = os.path.dirname(read_text(pointer).strip())
            found.append((top, os.path.join(linked, name)))
    return found


def _saved(common: str) -> list[str] | None:
    """Refs of saved attempts; None where git keeps refs in tables of its own."""
    if os.path.isdir(os.path.join(common, "reftable")):
        return None
    names: set[str] = set()
    for folder, _, files in os.walk(os.path.join(common, ATTEMPTS)):
        below = os.path.relpath(folder, common)
        names.update(f"{below}/{name}" for name in files if not name.endswith(".lock"))
    packed = _text(os.path.join(common, "packed-refs"))
    if f" {ATTEMPTS}" in packed:
        rows = (line.partition(" ")[2] for line in packed.split("\n"))
        names.update(name for name in rows if name.startswith(ATTEMPTS))
    return sorted(names)


def _last_sign(state: dict[str, object], own_dir: str) -> object:
    """When the loop, or the agent that it waits for, last wrote anything; None if nobody knows."""
    if state.get("died_at"):
        return state["died_at"]
    call = state.get("open_iteration")
    journal = ("untildone", "runs", str(state.get("run_id")), "journal.jsonl")
    paths = [os.path.join(own_dir, *journal)]
    paths += [str(call.get("log_file"))] if isinstance(call, dict) else []
    lanes = state.get("lanes")
    for lane in lanes if isinstance(lanes, list) else ():
        if isinstance(lane, dict) and lane.get("log_file"):
            paths.append(str(lane["log_file"]))
            lane["last_sign"] = _moment(_written(paths[-1]))
    return _moment(max(map(_written, paths)))


def _moment(seconds: float) -> str | None:
    if not seconds:
        return None
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{stamp}.{int(seconds * 1000) % 1000:03d}+00:00"


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _text(path: str) -> str:
    try:
        return read_text(path, errors="surrogateescape")
    except OSError:
        return ""


def _state(path: str) -> dict[str, object] | None:
    try:
        state = json.loads(read_text(path))
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) else None


def _locked(path: str, flags: int) -> bool:
    import fcntl

    try:
        # Whatever an agent has put there, opening it must not wait.
        fd = os.open(path, flags | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a network disk that locks no folders
        return False
    finally:
        os.close(fd)
    return False
