"""How a slot gets what git does not have: dependencies, local files, folders that are ignored."""

import fcntl
import hashlib
import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.git import Git
from untildone.adapters.git.object_files import content, is_plain_file
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.domain.agents.agent import Ending
from untildone.domain.errors import Interrupted, StepError
from untildone.domain.plain_text import plain
from untildone.plain_files import opened

TIMEOUT_S = 1800
TAIL = 2000
FICLONE = 0x40049409
# Where they are in use, a change of one of these means other dependencies.
KEY_FILES = (
    *("package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "uv.lock", "poetry.lock"),
    *("requirements.txt", "Pipfile.lock", "Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock"),
)
INCLUDE = ".worktreeinclude"


AUTO = "auto"
# Ignored folders that hold what a project needs and does not make itself.
DEPENDENCIES = ("node_modules", "bower_components", "vendor", "Pods")


class SetUp(Struct, frozen=True):
    """What makes a checkout work: commands, one after the other, and the file that says so.

    Before them, ignored `files` and `folders` are copied from the worktree `top`.
    """

    source: str
    commands: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    top: Path = Path()

    @property
    def script(self) -> str:
        """The commands as one; the first that fails is the last."""
        several = len(self.commands) > 1
        return "\n".join((*(["set -e"] if several else []), *self.commands))


def set_up_of(git: Git, top: Path, asked: str) -> SetUp:
    """What every slot of a run gets, by its `lane_setup`: nothing, a command, or `auto`.

    The last one is for projects that have no commands: what they need is copied, where the disk can
    share the blocks. A command knows better what is needed.
    """
    if not asked:
        return SetUp("")
    files = included_files(git, top)
    if asked != AUTO:
        return SetUp("lane_setup", (asked,), files, top=top)
    return SetUp(AUTO, files=files, folders=dependency_folders(git), top=top)


def found_setups(top: Path) -> tuple[SetUp, ...]:
    """What the project has for other tools, best first; nothing of it is run without consent."""
    return tuple(SetUp(source, commands) for source, commands in _found(top) if commands)


def _found(top: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    cursor = _json(top / ".cursor/worktrees.json")
    named = cursor.get("setup-worktree-unix") or cursor.get("setup-worktree")
    yield ".cursor/worktrees.json", _commands(named)
    for path in sorted((top / ".codex/environments").glob("*.toml")):
        script = _table(_toml(path), "setup").get("script")
        yield str(path.relative_to(top)), _commands(script)
    yield "conductor.json", _commands(_table(_json(top / "conductor.json"), "scripts").get("setup"))
    yield "paseo.json", _commands(_table(_json(top / "paseo.json"), "worktree").get("setup"))


def _json(path: Path) -> Mapping[str, object]:
    try:
        found = json.loads(content(path) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _toml(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(content(path).decode())
    except (ValueError, RecursionError):
        return {}


def _table(found: Mapping[str, object], name: str) -> Mapping[str, object]:
    table = found.get(name)
    return table if isinstance(table, dict) else {}


def _commands(found: object) -> tuple[str, ...]:
    rows = found if isinstance(found, list) else [found]
    return tuple(row.strip() for row in rows if isinstance(row, str) and row.strip())


def setup_key(top: Path, setup: SetUp, files: Sequence[str] = KEY_FILES) -> str:
    """What a set-up was made of: the commands and the bytes of the key files."""
    parts = (*setup.commands, *setup.files, *setup.folders)
    known = hashlib.sha256(os.fsencode("\0".join(parts)))
    for name in files:
        data = content(top / name)
        if data:
            known.update(b"\0%s\0%d\0" % (os.fsencode(name), len(data)) + data)
    return known.hexdigest()


class SetUps:
    """Runs the commands that make a slot ready to work in; a stop request cuts them short."""

    def __init__(self, processes: Processes, stop_now: Callable[[], bool]) -> None:
        self._processes = processes
        self._stop_now = stop_now

    def run(self, setup: SetUp, top: Path, environment: Mapping[str, str]) -> None:
        """Run the commands in a slot; the first that fails is a StepError with its last words."""
        for command in setup.commands:
            output = bytearray()
            call = Command(
                ("/bin/sh", "-c", command),
                top,
                environment,
                timeout_s=TIMEOUT_S,
                end_descendants=True,
            )
            ended = self._processes.run(call, output.extend, self._stop_now, on_error=output.extend)
            if ended.ending is Ending.INTERRUPTED:
                raise Interrupted("The set-up of a lane was cut short by a stop request")
            if ended.ending is not Ending.EXITED or ended.exit_code:
                said = plain(output.decode(errors="replace")).strip()[-TAIL:]
                raise StepError(
                    f"The set-up of a lane failed: `{command}` (from {setup.source}): "
                    f"{said or ended.error or f'exit code {ended.exit_code}'}",
                    state=f"The slot has the files of its base and no more: {top}",
                    hint="Try the command in that folder, or set `lane_setup` to one that works.",
                )


# -- what is ignored ---------------------------------------------------------------------------


def dependency_folders(git: Git) -> tuple[str, ...]:
    """Ignored folders with dependencies, wherever they are in the worktree."""
    words = ("ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z")
    found = os.fsdecode(git.do(*words)).split("\0")
    return tuple(path.rstrip("/") for path in found if Path(path).name in DEPENDENCIES)


def included_files(git: Git, top: Path) -> tuple[str, ...]:
    """Ignored files of the user's that `.worktreeinclude` asks for, as Claude Code has it."""
    rules = top / INCLUDE
    if not is_plain_file(rules):
        return ()
    ignored = git.do("ls-files", "-o", "-i", "--exclude-standard", "-z")
    wanted = git.do("ls-files", "-o", "-i", f"--exclude-from={rules}", "-z")
    both = set(wanted.split(b"\0")) & set(ignored.split(b"\0"))
    return tuple(os.fsdecode(path) for path in sorted(both) if path)


def copy_included(top: Path, files: Sequence[str], slot: Path) -> tuple[str, ...]:
    """Copy single files into a slot that does not have them yet; never a link to them."""
    copied = []
    for path in files:
        source, target = top / path, slot / path
        if is_plain_file(source) and not os.path.lexists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            copied.append(path)
    return tuple(copied)


def reflink(source: str, target: str) -> None:
    """A copy of a file that shares its blocks until one of them is written to; else an OSError."""
    with opened(source) as old, opened(target, "xb") as new:
        fcntl.ioctl(new.fileno(), FICLONE, old.fileno())
    shutil.copystat(source, target)


def can_copy_on_write(
    folder: Path, slot: Path, clone: Callable[[str, str], None] = reflink
) -> bool:
    """Whether one file of a folder can be had in the slot without a second copy of its bytes."""
    source = next((f"{at}/{n}" for at, _, names in os.walk(folder) for n in names), "")
    trial = slot.parent / f"trial-{os.getpid()}"
    if not source or not is_plain_file(Path(source)):
        return False
    try:
        clone(source, str(trial))
    except OSError:
        return False
    finally:
        trial.unlink(missing_ok=True)
    return True


def copy_folder(source: Path, target: Path, clone: Callable[[str, str], None] = reflink) -> bool:
    """An ignored folder such as `node_modules` into a slot by copy-on-write, or not at all.

    Not a virtual environment: its programs name the folder that they were made in, so that an
    install in the lane would change the user's own. It comes into its place as a whole.
    """
    if os.path.lexists(target) or is_environment(source):
        return False
    if not can_copy_on_write(source, target.parent, clone):
        return False
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        shutil.copytree(source, draft, symlinks=True, copy_function=clone)
    except OSError:  # a part of it is on another disk, or there is no room
        shutil.rmtree(draft, ignore_errors=True)
        return False
    draft.rename(target)
    return True


def is_environment(folder: Path) -> bool:
    """Whether this is a Python environment, or has one directly in it."""
    return any(os.path.lexists(path / "pyvenv.cfg") for path in (folder, *folder.glob("*/")))
