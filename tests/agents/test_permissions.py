"""What `--permissions edits` holds each real program to: it writes files and runs no commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agents.rows import HELD_TO_EDITS, WITHOUT_TOOLS, for_programs
from untildone.domain.agents.agent import Permissions
from untildone.wiring.agents import known_program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.agents.conftest import MakeScene

pytestmark = [pytest.mark.e2e, pytest.mark.agent]

EDITS = ("--permissions", "edits", "--max-retries", "0")
# Neither one that only looks nor one that moves files about.
COMMAND = """awk 'BEGIN { print "made" > "made.txt" }'"""
# It does all by commands in a sandbox of its own, which does not work on every machine.
RUNS_COMMANDS = ("codex",)
WRITES_ANYWHERE = [
    name
    for name in HELD_TO_EDITS
    if "anywhere" in known_program(name).spec.holds(Permissions.EDITS)
]


def held(*but: str) -> pytest.MarkDecorator:
    """The programs that can be held to edits, but these."""
    return for_programs((name for name in HELD_TO_EDITS if name not in but), on_push=())


@held(*RUNS_COMMANDS)
def test_edits_are_enough_for_a_story(make_scene: MakeScene, name: str) -> None:
    scene = make_scene(name)
    assert scene.run(*EDITS).ok().outcomes() == ["complete", "complete"]
    assert scene.bench.blob("ralph/demo", "bravo.txt") == "Hello from bravo."
    scene.alone()


@held(*WITHOUT_TOOLS, *RUNS_COMMANDS)
def test_edits_run_no_command(make_scene: MakeScene, name: str) -> None:
    scene = make_scene(name, command=COMMAND)
    scene.run(*EDITS)
    assert scene.server.main
    assert not scene.bench.path("made.txt").exists()
    # Nor in an attempt that was put back.
    assert scene.bench.git("log", "--all", "--format=%h", "--", "made.txt") == ""
    scene.alone()


@held(*WITHOUT_TOOLS, *RUNS_COMMANDS, *WRITES_ANYWHERE)
def test_edits_keep_to_the_worktree(make_scene: MakeScene, name: str, tmp_path: Path) -> None:
    scene = make_scene(name, folder=tmp_path)
    scene.run(*EDITS)
    assert scene.server.main
    assert list(tmp_path.iterdir()) == []
    scene.alone()
