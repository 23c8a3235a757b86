"""Stories and their tasks: what one agent call should finish."""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from copy import copy

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from untildone.domain.errors import StoriesError
from untildone.domain.plain_text import count_of
from untildone.domain.stories import story_text
from untildone.domain.stories.schedule import Schedule, missing, wrong

StoryKey = tuple[str, str]
# Of what cannot be run, so many entries are named.
NAMED = 10


class Task(Struct, frozen=True, gc=False):
    """One checkbox line; `detail` is the indented text below it, as written.

    `path` is only set where the tasks of one story stand in several files. `mark` is the word for
    the state where a format has more of them than two: a claim that is taken back gets it again.
    `asks` says that the person has marked it with `[?]`: an open task that needs an answer first.
    """

    id: str
    text: str
    done: bool
    line: int
    detail: str = ""
    path: str = ""
    mark: str = ""
    asks: bool = False


class Story(Struct, frozen=True, gc=False):
    """What one agent call should finish: its tasks, and all that a format says about it.

    A format whose stories have no boxes gives each story exactly one task, whose `done` is the
    story's own state. `depends_on` holds ids of stories of the same book. A lower `priority` comes
    first; where a format puts stories in order by hand, a lower `rank` comes before that.
    `parallel`: it may be worked on beside others, of its own `group` where there are such. `path`
    and `line` are where it came from; an empty `path` is the book's. `held` says why it cannot
    start before the person answers. `agent` and `model` are who is to work on it, `touches` the
    files (as globs) that it will change: where a format has no field for them, from lines of the
    story's text, as part of `depends_on` may be.
    `predicted` are files that its words and the repository's history speak of.
    """

    id: str
    title: str
    tasks: tuple[Task, ...]
    depends_on: tuple[str, ...] = ()
    line: int = 0
    body: str = ""
    acceptance: tuple[str, ...] = ()
    priority: float | None = None
    parallel: bool = False
    path: str = ""
    rank: float | None = None
    held: str = ""
    agent: str = ""
    model: str = ""
    touches: tuple[str, ...] = ()
    predicted: tuple[str, ...] = ()
    group: float = 0

    @property
    def files(self) -> tuple[str, ...]:
        """Which it will change, as patterns: by the person's word, else by what was found out."""
        return self.touches or self.predicted

    @property
    def key(self) -> StoryKey:
        """Number and text: how a story is found again after the file was edited."""
        return (self.id, " ".join(self.title.split()))

    @property
    def done(self) -> bool:
        """All its tasks are; a story without any never is."""
        return 0 < len(self.tasks) == self.complete

    @property
    def complete(self) -> int:
        """How many of its tasks are done."""
        return [task.done for task in self.tasks].count(True)

    @property
    def question(self) -> str:
        """What has to be answered before this story can start."""
        if self.held:
            return "" if self.done else self.held
        return "\n".join([task.text for task in self.tasks if task.asks and not task.done])


class Remark(Struct, frozen=True, gc=False):
    """A line of the story file that the parser passed over, or that is wrong, and why.

    An empty `path` is the book's. `unfinished`: it is work that is not done and that no call can be
    given as it stands there.
    """

    line: int
    why: str
    path: str = ""
    unfinished: bool = False


class NewStory(Struct, frozen=True):
    """A story that somebody wants to add: behind `after`, or at the end."""

    title: str
    tasks: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()
    after: StoryKey | None = None


class StoryContext(Struct, frozen=True):
    """What the agent should read beside the story: files, and scenarios that fit it."""

    pointers: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()


