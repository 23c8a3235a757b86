"""The repository of the benchmark: a small package with its own tests, and a user's open work."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.measure import quiet
from bench.outcomes.plan import Story

CHANGE = "kit"
TASKS = f"openspec/changes/{CHANGE}/tasks.md"
SUITE = "python3 -m tests"
# What the user had not committed when the loop was started; it must be there at the end.
STAGED, CHANGED, NEW, IGNORED = "docs/plan.md", "README.md", "notes/ideas.txt", ".env"
USERS = {
    STAGED: "# Plan\n\nStaged, not committed.\n",
    CHANGED: "# kit\n\nSmall functions.\n\nA sentence that is not committed yet.\n",
    NEW: "an idea that no commit holds\n",
    IGNORED: "TOKEN=of-the-user\n",
}
RUNNER = '''"""`python3 -m tests [NAME…]`: all that is public, or what must be there."""

import importlib
import sys
import unittest
from pathlib import Path

import kit


def suite(wanted):
    """The tests of the wanted functions, or of all functions that are public already."""
    found = unittest.TestSuite()
    files = Path(__file__).parent.glob("test_*.py")
    names = wanted or [file.stem[5:].replace("__", ".") for file in files]
    for name in sorted(names):
        if wanted and name not in kit.PUBLIC:
            sys.exit(f"{name} is not in kit.PUBLIC")
        if name in kit.PUBLIC:
            module = importlib.import_module("tests.test_" + name.replace(".", "__"))
            found.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
    return found


result = unittest.TextTestRunner(verbosity=0).run(suite(sys.argv[1:]))
sys.exit(not result.wasSuccessful())
'''
TEST = """import unittest


class Test(unittest.TestCase):
    def test_examples(self):
        from kit.{module} import {name}

        for given, wanted in {cases!r}:
            self.assertEqual({name}(*given), wanted)
"""


def build(work: Path, stories: Sequence[Story], env: Mapping[str, str]) -> None:
    """Make the repository: one commit, a stash, and open work in every state git knows."""

    def git(*args: str) -> None:
        quiet(("git", *args), work, env)

    work.mkdir(parents=True)
    git("init", "-q", "-b", "main")
    _write(work, ".gitignore", "__pycache__/\n.env\n")
    _write(work, CHANGED, "# kit\n\nSmall functions.\n")
    _write(work, "AGENTS.md", f"# kit\n\n- Test: `{SUITE}`\n")
    _write(work, "kit/__init__.py", '"""Small functions."""\n\nPUBLIC = [\n]\n')
    for module in sorted({story.function.module for story in stories}):
        _write(work, f"kit/{module}.py", f'"""Functions for {module}."""\n')
    _write(work, "tests/__init__.py", "")
    _write(work, "tests/__main__.py", RUNNER)
    for story in stories:
        _write(work, test_of(story), _test(story))
    _write(work, f"openspec/changes/{CHANGE}/proposal.md", "# Kit\n\n## Why\nSmall functions.\n")
    _write(work, TASKS, tasks_md(stories))
    git("add", "-A")
    git("commit", "-q", "-m", "A package without functions")
    _write(work, CHANGED, "stashed\n")
    git("stash", "push", "-q")
    for path, text in USERS.items():
        _write(work, path, text)
    git("add", STAGED)


def test_of(story: Story) -> str:
    """The test file of a story, which the user wrote before the run."""
    return f"tests/test_{story.function.module}__{story.function.name}.py"


def tasks_md(stories: Sequence[Story]) -> str:
    """OpenSpec's task list."""
    parts = [
        f"## {n}. {story.title}\n\nVerify: `{story.check}`\n\n- [ ] {n}.1 {task(story)}\n"
        for n, story in enumerate(stories, 1)
    ]
    return "# Tasks\n\n" + "\n".join(parts)


def checklist(stories: Sequence[Story]) -> str:
    """One box for each story, as most loops want it."""
    lines = [
        f"- [ ] {story.title}: {task(story)} `{story.check}` must pass.\n" for story in stories
    ]
    return "# Kit\n\n## Tasks\n\n" + "".join(lines)


def prd_json(stories: Sequence[Story]) -> str:
    """The `prd.json` with user stories."""
    rows = [
        {
            "id": story.key,
            "title": story.title,
            "description": task(story),
            "acceptanceCriteria": [f"`{story.check}` passes"],
            "priority": n,
            "passes": False,
            "notes": "",
            "dependsOn": [],
        }
        for n, story in enumerate(stories, 1)
    ]
    whole = {
        "name": "kit",
        "project": "kit",
        "branchName": "kit",
        "description": "Small functions.",
    }
    return json.dumps({**whole, "userStories": rows}, indent=2) + "\n"


def task(story: Story) -> str:
    """What is to be done, in words."""
    function = story.function
    return (
        f"Write `{function.name}` in `kit/{function.module}.py` ({function.does}) "
        f"and list `{function.full_name}` in `kit.PUBLIC`."
    )


def _test(story: Story) -> str:
    function = story.function
    return TEST.format(module=function.module, name=function.name, cases=function.shown)


def _write(work: Path, path: str, text: str) -> None:
    (work / path).parent.mkdir(parents=True, exist_ok=True)
    (work / path).write_text(text, encoding="utf-8")
