"""How many tests a check ran, by the words of its runner; fewer than before prove less."""

import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec import Struct

from untildone.domain.regex import regex


class Counts(Struct, frozen=True):
    """How the tests of one check ended. A test that is expected to fail proves nothing: skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def collected(self) -> int:
        return self.passed + self.failed + self.skipped

    @property
    def said(self) -> str:
        more = f", {self.failed} failed" if self.failed else ""
        return f"{self.passed} passed{more}, {self.skipped} skipped"


class Counted(Struct, frozen=True, omit_defaults=True):
    """The tests of one check at a checkpoint; `reported` by a file that its runner wrote for us."""

    command: str
    tests: Counts
    reported: Counts | None = None


# What a runner calls the ways a test can end. What it leaves out on purpose (deselected, todo,
# filtered out) is not counted: where it was a test before, there is one less that passes.
_WAYS = {
    "passed": ("passed", "passing", "pass", "ok", "xpassed"),
    "failed": (
        *("failed", "failing", "fail", "failures", "failure", "error", "errors", "cancelled"),
        *("unexpected successes",),
    ),
    "skipped": ("skipped", "pending", "ignored", "xfailed", "expected failures", "incomplete"),
}
_WAY_OF = {word: way for way, words in _WAYS.items() for word in words}
_NUMBER_FIRST = regex(r"(\d+) ([a-z]+)")
_NUMBER_LAST = regex(r"([a-z][a-z ]*?)(?:=|: )(\d+)")

_PYTEST = regex(r"(?:=+ )?((?:\d+ [a-z ]+(?:, )?)+) in [\d.]+s(?: \([\d:]+\))?(?: =+)?")
_UNITTEST = regex(r"Ran (\d+) tests? in [\d.]+s")
_UNITTEST_END = regex(r"(?:OK|FAILED)(?: \((.*)\))?")
_JEST = regex(r"Tests:\s+((?:\d+ [a-z]+, )*\d+ total)")
_VITEST = regex(r"\s*Tests\s+(\d+ [a-z]+(?: \| \d+ [a-z]+)*) \(\d+\)")
_NODE = regex(r"[#\u2139] (pass|fail|cancelled|skipped) (\d+)")
_CARGO = regex(r"test result: \w+\. (\d+ passed; \d+ failed; \d+ ignored).*")
_NEXTEST = regex(r"\s*Summary \[.*\] +\d+ tests? run: (.*)")
_GO_TEST = regex(r"\s*--- (PASS|FAIL|SKIP): .*")
_GO_PACKAGE = regex(r"(ok|FAIL) *\t\S+\t(?!.*\[no tests to run\]).*")
_GO_WAYS = {"PASS": "passed", "ok": "passed", "FAIL": "failed", "SKIP": "skipped"}
_MOCHA = regex(r"\s*(\d+ (?:passing|pending|failing))(?: \(.*\))?")
_RSPEC = regex(r"(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?.*")
_PHPUNIT = regex(r"OK \((\d+) tests?, \d+ assertions?\)")
_PHPUNIT_ISSUES = regex(r"Tests: (\d+), Assertions: \d+(.*?)\.?")

_XML = regex(r"[^\s'\"=:]+\.xml\b")
_CASE, _SKIPPED = regex(r"<testcase\b([^>]*)>"), regex(r"<skipped\b")
_TIME = regex(r"\btime=(?:\"[^\"]*\"|'[^']*')|/$")
_FAILED = regex(r"<(?:failure|error)\b")
_REPORT_NAMED = regex(r"--junit-?xml|no:junitxml")
# With these a runner picks tests by what was changed, or failed last: their number says nothing.
_SELECTS = frozenset(
    (
        *("--lf", "--last-failed", "--sw", "--stepwise", "--testmon", "--picked"),
        *("--onlyChanged", "--changed", "--changedSince", "--only-failures", "affected"),
    )
)
# A line with a number, or the word of unittest or go: a flood has many lines that tell nothing.
_TELLING = regex(r"^[^\d\n]*\d.*$|^(?:OK|FAILED|ok|FAIL)\b.*$", re.MULTILINE)
_LIKE_A_TEST = regex(r"(?i)test|spec")


def count(output: str) -> Counts | None:
    """What the runners in this output counted, all together; None if no number was found."""
    rows = [row.rstrip() for row in _TELLING.findall(output)]
    found = [c for read in _READERS for c in read(rows)]
    return _sum(found) if found else None


def count_junit(text: str) -> Counts | None:
    found = [_TIME.sub("", case).strip() for case in _CASE.findall(text)]
    # A test that was run again because it failed is one test.
    cases = found.count("") + len(set(found) - {""})
    failed, skipped = len(_FAILED.findall(text)), len(_SKIPPED.findall(text))
    return Counts(max(0, cases - failed - skipped), failed, skipped) if cases else None


def junit_file(command: str) -> str:
    """The JUnit file that a command writes, by its name; empty if it names none."""
    found = _XML.search(command) if "junit" in command.lower() else None
    return found[0] if found else ""


def with_report(options: str, file: str, *more: str) -> str:
    """Options of pytest with the wish for a report in this file.

    Not where the options, or one of the texts that say `more` of them, decide about a report: then
    somebody else needs it, or pytest cannot write any.
    """
    if any(_REPORT_NAMED.search(text) for text in (options, *more)):
        return options
    return f"{options} --junitxml={shlex.quote(file)}".strip()


def hidden_failures(command: str, *counts: Counts | None) -> int:
    """How many tests failed by the words of a runner whose check exits as if all was well.

    Not where the same program runs once more for those that failed: then its last word counts.
    """
    again = (a.split()[:1] == b.split()[:1] for a, b in pairwise(command.split("||")))
    if not _SELECTS.isdisjoint(command.split()) or any(again):
        return 0
    return max((found.failed for found in counts if found), default=0)


def shrunk(
    command: str, now: Counts | None, reported: Counts | None, known: Iterable[Counted]
) -> str:
    """Why this run of a check proves less than that of the last checkpoint; empty if it does not.

    What is printed and what is reported must both hold: what is tested can print, too.
    """
    was = next((each for each in known if each.command == command), None)
    if was is None or not _SELECTS.isdisjoint(command.split()):
        return ""
    printed = _less(now, was.tests, "no number of tests was printed")
    if printed or was.reported is None:
        return printed
    told = _less(reported, was.reported, "nothing was written")
    return f"by the report of its runner {told}" if told else ""


def _less(now: Counts | None, was: Counts, nothing: str) -> str:
    """Fewer tests that pass, fewer tests at all, more that are skipped, or no number any more."""
    if not was.collected:
        return ""
    if now is None:
        return f"{nothing}, at the last checkpoint {was.said}"
    worse = now.passed < was.passed or now.collected < was.collected or now.skipped > was.skipped
    return f"{now.said}, at the last checkpoint {was.said}" if worse else ""


def merged(known: Iterable[Counted], more: Iterable[Counted]) -> tuple[Counted, ...]:
    """The newer number of each check."""
    return tuple({each.command: each for each in (*known, *more)}.values())


def files_of_tests(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths that look like tests; all of them if none does."""
    every = tuple(paths)
    return tuple(path for path in every if _LIKE_A_TEST.search(path)) or every


