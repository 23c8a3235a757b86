"""Claude Code, called without a terminal."""

from untildone.adapters.agents.program import (
    ENDS,
    GRANTS,
    OUTPUT,
    PLACE,
    PROMPT,
    SESSION,
    AgentSpec,
    Grant,
    HomePath,
    Login,
)
from untildone.adapters.agents.reading.stream_json import StreamReader
from untildone.domain.agents.agent import Permissions

_SETTINGS = HomePath("~/.claude/settings.json", "CLAUDE_CONFIG_DIR", "settings.json")

CLAUDE = AgentSpec(
    name="claude",
    install="npm install -g @anthropic-ai/claude-code",
    reader=StreamReader,
    args=(
        *("-p", "--output-format", "stream-json", "--verbose"),
        # Without it nothing is printed during a long answer, and the agent seems to hang.
        "--include-partial-messages",
    ),
    grants={
        Permissions.FULL: Grant(("--dangerously-skip-permissions",)),
        Permissions.EDITS: Grant(
            ("--permission-mode", "acceptEdits"),
            holds="It edits files of the worktree and runs the commands there that only move files "
            "about (`mkdir`, `touch`, `rm`, `mv`, `cp`, `sed`); other commands are denied.",
        ),
    },
    resume=("--resume",),
    env={
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    },
    # As root it refuses to skip permissions unless exactly this is set.
    root_env={"IS_SANDBOX": "1"},
    # Set for the children of a Claude Code session: with them it takes itself for a part of it.
    unset=(
        "CLAUDECODE",
        "CLAUDE_AGENT_SDK_VERSION",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_ENV_FILE",
        "CLAUDE_PROJECT_DIR",
    ),
    writable=(HomePath("~/.claude", "CLAUDE_CONFIG_DIR"), HomePath("~/.claude.json")),
    login=Login(
        "start `claude` and type /login, or set ANTHROPIC_API_KEY",
        (
            *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
            *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
        ),
        (HomePath("~/.claude/.credentials.json", "CLAUDE_CONFIG_DIR", ".credentials.json"),),
        tuple((_SETTINGS, word) for word in ("apiKeyHelper", "CLAUDE_CODE_USE_", "ANTHROPIC_A")),
    ),
    tells_cost=True,
    reserved={
        **dict.fromkeys(("--print", "--input-format", "--json-schema", "--brief"), OUTPUT),
        **dict.fromkeys(("--forward-subagent-text", "--prompt-suggestions"), OUTPUT),
        "--ax-screen-reader": OUTPUT,
        **dict.fromkeys(("--replay-user-messages", "--system-prompt"), PROMPT),
        "--system-prompt-file": PROMPT,
        **dict.fromkeys(("-r", "-c", "--continue", "--session-id", "--fork-session"), SESSION),
        **dict.fromkeys(("--from-pr", "--teleport", "--no-session-persistence"), SESSION),
        **dict.fromkeys(("-w", "--worktree", "--bg", "--background", "--cloud", "--tmux"), PLACE),
        **dict.fromkeys(("--desktop", "--environment", "--remote-control"), PLACE),
        **dict.fromkeys(("-h", "--help", "-v", "--version"), ENDS),
        "--allow-dangerously-skip-permissions": GRANTS,
        "--permission-prompts": GRANTS,
        "--permission-prompt-tool": GRANTS,
    },
    widening=(
        *("--add-dir", "--allowedTools", "--allowed-tools", "--settings", "--tools", "--chrome"),
        # These may bring hooks, or permissions of their own.
        *("--agent", "--agents", "--plugin-dir", "--plugin-url"),
    ),
)
