"""`untildone stories`, and how a task list is read and ticked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.change import STORIES, TASKS

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_stories_as_a_table(bench: Bench) -> None:
    bench.only_stories(2, 3)
    said = bench.run("stories", "demo").ok().stdout
    assert [story for story in STORIES if story not in said] == []


def test_stories_as_json(bench: Bench) -> None:
    bench.only_stories(2, 3)
    lines = bench.read(TASKS).splitlines()
    value = bench.run("stories", "demo", "--json").ok().json()
    assert set(value) >= {"change", "source", "tasks", "stories", "ignored"}
    assert (value["change"], value["source"], value["ignored"]) == ("demo", "openspec", [])
    assert value["tasks"] == {"total": 6, "complete": 2}
    assert [(s["id"], s["title"], s["depends_on"]) for s in value["stories"]] == [
        (str(n), title, []) for n, title in enumerate(STORIES, 1)
    ]
    first, second, _ = value["stories"]
    assert first["state"] != second["state"]
    # The text may carry the number or not.
    for task in first["tasks"]:
        task["text"] = task["text"].removeprefix(f"{task['id']} ")
    assert first["tasks"] == [
        {
            "id": f"1.{k}",
            "text": text,
            "done": True,
            "line": lines.index(f"- [x] 1.{k} {text}") + 1,
        }
        for k, text in ((1, "Write the alpha file"), (2, "Check the alpha file"))
    ]


def test_stories_changes_nothing(bench: Bench) -> None:
    before = bench.snapshot()
    bench.run("stories", "demo").ok()
    assert bench.snapshot() == before


def test_file_without_groups_makes_every_task_a_story(bench: Bench) -> None:
    bench.write(TASKS, "# Tasks\n\n- [ ] first thing\n  - detail\n- [ ] second thing\n")
    bench.commit("flat")
    bench.plan()
    bench.loop().ok()
    first, second = (call.prompt for call in bench.calls())
    assert "first thing" in first
    assert "detail" in first
    assert "second thing" not in first
    assert "second thing" in second
    assert bench.read(TASKS) == "# Tasks\n\n- [x] first thing\n  - detail\n- [x] second thing\n"


def test_ticking_keeps_every_other_byte(bench: Bench) -> None:
    text = "# Tasks\r\n\r\n## 1. Alpha\r\n\r\n* [ ] 1.1 one  \r\n\t* [ ] 1.2 two\r\n\r\ntail"
    bench.path(TASKS).write_bytes(text.encode())
    bench.commit("odd bytes")
    bench.plan()
    bench.loop().ok()
    assert bench.path(TASKS).read_bytes() == text.replace("[ ]", "[x]").encode()
