"""What makes an agent program start our server: its entry in the program's settings."""

import json
import os
import shutil
import sys
import tomllib
from pathlib import Path

from msgspec import Struct

from untildone.adapters.records.durable import replace_file
from untildone.domain.errors import UserError
from untildone.plain_files import read_text
from untildone.wiring.repository import here

CLIENTS = ("claude", "codex")
NAME = "untildone"


class Entry(Struct, frozen=True):
    """What a client's settings are to hold, what they hold by now, and the whole file with it."""

    client: str
    path: Path
    text: str
    there: str
    whole: str


def entries(
    clients: tuple[str, ...], repositories: tuple[str, ...], *, control: bool
) -> list[Entry]:
    """For each client that is named, or for all."""
    words = ["mcp", *(["--control"] if control else [])]
    words += [os.fspath(Path(name).absolute()) for name in repositories]
    makers = {"claude": _claude, "codex": _codex}
    return [makers[client](words) for client in clients or CLIENTS]


def write(entry: Entry) -> None:
    entry.path.parent.mkdir(parents=True, exist_ok=True)
    path = entry.path.resolve()  # a link in somebody's collection of settings stays one
    replace_file(path, [entry.whole.encode()], path.with_name(f"{path.name}.draft"))


def _program() -> str:
    """As it is called on PATH; where it is not, this very one."""
    return NAME if shutil.which(NAME) else os.path.abspath(sys.argv[0])  # noqa: PTH100 - no link is followed


def _claude(words: list[str]) -> Entry:
    """In the repository, for everybody who works on it."""
    path = here().place.top / ".mcp.json"
    own = {"type": "stdio", "command": _program(), "args": words}
    try:
        whole = json.loads(read_text(path)) if path.exists() else {}
        servers = whole.setdefault("mcpServers", {})
        there = servers.get(NAME)
        servers.setdefault(NAME, own)
    except (ValueError, AttributeError) as error:
        raise _unreadable(path, error) from error
    told = json.dumps({"mcpServers": {NAME: own}}, indent=2)
    now = json.dumps({"mcpServers": {NAME: there}}, indent=2) if there else ""
    return Entry("claude", path, told, now, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")


def _codex(words: list[str]) -> Entry:
    """In the person's own settings, as text: their comments stay."""
    path = Path(os.environ.get("CODEX_HOME") or "~/.codex").expanduser() / "config.toml"
    listed = ", ".join(map(json.dumps, words))
    text = f"[mcp_servers.{NAME}]\ncommand = {json.dumps(_program())}\nargs = [{listed}]"
    try:
        before = read_text(path) if path.exists() else ""
        there = tomllib.loads(before).get("mcp_servers", {}).get(NAME)
    except (ValueError, AttributeError) as error:
        raise _unreadable(path, error) from error
    same = there == tomllib.loads(text)["mcp_servers"][NAME]
    now = text if same else json.dumps(there) if there else ""
    gap = "\n" * (2 - len(before[-2:]) + len(before[-2:].rstrip("\n"))) if before else ""
    return Entry("codex", path, text, now, f"{before}{gap}{text}\n")


def _unreadable(path: Path, error: Exception) -> UserError:
    return UserError(
        f"The settings cannot be read: {path}: {error}",
        state="Nothing was changed.",
        hint=f"Mend {path}, then try again.",
    )