class StoryBook(Struct, frozen=True):
    """All stories of a change as the source has them now, in file order.

    `problems` are loud errors: a book that has any cannot be run. A source gives those of its
    format (no tasks, a broken file); equal ids and circles are found here, for every source, and a
    story that depends on what is not there is held back. `boxes`: the agent may tick; without boxes
    only the loop writes the state. While a remark is `unfinished`, the change is not done, whatever
    its stories are. `records` are kept by a tracker for itself: listed, never run, and no part of
    the story they tell of.
    `parents` are tasks of no story: each is as done as the stories of the tasks below it.
    """

    change: str
    source: str
    path: str
    stories: tuple[Story, ...]
    ignored: tuple[Remark, ...] = ()
    problems: tuple[Remark, ...] = ()
    boxes: bool = True
    records: tuple[Story, ...] = ()
    parents: tuple[Task, ...] = ()
    _schedule: list[Schedule[Story]] = field(default_factory=list)
    _files: list[frozenset[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        force_setattr(self, "stories", _held_back(_as_told(self.stories)))
        found = (Remark(story.line, why, story.path) for story, why in wrong(self.stories))
        added = tuple(remark for remark in found if remark not in self.problems)
        force_setattr(self, "problems", (*self.problems, *added))
        self._forget()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoryBook) and self._content() == other._content()

    def __ne__(self, other: object) -> bool:
        return not self == other  # a struct would compare all fields

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[object, ...]:
        head = (self.change, self.source, self.path, self.boxes)
        return (*head, self.stories, self.ignored, self.problems, self.records, self.parents)

    @property
    def unfinished(self) -> str:
        """What of the change is not done and can not be run either, in a sentence; mostly empty."""
        rows = [remark.why for remark in self.ignored if remark.unfinished]
        if not rows:
            return ""
        count = count_of(len(rows), "entry is", "entries are")
        more = f" And {len(rows) - NAMED} more." if len(rows) > NAMED else ""
        told = " ".join(rows[:NAMED]) + more
        return f"The change `{self.change}` is not done: {count} left that cannot be run. {told}"

    @property
    def total(self) -> int:
        """How many tasks there are."""
        return self.schedule.total + len(self.parents)

    @property
    def complete(self) -> int:
        """How many of them are done."""
        return self.schedule.complete + [task.done for task in self.parents].count(True)

    @property
    def schedule(self) -> Schedule[Story]:
        """The order of the stories; worked out when it is first asked for."""
        if not self._schedule:
            self._schedule.append(Schedule(self.stories))
        return self._schedule[0]

    def with_states(self, changed: Mapping[int, Story]) -> "StoryBook":
        """The book with these stories in their places, the same but for what is done in them.

        Only for a book without problems and dependencies: what is done decides about both.
        """
        stories = list(self.stories)
        pairs = []
        for at, story in changed.items():
            pairs.append((stories[at], story))
            stories[at] = story
        reopened = any(old.done and not new.done for old, new in pairs)
        known = [] if reopened else self._schedule
        book = copy(self)
        force_setattr(book, "stories", tuple(stories))
        force_setattr(book, "_schedule", [schedule.with_finished(pairs) for schedule in known])
        return book

    def restated(self, stories: tuple[Story, ...]) -> "StoryBook":
        """The book with these stories in the same places, whatever their texts say of them."""
        book = copy(self)
        force_setattr(book, "stories", stories)
        book._forget()
        return book

    def _forget(self) -> None:
        """What was worked out for a book with other stories is not ours."""
        force_setattr(self, "_schedule", [])
        force_setattr(self, "_files", [])

    @property
    def files(self) -> frozenset[str]:
        """Where its stories stand."""
        if not self._files:
            paths = {self.path, *[story.path for story in self.stories]}
            paths |= {task.path for story in self.stories for task in story.tasks}
            self._files.append(frozenset(paths - {""}))
        return self._files[0]

    def open_stories(self, finished: Set[StoryKey]) -> tuple[Story, ...]:
        """Stories that are neither ticked nor finished by this run, in the order of work."""
        return self.schedule.open_stories(finished)

    def next_story(self, finished: Set[StoryKey], aside: Collection[StoryKey] = ()) -> Story | None:
        """The first open story whose dependencies are complete; not one that was put aside."""
        return self.schedule.next(finished, aside)

    def find(self, key: StoryKey) -> Story | None:
        """The story with this number and text, wherever it stands now."""
        return self.schedule.by_key.get(key)

    def place(self, story: Story | None) -> str:
        """The file that the story stands in; without one, the book's."""
        return (story.path if story else "") or self.path


def _as_told(stories: tuple[Story, ...]) -> tuple[Story, ...]:
    """The stories with what lines of their own text say of them."""
    told: dict[int, story_text.Said] = {}
    for at, story in enumerate(stories):
        details = [task.detail for task in story.tasks if task.detail]
        if (story.body or details) and (said := story_text.said([story.body, *details])):
            told[at] = said
    if not told:
        return stories
    owners = _owners(stories)
    return tuple(
        _with_words(story, told[at], owners) if at in told else story
        for at, story in enumerate(stories)
    )


def _owners(stories: Iterable[Story]) -> dict[str, str]:
    """The stories by their ids, and by the numbers of tasks that only one of them has."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for story in stories:
        for name in {task.id for task in story.tasks}:
            if found.setdefault(name, story.id) != story.id:
                twice.add(name)
    unique = {name: owner for name, owner in found.items() if name not in twice}
    return unique | {story.id: story.id for story in stories}


def _with_words(story: Story, said: story_text.Said, owners: Mapping[str, str]) -> Story:
    """A field of the format itself comes before a line of the text."""
    named = [owners.get(name, name) for name in said.depends]
    needed = [name for name in named if name != story.id]
    return replace(
        story,
        depends_on=tuple(dict.fromkeys([*story.depends_on, *needed])),
        agent=story.agent or said.agent,
        model=story.model or said.model,
        touches=story.touches or said.touches,
    )


def _held_back(stories: tuple[Story, ...]) -> tuple[Story, ...]:
    """The stories, with the reason for each that cannot start: what it depends on is not there."""
    lacking = missing(stories)
    if not lacking:
        return stories
    return tuple(
        replace(story, held=story.held or lacking[at]) if at in lacking else story
        for at, story in enumerate(stories)
    )


def checked(book: StoryBook) -> StoryBook:
    """The book itself if it can be run; its problems are an error that names their lines."""
    if not book.problems:
        return book
    listed = "\n  ".join(f"{r.path or book.path}:{r.line}: {r.why}" for r in book.problems)
    raise StoriesError(
        listed, hint=f"Mend the file, then look at it with `untildone stories {book.change}`"
    )


# A story's number and text, then the texts of its open tasks: plain data, to be kept on disk.
OpenTasks = list[list[str]]


def open_tasks(book: StoryBook) -> OpenTasks:
    """What is open, for a later process that must know what was open before a crash."""
    return [
        [*story.key, *(task.text for task in story.tasks if not task.done)]
        for story in book.stories
        if not story.done
    ]


def as_before(now: StoryBook, known: Sequence[Sequence[str]], finished: Set[StoryKey]) -> StoryBook:
    """The book with every task open that was open and whose story was not finished since."""
    opened = {(row[0], row[1]): set(row[2:]) for row in known}
    stories = tuple(
        story if story.key in finished else _reopened(story, opened.get(story.key, set()))
        for story in now.stories
    )
    return replace(now, stories=stories)


def _reopened(story: Story, texts: set[str]) -> Story:
    # The word that it has now is that for done; which one it had then, nobody has written down.
    tasks = (
        replace(t, done=False, mark="") if t.done and t.text in texts else t for t in story.tasks
    )
    return replace(story, tasks=tuple(tasks)) if texts else story
