"""`untildone --version` imports next to nothing, and a module compiles no pattern."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SLOW = {"asyncio", "click", "dataclasses", "json", "msgspec", "pathlib", "re", "rich"}
SLOW |= {"subprocess", "yaml"}
SRC = Path(__file__).parents[2] / "src"


def imported(*arguments: str) -> set[str]:
    """The top-level packages that a fresh interpreter imports."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("COVERAGE_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_importtime_sees_slow_imports() -> None:
    assert imported("-c", "import json, pathlib") >= {"json", "pathlib"}


def test_version_imports_nothing_slow() -> None:
    bare = imported("-c", "import runpy")
    ours = imported("-m", "untildone", "--version")
    assert "untildone" in ours
    assert (ours - bare) & SLOW == set()


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is loaded."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child
            yield from at_import(child)


def test_patterns_of_a_module_are_compiled_when_they_are_used() -> None:
    """`untildone.domain.regex` does that: a run loads over a hundred and uses few."""
    found = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path in sorted(SRC.rglob("*.py"))
        for node in at_import(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile"
    ]
    assert found == []
