"""Server-sent events: messages, the clients that they wait for, and how they are sent."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from untildone.commands.look.feed import EventObject
from untildone.interfaces.render import safe

MOST_WAITING = 400  # messages for one client
SEND_S = 20.0  # for one message: who does not take it is let go
BEAT_S = 15.0
RETRY = b"retry: 500\n\n"  # how soon a browser comes back, in milliseconds


class Client:
    """An open stream. It is bounded: a slow one is let go, and comes back for what it missed."""

    def __init__(self, *, page: bool) -> None:
        self.page = page
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        self.over = False

    def offer(self, data: bytes | None) -> None:
        """More for it, nothing for its end; in the thread of the event loop."""
        try:
            self.queue.put_nowait(data)
        except asyncio.QueueFull:
            self.over = True


def fan_out(clients: Iterable[Client], data: bytes | None) -> None:
    for client in clients:
        client.offer(data)


def message(data: object, seq: int | None = None, event: str = "") -> bytes:
    """One message of a stream of server-sent events."""
    # No line break is in the JSON, whatever the texts have.
    head = (f"id: {seq}\n" if seq is not None else "") + (f"event: {event}\n" if event else "")
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def event_messages(events: Iterable[EventObject]) -> bytes:
    """Events as scripts get them, each under its number."""
    return b"".join(message(safe(event), number_of(event)) for event in events)


def number_of(event: EventObject) -> int:
    return int(str(event["seq"]))


class Stream(Response):
    """Server-sent events: what is there, then what comes; a client that is too slow is let go."""

    def __init__(
        self, client: Client, leave: Callable[[Client], None], first: Iterable[bytes]
    ) -> None:
        self._client, self._leave, self._first = client, leave, first
        super().__init__(media_type="text/event-stream")
        self.raw_headers = [row for row in self.raw_headers if row[0] != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        writing = asyncio.ensure_future(self._write(send, head))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((writing, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leave(self._client)
            for task in (writing, gone):
                task.cancel()
            await asyncio.gather(writing, gone, return_exceptions=True)

    async def _write(self, send: Send, head: dict[str, object]) -> None:
        async def put(data: bytes) -> None:
            async with asyncio.timeout(SEND_S):
                await send({"type": "http.response.body", "body": data, "more_body": True})

        with contextlib.suppress(TimeoutError, OSError):
            await send(head)
            await put(RETRY)
            rest = iter(self._first)
            while chunk := await run_in_threadpool(_some, rest):
                await put(chunk)
            while not self._client.over:
                try:
                    data = await asyncio.wait_for(self._client.queue.get(), BEAT_S)
                except TimeoutError:
                    data = b": still here\n\n"
                if data is None:
                    break
                await put(data)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _some(rest: Iterable[bytes]) -> bytes:
    """The next messages in one piece; empty at the end."""
    found = b""
    for chunk in rest:
        found += chunk
        if len(found) > 32 * 1024:
            break
    return found


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
