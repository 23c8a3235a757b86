"""`untildone --version` imports next to nothing."""

import os
import subprocess
import sys

SLOW = {"asyncio", "click", "dataclasses", "json", "msgspec", "pathlib", "re", "rich"}
SLOW |= {"subprocess", "yaml"}


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
