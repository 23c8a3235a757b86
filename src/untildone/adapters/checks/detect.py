"""Which checks a project seems to have, by the files at its top."""

import json
import re
from pathlib import Path

from untildone.domain.regex import regex
from untildone.plain_files import read_text

LOOKED_FOR = "pytest, npm, cargo, go, make"
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TARGET = regex(r"^(check|test)\s*:(?!=)", re.MULTILINE)
_NO_TEST = "no test specified"
_LOCKS = {"pnpm-lock.yaml": "pnpm test", "yarn.lock": "yarn test"}


def detect(top: Path) -> tuple[str, ...]:
    """The commands that test this project; what only hints at tests does not count."""
    found = [_pytest(top), _npm(top), _cargo(top), _go(top)]
    commands = tuple(command for command in found if command)
    make = "" if commands else _make(top)  # a Makefile usually calls one of the others
    return (*commands, make) if make else commands


def _pytest(top: Path) -> str:
    settings = {"pytest.ini": "", "pyproject.toml": "[tool.pytest", "tox.ini": "[pytest]"}
    settings |= {"setup.cfg": "[tool:pytest]", "conftest.py": "", "tests/conftest.py": ""}
    told = any((top / n).is_file() and words in _text(top / n) for n, words in settings.items())
    return "pytest -q" if told or next(top.glob("tests/test_*.py"), None) else ""


def _npm(top: Path) -> str:
    if not (top / "package.json").is_file():
        return ""
    try:
        script = json.loads(_text(top / "package.json"))["scripts"]["test"]
    except (ValueError, KeyError, TypeError):
        return ""
    if not isinstance(script, str) or not script.strip() or _NO_TEST in script:
        return ""
    return next((call for lock, call in _LOCKS.items() if (top / lock).is_file()), "npm test")


def _cargo(top: Path) -> str:
    return "cargo test" if (top / "Cargo.toml").is_file() else ""


def _go(top: Path) -> str:
    return "go test ./..." if (top / "go.mod").is_file() else ""


def _make(top: Path) -> str:
    path = next((top / name for name in _MAKEFILES if (top / name).is_file()), None)
    targets = set(_TARGET.findall(_text(path))) if path else set()
    return f"make {max(targets)}" if targets else ""


def _text(path: Path) -> str:
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""
