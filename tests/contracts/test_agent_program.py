"""What the loop relies on, whichever agent it drives."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.agents.events import EVENTS
from untildone.adapters.agents.command import CommandProgram
from untildone.adapters.agents.program import KnownProgram
from untildone.adapters.agents.scripted import ScriptedProgram
from untildone.domain.agents.agent import AgentText, AgentTool, Intent, Reading
from untildone.domain.agents.promise import Promise
from untildone.domain.errors import AgentMissing
from untildone.ports import AgentProgram
from untildone.settings.choices import PROGRAMS
from untildone.wiring.agents import known_program

Make = Callable[[Path, str], AgentProgram]


def _program(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}")
    path.chmod(0o755)
    return str(path)


def _prints(name: str) -> Make:
    def make(folder: Path, text: str) -> AgentProgram:
        stream = folder / "stream"
        lines = (e if isinstance(e, str) else json.dumps(e) for e in EVENTS[name](text))
        stream.write_text("".join(f"{line}\n" for line in lines))
        fake = _program(folder / name, f"cat > prompt; cat '{stream}'")
        return KnownProgram(known_program(name).spec, fake)

    return make


def command(folder: Path, text: str) -> AgentProgram:
    (folder / "text").write_text(text)
    return CommandProgram(
        _program(folder / "agent", f"cat > prompt; cat '{folder}/text'") + " --flag"
    )


def scripted(folder: Path, text: str) -> AgentProgram:
    path = folder / "script.toml"
    path.write_text(f"[default]\nsteps = [{{say = {json.dumps(text)}}}]\n")
    return ScriptedProgram(str(path))


def missing(folder: Path) -> list[AgentProgram]:
    nowhere = str(folder / "nowhere")
    programs: list[AgentProgram] = [
        KnownProgram(known_program(name).spec, nowhere) for name in PROGRAMS
    ]
    return [*programs, CommandProgram(nowhere), ScriptedProgram(nowhere)]


MAKERS: dict[str, Make] = {
    **{name: _prints(name) for name in PROGRAMS},
    "command": command,
    "scripted": scripted,
}
PROMPT = "Grüße.\n" + "Long.\n" * 100_000


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKERS[request.param]


def run(program: AgentProgram, folder: Path, size: int = 65_536) -> tuple[str, Reading]:
    """Call the program as the loop does; what the notices say, and the reading."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    intent = Intent(PROMPT, str(work), str(folder), story_id="1", attempt=2)
    call = program.invocation(intent)
    env = {k: v for k, v in os.environ.items() if k not in call.unset} | dict(call.env)
    done = subprocess.run(
        call.argv, input=call.stdin, cwd=work, env=env, capture_output=True, check=False
    )
    reader = program.reader(intent)
    said = ""
    for at in range(0, len(done.stdout), size):
        for notice in reader.feed(done.stdout[at : at + size]):
            said += notice.text if isinstance(notice, AgentText) else ""
    return said, reader.finish(done.returncode, done.stderr)


def test_the_name_is_what_the_flag_takes(make: Make, tmp_path: Path) -> None:
    assert MAKERS[make(tmp_path, "").name] is make


def test_a_program_that_is_there_passes_the_check(make: Make, tmp_path: Path) -> None:
    make(tmp_path, "").check()


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    for program in missing(tmp_path):
        with pytest.raises(AgentMissing, match="nowhere") as error:
            program.check()
        assert error.value.hint


@pytest.mark.parametrize("size", [1, 7, 65_536])
@pytest.mark.parametrize(
    ("text", "promise"),
    [
        ("Done.\n<promise>COMPLETE</promise>", Promise(complete=True)),
        ("<promise>FAILED: a\nb: `c`</promise>\n", Promise(complete=False, reason="a\nb: `c`")),
        ("```\n<promise>COMPLETE</promise>\n```\n", None),
        ("Nothing.", None),
    ],
)
def test_the_promise_is_read_from_any_cut(
    make: Make, tmp_path: Path, text: str, promise: Promise | None, size: int
) -> None:
    said, reading = run(make(tmp_path, text), tmp_path, size)
    assert (said.strip(), reading.promise, reading.error) == (text.strip(), promise, "")


def test_what_is_shown_is_plain(make: Make, tmp_path: Path) -> None:
    said, _ = run(make(tmp_path, "a\x1b[31mb\x1b]0;t\x07\u202ec"), tmp_path)
    assert said.strip() == "abc"


def test_the_whole_prompt_is_on_standard_input(make: Make, tmp_path: Path) -> None:
    intent = Intent(PROMPT, str(tmp_path), str(tmp_path))
    call = make(tmp_path, "").invocation(intent)
    assert call.stdin == PROMPT.encode()
    assert max(len(word) for word in call.argv) < 4096


def test_the_same_intent_gives_the_same_call(make: Make, tmp_path: Path) -> None:
    intent = Intent("p", str(tmp_path), str(tmp_path), "1", 1, "m")
    program = make(tmp_path, "")
    assert program.invocation(intent) == program.invocation(intent)
    assert program.reader(intent) is not program.reader(intent)


NOISE = {"bytes": b"\x00\xff" * 50_000, "{": b"{" * 100_000, "lines": b"\n" * 100_000, "": b""}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_noise_is_no_promise_and_no_exception(make: Make, tmp_path: Path, noise: bytes) -> None:
    reader = make(tmp_path, "").reader(Intent("p", str(tmp_path), str(tmp_path)))
    for _ in range(3):
        assert all(isinstance(notice, AgentText | AgentTool) for notice in reader.feed(noise))
    assert reader.finish(None, b"").promise is None
