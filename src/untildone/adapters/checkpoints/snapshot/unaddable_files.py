"""Files that `git add` cannot take, known by what it says: forbidden names, no permission, a broken
conversion, pipes, nested repositories without a commit, paths that no program can name.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct, field

from untildone.adapters.checkpoints.guard import Flag, listed
from untildone.adapters.git.git import Git
from untildone.adapters.git.index import files_in_index, force_into_index
from untildone.adapters.process.process import Captured
from untildone.domain.errors import StepError, WorkDiverged
from untildone.domain.regex import regex

_NOT_ENCODED = regex(
    r"^fatal: (?:failed to encode|BOM is (?:required|prohibited) in|encoding) '(.*)' "
    r"(?:from|if encoded as) .*$",
    re.MULTILINE,
)


def inside_submodule(path: str) -> str:
    """Checkpoints end at a submodule."""
    return (
        f"The attempt worked inside the submodule `{path}`; checkpoints hold no files of it. "
        "What a failed attempt did there is put back, and stored in it under refs/ralph."
    )


def not_regular(said: str) -> list[str]:
    """Pipes and the like."""
    mark = ": can only add regular files, symbolic links or git-directories"
    lines = [line for line in said.splitlines() if line.endswith(mark)]
    return [line.removesuffix(mark).removeprefix("error: ") for line in lines]


def without_commit(said: str) -> list[str]:
    """Nested repositories that have no commit yet."""
    mark = "' does not have a commit checked out"
    lines = [line for line in said.splitlines() if line.endswith(mark)]
    return [line.removesuffix(mark).partition("'")[2].rstrip("/") for line in lines]


def not_encoded(said: str) -> list[str]:
    """Files that are not in the encoding that the attributes say they are in."""
    return _NOT_ENCODED.findall(said)


FORBIDDEN = "git forbids this name"
UNREADABLE = "nobody may read it"
TOO_LONG = "files in it have paths that are too long"
LONGEST_NAMED = 255
SUSPICIOUS = 2000
UNCONVERTED = "git cannot convert it as `.gitattributes` wants"
SHAPES = (
    (r"error: unable to add '(.+?)' to index", FORBIDDEN),
    (r"error: unable to index file '(.+?)'", UNREADABLE),
    (r"fatal: Unable to process path (.+?)", UNREADABLE),
    (r"fatal: (.+?): clean filter '.+' failed", UNCONVERTED),
)
REASONS = {reason for _, reason in SHAPES}


class LeftOut(Struct):
    """What `git add` has refused so far and must do without."""

    flags: list[Flag]
    orphans: list[str] = field(default_factory=list)  # nested repositories without a commit
    as_is: list[str] = field(default_factory=list)  # stored without the conversion that failed

    @property
    def paths(self) -> list[str]:
        """All of it."""
        return [*(flag.path for flag in self.flags), *self.orphans, *self.as_is]

    def learn(self, top: Path, said: str) -> bool:
        """Take what git has named; says whether it has named anything."""
        orphans, as_is = without_commit(said), not_encoded(said)
        refused = refused_files(top, said, self.flags)
        self.orphans += orphans
        self.as_is += as_is
        self.flags += refused
        return bool(orphans or as_is or refused)


def refused_files(top: Path, said: str, known: Iterable[Flag] = ()) -> list[Flag]:
    """The files that git has named; those that may be read by now are worth another try."""
    passed = {flag.path for flag in known}
    found: dict[str, Flag] = {}
    for shape, reason in SHAPES:
        for path in re.findall(f"^{shape}$", said, re.MULTILINE | re.DOTALL):
            file = top / path
            readable = reason == UNREADABLE and os.access(file, os.R_OK)
            if path not in passed and not readable and os.path.lexists(file):
                found[path] = Flag(path, file.lstat().st_size, reason)
    return list(found.values())


def is_too_long(said: bytes) -> bool:
    """Whether git may have met such a path: it cuts off what it says about it."""
    return any(len(line) > SUSPICIOUS for line in said.splitlines())


def too_long(top: Path, folders: Iterable[str], known: Iterable[Flag]) -> list[Flag]:
    """Of untracked folders what has files that are reached step by step only, as they were made."""
    passed, found = {flag.path for flag in known}, dict[str, Flag]()
    for folder in folders:
        for path in folders_below(top / folder):
            short = max(_short(str(path.relative_to(top))), folder.rstrip("/"), key=len)
            if short not in passed and not _can_name_all(path):
                found[short] = Flag(short, (top / short).lstat().st_size, TOO_LONG)
    return list(found.values())


def folders_below(top: Path) -> Iterator[Path]:
    """A folder and all below it that can be named, parents first; deeper ones than `os.walk`."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        if not os.path.lexists(folder):
            continue  # it was moved meanwhile
        yield folder
        with contextlib.suppress(OSError):
            waiting += filter(is_folder, folder.iterdir())


