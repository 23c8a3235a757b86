"""How each real program is pointed at the scripted model: environment and settings, as data.

Only what a user could set too. `{url}` stands for the address of the model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.modelserver.play import IN_STREAM
from tests.modelserver.script import Day

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "sk-scripted"
LIMITS = (Day.RATE_LIMIT, Day.USAGE_LIMIT, Day.QUOTA)
LOADS = (Day.OVERLOADED, Day.SERVER_ERROR, Day.UNAVAILABLE)


@dataclass(frozen=True)
class Program:
    """One row: the agent's name, its environment, its settings below HOME, its model.

    `login_env` is the environment for a subscription's token instead of a key. `tries` says how
    many requests it makes on a bad day before it gives up, where that is not one, and `sits_out`
    on which days it tries again for minutes. A reset of a usage limit is told so exactly, or (None)
    not at all. `silence_s` is longer than it takes to come to its first word. `turns` are the
    requests for one story. Without `tells_cache` tokens out of a cache are input like any other.
    """

    name: str
    env: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    login_env: Mapping[str, str] | None = None
    tries: Mapping[Day, int] = field(default_factory=dict)
    sits_out: tuple[Day, ...] = ()
    tells_reset_within_s: float | None = None
    silence_s: float = 7
    turns: int = 2
    tells_cache: bool = True

    def environment(self, url: str, *, login: bool = False) -> dict[str, str | None]:
        """The environment for a model at this address; `login` for a subscription's token."""
        chosen = self.login_env if login and self.login_env is not None else self.env
        return {name: value.replace("{url}", url) for name, value in chosen.items()}

    def settings(self, url: str) -> dict[str, str]:
        """Settings files by their path below HOME."""
        return {path: text.replace("{url}", url) for path, text in self.files.items()}


CLAUDE = {"ANTHROPIC_BASE_URL": "{url}", "CLAUDE_CODE_MAX_RETRIES": "0"}
CODEX = """\
model = "gpt-5-codex"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
plugins = false

[model_providers.scripted]
name = "Scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
GEMINI = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"enableAutoUpdate": False, "maxAttempts": 1},
    "privacy": {"usageStatisticsEnabled": False},
}
QWEN = {
    "security": {"auth": {"selectedType": "openai"}},
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
}
PI_MODELS = {
    "providers": {
        "scripted": {
            "baseUrl": "{url}/v1",
            "api": "openai-completions",
            "apiKey": KEY,
            "models": [
                {
                    "id": "scripted-1",
                    "name": "Scripted",
                    "reasoning": False,
                    "input": ["text"],
                    "cost": {"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 1},
                    "contextWindow": 128000,
                    "maxTokens": 8000,
                }
            ],
        }
    }
}
PI_SETTINGS = {
    "defaultProvider": "scripted",
    "defaultModel": "scripted-1",
    "retry": {"maxRetries": 0, "provider": {"maxRetries": 0}},
}
OPENCODE = {
    "autoupdate": False,
    "share": "disabled",
    "model": "scripted/scripted-1",
    "provider": {
        "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{url}/v1", "apiKey": KEY},
            "models": {
                "scripted-1": {
                    "limit": {"context": 128000, "output": 8000},
                    "cost": {"input": 1, "output": 2, "cache_read": 0.5, "cache_write": 1},
                }
            },
        }
    },
}
DROID = {
    "customModels": [
        {
            "model": "scripted-1",
            "displayName": "Scripted",
            "baseUrl": "{url}/v1",
            "apiKey": KEY,
            "provider": "generic-chat-completion-api",
            "maxOutputTokens": 8000,
        }
    ]
}
KIMI = """\
default_model = "scripted"

[providers.scripted]
type = "openai"
base_url = "{url}/v1"
api_key = "sk-scripted"

[models.scripted]
provider = "scripted"
model = "scripted-1"
max_context_size = 128000
"""
CLINE = {
    "version": 1,
    "lastUsedProvider": "openai-compatible",
    "providers": {
        "openai-compatible": {
            "settings": {
                "provider": "openai-compatible",
                "apiKey": KEY,
                "model": "scripted-1",
                "baseUrl": "{url}/v1",
            },
            "updatedAt": "2026-11-18T00:00:00.000Z",
            "tokenSource": "manual",
        }
    },
}
VIBE = """\
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
api_retry_max_elapsed_time = 0.0

[[providers]]
name = "scripted"
api_base = "{url}/v1"
api_key_env_var = "SCRIPTED_KEY"
api_style = "openai"
backend = "generic"

