"""A few of the kill points; `make torture` takes them all."""

import json
from pathlib import Path

import pytest

from tests.torture import checks
from tests.torture.kill_points import (
    LANES,
    VARIANTS,
    args_of,
    effects,
    made,
    torture,
    torture_commands,
)
from tests.torture.scene import KILLED, Fault, Scene

pytestmark = pytest.mark.e2e


# Odd, so that every way to recover gets its turn.
@pytest.mark.parametrize("every", [97, pytest.param(61, marks=pytest.mark.full)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_lost_at_some_kill_points(variant: str, every: int) -> None:
    counts, bad = torture(variant, every=every, jobs=1)
    assert counts["kills"] > 3
    assert bad == 0


# In parts, so that all workers share them; 4 lanes do six times as much as one.
@pytest.mark.parametrize(
    "part", [*range(2), *(pytest.param(n, marks=pytest.mark.full) for n in range(2, 8))]
)
def test_nothing_is_lost_at_some_kill_points_of_four_lanes(part: int) -> None:
    counts, bad = torture(LANES, every=719, jobs=1, first=89 * part)
    assert counts["kills"] > 2
    assert bad == 0


OTHERS = [pytest.param(variant, marks=pytest.mark.full) for variant in VARIANTS[1:]]
SOME = ("finish", "gc", "restore of what is staged", "attempts --restore beside what is staged")


@pytest.mark.parametrize("command", SOME)
@pytest.mark.parametrize("variant", [VARIANTS[0], *OTHERS])
def test_a_command_that_is_killed_is_finished_or_taken_back(variant: str, command: str) -> None:
    counts, bad = torture_commands(variant, command, every=41, jobs=1)
    assert counts["kills"] > 0
    assert bad == 0


@pytest.mark.parametrize("variant", ["branch", pytest.param("worktree", marks=pytest.mark.full)])
def test_a_story_that_is_being_taken_out_when_the_kill_comes(variant: str) -> None:
    counts, bad = torture_commands(variant, "undo --story", every=41, jobs=1)
    assert counts["kills"] > 0
    assert bad == 0


NEAR = sorted(range(-9, 10), key=abs)


def died_at(template: Scene, folder: Path, number: int) -> Scene | None:
    """The scene after this kill, if all was done and only the state file did not say so yet.

    The count of effects differs a little from run to run, as the names of objects do.
    """
    scene = template.copied(folder / f"s{number}")
    if scene.command(*args_of(scene, "branch"), fault=Fault(number, "before")) != KILLED:
        return None
    [journal] = scene.repo.glob(".git/untildone/runs/*/journal.jsonl")
    state = json.loads((scene.repo / checks.OWN_FILE).read_text())
    return scene if '"Closed"' in journal.read_text() and state["phase"] != "ended" else None


def test_status_of_a_loop_that_died_when_all_was_done_but_its_last_word(tmp_path: Path) -> None:
    template = made(tmp_path / "template", "branch")
    found = effects(template, "branch", tmp_path / "watched")
    last = len(found) - found[::-1].index(("replace", "loop-state.json"))
    scene = next(filter(None, (died_at(template, tmp_path, last + k) for k in NEAR)))
    assert scene.command("status", "--json") == 0
    state = json.loads((scene.repo / checks.OWN_FILE).read_text())
    assert (state["status"], state["phase"], state["choice"]) == ("done", "ended", "cleanup")
    assert checks.leftovers(scene) == []
