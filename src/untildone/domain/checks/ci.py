"""Checks of a pull request that run elsewhere: what they say together, and how a log ends."""

from collections.abc import Iterable

from msgspec import Struct

from untildone.domain.plain_text import plain
from untildone.domain.regex import regex

GREEN = frozenset({"success", "neutral", "skipped"})
# What a change of the code can mend; the rest needs somebody who may press a button there.
MENDABLE = frozenset({"failure", "timed_out", "error"})
MOST_LINES, MOST_SIGNS = 150, 9_000
_STAMP = regex(r"^\ufeff?\d{4}-\d\d-\d\dT[\d:.]+Z ?")
_ERROR = "##[error]"
_GROUP = regex(r"^##\[(?:group|endgroup|command)\]")
# After the line with the error: what it ended with, and no clean-up of the machine.
_AFTER = 3
_OTHER_SIGNS = regex(r"[^\w .,:()/+#=@-]+")


class Check(Struct, frozen=True):
    """One check of a commit; an empty `conclusion` is one that still runs.

    `log` is the name under which its log can be asked for; `said` what it tells without one.
    """

    name: str
    conclusion: str = ""
    url: str = ""
    log: str = ""
    said: str = ""

    @property
    def is_red(self) -> bool:
        return bool(self.conclusion) and self.conclusion not in GREEN

    @property
    def is_mendable(self) -> bool:
        return self.conclusion in MENDABLE


class Standing(Struct, frozen=True):
    """All checks of a commit."""

    checks: tuple[Check, ...] = ()

    @property
    def running(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.conclusion)

    @property
    def red(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.is_red)

    @property
    def is_green(self) -> bool:
        return bool(self.checks) and not self.running and not self.red


def end_of_log(log: str) -> str:
    """The last lines up to the error, without the stamps that a machine puts before each."""
    rows = [_STAMP.sub("", row).rstrip() for row in plain(log).split("\n")]
    last = max((n for n, row in enumerate(rows) if _ERROR in row), default=len(rows))
    kept = [row for row in rows[: last + _AFTER] if row and not _GROUP.match(row)]
    text = "\n".join(row.replace(_ERROR, "error: ") for row in kept[-MOST_LINES:])
    return text[-MOST_SIGNS:]


def title_of(check: Check, known: Iterable[str]) -> str:
    """What a story about it is called; a second one about the same check has a number."""
    name = " ".join(_OTHER_SIGNS.sub(" ", check.name).split())[:60].strip(" #.:") or "of the CI"
    title, taken = f"Make the CI check {name} pass", set(known)
    others = (f"{title}, attempt {number}" for number in range(2, len(taken) + 3))
    return next(text for text in (title, *others) if text not in taken)