[[models]]
name = "scripted-1"
provider = "scripted"
alias = "scripted"
input_price = 1.0
output_price = 2.0
"""

PROGRAMS = {
    program.name: program
    for program in (
        Program(
            "claude",
            env={**CLAUDE, "ANTHROPIC_API_KEY": KEY},
            login_env={**CLAUDE, "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-scripted"},
            tries={Day.CUT: 2, Day.EARLY_END: 2, Day.MALFORMED: 2, Day.REFUSAL: 2},
            tells_reset_within_s=0,
        ),
        Program(
            "codex",
            env={"SCRIPTED_KEY": KEY},
            files={".codex/config.toml": CODEX},
            tells_reset_within_s=60,
        ),
        Program(
            "goose",
            env={
                "OPENAI_HOST": "{url}",
                "OPENAI_API_KEY": KEY,
                "GOOSE_PROVIDER": "openai",
                "GOOSE_MODEL": "gpt-4o",
                "GOOSE_DISABLE_KEYRING": "1",
                "GOOSE_TELEMETRY_OFF": "1",
            },
            tries=dict.fromkeys((*LIMITS, *LOADS), 4),
        ),
        Program(
            "gemini",
            env={
                "GOOGLE_GEMINI_BASE_URL": "{url}",
                "GEMINI_API_KEY": KEY,
                "GEMINI_CLI_NO_RELAUNCH": "true",
            },
            files={".gemini/settings.json": json.dumps(GEMINI)},
            model="gemini-2.5-pro",
            silence_s=12,
        ),
        Program(
            "pi",
            env={"PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
            files={
                ".pi/agent/models.json": json.dumps(PI_MODELS),
                ".pi/agent/settings.json": json.dumps(PI_SETTINGS),
            },
            silence_s=12,
        ),
        Program(
            "qwen",
            env={
                "OPENAI_BASE_URL": "{url}/v1",
                "OPENAI_API_KEY": KEY,
                "OPENAI_MODEL": "scripted-1",
                "QWEN_CODE_NO_RELAUNCH": "true",
            },
            files={".qwen/settings.json": json.dumps(QWEN)},
            tries={Day.CUT: 4},
            sits_out=(*LIMITS, *LOADS),
            silence_s=12,
        ),
        Program(
            "opencode",
            env={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
            files={".config/opencode/opencode.json": json.dumps(OPENCODE)},
            tries={Day.RATE_LIMIT: 6},
            sits_out=(Day.USAGE_LIMIT, Day.QUOTA, *LOADS, *IN_STREAM, Day.CONTEXT),
            silence_s=40,
        ),
        Program(
            "aider",
            env={
                "OPENAI_API_BASE": "{url}/v1",
                "OPENAI_API_KEY": KEY,
                "AIDER_MODEL": "openai/scripted-1",
                "AIDER_EDIT_FORMAT": "whole",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            },
            sits_out=(*LIMITS, *LOADS, *IN_STREAM),
            silence_s=30,
            turns=1,
            tells_cache=False,
        ),
        Program(
            "copilot",
            env={
                "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
                "COPILOT_PROVIDER_API_KEY": KEY,
                "COPILOT_MODEL": "scripted-1",
                "COPILOT_OFFLINE": "true",
            },
            tries={
                **dict.fromkeys((Day.RATE_LIMIT, *LOADS, *IN_STREAM), 6),
                Day.BAD_KEY: 3,
            },
            sits_out=(Day.USAGE_LIMIT, Day.QUOTA),
        ),
        Program(
            "droid",
            env={"FACTORY_API_KEY": "fk-scripted"},
            files={".factory/settings.json": json.dumps(DROID)},
            model="custom:scripted-1",
            tries={Day.CONTEXT: 2, Day.REFUSAL: 2},
            sits_out=(*LIMITS, *LOADS, Day.CUT, Day.MALFORMED),
            silence_s=15,
        ),
        Program(
            "kimi",
            env={},
            files={".kimi-code/config.toml": KIMI},
            tries={Day.RATE_LIMIT: 10, Day.CONTEXT: 4},
            sits_out=(Day.USAGE_LIMIT, *LOADS, Day.CUT, Day.MALFORMED),
            silence_s=20,
        ),
        Program(
            "cline",
            env={},
            files={".cline/data/settings/providers.json": json.dumps(CLINE)},
            tries={**dict.fromkeys((*LIMITS, *LOADS), 6), Day.CUT: 5},
            silence_s=25,
        ),
        Program(
            "vibe",
            env={"SCRIPTED_KEY": KEY},
            files={".vibe/config.toml": VIBE},
            silence_s=20,
        ),
    )
}
