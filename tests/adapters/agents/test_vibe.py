import json
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.adapters.agents.streams import (
    COMPLETE,
    CONTEXT,
    DONE,
    FAILED,
    INTENT,
    LOGIN,
    NEW,
    NO_RESULT,
    RATE,
    SERVER,
    SIZES,
    USED_UP,
    check_capture,
    lines,
    read,
    recorded,
)
from untildone.adapters.agents.program import KnownProgram
from untildone.adapters.agents.vibe import VIBE, VibeReader
from untildone.domain.agents.agent import (
    AgentText,
    AgentTool,
    Intent,
    Kind,
    Notice,
    Permissions,
    Reading,
    Session,
    Trouble,
)
from untildone.domain.agents.promise import Promise

# Its tokens are in its records.
READINGS = {
    "ctx": Reading(
        error="400 Bad Request: Your input exceeds the context window of this model. "
        "Please adjust your input.",
        trouble=CONTEXT,
        session=NEW,
    ),
    "die": Reading(
        error="peer closed connection without sending complete message body "
        "(incomplete chunked read)",
        trouble=SERVER,
        session=NEW,
    ),
    "edits_denied": Reading(COMPLETE, session=NEW, denied=("bash touch made.txt",)),
    "eof": Reading(
        error="Model stream from scripted (scripted-1) ended without a finish reason.",
        trouble=SERVER,
        session=NEW,
    ),
    "failed": Reading(FAILED, session=NEW),
    "hang": Reading(error=NO_RESULT, session=NEW),
    "http401": Reading(
        error="Invalid API key (from env var SCRIPTED_KEY). Please check your API key and try "
        "again.",
        trouble=LOGIN,
        session=NEW,
    ),
    "http429": Reading(
        error="429 Too Many Requests: Rate limit reached for requests. Please try again in 1s.",
        trouble=replace(RATE, after_s=1.0),
        session=NEW,
    ),
    "model_refusal": Reading(session=NEW),
    "noauth": Reading(
        error="Missing SCRIPTED_KEY environment variable for scripted provider", trouble=LOGIN
    ),
    "nopromise": Reading(session=NEW),
    "ok": Reading(COMPLETE, session=NEW),
    "sig_TERM_toolsleep": Reading(error=NO_RESULT, session=NEW),
    "tool_exit_nonzero": Reading(COMPLETE, session=NEW),
}
NOTICES: dict[str, list[Notice]] = {
    "ok": [
        AgentTool("write_file", "/repo/hello.txt"),
        AgentText(f"I wrote hello.txt as asked.\n{DONE}"),
    ],
    "tool_exit_nonzero": [
        AgentTool("bash", "exit 3"),
        AgentText(f"I wrote hello.txt as asked.\n{DONE}"),
    ],
}
ENDED = {"outcome": "finished", "error": None, "exported": True}


def says(text: object, role: str = "assistant", ends: str = "committed", to: str = "s") -> object:
    about = {"type": "message", "role": role, "id": "m", "sessionId": to}
    return {**about, "content": [{"type": "text", "text": text}], "outcome": {"type": ends}}


def came_to(outcome: str, message: object = None, code: object = None) -> Reading:
    error = {"message": message, "code": code} if message else None
    ended = {"outcome": outcome, "error": error, "exported": True}
    return read(VibeReader, lines(says(DONE), ended))[1]


