"""Every option of the real programs is judged: the loop relies on it, or anybody may give it.

A new version with an option that is not named here fails, so that somebody decides about it.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.agents.install import pins
from tests.agents.rows import every_program
from untildone.adapters.agents.program import KnownProgram
from untildone.domain.agents.agent import Intent
from untildone.domain.errors import UserError
from untildone.wiring.agents import known_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.agents.conftest import MakeScene

pytestmark = [pytest.mark.e2e, pytest.mark.agent]

SUBCOMMANDS = {"codex": "exec", "goose": "run", "opencode": "run", "droid": "exec"}
OPTION = re.compile(r"--?[A-Za-z0-9][\w-]*")
# How a line of a help begins: `-o, --option`, `--yes|--no`, but not an example of a call.
LISTED = re.compile(r"^ {1,8}(--?[A-Za-z0-9][\w-]*(?:(?:, ?|\|| )--?[A-Za-z0-9][\w-]*)*)", re.M)
HARMLESS = {
    "claude": """
        --add-dir --agent --agents --allowed-tools --allowedTools --append-system-prompt
        --autocompact --bare --betas --chrome --debug --debug-file --disable-slash-commands
        --disallowed-tools --disallowedTools --effort --exclude-dynamic-system-prompt-sections
        --fallback-model --file --ide --include-hook-events --max-budget-usd --mcp-config --name
        --no-chrome --plugin-dir --plugin-url --remote-control-session-name-prefix --restricted
        --safe-mode --setting-sources --settings --strict-mcp-config --system-prompt-snapshot
        --tools -d -n
    """,
    "codex": """
        --add-dir --config --cyber-access-program --dangerously-bypass-hook-trust --disable
        --enable --ignore-rules --ignore-user-config --local-provider --oss
        --output-last-message --profile --skip-git-repo-check --strict-config --thread-source
        --trust -c -o -p
    """,
    "goose": """
        --max-tool-repetitions --max-turns --no-profile --with-builtin --with-extension
        --with-streamable-http-extension
    """,
    "gemini": """
        --accept-raw-output-risk --allowed-mcp-server-names --allowed-tools --debug --extensions
        --include-directories --sandbox --skip-trust -d -e -s
    """,
    "pi": """
        --api-key --append-system-prompt --approve --exclude-tools --extension --models --name
        --no-approve --no-builtin-tools --no-context-files --no-extensions --no-prompt-templates
        --no-skills --no-themes --no-tools --offline --prompt-template --provider --skill --theme
        --thinking --tui-mode --use-theme --verbose -a -e -n -na -nbt -nc -ne -np -ns -nt -xt
    """,
    "qwen": """
        --add-dir --allowed-mcp-server-names --allowed-tools --append-system-prompt --auth-type
        --bare --channel --core-tools --debug --disabled-slash-commands --exclude-tools
        --experimental-lsp --extensions --fallback-model --include-directories --insecure
        --max-session-turns --max-subagent-depth --max-tool-calls --max-wall-time --mcp-config
        --openai-api-key --openai-base-url --openai-logging --openai-logging-dir --output-style
        --proxy --restore-ask-user-question --safe-mode --sandbox --sandbox-image --telemetry
        --telemetry-log-prompts --telemetry-otlp-endpoint --telemetry-otlp-protocol
        --telemetry-outfile --telemetry-target -d -e -s
    """,
    "opencode": """
        --agent --log-level --password --port --print-logs --pure --thinking --title --username
        --variant -p -u
    """,
    "aider": """
        --add-gitignore-files --aiderignore --alias --analytics-disable --analytics-posthog-host
        --analytics-posthog-project-api-key --anthropic-api-key --api-key --architect
        --assistant-output-color --attribute-author --attribute-co-authored-by
        --attribute-commit-message-author --attribute-commit-message-committer
        --attribute-committer --auto-accept-architect --auto-lint --auto-test
        --cache-keepalive-pings --cache-prompts --chat-language --check-model-accepts-settings
        --code-theme --commit-language --commit-prompt --completion-menu-bg-color
        --completion-menu-color --completion-menu-current-bg-color
        --completion-menu-current-color --dark-mode --disable-playwright --edit-format --editor
        --editor-edit-format --editor-model --env-file --file --git --git-commit-verify
        --light-mode --line-endings --lint-cmd --llm-history-file --map-multiplier-no-files
        --map-refresh --map-tokens --max-chat-history-tokens --model-metadata-file
        --model-settings-file --multiline --no-add-gitignore-files --no-attribute-author
        --no-attribute-co-authored-by --no-attribute-commit-message-author
        --no-attribute-commit-message-committer --no-attribute-committer
        --no-auto-accept-architect --no-browser --no-cache-prompts
        --no-check-model-accepts-settings --no-copy-paste --no-dry-run --no-git
        --no-git-commit-verify --no-gui --no-multiline --no-notifications --no-verify-ssl
        --no-watch-files --notifications --notifications-command --openai-api-base
        --openai-api-deployment-id --openai-api-key --openai-api-type --openai-api-version
        --openai-organization-id --read --reasoning-effort --set-env --show-diffs
        --skip-sanity-check-repo --subtree-only --test-cmd --thinking-tokens --timeout
        --tool-error-color --tool-output-color --tool-warning-color --user-input-color
        --verify-ssl --vim --voice-format --voice-input-device --voice-language --weak-model -c
    """,
    "copilot": """
        --add-dir --add-github-mcp-tool --add-github-mcp-toolset --additional-mcp-config --agent
        --allow-all-mcp-server-instructions --allow-all-paths --allow-all-urls --allow-tool
        --allow-url --attachment --auto-tier --available-tools --banner --bash-env --context
        --deny-tool --deny-url --disable-builtin-mcps --disable-mcp-server --disallow-temp-dir
        --dynamic-retrieval --enable-all-github-mcp-tools --enable-mcp-server --enable-memory
        --excluded-tools --experimental --extension-sdk-path --fleet --log-dir --log-level
        --max-ai-credits --max-autopilot-continues --mcp-github-auth --mouse --no-bash-env
        --no-color --no-custom-instructions --no-eager-powershell-resolution --no-experimental
        --no-mouse --no-remote --no-remote-export --plain-diff --plugin-dir --reasoning-effort
        --screen-reader --secret-env-vars --trust-folder --usage-output-file
    """,
    "droid": """
        --add-tools --append-system-prompt --append-system-prompt-file --disable-builtin-skills
        --log-group-id --only-tools --reasoning-effort --spec-model --spec-reasoning-effort
        --tag --validator-model --validator-reasoning-effort --worker-model
        --worker-reasoning-effort -r
    """,
    "kimi": """
        --add-dir --agent --agent-file --skills-dir
    """,
    "cline": """
        --compaction --config --data-dir --hooks-dir --key --provider --retries --thinking
        --timeout --verbose -P -k -t -v
    """,
    "vibe": """
        --add-dir --disabled-tools --enabled-tools --max-price --max-tokens --max-turns
        --time-limit
    """,
}


def options(name: str) -> set[str]:
    """The options that its help lists."""
    pin = pins()[name]
    call = [str(pin.path), *SUBCOMMANDS.get(name, "").split(), "--help"]
    path = f"{pin.folder / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        call, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    listed = LISTED.findall(done.stdout + done.stderr)
    return {option for found in listed for option in OPTION.findall(found)}


def allowed(name: str, words: set[str]) -> Iterator[str]:
    """Those of the words that a person's arguments may be, where everything is permitted."""
    intent = Intent("p", "/w", "/s")
    for word in words:
        try:
            KnownProgram(known_program(name).spec, extra_args=(word,)).invocation(intent)
        except UserError:
            continue
        yield word


@every_program
def test_every_option_of_its_help_is_judged(make_scene: MakeScene, name: str) -> None:
    make_scene(name)
    found = options(name)
    assert found >= {"--help"}
    assert sorted(allowed(name, found)) == sorted(HARMLESS[name].split())
