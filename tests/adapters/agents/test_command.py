from pathlib import Path

import pytest

from untildone.adapters.agents.command import (
    LEFT_OUT,
    PIECE_BYTES,
    PIECE_LINES,
    CommandProgram,
    PlainReader,
)
from untildone.domain.agents.agent import (
    SAID_WHY,
    AgentText,
    Intent,
    Invocation,
    Kind,
    Reading,
    Trouble,
)
from untildone.domain.agents.promise import Promise
from untildone.domain.errors import AgentMissing, UserError

INTENT = Intent(prompt="Grüße", cwd="/w", scratch="/s", model="ignored")
DONE = b"<promise>COMPLETE</promise>"


def test_the_call() -> None:
    call = CommandProgram("my-agent --say 'a b' \"c\"").invocation(INTENT)
    assert call == Invocation(argv=("my-agent", "--say", "a b", "c"), stdin="Grüße".encode())


def test_a_path_means_the_folder_where_it_was_typed(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        call = CommandProgram("./agent x").invocation(INTENT)
    assert call.argv == (str(tmp_path / "agent"), "x")


def test_a_path_in_the_home_folder(home: Path) -> None:
    assert CommandProgram("~/agent").invocation(INTENT).argv == (str(home / "agent"),)


@pytest.mark.parametrize("command", ["", "   ", "''", "agent 'open"])
def test_a_command_without_words_is_refused(command: str) -> None:
    with pytest.raises(UserError) as error:
        CommandProgram(command)
    assert "--agent-cmd" in error.value.hint


@pytest.mark.parametrize("make", ["nothing", "a folder", "not executable"])
def test_a_missing_program(tmp_path: Path, make: str) -> None:
    program = tmp_path / "agent"
    if make == "a folder":
        program.mkdir()
    elif make == "not executable":
        program.write_text("#!/bin/sh\n")
        program.chmod(0o644)
    with pytest.raises(AgentMissing, match=str(program)):
        CommandProgram(f"{program} --flag").check()


def test_a_program_that_is_there(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    CommandProgram(str(program)).check()
    CommandProgram("sh -c true").check()


def test_reading() -> None:
    reader = PlainReader()
    assert reader.feed(b"Hi \x1b[31mthere\x1b[0m\n\xc3") == [AgentText("Hi there\n")]
    assert reader.feed(b"\xa4 <prom") == [AgentText("ä <prom")]
    assert reader.feed(b"\n  \n") == [AgentText("\n  \n")]
    assert reader.feed(b"\x1b[0m") == []
    assert reader.feed(b"") == []
    reader.feed(DONE + b"\n")
    assert reader.finish(0, b"oops") == Reading(Promise(complete=True))
    assert reader.finish(3, b"") == Reading(Promise(complete=True))
    assert reader.finish(3, b"Error: oops\nSee the manual") == Reading(
        Promise(complete=True),
        error="the agent exited with code 3: Error: oops",
        trouble=Trouble(Kind.CRASHED, SAID_WHY),
    )


def test_of_a_flood_the_end_is_shown_and_that_more_came_before() -> None:
    reader = PlainReader()
    lines = b"".join(b"%07d\n" % n for n in range(100_000))
    (notice,) = reader.feed(lines)
    last = "\n".join(f"{n:07}" for n in range(100_000 - PIECE_LINES, 100_000))
    assert notice == AgentText(f"{LEFT_OUT}\n{last}")
    (notice,) = reader.feed(b"x" * 1_000_000)
    assert notice == AgentText(f"{LEFT_OUT}\n{'x' * PIECE_BYTES}")
    assert reader.finish(0, b"") == Reading()
