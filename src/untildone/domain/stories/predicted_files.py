"""Which files a story will probably change, and whether two stories may be worked on at once."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import combinations

from msgspec import Struct, field
from msgspec.structs import replace

from untildone.domain.regex import regex
from untildone.domain.stories.story import Story, StoryBook, StoryKey

# Files that every other story touches as well: whoever changes one of them has it alone.
HOT = regex(
    r"(?:^|/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?"
    r"|(?:poetry|uv|Cargo|Gemfile|composer|flake)\.lock|Pipfile\.lock|go\.(?:mod|sum)|Gemfile"
    r"|package\.json|pyproject\.toml|Cargo\.toml|requirements[^/]*\.txt"
    r"|schema\.(?:prisma|sql|rb|graphql)|structure\.sql|routes?\.\w+|urls\.py"
    r"|CHANGELOG[^/]*|CHANGES[^/]*|messages\.\w+|[a-z]{2}(?:[-_][A-Z]{2})?\.(?:json|ya?ml|po))$"
)
# A commit of more files (a new layout, a rename all over) says nothing about what goes together.
MOST_FILES = 30
# A file goes with another if it changed in at least so many commits of it, and in half of them.
LEAST_COMMITS = 3
MOST_COMPANIONS = 10
# A file that so many stories of a run changed, and half of those that landed, is everybody's.
LEAST_LANDED = 2
# Every pair of stories is looked at to say who is kept apart: of so many stories at most.
MOST_PAIRED = 200
_WILD = regex(r"[*?\[]")
_NAMED = regex(r"(?<![\w./-])(?:[\w@.-]+/)*[\w@-][\w@.-]*\.[A-Za-z][A-Za-z0-9]{0,9}(?![\w/-])")
_FOLDER = regex(r"(?<![\w./-])(?:[\w@.-]+/)+(?![\w.-])")


class FileRecord(Struct, frozen=True):
    """What a repository tells of its files: their names, and which of them changed together.

    `commits` are the files of each commit, of people and of our own runs. `attempts` are those that
    an earlier attempt of a story of this change has changed, by the id of the story. `landed` are
    those of each story that has landed in this run, `contested` the ones over which finished work
    could not.
    """

    files: frozenset[str] = frozenset()
    commits: tuple[tuple[str, ...], ...] = ()
    attempts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    landed: tuple[tuple[str, ...], ...] = ()
    contested: frozenset[str] = frozenset()


class Cause(StrEnum):
    """What keeps two stories apart."""

    FILES = "files"
    HOT = "hot"
    UNKNOWN = "unknown"


class Together(Struct, frozen=True):
    """Whether two stories may run beside each other; `why` not, if not."""

    why: str = ""
    cause: Cause | None = None


class Apart(Struct, frozen=True):
    """Two stories that do not run at once although neither waits for the other."""

    one: Story
    other: Story
    why: str
    cause: Cause


class Beside(Struct, frozen=True):
    """What may run at once: `rounds` as if all stories took equally long, and who is kept apart.

    `unknown` are the stories of which nothing is known: of those there is one at a time.
    """

    rounds: tuple[tuple[Story, ...], ...]
    apart: tuple[Apart, ...]
    unknown: tuple[Story, ...]


def together(one: Story, other: Story, *, optimistic: bool = False) -> Together:
    """Only where their files do not overlap, so far as anybody can tell beforehand.

    The format's own mark says that they may; what is known of their files is worth more. Two
    stories of which nothing is known do not run together unless somebody is `optimistic`.
    """
    mine, theirs = one.files, other.files
    if mine and theirs:
        shared = overlap(mine, theirs)
        cause = Cause.HOT if HOT.search(shared) else Cause.FILES
        return Together(f"both change {shared}", cause) if shared else Together()
    marked = one.parallel and other.parallel and one.group == other.group
    if mine or theirs or optimistic or marked:
        return Together()
    return Together("nobody knows which files either changes", Cause.UNKNOWN)


def beside(book: StoryBook, lanes: int, *, optimistic: bool = False) -> Beside:
    """What so many lanes would do with the stories that are open, and why not more."""
    open_ones = book.open_stories(frozenset())
    waits = _waits(open_ones[:MOST_PAIRED])
    apart: list[Apart] = []
    unknown: dict[StoryKey, Story] = {}
    for one, other in combinations(open_ones[:MOST_PAIRED], 2):
        found = together(one, other, optimistic=optimistic)
        if found.cause is None or one.id in waits[other.id] or other.id in waits[one.id]:
            continue
        if found.cause is Cause.UNKNOWN:
            unknown |= {one.key: one, other.key: other}
        else:
            apart.append(Apart(one, other, found.why, found.cause))
    rounds = tuple(_rounds(book, lanes, optimistic=optimistic))
    return Beside(rounds, tuple(apart), tuple(unknown.values()))


def _rounds(book: StoryBook, lanes: int, *, optimistic: bool) -> Iterator[tuple[Story, ...]]:
    """As the loop would take them up, if all of a round ended together; what is held is in none."""
    finished: set[StoryKey] = set()
    while True:
        taken: list[Story] = []
        for story in book.schedule.ready(frozenset(finished)):
            fits = all(not together(story, one, optimistic=optimistic).why for one in taken)
            if fits and not story.question and len(taken) < lanes:
                taken.append(story)
        if not taken:
            return
        finished |= {story.key for story in taken}
        yield tuple(taken)


def _waits(stories: Sequence[Story]) -> dict[str, set[str]]:
    """What each story waits for, by id, directly or through others."""
    known = {story.id: set(story.depends_on) for story in stories}
    for story in stories:
        todo = list(known[story.id])
        while todo:
            more = known.get(todo.pop(), set()) - known[story.id]
            known[story.id] |= more
            todo += more
    return known


def overlap(mine: Iterable[str], theirs: Iterable[str]) -> str:
    """What two lists of paths and patterns have in common, in a word; empty if nothing."""
    there = tuple(theirs)
    hot = [path for path in there if HOT.search(path)]
    for path in mine:
        if hot and HOT.search(path):
            return path if path == hot[0] else f"{path} and {hot[0]}"
        for other in there:
            if _meet(path, other):
                return path if path == other else f"{path} and {other}"
    return ""


def with_predictions(book: StoryBook, record: FileRecord) -> StoryBook:
    """The book, with the files that each open story will probably change.

    The files that the stories stand in are no story's work: every one of them has its box there.
    """
    folders = {path.rpartition("/")[0] + "/" for path in record.files if "/" in path}
    commits = _by_file(record.commits)
    everybodys = tuple(_everybodys(record))

    def predicted(story: Story) -> Story:
        if story.touches or story.done:
            return story
        named = paths_in_text(story, record.files, folders)
        sure = dict.fromkeys([*named, *record.attempts.get(story.id, ()), *everybodys])
        found = [*sure, *_companions(sure, commits)]
        files = tuple(path for path in found if not any(_meet(path, own) for own in book.files))
        return replace(story, predicted=files) if files != story.predicted else story

    return book.restated(tuple(map(predicted, book.stories)))


def paths_in_text(
    story: Story, known: Iterable[str], folders: Iterable[str] = ()
) -> tuple[str, ...]:
    """Paths that the story's words name: files of the repository, and names that look like one."""
    text = "\n".join([story.title, story.body, *(f"{t.text}\n{t.detail}" for t in story.tasks)])
    names = named_paths(text)
    named_folders = (found[0] for found in _FOLDER.finditer(text))
    files = [name for name in names if name in known or "/" in name]
    return tuple(dict.fromkeys([*files, *(name for name in named_folders if name in folders)]))


