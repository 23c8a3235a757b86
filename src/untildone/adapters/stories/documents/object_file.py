"""A source whose stories are objects of one file: found by its name, edited in place."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.stories.checklists import naming
from untildone.adapters.stories.documents import fields
from untildone.adapters.stories.documents.json_text import Edit, JsonText, NotJson, Place
from untildone.adapters.stories.documents.new_object import new_object
from untildone.adapters.stories.documents.stateful_source import NewState, StatefulSource
from untildone.adapters.stories.documents.story_objects import State, StoryObjects
from untildone.adapters.stories.documents.yaml_text import YamlText
from untildone.adapters.stories.source_kind import Found, Kind, Options, counted
from untildone.adapters.stories.story_file import StoryFile
from untildone.domain.errors import StoriesError
from untildone.domain.regex import regex
from untildone.domain.stories.story import NewStory, Remark, Story, StoryBook
from untildone.plain_files import read_bytes
from untildone.ports import Grown

_BRANCH = regex(
    r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
)  # such that a shell takes it for one word


class Format(Struct, frozen=True):
    """Where files of a kind are and how they are read.

    `paths` come in the order of their rank, `globs` behind them; `flag` is the field in which a
    story gets its state where no story of the file has one. `shared` are paths that others use too:
    such a file has to match `signature`, or it is only read when it is named. `unique_titles`: a
    story is known by its title, so no two may have the same.
    """

    name: str
    title: str
    text: type[JsonText] | type[YamlText]
    flag: str
    paths: tuple[str, ...]
    globs: tuple[str, ...]
    suffixes: tuple[str, ...]
    shared: tuple[str, ...] = ()
    signature: re.Pattern[bytes] | None = None
    unique_titles: bool = False

    def files(self, root: Path, *, sure: bool = True) -> dict[str, str]:
        """The files that are there, by the name of their change; all of them if not only `sure`."""
        here = [path for path in self.paths if (root / path).is_file()]
        here = [path for path in here if not sure or self._has_signature(root, path)]
        here += [p.relative_to(root).as_posix() for g in self.globs for p in sorted(root.glob(g))]
        found: dict[str, str] = {}
        for path in here:
            name = naming.slug(Path(path).stem)
            if name in found:  # the folder tells it from the other
                name = naming.slug(f"{Path(path).parent.name}-{Path(path).stem}")
            found.setdefault(name, path)
        return found

    def _has_signature(self, root: Path, path: str) -> bool:
        if self.signature is None or path not in self.shared:
            return True
        try:
            return bool(self.signature.search(read_bytes(root / path)))
        except OSError:
            return True  # that it cannot be read is told when it is opened

    def find(self, root: Path) -> tuple[Found, ...]:
        """Every file of the kind with its counts, also a broken one."""
        return tuple(
            counted(name, partial(ObjectFile, self, root, name, path))
            for name, path in self.files(root).items()
        )

    def make(self, root: Path, change: str, options: Options) -> "ObjectFile":
        """The file that was named, that is called like the change, or the first there is."""
        here = {**self.files(root), **self.files(root, sure=False)}
        path = options.file or here.get(change) or next(iter(here.values()), self.paths[0])
        return ObjectFile(self, root, change, path)

    def kind(self) -> Kind:
        return Kind(
            name=self.name,
            title=self.title,
            make=self.make,
            find=self.find,
            recognises=lambda root, change: change in self.files(root),
            suffixes=self.suffixes,
        )


class ObjectFile(StatefulSource):
    """The story source for one such file."""

    def __init__(self, form: Format, root: Path, change: str, path: str) -> None:
        self._form = form
        self._file = StoryFile(root, path, change)

    @property
    def name(self) -> str:
        return self._form.name

    def open(self) -> "ObjectDocument":
        return read(self._form, self._file, self._file.read())

    def grown(self, new: NewStory) -> Grown:
        """The file with one story more, which has the fields of the one before it."""
        data = ObjectDocument(self._form, self._file, self._file.read()).grown(new)
        return Grown(self._file.path, data, ObjectDocument(self._form, self._file, data).book)


_last: "list[ObjectDocument]" = []


class ObjectDocument:
    """The file as it was read."""

    def __init__(self, form: Format, file: StoryFile, data: bytes) -> None:
        self.key = (form, file, data)
        self._file = file
        self._text = form.text(data)
        root = self._text.root()
        self._objects = StoryObjects(
            self._text, root, flag=form.flag, unique_titles=form.unique_titles
        )
        self.book = StoryBook(
            change=file.change,
            source=form.name,
            path=file.path,
            stories=self._objects.stories,
            ignored=(*self._objects.ignored, *self._branch(root)),
            problems=tuple(self._objects.problems),
            boxes=False,
        )

    def _branch(self, root: Place) -> Iterator[Remark]:
        """A branch that the file asks for: the run has one of its own, and it is said which."""
        named = self._text.members(root).get("branchName") if isinstance(root.value, dict) else None
        name = fields.text(named.value) if named else ""
        own = f"ralph/{self._file.change}"
        if named and name != own and _BRANCH.fullmatch(name):
            why = (
                f"`branchName` is not used: the run works on the branch {own}. "
                f"After `keep`, `git branch -m {own} {name}` gives it that name."
            )
            yield Remark(self._text.line(named.start), why)

    def edited(self, states: Iterable[NewState]) -> bytes:
        """The file with these states and every other byte as it was."""
        return self._text.edited(self._objects.edits(list(states)))

    def grown(self, new: NewStory) -> bytes:
        """The file with one story more and every other byte as it was."""
        objects = self._objects
        if not objects.entries:
            raise StoriesError("The file has no story that a new one could be written like")
        keys = [story.key for story in self.book.stories]
        at = keys.index(new.after) if new.after else len(keys) - 1
        return self._text.edited([new_object(self._text, objects.entries, objects.states, at, new)])

    def write(self, states: Sequence[NewState]) -> None:
        forget()
        edits = list(self._objects.edits(states))
        data = self._text.edited(edits)
        self._file.write(data)
        if after := self._after(states, edits, data):
            _last.append(after)

    def _after(
        self, states: Sequence[NewState], edits: Sequence[Edit], data: bytes
    ) -> "ObjectDocument | None":
        """The document after such a write, if that follows from what is known."""
        if not isinstance(self._text, JsonText) or self.book.problems:
            return None
        if any(edit.start == edit.end or "\n" in edit.text for edit in edits):
            return None  # a field was added
        text = JsonText(data)
        found = self._objects.after(text, edits, [new.story.key for new in states])
        if found is None:
            return None
        after = copy(self)
        form, file, _ = self.key
        after.key, after._text = (form, file, data), text
        after._objects, changed = found
        after.book = self._restated(changed)
        return after

    def _restated(self, changed: Mapping[int, State]) -> StoryBook:
        stories = {at: _with_state(self.book.stories[at], state) for at, state in changed.items()}
        if not self.book.schedule.dependent:
            return self.book.with_states(stories)
        return self.book.restated(
            tuple(stories.get(at, story) for at, story in enumerate(self.book.stories))
        )


def _with_state(story: Story, state: State) -> Story:
    (task,) = story.tasks
    task = replace(task, done=state.done, mark=state.mark, asks=state.asks)
    return replace(story, tasks=(task,))


def forget() -> None:
    """Read every file anew."""
    _last.clear()


def read(form: Format, file: StoryFile, data: bytes) -> ObjectDocument:
    """The stories of these bytes; what cannot be read is an error that names its line.

    The last one is kept: the file is read several times and rarely changed in between.
    """
    if not (_last and _last[0].key == (form, file, data)):
        forget()  # first: two books at once take memory
        _last.append(_read(form, file, data))
    return _last[0]


def _read(form: Format, file: StoryFile, data: bytes) -> ObjectDocument:
    try:
        return ObjectDocument(form, file, data)
    except NotJson as error:
        raise StoriesError(
            f"{file.path}:{error.line}: {error.why}",
            hint=f"Mend the file, then look at it with `untildone stories {file.change}`",
        ) from error
