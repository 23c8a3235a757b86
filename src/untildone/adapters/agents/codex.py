"""Codex, called without a terminal: its command line and its events."""

from collections.abc import Mapping

from msgspec.structs import replace

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
from untildone.adapters.agents.reading.conversation import call_share, totals_so_far
from untildone.adapters.agents.reading.error_kinds import classify_error, service_error
from untildone.adapters.agents.reading.event_reader import EventReader, error_text, tool
from untildone.adapters.agents.reading.json_lines import count, short, string, table, tables
from untildone.domain.agents.agent import (
    Intent,
    Notice,
    Permissions,
    Reading,
    Session,
    Trouble,
    Usage,
)

_DENIED = 20


class CodexReader(EventReader):
    """Reads the items of one turn; only a completed turn is a success.

    A line called `error` announces a retry or repeats what the failed turn says; an item of this
    type is a warning.
    """

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._thread_id = ""
        self._open = ""
        self._complaint = ""
        self._completed = False
        self._failure: str | None = None
        self._totals: Usage | None = None
        self._denied: list[str] = []

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        match event.get("type"):
            case "thread.started":
                self._thread_id = string(event.get("thread_id"))
            case "item.started" | "item.updated" | "item.completed":
                return self._item(table(event.get("item")), done=event["type"] == "item.completed")
            case "error":
                self._complaint = string(event.get("message"))
            case "turn.completed":
                self._completed = self.over = True
                self._totals = _totals(event.get("usage"), self._intent.model)
            case "turn.failed":
                self._failure = string(table(event.get("error")).get("message")) or self._complaint
                self.over = True
            case _:
                pass
        return []

    def _item(self, item: Mapping[str, object], *, done: bool) -> list[Notice]:
        kind, item_id = string(item.get("type")), string(item.get("id"))
        self.over = False
        if kind == "error":
            return []
        self._complaint = ""
        if kind == "agent_message":
            return self._add_text(item_id, string(item.get("text"))) if done else []
        if kind in ("reasoning", "todo_list"):
            return []
        if item.get("status") == "declined":
            self._denied = [*self._denied, f"{kind} {_what(item)}".strip()][:_DENIED]
        if self._open == item_id:
            return []
        self._open = item_id
        self._messages.add("", "")
        call = tool(string(item.get("tool")) or kind, {"command": _what(item)})
        # Of an edit only the files are told: many edits of one file look the same.
        return [call if kind == "command_execution" else replace(call, mark="")]

    def _reading(self, stderr_tail: bytes) -> Reading:
        error, trouble = self._outcome(stderr_tail)
        resumed = self._intent.resume
        session = (
            Session(self._thread_id, totals_so_far(self._totals, resumed))
            if self._thread_id
            else None
        )
        return Reading(
            promise=self._messages.promise(),
            error=error,
            usage=call_share(self._totals, resumed) if self._totals else None,
            trouble=trouble,
            session=session,
            denied=tuple(self._denied),
        )

    def _outcome(self, stderr_tail: bytes) -> tuple[str, Trouble | None]:
        if self._failure is None and self._completed:
            return "", None
        said, status = service_error(self._complaint if self._failure is None else self._failure)
        trouble = classify_error(said, status, self._intent.asked) if said else None
        if self._failure is None:
            return self._cut_short(stderr_tail), trouble
        return error_text(said), trouble


def _what(item: Mapping[str, object]) -> str:
    """What a tool was called with: a command, a query, the files of a patch."""
    paths = ", ".join(
        string(change.get("path")) for change in tables(item.get("changes"))[:_DENIED]
    )
    return short(item.get("command")) or short(item.get("query")) or short(paths)


def _totals(usage: object, model: str) -> Usage | None:
    """What is counted for the whole thread; its input has the cached tokens in it."""
    if not isinstance(usage, dict):
        return None
    read = count(usage.get("cached_input_tokens"))
    written = count(usage.get("cache_write_input_tokens"))
    return Usage(
        input_tokens=max(count(usage.get("input_tokens")) - read - written, 0),
        output_tokens=count(usage.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count(usage.get("reasoning_output_tokens")),
        model=model,
    )


def _settings(*names: str) -> tuple[str, ...]:
    """Settings as they are given on the command line."""
    return tuple(f"{option} {name}" for option in ("-c", "--config") for name in names)


CODEX = AgentSpec(
    name="codex",
    install="npm install -g @openai/codex",
    reader=CodexReader,
    args=(
        *("exec", "--json", "--disable", "plugins"),
        *("-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false"),
    ),
    grants={
        Permissions.FULL: Grant(("--dangerously-bypass-approvals-and-sandbox",)),
        Permissions.EDITS: Grant(
            ("-s", "workspace-write"),
            holds="It runs any command, inside a sandbox of its own: no network, and no writing "
            "outside of the worktree and the folders of temporary files.",
        ),
    },
    model=("-m",),
    resume=("resume",),
    last=("-",),
    # Set for the commands that Codex runs.
    unset=(
        "CODEX_CI",
        "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_THREAD_ID",
        "CODEX_TOOL_CALL_ID",
    ),
    writable=(HomePath("~/.codex", "CODEX_HOME"),),
    login=Login(
        "`codex login`, or set CODEX_API_KEY",
        ("CODEX_API_KEY",),
        (HomePath("~/.codex/auth.json", "CODEX_HOME", "auth.json"),),
        ((HomePath("~/.codex/config.toml", "CODEX_HOME", "config.toml"), "model_provider"),),
    ),
    repeatable=("-c", "--disable"),
    reserved={
        **dict.fromkeys(("--sandbox", "--approve-for-me", "--full-auto", "--yolo"), GRANTS),
        **dict.fromkeys(_settings("sandbox_mode", "approval_policy", "permissions"), GRANTS),
        **dict.fromkeys(("--model", *_settings("model=")), MODEL),
        **dict.fromkeys(("--color", "--output-schema"), OUTPUT),
        # It takes every word after it, that of our input too.
        **dict.fromkeys(("-i", "--image"), PROMPT),
        **dict.fromkeys(("-C", "--cd", "--worktree"), PLACE),
        "--ephemeral": SESSION,
        **dict.fromkeys(("-h", "--help", "-V", "--version"), ENDS),
    },
    widening=(
        *("--add-dir", *_settings("sandbox_workspace_write"), "-p", "--profile"),
        *("--trust", "--dangerously-bypass-hook-trust", "--ignore-rules"),
    ),
)