def is_folder(path: Path) -> bool:
    """Whether it is one itself, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def _can_name_all(folder: Path) -> bool:
    """Whether every name in it makes a path that programs can use, the folder's own included."""
    room = os.pathconf("/", "PC_PATH_MAX") - len(os.fsencode(folder)) - len("/") - len("\0")
    try:
        return all(len(os.fsencode(name)) <= room for name in os.listdir(folder))  # noqa: PTH208
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG


def _short(path: str) -> str:
    """The folder to speak of, well above what cannot be named."""
    first, *steps = path.rstrip("/").split("/")
    for step in steps:
        if len(os.fsencode(f"{first}/{step}")) > LONGEST_NAMED:
            break
        first = f"{first}/{step}"
    return first


def force_add(draft: Git, top: Path, paths: tuple[str, ...]) -> tuple[Flag, ...]:
    """Record files in the index, ignored or not; says which of them git refuses."""
    out: list[Flag] = []
    rest = list(paths)
    while rest:
        try:
            force_into_index(draft, rest)
        except StepError as error:
            barred = refused_files(top, error.message.replace("failed: ", "failed:\n", 1), out)
            if not barred:
                raise
            out += barred
            rest = [path for path in rest if path not in {flag.path for flag in out}]
            continue
        # Of names that it forbids, this command of git's says nothing.
        taken = set(files_in_index(draft, *(f":(top,literal){path}" for path in rest)))
        gone = (path for path in rest if path not in taken and os.path.lexists(top / path))
        return (*out, *(Flag(path, (top / path).lstat().st_size, FORBIDDEN) for path in gone))
    return tuple(out)


def in_closed_folders(top: Path, answer: Captured) -> list[str]:
    """Tracked files in folders that nobody may enter: git only mentions them, and goes on."""
    if not answer.stderr:
        return []
    shape, said = r"^(?!warning: |error: )(.+): Permission denied$", os.fsdecode(answer.stderr)
    return [
        path
        for path in re.findall(shape, said, re.MULTILINE)
        if not _can_enter((top / path).parent)
    ]


def _can_enter(folder: Path) -> bool:
    return os.access(folder, os.R_OK | os.X_OK) or not os.path.lexists(folder)


def is_refused_by_git(flag: Flag) -> bool:
    """Whether it was git that would not have the file, not the guard."""
    return flag.reason in REASONS


def refuse_missing(flags: Iterable[Flag], tracked: Iterable[str]) -> None:
    """Work is not finished if its checkpoint would have less than the one before."""
    before = set(tracked)
    missing = [f for f in flags if f.path in before or f.reason == UNCONVERTED]
    if missing:
        raise WorkDiverged(f"Git cannot take these files into a checkpoint: {listed(missing)}")


def make_readable(top: Path, flags: Iterable[Flag]) -> None:
    """What an attempt locked away can be brought back only if its owner may read it."""
    for flag in flags:
        if flag.reason == UNREADABLE:
            with contextlib.suppress(OSError):
                (top / flag.path).chmod(stat.S_IRUSR | stat.S_IWUSR)
