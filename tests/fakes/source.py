"""A story source in memory: `## N. Title` and `- [ ] N.M text` lines."""

import re

from msgspec.structs import replace

from untildone.domain.errors import StoriesError, StoryLost
from untildone.domain.stories.same_story import same_story
from untildone.domain.stories.story import Remark, Story, StoryBook, StoryContext, Task

HEADING = re.compile(r"## (\d+)\. (.*)")
BOX = re.compile(r"- \[([ x])\] (\S+) (.*)")
PATH = "memory.md"


class FakeSource:
    """Reads and writes its own `text`; None is a file that is gone."""

    name = "fake"

    def __init__(self, text: str | None = "") -> None:
        self.text = text
        self.error: Exception | None = None
        self.taken_back: list[StoryBook] = []

    def load(self) -> StoryBook:
        if self.error:
            raise self.error
        if self.text is None:
            raise StoriesError(f"There is no such file: {PATH}")
        stories: list[Story] = []
        for line, row in enumerate(self.text.splitlines(), 1):
            if heading := HEADING.fullmatch(row):
                stories.append(Story(heading[1], heading[2], (), line=line))
            elif box := BOX.fullmatch(row):
                last = stories.pop()
                task = Task(box[2], box[3], box[1] == "x", line)
                tasks = (*last.tasks, task)
                stories.append(replace(last, tasks=tasks))
            elif row and stories:
                stories.append(replace(last := stories.pop(), body=f"{last.body}{row}\n"))
        problems = () if stories else (Remark(1, "no story"),)
        return StoryBook("demo", self.name, PATH, tuple(stories), problems=problems)

    def context(self, story: Story) -> StoryContext:
        return StoryContext()

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        book = self.load()
        current = same_story(story, before, book)
        if current is None:
            raise StoryLost(f"{PATH}: the story is not there any more: {story.id}")
        left = {task.id for now in book.stories for task in now.tasks}
        others = [other for other in before.stories if other.key != story.key]
        if gone := [other.id for other in others if _open(other) - left]:
            raise StoryLost(f"{PATH}: open work of other stories is gone: {', '.join(gone)}")
        remarks = []
        for now in book.stories:
            earlier = before.find(now.key)
            for task in now.tasks:
                if now.key == current.key:
                    self._set(task, "x")
                elif earlier and task.done == (task.id in _open(earlier)):
                    self._set(task, " " if task.done else "x")
                    how = "taken back" if task.done else "ticked again"
                    remarks.append(f"A box of another story was {how}: {task.id}")
        return tuple(remarks)

    def take_back(self, before: StoryBook) -> tuple[str, ...]:
        self.taken_back.append(before)
        remarks = []
        for now in self.load().stories:
            earlier = before.find(now.key)
            for task in now.tasks:
                if earlier and task.done and task.id in _open(earlier):
                    self._set(task, " ")
                    remarks.append(f"A box of a failed attempt was taken back: {task.id}")
        return tuple(remarks)

    def _set(self, task: Task, mark: str) -> None:
        assert self.text is not None
        rows = self.text.splitlines()
        rows[task.line - 1] = f"- [{mark}] {task.id} {task.text}"
        self.text = "\n".join(rows) + "\n"


def _open(story: Story) -> set[str]:
    return {task.id for task in story.tasks if not task.done}
