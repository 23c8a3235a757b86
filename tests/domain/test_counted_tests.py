"""How many tests a check ran, as each runner says it, and when there are fewer."""

import pytest

from untildone.domain.checks.counted_tests import (
    Counted,
    Counts,
    count,
    count_junit,
    files_of_tests,
    hidden_failures,
    junit_file,
    merged,
    shrunk,
    with_report,
)

OUTPUTS = {
    "pytest": ("===== 1 failed, 3 passed, 2 skipped, 1 warning in 3.16s =====", Counts(3, 1, 2)),
    "pytest -q": ("..s\n3 passed, 1 skipped, 4 deselected in 0.01s", Counts(3, 0, 1)),
    "pytest, long": ("== 2 passed, 1 xfailed, 1 xpassed in 61.20s (0:01:01) ==", Counts(3, 0, 1)),
    "pytest, broken": ("1 error in 0.10s", Counts(0, 1)),
    "pytest, nothing": ("no tests ran in 0.01s", None),
    "unittest": ("Ran 3 tests in 0.008s\n\nOK (skipped=1, expected failures=1)", Counts(1, 0, 2)),
    "unittest, all": ("Ran 1 test in 0.0s\n\nOK", Counts(1)),
    "unittest, red": ("Ran 4 tests in 1.0s\n\nFAILED (failures=1, errors=1)", Counts(2, 2)),
    "jest": ("Tests:       1 failed, 2 skipped, 5 passed, 8 total", Counts(5, 1, 2)),
    "vitest": ("      Tests  1 failed | 5 passed | 1 skipped (7)", Counts(5, 1, 1)),
    "node, tap": ("# tests 3\n# pass 1\n# fail 0\n# skipped 1\n# todo 1", Counts(1, 0, 1)),
    "node": ("ℹ tests 3\nℹ pass 2\nℹ fail 1\nℹ cancelled 0", Counts(2, 1)),
    "cargo": (
        "test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n"
        "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; done",
        Counts(3, 0, 1),
    ),
    "nextest": (
        "  Summary [ 0.1s] 5 tests run: 4 passed, 1 failed, 1 skipped",
        Counts(4, 1, 1),
    ),
    "go -v": (
        "--- PASS: TestA (0s)\n    --- PASS: TestA/b (0s)\n--- SKIP: TestC (0s)\nok  \ta\t0s",
        Counts(2, 0, 1),
    ),
    "go": ("ok  \ta\t0.01s\n?   \tb\t[no test files]\nok  \tc\t(cached)", Counts(2)),
    "go, none": ("ok  \ta\t0.01s [no tests to run]", None),
    "mocha": ("  3 passing (10ms)\n  1 pending\n  2 failing", Counts(3, 2, 1)),
    "rspec": ("10 examples, 1 failure, 2 pending", Counts(7, 1, 2)),
    "rspec, all": ("1 example, 0 failures", Counts(1)),
    "phpunit": ("OK (5 tests, 7 assertions)", Counts(5)),
    "phpunit, issues": (
        "Tests: 6, Assertions: 5, Failures: 1, Skipped: 2, Incomplete: 1.",
        Counts(2, 1, 3),
    ),
    "two runners": ("2 passed in 1.00s\nTests:  3 passed, 3 total", Counts(5)),
    "no runner": ("all is well\nRan away", None),
}


@pytest.mark.parametrize("runner", OUTPUTS)
def test_a4_the_tests_that_a_runner_counts(runner: str) -> None:
    output, counts = OUTPUTS[runner]
    assert count(f"some words\n{output}\n") == counts


def test_a4_the_tests_of_a_junit_file() -> None:
    text = "<testsuite><testcase/><testcase><failure/></testcase><testcase><skipped /></testcase>"
    assert count_junit(text) == Counts(1, 1, 1)
    assert count_junit("<testsuites/>") is None


def test_a_test_that_was_run_again_is_one_test() -> None:
    again = '<testcase name="a" time="1"/><testcase name="a" time="2"></testcase><testcase/>'
    assert count_junit(f"{again}<testcase/>") == Counts(3)


