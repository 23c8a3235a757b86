"""Start and end of `untildone serve`: its address, its token, its signals."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import h11
import segno
import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol

from untildone.commands.control import refuse_agent
from untildone.domain.errors import UserError
from untildone.interfaces.output import echo, echo_json
from untildone.interfaces.web.app import Pages, application
from untildone.interfaces.web.guard import LOOPBACK, READ_S, Doorkeeper, Guard, Rules, Token
from untildone.plain_files import opened, read_text
from untildone.wiring.repository import Repository
from untildone.wiring.web_address import noted, way_in

MOST_CONNECTIONS = 256
SHORTEST_TOKEN = 20
OPEN_S = 30.0  # how long the file that leads a browser here is there


class Options(Struct, frozen=True):
    """How the server is reached, and what it lets people do."""

    host: str = "127.0.0.1"
    port: int = 0
    control: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    token_file: Path | None = None
    public_url: str = ""
    open: bool = False
    as_json: bool = False

    @property
    def on_loopback(self) -> bool:
        return self.host in LOOPBACK or self.host.startswith("127.")


class Connection(H11Protocol):
    """Says in time what it wants, or is let go: there is room for so many, the owner's included."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._heard()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        answered = getattr(self.cycle, "response_complete", False)
        if not answered and self.conn.their_state is not h11.IDLE:
            self._heard()
        elif self._late is None:
            self._late = self.loop.call_later(READ_S, self.transport.abort)

    def _heard(self) -> None:
        if self._late:
            self._late.cancel()
            self._late = None


class Server(uvicorn.Server):
    """Ends at a signal without sending it to itself again: there is something to clean up."""

    def __init__(self, config: uvicorn.Config, pages: Pages) -> None:
        super().__init__(config)
        self.signal = 0
        self._pages = pages

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, self._on_signal) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signal, self.should_exit = number, True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._pages.hub.start()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._pages.hub.end()
        await super().shutdown(sockets)


def serve(repositories: list[Repository], options: Options) -> int:
    """Until a signal; the runs do not notice."""
    _check(options)
    token = _token(options)
    listening = _listening(options)
    port = listening.getsockname()[1]
    url = options.public_url.rstrip("/") or _url(options, port)
    cookie = f"untildone-{port}"
    tls = options.tls_cert is not None
    pages = Pages(repositories, token, control=options.control, cookie=cookie, tls=tls)
    names = _names(options)
    rules = Rules(token, names, not options.on_loopback, options.control, cookie)
    door = Doorkeeper(repositories[0].clock.monotonic)
    pages.guard = Guard(application(pages), rules, door, pages.sign_in)
    server = Server(_config(options, pages.guard), pages)
    with noted(repositories, url), _shown(repositories[0], url, token, options):
        asyncio.run(server.serve([listening]))
    if not options.as_json:
        echo("Ended. The runs go on.", err=True)
    return 128 + server.signal if server.signal else 0


def _config(options: Options, guard: Guard) -> uvicorn.Config:
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return uvicorn.Config(
        guard,
        loop="asyncio",
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=32 * 1024,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )


def _check(options: Options) -> None:
    if bool(options.tls_cert) != bool(options.tls_key):
        raise UserError(
            "--tls-cert and --tls-key belong together", hint="Give both files, or none of them."
        )
    if not (options.on_loopback or options.tls_cert or options.insecure):
        raise UserError(
            f"{options.host} is reached from outside, and without TLS the token could be read on "
            "the way",
            hint="--tls-cert CERT --tls-key KEY; or --insecure inside a private network or VPN",
        )
    if options.control:
        refuse_agent(os.environ.get("UNTILDONE_RUN_ID"))


def _token(options: Options) -> Token:
    """Of the file if one is named, which is made if it is not there; else a new one."""
    path = options.token_file
    if path is None:
        return Token()
    if not path.exists():
        made = Token()
        with opened(path, "xb", private=True) as file:
            file.write(f"{made.text}\n".encode())
        return made
    text = read_text(path).strip()
    if path.stat().st_mode & 0o077:
        raise UserError(f"Others can read the file of the token: {path}", hint=f"chmod 600 {path}")
    if len(text) < SHORTEST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise UserError(
            f"This is no token: {path}",
            hint=f"At least {SHORTEST_TOKEN} letters and digits. If there is no file, it is made.",
        )
    return Token(text)


def _listening(options: Options) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family, backlog=128)
    except OSError as error:
        raise UserError(
            f"The address cannot be used: {options.host}, port {options.port}: {error.strerror}",
            hint="--port 0 takes a free one",
        ) from error


def _url(options: Options, port: int) -> str:
    host = socket.gethostname() if options.host in ("0.0.0.0", "::") else options.host  # noqa: S104
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if options.tls_cert else 'http'}://{host}:{port}"


def _names(options: Options) -> frozenset[str]:
    """Under which names a browser may ask for us."""
    names = {*LOOPBACK, options.host.lower()}
    names |= {urlsplit(options.public_url).hostname or ""} if options.public_url else set()
    names |= set() if options.on_loopback else {socket.gethostname().lower()}
    return frozenset(names - {""})


@contextlib.contextmanager
def _shown(repository: Repository, url: str, token: Token, options: Options) -> Iterator[None]:
    link = f"{url}/#token={token.text}"
    if options.as_json:
        echo_json({"url": url, "token": token.text, "pid": os.getpid()})
    else:
        _say(link, options)
    sys.stdout.flush()
    if not options.open:
        yield
        return
    with way_in(repository, link) as path:
        late = threading.Timer(OPEN_S, lambda: path.unlink(missing_ok=True))
        late.daemon = True
        for thread in (late, threading.Thread(target=_open, args=(path,), daemon=True)):
            thread.start()
        yield


def _say(link: str, options: Options) -> None:
    if sys.stdout.isatty():
        with contextlib.suppress(UnicodeEncodeError):
            segno.make(link, micro=False).terminal(out=sys.stdout, border=2, compact=True)
    echo(f"Open: {link}")
    if options.insecure and not options.on_loopback:
        echo("Without TLS: whoever can listen on the way reads the token.", err=True, wrap=True)
    what = "show and steer" if options.control else "only show runs (--control: steer them, too)"
    echo(f"The pages {what}. Ctrl-C ends them; the runs go on.", err=True, wrap=True)


def _open(path: Path) -> None:
    if not webbrowser.open(path.as_uri()):
        echo("No browser was found; open the link above yourself.", err=True)
