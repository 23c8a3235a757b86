"""aider, called without a terminal: its ways."""

from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.agents.program import Grant, Login, Place, Ways
from untildone.adapters.agents.reading.aider_text import AiderReader
from untildone.adapters.agents.reading.own_session import session_name
from untildone.domain.agents.agent import Intent, Invocation, Permissions

# With `--yes-always` it says no to every shell command that the model suggests.
_ARGS = (
    *("--message-file", "/dev/stdin", "--yes-always"),
    # A streamed answer comes without its tokens, and with `--pretty` in colour.
    *("--no-stream", "--no-pretty", "--no-fancy-input"),
    # Nothing leaves the machine; the log is how it says where an answer begins and ends.
    *("--no-analytics", "--analytics-log", "/dev/stdout"),
    *("--no-auto-commits", "--no-dirty-commits", "--no-gitignore"),
    *("--no-check-update", "--no-show-release-notes", "--no-show-model-warnings"),
    *("--no-detect-urls", "--no-suggest-shell-commands"),
)


def _adapt(intent: Intent, call: Invocation) -> Invocation:
    """Keep the conversation out of the worktree; a resumed one is read back from there."""
    history = str(Path(intent.scratch) / f"{session_name(intent)}.md")
    return replace(
        call,
        argv=(
            *call.argv,
            *("--chat-history-file", history, "--input-history-file", "/dev/null"),
            *(("--restore-chat-history",) if intent.resume else ()),
        ),
    )


AIDER = Ways(
    name="aider",
    install="python -m pip install aider-install && aider-install",
    reader=AiderReader,
    args=_ARGS,
    grants={
        Permissions.FULL: Grant(),
        # Linters and tests are commands that it would run by itself.
        Permissions.EDITS: Grant(("--no-auto-lint", "--no-auto-test")),
    },
    adapt=_adapt,
    # Lines are not to be wrapped, and an error is not to open a browser.
    env={"COLUMNS": "9999", "BROWSER": "true"},
    places=(Place("~/.aider"),),
    droppings=("/.aider*",),
    login=Login(
        "set the key of your provider, for example OPENAI_API_KEY",
        ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
        (Place("~/.aider.conf.yml"),),
    ),
)
