"""Spoilt files of each format, the same on every machine; `make torture` makes new ones."""

import ast
import os
import subprocess
import sys

import pytest

from tests.torture.seeds import PLACES
from untildone.settings.choices import SOURCES


def test_every_source_is_tried() -> None:
    assert {name.split("/")[0] for name in PLACES} == set(SOURCES)


@pytest.mark.parametrize("cases", [200, pytest.param(1000, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", PLACES)
def test_a_spoilt_file_is_answered_in_time_and_never_with_silence(name: str, cases: int) -> None:
    # By itself: so many files under the eyes of `coverage` take minutes.
    unwatched = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    flags = ("--cases", str(cases), "--seed", "1", "--only", name, "--jobs", "1")
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture.fuzz_sources", *flags],
        env=unwatched,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = ast.literal_eval(done.stdout.splitlines()[-1].partition(": ")[2])
    assert sum(counts.values()) == cases
    assert counts.get("settled", 0) + counts.get("read", 0) > cases / 20
