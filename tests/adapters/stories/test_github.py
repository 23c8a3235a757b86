"""GitHub issues through a stand-in for `gh` that keeps them in a file."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.trackers import GH, Tracker, blocked_by, issue
from untildone.adapters.stories.github import SOURCE
from untildone.adapters.stories.source_kind import Options
from untildone.domain.errors import StoriesError
from untildone.ports import StorySource

BODY = "Text\r\n\r\n## Acceptance criteria\r\n- [ ] one\r\n- two\r\n\r\n## Notes\r\n- three\r\n"
ISSUES = [
    issue(7, "Second", "night", "P1", body="Depends on #3, #5\nsee #9"),
    issue(3, "First", "night", "priority: high", body=BODY, milestone="v1"),
    issue(4, "Not wanted", "night", state="CLOSED", stateReason="NOT_PLANNED"),
    issue(5, "Elsewhere", "day", state="CLOSED"),
    issue(8, "Waits", "night", blockedBy=blocked_by(9)),
    issue(9, "Open elsewhere", "good first issue"),
]


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracker:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return Tracker(folder, "gh", GH, {str(each["number"]): each for each in ISSUES})


def made(root: Path, change: str = "night") -> StorySource:
    return SOURCE.make(root, change, Options())


def test_issues_with_a_label_are_stories(tmp_path: Path, gh: Tracker) -> None:
    book = made(tmp_path).load()
    assert [(s.id, s.title, s.done, s.depends_on, s.priority) for s in book.stories] == [
        ("3", "First", False, (), 1),
        ("4", "Not wanted", True, (), None),
        ("7", "Second", False, ("3",), 1),
        ("8", "Waits", False, (), None),
    ]
    assert book.stories[0].acceptance == ("one", "two")
    assert [bool(story.question) for story in book.stories] == [False, False, False, True]
    assert [(r.line, r.why) for r in book.ignored] == [
        (4, "Issue #4 counts as done: it is not planned."),
        (8, "Issue #8 waits for others than these: #9"),
    ]
    assert (book.path, book.problems) == ("GitHub label night", ())


def test_an_older_program_knows_neither_links_nor_reasons(tmp_path: Path, gh: Tracker) -> None:
    gh.set(old=True)
    source = made(tmp_path)
    book = source.load()
    assert [story.id for story in book.stories] == ["3", "4", "7", "8"]
    assert [bool(story.question) for story in book.stories] == [False] * 4
    assert book.ignored == ()
    calls = len(gh.calls("issue", "list"))
    source.load()
    assert (calls, len(gh.calls("issue", "list"))) == (3, 4)


NAMES = [
    ("v1", "milestone v1", ["3"]),
    ("2026", "milestone 2026", ["11"]),
    ("good-first-issue", "label good first issue", ["9"]),
    ("second-half", "milestone Second half", ["12"]),
    ("api,cli", "label api,cli", ["13"]),
    ('say"hi"', 'label say"hi"', ["14"]),
]


@pytest.mark.parametrize(("change", "path", "ids"), NAMES)
def test_a_milestone_or_the_name_of_a_label(
    tmp_path: Path, gh: Tracker, change: str, path: str, ids: list[str]
) -> None:
    more = [
        issue(11, "Year", milestone="2026"),
        issue(12, "Half", milestone="Second half"),
        issue(13, "Both", "api,cli"),
        issue(14, "Said", 'say"hi"'),
        issue(15, "One of both", "api"),
    ]
    gh.set(issues=gh.state["issues"] | {str(each["number"]): each for each in more})
    source = made(tmp_path, change)
    book = source.load()
    assert ([story.id for story in book.stories], book.path) == (ids, f"GitHub {path}")
    calls = len(gh.calls())
    source.load()
    assert len(gh.calls()) == calls + 1


def test_no_such_label_is_a_problem(tmp_path: Path, gh: Tracker) -> None:
    (problem,) = made(tmp_path, "nothing").load().problems
    assert "No issue has this label or milestone" in problem.why


def test_issues_are_closed_and_reopened(tmp_path: Path, gh: Tracker) -> None:
    source = made(tmp_path)
    before = source.load()
    gh.change("7", state="CLOSED")
    (said,) = source.settle(before.stories[0], before)
    assert "7" in said
    states = {name: each["state"] for name, each in gh.state["issues"].items()}
    assert (states["3"], states["7"]) == ("CLOSED", "OPEN")
    assert gh.calls("issue", "close")[0][2:4] == ["3", "--comment"]
    source.take_back(before)
    assert gh.state["issues"]["3"]["state"] == "OPEN"


WAITS = [
    ({"blockedBy": blocked_by(3)}, (("3",), "")),
    ({"blockedBy": blocked_by(3, where="ADA/night")}, (("3",), "")),
    ({"blockedBy": blocked_by(3, where="ada/day")}, ((), "ada/day#3")),
    ({"blockedBy": blocked_by(3, where="ada/day", state="CLOSED")}, ((), "")),
    ({"blockedBy": blocked_by(9, state="CLOSED")}, ((), "")),
    ({"body": "Depends on #20"}, ((), "")),
    ({"body": "Depends on #21"}, ((), "#21")),
    ({"body": "Depends on #404"}, ((), "#404")),
]


@pytest.mark.parametrize(("fields", "waits"), WAITS)
def test_what_an_issue_waits_for(
    tmp_path: Path, gh: Tracker, fields: dict[str, Any], waits: tuple[tuple[str, ...], str]
) -> None:
    more = {
        "8": issue(8, "Waits", "night", **fields),
        "20": issue(20, "Merged", state="MERGED", pull=True),
        "21": issue(21, "Open", "night", pull=True),
    }
    gh.set(issues=gh.state["issues"] | more)
    book = made(tmp_path).load()
    (story,) = [each for each in book.stories if each.id == "8"]
    said = [r.why.rpartition(": ")[2] for r in book.ignored if r.line == 8]
    assert (story.depends_on, said) == (waits[0], [waits[1]] if waits[1] else [])
    assert bool(story.question) == bool(waits[1])


def test_a_duplicate_counts_as_done(tmp_path: Path, gh: Tracker) -> None:
    gh.change("4", stateReason="DUPLICATE")
    whys = [remark.why for remark in made(tmp_path).load().ignored]
    assert "Issue #4 counts as done: it is a duplicate." in whys


@pytest.mark.parametrize(("way", "code"), [("logged_out", 4), ("expired", 1)])
def test_who_is_not_logged_in_is_told_how(tmp_path: Path, gh: Tracker, way: str, code: int) -> None:
    gh.set(**{way: True})
    with pytest.raises(StoriesError, match=f"exit code {code}") as caught:
        made(tmp_path).load()
    assert caught.value.hint == "gh auth login"


def test_a_call_that_fails_does_not_count_as_an_answer(tmp_path: Path, gh: Tracker) -> None:
    gh.set(offline=True)
    with pytest.raises(StoriesError, match="error connecting") as caught:
        made(tmp_path, "v1").load()
    assert caught.value.hint != "gh auth login"


def test_nothing_is_asked_unless_it_is_named(tmp_path: Path, gh: Tracker) -> None:
    assert not SOURCE.find(tmp_path)
    assert not SOURCE.recognises(tmp_path, "night")
    assert SOURCE.missing() == ""
    assert gh.calls() == []


def test_without_the_program_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoriesError, match="`gh` is not on PATH"):
        made(tmp_path).load()
