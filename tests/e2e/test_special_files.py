"""Pipes where the loop or git expects files: nobody waits for them, and a signal is heard."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, fails

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

PLACES = {
    "gitignore": "rm -f .gitignore sub; mkdir -p sub; mkfifo .gitignore sub/.gitattributes",
    "refs": "mkfifo .git/refs/heads/pipe; rm -f .git/packed-refs; mkfifo .git/packed-refs",
    "ours": "mkfifo .git/untildone/inbox/1.json; rm .git/untildone/lock; "
    "mkfifo .git/untildone/lock; mkfifo .git/untildone/begun.json",
}


@pytest.mark.parametrize(
    "place", ["gitignore", *(pytest.param(p, marks=pytest.mark.full) for p in ("refs", "ours"))]
)
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(bench: Bench, place: str) -> None:
    bench.only_stories(1, 2)
    bench.write(".gitignore", "*.log\n")
    bench.commit("ignore")
    bench.plan({1: [["sh", PLACES[place]], *fails()]})
    began = time.monotonic()
    result = bench.loop("--on-complete", "cleanup").ok()
    assert result.outcomes() == ["failed", "complete", "complete"]
    assert time.monotonic() - began < 60
    assert bench.read(".gitignore") == "*.log\n"
    bench.git("fsck", "--no-dangling")


def test_a_second_loop_does_not_start_after_the_lock_was_deleted(bench: Bench) -> None:
    bench.plan({1: [["sh", "rm .git/untildone/lock"], ["wait", bench.gate("go")], *DONE]})
    live = bench.start(*bench.loop_args())
    bench.wait_call(1)
    until_gone = bench.path(".git/untildone/lock")
    end = time.monotonic() + 20
    while until_gone.exists() and time.monotonic() < end:
        time.sleep(0.01)
    second = bench.loop().ok(2)
    assert "already running" in second.stderr
    assert bench.run("status", "--json").ok().json()["loops"][0]["alive"] is True
    assert "already running" in bench.run("undo").ok(2).stderr
    bench.open_gate("go")
    live.wait().ok()


def test_a_pipe_as_the_configuration_is_an_error_at_once(bench: Bench) -> None:
    os.mkfifo(bench.path("untildone.toml"))
    refused = bench.loop().ok(2)
    assert "untildone.toml" in refused.stderr
