"""Stories and their tasks: what one agent call should finish."""

from dataclasses import field

from untildone.domain.errors import StoriesError
from untildone.domain.value import dataclass

StoryKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Task:
    """One checkbox line; `detail` is the indented text below it, as written."""

    id: str
    text: str
    done: bool
    line: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """A group of tasks that one agent call should finish."""

    id: str
    title: str
    tasks: tuple[Task, ...]
    depends_on: tuple[str, ...] = ()
    line: int = 0
    body: str = ""

    @property
    def key(self) -> StoryKey:
        """Number and text: how a story is found again after the file was edited."""
        return (self.id, " ".join(self.title.split()))

    @property
    def done(self) -> bool:
        """All boxes are ticked."""
        return all(task.done for task in self.tasks)


@dataclass(frozen=True, slots=True)
class Remark:
    """A line of the story file that the parser passed over, or that is wrong, and why."""

    line: int
    why: str


@dataclass(frozen=True, slots=True)
class StoryContext:
    """What the agent should read beside the story: files, and scenarios that fit it."""

    pointers: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoryBook:
    """All stories of a change as the source has them now.

    `problems` are loud errors (no tasks, duplicate keys): a book that has any cannot be run.
    """

    change: str
    source: str
    path: str
    stories: tuple[Story, ...]
    ignored: tuple[Remark, ...] = ()
    problems: tuple[Remark, ...] = ()
    total: int = field(init=False)
    complete: int = field(init=False)

    def __post_init__(self) -> None:
        tasks = [task for story in self.stories for task in story.tasks]
        object.__setattr__(self, "total", len(tasks))
        object.__setattr__(self, "complete", sum(task.done for task in tasks))

    def open_stories(self, finished: frozenset[StoryKey]) -> tuple[Story, ...]:
        """Stories that are neither ticked nor finished by this run, in file order."""
        return tuple(s for s in self.stories if not s.done and s.key not in finished)

    def next_story(self, finished: frozenset[StoryKey]) -> Story | None:
        """The first open story whose dependencies are complete."""
        done_ids = {s.id for s in self.stories if s.done or s.key in finished}
        for story in self.stories:
            if story.id not in done_ids and done_ids.issuperset(story.depends_on):
                return story
        return None

    def find(self, key: StoryKey) -> Story | None:
        """The story with this number and text, wherever it stands now."""
        return next((s for s in self.stories if s.key == key), None)


def checked(book: StoryBook) -> StoryBook:
    """The book itself if it can be run; its problems are an error that names their lines."""
    if not book.problems:
        return book
    listed = "\n  ".join(f"{book.path}:{remark.line}: {remark.why}" for remark in book.problems)
    raise StoriesError(
        listed, hint=f"Mend the file, then look at it with `untildone stories {book.change}`"
    )
