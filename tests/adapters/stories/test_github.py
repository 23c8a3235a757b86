"""GitHub issues through a stand-in for `gh` that keeps them in a file."""

from pathlib import Path

import pytest

from tests.fakes.trackers import GH, Tracker, issue
from untildone.adapters.stories.github import SOURCE
from untildone.adapters.stories.kind import Options
from untildone.domain.errors import StoriesError
from untildone.ports import StorySource

BODY = "Text\r\n\r\n## Acceptance criteria\r\n- [ ] one\r\n- two\r\n\r\n## Notes\r\n- three\r\n"
ISSUES = [
    issue(7, "Second", "night", "P1", body="Depends on #3, #5\nsee #9"),
    issue(3, "First", "night", "priority: high", body=BODY, milestone="v1"),
    issue(4, "Not wanted", "night", state="CLOSED", stateReason="NOT_PLANNED"),
    issue(5, "Elsewhere", "day", state="CLOSED"),
    issue(8, "Waits", "night", blockedBy={"nodes": [{"number": 9}]}),
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


@pytest.mark.parametrize("way", ["", "old"])
def test_issues_with_a_label_are_stories(tmp_path: Path, gh: Tracker, way: str) -> None:
    if way:
        gh.set(old=True)
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


@pytest.mark.parametrize(("change", "ids"), [("v1", ["3"]), ("good-first-issue", ["9"])])
def test_a_milestone_or_the_name_of_a_label(
    tmp_path: Path, gh: Tracker, change: str, ids: list[str]
) -> None:
    source = made(tmp_path, change)
    assert [story.id for story in source.load().stories] == ids
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


def test_who_is_not_logged_in_is_told_how(tmp_path: Path, gh: Tracker) -> None:
    gh.set(logged_out=True)
    with pytest.raises(StoriesError, match="exit code 4") as caught:
        made(tmp_path).load()
    assert caught.value.hint == "gh auth login"


def test_nothing_is_asked_unless_it_is_named(tmp_path: Path, gh: Tracker) -> None:
    assert not SOURCE.find(tmp_path)
    assert not SOURCE.recognises(tmp_path, "night")
    assert SOURCE.missing() == ""
    assert gh.calls() == []


def test_without_the_program_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoriesError, match="`gh` is not on PATH"):
        made(tmp_path).load()
