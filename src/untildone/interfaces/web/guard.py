"""Who may ask: every request goes through here before anything of a run is looked at."""

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 64 * 1024
READ_S = 10.0
WRONG_TOKENS, CLOSED_S = 5, 300.0
MOST_ADDRESSES = 1000
COOKIE_S = 30 * 24 * 3600
OPEN_PATHS = ("/static/", "/login")
LOOPBACK = ("localhost", "127.0.0.1", "::1")

# No style or script of a page counts, only those of files; nothing comes from elsewhere.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Token:
    """The secret of a server. Cookie and form carry what is made of it, not itself."""

    def __init__(self, text: str = "") -> None:
        self.text = text or secrets.token_urlsafe(32)

    def made(self, purpose: str) -> str:
        return hmac.new(self.text.encode(), purpose.encode(), hashlib.sha256).hexdigest()

    def is_right(self, given: str) -> bool:
        return _same(given, self.text)

    def is_made(self, given: str, purpose: str) -> bool:
        return _same(given, self.made(purpose))


def _same(one: str, other: str) -> bool:
    """In a time that does not tell how much of it is right."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


class Doorkeeper:
    """Who gave wrong tokens, and how often: five of them close the door for five minutes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wrong: dict[str, tuple[int, float]] = {}

    def closed_for(self, address: str) -> float:
        """How many seconds this address has to wait; none if it may try."""
        count, last = self._wrong.get(address, (0, 0.0))
        left = last + CLOSED_S - self._clock()
        if left <= 0:
            self._wrong.pop(address, None)
        return max(left, 0.0) if count >= WRONG_TOKENS else 0.0

    def note_wrong(self, address: str) -> None:
        count, _ = self._wrong.pop(address, (0, 0.0))
        self._wrong[address] = count + 1, self._clock()
        while len(self._wrong) > MOST_ADDRESSES:
            self._wrong.pop(next(iter(self._wrong)))

    def note_right(self, address: str) -> None:
        self._wrong.pop(address, None)


class Rules(Struct, frozen=True):
    """What holds for one server: its secret, its names, and whether it lets people steer."""

    token: Token
    hosts: frozenset[str]
    any_address: bool
    control: bool
    cookie: str


class Guard:
    """In front of the application: host, size, token, then for a POST control and origin."""

    def __init__(
        self,
        app: ASGIApp,
        rules: Rules,
        door: Doorkeeper,
        sign_in: Callable[[Scope, int], Response],
    ) -> None:
        self._app, self._rules, self._token = app, rules, rules.token
        self._door, self._sign_in = door, sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        private = not scope["path"].startswith("/static/")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                own.update(HEADERS | ({"cache-control": "no-store"} if private else {}))
            await send(message)

        refused = self._refused(scope, headers)
        if refused is None and scope["method"] not in ("GET", "HEAD"):
            read = await _whole_body(receive, headers)
            if isinstance(read, Response):
                refused = read
            else:
                receive = _replay(read, receive)
        await (refused or self._app)(scope, receive, send_guarded)

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        if not self._is_ours(headers.get("host", "")):
            return _error(421, "This server is not known under that name")
        if scope["path"].startswith(OPEN_PATHS):
            return None if scope["method"] in ("GET", "HEAD") else self._foreign(headers)
        refused = self._unknown(scope, headers)
        if refused or scope["method"] in ("GET", "HEAD"):
            return refused
        if scope["path"].startswith("/api/") and not self._rules.control:
            return _error(403, "This server only shows runs", "untildone serve --control")
        return self._foreign(headers)

    def _is_ours(self, host: str) -> bool:
        """Against names that an attacker lets point here; the port may be that of a tunnel."""
        name = _host_name(host)
        if name in self._rules.hosts:
            return True
        return self._rules.any_address and _is_address(name)

    def _unknown(self, scope: Scope, headers: Headers) -> Response | None:
        scope["state"] = {"by_cookie": False}
        if self._token.is_made(_cookie(headers, self._rules.cookie), "cookie"):
            scope["state"]["by_cookie"] = True
            return None
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not given:
            return self._sign_in(scope, 401)
        return self.wrong(scope, given.strip())

    def wrong(self, scope: Scope, given: str) -> Response | None:
        """The answer to a token, unless it is the right one."""
        address = scope["client"][0] if scope.get("client") else ""
        wait = self._door.closed_for(address)
        if wait:
            said = _error(429, "Too many wrong tokens", "wait five minutes")
            said.headers["retry-after"] = str(int(wait) + 1)
            return said
        if not self._token.is_right(given):
            self._door.note_wrong(address)
            return self._sign_in(scope, 401)
        self._door.note_right(address)
        return None

    def _foreign(self, headers: Headers) -> Response | None:
        """A page of another origin may make a browser send things, the cookie among them."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "")
        # A form of ours has none, since no page may be named; a browser says that it is ours.
        ours = origin == "null" and site == "same-origin"
        own = urlsplit(origin or "").netloc.lower() == headers.get("host", "").lower()
        if (origin is None or own or ours) and site in ("same-origin", "none", ""):
            return None
        return _error(403, "This was sent by a page of another origin")


def refused_form(scope: Scope, token: Token, form_token: str) -> Response | None:
    """Who comes with a cookie must come from one of our pages; scripts have the token itself."""
    if not scope["state"]["by_cookie"]:
        return None
    headers = Headers(scope=scope)
    given = form_token or headers.get("x-untildone-form", "")
    if headers.get("origin") is None or not token.is_made(given, "form"):
        return _error(403, "This was not sent by a page of this server", "load the page again")
    return None


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _cookie(headers: Headers, name: str) -> str:
    for text in headers.getlist("cookie"):
        try:
            found = SimpleCookie(text).get(name)
        except CookieError:
            continue
        if found:
            return found.value
    return ""


def _error(code: int, message: str, hint: str = "") -> Response:
    return JSONResponse({"error": message, "hint": hint}, code)


async def _whole_body(receive: Receive, headers: Headers) -> bytes | Response:
    """What was sent, within limits of size and time."""
    told = headers.get("content-length", "0")
    too_much = _error(413, f"More than {MOST_BYTES} bytes were sent")
    if not told.isdigit() or int(told) > MOST_BYTES:
        return too_much
    body = b""
    try:
        async with asyncio.timeout(READ_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return _error(400, "The request was cut short")
                body += bytes(message.get("body", b""))
                if len(body) > MOST_BYTES:
                    return too_much
                if not message.get("more_body"):
                    return body
    except TimeoutError:
        return _error(408, f"The request was not there within {READ_S:.0f} s")


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more, for the application; then whatever comes after it."""
    rest = [body]

    async def replayed() -> Message:
        if rest:
            return {"type": "http.request", "body": rest.pop(), "more_body": False}
        return await receive()

    return replayed
