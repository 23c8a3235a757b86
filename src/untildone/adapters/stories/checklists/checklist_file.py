"""A checklist in files of the worktree: read it, and settle one finished story in it."""

from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.stories.checklists import checklist, claims, granularity, labels, task_lines
from untildone.adapters.stories.story_file import StoryFile
from untildone.domain.stories.story import Remark, Story, StoryBook, Task

Box = tuple[Story, Task]


class ChecklistFile(Struct, frozen=True):
    """The Markdown checklist at `path`, which is relative to `root`.

    `files` lists the files of a checklist that stands in several; `path` is then their folder.
    """

    root: Path
    path: str
    change: str
    source: str
    rules: checklist.Rules = checklist.USUAL
    granularity: str = "group"
    files: Callable[[], Sequence[str]] | None = None

    def load(self) -> StoryBook:
        """Read the stories as they are now."""
        return self._now()[0]

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        """Tick the story's open boxes; elsewhere every box gets back what it held in `before`."""
        now, data = self._now()
        current = claims.found_again(story, now)
        claims.refuse_lost(current, before, now)
        taken = claims.of_others(current, before, now)
        undone = claims.undone(current, before, now)
        opened = [(current, task) for task in claims.to_finish(current, before)]
        self._flip(data, [*opened, *((claim.story, claim.task) for claim in undone)], taken)
        return tuple(claims.sentences(current, [*taken, *undone], before, now))

    def take_back(self, before: StoryBook) -> tuple[str, ...]:
        """Untick every box that was open in `before`; matters for a file that git ignores."""
        now, data = self._now()
        taken = claims.of_all(before, now)
        self._flip(data, [], taken)
        return claims.taken_back(taken)

    def _flip(
        self, data: dict[str, bytes], opened: list[Box], taken: Sequence[claims.Claim]
    ) -> None:
        for path, old in data.items():
            new = task_lines.tick(old, self._lines(path, opened))
            for mark in dict.fromkeys(claim.was.mark for claim in taken):
                back = [(claim.story, claim.task) for claim in taken if claim.was.mark == mark]
                new = task_lines.untick(new, self._lines(path, back), mark or " ")
            if new != old:
                checklist.parse.cache_clear()  # of use no more, and two books take memory
                StoryFile(self.root, path, self.change).write(new)

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
            prefix = f"{labels.slug(below.replace('/', '-'))}." if below else ""
            stories += [replace(s, id=f"{prefix}{s.id}", path=book.path) for s in book.stories]
        if self.granularity == "change":
            stories = list(granularity.whole(stories, self.change))
        problems = [replace(r, path=b.path) for b in books for r in b.problems if b.stories]
        if not stories:
            problems = [Remark(1, f"No `- [ ]` line was found in any tracked file of: {self.path}")]
        ignored = [replace(r, path=book.path) for book in books for r in book.ignored]
        head = (self.change, self.source, self.path)
        return StoryBook(*head, tuple(stories), tuple(ignored), tuple(problems))
