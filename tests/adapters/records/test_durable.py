"""Bytes that are written out without a sync of their own."""

import os
from pathlib import Path

import pytest

from untildone.adapters.records.durable import write_out


def test_a_file_is_written_out_and_stays_open(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(b"one")
        file.flush()
        write_out(file.fileno())
        file.write(b" two")
    assert (tmp_path / "file").read_bytes() == b"one two"


def test_what_cannot_be_written_out_is_synced_or_an_error() -> None:
    reads, writes = os.pipe()
    try:
        with pytest.raises(OSError, match="Invalid argument"):
            write_out(writes)
    finally:
        os.close(reads)
        os.close(writes)
