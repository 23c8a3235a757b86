"""Claude Code, called without a terminal: its command line and environment."""

import os
import shutil

from untildone.adapters.agents.stream_json import StreamReader
from untildone.domain.agent import Intent, Invocation
from untildone.domain.errors import AgentMissing

_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}
# Set for the children of a Claude Code session: with them the agent takes itself for a part of it.
_NESTING = (
    "CLAUDECODE",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PROJECT_DIR",
)


class Claude:
    """The `claude` program, with all permissions and the prompt on its standard input."""

    def __init__(self, program: str = "claude", extra_args: tuple[str, ...] = ()) -> None:
        self._program = program
        self._extra_args = extra_args

    @property
    def name(self) -> str:
        """The name that `--agent` takes."""
        return "claude"

    def check(self) -> None:
        """Raise AgentMissing if the program cannot be started."""
        if shutil.which(self._program) is None:
            raise AgentMissing(
                f"The agent's program was not found: {self._program}",
                hint="Install it with `npm install -g @anthropic-ai/claude-code`, "
                "or name another program with `--agent-cmd`.",
            )

    def invocation(self, intent: Intent) -> Invocation:
        """The program call for this intent."""
        model = ("--model", intent.model) if intent.model else ()
        env = dict(_QUIET)
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            # As root it refuses to skip permissions unless exactly this is set.
            env["IS_SANDBOX"] = "1"
        return Invocation(
            argv=(
                self._program,
                *("-p", "--output-format", "stream-json", "--verbose"),
                "--dangerously-skip-permissions",
                *model,
                *self._extra_args,
            ),
            stdin=intent.prompt.encode("utf-8", "replace"),
            env=env,
            unset=_NESTING,
            writable=(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude", "~/.claude.json"),
        )

    def reader(self, intent: Intent) -> StreamReader:
        """A fresh reader for one call."""
        return StreamReader(intent.asked)
