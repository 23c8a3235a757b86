"""Which files git gives back as they are on disk: a table of `git ls-files --eol`."""

import pytest

from untildone.adapters.checkpoints.snapshot.unconverted_bytes import comes_back

ROWS = [
    ("i/lf    w/lf    attr/                 ", False, True),
    ("i/lf    w/crlf  attr/text=auto        ", False, False),
    ("i/lf    w/crlf  attr/text=auto        ", True, True),
    ("i/lf    w/lf    attr/text=auto        ", True, False),
    ("i/lf    w/mixed attr/text=auto        ", True, False),
    ("i/lf    w/crlf  attr/text eol=crlf    ", False, True),
    ("i/lf    w/lf    attr/text eol=crlf    ", False, False),
    ("i/lf    w/lf    attr/text eol=lf      ", True, True),
    ("i/lf    w/lf    attr/-text            ", True, True),
    ("i/mixed w/mixed attr/                 ", True, True),
    ("i/crlf  w/crlf  attr/                 ", False, True),
    ("i/-text w/-text attr/text=auto        ", True, True),
    ("i/none  w/none  attr/text=auto        ", True, True),
    ("i/lf    w/      attr/text=auto        ", True, True),
]


@pytest.mark.parametrize(("info", "writes_crlf", "expected"), ROWS)
def test_comes_back(info: str, *, writes_crlf: bool, expected: bool) -> None:
    assert comes_back(info, writes_crlf=writes_crlf) == expected
