"""Factory's droid, called without a terminal: its command line and its stream-json."""

from collections.abc import Mapping

from untildone.adapters.agents.program import (
    ENDS,
    GRANTS,
    MODEL,
    OUTPUT,
    PLACE,
    PROMPT,
    SESSION,
    AgentSpec,
    Grant,
    HomePath,
    Login,
)
from untildone.adapters.agents.reading.error_kinds import classify_error
from untildone.adapters.agents.reading.event_reader import EventReader, error_text, tool
from untildone.adapters.agents.reading.json_lines import count, string, table
from untildone.domain.agents.agent import Intent, Notice, Permissions, Reading, Usage


class DroidReader(EventReader):
    """Reads whole messages; only a `completion` without an error before it is a success.

    The prompt is echoed as a message of the user. Of two errors the first one says why.
    """

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._model = ""
        self._error = ""
        self._completion: Mapping[str, object] | None = None

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        match event.get("type"):
            case "system":
                self._model = string(event.get("model"))
            case "message" if event.get("role") == "assistant":
                self._go_on()
                return self._add_text(string(event.get("id")), string(event.get("text")))
            case "tool_call":
                self._go_on()
                return [tool(event.get("toolName"), event.get("parameters"))]
            case "error":
                self._error = self._error or error_text(string(event.get("message")))
                # The loop's error is followed by that of the program, which is the last word.
                self.over = event.get("source") == "cli"
            case "completion":
                self._completion, self.over = event, True
            case _:
                pass
        return []

    def _go_on(self) -> None:
        self._error, self._completion, self.over = "", None, False

    def _reading(self, stderr_tail: bytes) -> Reading:
        done = self._completion is not None
        error = self._error or ("" if done else self._cut_short(stderr_tail))
        return Reading(
            promise=self._messages.promise(),
            error=error,
            usage=_usage(table(self._completion), self._model),
            trouble=classify_error(self._error, None, self._intent.asked) if self._error else None,
        )


def _usage(completion: Mapping[str, object], model: str) -> Usage | None:
    """This call's tokens, input without the cache; zeros are a service that told none."""
    usage = table(completion.get("usage"))
    used = Usage(
        input_tokens=count(usage.get("input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        cache_read_tokens=count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=count(usage.get("cache_creation_input_tokens")),
        model=model,
    )
    return used if used.total else None


DROID = AgentSpec(
    name="droid",
    install="npm install -g droid",
    reader=DroidReader,
    args=("exec", "-o", "stream-json"),
    grants={
        Permissions.FULL: Grant(("--skip-permissions-unsafe",)),
        # What asks ends the whole call, so the shell is not offered at all.
        Permissions.EDITS: Grant(
            ("--auto", "low", "--remove-tools", "Execute"),
            holds="Its model is not offered a shell, but may write files anywhere except in "
            "folders of the system.",
        ),
    },
    model=("-m",),
    # To go on with a conversation it asks the vendor's service, which no test can.
    env={"FACTORY_DROID_AUTO_UPDATE_ENABLED": "false"},
    unset=("FACTORY_DISABLE_SETTINGS_PERSISTENCE", "FACTORY_EXEC_TARGET_AUTONOMY"),
    writable=(HomePath("~/.factory", "FACTORY_HOME_OVERRIDE", ".factory"),),
    login=Login(
        "start `droid` and type /login, or set FACTORY_API_KEY",
        ("FACTORY_API_KEY",),
        (
            HomePath("~/.factory/auth.v2.file", "FACTORY_HOME_OVERRIDE", ".factory/auth.v2.file"),
            HomePath(
                "~/.factory/auth.v2.keyring", "FACTORY_HOME_OVERRIDE", ".factory/auth.v2.keyring"
            ),
        ),
        (
            (
                HomePath(
                    "~/.factory/settings.json", "FACTORY_HOME_OVERRIDE", ".factory/settings.json"
                ),
                "customModels",
            ),
        ),
    ),
    reserved={
        "--model": MODEL,
        **dict.fromkeys(("--output-format", "--input-format", "--mission"), OUTPUT),
        **dict.fromkeys(("-f", "--file"), PROMPT),
        **dict.fromkeys(("--cwd", "-w", "--worktree", "--worktree-dir"), PLACE),
        **dict.fromkeys(("--auto", "--skip-permissions-unsafe", "--use-spec"), GRANTS),
        **dict.fromkeys(("-s", "--session-id", "--fork"), SESSION),
        **dict.fromkeys(("--list-tools", "-h", "--help", "-v", "--version"), ENDS),
    },
    widening=("--add-tools", "--only-tools"),
)
