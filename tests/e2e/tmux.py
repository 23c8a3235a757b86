"""A real terminal: a window of 80x24 in tmux, which can be typed into, read and closed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

needs_tmux = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not shutil.which("tmux"),
    reason="tmux is not installed: `make packages` installs it",
)
HISTORY = "5000"
END = re.compile(r"\[(\d+)\]$", re.MULTILINE)


class Window:
    """One window with a shell; each has a server of its own, which ends with it."""

    def __init__(self, folder: Path, env: Mapping[str, str], socket: Path) -> None:
        self._env = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "PS1": "$ ", **env}
        self._socket = socket
        shell = ["sh"]
        settings = ["set-option", "-g", "history-limit", HISTORY, ";"]
        self._tmux(
            *settings, "new-session", "-d", "-x", "80", "-y", "24", "-c", str(folder), *shell
        )

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", os.devnull, *words]
        done = subprocess.run(
            command, env=self._env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def screen(self) -> list[str]:
        """The 24 rows that a person sees."""
        return self._tmux("capture-pane", "-p").splitlines()

    @property
    def text(self) -> str:
        """All that was printed, with rows that the terminal broke in one piece."""
        return self._tmux("capture-pane", "-p", "-J", "-S", f"-{HISTORY}")

    @property
    def title(self) -> str:
        return self._tmux("display", "-p", "#{pane_title}").strip()

    @property
    def program(self) -> int:
        """The process that the shell has started."""
        shell = self._tmux("display", "-p", "#{pane_pid}").strip()
        children = Path(f"/proc/{shell}/task/{shell}/children")
        return int(until(lambda: children.read_text().split(), what="a program")[0])

    def type(self, line: str) -> None:
        self.write(line)
        self.keys("Enter")

    def write(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def keys(self, *names: str) -> None:
        """Press keys by their names."""
        for name in names:
            self._tmux("send-keys", name)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def sees(self, *texts: str) -> list[str]:
        """Wait until all of these are on the screen, and return it."""

        def check() -> bool:
            rows = "\n".join(self.screen)
            return all(text in rows for text in texts)

        self._until(check, repr(texts), PATIENCE)
        return self.screen

    def close(self) -> None:
        """As a person closes the window: all that runs in it gets a SIGHUP."""
        if self._socket.exists():
            self._tmux("kill-server")
            self._socket.unlink(missing_ok=True)

    def wait_text(self, words: str, patience: float = PATIENCE) -> None:
        self._until(lambda: words in self.text, repr(words), patience)

    def ended(self, command: str, patience: float = PATIENCE) -> tuple[int, str]:
        """Type a command and wait for its end: its exit code, and what it printed."""
        self._tmux("send-keys", "-R", ";", "clear-history")
        self.type(f'{command}; echo "[$?]"')
        self._until(lambda: END.search(self.text), f"the end of {command!r}", patience)
        end = END.search(self.text)
        assert end
        return int(end[1]), self.text[: end.start()].partition("\n")[2]

    def run(self, command: str, patience: float = PATIENCE) -> str:
        """The same for a command that must succeed."""
        code, said = self.ended(command, patience)
        assert code == 0, said
        return said

    def _until(self, check: Callable[[], object], what: str, patience: float) -> None:
        try:
            until(check, patience, what)
        except AssertionError as error:
            error.add_note(self.text)
            raise
