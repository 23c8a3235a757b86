"""Finding OpenSpec changes, and what a story's prompt gets from one."""

from pathlib import Path

import pytest

from untildone.adapters.stories import openspec, openspec_documents
from untildone.adapters.stories.openspec import OpenSpec
from untildone.adapters.stories.source_kind import Found
from untildone.domain.errors import StoriesError
from untildone.domain.stories.story import Story, StoryContext, Task
from untildone.wiring.sources import changes, open_changes, story_source

TASKS = "## 1. A\n- [x] 1.1 a\n- [ ] 1.2 b\n"


def put(root: Path, path: str, text: str = TASKS) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def story(title: str = "A", *texts: str) -> Story:
    return Story("1", title, tuple(Task(str(n), text, False, n) for n, text in enumerate(texts)))


def test_an_archived_change_is_read_where_it_is(tmp_path: Path) -> None:
    put(tmp_path, f"{openspec.CHANGES}/demo/tasks.md")
    source = OpenSpec(tmp_path, "demo")
    archive = tmp_path / openspec.CHANGES / "archive"
    for name in ("2026-01-01-my-demo", "2025-01-01-demo", "demo-2"):
        put(archive, f"{name}/tasks.md", "- [ ] another\n")
    assert openspec.archived(tmp_path, "demo") == ""
    (tmp_path / openspec.CHANGES / "demo").rename(archive / "2026-02-03-demo")
    there = f"{openspec.CHANGES}/archive/2026-02-03-demo"
    assert openspec.archived(tmp_path, "demo") == there
    assert source.load().path == f"{there}/tasks.md"
    assert openspec.recognises(tmp_path, "demo")
    assert not openspec.recognises(tmp_path, "other")
    assert [found.name for found in openspec.find(tmp_path)] == []


def test_every_kind_of_entry(tmp_path: Path) -> None:
    changes = tmp_path / openspec.CHANGES
    put(tmp_path, "openspec/changes/b-plain/tasks.md")
    put(tmp_path, "openspec/changes/Ä name/tasks.md", "- [x] a\n")
    put(tmp_path, "openspec/changes/archive/2026-01-01-old/tasks.md")
    put(tmp_path, "openspec/changes/.hidden/tasks.md")
    put(tmp_path, "openspec/changes/capitals/TASKS.md")
    put(tmp_path, "openspec/changes/wrap/area/inner/proposal.md")
    put(tmp_path, "openspec/changes/a-file", "text")
    put(tmp_path, "openspec/changes/broken-metadata/tasks.md")
    put(tmp_path, "openspec/changes/broken-metadata/.openspec.yaml", "{")
    (changes / "empty").mkdir()
    (changes / "folder/tasks.md").mkdir(parents=True)
    (changes / "dangling").mkdir()
    (changes / "dangling/tasks.md").symlink_to("nowhere")
    (changes / "linked").symlink_to("b-plain")
    none = "It has no `tasks.md`."
    unread = "The story file cannot be read. It is"
    assert openspec.find(tmp_path) == (
        Found("b-plain", 2, 1),
        Found("broken-metadata", 2, 1),
        Found("capitals", why=none),
        Found(
            "dangling",
            why=f"{unread} a symbolic link to a file that does not exist (nowhere): "
            "openspec/changes/dangling/tasks.md",
        ),
        Found("empty", why=none),
        Found("folder", why=f"{unread} a directory: openspec/changes/folder/tasks.md"),
        Found("wrap", why="It only wraps other changes: wrap/area/inner"),
        Found("Ä name", 1, 1),
    )
    assert openspec.recognises(tmp_path, "linked")
    assert openspec.recognises(tmp_path, "dangling")
    assert not openspec.recognises(tmp_path, "empty")
    assert openspec.exists(tmp_path, "empty")
    assert not openspec.exists(tmp_path, "a-file")


def test_no_openspec_folder(tmp_path: Path) -> None:
    assert openspec.find(tmp_path) == ()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/", "a\\b", ".hidden", "archive", "\0"]
)
def test_names_that_are_no_change(tmp_path: Path, name: str) -> None:
    put(tmp_path, "openspec/changes/a/b/tasks.md")
    put(tmp_path, "openspec/changes/archive/tasks.md")
    put(tmp_path, "openspec/changes/.hidden/tasks.md")
    put(tmp_path, "openspec/x/tasks.md")
    assert not openspec.exists(tmp_path, name)
    assert not openspec.recognises(tmp_path, name)
    with pytest.raises(StoriesError):
        OpenSpec(tmp_path, name)


def test_the_plain_list_is_taken_where_no_change_claims_the_name(tmp_path: Path) -> None:
    def taken(name: str) -> bool:
        found = story_source("auto", tmp_path, name)
        return found is not None and found.name == "tasks-md"

    assert not taken("demo")
    put(tmp_path, "tasks.md")
    assert taken("demo")
    put(tmp_path, "openspec/changes/full/tasks.md")
    put(tmp_path, "openspec/changes/bare/proposal.md")
    found = {name: taken(name) for name in ("demo", "tasks", "full", "bare", "..")}
    assert found == {"demo": False, "tasks": True, "full": False, "bare": True, "..": False}


