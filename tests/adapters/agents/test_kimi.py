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
from untildone.adapters.agents.kimi import KIMI, KimiReader
from untildone.adapters.agents.program import KnownProgram
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
from untildone.domain.errors import UserError

# Its tokens are in its records, what went wrong is on standard error: of that in the captures a
# retry is all there is.
READINGS = {
    "die": Reading(error=NO_RESULT, trouble=SERVER),
    "eof": Reading(session=NEW),
    "failed": Reading(FAILED, session=NEW),
    "hang": Reading(error=NO_RESULT),
    "http401": Reading(error=NO_RESULT),
    "http429": Reading(error=NO_RESULT, trouble=replace(RATE, after_s=1.0)),
    "nopromise": Reading(session=NEW),
    "ok": Reading(COMPLETE, session=NEW),
    "sig_TERM_toolsleep": Reading(error=NO_RESULT),
    "tool_exit_nonzero": Reading(COMPLETE, session=NEW),
}
NOTICES: dict[str, list[Notice]] = {
    "ok": [
        AgentTool("Write", "/repo/hello.txt"),
        AgentText(f"I wrote hello.txt as asked.\n{DONE}"),
    ],
    "sig_TERM_toolsleep": [AgentTool("Bash", "sleep 60")],
}
ENDED = {"role": "meta", "type": "session.resume_hint", "session_id": ""}
REFUSED = Trouble(Kind.REFUSED, "the model refused")


def says(text: object, role: str = "assistant") -> dict[str, object]:
    return {"role": role, "content": text}


def test_every_capture_has_a_reading() -> None:
    assert recorded("kimi") == [f"2.1.0/{name}" for name in sorted(READINGS)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    name = f"2.1.0/{capture}"
    notices = check_capture("kimi", KIMI.reader, name, READINGS[capture], size)
    assert notices == NOTICES.get(capture, notices)


PROMISES: dict[str, tuple[list[object], Promise | None]] = {
    "in a message": ([says(f"Hi.\n{DONE}")], COMPLETE),
    "before a last word": ([says(DONE), says("Bye.")], COMPLETE),
    "in the prompt": ([says(DONE, "user"), says("Bye.")], None),
    "in a tool's answer": ([says(DONE, "tool")], None),
    "strange events": ([[], 1, {}, {"role": 3}, says(7), {"role": "assistant"}], None),
}


@pytest.mark.parametrize(("events", "promise"), PROMISES.values(), ids=PROMISES)
def test_only_the_agents_own_text_counts(events: list[object], promise: Promise | None) -> None:
    assert read(KimiReader, lines(*events, ENDED))[1] == Reading(promise)


ERRORS: dict[str, Trouble | None] = {
    "provider.rate_limit: 429 Rate limit reached for requests. Try again in 1s.": replace(
        RATE, after_s=1.0
    ),
    "provider.api_error: 429 You exceeded your current quota, please check your plan.": USED_UP,
    "provider.auth_error: 401 Incorrect API key provided: sk-x.": LOGIN,
    "compaction.failed: APIContextOverflowError: 400 Your input exceeds the context window of "
    "this model.": CONTEXT,
    "Provider safety policy blocked the response.": REFUSED,
    "No model configured. Run `kimi` and use /login to sign in, then retry.": LOGIN,
    "I have no words for it": None,
}


@pytest.mark.parametrize(("said", "trouble"), ERRORS.items())
def test_an_error_is_told_on_standard_error(said: str, trouble: Trouble | None) -> None:
    stderr = f"noise\nerror: failed to run prompt: {said}\nSee log: /x.log\n".encode()
    reader = KimiReader(INTENT)
    reader.feed(lines(says(DONE)))
    reading = reader.finish(1, stderr)
    assert (reading.error, reading.trouble) == (said, trouble)


def test_the_last_event_ends_the_call() -> None:
    reader = KimiReader(INTENT)
    seen = []
    for event in (says("Hi."), ENDED, says(DONE), ENDED):
        reader.feed(lines(event))
        seen.append(reader.over)
    assert seen == [False, True, False, True]


@pytest.mark.parametrize("size", [10, 119_000, 1_000_000])
def test_the_prompt_reaches_it_whatever_its_size(size: int, tmp_path: Path) -> None:
    fake = tmp_path / "kimi"
    fake.write_text('#!/bin/sh\nfor word; do :; done\nprintf %s "$word" > got\n')
    fake.chmod(0o755)
    prompt = "ü" + "a" * size
    call = KnownProgram(KIMI, str(fake)).invocation(Intent(prompt, str(tmp_path), str(tmp_path)))
    subprocess.run(call.argv, input=call.stdin, cwd=tmp_path, check=True)
    got = (tmp_path / "got").read_text(encoding="utf-8")
    file = tmp_path / "prompt.txt"
    told = f"Read the whole file {file} and do what it says."
    assert got == (prompt if size < 120_000 else told)
    assert file.read_text(encoding="utf-8") == prompt


def test_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_CODE_HOME", "/elsewhere")
    intent = Intent("p", "/w", "/s", model="k3", resume=Session("s1"))
    call = KnownProgram(KIMI).invocation(intent)
    assert call.argv[:2] == ("sh", "-c")
    usual = ("kimi", "--output-format", "stream-json")
    assert call.argv[3:] == ("/s/prompt.txt", *usual, "-m", "k3", "-S", "s1")
    assert (call.stdin, call.writable) == (b"p", ("/elsewhere",))
    with pytest.raises(UserError):
        KnownProgram(KIMI).invocation(replace(intent, permissions=Permissions.EDITS))
