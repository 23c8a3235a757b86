"""Skills: put where agents look, and true to the commands that they name."""

from __future__ import annotations

import json
import re
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from untildone import __version__
from untildone.interfaces.cli.main import cli

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
SKILLS = sorted((ROOT / "src/untildone/skills").glob("*/SKILL.md"))
NAMES = ["untildone", "untildone-answer", "untildone-plan"]
CALL = re.compile(r"untildone ([a-z-]+)([^`\n]*)")


def states(bench: Bench, *flags: str) -> list[str]:
    rows = bench.run("skills", "list", "--json", *flags).ok().json()["skills"]
    return [row["state"] for row in rows]


def test_they_are_put_where_agents_look(bench: Bench) -> None:
    assert states(bench) == ["missing"] * 6
    said = bench.run("skills", "install", "--yes").ok().stdout
    for folder in (".claude/skills", ".agents/skills"):
        for name, skill in zip(NAMES, SKILLS, strict=True):
            path = bench.home / folder / name / "SKILL.md"
            assert path.read_bytes() == skill.read_bytes()
            assert f"written: {path}" in said
    assert states(bench) == ["current"] * 6
    assert bench.run("skills", "install", "--yes").ok().stdout == "Nothing had to be changed.\n"
    bench.run("skills", "remove").ok()
    assert states(bench) == ["missing"] * 6
    assert not list((bench.home / ".claude/skills").iterdir())


def test_in_the_project_for_one_agent(bench: Bench) -> None:
    bench.run("skills", "install", "--project", "--agent", "claude", "--yes").ok()
    assert bench.path(".claude/skills/untildone/SKILL.md").exists()
    assert not bench.path(".agents").exists()
    assert states(bench, "--project", "--agent", "claude") == ["current"] * 3


def test_an_edit_stays_unless_the_person_says_yes(bench: Bench) -> None:
    bench.run("skills", "install", "--yes").ok()
    edited = bench.home / ".claude/skills/untildone/SKILL.md"
    edited.write_text("mine")
    assert states(bench) == ["edited", *["current"] * 5]
    for action in ("install", "remove"):
        refused = bench.run("skills", action).ok(2)
        assert str(edited) in refused.stderr
        assert edited.read_text() == "mine"
    terminal = bench.terminal("skills", "install")
    terminal.wait_text("Replace it?")
    terminal.type("n\n")
    assert terminal.wait() == 0
    assert edited.read_text() == "mine"
    bench.run("skills", "install", "--yes").ok()
    assert states(bench) == ["current"] * 6


def test_an_older_one_is_renewed_and_without_a_terminal_nothing_is_written(bench: Bench) -> None:
    refused = bench.run("skills", "install").ok(2)
    assert "--yes" in refused.stderr
    assert states(bench) == ["missing"] * 6
    bench.run("skills", "install", "--yes").ok()
    older = bench.home / ".agents/skills/untildone-plan/SKILL.md"
    older.write_text("of an earlier release")
    older.with_name(".untildone").write_text(sha256(older.read_bytes()).hexdigest())
    assert "older" in states(bench)
    terminal = bench.terminal("skills", "install")
    terminal.wait_text("Write them?")
    terminal.type("y\n")
    assert terminal.wait() == 0
    assert states(bench) == ["current"] * 6


def test_every_command_and_flag_that_they_name_is_there() -> None:
    named = 0
    for name, words in (call for skill in SKILLS for call in CALL.findall(skill.read_text())):
        if name not in cli.list_commands(click.Context(cli)):
            continue  # "the untildone run", in a sentence
        named += 1
        command = cli.get_command(click.Context(cli), name)
        assert command
        known = {
            flag for option in command.params for flag in (*option.opts, *option.secondary_opts)
        }
        assert set(re.findall(r"--[a-z-]+", words)) <= known, (name, words)
    assert named > 20


def test_the_example_of_a_plan_is_a_plan(bench: Bench) -> None:
    text = (ROOT / "src/untildone/skills/untildone-plan/SKILL.md").read_text()
    example = re.search(r"```markdown\n(.*?)```", text, re.DOTALL)
    assert example
    rows = [row.removeprefix("   ") for row in example[1].splitlines()]
    bench.write("openspec/changes/logout/tasks.md", "\n".join(rows) + "\n")
    bench.commit("the example")
    bench.program("pytest", "#!/bin/sh\n")
    stories = bench.run("stories", "logout", "--json").ok().json()["stories"]
    assert [story["id"] for story in stories] == ["1", "2"]
    assert stories[1]["depends_on"] == ["1"]
    found = bench.run("lint", "logout", "--json").json()["findings"]
    assert [row for row in found if row["level"] == "error"] == []


def test_the_plugins_point_to_the_same_skills() -> None:
    for name in (".claude-plugin/plugin.json", ".codex-plugin/plugin.json"):
        plugin = json.loads((ROOT / name).read_text())
        assert sorted((ROOT / plugin["skills"]).glob("*/SKILL.md")) == SKILLS
        assert (plugin["name"], plugin["version"]) == ("untildone", __version__)


def test_a_client_is_told_of_the_server(bench: Bench) -> None:
    settings = bench.home / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('# mine\nmodel = "x"')
    bench.write(".mcp.json", '{"mcpServers": {"other": {"command": "o"}}, "more": 1}')
    shown = bench.run("mcp", "install", "--control").ok().stdout
    assert "[mcp_servers.untildone]" in shown
    assert settings.read_text() == '# mine\nmodel = "x"'
    bench.run("mcp", "install", "--control", "--yes").ok()
    told = tomllib.loads(settings.read_text())
    assert settings.read_text().startswith('# mine\nmodel = "x"\n\n[')
    assert told["mcp_servers"]["untildone"]["args"] == ["mcp", "--control"]
    told = json.loads(bench.read(".mcp.json"))
    assert told["mcpServers"]["untildone"]["args"] == ["mcp", "--control"]
    assert (told["mcpServers"]["other"], told["more"]) == ({"command": "o"}, 1)
    before = settings.read_text(), bench.read(".mcp.json")
    assert "has it already" in bench.run("mcp", "install", "--control", "--yes").ok().stdout
    refused = bench.run("mcp", "install", "--yes").ok(2)
    assert "another server of this name" in refused.stderr
    assert (settings.read_text(), bench.read(".mcp.json")) == before
    settings.write_text("no toml")
    assert "cannot be read" in bench.run("mcp", "install", "--client", "codex").ok(2).stderr
