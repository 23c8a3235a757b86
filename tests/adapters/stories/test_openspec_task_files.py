"""Custom schemas of OpenSpec: which files are tracked. The counts are those of OpenSpec 1.13.2."""

from pathlib import Path

import pytest

from untildone.adapters.stories import openspec
from untildone.adapters.stories.openspec import OpenSpec

HOME = "openspec/changes/demo"
FILES = {
    "proposal.md": "## Why\n- [ ] p\n",
    "tasks.md": "- [ ] a\n- [x] b\n",
    "api/tasks.md": "- [ ] c\n",
    "api/v1/tasks.md": "- [x] d\n- [ ] e\n- [ ] f\n",
    "todo.md": "- [ ] t1\n- [ ] t2\n- [ ] t3\n- [ ] t4\n",
    "work/a.md": "- [x] w\n",
    "work/bb.md": "- [x] w\n- [ ] z\n",
    "todo/c.md": "- [ ] q\n",
    ".hid/tasks.md": "- [ ] h\n",
}
SCHEMA = """\
name: mine
version: 1
artifacts:
  - id: proposal
    generates: proposal.md
    requires: []
  - id: {id}
    generates: "{generates}"
    requires: [proposal]
apply:
  requires: [{id}]
{tracks}"""

# What the artifact generates, what is tracked, the artifact's id; tasks done and all, as
# `openspec list --json` counts them.
CASES: dict[str, tuple[str, str, str, tuple[int, int]]] = {
    "glob": ("**/tasks.md", "**/tasks.md", "tasks", (2, 6)),
    "literal": ("todo.md", "todo.md", "todo", (0, 4)),
    "tracks what does not exist": ("todo.md", "other.md", "tasks", (1, 2)),
    "tracks nothing": ("work/*.md", "", "tasks", (2, 3)),
    "tracks nothing and has no tasks": ("work/*.md", "", "work", (1, 2)),
    "braces": ("{work,todo}/*.md", "{work,todo}/*.md", "tasks", (2, 4)),
    "matches nothing": ("nothing/*.md", "nothing/*.md", "tasks", (1, 2)),
    "hidden folders": ("**/*.md", "**/*.md", "tasks", (4, 15)),
    "one character": ("work/?.md", "work/?.md", "tasks", (1, 1)),
}


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def project(root: Path, schema: str, config: str = "schema: mine\n") -> None:
    for path, text in FILES.items():
        put(root, f"{HOME}/{path}", text)
    put(root, "openspec/config.yaml", config)
    put(root, "openspec/schemas/mine/schema.yaml", schema)


@pytest.mark.parametrize("name", CASES)
def test_counts_are_those_of_the_program(tmp_path: Path, name: str) -> None:
    generates, tracks, artifact, counts = CASES[name]
    tracked = f'  tracks: "{tracks}"\n' if tracks else ""
    project(tmp_path, SCHEMA.format(id=artifact, generates=generates, tracks=tracked))
    (found,) = openspec.find(tmp_path)
    assert (found.complete, found.total, found.why) == (*counts, "")


def test_what_is_tracked_counts_even_if_no_artifact_generates_it(tmp_path: Path) -> None:
    tracked = '  tracks: "**/tasks.md"\n'
    project(tmp_path, SCHEMA.format(id="todo", generates="todo.md", tracks=tracked))
    (found,) = openspec.find(tmp_path)
    assert (found.complete, found.total) == (2, 6)


def test_each_file_keeps_its_own_boxes(tmp_path: Path) -> None:
    project(tmp_path, SCHEMA.format(id="tasks", generates="**/tasks.md", tracks=""))
    source = OpenSpec(tmp_path, "demo")
    before = source.load()
    assert [story.id for story in before.stories] == [
        "api.c",
        "api-v1.d",
        "api-v1.e",
        "api-v1.f",
        "a",
        "b",
    ]
    source.settle(before.stories[2], before)
    text = (tmp_path / HOME / "api/v1/tasks.md").read_text()
    assert text == FILES["api/v1/tasks.md"].replace("[ ] e", "[x] e")
    assert (tmp_path / HOME / "tasks.md").read_text() == FILES["tasks.md"]


@pytest.mark.parametrize(
    "config",
    ["schema: spec-driven\n", "other: x\n", "schema: unknown\n", "schema: 'mine' # ours\n"],
)
def test_which_schema_counts(tmp_path: Path, config: str) -> None:
    project(tmp_path, SCHEMA.format(id="tasks", generates="todo.md", tracks=""), config)
    (found,) = openspec.find(tmp_path)
    assert found.total == (4 if "mine" in config else 2)
    put(tmp_path, f"{HOME}/.openspec.yaml", "schema: mine\ncreated: 2026-01-01\n")
    (found,) = openspec.find(tmp_path)
    assert found.total == 4


@pytest.mark.parametrize("schema", ["", "- a\n", "x: &a 1\n", "artifacts: 3\napply: 4\n"])
def test_a_schema_that_says_nothing_leaves_tasks_md(tmp_path: Path, schema: str) -> None:
    project(tmp_path, schema)
    (found,) = openspec.find(tmp_path)
    assert found.total == 2


def test_a_pattern_that_leads_outside_is_not_followed(tmp_path: Path) -> None:
    project(tmp_path, SCHEMA.format(id="tasks", generates="../*.md", tracks=""))
    put(tmp_path, "openspec/changes/other.md", "- [ ] o\n")
    (found,) = openspec.find(tmp_path)
    assert found.total == 2


def test_a_change_without_tasks_md_is_recognised_by_its_schema(tmp_path: Path) -> None:
    project(tmp_path, SCHEMA.format(id="tasks", generates="work/*.md", tracks=""))
    (tmp_path / HOME / "tasks.md").unlink()
    assert openspec.recognises(tmp_path, "demo")
    assert not openspec.recognises(tmp_path, "other")
