"""What is wrong with a plan, found by reading it: every rule of `untildone lint`."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from untildone.domain.plain_text import count_of
from untildone.domain.regex import regex
from untildone.domain.secrets import redactor, secret
from untildone.domain.stories import story_text
from untildone.domain.stories.predicted_files import (
    Cause,
    beside,
    named_paths,
    paths_in_text,
)
from untildone.domain.stories.schedule import circles, doubled
from untildone.domain.stories.story import Story, StoryBook

# More than these in one story, and a single call seldom finishes it.
MOST_TASKS = 20
MOST_WORDS = 1500
MOST_NAMED_FILES = 25
# Fewer words than these, in all of a story, do not say what is to be done.
LEAST_WORDS = 3
# Where as many stories share a fault, and no other is without it, it is told once.
TOLD_ONCE = 4
# Who is kept apart takes a look at every pair: of so many stories at most.
MOST_COMPARED = 100
MOST_SHOWN = 5
# Formats whose own program holds back one story that depends on nothing, and runs the others.
HOLDS_ONE = frozenset({"backlog-md", "beads", "github", "taskmaster"})

_CODE = regex(r"(`+).+?\1")
_PLACEHOLDER = regex(
    r"^(?:TODO|TBD|TBA|FIXME|XXX)\b:?|\b(?:TBD|FIXME)\b|^(?:\.{3,}|…|\?{2,})$|(?i:lorem ipsum)"
    r"|<(?i:your|insert|fill|describe|placeholder)\b[^<>]*>"
    r"|\[(?i:needs clarification|todo|tbd|insert|your|fill in|describe|feature name|placeholder)"
    r"\b[^\]]*\](?!\()"
)
_NO_COMMAND = regex(r"(?i:TODO|TBD|FIXME|XXX|N/A|command|cmd)|\.{3,}|…|.*<[\w -]+>.*|\[.*\w \w.*\]")
_OUTCOME = regex(
    r"\b(?:tests?|tested|testing|verif\w+|checks?|assert\w*|expect\w*|accept\w*|scenario\w*"
    r"|pass(?:es)?|returns?|prints?|shows?|exits?|fails?|rejects?|refuses?|responds?|must|shall"
    r"|should|given|then|until|coverage|benchmark\w*)\b",
    2,  # re.IGNORECASE
)
_CREATES = regex(r"\b(?:creat|add|writ|introduc|scaffold|generat|set up|new)\w*\b", 2)
_COLON = r"(?::(?:\*\*|__)?|(?:\*\*|__):)"
_LINE = regex(
    r"\s*(?:[-*+]\s+)?(?:\*\*|__)?(?P<word>Verify|Depends|Budget)" + _COLON + r"(?P<text>.*)"
)
# What a sentence has and a command has not.
_SENTENCE = regex(r"(?i:\b(?:that|the|is|are|sure|works?|should|must|all|and|manually|it)\b)|[.!]$")
_ID = regex(r"[\w.-]*\w")


class Level(StrEnum):
    """How bad it is: an error keeps the plan from being done, an info is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(Struct, frozen=True):
    """One thing that is wrong, and where.

    `fix` is a text to write instead, of the line or as a line of the story; with `only_fix` it is
    the only answer there is, and `row` is the line as it stands.
    """

    level: Level
    rule: str
    path: str
    line: int
    story_id: str | None
    message: str
    fix: str | None = None
    only_fix: bool = False
    row: str = ""


class Surroundings(Struct, frozen=True):
    """What the rules have to know beside the plan.

    `rows` are the lines of the files that the stories stand in, `files` those of the repository.
    `checked`: the run itself has checks. `suggested` is a command that tests this project, if one
    was found. `trouble` tells of a command why it cannot start here, and how bad that is; `budget`
    of a text why it is none; `known` whether a word is the name of a program. `lanes`: as many
    stories are to run at once.
    """

    rows: Mapping[str, Sequence[str]] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    checked: bool = False
    suggested: str = ""
    agents: tuple[str, ...] = ()
    trouble: Callable[[str], tuple[Level, str] | None] = lambda _: None
    budget: Callable[[str], str] = lambda _: ""
    known: Callable[[str], bool] = lambda _: False
    lanes: int = 1


