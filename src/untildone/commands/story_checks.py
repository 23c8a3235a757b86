"""Which checks of story text are the person's: those that a commit of this repository has."""

import json
from collections.abc import Iterable

from msgspec.structs import replace

from untildone.adapters.git.git import Git
from untildone.domain.checks.terms import Terms, all_written
from untildone.domain.run.run import Origin
from untildone.domain.stories.story import StoryBook


def terms_of_stories(
    book: StoryBook | None, git: Git, origin: Origin, *, trusted: bool
) -> tuple[Terms, ...]:
    """What decides about each story; a command that nobody has committed is not run."""
    found = all_written(book) if book else ()
    with_checks = [terms for terms in found if terms.checks]
    if trusted or not with_checks:
        return found
    texts = _committed(git, origin.commit, {_path(terms) for terms in with_checks})
    return tuple(_sorted_out(terms, texts.get(_path(terms), "")) for terms in found)


def not_run(terms: Iterable[Terms]) -> tuple[str, ...]:
    """One sentence per check that is only shown."""
    return tuple(
        f"A check of story {story.id} is not run, because nobody has committed that text to this "
        f"repository ({story.at}): `{command}`. Commit it, or `--trust-story-checks`"
        for story in terms
        for command in story.not_run
    )


def _path(terms: Terms) -> str:
    return terms.at.rpartition(":")[0]


def _committed(git: Git, commit: str, paths: Iterable[str]) -> dict[str, str]:
    inside = sorted(p for p in paths if p and not p.startswith("/") and ".." not in p.split("/"))
    blobs = git.blobs_at(commit, inside) if inside else {}
    stored = git.objects([name.encode() for name in blobs.values()]) if blobs else {}
    return {path: stored.get(name, b"").decode(errors="replace") for path, name in blobs.items()}


def _sorted_out(terms: Terms, text: str) -> Terms:
    ours = tuple(command for command in terms.checks if _has(text, command))
    return replace(terms, checks=ours, not_run=tuple(c for c in terms.checks if c not in ours))


def _has(text: str, command: str) -> bool:
    """Whether the text has the command in code ticks, as it is or inside a JSON string."""
    spelled = (command, *(json.dumps(command, ensure_ascii=e)[1:-1] for e in (True, False)))
    return any(f"`{words}`" in text or f"` {words} `" in text for words in spelled)
