"""Which files the guard flags, and which it lets pass."""

from tests.adapters.worktree import Worktree
from untildone.adapters.checkpoints.guard import (
    HEAD_BYTES,
    MIB,
    Flag,
    Guard,
    listed,
    sized,
)
from untildone.domain.plain_text import amount

# In two parts, so that no scanner takes this file for a leak.
AWS_KEY = "AKIA" + "Q3EGRTZ5KW7LNP2M"


def test_files_on_disk(repo: Worktree) -> None:
    small = Guard(100)
    repo.write("large.bin", "x" * 101)
    repo.write("fits.bin", "x" * 100)
    repo.write(".env", "")
    repo.write("sub/.env", "A=1\n")
    (repo.top / "link.key").symlink_to("a.txt")
    (repo.top / "folder.key").mkdir()
    names = ("large.bin", "fits.bin", ".env", "sub/.env", "link.key", "folder.key", "gone.key")
    large = Flag("large.bin", 101, "larger than 100 bytes")
    found = small.check_all(repo.top, names)
    assert found == (large, Flag("sub/.env", 4, "looks like a file of environment secrets"))
    assert small.over_limit(repo.top, names) == (large,)
    assert sized(repo.top, "fits.bin") == Flag("fits.bin", 100, "flagged by an earlier limit")


def test_only_the_head_of_a_file_is_read(repo: Worktree) -> None:
    repo.write("far.txt", " " * HEAD_BYTES + AWS_KEY)
    repo.write("near.txt", " " * (HEAD_BYTES - len(AWS_KEY)) + AWS_KEY)
    found = Guard().check_all(repo.top, ("far.txt", "near.txt"))
    assert [flag.path for flag in found] == ["near.txt"]


def test_texts() -> None:
    assert [amount(n) for n in (1, 2048, 50 * MIB, 1536 * MIB)] == [
        "1 bytes",
        "2 KiB",
        "50 MiB",
        "1.5 GiB",
    ]
    flags = [Flag(f"{n}\x1b[31m.key", 5, "why") for n in range(12)]
    assert listed(flags[:2]) == "0.key (5 bytes, why), 1.key (5 bytes, why)"
    assert listed(flags).endswith("9.key (5 bytes, why) and 2 more")
    assert Guard.of(0.5) == Guard(MIB // 2)