def test_every_capture_has_a_reading() -> None:
    assert recorded("vibe") == [f"3.0.2/{name}" for name in sorted(READINGS)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    name = f"3.0.2/{capture}"
    notices = check_capture("vibe", VIBE.reader, name, READINGS[capture], size)
    assert notices == NOTICES.get(capture, notices)


PROMISES: dict[str, tuple[list[object], Promise | None]] = {
    "in a message": ([says(f"Hi.\n{DONE}")], COMPLETE),
    "in the prompt": ([says(DONE, "user"), says("Bye.")], None),
    "in an answer that broke off": ([says("Hi."), says(DONE, ends="discarded")], None),
    "of a sub-agent": ([says("Hi."), says(DONE, to="other")], None),
    "strange events": ([[], 1, {}, {"type": 3}, says(7), {"type": "effect", "detail": 1}], None),
}


@pytest.mark.parametrize(("events", "promise"), PROMISES.values(), ids=PROMISES)
def test_only_the_agents_own_text_counts(events: list[object], promise: Promise | None) -> None:
    assert read(VibeReader, lines(*events, ENDED))[1].promise == promise


def test_without_its_export_nothing_is_a_success() -> None:
    reading = read(VibeReader, lines(says(DONE)), stderr=b"Stopped: terminated\n")[1]
    assert reading.error.startswith(NO_RESULT)
    assert came_to("terminated").error == NO_RESULT


HTTP = "Client error '{}' for url 'http://x/v1'\nFor more information check: https://y/Status/{}"
ERRORS: dict[str, tuple[tuple[str, object, object], str, Trouble | None]] = {
    "a quota": (
        (
            "infrastructure_failure",
            HTTP.format("429 Too Many Requests", "429: You exceeded your current quota"),
            "rate_limit",
        ),
        "429 Too Many Requests: You exceeded your current quota",
        USED_UP,
    ),
    "no words of the service": (
        ("infrastructure_failure", HTTP.format("503 Service Unavailable", "503"), "backend_error"),
        "503 Service Unavailable",
        Trouble(Kind.OVERLOADED, "server error (503)"),
    ),
    "no JSON": (
        ("infrastructure_failure", "Stream chunk contains malformed JSON.", "backend_error"),
        "Stream chunk contains malformed JSON.",
        SERVER,
    ),
    "its own turns": (
        ("turn_limit", None, None),
        "the agent's own turns are used up",
        Trouble(Kind.BUDGET, "the agent's own turns are used up"),
    ),
    "an answer that is too long": (("length", None, None), "length", None),
    "anything else": (("usage_error", "Session not found: x", None), "Session not found: x", None),
    "an error of a finished one": (("finished", "It broke", None), "It broke", None),
}


@pytest.mark.parametrize(("ended", "error", "trouble"), ERRORS.values(), ids=ERRORS)
def test_an_error_is_told_by_its_export(
    ended: tuple[str, object, object], error: str, trouble: Trouble | None
) -> None:
    reading = came_to(*ended)
    assert (reading.error, reading.trouble) == (error, trouble)


def test_the_last_event_ends_the_call() -> None:
    reader = VibeReader(INTENT)
    reader.feed(lines(says(DONE)))
    assert not reader.over
    reader.feed(lines(ENDED))
    assert reader.over


EXPORT = {
    "outcome": "finished",
    "error": None,
    "steps": 1,
    "config": {"providers": [{"extra_headers": {"x": "secret"}}]},
    "exit_code": 0,
}


@pytest.mark.parametrize("written", [True, False])
def test_the_shell_prints_the_export_without_the_settings(tmp_path: Path, *, written: bool) -> None:
    """What the call before has left counts for nothing, and the exit code is the program's."""
    export = json.dumps(EXPORT, indent=2)
    program = tmp_path / "vibe"
    made = f"cat > \"$word/export.json\" <<'END'\n{export}\nEND\n" if written else ""
    program.write_text(
        '#!/bin/sh\ncat > prompt\nfor word; do :; done\nmkdir "$word" || exit 9\n'
        f'{made}printf %s "$*" > called\nexit 3\n'
    )
    program.chmod(0o755)
    scratch = tmp_path / "scratch"
    (scratch / "vibe-export").mkdir(parents=True)
    (scratch / "vibe-export" / "export.json").write_text(export)
    intent = Intent("Do it.", str(tmp_path), str(scratch), model="m1", resume=Session("s1"))
    call = KnownProgram(VIBE, str(program)).invocation(intent)
    done = subprocess.run(
        call.argv, input=call.stdin, cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, (tmp_path / "prompt").read_text()) == (3, "Do it.")
    usual = "-p --output streaming --auto-approve --trust --resume s1"
    assert (tmp_path / "called").read_text() == f"{usual} --output-dir {scratch}/vibe-export"
    assert call.env["VIBE_ACTIVE_MODEL"] == "m1"
    assert b"secret" not in done.stdout
    reader = VibeReader(intent)
    reader.feed(done.stdout)
    assert reader.over is written
    assert list(scratch.iterdir()) == []


def test_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIBE_HOME", "/elsewhere")
    call = KnownProgram(VIBE).invocation(replace(INTENT, permissions=Permissions.EDITS))
    assert call.argv[:2] == ("sh", "-c")
    usual = ("vibe", "-p", "--output", "streaming", "--agent", "accept-edits")
    assert call.argv[3:] == ("/s/vibe-export", *usual)
    assert (call.stdin, call.writable, call.env) == (b"Do it.", ("/elsewhere",), VIBE.env)
