"""What of story text is the person's: commands and permissions that a commit here has."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.git.git import Git
from untildone.domain.checks.terms import Terms, all_written, written
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Origin
from untildone.domain.stories.story import Story, StoryBook, StoryKey
from untildone.plain_files import read_text

WHY = "because nobody has committed that text to this repository"
TRUST = "Commit it, or `--trust-story-checks`"


def terms_of_stories(
    book: StoryBook | None, top: Path, git: Git, origin: Origin, *, trusted: bool
) -> tuple[Terms, ...]:
    """What decides about each story, without commands and permissions that nobody has committed.

    A command is the person's if the committed file has it anywhere: a check never loosens anything.
    What a story may do must be committed in the text of that story.
    """
    found = tuple(_with_lines(all_written(book), top)) if book else ()
    paths = {_path(terms) for terms in found if terms.checks or terms.allows}
    if trusted or not book or not paths:
        return found
    texts = _committed(git, origin.commit, paths)
    same = {path for path, text in texts.items() if _now(top / path) == text}
    return tuple(map(partial(_sorted_out, texts=texts, same=same, book=book), found))


def not_obeyed(plan: Plan, finished: Set[StoryKey] = frozenset()) -> Iterator[str]:
    """One sentence per check that is only shown, and per story that would be allowed something."""
    guarded = bool(plan.verify or plan.story_verify or plan.protected or plan.evidence)
    for story in (terms for terms in plan.terms or () if terms.key not in finished):
        for command in story.not_run:
            shown = f"({story.place_of(command)}): `{command}`"
            yield f"A check of story {story.id} is not run, {WHY} {shown}. {TRUST}"
        if story.withheld and (guarded or story.checks):
            shown = f"({story.at}): {'; '.join(story.withheld)}"
            yield f"Story {story.id} is not allowed what its text says, {WHY} {shown}. {TRUST}"


def _with_lines(found: tuple[Terms, ...], top: Path) -> Iterator[Terms]:
    """The terms with the line of each check: the first below the story's own that has it."""
    paths = {_path(terms) for terms in found if terms.checks}
    rows = {path: list(_verify_rows(top / path)) for path in paths}
    for terms in found:
        start = int(terms.at.rpartition(":")[2])
        below = [row for row in rows.get(_path(terms), ()) if row[0] >= start]
        lines = ((c, next((n for n, row in below if _has(row, c)), 0)) for c in terms.checks)
        yield replace(terms, lines=tuple((command, n) for command, n in lines if n))


def _verify_rows(path: Path) -> Iterator[tuple[int, str]]:
    rows = enumerate((_now(path) or "").split("\n"), 1)
    return ((n, row) for n, row in rows if "Verify" in row)


def _path(terms: Terms) -> str:
    return terms.at.rpartition(":")[0]


def _committed(git: Git, commit: str, paths: Iterable[str]) -> dict[str, str]:
    inside = sorted(p for p in paths if p and not p.startswith("/") and ".." not in p.split("/"))
    blobs = git.blobs_at(commit, inside) if inside else {}
    stored = git.objects([name.encode() for name in blobs.values()]) if blobs else {}
    texts = {path: stored.get(name, b"").decode(errors="replace") for path, name in blobs.items()}
    return {path: text.replace("\r\n", "\n") for path, text in texts.items()}


def _now(path: Path) -> str | None:
    try:
        return read_text(path, errors="replace")
    except OSError:
        return None


def _sorted_out(terms: Terms, texts: Mapping[str, str], same: Set[str], book: StoryBook) -> Terms:
    path = _path(terms)
    if path in same:
        return terms
    text = texts.get(path, "")
    ours = tuple(command for command in terms.checks if _has(text, command))
    others = tuple(command for command in terms.checks if command not in ours)
    titles = [story.title for story in book.stories if story.title not in ("", terms.title)]
    body = "\n".join(_own_text(terms.title, path, text, titles))
    here = StoryBook("", "", "", (Story(terms.id, terms.title, (), body=body),))
    granted = written(here.stories[0], here).allows
    return replace(terms, checks=ours, not_run=others).allowing(granted)


def _has(text: str, command: str) -> bool:
    """Whether the text has the command in code ticks, as it is or inside a JSON string."""
    spelled = (command, *(json.dumps(command, ensure_ascii=e)[1:-1] for e in (True, False)))
    return any(f"`{words}`" in text or f"` {words} `" in text for words in spelled)


def _own_text(title: str, path: str, text: str, others: Sequence[str]) -> Iterator[str]:
    """The lines of a committed file that are about the story with this title."""
    if path.endswith((".json", ".jsonl")):
        yield from _texts_beside(title, _parsed(text))
        return
    rows = [(row, row.rstrip(" #*_\"'`")) for row in text.split("\n")]
    inside = False
    for row, bare in rows:
        if title and bare.endswith(title):
            inside = True
        elif bare.endswith(tuple(others)):
            inside = False
        if inside:
            yield row


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return [_parsed(row) for row in text.split("\n")] if "\n" in text.strip() else None


def _texts_beside(title: str, value: object) -> Iterator[str]:
    """All texts of the objects of which one is the title."""
    if isinstance(value, dict) and title in value.values():
        yield from _texts(value)
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts_beside(title, part)


def _texts(value: object, name: str = "") -> Iterator[str]:
    if isinstance(value, str):
        yield f"Touches: {value}" if name == "touches" else value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _texts(part, str(key))
    elif isinstance(value, list) and name == "touches":
        yield f"Touches: {', '.join(map(str, value))}"
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
