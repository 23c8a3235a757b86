"""Beads through a stand-in for `bd` that keeps its issues in a file."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.trackers import BD, Tracker, bead
from untildone.adapters.stories.beads import SOURCE
from untildone.adapters.stories.source_kind import Options
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


def of(bd: Tracker, *issues: dict[str, Any]) -> None:
    bd.set(issues={each["id"]: each for each in issues})


@pytest.mark.parametrize("way", ["", "brief"])
def test_children_are_found_by_their_link(tmp_path: Path, bd: Tracker, way: str) -> None:
    bd.set(**{way or "new": True})
    epic = bead("x-a", "All", issue_type="epic")
    of(bd, epic, bead("x-b", "Part", parent="x-a"), bead("x-c", "Other"))
    book = made(tmp_path, "x-a").load()
    assert [story.id for story in book.stories] == ["x-b"]


def test_records_of_the_tracker_are_no_stories_and_no_parts_of_them(
    tmp_path: Path, bd: Tracker
) -> None:
    of(
        bd,
        bead("x-1", "Work"),
        bead("x-1.1", "State changed", issue_type="event", parent="x-1"),
        bead("x-2", "Session ended", issue_type="event", status="closed"),
        bead("x-3", "Patrol", issue_type="molecule"),
        bead("x-4", "Steps", issue_type="molecule"),
        bead("x-4.1", "A step", parent="x-4"),
        bead("x-5", "witness", issue_type="agent"),
        bead("x-6", "Behind a gate", "x-7"),
        bead("x-7", "Wait for CI", issue_type="gate"),
        bead("x-8", "A pattern", is_template=True),
        bead("x-9", "Swept away", ephemeral=True),
    )
    book = made(tmp_path).load()
    assert [(s.id, s.depends_on, bool(s.question)) for s in book.stories] == [
        ("x-1", (), False),
        ("x-4.1", (), False),
        ("x-6", (), True),
    ]
    assert [(s.id, s.done) for s in book.records] == [("x-1.1", False), ("x-2", True)]
    assert book.next_story(frozenset()) == book.stories[0]


def test_what_has_parts_comes_after_them(tmp_path: Path, bd: Tracker) -> None:
    whole = bead("x-1", "Whole", issue_type="feature", priority=0)
    of(bd, whole, bead("x-1.1", "Part", parent="x-1"), bead("x-2", "Part too", parent="x-1"))
    source = made(tmp_path)
    book = source.load()
    assert [s.depends_on for s in book.stories] == [("x-1.1", "x-2"), (), ()]
    for story in (book.stories[1], book.stories[2], book.stories[0]):
        source.settle(story, source.load())
    assert all(story.done for story in source.load().stories)


def test_what_an_epic_blocks_waits_for_its_issues(tmp_path: Path, bd: Tracker) -> None:
    of(
        bd,
        bead("x-1", "All", issue_type="epic"),
        bead("x-1.1", "Half", issue_type="epic", parent="x-1"),
        bead("x-1.1.1", "Part", parent="x-1.1"),
        bead("x-1.2", "Deleted", parent="x-1", status="tombstone"),
        bead("x-2", "Next", "x-1", issue_type="epic"),
        bead("x-2.1", "Part of next", parent="x-2"),
        bead("x-3", "After", "x-1"),
    )
    source = made(tmp_path)
    book = source.load()
    rows = [(s.id, s.depends_on, bool(s.question)) for s in book.stories]
    waits = ("x-1.1.1",)
    assert rows == [("x-1.1.1", (), False), ("x-2.1", waits, False), ("x-3", waits, False)]
    assert book.problems == ()
    source.settle(book.stories[0], book)
    rows = [(s.id, s.depends_on, bool(s.question)) for s in source.load().stories]
    # `bd` closes nothing that an open epic blocks, and when an epic is done a person says.
    assert rows == [("x-1.1.1", (), False), ("x-2.1", (), False), ("x-3", (), True)]


@pytest.mark.parametrize(("state", "waits"), [("open", True), ("closed", False), ("gone", True)])
def test_a_blocker_that_is_not_listed_is_asked_for(
    tmp_path: Path, bd: Tracker, state: str, waits: bool
) -> None:
    gates = [bead("x-9", "Gate", issue_type="gate", status=state)] if state != "gone" else []
    of(bd, bead("x-1", "Work", "x-9"), *gates)
    book = made(tmp_path).load()
    assert [(story.id, bool(story.question)) for story in book.stories] == [("x-1", waits)]
    assert [remark.why.rpartition(": ")[2] for remark in book.ignored] == ["x-9"] * waits


def test_what_is_pinned_is_no_work(tmp_path: Path, bd: Tracker) -> None:
    of(bd, bead("x-1", "Always", pinned=True), bead("x-2", "Work"))
    assert [bool(story.question) for story in made(tmp_path).load().stories] == [True, False]


@pytest.mark.parametrize(
    ("way", "said"),
    [("old", "`bd close x-1` changed nothing: the issue is open"), ("new", "cannot close x-1")],
)
def test_an_issue_that_stays_open_is_an_error(
    tmp_path: Path, bd: Tracker, way: str, said: str
) -> None:
    bd.set(**{way: True})
    source = made(tmp_path)
    before = source.load()
    bd.change("x-1", pinned=True)
    with pytest.raises(StoriesError, match=said):
        source.settle(before.stories[0], before)


def test_a_claim_that_stays_is_an_error(tmp_path: Path, bd: Tracker) -> None:
    source = made(tmp_path)
    before = source.load()
    bd.change("x-1", status="closed")
    bd.set(silent=True)
    with pytest.raises(StoriesError, match="`bd reopen x-1` changed nothing"):
        source.take_back(before)
    bd.set(silent=False)
    assert not source.load().stories[0].done


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


def test_an_issue_that_became_another_is_lost(tmp_path: Path, bd: Tracker) -> None:
    source = made(tmp_path)
    before = source.load()
    bd.change("x-1", title="Something else", description="And other words", design="", notes="")
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


def test_without_an_export_an_epic_or_a_label_is_asked_for(tmp_path: Path, bd: Tracker) -> None:
    names = ("beads", "x-5", "ui", "nothing")
    assert [SOURCE.recognises(tmp_path, name) for name in names] == [True, True, True, False]
    (tmp_path / "bin/bd").write_text("#!/bin/sh\nexit 1\n")
    assert not SOURCE.recognises(tmp_path, "x-5")


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


def test_an_issue_comes_after_its_parts(tmp_path: Path, bd: Tracker) -> None:
    parts = [bead("y-1", "All of it", priority=0), bead("y-1.1", "A"), bead("y-1.2", "B", "y-1.1")]
    bd.set(issues={each["id"]: each for each in parts})
    book = made(tmp_path).load()
    assert [(s.id, s.depends_on) for s in book.stories] == [
        ("y-1", ("y-1.1", "y-1.2")),
        ("y-1.1", ()),
        ("y-1.2", ("y-1.1",)),
    ]
    bd.change("y-1.1", status="closed")
    assert made(tmp_path).load().stories[0].depends_on == ("y-1.2",)


def test_parts_that_wait_for_the_whole_make_no_circle(tmp_path: Path, bd: Tracker) -> None:
    parts = [bead("y-1", "All of it"), bead("y-1.1", "A", "y-1")]
    bd.set(issues={each["id"]: each for each in parts})
    book = made(tmp_path).load()
    assert ([s.depends_on for s in book.stories], book.problems) == ([(), ("y-1",)], ())


def test_a_name_is_an_issue_or_a_label_and_no_other_word(tmp_path: Path) -> None:
    (tmp_path / ".beads").mkdir()
    line = '{"id":"x-1","title":"A","status":"open","issue_type":"bug","labels":["ui"]}\n'
    (tmp_path / ".beads/issues.jsonl").write_text(line)
    names = ("x-1", "ui", "bug", "open", "title", "A", "x-2")
    known = [name for name in names if SOURCE.recognises(tmp_path, name)]
    assert known == ["x-1", "ui"]


def test_a_database_whose_issues_are_all_closed_keeps_nobody_waiting(tmp_path: Path) -> None:
    (tmp_path / ".beads").mkdir()
    (tmp_path / ".beads/issues.jsonl").write_text('{"id":"x-1","status":"closed"}\n')
    assert [row.open for row in SOURCE.find(tmp_path)] == [False]
