"""A server of pages, and a client that says exactly what it wants to say."""

from __future__ import annotations

import dataclasses
import http.client
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from tests.e2e.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.e2e.bench import Bench
    from tests.e2e.command import Json, Live


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    def ok(self, status: int = 200) -> Answer:
        assert self.status == status, f"{self.status}, not {status}: {self.text[:2000]}"
        return self


@dataclasses.dataclass(frozen=True)
class Sent:
    """One server-sent event."""

    id: int | None
    event: str
    data: Json


class Site:
    """A running `untildone serve`."""

    def __init__(self, bench: Bench, *flags: str, env: Mapping[str, str | None] | None = None):
        self._streams: list[http.client.HTTPConnection] = []
        self.live: Live = bench.start("serve", "--json", *flags, env=env)
        until(lambda: "\n" in self.live.stdout or not self.live.alive())
        told = json.loads(self.live.stdout.partition("\n")[0] or "{}")
        assert told, self.live.text()
        self.url, self.token, self.pid = told["url"], told["token"], told["pid"]
        self.host = urlsplit(self.url).netloc

    @property
    def link(self) -> str:
        """What a person opens."""
        return f"{self.url}/#token={self.token}"

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2])

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        token: str | None = "",
        body: bytes | str | None = None,
        **headers: str,
    ) -> Answer:
        """A request, with the token unless another or none is given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token or self.token}"
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Answer(
                answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            )
        finally:
            connection.close()

    def post(self, path: str, data: object, **more: Any) -> Answer:
        """JSON, as a script sends it."""
        body = json.dumps(data)
        return self.ask(path, method="POST", body=body, content_type="application/json", **more)

    def form(self, path: str, fields: Mapping[str, str], **more: Any) -> Answer:
        """A form, as a browser sends it."""
        kind = "application/x-www-form-urlencoded"
        return self.ask(path, method="POST", body=urlencode(fields), content_type=kind, **more)

    def cookie(self) -> str:
        """What a browser has after the link was opened."""
        answer = self.form("/login", {"token": self.token}, token=None).ok(303)
        return answer.headers["set-cookie"].partition(";")[0]

    def runs(self) -> list[Json]:
        found: list[Json] = self.ask("/api/runs").ok().json()["runs"]
        return found

    def run_id(self) -> str:
        """The newest run, once there is one."""
        return str(until(self.runs)[0]["run_id"])

    def events(self, run_id: str, last: int | None = None) -> Iterator[Sent]:
        """The stream of a run, message by message, until the server ends it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self._streams.append(connection)
        headers = {"Authorization": f"Bearer {self.token}"}
        headers |= {} if last is None else {"Last-Event-ID": str(last)}
        connection.request("GET", f"/api/runs/{run_id}/events", headers=headers)
        return messages(connection.getresponse())

    def close(self) -> None:
        """Let go of all streams."""
        for connection in self._streams:
            connection.close()


def messages(answer: http.client.HTTPResponse) -> Iterator[Sent]:
    """Server-sent events as they come."""
    with answer:
        assert answer.status == 200, answer.read()
        assert answer.getheader("content-type", "").startswith("text/event-stream")
        yield from parsed(answer)


def parsed(answer: http.client.HTTPResponse) -> Iterator[Sent]:
    """Each is over with an empty line."""
    fields: dict[str, str] = {}
    while True:
        try:
            line = answer.readline()
        except (OSError, ValueError, http.client.HTTPException):
            return
        if not line:
            return
        text = line.decode().rstrip("\n")
        if not text:
            if "data" in fields:
                number = int(fields["id"]) if "id" in fields else None
                yield Sent(number, fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}
        elif not text.startswith(":"):
            name, _, value = text.partition(": ")
            fields[name] = value
