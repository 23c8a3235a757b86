"""Our counts and texts are those of the real OpenSpec program, on every input of the corpus."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.openspec import odd_inputs
from untildone.adapters.stories.checklists import checklist

CORPUS = Path(__file__).parents[2] / "corpus" / "openspec"
CASES: list[dict[str, Any]] = json.loads((CORPUS / "cases.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_counts_and_tasks_are_those_of_the_program(case: dict[str, Any]) -> None:
    book = checklist.parse(base64.b64decode(case["input"]), change="c", source="s", path="p")
    tasks = sorted((t for s in book.stories for t in s.tasks), key=lambda task: task.line)
    # The program counts a box without text but does not list it.
    listed = [[task.text, task.done] for task in tasks if task.text]
    assert {"total": book.total, "complete": book.complete, "tasks": listed} == {
        key: case[key] for key in ("total", "complete", "tasks")
    }


def test_the_stored_inputs_are_the_ones_in_the_sources() -> None:
    inputs = odd_inputs.all_inputs()
    inputs |= {f"real-{f.stem}": f.read_bytes() for f in (CORPUS / "realistic").glob("*.md")}
    assert {case["name"]: base64.b64decode(case["input"]) for case in CASES} == inputs


def test_the_corpus_is_not_trivial() -> None:
    assert len(CASES) >= 200
    assert sum(case["total"] for case in CASES) > 800
    assert sum(case["total"] == 0 for case in CASES) > 20
