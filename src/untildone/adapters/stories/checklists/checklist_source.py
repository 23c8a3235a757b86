"""A checklist in files of the worktree, as a story source."""

from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.stories.checklists import (
    changed_tasks,
    checklist,
    grouping,
    naming,
    new_story,
    task_lines,
)
from untildone.adapters.stories.checklists.changed_tasks import BookChanges, ChangedTask
from untildone.adapters.stories.story_file import StoryFile
from untildone.domain.stories.story import NewStory, Remark, Story, StoryBook, StoryContext, Task
from untildone.ports import Grown

Box = tuple[Story, Task]


class ChecklistFile(Struct, frozen=True):
    """The Markdown checklist at `path`, which is relative to `root`.

    `files` lists the files of a checklist that stands in several; `path` is then their folder.
    """

    root: Path
    path: str
    change: str
    source: str
    rules: checklist.Rules = checklist.DEFAULT_RULES
    granularity: str = "group"
    files: Callable[[], Sequence[str]] | None = None

    def load(self) -> StoryBook:
        return self._now()[0]

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        """Tick the story's open boxes; elsewhere every box gets back what it held in `before`."""
        now, data = self._now()
        current, before = changed_tasks.found_again(story, before, now)
        changes = BookChanges(before, now)
        changes.refuse_lost(current)
        ticked = changes.ticked_in_others(current)
        unticked = changes.unticked_in_others(current)
        boxes = [(current, task) for task in changed_tasks.to_finish(current, before)]
        new = self._flipped(data, [*boxes, *((t.story, t.task) for t in unticked)], ticked)
        if now.parents:
            new = {path: self._with_parents(path, text) for path, text in new.items()}
        self._write(data, new)
        renamed = changed_tasks.renamed_message(story, current)
        return (*renamed, *changes.messages(current, [*ticked, *unticked]))

    def take_back(self, before: StoryBook) -> tuple[str, ...]:
        """Untick every box that was open in `before`; matters for a file that git ignores."""
        now, data = self._now()
        taken = BookChanges(before, now).ticked()
        self._write(data, self._flipped(data, [], taken))
        return changed_tasks.taken_back_message(taken)

    def grown(self, new: NewStory) -> Grown:
        """The file with one story more; a story is a group here, however large one is for a run."""
        groups = replace(self, granularity="group")
        book, data = groups._now()
        near = book.find(new.after) if new.after else next(reversed(book.stories), None)
        path = (near.path if near else "") or next(reversed(data))
        here = [story for story in book.stories if (story.path or path) == path]
        text = new_story.with_story(data[path], here, near, new)
        books = [groups._parse(p, text if p == path else read, "group") for p, read in data.items()]
        return Grown(path, text, groups._joined(books) if self.files else books[0])

    def _flipped(
        self, data: dict[str, bytes], opened: list[Box], taken: Sequence[ChangedTask]
    ) -> dict[str, bytes]:
        found = {}
        for path, old in data.items():
            found[path] = task_lines.tick(old, self._lines(path, opened))
            for mark in dict.fromkeys(each.was.mark for each in taken):
                back = [(each.story, each.task) for each in taken if each.was.mark == mark]
                found[path] = task_lines.untick(found[path], self._lines(path, back), mark or " ")
        return found

    def _with_parents(self, path: str, data: bytes) -> bytes:
        """The text with the boxes ticked whose tasks below are all done: no story has them."""
        parents = self._parse(path, data, self.granularity).parents
        return task_lines.tick(data, [task.line for task in parents if task.done])

    def _write(self, old: dict[str, bytes], new: dict[str, bytes]) -> None:
        for path, data in new.items():
            if data != old[path]:
                StoryFile(self.root, path, self.change).write(data)

    def _lines(self, path: str, boxes: list[Box]) -> list[int]:
        return [t.line for story, t in boxes if (t.path or story.path or self.path) == path]

    def _now(self) -> tuple[StoryBook, dict[str, bytes]]:
        paths = self.files() if self.files else (self.path,)
        data = {path: StoryFile(self.root, path, self.change).read() for path in paths}
        if not self.files:
            return self._parse(self.path, data[self.path], self.granularity), data
        fine = "task" if self.granularity == "task" else "group"
        return self._joined([self._parse(path, read, fine) for path, read in data.items()]), data

    def _parse(self, path: str, data: bytes, granularity: str) -> StoryBook:
        return checklist.parse(
            data,
            change=self.change,
            source=self.source,
            path=path,
            rules=self.rules,
            granularity=granularity,
        )

    def _joined(self, books: Sequence[StoryBook]) -> StoryBook:
        """One book of several files; the place of a file is part of the ids of its stories."""
        stories: list[Story] = []
        for book in books:
            below = PurePosixPath(book.path).relative_to(self.path).with_suffix("").as_posix()
            below = below.removesuffix("tasks").rstrip("/")
            prefix = f"{naming.slug(below.replace('/', '-'))}." if below else ""
            stories += [replace(s, id=f"{prefix}{s.id}", path=book.path) for s in book.stories]
        if self.granularity == "change":
            stories = list(grouping.whole_change(stories, self.change))
        problems = [replace(r, path=b.path) for b in books for r in b.problems if b.stories]
        if not stories:
            problems = [Remark(1, f"No `- [ ]` line was found in any tracked file of: {self.path}")]
        ignored = [replace(r, path=book.path) for book in books for r in book.ignored]
        head = (self.change, self.source, self.path)
        return StoryBook(*head, tuple(stories), tuple(ignored), tuple(problems))


class ChecklistSource:
    """Reads, ticks and unticks; what there is to read beside it is for the format to say."""

    def __init__(self, file: ChecklistFile) -> None:
        self._list = file

    @property
    def name(self) -> str:
        return self._list.source

    def _file(self) -> ChecklistFile:
        """The checklist where it is now."""
        return self._list

    def load(self) -> StoryBook:
        return self._file().load()

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        """Tick the story's boxes; take back boxes of other stories that were open in `before`."""
        return self._file().settle(story, before)

    def take_back(self, before: StoryBook) -> tuple[str, ...]:
        """Untick what was open in `before`."""
        return self._file().take_back(before)

    def grown(self, new: NewStory) -> Grown:
        """The file with one story more."""
        return self._file().grown(new)

    def context(self, story: Story) -> StoryContext:
        """A plain list has no documents beside it."""
        del story
        return StoryContext()