class _Plan:
    """A book with what several rules ask of it, worked out once."""

    def __init__(self, book: StoryBook, around: Surroundings) -> None:
        self.book = book
        self.around = around
        self.stories = book.open_stories(frozenset())
        self.ids = {story.id for story in book.stories}
        self.texts = {story.key: _texts(story) for story in self.stories}
        self._starts: dict[str, list[int]] = {}
        for story in book.stories:
            self._starts.setdefault(book.place(story), []).append(story.line)
        for lines in self._starts.values():
            lines.sort()

    def line_of(self, story: Story, part: str) -> int:
        """The line of the story that has this text; its first one where it is not to be found."""
        path = self.book.place(story)
        rows, starts = self.around.rows.get(path, ()), self._starts[path]
        after = bisect_right(starts, story.line)
        end = starts[after] - 1 if after < len(starts) else len(rows)
        begin = max(story.line, 1) - 1
        for at in range(begin, min(end, len(rows))):
            if part in rows[at]:
                return at + 1
        return story.line

    def found(  # noqa: PLR0913 - a finding has as many parts
        self,
        level: Level,
        rule: str,
        story: Story,
        message: str,
        fix: str | None = None,
        *,
        row: str = "",
        only_fix: bool = False,
        line: int = 0,
    ) -> Finding:
        path = self.book.place(story)
        line = line or (self.line_of(story, row.strip()) if row else story.line)
        return Finding(level, rule, path, line, story.id, message, fix, only_fix, row.strip())


def lint(book: StoryBook, around: Surroundings, *, deep: bool = True) -> tuple[Finding, ...]:
    """Everything that is wrong with the open stories of a book, in the order of the file.

    Not `deep`: without the rules that take longer, or need to know the files of the repository.
    """
    plan = _Plan(book, around)
    rules = [
        *(_format, _unknown_ids, _unclear_lines, _commands, _agents, _questions, _not_counted),
        *(_unchecked, _placeholders, _sizes, _secrets, _order, _orphans),
        *((_probable_secrets, _producers, _same_files) if deep else ()),
    ]
    found = [finding for rule in rules for finding in rule(plan)]
    return tuple(sorted(found, key=lambda f: (f.path, f.line, tuple(Level).index(f.level))))


def counted(findings: Iterable[Finding]) -> str:
    """How many of each level there are, in words; empty if nobody has to act."""
    levels = [finding.level for finding in findings]
    errors, warnings = levels.count(Level.ERROR), levels.count(Level.WARNING)
    told = ((errors, "error"), (warnings, "warning"))
    return " and ".join(count_of(number, noun) for number, noun in told if number)


def _texts(story: Story) -> list[str]:
    tasks = (part for task in story.tasks for part in (task.text, task.detail) if part)
    return [story.title, *([story.body] * bool(story.body)), *story.acceptance, *tasks]


def _lines(story: Story) -> Iterator[tuple[str, str, str]]:
    """Lines of the story's text for the loop: the whole row, its word, and what follows."""
    for row in story_text.rows([story.body, *(task.detail for task in story.tasks)]):
        if found := _LINE.fullmatch(row):
            yield row, found["word"], found["text"].strip()


# -- ids and dependencies -------------------------------------------------------------------------


def _format(plan: _Plan) -> Iterator[Finding]:
    """What the book itself calls a problem: it cannot be run."""
    book = plan.book
    named = {why: ("duplicate-id", story) for story, why in doubled(book.stories)}
    named |= {why: ("cycle", story) for story, why in circles(book.stories)}
    for remark in book.problems:
        rule, story = named.get(remark.why, ("format", None))
        where = (remark.path or book.path, remark.line)
        yield Finding(Level.ERROR, rule, *where, story.id if story else None, remark.why)


def _unknown_ids(plan: _Plan) -> Iterator[Finding]:
    for story in plan.stories:
        for name in dict.fromkeys(story.depends_on):
            if name not in plan.ids:
                yield _unknown_id(plan, story, name)


