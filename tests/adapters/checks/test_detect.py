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
