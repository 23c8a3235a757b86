"""The ground truth, run as `python -I truth.py REPOSITORY CASES`: what is really there."""

import ast
import importlib
import sys
from pathlib import Path


def main(top, cases):
    """Print the name of every function that is public and passes every case."""
    sys.path.insert(0, top)
    sys.dont_write_bytecode = True
    public = list(getattr(_module("kit"), "PUBLIC", []))
    for name, wanted in ast.literal_eval(Path(cases).read_text(encoding="utf-8")).items():
        module, _, function = name.partition(".")
        if name in public and _passes(getattr(_module(f"kit.{module}"), function, None), wanted):
            sys.stdout.write(f"{name}\n")


def _module(name):
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001 - an agent wrote it: anything can happen
        return None


def _passes(function, wanted):
    try:
        return all(function(*given) == value for given, value in wanted)
    except Exception:  # noqa: BLE001
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
