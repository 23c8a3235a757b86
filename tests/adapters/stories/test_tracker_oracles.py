"""Task Master 0.43 and Backlog.md 1.52 were asked about these inputs; we say what they said."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.trackers.make_oracle import ANSWERS
from tests.corpus.trackers.odd_inputs import BACKLOG, TASKMASTER
from untildone.adapters.stories.source_kind import Options
from untildone.domain.errors import StoriesError
from untildone.domain.stories.story import checked
from untildone.wiring.sources import kind

SAID: dict[str, Any] = json.loads(ANSWERS.read_text())


@pytest.mark.parametrize("name", TASKMASTER)
def test_task_master(tmp_path: Path, name: str) -> None:
    (tmp_path / ".taskmaster/tasks").mkdir(parents=True)
    (tmp_path / ".taskmaster/tasks/tasks.json").write_text(TASKMASTER[name])
    source = kind("taskmaster").make(tmp_path, "master", Options())
    said = SAID["taskmaster"][name]
    if said is None:
        with pytest.raises(StoriesError):
            checked(source.load())
        return
    book = checked(source.load())
    assert [
        {
            "id": story.id,
            "title": story.title,
            "status": story.tasks[0].mark,
            "dependencies": list(story.depends_on),
            "subtasks": [[t.id.partition(".")[2], t.mark] for t in story.tasks[1:]],
        }
        for story in book.stories
    ] == said


def test_backlog_md(tmp_path: Path) -> None:
    (tmp_path / "backlog/tasks").mkdir(parents=True)
    for number, text in enumerate(BACKLOG.values()):
        (tmp_path / f"backlog/tasks/{number}.md").write_bytes(text.encode())
    book = checked(kind("backlog-md").make(tmp_path, "backlog", Options()).load())
    found = {}
    for story in book.stories:
        own, *boxes = story.tasks
        found[story.id] = [story.title, own.mark, sum(b.done for b in boxes), len(boxes)]
    assert found == SAID["backlog"]
