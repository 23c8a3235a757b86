"""What the start of a run decides about its lanes, with consent for every command."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.adapters.worktree import made
from tests.fakes.plans import PLAN
from untildone.commands.start.lanes import with_lanes
from untildone.domain.run.run_commands import run_commands
from untildone.wiring.repository import Repository, here

TWO = replace(PLAN, lanes=2)
CONDUCTOR = '{"scripts": {"setup": "npm ci"}}'


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    top = made(tmp_path).top
    (top / "conductor.json").write_text(CONDUCTOR)
    return here(top)


def test_a_set_up_of_another_tool_is_used_with_consent_only(repo: Repository) -> None:
    assert with_lanes(repo, PLAN) == (PLAN, ())
    plan, said = with_lanes(repo, TWO)
    assert (plan, said[0].endswith("without your yes: `--lane-setup auto` is one")) == (TWO, True)
    shown = "conductor.json says how to set one up:\n  npm ci\n"
    assert with_lanes(repo, TWO, lambda question: shown not in question)[0] == TWO
    plan, said = with_lanes(repo, TWO, lambda _: True)
    assert (plan.lane_setup, said) == ("npm ci", ())
    consent = replace(TWO, lane_setup="auto", origins={"lane_setup": "--lane-setup"})
    plan, said = with_lanes(repo, consent)
    assert (plan.lane_setup, said) == ("npm ci", ())
    (command,) = run_commands(plan)
    assert command.what == "set-up of a lane"
    assert command.origin == "lane_setup auto, found in conductor.json"
    # Whoever wrote `off` or a command is not asked.
    for text in ("", "make setup"):
        told = replace(TWO, lane_setup=text, origins={"lane_setup": "untildone.toml"})
        assert with_lanes(repo, told, lambda _: True) == (told, ())


def test_a_project_without_such_a_file_is_not_asked_about(repo: Repository) -> None:
    (repo.place.top / "conductor.json").unlink()
    auto = replace(TWO, lane_setup="auto")
    for plan in (TWO, auto):
        assert with_lanes(repo, plan, lambda _: True) == (plan, ())


def test_as_many_lanes_as_pay(repo: Repository) -> None:
    wanted = replace(PLAN, lanes=0)
    plan, said = with_lanes(repo, wanted)
    assert 1 <= plan.lanes <= 4
    assert said[0].startswith(f"Lanes: {plan.lanes}, because ")
    runs = repo.home / "runs" / "20260101-000000-aaaa"
    runs.mkdir(parents=True)
    (runs / "journal.jsonl").write_text("")
    assert with_lanes(repo, wanted)[0].lanes == plan.lanes
    assert os.path.lexists(runs)
