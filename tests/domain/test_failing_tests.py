"""The names of failing tests in what test runners print."""

# ruff: noqa: RUF001 - runners print such signs

import pytest

from untildone.domain.checks.failing_tests import MOST_NAMES, failing_tests

PYTEST = """\
..F.E                                                                    [100%]
==================================== ERRORS ====================================
____________________ ERROR collecting tests/test_broken.py _____________________
E   ImportError: cannot import name 'x'
=================================== FAILURES ===================================
_________________________________ test_two[a b] ________________________________
    def test_two(x):
>       assert x == "FAILED"
E       AssertionError
=========================== short test summary info ============================
FAILED tests/test_a.py::test_two[a b] - AssertionError: assert 'x' == 'FAILED'
FAILED tests/test_a.py::TestLogin::test_three - assert 1 - 2 == 0
ERROR tests/test_b.py::test_setup - RuntimeError
ERROR tests/test_broken.py
2 failed, 3 passed, 2 errors in 0.12s
"""
PYTEST_VERBOSE = """\
tests/test_a.py::test_one PASSED                                         [ 33%]
tests/test_a.py::test_two[a b] FAILED                                    [ 66%]
[gw1] [ 50%] FAILED tests/test_c.py::test_four
tests/test_b.py::test_setup ERROR
"""
JEST = """\
PASS src/ok.test.js
FAIL src/login.test.js (5.2 s)
  ● Console

    console.log
      hello

  ● Login › with a wrong password › says no

    expect(received).toBe(expected)
      at Object.<anonymous> (src/login.test.js:5:15)

  ● adds

FAIL src/broken.test.js
  ● Test suite failed to run

    Cannot find module './x'

Summary of all failing tests
FAIL src/login.test.js (5.2 s)
  ● adds

Test Suites: 2 failed, 1 passed, 3 total
"""
VITEST = """\
 ❯ src/sum.test.ts (2 tests | 1 failed) 5ms
   × sum > adds 4ms
     → expected 3 to be 4
⎯⎯⎯⎯⎯⎯⎯ Failed Tests 1 ⎯⎯⎯⎯⎯⎯⎯

 FAIL  src/sum.test.ts > sum > adds
AssertionError: expected 3 to be 4
 FAIL  src/broken.test.ts [ src/broken.test.ts ]
Error: Failed to resolve import "./x"
 Test Files  2 failed | 1 passed (3)
"""
CARGO = """\
     Running unittests src/lib.rs (target/debug/deps/demo-0a1b2c)

running 2 tests
test tests::adds ... FAILED
test tests::works ... ok

failures:

---- tests::adds stdout ----
thread 'tests::adds' panicked at src/lib.rs:9:9:

failures:
    tests::adds

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out

     Running tests/login.rs (target/debug/deps/login-0a1b2c)
test adds ... FAILED
   Doc-tests demo
test src/lib.rs - add (line 3) ... FAILED
error: test failed, to rerun pass `--lib`
"""
GO = """\
--- FAIL: TestLogin (0.00s)
    --- FAIL: TestLogin/wrong_password (0.00s)
        login_test.go:9: no
FAIL
FAIL\texample.com/demo/login\t0.003s
ok  \texample.com/demo/ok\t0.002s
# example.com/demo/broken
broken/a.go:3:1: syntax error
FAIL\texample.com/demo/broken [build failed]
--- FAIL: TestLogin (0.01s)
FAIL\texample.com/demo/other\t0.013s
FAIL
"""
OUTPUTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "nothing": ("", ()),
    "no tests": ("make: *** [test] Error 1\nFAIL\nERROR: no such file\n", ()),
    "pytest": (
        PYTEST,
        (
            "tests/test_a.py::TestLogin::test_three",
            "tests/test_a.py::test_two[a b]",
            "tests/test_b.py::test_setup",
            "tests/test_broken.py",
        ),
    ),
    "pytest -v": (
        PYTEST_VERBOSE,
        (
            "tests/test_a.py::test_two[a b]",
            "tests/test_b.py::test_setup",
            "tests/test_c.py::test_four",
        ),
    ),
    "jest": (
        JEST,
        (
            "src/broken.test.js",
            "src/broken.test.js: Test suite failed to run",
            "src/login.test.js",
            "src/login.test.js: Login › with a wrong password › says no",
            "src/login.test.js: adds",
        ),
    ),
    "vitest": (
        VITEST,
        ("src/broken.test.ts [ src/broken.test.ts ]", "src/sum.test.ts > sum > adds"),
    ),
    "cargo": (
        CARGO,
        (
            "demo: src/lib.rs - add (line 3)",
            "src/lib.rs: tests::adds",
            "tests/login.rs: adds",
        ),
    ),
    "cargo without a target": ("test adds ... FAILED\n", ("adds",)),
    "go": (
        GO,
        (
            "example.com/demo/broken",
            "example.com/demo/login.TestLogin",
            "example.com/demo/login.TestLogin/wrong_password",
            "example.com/demo/other.TestLogin",
        ),
    ),
    "go of one package": ("--- FAIL: TestA (0.00s)\nFAIL\nexit status 1\n", ("TestA",)),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_names(name: str) -> None:
    output, names = OUTPUTS[name]
    assert failing_tests(output) == names
    assert failing_tests(output.replace("\n", "\r\n")) == names


def test_too_many_names_are_none() -> None:
    rows = [f"FAILED tests/a.py::test_{k}" for k in range(MOST_NAMES + 1)]
    assert failing_tests("\n".join(rows)) == ()
    assert len(failing_tests("\n".join(rows[1:]))) == MOST_NAMES
