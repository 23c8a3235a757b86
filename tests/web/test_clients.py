"""Many who look at once, and one who does not keep up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.waiting import until
from untildone.interfaces.web.stream import MOST_WAITING, Client, Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.bench import Bench
    from tests.e2e.command import Live
    from tests.web.site import Site

CLIENTS = 50
ROOM_KB = 12_000


class Watcher:
    """Reads the stream of a run, or leaves it unread."""

    def __init__(self, site: Site, path: str, *, reads: bool = True) -> None:
        self.got = bytearray()
        self._socket = socket.create_connection(("127.0.0.1", site.port))
        head = f"GET {path} HTTP/1.1\r\nHost: {site.host}\r\nAuthorization: Bearer {site.token}"
        self._socket.sendall(f"{head}\r\n\r\n".encode())
        self._thread = threading.Thread(target=self._read, daemon=True)
        if reads:
            self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(ConnectionResetError):
            while data := self._socket.recv(65536):
                self.got += data

    def numbers(self) -> list[int]:
        return [int(found) for found in re.findall(rb"^id: (\d+)\n", self.got, re.MULTILINE)]

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()


def memory_kb(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def said(live: Live, text: str) -> None:
    """Wait for a text without much ado."""
    end = time.monotonic() + 200
    while text not in live.stdout:
        assert time.monotonic() < end, text
        time.sleep(0.5)


def talk(bench: Bench, lines: int, pause: float) -> None:
    """An agent that talks all the time, until the gate is open for its end."""
    said = [part for n in range(lines) for part in (["say", f"line {n}"], ["sleep", pause])]
    go, end = ["wait", bench.gate("go")], ["wait", bench.gate("end")]
    bench.plan({}, default=[go, *said, end, ["say", "<promise>COMPLETE</promise>"]])
    bench.only_stories(1)


def test_fifty_see_everything_and_leave_nothing(bench: Bench, serve: Callable[..., Site]) -> None:
    talk(bench, 100, 0.01)
    live = bench.begin()
    bench.wait_call(1)
    site = serve()
    api, page = (f"{kind}/runs/{site.run_id()}" for kind in ("/api", ""))
    site.ask(page)
    files, memory = open_files(site.pid), 0
    for round_ in range(3):
        watchers = [Watcher(site, f"{api}/events") for _ in range(CLIENTS // 2)]
        watchers += [Watcher(site, f"{page}/live") for _ in range(CLIENTS // 2)]
        if round_ == 1:
            bench.open_gate("go")
            until(lambda: "line 99" in live.stdout)
        if round_ == 2:
            bench.open_gate("end")
            live.wait().ok()
        seqs = [event["seq"] for event in live.events]
        until(lambda: all(watcher.numbers()[-1:] == seqs[-1:] for watcher in watchers))  # noqa: B023
        for watcher in watchers[: CLIENTS // 2]:
            assert watcher.numbers() == seqs
        for watcher in watchers:
            watcher.close()
        until(lambda: open_files(site.pid) <= files + 2)
        if round_ < 2:
            memory = memory_kb(site.pid)
    assert memory_kb(site.pid) < memory + ROOM_KB


@pytest.mark.full
@pytest.mark.timeout(400)
def test_fifty_for_a_minute_cost_the_loop_nothing(bench: Bench, serve: Callable[..., Site]) -> None:
    """The loop's own time, in two runs of the same talk: alone, and with fifty who look."""
    spent = {}
    talk(bench, 1200, 0.05)
    site = serve()
    for name in ("alone", "watched"):
        for gate in ("go", "end"):
            Path(bench.gate(gate)).unlink(missing_ok=True)
        live = bench.begin()
        live.wait_event("iteration_started", n=1)
        path = f"/runs/{site.run_id()}/live"
        watchers = [Watcher(site, path) for _ in range(CLIENTS if name == "watched" else 0)]
        before, began = cpu_s(live.pid), time.monotonic()
        bench.open_gate("go")
        said(live, "line 600")
        memory = memory_kb(site.pid)
        said(live, "line 1199")
        spent[name] = cpu_s(live.pid) - before, time.monotonic() - began
        bench.open_gate("end")
        live.wait().ok()
        if watchers:
            assert memory_kb(site.pid) < memory + ROOM_KB
        for watcher in watchers:
            watcher.close()
        bench.run("finish", "demo", "cleanup").ok()
        bench.git("checkout", "-q", ".")
        bench.git("clean", "-qfd", "-e", ".claude")
    print(f"processor and wall seconds of the loop: {spent}, server {cpu_s(site.pid):.1f} s")
    assert spent["watched"][0] <= 1.05 * spent["alone"][0] + 0.05
    assert spent["watched"][1] <= 1.05 * spent["alone"][1]


def test_a_slow_client_is_let_go() -> None:
    """Its messages are bounded; it comes back for what it missed."""

    async def slow() -> tuple[Client, list[bytes]]:
        client = Client(page=True)
        sent: list[bytes] = []
        left: list[Client] = []
        gate = asyncio.Event()

        async def send(message: object) -> None:
            assert isinstance(message, dict)
            sent.append(message.get("body", b""))
            if message.get("body", b"").startswith(b"data"):
                await gate.wait()

        async def receive() -> dict[str, str]:
            await asyncio.sleep(60)
            return {"type": "http.disconnect"}

        writing = asyncio.ensure_future(Stream(client, left.append, [])({}, receive, send))
        for _ in range(3 * MOST_WAITING):
            client.offer(b"data: x\n\n")
            await asyncio.sleep(0)
        assert client.queue.qsize() <= MOST_WAITING
        gate.set()
        await asyncio.wait_for(writing, 10)
        assert left == [client]
        return client, sent

    client, sent = asyncio.run(slow())
    assert client.over
    assert len(sent) < MOST_WAITING
