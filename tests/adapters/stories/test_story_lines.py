"""Lines for the loop in every source, where a person would write them, and prose that is none."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import Struct

from tests.fakes.trackers import BD, GH, Tracker, bead, issue
from untildone.adapters.stories.source_kind import Options
from untildone.domain.checks import checks
from untildone.domain.stories.story import Story
from untildone.settings.choices import SOURCES
from untildone.wiring.sources import kind

LINES = (
    "Agent: codex",
    "Model: o4-mini",
    "Touches: src/api/**, docs/api.md",
    "Depends: {first}",
    "Verify: `make api`",
    "Tests: may shrink",
    "Budget: cost=2, tokens=300k",
)
PROSE = (
    "Agent: whoever has time",
    "Model: the one of the user",
    "Touches: the page and its style",
    "Depends: on what we decide next week",
    "Verify: that the page is shown",
    "Tests: one for each page",
    "Budget: as little as possible",
)


class Place(Struct, frozen=True):
    """Where a source has its text: the files, and the ids of the first story and of the second.

    `{lines}` stands for the lines, `{listed}` for a list of them, each with blanks before it.
    """

    change: str
    files: Mapping[str, str]
    ids: tuple[str, str]


def objects(key: str, field: str) -> str:
    rows = [{"id": "a", "title": "A"}, {"id": "b", "title": "B", field: "{json}"}]
    return json.dumps({key: rows}).replace('"{json}"', "{json}")


def tasks(field: str) -> str:
    rows = [{"id": 1, "title": "A"}, {"id": 2, "title": "B", field: "{json}"}]
    return json.dumps({"master": {"tasks": rows}}).replace('"{json}"', "{json}")


HEADED = "## 1. A\n- [ ] 1.1 a\n## 2. B\n"
SPRINT = "_bmad-output/implementation-artifacts"
STATUS = "development_status:\n  1-1-a: ready-for-dev\n  1-2-b: ready-for-dev\n"
PAGE = "# Story 1.2: B\n\nStatus: ready-for-dev\n{top}\n## Story\n\nI want it.\n{story}\n"
PAGE += "## Dev Notes\n{notes}\n## Dev Agent Record\nAgent: gemini\nModel: old\n"


def sprint(**where: str) -> dict[str, str]:
    empty = {"top": "", "story": "", "notes": ""}
    page = PAGE.format(**(empty | where))
    first = "# Story 1.1: A\n\nStatus: ready-for-dev\n"
    return {
        f"{SPRINT}/sprint-status.yaml": STATUS,
        f"{SPRINT}/1-1-a.md": first,
        f"{SPRINT}/1-2-b.md": page,
    }


def checklists() -> dict[str, Place]:
    found = {}
    for source, change, path in (
        ("openspec", "x", "openspec/changes/x/tasks.md"),
        ("tasks-md", "tasks", "tasks.md"),
        ("markdown", "prd", "PRD.md"),
    ):
        ids = ("1", "2")
        above = {path: HEADED + "{lines}\n- [ ] 2.1 b\n"}
        found[f"{source}, below the heading"] = Place(change, above, ids)
        found[f"{source}, below the task"] = Place(
            change, {path: HEADED + "- [ ] 2.1 b\n{listed}\n"}, ids
        )
        behind = {path: HEADED + "- [ ] 2.1 b\n\n{lines}\n\n## 3. C\n- [ ] 3.1 c\n"}
        found[f"{source}, behind the tasks"] = Place(change, behind, ids)
    return found


BACKLOG = "---\nid: task-{n}\ntitle: T\n---\n## Description\n\n"
PLACES = checklists() | {
    "speckit, below the heading": Place(
        "001-x",
        {
            "specs/001-x/tasks.md": "## Phase 1: A\n- [ ] T001 a\n## Phase 2: B\n{lines}\n"
            "- [ ] T002 b\n"
        },
        ("phase-1", "phase-2"),
    ),
    "speckit, below the task": Place(
        "001-x",
        {
            "specs/001-x/tasks.md": "## Phase 1: A\n- [ ] T001 a\n## Phase 2: B\n"
            "- [ ] T002 b\n{listed}"
        },
        ("phase-1", "phase-2"),
    ),
    "kiro, below the task": Place(
        "x", {".kiro/specs/x/tasks.md": "- [ ] 1. A\n- [ ] 2. B\n{listed}\n"}, ("1", "2")
    ),
    "kiro, below a part of it": Place(
        "x",
        {".kiro/specs/x/tasks.md": "- [ ] 1. A\n- [ ] 2. B\n  - [ ] 2.1 b\n{deeper}\n"},
        ("1", "2"),
    ),
    "bmad, at the top": Place("sprint", sprint(top="{lines}"), ("1-1-a", "1-2-b")),
    "bmad, in the story": Place("sprint", sprint(story="{lines}"), ("1-1-a", "1-2-b")),
    "bmad, in the notes": Place("sprint", sprint(notes="{listed}"), ("1-1-a", "1-2-b")),
    "prd-json, description": Place(
        "prd", {"prd.json": objects("userStories", "description")}, ("a", "b")
    ),
    "prd-json, notes": Place("prd", {"prd.json": objects("userStories", "notes")}, ("a", "b")),
    "taskmaster, details": Place(
        "master", {".taskmaster/tasks/tasks.json": tasks("details")}, ("1", "2")
    ),
    "taskmaster, test strategy": Place(
        "master", {".taskmaster/tasks/tasks.json": tasks("testStrategy")}, ("1", "2")
    ),
    "backlog-md, description": Place(
        "backlog",
        {
            "backlog/tasks/task-1 - A.md": BACKLOG.replace("{n}", "1"),
            "backlog/tasks/task-2 - B.md": BACKLOG.replace("{n}", "2") + "{lines}\n",
        },
        ("task-1", "task-2"),
    ),
    "ralphy, description": Place(
        "tasks",
        {"tasks.yaml": "tasks:\n  - title: A\n  - title: B\n    description: |\n{yaml}"},
        ("a", "b"),
    ),
    "beads, description": Place("beads", {".beads/config.yaml": ""}, ("x-1", "x-2")),
    "beads, notes": Place("beads", {".beads/config.yaml": ""}, ("x-1", "x-2")),
    "github, text": Place("night", {}, ("1", "2")),
}


def test_every_source_has_a_place() -> None:
    assert {name.partition(",")[0] for name in PLACES} == set(SOURCES)


def read(root: Path, name: str, lines: tuple[str, ...]) -> Story:
    place = PLACES[name]
    said = [line.replace("{first}", place.ids[0]) for line in lines]
    texts = {
        "{lines}": "\n".join(said),
        "{listed}": "\n".join(f"  - {line}" for line in said),
        "{deeper}": "\n".join(f"    - {line}" for line in said),
        "{yaml}": "\n".join(f"      {line}" for line in said),
        "{json}": json.dumps("\n".join(said)),
    }
    for path, text in place.files.items():
        for sign, written in texts.items():
            text = text.replace(sign, written)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    source, _, where = name.partition(", ")
    (root / "bin").mkdir()
    whole = texts["{lines}"]
    if source == "beads":
        issues = [bead("x-1", "A"), bead("x-2", "B", **{where: whole})]
        Tracker(root / "bin", "bd", BD, {each["id"]: each for each in issues})
    elif source == "github":
        both = [issue(1, "A", "night"), issue(2, "B", "night", body=whole)]
        Tracker(root / "bin", "gh", GH, {str(each["number"]): each for each in both})
    book = kind(source).make(root, place.change, Options()).load()
    assert book.problems == ()
    return next(story for story in book.stories if story.id == place.ids[1])


@pytest.mark.parametrize("name", PLACES)
def test_lines_are_read_where_a_person_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    story = read(tmp_path, name, LINES)
    assert (story.agent, story.model, story.touches, PLACES[name].ids[0] in story.depends_on) == (
        *("codex", "o4-mini", ("src/api/**", "docs/api.md"), True),
    )
    assert (checks.written_checks(story), checks.may_shrink(story)) == (("make api",), True)
    assert checks.written_budget(story) == ("story-cost=2", "story-tokens=300k")
    assert story.question == ""


@pytest.mark.parametrize("name", PLACES)
def test_prose_that_begins_like_a_line_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    story = read(tmp_path, name, PROSE)
    assert (story.agent, story.model, story.touches, story.question) == ("", "", (), "")
    assert set(story.depends_on) <= {PLACES[name].ids[0]}  # what the format itself says
    assert (checks.written_checks(story), checks.may_shrink(story)) == ((), False)
    assert checks.written_budget(story) == ()


@pytest.mark.parametrize("name", ["tasks-md, below the heading", "prd-json, notes"])
def test_a_check_behind_a_long_text_is_not_cut_off(tmp_path: Path, name: str) -> None:
    long = ("```", *("x = 1" for _ in range(3000)), "```", "Verify: `make api`")
    story = read(tmp_path, name, long)
    assert len(story.body) < 9000
    assert checks.written_checks(story) == ("make api",)


@pytest.mark.parametrize("name", ["prd-json, notes", "taskmaster, test strategy"])
def test_a_check_that_is_all_a_field_says_is_read(tmp_path: Path, name: str) -> None:
    assert checks.written_checks(read(tmp_path, name, ("Verify: `make api`",))) == ("make api",)
