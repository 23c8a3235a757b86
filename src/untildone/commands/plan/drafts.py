"""Plans that are drafted and not written yet: kept beside the records of runs, then applied."""

import difflib
import hashlib
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from untildone.adapters.git.repository import STATE_FILE
from untildone.adapters.records.durable import replace_file
from untildone.adapters.records.lock import plan_lock
from untildone.domain.errors import CloseRefused, UserError
from untildone.plain_files import read_bytes
from untildone.wiring.repository import PLAN_LOCK, Repository, read_state

DRAFTS = "drafts"
WAIT_S = 60.0


class Draft(Struct, frozen=True):
    """A plan that is not written yet: its files, and what stood in their places."""

    change: str
    source: str
    files: dict[str, str]
    before: dict[str, str]  # a hash; empty where there was no file

    @property
    def new(self) -> bool:
        return not any(self.before.values())


def hashed(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def keep(repository: Repository, draft: Draft) -> None:
    """Write the draft down, where only its owner reads it."""
    path = _path(repository, draft.change)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(path, [msgspec.json.encode(draft)], path.with_suffix(".draft"), 0o600)


def kept(repository: Repository, change: str = "") -> Draft:
    """The draft of a change, or the only one."""
    names = sorted(path.stem for path in (repository.home / DRAFTS).glob("*.json"))
    if not change and len(names) > 1:
        raise UserError(
            f"Several drafts are kept: {', '.join(names)}",
            state="Nothing was changed.",
            hint=f"untildone plan --apply --change {names[0]}",
        )
    name = change.replace("/", "%") or next(iter(names), "")
    if name not in names:
        known = f"Kept: {', '.join(names)}" if names else 'untildone plan "IDEA"'
        what = f" of `{change}`" if change else ""
        raise UserError(
            f"There is no draft{what} to apply", state="Nothing was changed.", hint=known
        )
    path = repository.home / DRAFTS / f"{name}.json"
    try:
        return msgspec.json.decode(read_bytes(path), type=Draft)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise UserError(
            f"The draft cannot be read: {path}: {error}",
            state="Nothing was changed.",
            hint=f'Remove that, then `untildone plan "IDEA" --change {name}`',
        ) from error


def _path(repository: Repository, change: str) -> Path:
    return repository.home / DRAFTS / f"{change.replace('/', '%')}.json"


def apply(repository: Repository, draft: Draft) -> None:
    """Write the draft into the user's files, all of it, unless one of them has changed since."""
    top = repository.place.top
    refuse_live(repository)
    with plan_lock(repository.home / PLAN_LOCK, WAIT_S) as held:
        if not held:
            raise NotWritten("The plan is being written by another command", draft)
        for path, text in draft.files.items():
            now = _now(top, path)
            if now not in (draft.before[path], hashed(text.encode())):
                raise NotWritten(f"This has changed since the draft was made: {path}", draft)
        for path in _stories_last(draft.files):
            _write(top / path, draft.files[path].encode())
    _path(repository, draft.change).unlink(missing_ok=True)


class NotWritten(CloseRefused):
    """The draft is kept, and the command that writes it is known."""

    def __init__(self, message: str, draft: Draft, hint: str = "") -> None:
        super().__init__(
            message,
            state="Nothing was written; the draft is kept.",
            hint=hint or f"untildone plan --apply --change {draft.change}",
        )


def refuse_live(repository: Repository) -> None:
    """New files would become part of the story that is at work."""
    state = read_state(repository.place.top / STATE_FILE) or {}
    if repository.alive():
        change = state.get("change_id")
        raise CloseRefused(
            f"The loop over {change} works in this worktree: what is written now would become a "
            "part of its story",
            state="Nothing was written; the draft is kept.",
            hint=f"`untildone wait {change}`, then `untildone plan --apply`",
        )


def _now(top: Path, path: str) -> str:
    """What is there: a hash, empty for nothing; a link that leads elsewhere is refused."""
    target = top / path
    if not target.parent.resolve().is_relative_to(top.resolve()) or target.is_symlink():
        raise UserError(f"This leads out of the repository: {path}", hint=f"ls -l {path}")
    if target.exists() and not target.is_file():
        raise UserError(
            f"Something that is no file stands where the plan belongs: {path}",
            state="Nothing was written; the draft is kept.",
            hint=f"ls -ld {path}",
        )
    return hashed(read_bytes(target)) if target.exists() else ""


def _stories_last(files: Mapping[str, str]) -> list[str]:
    """A plan without its stories is none: whoever is killed in between has begun nothing."""
    return sorted(files, key=lambda path: (path.endswith("/tasks.md"), path))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    replace_file(path, [data], path.with_name(f".{path.name}.untildone"), mode)


def difference(repository: Repository, draft: Draft) -> str:
    """What would be written, as a patch."""
    parts = []
    for path, text in draft.files.items():
        old = repository.place.top / path
        there = old.is_file()
        before = read_bytes(old).decode(errors="replace") if there else ""
        names = (f"a/{path}" if there else "/dev/null", f"b/{path}")
        rows = difflib.unified_diff(before.splitlines(), text.splitlines(), *names, lineterm="")
        parts.append("\n".join(rows))
    return "\n".join(part for part in parts if part)
