"""Where the agents of this machine keep their sessions, and the model calls in such a file."""

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from untildone.domain.costs.call_prices import Spent


# Text, not paths: these are looked at before and after every call.
def _home() -> str:
    return os.environ.get("HOME") or "/nonexistent"


def _named(variable: str, default: str) -> str:
    return os.environ.get(variable) or default


def _below(*folders: str) -> Iterator[str]:
    """All session files below, links to folders not followed."""
    open_folders = [*folders]
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


def _chats(folder: str) -> Iterator[str]:
    return (path for path in _below(folder) if "/chats/" in path)


def _data(name: str) -> Iterator[str]:
    path = f"{_named('XDG_DATA_HOME', f'{_home()}/.local/share')}/{name}"
    if os.path.isfile(path):  # noqa: PTH113 - as above
        yield path


def _claude() -> Iterator[str]:
    if given := os.environ.get("CLAUDE_CONFIG_DIR"):
        return _below(f"{given}/projects")
    config = _named("XDG_CONFIG_HOME", f"{_home()}/.config")
    return _below(f"{config}/claude/projects", f"{_home()}/.claude/projects")


def _codex() -> Iterator[str]:
    root = _named("CODEX_HOME", f"{_home()}/.codex")
    return _below(f"{root}/sessions", f"{root}/archived_sessions")


FILES: dict[str, Callable[[], Iterator[str]]] = {
    "claude": _claude,
    "codex": _codex,
    "copilot": lambda: _below(f"{_named('COPILOT_HOME', f'{_home()}/.copilot')}/session-state"),
    "gemini": lambda: _chats(f"{_named('GEMINI_CLI_HOME', _home())}/.gemini/tmp"),
    "goose": lambda: _data("goose/sessions/sessions.db"),
    "kimi": lambda: _below(f"{_named('KIMI_CODE_HOME', f'{_home()}/.kimi-code')}/sessions"),
    "opencode": lambda: _data("opencode/opencode.db"),
    "pi": lambda: _below(f"{_named('PI_CODING_AGENT_DIR', f'{_home()}/.pi/agent')}/sessions"),
    "qwen": lambda: _chats(f"{_named('QWEN_HOME', f'{_home()}/.qwen')}/projects"),
    "vibe": lambda: _below(f"{_named('VIBE_HOME', f'{_home()}/.vibe')}/logs/session/unified"),
}


def recorders(agent: str) -> tuple[str, ...]:
    """Whose records a call of this agent may leave; any program may call any agent."""
    return (agent,) if agent in FILES else tuple(FILES)


def size(path: str) -> int:
    """How large a file is; nothing if it is gone."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - as above
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