def _sum(found: Iterable[Counts]) -> Counts:
    every = tuple(found)
    return Counts(
        sum(c.passed for c in every), sum(c.failed for c in every), sum(c.skipped for c in every)
    )


def _of(pairs: Iterable[tuple[str, int]]) -> Counts:
    """By how often each way of ending was named."""
    numbers = {"passed": 0, "failed": 0, "skipped": 0}
    for word, number in pairs:
        if way := _WAY_OF.get(word.strip()):
            numbers[way] += number
    return Counts(**numbers)


def _phrase(text: str) -> Counts:
    return _of((word, int(number)) for number, word in _NUMBER_FIRST.findall(text))


def _phrases(rows: list[str]) -> Iterator[Counts]:
    """Runners whose last line is `5 passed, 1 skipped` in one dress or another."""
    for row in rows:
        found = next(filter(None, (p.fullmatch(row) for p in _PHRASES)), None)
        if found:
            yield _phrase(found[1])


_PHRASES = (_PYTEST, _JEST, _VITEST, _CARGO, _NEXTEST, _MOCHA)


def _unittest(rows: list[str]) -> Iterator[Counts]:
    ran = 0
    for row in rows:
        if begun := _UNITTEST.fullmatch(row):
            ran = int(begun[1])
        elif ran and (end := _UNITTEST_END.fullmatch(row)):
            yield _rest_passed(ran, end[1] or "")
            ran = 0


def _rest_passed(total: int, others: str) -> Counts:
    """A runner that counts all tests and those that did not pass."""
    told = _of((word, int(number)) for word, number in _NUMBER_LAST.findall(others.lower()))
    return Counts(max(0, total - told.failed - told.skipped), told.failed, told.skipped)


def _node(rows: list[str]) -> Iterator[Counts]:
    told = [(found[1], int(found[2])) for row in rows if (found := _NODE.fullmatch(row))]
    if told:
        yield _of(told)


def _go(rows: list[str]) -> Iterator[Counts]:
    """By test where the output is verbose, else by package."""
    tests = [found[1] for row in rows if (found := _GO_TEST.fullmatch(row))]
    packages = [found[1] for row in rows if (found := _GO_PACKAGE.fullmatch(row))]
    verbose = "PASS" in tests or "SKIP" in tests
    ends = [_GO_WAYS[word] for word in (tests if verbose else packages)]
    if ends:
        yield Counts(*(ends.count(way) for way in ("passed", "failed", "skipped")))


def _rspec(rows: list[str]) -> Iterator[Counts]:
    for row in rows:
        if found := _RSPEC.fullmatch(row):
            total, failed, pending = (int(number or 0) for number in found.groups())
            yield Counts(max(0, total - failed - pending), failed, pending)


def _phpunit(rows: list[str]) -> Iterator[Counts]:
    for row in rows:
        if found := _PHPUNIT.fullmatch(row):
            yield Counts(int(found[1]))
        elif found := _PHPUNIT_ISSUES.fullmatch(row):
            yield _rest_passed(int(found[1]), found[2])


_READERS = (_phrases, _unittest, _node, _go, _rspec, _phpunit)
