"""Which checks a project seems to have."""

import os
from pathlib import Path

import pytest

from untildone.adapters.checks.detect import detect

PACKAGE = '{"scripts": {"test": "jest"}}'
PROJECTS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "nothing": ({"README.md": "pytest"}, ()),
    "pytest.ini": ({"pytest.ini": ""}, ("pytest -q",)),
    "pyproject with pytest": ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, ("pytest -q",)),
    "pyproject without": ({"pyproject.toml": "[project]\n"}, ()),
    "conftest": ({"tests/conftest.py": ""}, ("pytest -q",)),
    "test files": ({"tests/test_a.py": ""}, ("pytest -q",)),
    "a test file at the top": ({"test_a.py": ""}, ("pytest -q",)),
    "a test file of the other name": ({"a_test.py": ""}, ("pytest -q",)),
    "a Makefile and a test file": ({"Makefile": "test:\n", "test_a.py": ""}, ("make test",)),
    "a folder of another kind": ({"tests/a.js": ""}, ()),
    "npm": ({"package.json": PACKAGE}, ("npm test",)),
    "pnpm": ({"package.json": PACKAGE, "pnpm-lock.yaml": ""}, ("pnpm test",)),
    "yarn": ({"package.json": PACKAGE, "yarn.lock": ""}, ("yarn test",)),
    "npm without a test": (
        {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
        (),
    ),
    "npm without scripts": ({"package.json": "{}"}, ()),
    "npm with an odd script": ({"package.json": '{"scripts": {"test": ["a"]}}'}, ()),
    "broken package.json": ({"package.json": "{"}, ()),
    "odd package.json": ({"package.json": "[]"}, ()),
    "cargo": ({"Cargo.toml": ""}, ("cargo test",)),
    "go": ({"go.mod": ""}, ("go test ./...",)),
    "make test": ({"Makefile": "all:\ncheck: all\ntest: all\n\t./run\n"}, ("make test",)),
    "make check": ({"GNUmakefile": "check:\n"}, ("make check",)),
    "no target": ({"Makefile": "test := 1\nlatest:\n"}, ()),
    "a Makefile beside it": ({"Makefile": "test:\n", "go.mod": ""}, ("go test ./...",)),
    "two languages": ({"go.mod": "", "pytest.ini": ""}, ("pytest -q", "go test ./...")),
}


@pytest.mark.parametrize("name", PROJECTS)
def test_detected(tmp_path: Path, name: str) -> None:
    files, commands = PROJECTS[name]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    assert tuple(detect(tmp_path)) == commands


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("test:\n")
    (tmp_path / "Makefile").chmod(0)
    assert tuple(detect(tmp_path)) == ()


UNITTEST = "import unittest\n"
DISCOVERED = {
    "test_a.py": "python3 -m unittest discover -p 'test_*.py'",
    "a_test.py": "python3 -m unittest discover -p '*_test.py'",
    "tests/test_a.py": "python3 -m unittest discover -s tests -p 'test_*.py'",
}


@pytest.mark.parametrize("path", DISCOVERED)
def test_a4_tests_of_unittest_need_no_pytest(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / path).write_text(UNITTEST)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tuple(detect(tmp_path)) == (DISCOVERED[path],)
    if "/" in path:
        (tmp_path / "tests/__init__.py").write_text("")
        assert tuple(detect(tmp_path)) == (DISCOVERED[path].replace("tests -p", "tests -t . -p"),)
    (tmp_path / path).write_text("import pytest\n")
    assert tuple(detect(tmp_path)) == ("pytest -q",)
    (tmp_path / path).write_text(UNITTEST)
    (tmp_path / "pytest").write_text("#!/bin/sh\n")
    (tmp_path / "pytest").chmod(0o755)
    assert tuple(detect(tmp_path)) == ("pytest -q",)
