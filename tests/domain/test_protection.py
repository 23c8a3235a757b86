"""Which files are protected, and what is said when one was changed."""

import pytest

from untildone.domain.checks.check_files import named_files, scripts_of
from untildone.domain.checks.protection import (
    MOST_NAMED,
    Violation,
    complaint,
    is_pattern,
    is_protected,
)

FITS = [
    ("check.sh", "check.sh"),
    ("./check.sh", "check.sh"),
    ("tests", "tests/a/b.py"),
    ("tests/", "tests/b.py"),
    ("tests/**", "tests/a/b.py"),
    ("tests/*", "tests/b.py"),
    ("**/*.lock", "a.lock"),
    ("**/*.lock", "x/y/a.lock"),
    ("**/test_*.py", "src/test_a.py"),
    ("src/**/conf.toml", "src/conf.toml"),
    ("src/**/conf.toml", "src/a/b/conf.toml"),
    ("a?c", "abc"),
    ("[ab].txt", "b.txt"),
    ("[!ab].txt", "c.txt"),
    ("a+b(c).txt", "a+b(c).txt"),
    ("**", "anything/at/all"),
    ("*.d", "conf.d/x"),
]
FITS_NOT = [
    ("check.sh", "sub/check.sh"),
    ("check.sh", "check.sh.bak"),
    ("tests", "tests2/a.py"),
    ("*.lock", "x/a.lock"),
    ("a?c", "a/c"),
    ("[!ab].txt", "a.txt"),
    ("src/**/conf.toml", "src/conf.toml.d"),
    ("[", "a"),
]


@pytest.mark.parametrize(("pattern", "path"), FITS)
def test_fits(pattern: str, path: str) -> None:
    assert is_protected(path, ("nothing", pattern))


@pytest.mark.parametrize(("pattern", "path"), FITS_NOT)
def test_does_not_fit(pattern: str, path: str) -> None:
    assert not is_protected(path, (pattern,))


def test_patterns() -> None:
    assert [is_pattern(text) for text in ("a", "a/b", "*", "a?", "[a]")] == [
        *(False, False, True, True, True)
    ]


def test_every_file_is_named() -> None:
    said = complaint([Violation("a", "changed"), Violation(".env", "deleted", kept=False)])
    assert said == (
        "Protected files were changed. They must stay as they are:\n- a (changed)\n"
        "- .env (deleted; it is not in git, so it was not put back)"
    )
    many = complaint(Violation(f"f{k}", "changed") for k in range(MOST_NAMED + 2))
    assert many.endswith("- f19 (changed)\n- and 2 more")


COMMANDS = {
    "sh check.sh": ("check.sh",),
    "./check.sh": ("check.sh",),
    "tools/check --fast": ("tools/check",),
    "python3 tools/check.py src": ("tools/check.py", "src"),
    "pytest tests/test_a.py::test_b -k 'x y'": ("tests/test_a.py",),
    "python -m pytest -q tests/test_a.py": ("tests/test_a.py",),
    "node --test t.js": ("t.js",),
    "make -f Checks.mk test": ("Checks.mk", "test"),
    "jest --config=jest.ci.js": ("jest.ci.js",),
    "PYTHONPATH=. timeout 5 python3 a.py && ./b.sh": ("a.py", "b.sh"),
    "env -i nice -n 5 sh c.sh": ("c.sh",),
    "timeout -k 5 60 sh d.sh": ("d.sh",),
    "timeout -s KILL 60 env -u X sh e.sh": ("e.sh",),
    "sh -c 'sh inner.sh; test -f out'": ("inner.sh",),
    "bash -ec 'x'": ("x",),
    "cd sub && sh check.sh": ("sub/check.sh",),
    "cd /elsewhere && sh check.sh": (),
    "if ! sh a.sh; then sh b.sh; fi": ("a.sh", "b.sh"),
    "{ sh a.sh; }": ("a.sh",),
    "(sh a.sh) | sh b.sh > out.txt 2>&1": ("a.sh", "2", "b.sh"),
    "sh a.sh < data.txt\nsh b.sh": ("a.sh", "b.sh"),
    "grep -q ok result.txt": (),
    "test -f good.txt || { cat log.txt; exit 9; }": (),
    "[ -s out ] && jq . data.json": (),
    "python3 -c 'print(1)' x.py": ("x.py",),
    "sh ../outside.sh /abs/x.sh ~/y.sh $HOME/z.sh": (),
    "sh 'open quote": (),
    "for f in a b; do sh $f; done": (),
    "sh ''": (),
    "": (),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_a_check_names(command: str) -> None:
    assert sorted(named_files([command])) == sorted(COMMANDS[command])


def test_each_file_once() -> None:
    assert named_files(["sh a.sh", "sh a.sh b.sh"]) == ("a.sh", "b.sh")


SCRIPTS = {
    "sh run-tests.sh": ("run-tests.sh",),
    "bash -x tools/check.sh fast": ("tools/check.sh",),
    "cd web && python3.12 -u check.py": ("web/check.py",),
    "./check --fast": ("check",),
    "python -m pytest tests/test_new.py": (),
    "python -c 'x' a.py": (),
    "node": (),
    "/usr/bin/env-check": (),
    "pytest tests/test_new.py": (),
    "npm test": (),
}


@pytest.mark.parametrize("command", SCRIPTS)
def test_scripts_that_a_check_is(command: str) -> None:
    assert scripts_of([command]) == SCRIPTS[command]
