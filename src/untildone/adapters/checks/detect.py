"""Which checks a project seems to have, by the files at its top."""

import json
import re
import shutil
from pathlib import Path

from untildone.domain.checks.check_files import needed_programs
from untildone.domain.checks.runner_settings import MAKEFILES
from untildone.domain.regex import regex
from untildone.plain_files import read_text

LOOKED_FOR = "pytest, unittest, npm, cargo, go, make"
_UNITTEST = regex(r"^(?:import|from) unittest\b", re.MULTILINE)
_TARGET = regex(r"^(check|test)\s*:(?!=)", re.MULTILINE)
_NO_TEST = "no test specified"
# By lock file: how everything is installed in a clean checkout, and the test.
_LOCKS = {
    "pnpm-lock.yaml": ("pnpm install --frozen-lockfile", "pnpm test"),
    "yarn.lock": ("yarn install --frozen-lockfile", "yarn test"),
    "package-lock.json": ("npm ci --no-audit --no-fund", "npm test"),
}


def detect(top: Path, *, clean: bool = False) -> dict[str, str]:
    """The commands that test this project, and by which file; a mere hint at tests is none.

    In a `clean` checkout nothing is installed, so that comes first.
    """
    found = dict([_pytest(top), _npm(top, clean=clean), _cargo(top), _go(top)])
    found.pop("", None)
    # A Makefile usually calls one of the others; mere names of files say least.
    for last in (_make, _loose_tests):
        if not found:
            found = dict([last(top)])
            found.pop("", None)
    return found


def missing_program(command: str) -> str:
    """A program that a command cannot do without and that is not here; empty if there is none."""
    needed = (name for name in needed_programs(command) if not shutil.which(name))
    return next(needed, "")


def text_inside(top: Path, path: str) -> str:
    """The text of a file of this project, as far as there is one."""
    return "" if path.startswith("/") or ".." in path.split("/") else _text(top / path)


Found = tuple[str, str]
NOTHING: Found = ("", "")


def _pytest(top: Path) -> Found:
    settings = {"pytest.ini": "", "pyproject.toml": "[tool.pytest", "tox.ini": "[pytest]"}
    settings |= {"setup.cfg": "[tool:pytest]", "conftest.py": "", "tests/conftest.py": ""}
    told = (n for n, words in settings.items() if (top / n).is_file() and words in _text(top / n))
    by = next(told, "")
    return ("pytest -q", by) if by else _tests_in(top, "tests/", "test_*.py")


def _loose_tests(top: Path) -> Found:
    places = ((folder, name) for folder in ("", "tests/") for name in ("test_*.py", "*_test.py"))
    found = (_tests_in(top, folder, name) for folder, name in places)
    return next((each for each in found if each != NOTHING), NOTHING)


def _tests_in(top: Path, folder: str, name: str) -> Found:
    """How the tests of a folder are run: by pytest, but for those that do without if it is away."""
    files = sorted(path for path in top.glob(f"{folder}{name}") if path.is_file())
    if not files:
        return NOTHING
    by = f"{folder}{files[0].name}"
    if shutil.which("pytest") or not all(_UNITTEST.search(_text(path)) for path in files):
        return "pytest -q", by
    start = f" -s {folder.rstrip('/')}" if folder else ""
    start += " -t ." if folder and (top / folder / "__init__.py").is_file() else ""
    return f"python3 -m unittest discover{start} -p '{name}'", by


def _npm(top: Path, *, clean: bool) -> Found:
    if not (top / "package.json").is_file():
        return NOTHING
    try:
        script = json.loads(_text(top / "package.json"))["scripts"]["test"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return NOTHING
    if not isinstance(script, str) or not script.strip() or _NO_TEST in script:
        return NOTHING
    by = "the script test of package.json"
    for lock, (install, call) in _LOCKS.items():
        if (top / lock).is_file():
            return f"{install} && {call}" if clean else call, by
    return "npm test", by


def _cargo(top: Path) -> Found:
    return ("cargo test", "Cargo.toml") if (top / "Cargo.toml").is_file() else NOTHING


def _go(top: Path) -> Found:
    return ("go test ./...", "go.mod") if (top / "go.mod").is_file() else NOTHING


def _make(top: Path) -> Found:
    path = next((top / name for name in MAKEFILES if (top / name).is_file()), None)
    targets = set(_TARGET.findall(_text(path))) if path else set()
    return (f"make {max(targets)}", path.name) if path and targets else NOTHING


def _text(path: Path) -> str:
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""
