"""The documents say what the program does: they are compared with it, not trusted."""

import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import diagram
from tests.docs.pages import DOCS, PAGES, ROOT, all_commands, made, schema
from untildone.adapters.stories.checklists import checklist
from untildone.domain.agents.agent import Kind, Trouble
from untildone.interfaces.cli.command_table import COMMANDS
from untildone.interfaces.cli.plan.init import configuration
from untildone.settings.choices import PROGRAMS
from untildone.settings.settings import SETTINGS

README = ROOT / "README.md"
PICTURES = sorted((DOCS / "images").glob("*.svg"))
PHOTOGRAPHS = sorted((DOCS / "images").glob("*.png"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
AGAIN = "run `.venv/bin/python -m tests.docs.pages`"

FENCED = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*?) *$", re.MULTILINE)
_CALL = re.compile(r"(?:^|[$|;&] *)untildone +([a-z][a-z-]*)", re.MULTILINE)
_MAKE = re.compile(r"(?:^|[$|;&] *)make +([a-z]+)", re.MULTILINE)
_EVENT = re.compile(r"\bEvent\(\s*\"(\w+)\"")
# Folders of one machine; a document is for everybody.
_MACHINE = re.compile(r"(?<!\w)/(?:work|root|home/\w+|Users/\w+|tmp/[\w.-]+)(?:/|\b)")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def code_of(text: str) -> Iterator[str]:
    """Everything that is set as code: fenced blocks but those of output, and code in a line."""
    yield from (body for _, language, body in FENCED.findall(text) if language != "text")
    yield from INLINE.findall(FENCED.sub("", text))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, made as the usual viewers make them."""
    titles = _HEADING.findall(FENCED.sub("", text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def sections(text: str) -> dict[str, str]:
    """The second-level sections of a page by their titles, code marks taken off."""
    parts = re.split(r"^## +(.*)$", text, flags=re.MULTILINE)
    return {title.strip("` "): body for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def first_column(text: str) -> set[str]:
    return set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


# -- made from the program ---------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_made_pages_are_what_the_program_says(name: str) -> None:
    text = text_of(DOCS / name)
    assert made(text) == text, AGAIN


@pytest.mark.parametrize("name", PAGES)
def test_no_row_of_a_made_table_lacks_its_meaning(name: str) -> None:
    assert re.findall(r"^\| `.*\| +\|$", text_of(DOCS / name), re.MULTILINE) == []


def test_cli_page_has_every_command() -> None:
    wanted = {f"untildone {name}" for name in all_commands()}
    assert set(sections(text_of(DOCS / "cli.md"))) == wanted, AGAIN


def test_configuration_page_and_init_have_every_key() -> None:
    keys = sections(text_of(DOCS / "configuration.md"))["Keys"]
    assert first_column(keys) == set(SETTINGS)
    written = re.findall(r"^#?(\w+) = ", configuration(), re.MULTILINE)
    assert written == list(SETTINGS)


def test_example_configuration_has_known_keys_only() -> None:
    blocks = [
        b for _, lang, b in FENCED.findall(text_of(DOCS / "configuration.md")) if lang == "toml"
    ]
    keys = {key for block in blocks for key in tomllib.loads(block)}
    assert keys
    assert keys <= set(SETTINGS)


def test_state_page_has_every_field_of_the_schema() -> None:
    parts = sections(text_of(DOCS / "state-file.md"))
    rules = schema()["properties"]
    assert first_column(parts["Top level"]) == set(rules)
    assert first_column(parts["An iteration"]) == set(rules["iterations"]["items"]["properties"])


def test_agents_page_has_every_agent_and_every_kind_of_failure() -> None:
    parts = sections(text_of(DOCS / "agents.md"))
    assert [name for name in PROGRAMS if f"<!-- made: agent-{name} -->" not in parts[name]] == []
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*?) \|$", parts["When a call fails"], re.MULTILINE)
    free = {kind for kind in Kind if Trouble(kind, "").passing} | {Kind.NOT_LOGGED_IN}
    assert dict(rows) == {kind: "is not used" if kind in free else "is used" for kind in Kind}


# -- events ------------------------------------------------------------------------------------


def documented_events() -> dict[str, set[str]]:
    return {
        name: first_column(body) for name, body in sections(text_of(DOCS / "events.md")).items()
    }


def test_every_event_of_the_source_is_documented() -> None:
    files = (ROOT / "src").rglob("*.py")
    assert {name for path in files for name in _EVENT.findall(text_of(path))} == set(
        documented_events()
    )


def test_examples_of_events_are_of_their_event() -> None:
    known = documented_events()
    for name, body in sections(text_of(DOCS / "events.md")).items():
        (example,) = [json.loads(b) for _, lang, b in FENCED.findall(body) if lang == "json"]
        assert example["event"] == name
        assert set(example) - {"v", "seq", "at", "event"} <= known[name]


def test_events_of_a_real_run_have_documented_fields(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.write_text(
        "#!/bin/sh\ncat > prompt.txt\n"
        'case "$UNTILDONE_STORY_ID/$UNTILDONE_ATTEMPT" in\n'
        '  1/1) echo "<promise>FAILED: not today</promise>" ;;\n'
        '  1/*) echo "<promise>COMPLETE</promise>" ;;\nesac\n'
    )
    agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "tasks.md").write_text("## 1. One\n- [ ] 1.1 a\n\n## 2. Two\n- [ ] 2.1 b\n[ ] 2.2 c\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run(["git", *words], cwd=shop, check=True)
    flags = ["--agent-cmd", str(agent), "--verify", "true", "--max-retries", "1", "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "untildone", "run", *flags],
        cwd=shop,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    known = documented_events()
    unknown = {
        (event["event"], field)
        for event in events
        for field in set(event) - {"v", "seq", "at", "event"} - known[event["event"]]
    }
    assert unknown == set()
    assert {"retrying", "verify_ended", "checkpoint_saved", "error", "finished"} <= {
        event["event"] for event in events
    }


# -- stories -----------------------------------------------------------------------------------


def examples(name: str) -> dict[str, str]:
    found = re.findall(
        r"<!-- example: (\w+) -->\n```markdown\n(.*?)```", text_of(DOCS / name), re.DOTALL
    )
    return dict(found)


def test_examples_of_story_files_are_read_as_the_page_says() -> None:
    read = {
        title: [
            (story.id, len(story.tasks), story.done)
            for story in checklist.parse(
                text.encode(), change="c", source="tasks-md", path="tasks.md"
            ).stories
        ]
        for title, text in examples("story-formats.md").items()
    }
    assert read == {
        "groups": [("1", 2, False), ("2", 1, True), ("clean-up", 1, False)],
        "flat": [("write-a-greeting", 3, False), ("T002", 1, False)],
    }


def test_lines_that_the_page_calls_ignored_are_ignored() -> None:
    part = sections(text_of(DOCS / "story-formats.md"))["What is ignored"]
    lines = re.findall(r"^\| `(.*?)` \|", part, re.MULTILINE)
    assert lines
    text = "\n".join(["- [ ] a task", *lines])
    book = checklist.parse(text.encode(), change="c", source="tasks-md", path="tasks.md")
    assert (book.total, [remark.line for remark in book.ignored]) == (
        1,
        list(range(2, len(lines) + 2)),
    )


def test_lines_that_the_page_calls_tasks_are_tasks() -> None:
    part = sections(text_of(DOCS / "story-formats.md"))["What is a task"]
    ((_, _, text),) = FENCED.findall(part)
    book = checklist.parse(text.encode(), change="c", source="tasks-md", path="tasks.md")
    assert (book.total, book.complete, book.ignored) == (6, 2, ())


# -- all documents -----------------------------------------------------------------------------


def test_readme_and_architecture_are_short() -> None:
    assert len(text_of(README).splitlines()) < 120
    assert len(text_of(ROOT / "ARCHITECTURE.md").splitlines()) < 100


@pytest.mark.parametrize("name", NAMES)
def test_commands_that_a_document_names_exist(name: str) -> None:
    code = list(code_of(text_of(ROOT / name)))
    calls = {call for part in code for call in _CALL.findall(part)}
    assert calls <= set(COMMANDS)
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    assert {target for part in code for target in _MAKE.findall(part)} <= targets


@pytest.mark.parametrize("name", NAMES)
def test_relative_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    broken = []
    for link in _LINK.findall(INLINE.sub("", FENCED.sub("", text_of(page)))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        inside = target.resolve().is_relative_to(ROOT)
        if not (inside and target.exists()) or (anchor and anchor not in anchors(text_of(target))):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("name", [*NAMES, *(str(path.relative_to(ROOT)) for path in PICTURES)])
def test_no_document_holds_a_path_of_one_machine(name: str) -> None:
    assert _MACHINE.findall(text_of(ROOT / name)) == []


def test_decisions_are_numbered_and_have_three_parts() -> None:
    pages = sorted((DOCS / "decisions").glob("*.md"))
    assert [page.name[:4] for page in pages] == [f"{n:04d}" for n in range(1, len(pages) + 1)]
    for page in pages:
        text = text_of(page)
        assert text.startswith(f"# {int(page.name[:4])}. ")
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Choice", "Price"]


def test_the_hazard_matrix_names_every_hazard_test_and_no_other() -> None:
    matrix = text_of(DOCS / "safety.md").partition("## The hazard matrix")[2]
    named = set(re.findall(r"`(\d\d_[a-z0-9_]+)`", matrix))
    files = (ROOT / "tests" / "e2e").glob("test_hazards_*.py")
    written = {
        name
        for path in files
        for name in re.findall(r"^def test_hazard_(\w+)\(", text_of(path), re.MULTILINE)
    }
    assert named == written


@pytest.mark.parametrize("path", PHOTOGRAPHS, ids=lambda path: path.name)
def test_photographs_are_small(path: Path) -> None:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < 160_000


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_pictures_are_small_and_stand_alone(path: Path) -> None:
    text = text_of(path)
    assert len(text.encode()) < 60_000
    namespace = "http://www.w3.org/2000/svg"
    assert re.findall(r"https?://[^\"' )]+", text) == [namespace]
    assert not re.search(r"<script|@import|@font-face|url\((?!#)|<image|href", text)


def test_the_diagram_is_what_its_script_draws() -> None:
    assert diagram.drawn() == text_of(diagram.TARGET)
