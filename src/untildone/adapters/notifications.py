"""Messages to somebody who is not there: a command, a webhook, a service, the terminal."""

import json
import os
import threading
from collections.abc import Callable, Mapping
from email.header import Header
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import to_builtins

from untildone import __version__
from untildone.adapters.git.environment import clean_environment
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.domain.agents.agent import Ending
from untildone.domain.errors import UserError
from untildone.domain.reporting.notification import Address, Notification
from untildone.domain.secrets import redactor

LIMIT_S = 10.0
DISCORD_LIMIT = 2000
Event = Mapping[str, object]
Call = Callable[[], str]


class Delivery:
    """One address. What goes wrong is said in words that hold nothing of its secrets."""

    def __init__(self, address: Address, processes: Processes, top: Path) -> None:
        self._address = address
        self._processes = processes.beside(WakePipe().fd, "")
        self._top = top
        if address.kind == "apprise":
            _apprise()

    def send(self, message: Notification, event: Event) -> str:
        """Returns why it did not arrive; empty if it did. Takes no longer than the limit."""
        found: list[str] = []
        call = self._call(message, event)
        # Whatever hangs, a name server included: nobody waits for it any longer than this.
        thread = threading.Thread(target=lambda: found.append(_said(call)), daemon=True)
        thread.start()
        thread.join(LIMIT_S)
        return found[0] if found else f"no answer in {LIMIT_S:.0f} s"

    def _call(self, message: Notification, event: Event) -> Call:
        url = self._address.rest
        match self._address.kind:
            case "cmd":
                return lambda: self._run(message, event)
            case "ntfy":
                title = Header(message.title, "utf-8").encode(linesep="")
                headers = {"Title": message.title if message.title.isascii() else title}
                headers |= {"Click": message.url} if message.url else {}
                return lambda: _post(url, (message.text or message.title).encode(), headers)
            case "slack":
                return lambda: _post_json(url, {"text": _for_slack(message)})
            case "discord":
                text = f"**{message.title}**\n{message.text}"[:DISCORD_LIMIT]
                data = {"content": text, "allowed_mentions": {"parse": []}}
                return lambda: _post_json(url, data)
            case "apprise":
                return lambda: _by_apprise(url, message)
            case "terminal":
                return lambda: _to_terminal(message)
            case _:
                return lambda: _post_json(url, to_builtins(message))

    def _run(self, message: Notification, event: Event) -> str:
        told = {**event, **to_builtins(message)}
        env = {**clean_environment(os.environ), "UNTILDONE_EVENT": message.event}
        argv = ("/bin/sh", "-c", self._address.rest)
        stdin = redactor(os.environ)(json.dumps(told).encode()) + b"\n"
        # A little less than the limit: it is ended here, and says so itself.
        call = Command(argv, self._top, env, stdin, timeout_s=LIMIT_S - 0.5)
        ended = self._processes.run(call, lambda chunk: None, lambda: False)
        if ended.ending is Ending.EXITED:
            return f"exit code {ended.exit_code}" if ended.exit_code else ""
        return ended.error or ended.ending.value


def _said(call: Call) -> str:
    try:
        return call()
    except (OSError, HTTPException, ValueError) as error:
        return getattr(error, "strerror", None) or type(error).__name__


def _post_json(url: str, data: object) -> str:
    return _post(url, json.dumps(data).encode(), {"Content-Type": "application/json"})


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> str:
    """Straight to the host that is named: no proxy, and no redirect to another place."""
    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=LIMIT_S)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    own = {"User-Agent": f"untildone/{__version__}", **_login(parts.username, parts.password)}
    try:
        connection.request("POST", path, body, {**own, **headers})
        status = connection.getresponse().status
    finally:
        connection.close()
    if 300 <= status < 400:
        return f"HTTP status {status}: redirects are not followed, give the final address"
    return "" if status < 300 else f"HTTP status {status}"


def _login(user: str | None, password: str | None) -> dict[str, str]:
    from base64 import b64encode  # noqa: PLC0415 - seldom needed

    if user is None:
        return {}
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _for_slack(message: Notification) -> str:
    text = f"*{message.title}*\n{message.text}"
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _apprise() -> Any:  # noqa: ANN401 - of a package that may be missing
    try:
        apprise = import_module("apprise")
    except ImportError:
        raise UserError(
            "`notify` has an address for Apprise, which is not installed",
            state="Nothing was changed.",
            hint="pip install 'untildone[notify]'",
        ) from None
    return apprise.Apprise()


def _by_apprise(url: str, message: Notification) -> str:
    sender = _apprise()
    if not sender.add(url):
        return "Apprise does not know this kind of address"
    return "" if sender.notify(body=message.text, title=message.title) else "Apprise failed"


def _to_terminal(message: Notification) -> str:
    """A loop without a terminal has nothing to tell there, which is no failure."""
    try:
        with Path("/dev/tty").open("wb", buffering=0) as terminal:
            terminal.write(terminal_bytes(message, os.environ))
    except OSError:
        return ""
    return ""


def terminal_bytes(message: Notification, environ: Mapping[str, str]) -> bytes:
    """What makes this terminal show a message; the bell where none is known."""
    title, body = _one_line(message.title), _one_line(message.text)
    program, kind = environ.get("TERM_PROGRAM", ""), environ.get("TERM", "")
    if program == "iTerm.app":
        text = f"\x1b]9;{title}: {body}\x07"
    elif "kitty" in kind:
        text = f"\x1b]99;i=untildone:d=0;{title}\x1b\\\x1b]99;i=untildone:p=body;{body}\x1b\\"
    elif program in ("ghostty", "WezTerm") or kind.startswith(("rxvt", "foot")):
        text = f"\x1b]777;notify;{title};{body}\x1b\\"
    else:
        return b"\x07"
    if environ.get("TMUX"):
        text = "\x1bPtmux;" + text.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return f"{text}\x07".encode()


def _one_line(text: str) -> str:
    return " ".join(text.replace(";", ",").split())
