"""The built-in scripted agent: a demo, a test double and a way to show a bug."""

import sys
from pathlib import Path

from untildone.adapters.agents.reading.stream_json import StreamReader
from untildone.domain.agents.agent import Intent, Invocation
from untildone.domain.errors import AgentMissing

_PLAYER = "untildone.adapters.agents.scripted_player"


class ScriptedProgram:
    """A child process that plays a TOML script and speaks Claude's stream-json."""

    def __init__(self, script_path: str) -> None:
        self._script = Path(script_path).expanduser().absolute()

    @property
    def name(self) -> str:
        return "scripted"

    @property
    def prints_before_model(self) -> bool:
        return True

    def check(self) -> None:
        if not self._script.is_file():
            raise AgentMissing(
                f"The scripted agent's script was not found: {self._script}",
                hint="`docs/scripted-agent.md` shows how to write one.",
            )

    def invocation(self, intent: Intent) -> Invocation:
        """The player; `-P` so that no file of the worktree can stand in for a module."""
        return Invocation(
            argv=(sys.executable, "-P", "-m", _PLAYER, str(self._script)),
            stdin=intent.prompt.encode("utf-8", "replace"),
            env={
                "UNTILDONE_STORY_ID": intent.story_id,
                "UNTILDONE_ATTEMPT": str(intent.attempt),
            },
        )

    def reader(self, intent: Intent) -> StreamReader:
        return StreamReader(intent)
