"""What holds for the specs and the readers of all agents."""

from pathlib import Path

import pytest

from tests.adapters.agents.events import EVENTS
from tests.adapters.agents.streams import DONE, INTENT, lines
from untildone.adapters.agents.program import KnownProgram
from untildone.adapters.agents.reading.event_reader import EventReader
from untildone.domain.agents.agent import Permissions
from untildone.domain.errors import UserError
from untildone.settings.choices import PROGRAMS
from untildone.wiring.agents import known_program


def printed(events: list[object]) -> bytes:
    said = (e.encode() + b"\n" if isinstance(e, str) else lines(e) for e in events)
    return b"".join(said)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_last_event_says_that_the_call_is_over(name: str) -> None:
    reader = known_program(name).reader(INTENT)
    assert isinstance(reader, EventReader)
    *said, last = EVENTS[name](f"Well.\n{DONE}")
    seen = []
    for piece in (printed(said), printed([last]), b"some noise\n"):
        reader.feed(piece)
        seen.append(reader.over)
    assert seen == [False, True, True]


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "qwen", "goose", "pi"])
def test_an_agent_that_goes_on_after_its_last_event_is_not_over(name: str) -> None:
    reader = known_program(name).reader(INTENT)
    assert isinstance(reader, EventReader)
    reader.feed(printed(EVENTS[name](f"Well.\n{DONE}")))
    reader.feed(printed(EVENTS[name]("Something is left.")[:1]))
    assert not reader.over


def test_every_agent_says_what_edits_really_holds() -> None:
    specs = [known_program(name).spec for name in PROGRAMS]
    edits = {s.name: s.grants.get(Permissions.EDITS) for s in specs}
    assert [name for name, grant in edits.items() if grant and not grant.holds] == []


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("claude", "CLAUDE_CODE_USE_BEDROCK"),
        ("claude", "CLAUDE_CODE_USE_VERTEX"),
        ("gemini", "GOOGLE_GENAI_USE_VERTEXAI"),
        ("goose", "GOOSE_PROVIDER"),
    ],
)
def test_logins_by_provider(name: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert known_program(name).logged_in() is False
    monkeypatch.setenv(variable, "1")
    assert known_program(name).logged_in() is True


def test_a_custom_provider_is_a_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    settings = tmp_path / "config.toml"
    settings.write_text('model = "gpt-5"\n')
    assert known_program("codex").logged_in() is False
    settings.write_text('model_provider = "mine"\n')
    assert known_program("codex").logged_in() is True


@pytest.mark.parametrize("name", PROGRAMS)
def test_arguments_that_the_loop_relies_on_are_refused(name: str) -> None:
    """What the loop gives by itself, and what the spec reserves; each with its reason."""
    spec = known_program(name).spec
    own = [word for word in (*spec.args, *spec.model, *spec.resume) if word.startswith("--")]
    for word in (*own, *(word for word in spec.reserved if " " not in word)):
        if word in spec.repeatable:
            continue
        for given in ((word,), (f"{word}=x",), ("--harmless", word)):
            with pytest.raises(UserError, match=f"cannot be given to {name}: "):
                KnownProgram(spec, extra_args=given).invocation(INTENT)
    with pytest.raises(UserError, match="would be read as the prompt"):
        KnownProgram(spec, extra_args=("do it",)).invocation(INTENT)
    call = KnownProgram(spec, extra_args=("--harmless", "x"), extra_env={"A": "b"})
    assert "--harmless" in call.invocation(INTENT).argv
    assert call.invocation(INTENT).env["A"] == "b"
    for variable in (*spec.env, *spec.unset, "UNTILDONE_RUN_ID"):
        with pytest.raises(UserError, match="the loop decides about it"):
            KnownProgram(spec, extra_env={variable: "x"}).invocation(INTENT)


OTHER_SPELLINGS = (
    *(("gemini", "--outputFormat=text"), ("qwen", "--approvalMode"), ("opencode", "--no-auto")),
    *(("aider", "--stream"), ("aider", "--mess=x"), ("aider", "--yes"), ("aider", "--gitignore")),
    *(("claude", "--no-verbose"), ("claude", "--inputFormat")),
)


@pytest.mark.parametrize(("name", "word"), OTHER_SPELLINGS)
def test_other_spellings_of_a_refused_argument_are_refused(name: str, word: str) -> None:
    with pytest.raises(UserError, match=f"cannot be given to {name}: "):
        KnownProgram(known_program(name).spec, extra_args=(word,)).invocation(INTENT)


@pytest.mark.parametrize("word", ["--no-git", "--auto-test"])
def test_what_only_resembles_a_refused_argument_is_allowed(word: str) -> None:
    """One is not short for `--no-gitignore`, the other takes nothing back where all is allowed."""
    program = KnownProgram(known_program("aider").spec, extra_args=(word,))
    assert word in program.invocation(INTENT).argv


def test_settings_of_codex_that_the_loop_relies_on_are_refused() -> None:
    spec = known_program("codex").spec
    for given in (
        *(("-c", "sandbox_mode=x"), ("--config=approval_policy=never",), ("-csandbox_mode=x",)),
        *(("-s", "read-only"), ("-sread-only",), ("-c", "model=x")),
    ):
        with pytest.raises(UserError, match="cannot be given to codex"):
            KnownProgram(spec, extra_args=given).invocation(INTENT)
    fine = ("-c", "model_reasoning_effort=high")
    assert fine[1] in KnownProgram(spec, extra_args=fine).invocation(INTENT).argv
