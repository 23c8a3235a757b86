"""What the record relies on when it writes the state file."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from tests.fakes.plans import OPENED, TWO, loaded, told, won
from tests.fakes.record import FakeState
from untildone.adapters.records.state_file import StateFile
from untildone.ports import StateStore

BOTH = told(OPENED, loaded(), *won(), loaded(), *won(2, TWO)).iterations
# A store, and the status and the iterations' numbers of what was written last.
Scene = tuple[StateStore, Callable[[], tuple[object, list[int]]]]


def _real(folder: Path) -> Scene:
    path = folder / ".claude/loop-state.json"

    def last() -> tuple[object, list[int]]:
        data: Mapping[str, Any] = json.decode(path.read_bytes())
        return data["status"], [row["n"] for row in data["iterations"]]

    return StateFile(path), last


def _fake(folder: Path) -> Scene:
    calls: list[object] = []

    def last() -> tuple[object, list[int]]:
        match calls[-1]:
            case ("state", dict(head), tuple(iterations)):
                return head["status"], [iteration.n for iteration in iterations]
            case other:
                raise AssertionError(other)

    return FakeState(calls), last


MAKERS: dict[str, Callable[[Path], Scene]] = {"real": _real, "fake": _fake}


@pytest.fixture(params=MAKERS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return MAKERS[request.param](tmp_path)


def test_the_last_write_is_what_is_there(scene: Scene) -> None:
    state, last = scene
    for status, iterations in (("running", ()), ("running", BOTH[:1]), ("done", BOTH)):
        for _ in range(2):
            assert state.write({"status": status}, iterations) == ()
            assert last() == (status, [iteration.n for iteration in iterations])


def test_iterations_that_were_taken_back_are_gone(scene: Scene) -> None:
    state, last = scene
    state.write({"status": "done"}, BOTH)
    state.write({"status": "running"}, BOTH[:1])
    assert last() == ("running", [1])
