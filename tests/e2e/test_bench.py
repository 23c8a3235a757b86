"""The benchmarks that compare untildone with other programs: what they run, and what they tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench import growth, other_loops, report
from bench.measure import Spent
from bench.other_loops import Entry
from bench.outcomes import table
from bench.outcomes.loops.base import CannotRun
from bench.result import Result, cpu
from bench.scene import Stage, stage

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

SMALL = {40: 1}


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(other_loops, "STORIES", 2)
    with stage(quick=True) as here:
        yield here


def test_a_loop_that_works_is_measured_beside_untildone(place: Stage) -> None:
    shell = other_loops.OTHERS[0]
    (row,) = other_loops.other_loops(place, [shell], SMALL)
    assert row.name == "other_loops, 40 files, bare shell"
    assert row.measured > 0
    assert row.ratio is not None
    assert row.ratio > 0


def test_a_loop_that_cannot_be_had_or_does_not_work_says_so_and_misses_no_bar(
    place: Stage,
) -> None:
    def absent(stage: Stage) -> tuple[str, ...]:
        raise CannotRun("npm cannot install it here")

    entries = [
        Entry("absent", "-", absent, bar=1.0),
        Entry("broken", "-", lambda _: ("sh", "-c", "echo no; exit 4"), bar=1.0),
        Entry("idle", "-", lambda _: ("true",), bar=1.0),
        Entry("no commits", "-", lambda _: ("sh", "-c", "claude; claude"), bar=1.0),
        Entry("one story", "-", lambda _: ("claude",), commits=False, bar=1.0),
    ]
    rows = other_loops.other_loops(place, entries, SMALL)
    assert [row.passed for row in rows] == [None] * 5
    assert rows[0].note == "not run: npm cannot install it here"
    assert "ended with 4" in rows[1].note
    assert all("notes.txt" in row.note for row in rows[2:4])
    assert rows[4].note == "not run: stories committed: 1 of 2, commits: 1"


def test_a_run_that_does_not_count_is_told_beside_those_that_do(
    place: Stage, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    script = f"echo >>{runs}; claude; [ $(wc -l <{runs}) = 2 ] || claude"
    entry = Entry("flaky", "-", lambda _: ("sh", "-c", script), commits=False, bar=1000.0)
    (row,) = other_loops.other_loops(place, [entry], {40: 3})
    assert row.passed
    assert row.note.endswith(
        "best of 2; 1 more did not count (stories committed: 1 of 2, commits: 1)"
    )


def test_the_commit_of_the_agent_counts_for_a_loop_without_commits(place: Stage) -> None:
    twice = Entry("twice", "-", lambda _: ("sh", "-c", "claude; claude"), commits=False, bar=0.001)
    (row,) = other_loops.other_loops(place, [twice], SMALL)
    assert row.passed is False


def test_a_story_takes_as_many_steps_in_a_long_list_as_in_a_short_one(place: Stage) -> None:
    for row in growth.list_steps(place, growth.list_scene(place)):
        assert row.ratio is not None
        assert 0.95 < row.ratio < 1.05, row


def test_a_difference_lost_in_the_noise_is_no_pass() -> None:
    def spent(tree: float) -> Spent:
        return Spent(tree, tree, tree, 1.0)

    def row(long: float, short: float) -> Result:
        return cpu("x", (spent(long) - spent(short)) / 10, spent(0.1), 1.2, "")

    assert row(2.1, 1.0).passed
    assert not row(2.3, 1.0).passed
    assert not row(1.0, 1.1).passed


def test_the_page_and_its_template_say_the_same() -> None:
    def by_hand(text: str) -> list[str]:
        for begin, end in ((report.BEGIN, report.END), (table.BEGIN, table.END)):
            before, rest = text.split(begin)
            text = before + rest.split(end)[1]
        return text.splitlines()

    page = Path(__file__).parents[2] / "docs" / "benchmarks.md"
    assert by_hand(page.read_text()) == by_hand(report.TEMPLATE.read_text())
