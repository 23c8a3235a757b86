"""What failed before the first story: named to the person, and let through if asked for."""

from collections.abc import Iterable

from msgspec import Struct

from untildone.domain.checks.checks import Check, Checked, Failing
from untildone.domain.checks.failing_tests import failing_tests
from untildone.domain.regex import regex

MOST_NAMED = 10
EXITED = "exit code"
PASSING = f"{EXITED} 0"
_HIDDEN = regex(rf"{PASSING}, but its runner counted (\d+) failed")


class Compared(Struct, frozen=True):
    """A failing check beside its failure at the start: what is new, what is old."""

    new: tuple[str, ...] = ()
    old: tuple[str, ...] = ()


def failing(check: Check, checked: Checked) -> Failing:
    """What is remembered of a failing check; names that a pipe has cut short tell too little."""
    names, tests = failing_tests(checked.output), checked.tests
    if checked.how.startswith(PASSING) and tests and tests.failed > len(names):
        names = ()
    return Failing(check.command, checked.how, names)


def compare(now: Failing, known: Iterable[Failing]) -> Compared:
    """By the names of failing tests where both have them, else by how the check ended."""
    then = next((was for was in known if was.command == now.command), None)
    if then is None:
        return Compared(new=now.names or (now.command,))
    if then.names and now.names and now.how.startswith(EXITED):
        return _by_name(now.names, then.names)
    if then.names or not _as_good(now.how, then.how):
        return Compared(new=(f"{now.command} ({now.how}, before: {then.how})",))
    return Compared(old=now.names or (now.command,))


def _as_good(now: str, then: str) -> bool:
    """Whether it ended in the same way, or with fewer of the failures that its exit code hides."""
    numbers = [int(found[1]) for how in (now, then) if (found := _HIDDEN.fullmatch(how))]
    return now == then or (len(numbers) == 2 and numbers[0] < numbers[1])


def _by_name(now: tuple[str, ...], then: tuple[str, ...]) -> Compared:
    new = tuple(name for name in now if name not in then)
    return Compared(new, tuple(name for name in now if name in then))


def listed(names: tuple[str, ...]) -> str:
    """Names in one line; of very many the first ones."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
