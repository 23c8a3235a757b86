"""Modules and functions stay small, tests stay free of mocks, the domain stays typed."""

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "untildone"
MODULE_LINES = 500
FUNCTION_LINES = 60
COMPLEXITY = 12
MOCKS_PER_1000_LINES = 2
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def parsed(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def line_counts(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in folder.rglob("*.py")
        if path.name != "__init__.py"
    }


def body_lines(function: FunctionNode) -> int:
    """Lines after the docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def mocks(tree: ast.Module) -> int:
    """Functions that ask for a patching fixture, imports of a mock library, direct patches."""
    count = 0
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg="monkeypatch" | "mocker"):
                count += 1
            case ast.Attribute(value=ast.Attribute(attr="MonkeyPatch"), attr="context"):
                count += 1
            case ast.ImportFrom(module="unittest.mock"):
                count += 1
            case ast.Import(names=names) if any(name.name == "unittest.mock" for name in names):
                count += 1
            case ast.ImportFrom(module="unittest", names=names):
                count += sum(name.name == "mock" for name in names)
            case _:
                pass
    return count


def uses_any(tree: ast.Module) -> bool:
    return any(
        (isinstance(node, ast.alias) and node.name == "Any")
        or (isinstance(node, ast.Attribute) and node.attr == "Any")
        for node in ast.walk(tree)
    )


def test_no_module_is_too_long() -> None:
    too_long = {name: n for name, n in line_counts(SRC).items() if n > MODULE_LINES}
    assert too_long == {}


def test_most_modules_are_short() -> None:
    # The middle is no aim of its own: modules with one importer, merged again, have moved it up.
    counts = sorted(line_counts(SRC).values())
    assert median(counts) < 160, counts
    assert quantiles(counts, n=20, method="inclusive")[-1] < 425, counts


def test_no_function_is_too_long() -> None:
    too_long = {
        f"{name}:{node.lineno} {node.name}": body_lines(node)
        for name, tree in parsed(SRC)
        for node in ast.walk(tree)
        if isinstance(node, FunctionNode) and body_lines(node) > FUNCTION_LINES
    }
    assert too_long == {}


def complexity(function: FunctionNode) -> int:
    """Ways through a function, with boolean operators and comprehensions; arms of a match are one.

    A `match` has one arm per fact or step: that is a table.
    """
    count = 1
    for node in ast.walk(function):
        match node:
            case ast.If() | ast.For() | ast.While() | ast.IfExp() | ast.ExceptHandler():
                count += 1
            case ast.comprehension(ifs=ifs):
                count += 1 + len(ifs)
            case ast.BoolOp(values=values):
                count += len(values) - 1
            case _:
                pass
    return count


def test_no_function_is_too_complex() -> None:
    found = {
        f"{name}:{node.lineno} {node.name}": complexity(node)
        for name, tree in parsed(SRC)
        for node in ast.walk(tree)
        if isinstance(node, FunctionNode)
    }
    assert {name: n for name, n in found.items() if n > COMPLEXITY} == {}


def test_tests_hardly_mock() -> None:
    found = {name: n for name, tree in parsed(ROOT / "tests") if (n := mocks(tree))}
    lines = sum(line_counts(ROOT / "tests").values())
    assert sum(found.values()) < max(3, MOCKS_PER_1000_LINES * lines / 1000), found


def test_domain_has_no_any() -> None:
    assert [name for name, tree in parsed(SRC / "domain") if uses_any(tree)] == []
