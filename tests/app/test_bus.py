"""Windows: a slow or dead one never holds up the loop."""

import io
import subprocess
import sys
import threading
import time

import pytest

from untildone.app import bus as bus_module
from untildone.app.bus import FLUSH_S, QUEUE_SIZE, Bus, EventObject

LAST: EventObject = {"event": "finished"}


def test_every_window_gets_every_event_in_order() -> None:
    bus = Bus()
    first: list[EventObject] = []
    second: list[EventObject] = []
    bus.subscribe(first.append)
    bus.subscribe(second.append)
    events: list[EventObject] = [{"event": "agent_text", "n": n} for n in range(50)]
    for event in events:
        bus.publish(event)
    bus.flush()
    assert (first, second) == (events, events)


def test_a_slow_window_loses_notices_only() -> None:
    bus = Bus()
    go = threading.Event()
    shown: list[EventObject] = []

    def slow(event: EventObject) -> None:
        go.wait(10)
        shown.append(event)

    bus.subscribe(slow)
    names = ["agent_text", "agent_tool", "iteration_ended"]
    for n in range(QUEUE_SIZE + 300):
        bus.publish({"event": names[n % 3], "n": n})
    bus.publish(LAST)
    go.set()
    bus.flush()
    facts = [event for event in shown if event["event"] == "iteration_ended"]
    assert len(facts) == (QUEUE_SIZE + 300) // 3
    assert len(shown) < QUEUE_SIZE + 300
    assert shown[-1] == LAST
    assert [event["n"] for event in facts] == sorted(n for n in range(2, QUEUE_SIZE + 300, 3))


def test_a_dead_window_does_not_hurt() -> None:
    bus = Bus()
    calls: list[EventObject] = []
    alive: list[EventObject] = []

    def dead(event: EventObject) -> None:
        calls.append(event)
        raise BrokenPipeError

    bus.subscribe(dead)
    bus.subscribe(alive.append)
    for _ in range(3):
        bus.publish(LAST)
    bus.flush()
    bus.publish(LAST)
    bus.flush()
    assert (len(calls), len(alive)) == (1, 4)


def test_a_window_that_cannot_show_a_sign_does_not_hurt() -> None:
    bus = Bus()
    calls: list[EventObject] = []
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")

    def ascii_only(event: EventObject) -> None:
        calls.append(event)
        terminal.write("▶")

    bus.subscribe(ascii_only)
    bus.publish(LAST)
    bus.publish(LAST)
    started = time.monotonic()
    bus.flush()
    assert time.monotonic() - started < FLUSH_S / 2
    assert calls == [LAST]


def test_flush_of_no_window() -> None:
    Bus().flush()


def test_a_window_hears_that_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "HEARTBEAT_S", 0.02)
    bus = Bus()
    shown: list[EventObject] = []
    beat = threading.Event()
    bus.subscribe(shown.append, beat.set)
    bus.publish(LAST)
    assert beat.wait(5)
    bus.flush()
    assert shown == [LAST]


def test_a_heartbeat_of_a_dead_window_does_not_hurt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "HEARTBEAT_S", 0.02)
    bus = Bus()
    beats: list[int] = []
    beaten = threading.Event()

    def dead() -> None:
        beats.append(1)
        beaten.set()
        raise BrokenPipeError

    bus.subscribe(lambda event: None, dead)
    assert beaten.wait(5)
    bus.publish(LAST)
    bus.flush()
    assert beats == [1]


def test_the_end_of_the_process_waits_for_the_windows() -> None:
    script = """
import sys, time
from untildone.app.bus import Bus
bus = Bus()
bus.subscribe(lambda event: (time.sleep(0.1), sys.stdout.write(f"{event['event']}\\n")))
for name in ("one", "two", "three"):
    bus.publish({"event": name})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, [b"one", b"two", b"three"])


def test_a_window_that_is_late_is_waited_for_once() -> None:
    bus = Bus()
    go = threading.Event()

    def late(event: EventObject) -> None:
        go.wait(30)

    bus.subscribe(late, flush_s=0.2)
    bus.publish(LAST)
    bus.flush()
    began = time.monotonic()
    bus.flush()
    assert time.monotonic() - began < 0.15
    go.set()
