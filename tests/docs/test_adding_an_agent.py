"""`docs/adding-an-agent.md` is followed to the letter, in a copy of the source."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import fields

from tests.docs.pages import DOCS, ROOT
from untildone.adapters.agents.program import AgentSpec, Grant, HomePath, Login
from untildone.domain.agents.agent import Kind, Reading, Session, Trouble, Usage

PAGE = (DOCS / "adding-an-agent.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^<!-- (file|edit): (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REFERENCE = re.compile(r"^### `(\w+)`\n(.*?)(?=^###|\Z)", re.MULTILINE | re.DOTALL)
# The rest of the tests takes longer to collect than these to run.
SUITES = ("tests/adapters/agents", "tests/contracts", "tests/test_settings.py")
VALUES = (AgentSpec, Grant, HomePath, Login, Reading, Usage, Session, Trouble)


def edited(text: str, diff: str) -> str:
    """The text after the one change that the diff shows; without line numbers to go stale."""
    rows = [(line[:1], line[1:]) for line in diff.splitlines(keepends=True)]
    before = "".join(line for mark, line in rows if mark != "+")
    after = "".join(line for mark, line in rows if mark != "-")
    assert text.count(before) == 1, f"not there, or not once:\n{before}"
    return text.replace(before, after)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The source, the tests and the documents, with everything that the page adds."""
    top = tmp_path / "untildone"
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("src", "tests", "docs"):
        shutil.copytree(ROOT / name, top / name, ignore=ignored)
    for path in (*ROOT.glob("*.md"), ROOT / "pyproject.toml"):
        shutil.copy(path, top)
    for how, name, code in _BLOCK.findall(PAGE):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        assert path.exists() == (how == "edit"), name
        path.write_text(edited(path.read_text(), code) if how == "edit" else code)
    (top / "bin/acme").chmod(0o755)
    return top


def call(copy: Path, *words: str, cwd: Path | None = None) -> str:
    """Run a Python module on the copy; its output."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("COVERAGE_", "PYTEST_"))}
    python = str(Path(sys.executable).parent)
    env = clean | {
        "PYTHONPATH": str(copy / "src"),
        "PATH": f"{copy / 'bin'}:{python}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=cwd or copy,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tests_of_the_page_pass_and_the_suites_take_it_in(copy: Path) -> None:
    names = "acme or every_agent or patterns_of_a_module"
    suites = (*SUITES, "tests/architecture/test_startup.py")
    said = call(copy, "pytest", "-q", "-rp", "-p", "no:cacheprovider", "-k", names, *suites)
    assert set(re.findall(r"^PASSED tests/(\S+?)::", said, re.MULTILINE)) == {
        "adapters/agents/test_acme.py",
        "adapters/agents/test_agent_specs.py",
        "adapters/agents/test_broken_streams.py",
        "architecture/test_startup.py",
        "contracts/test_agent_program.py",
    }
    call(copy, "tests.docs.pages")
    # Of the documents, only those that name every agent; the rest is tested where it stands.
    names = "made_pages or no_row_of_a_made_table or agents_page"
    call(copy, "pytest", "-q", "-p", "no:cacheprovider", "-k", names, "tests/docs/test_docs.py")
    added = [name for _, name, _ in _BLOCK.findall(PAGE) if name.endswith(".py")]
    call(copy, "ruff", "check", "-q", "--no-cache", *added)
    call(copy, "ruff", "format", "-q", "--no-cache", "--check", *added)


def test_two_stories_are_driven_to_done(copy: Path, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "tasks.md").write_text("## 1. One\n- [ ] 1.1 a\n\n## 2. Two\n- [ ] 2.1 b\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run(["git", *words], cwd=shop, check=True)
    listed = json.loads(call(copy, "untildone", "agents", "--json", cwd=shop))["agents"]
    (acme,) = [row for row in listed if row["name"] == "acme"]
    assert (acme["version"], acme["logged_in"]) == ("acme 1.0", False)
    assert acme["call"] == ["acme", "run", "--json", "--allow", "all"]
    said = call(copy, "untildone", "run", "--agent", "acme", "--json", cwd=shop)
    events = [json.loads(line) for line in said.splitlines()]
    ended = [event for event in events if event["event"] == "iteration_ended"]
    assert [event["outcome"] for event in ended] == ["complete", "complete"]
    assert [event["tokens_used"] for event in ended] == [945, 945]
    assert events[-1]["status"] == "done"
    assert {path.name for path in shop.glob("story-*")} == {"story-1.txt", "story-2.txt"}


def test_the_reference_has_every_field_and_no_other() -> None:
    row = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
    found = {name: row.findall(body) for name, body in _REFERENCE.findall(PAGE)}
    known = {kind.__name__: [field.name for field in fields(kind)] for kind in VALUES}
    assert found == {**known, "Kind": [kind.value for kind in Kind]}
