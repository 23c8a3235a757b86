"""The names of failing tests, as pytest, jest, vitest, cargo and go print them."""

from collections.abc import Iterator

from untildone.domain.regex import regex

# With more than this a comparison by name says less than it costs.
MOST_NAMES = 5000

_PYTEST = regex(r"(?:\[gw\d+\] \[ *\d+%\] )?(?:FAILED|ERROR) (\S+\.py(?:::.+?)?)(?: - .*)?")
_PYTEST_VERBOSE = regex(r"(\S+\.py::.+?) (?:FAILED|ERROR)(?:\s+\[ *\d+%\])?")
_CARGO = regex(r"test (.+?) \.\.\. FAILED")
_CARGO_TARGET = regex(r"\s*(?:Running (?:unittests )?(\S+) \(.*\)|Doc-tests (\S+))")
_GO_TEST = regex(r"\s*--- FAIL: (\S+) \([\d.]+s\)")
_GO_PACKAGE = regex(r"FAIL\t(\S+)(?:\t[\d.]+s|\t\(cached\)| \[[\w ]+\])?")
# Vitest names the test in this line, jest only its file and the tests below it.
_SUITE = regex(r"\s*FAIL\s+(\S.*?)(?: \([\d.]+ m?s\))?")
_JEST = regex(r"\s{0,4}● (\S.*)")
_NO_TEST = ("Console",)


def failing_tests(output: str) -> tuple[str, ...]:
    """Every failing test that the output names, sorted; none if it names none, or too many."""
    rows = [row.rstrip() for row in output.splitlines()]
    found = {*_pytest(rows), *_cargo(rows), *_go(rows), *_javascript(rows)}
    return tuple(sorted(found)) if len(found) <= MOST_NAMES else ()


def _pytest(rows: list[str]) -> Iterator[str]:
    for row in rows:
        found = _PYTEST.fullmatch(row) or _PYTEST_VERBOSE.fullmatch(row)
        if found:
            yield found[1]


def _cargo(rows: list[str]) -> Iterator[str]:
    target = ""
    for row in rows:
        if begun := _CARGO_TARGET.fullmatch(row):
            target = begun[1] or begun[2]
        elif found := _CARGO.fullmatch(row):
            yield f"{target}: {found[1]}" if target else found[1]


def _go(rows: list[str]) -> Iterator[str]:
    """A package is named after its tests."""
    tests: list[str] = []
    for row in rows:
        if found := _GO_TEST.fullmatch(row):
            tests.append(found[1])
        elif package := _GO_PACKAGE.fullmatch(row):
            yield from (f"{package[1]}.{test}" for test in tests)
            if not tests:
                yield package[1]
            tests = []
    yield from tests


def _javascript(rows: list[str]) -> Iterator[str]:
    suite = ""
    for row in rows:
        if (found := _SUITE.fullmatch(row)) and not _GO_PACKAGE.fullmatch(row):
            suite = found[1]
            yield suite
        elif suite and (test := _JEST.fullmatch(row)) and test[1] not in _NO_TEST:
            yield f"{suite}: {test[1]}"
