"""A thousand spoilt files per format, the same on every machine; `make torture` makes new ones."""

import pytest

from tests.torture.fuzz_sources import explore
from tests.torture.seeds import PLACES
from untildone.settings import SOURCES


def test_every_source_is_tried() -> None:
    assert {name.split("/")[0] for name in PLACES} == set(SOURCES)


@pytest.mark.parametrize("name", PLACES)
def test_a_spoilt_file_is_answered_in_time_and_never_with_silence(name: str) -> None:
    counts = explore(name, cases=1000, seed=1)
    assert sum(counts.values()) == 1000
    assert counts.get("settled", 0) + counts.get("read", 0) > 50
