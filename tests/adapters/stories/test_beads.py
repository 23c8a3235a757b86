"""Beads through a stand-in for `bd` that keeps its issues in a file."""

from pathlib import Path

import pytest

from tests.fakes.trackers import BD, Tracker, bead
from untildone.adapters.stories.beads import SOURCE
from untildone.adapters.stories.kind import Options
from untildone.domain.errors import StoriesError, StoryLost
from untildone.ports import StorySource

ISSUES = [
    bead("x-1", "Set up", description="Do it", acceptance_criteria="- one\n- two", priority=1),
    bead("x-2", "Build", "x-1", "x-4", status="in_progress", labels=["ui"]),
    bead("x-3", "Later", status="deferred"),
    bead("x-4", "Before", status="closed"),
    bead("x-5", "All", issue_type="epic"),
    bead("x-5.1", "Part", labels=["ui"]),
    bead("x-6", "Gone", status="tombstone"),
]


@pytest.fixture
def bd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracker:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    (tmp_path / ".beads").mkdir()
    return Tracker(folder, "bd", BD, {each["id"]: each for each in ISSUES})


def made(root: Path, change: str = "beads") -> StorySource:
    return SOURCE.make(root, change, Options())


@pytest.mark.parametrize("way", ["", "old", "brief", "envelope"])
def test_issues_are_stories(tmp_path: Path, bd: Tracker, way: str) -> None:
    if way:
        bd.set(**{way: True})
    book = made(tmp_path).load()
    assert [(s.id, s.title, s.done, s.depends_on, bool(s.question)) for s in book.stories] == [
        ("x-1", "Set up", False, (), False),
        ("x-2", "Build", False, ("x-1",), False),
        ("x-3", "Later", False, (), True),
        ("x-4", "Before", True, (), False),
        ("x-5.1", "Part", False, (), False),
    ]
    first = book.stories[0]
    assert (first.body, first.acceptance, first.priority) == ("Do it", ("one", "two"), 1)
    assert [r.why for r in book.ignored] == ["The epic x-5 is not a story; its issues are."]
    assert book.problems == ()


@pytest.mark.parametrize(("change", "ids"), [("x-5", ["x-5.1"]), ("ui", ["x-2", "x-5.1"])])
def test_an_epic_or_a_label_is_a_change(
    tmp_path: Path, bd: Tracker, change: str, ids: list[str]
) -> None:
    book = made(tmp_path, change).load()
    assert [story.id for story in book.stories] == ids
    assert [bool(s.question) for s in book.stories] == [s.id == "x-2" for s in book.stories]


def test_nothing_for_a_name_is_a_problem(tmp_path: Path, bd: Tracker) -> None:
    (problem,) = made(tmp_path, "nothing").load().problems
    assert "no issue" in problem.why


def test_a_story_is_closed_and_claims_for_others_are_reopened(tmp_path: Path, bd: Tracker) -> None:
    source = made(tmp_path)
    before = source.load()
    bd.change("x-2", status="closed")
    (said,) = source.settle(before.stories[0], before)
    assert "x-2" in said
    states = {name: each["status"] for name, each in bd.state["issues"].items()}
    assert (states["x-1"], states["x-2"]) == ("closed", "in_progress")
    assert [call[:2] for call in bd.calls("close")] == [["close", "x-1"]]
    assert source.settle(before.stories[0], before) == ()
    assert len(bd.calls("close")) == 1


def test_what_a_failed_attempt_closed_is_reopened(tmp_path: Path, bd: Tracker) -> None:
    source = made(tmp_path)
    before = source.load()
    bd.change("x-1", status="closed")
    (said,) = source.take_back(before)
    assert "x-1" in said
    assert not source.load().stories[0].done
    assert source.take_back(before) == ()


def test_a_claim_that_cannot_be_taken_back_now_is_taken_back_later(
    tmp_path: Path, bd: Tracker
) -> None:
    source = made(tmp_path)
    before = source.load()
    bd.change("x-1", status="closed")
    bd.set(stubborn=True)
    with pytest.raises(StoriesError, match="database is locked"):
        source.take_back(before)
    assert not source.load().stories[0].done


def test_an_issue_with_another_title_is_lost(tmp_path: Path, bd: Tracker) -> None:
    source = made(tmp_path)
    before = source.load()
    bd.change("x-1", title="Something else")
    with pytest.raises(StoryLost):
        source.settle(before.stories[0], before)
    assert bd.calls("close") == []


def test_an_answer_that_is_not_json_is_an_error(tmp_path: Path, bd: Tracker) -> None:
    (tmp_path / "bin/bd").write_text("#!/bin/sh\necho Welcome\n")
    with pytest.raises(StoriesError, match="did not answer with JSON"):
        made(tmp_path).load()


def test_a_database_is_found_without_asking(tmp_path: Path, bd: Tracker) -> None:
    (row,) = SOURCE.find(tmp_path)
    assert (row.name, row.open, row.total) == ("beads", True, 0)
    (tmp_path / ".beads/issues.jsonl").write_text(
        '{"id": "x-1", "status": "closed"}\nbroken\n{"id": "x-2", "status": "open"}\n'
    )
    (row,) = SOURCE.find(tmp_path)
    assert (row.total, row.complete, row.why) == (2, 1, "")
    names = ("beads", "x-2", "nothing")
    assert [SOURCE.recognises(tmp_path, name) for name in names] == [True, True, False]
    assert bd.calls() == []


def test_without_the_program_everything_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert SOURCE.find(tmp_path) == ()
    (tmp_path / ".beads").mkdir()
    (row,) = SOURCE.find(tmp_path)
    assert "`bd` is not on PATH" in row.why
    assert "`bd` is not on PATH" in SOURCE.missing()
    with pytest.raises(StoriesError, match="`bd` is not on PATH"):
        made(tmp_path).load()
