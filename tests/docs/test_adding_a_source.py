"""`docs/adding-a-story-source.md` is followed to the letter, in a copy of the source."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import fields

from tests.docs.pages import DOCS, ROOT
from tests.docs.test_adding_an_agent import _BLOCK, _REFERENCE, call, edited
from untildone.adapters.stories.checklists.checklist import Rules
from untildone.adapters.stories.source_kind import Found, Kind, Options
from untildone.domain.stories.story import Remark, Story, StoryBook, StoryContext, Task
from untildone.settings.choices import SOURCES

PAGE = (DOCS / "adding-a-story-source.md").read_text(encoding="utf-8")
TESTS = (
    "tests/adapters/stories/test_story_lines.py",
    "tests/architecture/test_startup.py",
    "tests/conftest.py",
    "tests/contracts/test_story_source.py",
    "tests/fakes/source.py",
    "tests/fakes/story_files.py",
    "tests/fakes/trackers.py",
    "docs/story-formats.md",
)
VALUES = (Kind, Found, Options, Rules, Story, Task, StoryBook, Remark, StoryContext)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The source and some tests, with everything that the page adds."""
    top = tmp_path / "untildone"
    shutil.copytree(ROOT / "src", top / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*TESTS, "pyproject.toml"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, top / name)
    for how, name, code in _BLOCK.findall(PAGE):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        assert path.exists() == (how == "edit"), name
        path.write_text(edited(path.read_text(), code) if how == "edit" else code)
    return top


def test_the_tests_of_the_page_pass_and_the_contract_takes_it_in(copy: Path) -> None:
    names = "acme or every_source or patterns_of_a_module"
    said = call(copy, "pytest", "-q", "-rp", "-p", "no:cacheprovider", "-k", names, "tests")
    assert set(re.findall(r"^PASSED tests/(\S+?)::", said, re.MULTILINE)) == {
        "adapters/stories/test_acme.py",
        "adapters/stories/test_story_lines.py",
        "architecture/test_startup.py",
        "contracts/test_story_source.py",
    }
    added = [name for _, name, _ in _BLOCK.findall(PAGE) if name.endswith(".py")]
    call(copy, "ruff", "check", "-q", "--no-cache", *added)
    call(copy, "ruff", "format", "-q", "--no-cache", "--check", *added)


def test_two_stories_are_driven_to_done(copy: Path, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    (shop / ".acme").mkdir(parents=True)
    plan = "## 2. Two\nNeeds: 1\n- [ ] 2.1 b\n\n## 1. One\n- [ ] 1.1 a\n"
    (shop / ".acme/sale.md").write_text(plan)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run(["git", *words], cwd=shop, check=True)
    listed = json.loads(call(copy, "untildone", "stories", "--json", cwd=shop))
    assert [(row["name"], row["source"]) for row in listed["changes"]] == [("sale", "acme")]
    agent = "sh -c 'cat > /dev/null; echo \"<promise>COMPLETE</promise>\"'"
    said = call(copy, "untildone", "run", "--agent-cmd", agent, "--json", cwd=shop)
    events = [json.loads(line) for line in said.splitlines()]
    started = [event["story_id"] for event in events if event["event"] == "iteration_started"]
    assert (started, events[-1]["status"]) == (["1", "2"], "done")
    assert (shop / ".acme/sale.md").read_text() == plan.replace("[ ]", "[x]")


def test_story_formats_has_a_row_for_every_source() -> None:
    text = (DOCS / "story-formats.md").read_text(encoding="utf-8")
    table = text.partition("## Where the file is")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
    assert sorted(rows) == sorted(SOURCES)


def test_the_reference_has_every_field_and_no_other() -> None:
    row = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
    found = {name: row.findall(body) for name, body in _REFERENCE.findall(PAGE)}
    known = {
        kind.__name__: [f.name for f in fields(kind) if not f.name.startswith("_")]
        for kind in VALUES
    }
    assert found == known
