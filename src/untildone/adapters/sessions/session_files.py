"""Where the agents of this machine keep their sessions, and the model calls in such a file."""

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from untildone.domain.costs.call_prices import Spent


def _home() -> Path:
    return Path(os.environ.get("HOME") or "/nonexistent")


def _named(variable: str, default: Path) -> Path:
    given = os.environ.get(variable)
    return Path(given) if given else default


def _below(*folders: Path) -> Iterator[str]:
    """All session files below, links to folders not followed."""
    open_folders = [str(folder) for folder in folders]
    while open_folders:
        try:
            with os.scandir(open_folders.pop()) as found:
                for each in found:
                    if each.name.endswith(".jsonl"):
                        yield each.path
                    elif each.is_dir(follow_symlinks=False):
                        open_folders.append(each.path)
        except OSError:
            continue


def _chats(folder: Path) -> Iterator[str]:
    return (path for path in _below(folder) if "/chats/" in path)


def _data(*names: str) -> Iterator[str]:
    path = _named("XDG_DATA_HOME", _home() / ".local" / "share").joinpath(*names)
    if path.is_file():
        yield str(path)


def _claude() -> Iterator[str]:
    roots = [_named("XDG_CONFIG_HOME", _home() / ".config") / "claude", _home() / ".claude"]
    if given := os.environ.get("CLAUDE_CONFIG_DIR"):
        roots = [Path(given)]
    return _below(*(root / "projects" for root in roots))


def _codex() -> Iterator[str]:
    root = _named("CODEX_HOME", _home() / ".codex")
    return _below(root / "sessions", root / "archived_sessions")


FILES: dict[str, Callable[[], Iterator[str]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": lambda: _chats(_named("GEMINI_CLI_HOME", _home()) / ".gemini" / "tmp"),
    "goose": lambda: _data("goose", "sessions", "sessions.db"),
    "opencode": lambda: _data("opencode", "opencode.db"),
    "pi": lambda: _below(_named("PI_CODING_AGENT_DIR", _home() / ".pi" / "agent") / "sessions"),
    "qwen": lambda: _chats(_named("QWEN_HOME", _home() / ".qwen") / "projects"),
}


def recorders(agents: tuple[str, ...]) -> tuple[str, ...]:
    """Whose records calls of these agents may leave; any program may call any agent."""
    wanted = {name for name in agents if name}
    return tuple(name for name in FILES if name in wanted or wanted - FILES.keys())


def size(path: str) -> int:
    """How large a file is; nothing if it is gone."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - of thousands, before every call
    except OSError:
        return 0


def entries(agent: str, path: Path) -> "Iterator[Spent]":
    """The model calls of an agent's file; one that cannot be read is an OSError.

    The module of a format is loaded here, because most calls need none of them.
    """
    read: Callable[[Path], Iterator[Spent]] = import_module(
        f"untildone.adapters.sessions.{agent}"
    ).entries
    return read(path)