def _unknown_id(plan: _Plan, story: Story, name: str) -> Finding:
    level = Level.WARNING if plan.book.source in HOLDS_ONE else Level.ERROR
    message = f"Story {story.id} depends on `{name}`, and there is no such story"
    near = _same_id(name, plan.ids - {story.id})
    said = (row for row, word, text in _lines(story) if word == "Depends" and name in text)
    row = next(said, "").strip()
    if not near:
        message += ": it will never start"
        return plan.found(level, "unknown-id", story, message, row=row)
    fix = row.replace(name, near) or f"Depends: {near}"
    message += f": `{near}` is probably meant"
    return plan.found(level, "unknown-id", story, message, fix, row=row, only_fix=bool(row))


def _same_id(name: str, ids: Iterable[str]) -> str:
    """The only id that is the same but for its case, its signs and leading zeros."""
    wanted = _bare(name)
    same = [known for known in ids if _bare(known) == wanted]
    return same[0] if len(same) == 1 else ""


def _bare(name: str) -> str:
    letters = "".join(sign for sign in name.casefold() if sign.isalnum())
    return letters.removeprefix("story").removeprefix("task").lstrip("0")


def _unclear_lines(plan: _Plan) -> Iterator[Finding]:
    """Lines that look as if they were for the loop, which reads nothing in them."""
    for story in plan.stories:
        for row, word, text in _lines(story):
            finding = _UNCLEAR[word](plan, story, row, text)
            if finding:
                yield finding


def _no_dependency(plan: _Plan, story: Story, row: str, text: str) -> Finding | None:
    if story_text.names(text) or story_text.is_nothing(text):
        return None
    ids = [n for n in _ID.findall(text) if n in plan.ids and n != story.id]
    fix = f"Depends: {', '.join(dict.fromkeys(ids))}" if ids else None
    message = "No story is named in this line, so the story waits for nothing"
    return plan.found(Level.WARNING, "empty-dependency", story, message, fix, row=row)


def _no_budget(plan: _Plan, story: Story, row: str, text: str) -> Finding | None:
    why = plan.around.budget(text)
    if not why:
        return None
    return plan.found(Level.ERROR, "no-budget", story, f"This bounds nothing: {why}", row=row)


def _no_command(plan: _Plan, story: Story, row: str, text: str) -> Finding | None:
    if story_text.command(text):
        return None
    program = text.split(maxsplit=1)[0] if text else ""
    is_command = plan.around.known(program) and not _SENTENCE.search(text) and "`" not in text
    suggested = f"Verify: `{plan.around.suggested}`" if plan.around.suggested else None
    start = row.strip().partition("Verify")[0]
    fix = (
        f"{start}Verify: `{text}`".replace("**", "").replace("__", "") if is_command else suggested
    )
    message = "Nothing is run by this line: a command stands in code ticks"
    message += "" if is_command or not text else ", and this is a sentence"
    return plan.found(
        Level.WARNING, "prose-check", story, message, fix, row=row, only_fix=is_command
    )


_UNCLEAR = {"Depends": _no_dependency, "Budget": _no_budget, "Verify": _no_command}


def _order(plan: _Plan) -> Iterator[Finding]:
    """Stories that stand before what they need: they run in another order than people read."""
    place = {story.id: at for at, story in enumerate(plan.stories)}
    for at, story in enumerate(plan.stories):
        later = [name for name in story.depends_on if place.get(name, -1) > at]
        if later:
            message = f"Story {story.id} stands before what it depends on ({', '.join(later)})"
            yield plan.found(Level.INFO, "order", story, f"{message}: it runs after it")


def _orphans(plan: _Plan) -> Iterator[Finding]:
    """Where nearly all stories hang together, one that does not was probably forgotten."""
    linked = {name for story in plan.stories for name in story.depends_on}
    linked |= {story.id for story in plan.stories if story.depends_on}
    alone = [story for story in plan.stories if story.id not in linked]
    for story in alone if len(alone) * TOLD_ONCE <= len(plan.stories) else ():
        message = f"Nothing waits for story {story.id}, and it waits for nothing"
        yield plan.found(Level.INFO, "orphan", story, message)


