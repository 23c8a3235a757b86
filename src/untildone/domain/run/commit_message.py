"""What the commit of a finished story is called, by the person's own template."""

from untildone.domain.plain_text import plain
from untildone.domain.regex import regex

DEFAULT = "checkpoint: {id}"
PLACEHOLDERS = ("id", "title", "change", "attempt")
LONGEST_TITLE = 100
LONGEST = 200
_PLACEHOLDER = regex(r"\{(\w*)\}")


def unknown_placeholders(template: str) -> tuple[str, ...]:
    """What stands in braces and means nothing here."""
    found = dict.fromkeys(_PLACEHOLDER.findall(template))
    return tuple(name for name in found if name not in PLACEHOLDERS)


def subject(template: str, story_id: str, title: str, change: str, attempt: int) -> str:
    """The first line of a commit message: one line, and never empty."""
    title = _one_line(title)
    if len(title) > LONGEST_TITLE:
        title = f"{title[: LONGEST_TITLE - 1].rstrip()}…"
    values = {"id": story_id, "title": title, "change": change, "attempt": str(attempt)}
    made = _one_line(_PLACEHOLDER.sub(lambda found: values[found[1]], template))
    return made[:LONGEST] or DEFAULT.format(id=story_id)


def _one_line(text: str) -> str:
    return " ".join(plain(text).split())