def named_paths(text: str) -> Iterator[str]:
    """What looks like the name of a file, with or without its folder."""
    return (found[0].rstrip(".") for found in _NAMED.finditer(text))


def _by_file(commits: Iterable[tuple[str, ...]]) -> Mapping[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for files in commits:
        for path in files if len(files) <= MOST_FILES else ():
            found.setdefault(path, []).append(files)
    return found


def _everybodys(record: FileRecord) -> Iterator[str]:
    """What stories of this change change as a rule, and get in each other's way with."""
    counted = Counter(path for files in record.landed for path in files)
    need = max(LEAST_LANDED, len(record.landed) / 2)
    return (path for path in sorted(record.contested) if counted[path] >= need)


def _companions(
    files: Mapping[str, object], commits: Mapping[str, list[tuple[str, ...]]]
) -> Iterator[str]:
    """What changed along with these files as a rule, the most constant first."""
    beside: Counter[str] = Counter()
    for path in files:
        own = commits.get(path, [])
        counted = Counter(other for changed in own for other in changed)
        need = max(LEAST_COMMITS, len(own) / 2)
        beside |= Counter({o: n for o, n in counted.items() if n >= need and o not in files})
    return (path for path, _ in beside.most_common(MOST_COMPANIONS))


def _meet(one: str, other: str) -> bool:
    """Whether two patterns may mean the same file; in doubt they do."""
    wild_one, wild_other = _WILD.search(one), _WILD.search(other)
    if wild_one and wild_other:
        a, b = one[: wild_one.start()], other[: wild_other.start()]
        return a.startswith(b) or b.startswith(a)
    return bool(_pattern(one).fullmatch(other) or _pattern(other).fullmatch(one))


@lru_cache(maxsize=4096)
def _pattern(glob: str) -> re.Pattern[str]:
    """A glob as people mean it: `*` stays in its folder, `**` does not, `a/` is all in it."""
    text = f"{glob}**" if glob.endswith("/") else glob
    parts = re.split(r"(\*\*/?|\*|\?)", text)
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(words.get(part) or re.escape(part) for part in parts)
    return re.compile(f"{body}(?:/.*)?")
