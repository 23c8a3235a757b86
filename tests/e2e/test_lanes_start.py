"""How a run in lanes starts: the schedule, the number of lanes, and consent for set-up commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

TASKS = """\
## 1. One
Touches: one.txt
- [ ] 1.1 do it

## 2. Two
Touches: one.txt, two.txt
- [ ] 2.1 do it

## 3. Three
Touches: three.txt
- [ ] 3.1 do it
"""


def with_setup(bench: Bench) -> None:
    bench.write("openspec/changes/demo/tasks.md", TASKS)
    bench.write("conductor.json", '{"scripts": {"setup": "touch $UNTILDONE_LANE.setup-ran"}}')
    bench.write(".gitignore", ".env\n*.setup-ran\nnode_modules/\n")
    bench.write(".worktreeinclude", ".env\n")
    bench.write(".env", "SECRET=1\n")
    bench.commit("a set-up for another tool")


def page(bench: Bench, *flags: str) -> str:
    """What a person sees of a dry run."""
    return bench.run("run", "demo", "--agent-cmd", bench.agent, *flags, "--dry-run").ok().stdout


def test_a_dry_run_shows_the_schedule_and_the_set_up(bench: Bench) -> None:
    with_setup(bench)
    before = bench.snapshot()
    said = page(bench, "--lanes", "2")
    assert "  at once: 1, 3\n  then: 2\n" in said
    assert "`untildone stories --graph` says why not more of them" in said
    assert "a lane has the files of git and nothing that is ignored; see `--lane-setup`" in said
    assert "conductor.json says how to set up a checkout" in said
    agreed = page(bench, "--lanes", "2", "--lane-setup", "auto")
    assert "copied into each: .env" in agreed
    assert "run in each, once and when a lock file changes: touch $UNTILDONE_LANE" in agreed
    assert "lane_setup auto, found in conductor.json" in agreed
    told = bench.loop("--lanes", "2", "--lane-setup", "auto", "--dry-run").ok().json()
    assert told["lanes"]["rounds"] == [["1", "3"], ["2"]]
    assert told["lanes"]["setup"]["files"] == [".env"]
    assert bench.snapshot() == before


def test_lanes_auto_says_why_so_many(bench: Bench) -> None:
    with_setup(bench)
    told = bench.loop("--lanes", "auto", "--dry-run").ok().json()
    (said,) = [text for text in told["warnings"] if text.startswith("Lanes: ")]
    assert said.startswith(f"Lanes: {told['plan']['lanes']}, because ")


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_is_asked_before_a_set_up_of_another_tool_is_run(
    bench: Bench, answer: str
) -> None:
    with_setup(bench)
    bench.plan()
    terminal = bench.terminal(
        *("run", "demo", "--agent-cmd", bench.agent, "--lanes", "2", "--on-complete", "keep")
    )
    terminal.wait_text("conductor.json says how to set one up:")
    terminal.wait_text("touch $UNTILDONE_LANE.setup-ran")
    terminal.type(f"{answer}\n")
    assert terminal.wait() == 0
    ran = list((bench.home / ".cache/untildone/slots").glob("*/lane-*/*/*.setup-ran"))
    copied = list((bench.home / ".cache/untildone/slots").glob("*/lane-*/*/.env"))
    assert (len(ran), len(copied)) == ((2, 2) if answer == "y" else (0, 0))


def test_without_a_terminal_nothing_is_run_without_a_word(bench: Bench) -> None:
    with_setup(bench)
    bench.plan()
    words = ("run", "demo", "--agent-cmd", bench.agent, "--lanes", "2", "--on-complete", "keep")
    said = bench.run(*words).ok()
    assert "`--lane-setup auto` is one" in said.stdout + said.stderr
    assert not list((bench.home / ".cache/untildone/slots").glob("*/lane-*/*/*.setup-ran"))
    (row, _) = bench.run("slots", "--json").ok().json()["slots"]
    assert row["state"] == "spare"
    told = bench.run("report", "demo", "--json").ok().json()
    assert told["lanes"]["lanes"] == 2
    assert bench.run("replay", "demo", "--json").ok().json()["same"] is True
