"""The scripted model on loopback: plays the script in every protocol and keeps a log."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.modelserver.anthropic import Messages
from tests.modelserver.gemini import Gemini
from tests.modelserver.openai_chat import Chat
from tests.modelserver.openai_responses import Responses
from tests.modelserver.play import IN_STREAM, Place, Play, Reply
from tests.modelserver.script import Day, Script, Tokens

if TYPE_CHECKING:
    from tests.modelserver.wire import Ask, Json, Wire

LONGEST_HANG_S = 300.0
MODELS = {"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "tests"}]}


@dataclass(frozen=True)
class Seen:
    """One model request and what was sent back; `at` is monotonic.

    `sent` are the tokens that the client was told, as its protocol can tell them.
    """

    n: int
    path: str
    at: float
    place: Place
    day: Day | None
    sent: Tokens

    @property
    def step(self) -> tuple[str, int]:
        """The story's marker and the number of its turn."""
        return self.place.story.marker if self.place.story else "", self.place.step


class ModelServer:
    """A context manager around the server; `url` is where it listens."""

    def __init__(self, script: Script) -> None:
        self.play = Play(script)
        self.closing = threading.Event()
        self.faults: list[str] = []
        self._log: list[Seen] = []
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The base address, without a slash at its end."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def log(self) -> list[Seen]:
        """All model requests so far."""
        with self._lock:
            return list(self._log)

    @property
    def main(self) -> list[Seen]:
        """The requests that carry the work."""
        return [seen for seen in self.log if seen.place.main]

    def sent(self) -> Tokens:
        """All tokens that the clients of main requests were told."""
        return sum((seen.sent for seen in self.main), Tokens())

    def note(self, path: str, reply: Reply) -> None:
        """Add to the log."""
        day = reply.bad.day if reply.bad else None
        with self._lock:
            n = len(self._log) + 1
            self._log.append(Seen(n, path, time.monotonic(), reply.place, day, reply.sent))

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join(10)
        self._http.server_close()
        assert self.faults == [], "the server itself failed"


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may go away; anything else is a fault of the server, for its end."""
        if not isinstance(sys.exception(), ConnectionError):
            self.owner.faults.append(traceback.format_exc())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""

    def do_HEAD(self) -> None:
        self._send(200, b"")

    def do_GET(self) -> None:
        known = self.path.partition("?")[0].rstrip("/").endswith("/models")
        self._json(200, MODELS) if known else self._lost()

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        body: Json = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        if path.endswith("/count_tokens"):
            return self._json(200, {"input_tokens": 1000})
        if path.endswith(":countTokens"):
            return self._json(200, {"totalTokens": 1000})
        wire = wire_of(path)
        if wire is None:
            return self._lost()
        ask = wire.read(path, body)
        reply = self.server.owner.play.reply(wire, ask, time.time())
        self.server.owner.note(path, reply)
        return self._answer(wire, ask, reply)

    def _answer(self, wire: Wire, ask: Ask, reply: Reply) -> None:
        day = reply.bad.day if reply.bad else None
        if reply.failure:
            self._json(reply.failure.status, reply.failure.body, dict(reply.failure.headers))
        elif day is Day.HANG:
            self.server.owner.closing.wait(LONGEST_HANG_S)
            self._reset()
        elif day in IN_STREAM:
            self._broken(day, wire.events(reply.answer) if ask.stream else [b"{"])
        elif ask.stream:
            self._open_stream()
            for event in wire.events(reply.answer):
                self._chunk(event)
            self._chunk(b"")
        else:
            self._json(200, wire.whole(reply.answer))

    def _broken(self, day: Day, events: list[bytes]) -> None:
        """The first half of a stream, then trouble."""
        self._open_stream()
        for event in events[: max(1, len(events) // 2)]:
            self._chunk(event)
        if day is Day.MALFORMED:
            self._chunk(b'data: {"type": "message", "delta": {"te\n\n')
        if day is Day.CUT:
            # No reset: that may overtake what was sent, and the client would see another day.
            self.close_connection = True
        else:
            self._chunk(b"")

    def _open_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _reset(self) -> None:
        """End the connection with a reset instead of a goodbye."""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            os.close(self.connection.detach())

    def _lost(self) -> None:
        self._json(404, {"error": {"message": f"no such path: {self.path}", "type": "not_found"}})

    def _json(self, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self._send(status, data, {"content-type": "application/json"} | (headers or {}))

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def wire_of(path: str) -> Wire | None:
    """The protocol that is spoken at this path."""
    if path.endswith("/messages"):
        return Messages()
    if path.endswith("/responses"):
        return Responses()
    if path.endswith("/chat/completions"):
        return Chat()
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return Gemini()
    return None
