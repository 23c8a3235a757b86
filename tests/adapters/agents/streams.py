"""Recorded output of the agents, and ways to read it."""

import json
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from untildone.domain.agents.agent import Intent, Kind, Notice, Reading, Session, Trouble
from untildone.domain.agents.promise import Promise
from untildone.ports import OutputReader

CAPTURES = Path(__file__).parents[2] / "captures"
INTENT = Intent("Do it.", "/w", "/s")
Reader = Callable[[Intent], OutputReader]

SIZES = (0, 1, 1000)
DONE = "<promise>COMPLETE</promise>"
COMPLETE = Promise(complete=True)
FAILED = Promise(complete=False, reason="no access to database")
LOGIN = Trouble(Kind.NOT_LOGGED_IN, "not logged in")
SERVER = Trouble(Kind.OVERLOADED, "server error")
RATE = Trouble(Kind.RATE_LIMITED, "rate limit")
USED_UP = Trouble(Kind.QUOTA_EXHAUSTED, "usage limit")
CONTEXT = Trouble(Kind.CONTEXT_OVERFLOW, "the context is too long")
NEW = Session("")
NO_RESULT = "ended without its result event"


def recorded(agent: str) -> list[str]:
    """The names of the agent's captures, as VERSION/SCENARIO."""
    folder = CAPTURES / agent
    found = sorted(path for path in folder.rglob("*.*") if path.is_file())
    return [str(path.relative_to(folder).with_suffix("")) for path in found]


def stream(agent: str, name: str) -> bytes:
    """The bytes of one capture."""
    version, _, scenario = name.partition("/")
    (path,) = (CAPTURES / agent / version).glob(f"{scenario}.*")
    return path.read_bytes()


def read(
    reader: Reader, output: bytes, size: int = 0, stderr: bytes = b"", intent: Intent = INTENT
) -> tuple[list[Notice], Reading]:
    """The notices and the reading of this output, fed in pieces of this size (0: as a whole)."""
    reading = reader(intent)
    notices: list[Notice] = []
    for at in range(0, len(output), size or len(output) or 1):
        notices += reading.feed(output[at : at + (size or len(output))])
    return notices, reading.finish(0, stderr)


def lines(*events: object) -> bytes:
    """These events as an agent prints them."""
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def check_capture(
    agent: str, reader: Reader, name: str, expected: Reading, size: int
) -> list[Notice]:
    """The capture says what is expected, whatever the id of its conversation; its notices."""
    notices, reading = read(reader, stream(agent, name), size)
    session = reading.session
    assert session is None or session.id
    assert replace(reading, session=session and replace(session, id="")) == expected
    return notices
