"""Which files git gives back as they are on disk: line ends by a table, others by trial."""

import codecs

import pytest

from tests.adapters.worktree import Worktree
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


def test_encoding_that_git_writes_otherwise_comes_back_as_it_was(repo: Worktree) -> None:
    big_endian = codecs.BOM_UTF16_BE + "one\n".encode("utf-16-be")
    repo.write(".gitattributes", "*.utf working-tree-encoding=UTF-16\n")
    (repo.top / "a.utf").write_bytes(big_endian)
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", "encoded")
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    (repo.top / "a.utf").write_bytes("two\n".encode("utf-16"))
    checkpoint.revert(0, opened.checkpoint, "1", 1)
    assert (repo.top / "a.utf").read_bytes() == big_endian


def test_what_a_filter_gives_back_is_not_stored_without_it(repo: Worktree) -> None:
    repo.sh("config", "filter.crypt.clean", "rev")
    repo.sh("config", "filter.crypt.smudge", "rev")
    repo.write(".gitattributes", "*.key filter=crypt\n")
    repo.write("a.key", "the secret of the user\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", "encrypted")
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    repo.write("a.key", "the secret of the attempt\n")
    checkpoint.revert(0, opened.checkpoint, "1", 1)
    assert repo.files()["a.key"] == "the secret of the user\n"
    objects = repo.sh("cat-file", "--batch-check", "--batch-all-objects").splitlines()
    blobs = [row.split(" ")[0] for row in objects if " blob " in row]
    stored = {repo.sh("cat-file", "blob", name) for name in blobs}
    assert "the secret of the user" not in stored
    assert "the secret of the attempt" not in stored
    assert "tpmetta eht fo terces eht" in stored
