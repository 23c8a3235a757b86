"""A file of 10,000 stories: the price of loading it, and of picking the next one."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

from bench.result import Result, Rule
from bench.scene import Stage
from untildone.adapters.stories import prd_json
from untildone.adapters.stories.checklists import checklist
from untildone.adapters.stories.checklists.checklist_source import ChecklistFile
from untildone.adapters.stories.documents import object_file
from untildone.adapters.stories.documents.object_file import ObjectFile
from untildone.domain.stories.story import Story, StoryBook, Task

STORIES = 10_000
LATE = 9_000
ROUNDS = 7
NEWLINE = b"\n"
TASK = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s*\[\s*([^\]\s]?)\s*\]\s*(.*)")


def stories_10k(stage: Stage) -> list[Result]:
    """CPU of a load against reading the file and one match per line; of a pick, early and late."""
    rounds = 3 if stage.quick else ROUNDS
    first = min(_pick(_chained(0)) for _ in range(rounds))
    late = min(_pick(_chained(LATE)) for _ in range(rounds))
    of = f"story {LATE} / the first of {STORIES} that wait for others, with the index of the book"
    return [
        _loaded(stage, "load", _usual(), rounds),
        _loaded_again(stage, rounds),
        _loaded(stage, "load with details", _detailed(), rounds),
        _loaded(stage, "load of prd.json", _objects(), rounds),
        Result("stories_10k, pick", late * 1000, first * 1000, "ms", Rule.RATIO, 1.5, note=of),
    ]


def _loaded(stage: Stage, name: str, data: bytes, rounds: int) -> Result:
    """Only the usual file has a bar; the others are there for comparison."""
    path = stage.folder / ("prd.json" if data.startswith(b"{") else "tasks.md")
    path.write_bytes(data)
    source: ChecklistFile | ObjectFile
    if path.suffix == ".md":
        source = ChecklistFile(stage.folder, path.name, "many", "tasks-md")
    else:
        source = ObjectFile(prd_json.FORMAT, stage.folder, "many", path.name)
    load = _best(rounds, lambda: _load(source), _forget) * 1000
    bare = _best(rounds, lambda: _bare(path)) * 1000
    note = f"{STORIES} stories in {data.count(NEWLINE)} lines, best of {rounds}"
    rule = Rule.RATIO if name == "load" else Rule.SHOWN
    return Result(f"stories_10k, {name}", load, bare, "ms", rule, 10.0, note=note)


def _loaded_again(stage: Stage, rounds: int) -> Result:
    """After one box was ticked: what a loop does once per story."""
    path = stage.folder / "tasks.md"
    path.write_bytes(_usual())
    source = ChecklistFile(stage.folder, path.name, "many", "tasks-md")
    _load(source)
    boxes = iter(range(1, rounds + 1))

    def tick() -> None:
        box = f"[ ] {next(boxes)}.1 ".encode()
        path.write_bytes(path.read_bytes().replace(box, box.replace(b" ", b"x", 1), 1))

    load = _best(rounds, lambda: _load(source), tick) * 1000
    bare = _best(rounds, lambda: _bare(path)) * 1000
    note = f"one more of {STORIES} stories has a box ticked each time, best of {rounds}"
    return Result("stories_10k, load again", load, bare, "ms", Rule.SHOWN, 0, note=note)


def _forget() -> None:
    checklist.forget()
    object_file.forget()


def _usual() -> bytes:
    rows = []
    for n in range(1, STORIES + 1):
        rows.append(f"## {n}. Story number {n}\n")
        rows += [f"- [ ] {n}.{k} Do part {k} in `src/file_{n}.py`\n" for k in (1, 2)]
        rows.append("\n")
    return "".join(rows).encode()


def _detailed() -> bytes:
    """Lines of every kind: text below the heading, details below a task, nested tasks."""
    return "".join(
        f"## {n}. Story number {n}\n\nWhat it is **about**.\n\n- [x] {n}.1 Do the first part\n"
        f"  - how it is done\n  - [ ] nested\n- [ ] Do the rest – without a number\n\n"
        for n in range(1, STORIES + 1)
    ).encode()


def _objects() -> bytes:
    stories = [
        {
            "id": f"US-{n:05}",
            "title": f"Story number {n}",
            "description": f"As a user I want part {n}.",
            "acceptanceCriteria": ["It works", "It is tested"],
            "priority": n,
            "passes": False,
        }
        for n in range(1, STORIES + 1)
    ]
    return json.dumps({"project": "many", "userStories": stories}, indent=2).encode()


def _load(source: ChecklistFile | ObjectFile) -> None:
    assert len(source.load().stories) == STORIES


def _bare(path: Path) -> None:
    for line in path.read_bytes().decode("utf-8", "replace").split("\n"):
        TASK.match(line)


def _chained(done: int) -> StoryBook:
    """Each story waits for the two before it."""
    stories = []
    for n in range(STORIES):
        task = Task(f"{n}.1", "do it", n < done, n)
        before = tuple(str(k) for k in (n - 1, n - 2) if k >= 0)
        stories.append(Story(str(n), f"Story {n}", (task,), before, n))
    return StoryBook("many", "bench", "tasks.md", tuple(stories))


def _pick(book: StoryBook) -> float:
    finished = frozenset(story.key for story in book.stories if story.done)
    started = time.process_time()
    story = book.next_story(finished)
    spent = time.process_time() - started
    assert story is not None
    assert story.id == str(len(finished))
    return spent


def _best(
    rounds: int, action: Callable[[], None], before: Callable[[], object] = lambda: None
) -> float:
    times = []
    for _ in range(rounds):
        before()
        started = time.process_time()
        action()
        times.append(time.process_time() - started)
    return min(times)
