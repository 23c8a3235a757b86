"""Streams that are cut or corrupted anywhere: never an exception, never a false COMPLETE."""

import pickle
import random

import pytest

from tests.adapters.agents.events import EVENTS
from tests.adapters.agents.streams import DONE, INTENT, Reader, lines, read, recorded, stream
from untildone.domain.agents.agent import Reading
from untildone.settings.choices import PROGRAMS
from untildone.wiring.agents import known_program

# The last event of goose is the same after an error, and that of copilot after an abort, of which
# there may be one sign only; aider has no events in its text: into their streams nothing is put.
UNMARKED = ("goose", "copilot", "aider")
READERS: dict[str, Reader] = {name: known_program(name).spec.reader for name in PROGRAMS}
CAPTURES = [(agent, name) for agent in READERS for name in recorded(agent)]
CORRUPTIONS = 100


def done(reading: Reading) -> bool:
    """Whether the loop would take this for COMPLETE."""
    return reading.promise is not None and reading.promise.complete and not reading.error


@pytest.mark.parametrize(("agent", "name"), CAPTURES)
def test_a_stream_that_is_cut_is_not_complete(agent: str, name: str) -> None:
    whole = stream(agent, name)
    end = len(whole.rstrip())
    if name == "0.86.2/ok":
        # Without a log, aider says nothing at its end: the line with the tokens is the last sign.
        end = whole.index(b"received.") + len(b"received.")
    reader, start = READERS[agent](INTENT), 0
    while start < end:
        stop = whole.find(b"\n", start) + 1 or end
        so_far = pickle.dumps(reader)
        for cut in range(start, min(stop, end)):
            # The reader so far goes on with a part of the line, as if the output ended there.
            there = pickle.loads(so_far)  # noqa: S301 - a copy, three times as fast as deepcopy
            there.feed(whole[start:cut])
            assert not done(there.finish(0, b"")), whole[:cut]
        reader.feed(whole[start:stop])
        start = stop


@pytest.mark.parametrize(("agent", "name"), CAPTURES)
def test_a_stream_that_is_corrupted_is_not_made_complete(agent: str, name: str) -> None:
    whole = stream(agent, name)
    reading = read(READERS[agent], whole)[1]
    if reading.error and agent not in UNMARKED:
        # The agent says COMPLETE in a stream that fails: it must not count.
        *before, last = whole.splitlines(keepends=True) or [b""]
        whole = b"".join((*before, lines(*EVENTS[agent](DONE)[:-1]), last))
    dice = random.Random(name)
    for _ in range(CORRUPTIONS):
        corrupt = spoiled(whole, dice, shuffled=agent != "aider")
        read_again = read(READERS[agent], corrupt, size=dice.choice((0, 7, 4096)))[1]
        assert done(reading) or not done(read_again), corrupt


def spoiled(whole: bytes, dice: random.Random, *, shuffled: bool) -> bytes:
    """The stream with a flipped, lost, doubled or foreign piece, or with its lines shuffled."""
    at, size = dice.randrange(len(whole) + 1), dice.choice((1, 1, 2, 30, 300))
    piece = whole[at : at + size]
    match dice.randrange(5 if shuffled else 4):
        case 0:
            piece = bytes(byte ^ (1 << dice.randrange(8)) for byte in piece)
        case 1:
            piece = b""
        case 2:
            piece *= 2
        case 3:
            piece = dice.randbytes(size)
        case _:
            rows = whole.splitlines(keepends=True)
            dice.shuffle(rows)
            return b"".join(rows)
    return whole[:at] + piece + whole[at + size :]