def _not_counted(plan: _Plan) -> Iterator[Finding]:
    for remark in plan.book.ignored:
        level = Level.WARNING if remark.unfinished else Level.INFO
        path = remark.path or plan.book.path
        yield Finding(level, "not-counted", path, remark.line, None, remark.why)


# -- checks and agents ----------------------------------------------------------------------------


def _commands(plan: _Plan) -> Iterator[Finding]:
    for story in plan.stories:
        for row, word, text in _lines(story):
            command = story_text.command(text) if word == "Verify" else ""
            if not command:
                continue
            if _NO_COMMAND.fullmatch(command):
                message = f"This is the place of a command, and not one yet: `{command}`"
                fix = f"Verify: `{plan.around.suggested}`" if plan.around.suggested else None
                yield plan.found(Level.ERROR, "placeholder", story, message, fix, row=row)
            elif trouble := plan.around.trouble(command):
                level, why = trouble
                message = f"`{command}` cannot start here: {why}"
                yield plan.found(level, "cannot-start", story, message, row=row)


def _agents(plan: _Plan) -> Iterator[Finding]:
    known = plan.around.agents
    for story in plan.stories if known else ():
        if story.agent and story.agent not in known:
            message = f"There is no agent called `{story.agent}`: {', '.join(known)}"
            yield plan.found(Level.ERROR, "unknown-agent", story, message, row=story.agent)


def _questions(plan: _Plan) -> Iterator[Finding]:
    for story in plan.stories:
        asked = story.question
        if asked and all(name in plan.ids for name in story.depends_on):
            message = f"Story {story.id} waits for your answer: {asked.splitlines()[0]}"
            yield plan.found(Level.WARNING, "question", story, message)


def _unchecked(plan: _Plan) -> Iterator[Finding]:
    """Stories of which nobody can tell whether they are done."""
    if plan.around.checked:
        return
    bare = [story for story in plan.stories if not _has_outcome(plan, story)]
    command = plan.around.suggested or "COMMAND"
    fix = f"Verify: `{command}`"
    if len(bare) >= TOLD_ONCE and len(bare) == len(plan.stories):
        message = f"None of the {len(bare)} open stories says how to tell that it is done"
        where = (plan.book.place(bare[0]), bare[0].line)
        yield Finding(Level.WARNING, "no-outcome", *where, None, message, fix)
        return
    for story in bare:
        message = f"Story {story.id} does not say how to tell that it is done"
        yield plan.found(Level.WARNING, "no-outcome", story, message, fix)


def _has_outcome(plan: _Plan, story: Story) -> bool:
    return bool(story.acceptance) or any(map(_OUTCOME.search, plan.texts[story.key]))


# -- words ----------------------------------------------------------------------------------------


def _placeholders(plan: _Plan) -> Iterator[Finding]:
    for story in plan.stories:
        for text in (story.title, *(task.text for task in story.tasks if not task.done)):
            if found := _PLACEHOLDER.search(_CODE.sub(" ", text).strip()):
                message = f"`{found[0]}` is a placeholder: nobody has written what is to be done"
                yield plan.found(Level.WARNING, "placeholder", story, message, row=text)
                break


def _sizes(plan: _Plan) -> Iterator[Finding]:
    for story in plan.stories:
        texts = plan.texts[story.key]
        words = sum(len(text.split()) for text in texts)
        tasks = len(story.tasks) - story.complete
        files = len(paths_in_text(story, plan.around.files)) if words > MOST_NAMED_FILES else 0
        over = [
            count_of(number, noun)
            for number, most, noun in (
                (tasks, MOST_TASKS, "open task"),
                (words, MOST_WORDS, "word"),
                (files, MOST_NAMED_FILES, "named file"),
            )
            if number > most
        ]
        if over:
            message = f"Story {story.id} is large for one call ({', '.join(over)}): split it"
            yield plan.found(Level.WARNING, "too-large", story, message)
        elif len({word for text in texts for word in text.casefold().split()}) < LEAST_WORDS:
            message = f"Story {story.id} says too little to know what is to be done"
            yield plan.found(Level.WARNING, "too-vague", story, message)


