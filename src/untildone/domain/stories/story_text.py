"""Lines of a story's own text that are meant for the loop: `Agent: codex` and its like."""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from untildone.domain.markdown import opened_fence
from untildone.domain.regex import regex

# Bold or a list marker around the word is fine.
_START = r"\s*(?:[-*+]\s+)?(?:\*\*|__)?"
_LINE = _START + r"{word}:?(?:\*\*|__)?:?\s+(.*\S)\s*"
_COLON = r"(?P<word>Agent|Model|Touches|Depends)(?::(?:\*\*|__)?|(?:\*\*|__):)"
_ANYWHERE = regex(_COLON)
_SETTING = regex(_START + _COLON + r"\s+(?P<text>.*\S)\s*")
_TICKS = regex(r"(`+)\s?(.+?)\s?\1")
_NOTHING = frozenset({"none", "nothing", "-", "n/a", "no"})
_AND = regex(r"\s*,\s*(?:and\s+)?|\s+and\s+")
_PATH = regex(r"[/.*]")


class Said(Struct, frozen=True):
    """What the lines of one story say; empty where nothing is said."""

    agent: str = ""
    model: str = ""
    touches: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()


def setting_line(word: str, *, any_case: bool = False) -> re.Pattern[str]:
    """What a line that begins with this word looks like; its group is what the word is given."""
    return regex(_LINE.format(word=word), re.IGNORECASE if any_case else 0)


def rows(texts: Iterable[str]) -> list[str]:
    """The lines of these texts, without code blocks."""
    found: list[str] = []
    fence = None
    for row in "\n".join(texts).split("\n"):
        if fence:
            fence = None if fence.closed_by(row) else fence
        elif not (fence := opened_fence(row)):
            found.append(row)
    return found


def is_setting(row: str) -> bool:
    """Whether a line is one of those that are read here."""
    return bool(_SETTING.fullmatch(row))


def said(texts: Iterable[str]) -> Said | None:
    """What the loop is told; None if nothing, which is found out without looking at every line.

    Such lines stand in files that were written for other programs and for people, too: a line
    counts only if it looks like a value, and `Model: the one of the user` is a sentence.
    """
    kept = list(texts)
    if not any(map(_ANYWHERE.search, kept)):
        return None
    given: dict[str, tuple[str, ...]] = {}
    for line in filter(None, map(_SETTING.fullmatch, rows(kept))):
        if values := _values(line["word"], line["text"]):
            given.setdefault(line["word"], values)
    one = {word: values[0] for word, values in given.items() if len(values) == 1}
    agent, _, model = one.get("Agent", "").partition(":")
    return Said(
        agent,
        one.get("Model", model),
        given.get("Touches", ()),
        given.get("Depends", ()),
    )


def command(text: str) -> str:
    """The command that a line is given: it stands in code ticks; empty where it does not.

    Without them such a line is more often a sentence for people.
    """
    ticked = _TICKS.fullmatch(text)
    return ticked[2] if ticked else ""


def names(text: str) -> tuple[str, ...]:
    """What a line `Depends:` names; a sentence names nothing."""
    return _values("Depends", text)


def is_nothing(text: str) -> bool:
    """Whether a line says in so many words that there is nothing to name."""
    return _bare(text).strip(".").casefold() in _NOTHING


def with_dependencies(text: str, members: Mapping[str, Sequence[str]]) -> str:
    """The text with the members of a group in place of its name, where it says `Depends:`."""
    kept = []
    for row in text.split("\n"):
        line = _SETTING.fullmatch(row)
        names = _values("Depends", line["text"]) if line and line["word"] == "Depends" else ()
        each = [member for name in names for member in members.get(name, (name,))]
        kept.append(f"Depends: {', '.join(each)}" if each else row)
    return "\n".join(kept)


def _values(word: str, text: str) -> tuple[str, ...]:
    """The words of a list with commas; of paths also with blanks. A sentence has none."""
    listed = [_bare(part) for part in _AND.split(text)]
    if word == "Touches" and any(" " in part for part in listed):
        listed = [_bare(part) for part in re.split(r"[,\s]+", text)]
        if not all(map(_PATH.search, listed)):
            return ()
    if any(not part or " " in part for part in listed):
        return ()
    return tuple(part for part in listed if part.casefold() not in _NOTHING)


def _bare(part: str) -> str:
    ticked = _TICKS.fullmatch(part.strip())
    return ticked[2] if ticked else part.strip()
