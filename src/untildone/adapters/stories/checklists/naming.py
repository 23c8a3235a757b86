"""Names of stories and tasks: the number their text starts with, or a slug that git accepts."""

import unicodedata

from untildone.domain.regex import regex

_WRAP = r"[*_`~]{0,3}"
_DOTTED = r"[0-9]{1,9}(?:\.[0-9]{1,9}){1,7}"
_END = r"(?=\s|$)"
_PART = r"(?:[A-Za-z]|[-.][0-9A-Za-z]{1,2})?"
# A lone integer needs its dot: "3 ways to fail" has no number. The code points are the full-width
# colon, comma and full stop, which stand without a blank behind them.
_NUMBER = regex(
    rf"(?:\*\s+)?(?P<wrap>{_WRAP})"
    rf"(?:(?P<number>{_DOTTED}|[0-9]{{1,9}}(?={_WRAP}[.):\uff1a\u3001\uff0e])|(?P<letter>T[0-9]{{1,6}}{_PART}))"
    rf"(?P<close>{_WRAP}(?:[.):]?{_WRAP}{_END}|[\uff1a\u3001\uff0e]{_WRAP})))"
)
# What most numbers look like, found without the long way round.
_USUAL = regex(r"(?:([0-9]{1,9}(?:\.[0-9]{1,9}){1,7})|([0-9]{1,9})\.) (?=[^\s])")
_STARTS = frozenset("0123456789*_`~T")
# A run of signs becomes one hyphen, and so does a dot that ends a word.
_ILLEGAL = regex(r"(?:[\x00-,/:-@\[-^`{-\x7f-]|\.(?![^\x00-/:-@\[-^`{-\x7f]))+")
_DOTS = regex(r"\.{2,}")
_LOCK = regex(r"\.lock(?=$|\.)")
_SLUG_LIMIT = 60
_DIGEST = 8


def normal(text: str) -> str:
    """Text with runs of blanks made one: the form in which texts are compared."""
    return " ".join(text.split())


def number(text: str) -> str:
    """The number at the start of a task's text, `T001` included; empty if there is none."""
    usual = _USUAL.match(text)
    return usual[1] or usual[2] if usual else split_number(text, letters=True)[0]


def split_number(text: str, *, letters: bool) -> tuple[str, str]:
    """The number at the start (`1.2`, `1.`, with `letters` also `T001`) and the rest."""
    if text[:1] not in _STARTS:
        return "", text
    usual = _USUAL.match(text)
    if usual:
        return usual[1] or usual[2], text[usual.end() :].strip()
    match = _NUMBER.match(text)
    if match is None or (match["letter"] and not letters):
        return "", text
    rest = text[match.end() :].strip()
    if match["wrap"] and match["wrap"] not in match["close"]:
        rest = rest.removesuffix(match["wrap"])
    return match["number"] or match["letter"], rest


def slug(text: str) -> str:
    """A name made of the text: never empty, bounded, a legal part of a git ref.

    Letters of every script stay, because git accepts them and people can read them.
    """
    plain = normal(text).lower()
    if not plain.isascii():
        plain = unicodedata.normalize("NFC", plain)
        plain = "".join(char if _is_kept(char) else "-" for char in plain)
    name = _DOTS.sub(".", _ILLEGAL.sub("-", plain)).strip("-.")
    name = _LOCK.sub("-lock", name)
    if not name:
        return f"story-{digest(text)}"
    if len(name) > _SLUG_LIMIT:
        return f"{name[: _SLUG_LIMIT - _DIGEST - 1].rstrip('-.')}-{digest(text)}"
    return name


def digest(text: str) -> str:
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and few names need it

    return hashlib.sha256(normal(text).encode()).hexdigest()[:_DIGEST]


def _is_kept(char: str) -> bool:
    return char.isascii() or unicodedata.category(char)[0] in "LMN"
