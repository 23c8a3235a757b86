"""`agents`, and what a person without the usual agent is told, from outside."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from untildone.commands.care import agents as wiring
from untildone.interfaces.cli.main import cli
from untildone.settings.choices import PROGRAMS
from untildone.wiring.agents import known_program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.e2e.bench import Bench
    from tests.e2e.command import Json, Result

pytestmark = pytest.mark.e2e
VERSION = "#!/bin/sh\necho '{0}'\n"


@pytest.fixture
def bench(bench: Bench) -> Bench:
    """A machine without any agent: on PATH are git and what the test puts there."""
    (bench.bin / "git").symlink_to(shutil.which("git") or "/usr/bin/git")
    return bench


def ask(
    bench: Bench, *args: str, env: Mapping[str, str] | None = None, cwd: str = "repo"
) -> Result:
    only = {"PATH": str(bench.bin)}
    return bench.run(*args, env={**only, **(env or {})}, cwd=bench.root / cwd)


def found(bench: Bench, *args: str, env: Mapping[str, str] | None = None) -> dict[str, Json]:
    """What `agents --json` says, by name."""
    rows = ask(bench, "agents", "--json", *args, env=env).ok().json()["agents"]
    return {row["name"]: row for row in rows}


def test_nothing_is_installed(bench: Bench) -> None:
    rows = found(bench)
    assert tuple(rows) == PROGRAMS
    assert {(row["path"], row["version"], row["why"]) for row in rows.values()} == {
        ("", "", "not installed")
    }
    text = ask(bench, "agents").ok().stdout
    assert [row["install"] for row in rows.values() if row["install"] not in text] == []
    assert "--agent-cmd" in text


def test_the_version_is_the_first_line_made_plain(bench: Bench) -> None:
    path = bench.program("codex", VERSION.format("\x1b]0;title\x07codex-cli \x1b[31m0.166.0\nmore"))
    row = found(bench)["codex"]
    assert (row["path"], row["version"], row["why"]) == (str(path), "codex-cli 0.166.0", "")
    assert "codex-cli 0.166.0" in ask(bench, "agents").ok().stdout


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("#!/bin/sh\nexit 3\n", "exited with 3"),
        ("#!/bin/sh\necho 1.0; exit 4\n", "exited with 4"),
        ("#!/bin/sh\n", "printed nothing"),
        ("#!/no/such/interpreter\n", "could not be started"),
    ],
)
def test_a_program_that_gives_no_version_is_there_all_the_same(
    bench: Bench, script: str, why: str
) -> None:
    path = bench.program("goose", script)
    row = found(bench)["goose"]
    assert (row["path"], row["version"]) == (str(path), "")
    assert row["why"] == f"`{path} --version` {why}"
    assert row["why"] in ask(bench, "agents").ok().stdout


def test_a_program_that_hangs_is_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    bench.program("pi", f"#!/bin/sh\necho $$ > {mark}\nexec tail -f /dev/null\n")
    monkeypatch.setattr(wiring, "VERSION_WAIT_S", 0.5)
    monkeypatch.setenv("PATH", f"{bench.bin}:/usr/bin:/bin")
    monkeypatch.chdir(bench.repo)
    shown = CliRunner().invoke(cli, ["agents"])
    assert "gave no answer in 0.5 s" in shown.output
    assert shown.exit_code == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_programs_are_asked_side_by_side(bench: Bench) -> None:
    for name in ("claude", "codex", "gemini", "goose", "pi", "aider"):
        bench.program(name, "#!/bin/sh\n/bin/sleep 1\necho 1.0\n")
    for command in ("agents", "doctor"):
        began = time.monotonic()
        text = ask(bench, command).ok().stdout
        assert text.count("1.0") == 6
        assert time.monotonic() - began < 5


def test_a_version_on_standard_error_is_one(bench: Bench) -> None:
    bench.program("pi", "#!/bin/sh\necho 0.73.1 >&2\n")
    assert found(bench)["pi"]["version"] == "0.73.1"


def test_at_a_terminal_it_is_said_whom_we_wait_for(bench: Bench) -> None:
    bench.program("pi", "#!/bin/sh\n/bin/sleep 2.5\necho 1.0\n")
    terminal = bench.terminal("agents", env={"PATH": str(bench.bin)})
    terminal.wait_text("Waiting for the versions of: pi")
    terminal.wait_text("pi         1.0, ")
    assert terminal.wait() == 0


# What shows a login, as its users know it; of other agents it is taken from their specs.
KNOWN_LOGINS = {
    "claude": (".claude/.credentials.json", "ANTHROPIC_API_KEY"),
    "codex": (".codex/auth.json", "CODEX_API_KEY"),
    "gemini": (".gemini/oauth_creds.json", "GEMINI_API_KEY"),
    "qwen": (".qwen/oauth_creds.json", "OPENAI_API_KEY"),
    "goose": (".config/goose/config.yaml", "OPENAI_API_KEY"),
    "pi": (".pi/agent/auth.json", "ANTHROPIC_API_KEY"),
    "opencode": (".local/share/opencode/auth.json", "OPENAI_API_KEY"),
    "aider": (".aider.conf.yml", "OPENAI_API_KEY"),
}


def logins() -> dict[str, tuple[str, str]]:
    """A file and a variable that each show a login, of every agent that has both."""
    specs = {name: known_program(name).spec.login for name in PROGRAMS}
    shown = {
        name: (login.files[0].default.removeprefix("~/"), login.variables[0])
        for name, login in specs.items()
        if login and login.files and login.variables
    }
    return shown | KNOWN_LOGINS


def test_a_login_is_seen_by_its_file_or_its_variable(bench: Bench) -> None:
    shown = logins()
    for name in shown:
        bench.program(name, VERSION.format("1.0"))
    before = found(bench)
    assert {before[name]["logged_in"] for name in shown} == {False}
    assert ask(bench, "agents").ok().stdout.count("NO LOGIN FOUND") == len(shown)
    for name, (_, variable) in shown.items():
        assert found(bench, env={variable: "k"})[name]["logged_in"] is True, name
        assert found(bench, env={variable: ""})[name]["logged_in"] is False, name
    for file, _ in shown.values():
        path = bench.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    rows = {name: row for name, row in found(bench).items() if name in shown}
    assert {row["logged_in"] for row in rows.values()} == {True}
    text = ask(bench, "agents").ok().stdout
    # A key may be wrong: how to log in is said in any case.
    assert [row["login"] for row in rows.values() if row["login"] not in text] == []


def test_how_each_will_be_called_is_shown(bench: Bench) -> None:
    bench.program("goose", VERSION.format("1.52.0"))
    bench.write("untildone.toml", 'agent = "goose"\nmodel = "openai/gpt-5"\n')
    row = found(bench)["goose"]
    assert row["chosen"]
    assert row["environment"]["GOOSE_MODE"] == "auto"
    assert row["call"][:2] == ["goose", "run"]
    assert "gpt-5" in row["call"]
    text = ask(bench, "agents").ok().stdout
    assert "→ goose" in text
    assert "GOOSE_MODE=auto" in text
    assert found(bench)["claude"]["chosen"] is False


def test_an_agent_that_cannot_be_held_to_edits_says_so(bench: Bench) -> None:
    for name in ("goose", "codex"):
        bench.program(name, VERSION.format("1.0"))
    rows = found(bench, "--permissions", "edits")
    assert [name for name, row in rows.items() if not row["call"]] == [
        "goose",
        "kimi",
        "cline",
        "cursor-agent",
    ]
    assert "workspace-write" in rows["codex"]["call"]
    text = ask(bench, "agents", "--permissions", "edits").ok().stdout
    assert text.count("cannot be held to `--permissions edits`") == 1
    refused = ask(bench, "run", "demo", "--agent", "goose", "--permissions", "edits").ok(2)
    assert "untildone agents --permissions edits" in refused.stderr


def test_an_agent_that_nobody_has_run_says_so(bench: Bench) -> None:
    assert "not installed, and UNTESTED" in ask(bench, "agents").ok().stdout
    for name in ("cursor-agent", "codex"):
        bench.program(name, VERSION.format("1.0"))
    rows = found(bench)
    assert [name for name, row in rows.items() if row["untested"]] == ["cursor-agent"]
    assert ask(bench, "agents").ok().stdout.count("UNTESTED") == 1
    bench.write("untildone.toml", 'agent = "cursor-agent"\n')
    assert "UNTESTED" in bench.run("doctor").stdout


def test_outside_of_a_repository(bench: Bench) -> None:
    bench.program("codex", VERSION.format("codex-cli 1"))
    shown = ask(bench, "agents", cwd=".").ok()
    assert "codex-cli 1" in shown.stdout
    assert shown.stderr == ""


def test_wrong_settings_are_named(bench: Bench) -> None:
    bench.write("untildone.toml", 'agent = "cluade"\n')
    wrong = ask(bench, "agents").ok(2).stderr
    assert "did you mean `claude`?" in wrong


# what a newcomer is told


def test_a_person_with_another_agent_is_told_how_to_take_it(bench: Bench) -> None:
    bench.program("goose", VERSION.format("1.52.0"))
    before = bench.snapshot()
    refused = ask(bench, "run", "demo").ok(2)
    assert "not found: claude" in refused.stderr
    assert "`--agent goose`" in refused.stderr
    assert "npm install" in refused.stderr
    refused = ask(bench, "run", "demo", "--agent", "goose", "--fallback", "codex:gpt-5").ok(2)
    assert "not found: codex" in refused.stderr
    assert "--fallback goose" not in refused.stderr
    refused = ask(bench, "run", "demo", "--agent", "goose", "--fallback", "cluade").ok(2)
    assert "Did you mean `claude`?" in refused.stderr
    refused = ask(bench, "run", "demo", "--agent", "gose").ok(2)
    assert "did you mean `goose`?" in refused.stderr
    assert "untildone agents" in refused.stderr
    assert bench.snapshot() == before
    rows = ask(bench, "doctor", "--json").ok().json()["rows"]
    (row,) = [row for row in rows if row["check"] == "agent claude"]
    assert (row["level"], 'agent = "goose"' in row["fix"]) == ("warn", True)


def test_a_person_without_any_agent_is_told_how_to_get_one(bench: Bench) -> None:
    refused = ask(bench, "run", "demo").ok(2).stderr
    assert "npm install -g @anthropic-ai/claude-code" in refused
    assert "--agent-cmd" in refused
    assert "is installed" not in refused


def test_an_agent_that_lost_its_login_ends_the_run_and_says_what_to_type(bench: Bench) -> None:
    reply = '{"type":"turn.failed","error":{"message":"401 Unauthorized"}}'
    bench.program("codex", f"#!/bin/sh\nread -r prompt\necho '{reply}'\nexit 1\n")
    ended = ask(bench, "run", "demo", "--agent", "codex").ok(3)
    assert "not logged in; no attempt was used up" in ended.stderr
    assert "untildone agents" in ended.stderr
    assert "untildone resume demo" in ended.stderr
