"""Bubblewrap around a program: the file system is read-only but for what its work needs."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.git.place import Place
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.domain.agents.agent import Ending

PROBE_WAIT_S = 10
# What git obeys or what says where the repository is: an agent has no business in there.
SETTINGS = ("config", "config.worktree", "hooks", "info", "untildone", "commondir", "gitdir")
# Of the main worktree, when the run is in a linked one.
ELSEWHERE = ("HEAD", "index")
# With one of these, root could undo the mounts or reach around them.
DROPPED = (
    "CAP_DAC_READ_SEARCH",
    "CAP_MKNOD",
    "CAP_SYS_ADMIN",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
)


class Sandbox(Struct, frozen=True):
    """What may be written, what may not although it lies inside that, and the network.

    Of a `closed` folder nothing may be written but what is `writable` below it.
    """

    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    network: bool = True
    closed: str = ""

    def wrap(
        self, argv: Sequence[str], cwd: str, writable: Sequence[str] = (), scratch: str = ""
    ) -> tuple[str, ...]:
        """The call of bubblewrap that runs `argv` inside.

        `writable` are more paths of this one program; `scratch` may lie in a protected folder.
        """
        words = ["bwrap", "--unshare-pid", "--die-with-parent"]
        words += [word for name in DROPPED for word in ("--cap-drop", name)]
        if not self.network:
            words.append("--unshare-net")
        words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        # Later mounts cover earlier ones. A missing path is skipped: a mount point that
        # bubblewrap makes for itself would stay behind as an empty file.
        paths = [*self.writable, *map(_real, writable)]
        words += _mounts("--bind-try", [path for path in paths if not self._in_closed(path)])
        words += _mounts("--ro-bind-try", [self.closed] if self.closed else [])
        words += _mounts("--bind-try", [path for path in paths if self._in_closed(path)])
        words += _mounts("--ro-bind-try", self.protected)
        words += _mounts("--bind-try", [scratch] if scratch else [])
        return (*words, "--chdir", cwd, "--", *argv)

    def _in_closed(self, path: str) -> bool:
        return bool(self.closed) and path.startswith(f"{self.closed}/")


class RunEnvironment(Struct, frozen=True):
    """What every program of a run gets: marks that a later loop knows it by, maybe a sandbox."""

    marks: Mapping[str, str]
    sandbox: Sandbox | None = None

    def applied_to(
        self, command: Command, writable: Sequence[str] = (), scratch: str = ""
    ) -> Command:
        """The command with its marks, inside the sandbox if there is one."""
        marked = replace(command, env={**(command.env or {}), **self.marks}, end_descendants=True)
        if self.sandbox is None:
            return marked
        argv = self.sandbox.wrap(command.argv, str(command.cwd), writable, scratch)
        return replace(marked, argv=argv, sandboxed=True)


def sandbox_for(
    place: Place,
    environ: Mapping[str, str],
    writable: Sequence[str],
    *,
    network: bool,
    closed: str = "",
) -> Sandbox:
    """The sandbox of a worktree: its files and commits, temporary files, caches, named paths."""
    # Git's folders are mounts of their own: what is one cannot be renamed out of the way.
    ours = (place.top, place.common_dir, place.git_dir)
    named = ["/tmp", environ.get("TMPDIR", ""), cache_folder(environ), *writable, *map(str, ours)]  # noqa: S108 - the folder itself
    real = dict.fromkeys(_real(path) for path in named if path)
    return Sandbox(tuple(real), tuple(_protected(place)), network, closed and _real(closed))


def cache_folder(environ: Mapping[str, str]) -> str:
    """Where programs keep what they can make again."""
    return environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '/nowhere')}/.cache"


def trouble(processes: Processes, folder: Path) -> str:
    """Why bubblewrap cannot be used on this machine, or nothing."""
    call = Sandbox(network=False).wrap(("true",), "/")
    answer = processes.capture(Command(call, folder, timeout_s=PROBE_WAIT_S), lambda: False)
    if answer.ok:
        return ""
    if answer.ending is Ending.NOT_STARTED:
        return "the program `bwrap` was not found"
    said = answer.stderr.decode(errors="replace").strip().partition("\n")[0]
    return f"bubblewrap cannot make namespaces here: {said or answer.ending}"


def _protected(place: Place) -> list[str]:
    git_dir, common = Path(_real(place.git_dir)), Path(_real(place.common_dir))
    paths = [folder / name for folder in dict.fromkeys((common, git_dir)) for name in SETTINGS]
    paths += [path for path in sorted((common / "worktrees").glob("*")) if path != git_dir]
    if git_dir != common:
        paths += [common / name for name in ELSEWHERE]
    pointer = Path(_real(place.top)) / ".git"
    if pointer.is_file():
        paths.append(pointer)
    return list(map(str, paths))


def _mounts(kind: str, paths: Sequence[str]) -> list[str]:
    return [word for path in paths for word in (kind, path, path)]


def _real(path: str | Path) -> str:
    # Bubblewrap mounts on no symbolic link.
    return os.path.realpath(os.path.expanduser(path))  # noqa: PTH111 - text in, text out