def test_a4_a_report_is_asked_for_where_nobody_speaks_of_one() -> None:
    assert with_report("", "/r.xml", "pytest") == "--junitxml=/r.xml"
    assert with_report("-x", "/a b.xml") == "-x --junitxml='/a b.xml'"
    for spoken_for in ("--junit-xml r.xml", "--junitxml=r.xml", "-p no:junitxml"):
        assert with_report("-x", "/r.xml", spoken_for) == "-x"
    assert with_report("", "/r.xml", "junit_family = xunit2") == "--junitxml=/r.xml"


FILES = {
    "pytest --junitxml=out/report.xml -q": "out/report.xml",
    "pytest --junit-xml 'r.xml'": "r.xml",
    "phpunit --log-junit build/junit.xml": "build/junit.xml",
    "vitest --reporter=junit --outputFile=r.xml": "r.xml",
    "cat notes.xml": "",
}


@pytest.mark.parametrize("command", FILES)
def test_a4_the_junit_file_that_a_command_names(command: str) -> None:
    assert junit_file(command) == FILES[command]


WAS = (Counted("other", Counts(9)), Counted("pytest", Counts(5, 0, 1)))
SAID = "5 passed, 1 skipped"
SINCE = "at the last checkpoint"
SHRUNK = {
    Counts(5, 0, 1): "",
    Counts(7, 0, 0): "",
    Counts(4, 0, 1): f"4 passed, 1 skipped, at the last checkpoint {SAID}",
    Counts(5, 0, 0): f"5 passed, 0 skipped, at the last checkpoint {SAID}",
    Counts(5, 0, 2): f"5 passed, 2 skipped, at the last checkpoint {SAID}",
    Counts(4, 1, 1): f"4 passed, 1 failed, 1 skipped, at the last checkpoint {SAID}",
    None: f"no number of tests was printed, at the last checkpoint {SAID}",
}


@pytest.mark.parametrize("now", SHRUNK)
def test_a4_fewer_tests_than_at_the_last_checkpoint(now: Counts | None) -> None:
    assert shrunk("pytest", now, None, WAS) == SHRUNK[now]


REPORTED = {
    Counts(5, 0, 1): "",
    Counts(4, 0, 1): f"by the report of its runner 4 passed, 1 skipped, {SINCE} {SAID}",
    None: f"by the report of its runner nothing was written, {SINCE} {SAID}",
}


@pytest.mark.parametrize("now", REPORTED)
def test_a4_what_is_printed_does_not_make_up_for_what_is_reported(now: Counts | None) -> None:
    was = (Counted("pytest", Counts(5, 0, 1), Counts(5, 0, 1)),)
    assert shrunk("pytest", Counts(9, 0, 1), now, was) == REPORTED[now]
    assert shrunk("pytest", Counts(4, 0, 1), now, was) == SHRUNK[Counts(4, 0, 1)]


def test_a4_where_a_number_says_nothing() -> None:
    assert shrunk("npm test", Counts(), None, WAS) == ""
    assert shrunk("pytest", None, None, (Counted("pytest", Counts()),)) == ""
    assert shrunk("pytest --lf", Counts(1), None, (Counted("pytest --lf", Counts(5)),)) == ""


def test_the_newer_number_counts() -> None:
    assert merged(WAS, (Counted("pytest", Counts(6)),)) == (WAS[0], Counted("pytest", Counts(6)))


def test_files_that_look_like_tests_are_named_first() -> None:
    assert files_of_tests(["a.py", "test_a.py"]) == ("test_a.py",)
    assert files_of_tests(["a.py"]) == ("a.py",)


def test_a4_failures_that_an_exit_code_hides() -> None:
    failing = Counts(4, 1)
    assert hidden_failures("pytest | tail -3", failing, None) == 1
    assert hidden_failures("pytest || true", Counts(5), failing) == 1
    assert hidden_failures("pytest", Counts(5), None) == 0
    assert hidden_failures("pytest || pytest", failing) == 0
    assert hidden_failures("pytest || python -m pytest --lf", failing) == 0