def test_what_may_be_there_for_other_reasons_is_only_open_when_nothing_else_is(
    tmp_path: Path,
) -> None:
    put(tmp_path, "tasks.md")
    put(tmp_path, "openspec/changes/full/tasks.md")
    assert [(row.source, row.name) for row in changes(tmp_path)] == [
        ("openspec", "full"),
        ("tasks-md", "tasks"),
    ]
    assert [row.name for row in open_changes(tmp_path)] == ["full"]
    put(tmp_path, "openspec/changes/full/tasks.md", "- [x] a\n")
    assert [row.name for row in open_changes(tmp_path)] == ["tasks"]


SPEC = """\
## Purpose

Words.

## ADDED Requirements

### Requirement: Export ##
The system SHALL export.

#### Scenario: As CSV
- **WHEN** asked
- **THEN** a file

```
## REMOVED Requirements
### Requirement: Not one
```

### Another heading

## modified requirements
### requirement: Import
It MUST import.

## REMOVED Requirements
- `### Requirement: Fax`

## RENAMED Requirements
- FROM: `### Requirement: Old`
- TO: `### Requirement: New`

## Notes
### Requirement: Orphan
"""


@pytest.mark.parametrize("text", [SPEC, "\ufeff" + SPEC, SPEC.replace("\n", "\r\n")])
def test_delta_specs(text: str) -> None:
    found = openspec_documents.requirements_of(text.encode(), "s.md")
    assert [(one.operation, one.name) for one in found] == [
        ("ADDED", "Export"),
        ("MODIFIED", "Import"),
        ("REMOVED", "Fax"),
        ("RENAMED", "New"),
    ]
    assert "#### Scenario: As CSV\n- **WHEN** asked" in found[0].text
    assert found[1].text == "### requirement: Import\nIt MUST import."
    assert found[3].text == "From: Old\nTo: New"


def test_context_of_both_eras(tmp_path: Path) -> None:
    home = "openspec/changes/demo"
    put(tmp_path, f"{home}/tasks.md")
    source = OpenSpec(tmp_path, "demo")
    assert source.context(story()) == StoryContext()
    put(tmp_path, "openspec/project.md", "x")
    put(tmp_path, "openspec/config.yaml", "schema: spec-driven\n")
    put(tmp_path, f"{home}/proposal.md", "x")
    put(tmp_path, f"{home}/design.md", "x")
    put(tmp_path, f"{home}/specs/b/spec.md", "## ADDED Requirements\n### Requirement: B\nb\n")
    put(tmp_path, f"{home}/specs/a/deep/spec.md", "## ADDED Requirements\n### Requirement: A\na\n")
    put(tmp_path, f"{home}/specs/a/notes.md", "x")
    specs = [f"{home}/specs/a/deep/spec.md", f"{home}/specs/b/spec.md"]
    context = source.context(story())
    assert context == StoryContext(
        pointers=(f"{home}/proposal.md", f"{home}/design.md", *specs, "openspec/project.md"),
        scenarios=(
            f"ADDED in {specs[0]}\n### Requirement: A\na",
            f"ADDED in {specs[1]}\n### Requirement: B\nb",
        ),
    )
    put(tmp_path, "openspec/config.yaml", "schema: spec-driven\ncontext: |\n  Use tabs.\n")
    assert source.context(story()).pointers == (*context.pointers, "openspec/config.yaml")


def requirement(name: str, size: int) -> openspec_documents.Requirement:
    return openspec_documents.Requirement("ADDED", name, f"{name}.md", f"{name} {'.' * size}")


def test_the_nearest_requirements_are_taken_when_there_are_too_many() -> None:
    many = [requirement(f"thing{n}", 1500) for n in range(8)] + [
        requirement("invoice export", 1500)
    ]
    taken = openspec_documents.fitting(many, story("Invoices", "Write the invoice export"))
    assert [entry.split("\n")[-1][:14].strip(" .") for entry in taken[:-1]] == [
        "invoice export",
        "thing0",
        "thing1",
    ]
    assert taken[-1].startswith(
        "6 more requirements are left out here; read the rest in: thing2.md, "
    )
    assert sum(map(len, taken[:-1])) <= openspec_documents.SCENARIOS_LIMIT


def test_texts_without_blanks_are_compared_too() -> None:
    many = [requirement(name, 4000) for name in ("画面表示", "請求書出力")]
    assert "請求書出力" in openspec_documents.fitting(many, story("請求書を作る"))[0]


def test_one_huge_requirement_is_cut() -> None:
    (entry,) = openspec_documents.fitting([requirement("a", 20_000)], story())
    assert entry.endswith("\n(The rest of this requirement is left out.)")
    assert len(entry) < openspec_documents.SCENARIOS_LIMIT + 100
