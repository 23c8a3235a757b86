"""How checks are written, which are in force, and what a story says about itself."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import ONE
from untildone.domain.checks.checks import (
    Check,
    Level,
    configured_checks,
    in_force,
    is_setting,
    may_be_empty,
    may_shrink,
    parse,
    written_checks,
)
from untildone.domain.stories.story import Story, Task

WRITTEN = {
    "make test": Check("make test"),
    " make test ": Check("make test"),
    "required: make test": Check("make test"),
    "warn: ruff check .": Check("ruff check .", Level.WARN),
    "warn:ruff": Check("ruff", Level.WARN),
    "off: slow: yes": Check("slow: yes", Level.OFF),
    "warning: x": Check("warning: x"),
    "echo warn: x": Check("echo warn: x"),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_check_as_it_is_written(text: str) -> None:
    assert parse(text) == WRITTEN[text]


def test_each_check_is_in_force_once_and_off_is_not() -> None:
    shared = ("make test", "off: make lint", "warn: ruff", "make test", " ")
    assert in_force(shared, ("ruff", "make lint", "warn: own")) == (
        Check("make test"),
        Check("ruff", Level.WARN),
        Check("own", Level.WARN, own=True),
    )
    assert in_force((), ("a",)) == (Check("a", own=True),)


BODY = """\
Why: people.
Verify: make sure that people can log in
- Verify: `pytest -q "tests/a b.py"`
**Verify:** ``echo `date` ``
  Verify: `warn: ruff check .`
Verify: `/health` answers
We verify: nothing
Verify:
Verified: no
```
Verify: `in a code block`
```
Verify: `after it`
"""


def told(body: str = "", detail: str = "") -> Story:
    return replace(ONE, body=body, tasks=(Task("1.1", "a", False, 2, detail),))


def test_a_storys_own_checks() -> None:
    assert written_checks(told(BODY, "  Verify: `detail`")) == (
        *('pytest -q "tests/a b.py"', "echo `date`", "warn: ruff check .", "after it", "detail"),
    )
    assert written_checks(ONE) == ()
    configured = ("1=make one", "2=make two", " 1 = make = more")
    assert configured_checks("1", configured) == ("make one", "make = more")


def test_lines_that_are_read_here() -> None:
    assert is_setting("Verify: `make`")
    assert is_setting("Budget: cost=2")
    assert not is_setting("Budget: what you like")
    assert is_setting("- **Allow empty:** yes")
    assert is_setting("Tests: may shrink.")
    assert not is_setting("Tests: all of them")
    assert not is_setting("Why: people.")


EMPTY = {
    "Allow empty: yes": True,
    "  - allow empty: **yes**.": True,
    "**Allow empty:** true": True,
    "Allow empty: no": False,
    "Do not allow empty: yes": False,
    "": False,
}


@pytest.mark.parametrize("line", EMPTY)
def test_a_story_says_that_it_may_be_empty(line: str) -> None:
    assert may_be_empty(told(line)) is EMPTY[line]
    assert may_be_empty(told(detail=line)) is EMPTY[line]


def test_a_story_says_that_tests_may_shrink() -> None:
    assert may_shrink(told("- **Tests:** may shrink"))
    assert not may_shrink(told("Tests: must not shrink"))
