"""Every test starts from the same place: an empty home and nothing of the developer's settings."""

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from untildone.adapters.process.wake_pipe import WakePipe

GIT_CONFIG = """\
[user]
    name = Ada Tester
    email = ada@example.invalid
[init]
    defaultBranch = main
"""
MEMORY = Path("/dev/shm")
ROOM = 2 << 30
LONGEST_ID = 200
MOST_PIPES = 100
PIPES: deque[WakePipe] = deque()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-full` starts every command from its file."""
    text = "start the command from its file every time, not as a copy of a loaded process"
    parser.addoption("--installed", action="store_true", help=text)


def pytest_configure() -> None:
    """Work in memory where there is room: what is written is synced often."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    found = os.statvfs(MEMORY)
    if found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC:
        tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Megabytes of text are no name: every worker tells the names of all tests."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{val[:LONGEST_ID]!a}... ({len(val)})"
    return None


@pytest.fixture(autouse=True)
def wake_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command has one for its life; thousands in one process would be too many for `select`.

    They stay open for a while: a thread of a test that is over may still write to one.
    """
    start = WakePipe.__init__

    def noted(pipe: WakePipe) -> None:
        start(pipe)
        PIPES.append(pipe)
        if len(PIPES) > MOST_PIPES:
            oldest = PIPES.popleft()
            os.close(oldest.fd)
            os.close(oldest._write_fd)

    monkeypatch.setattr(WakePipe, "__init__", noted)


@pytest.fixture(autouse=True)
def home() -> Iterator[Path]:
    """An empty home folder, with git's global settings in `.gitconfig`."""
    folder = Path(tempfile.mkdtemp(prefix="home-"))
    (folder / ".gitconfig").write_text(GIT_CONFIG)
    ours = {
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / ".cache"),
        "XDG_CONFIG_HOME": str(folder / ".config"),
        "XDG_DATA_HOME": str(folder / ".local/share"),
        "XDG_STATE_HOME": str(folder / ".local/state"),
        "GIT_CONFIG_GLOBAL": str(folder / ".gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
    }
    theirs = [name for name in os.environ if name.startswith(("CLAUDE", "GIT_", "UNTILDONE_"))]
    with pytest.MonkeyPatch.context() as patch:
        for name in theirs:
            patch.delenv(name)
        for name, value in ours.items():
            patch.setenv(name, value)
        yield folder
    shutil.rmtree(folder, ignore_errors=True)
