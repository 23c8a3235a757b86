"""A file of 10,000 stories: the price of loading it, and of picking the next one."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from bench.result import Result, Rule
from bench.scene import Stage
from untildone.adapters.stories import checklist
from untildone.adapters.stories.checklist_file import ChecklistFile
from untildone.domain.story import Story, StoryBook, Task

STORIES = 10_000
LATE = 9_000
ROUNDS = 7
TASK = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s*\[\s*([^\]\s]?)\s*\]\s*(.*)")


def stories_10k(stage: Stage) -> list[Result]:
    """CPU of a load against reading the file and one match per line; of a pick, early and late."""
    rounds = 3 if stage.quick else ROUNDS
    path = stage.folder / "tasks.md"
    path.write_bytes(_file(STORIES))
    source = ChecklistFile(stage.folder, path.name, "many", "tasks-md")
    load = _best(rounds, lambda: _load(source), checklist.parse.cache_clear)
    bare = _best(rounds, lambda: _bare(path))
    first = min(_pick(_chained(0)) for _ in range(rounds))
    late = min(_pick(_chained(LATE)) for _ in range(rounds))
    note = f"{STORIES} stories of two tasks, best of {rounds}"
    of = f"story {LATE} / the first of {STORIES} that wait for others, with the index of the book"
    return [
        Result("stories_10k, load", load * 1000, bare * 1000, "ms", Rule.RATIO, 3.0, note=note),
        Result("stories_10k, pick", late * 1000, first * 1000, "ms", Rule.RATIO, 1.5, note=of),
    ]


def _file(count: int) -> bytes:
    rows = []
    for n in range(1, count + 1):
        rows.append(f"## {n}. Story number {n}\n")
        rows += [f"- [ ] {n}.{k} Do part {k} in `src/file_{n}.py`\n" for k in (1, 2)]
        rows.append("\n")
    return "".join(rows).encode()


def _load(source: ChecklistFile) -> None:
    assert len(source.load().stories) == STORIES


def _bare(path: Path) -> None:
    found = 0
    for line in path.read_bytes().decode("utf-8", "replace").split("\n"):
        if TASK.match(line):
            found += 1
    assert found == 2 * STORIES


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