def _secrets(plan: _Plan) -> Iterator[Finding]:
    """Secrets of a known shape, by their line only: the finding itself is shown and stored."""
    for story in plan.stories:
        text = "\n".join(plan.texts[story.key])
        if what := secret("", _bytes(text)):
            row = next((row for row in text.split("\n") if secret("", _bytes(row))), "")
            yield _leaked(plan, Level.ERROR, story, what, row)


def _probable_secrets(plan: _Plan) -> Iterator[Finding]:
    """What the logs would have redacted; `password: something` may be a sentence."""
    redacted = redactor({})

    def hides(text: str) -> bool:
        return redacted(data := _bytes(text)) != data

    for story in plan.stories:
        text = "\n".join(plan.texts[story.key])
        if hides(text) and not secret("", _bytes(text)):
            row = next(filter(hides, text.split("\n")), "")
            yield _leaked(plan, Level.WARNING, story, "a secret", row)


def _leaked(plan: _Plan, level: Level, story: Story, what: str, row: str) -> Finding:
    message = f"Story {story.id} has what looks like {what}: agents and logs would get it"
    line = plan.line_of(story, row.strip())
    return plan.found(level, "secret", story, message, line=line)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


# -- files ----------------------------------------------------------------------------------------


def _producers(plan: _Plan) -> Iterator[Finding]:
    """Stories that use a file which a later one makes."""
    makes: dict[str, int] = {}
    uses: list[dict[str, str]] = []
    for at, story in enumerate(plan.stories):
        made, used = _new_files(plan, story)
        uses.append(used)
        for path in made:
            makes.setdefault(path, at)
    for at, story in enumerate(plan.stories):
        for path, row in uses[at].items():
            maker = plan.stories[makes[path]] if makes.get(path, at) > at else None
            if maker and maker.id not in story.depends_on:
                message = f"Story {story.id} uses {path}, which story {maker.id} makes later"
                fix = f"Depends: {maker.id}"
                yield plan.found(
                    Level.WARNING, "consumer-before-producer", story, message, fix, row=row
                )


def _new_files(plan: _Plan, story: Story) -> tuple[set[str], dict[str, str]]:
    """Files that are not there yet: those that the story makes, and with their lines the others."""
    made, used = set[str](), dict[str, str]()
    rows = [row for text in plan.texts[story.key] if "/" in text for row in text.split("\n")]
    for row in rows:
        for path in (p for p in named_paths(row) if "/" in p and p not in plan.around.files):
            if _CREATES.search(row.partition(path)[0]):
                made.add(path)
            else:
                used.setdefault(path, row)
    return made, {path: row for path, row in used.items() if path not in made}


def _same_files(plan: _Plan) -> Iterator[Finding]:
    """Stories that cannot run at once because of their files, and what that costs."""
    lanes = max(plan.around.lanes, 2)
    level = Level.WARNING if plan.around.lanes > 1 else Level.INFO
    book = plan.book.restated(plan.stories[:MOST_COMPARED])
    found = beside(book, lanes)
    groups: dict[str, dict[str, Story]] = {}
    for pair in found.apart:
        one, other = pair.one, pair.other
        groups.setdefault(pair.why, {}).update({one.id: one, other.id: other})
    for why, stories in groups.items():
        first = next(iter(stories.values()))
        shown = ", ".join([*stories][:MOST_SHOWN])
        more = f" and {len(stories) - MOST_SHOWN} more" if len(stories) > MOST_SHOWN else ""
        message = f"Stories {shown}{more} {why}: they do not run at once"
        yield plan.found(level, "same-files", first, message)
    apart = any(pair.cause is not Cause.UNKNOWN for pair in found.apart)
    free = beside(_without_files(book), lanes, optimistic=True) if apart else found
    if len(found.rounds) > len(free.rounds):
        count = f"{len(found.rounds)} rounds instead of {len(free.rounds)}"
        message = f"Shared files cost time in lanes: with {lanes}, these stories take {count}"
        where = (book.path, plan.stories[0].line)
        yield Finding(level, "lanes", *where, None, message)


def _without_files(book: StoryBook) -> StoryBook:
    return book.restated(tuple(replace(s, touches=(), predicted=()) for s in book.stories))
