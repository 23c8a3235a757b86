"""`init`, from outside."""

import tomllib
from pathlib import Path

import pytest

from tests.e2e.bench import Bench
from untildone.settings.load import load
from untildone.settings.settings import SETTINGS, Settings

pytestmark = pytest.mark.e2e


def loaded(folder: Path) -> Settings:
    return load(folder, {"HOME": str(folder)}, {})


STRICT = Settings(strict=True, evidence=True, protect_tests=True, clean_room=True, verify=("auto",))


def test_init_changes_no_setting_but_is_strict(bench: Bench) -> None:
    result = bench.run("init").ok()
    assert loaded(bench.repo) == STRICT
    assert tomllib.loads(bench.read("untildone.toml")) == {"strict": True}
    assert "untildone doctor" in result.stdout


def test_init_names_every_key_with_its_meaning_and_default(bench: Bench) -> None:
    bench.run("init").ok()
    text = bench.read("untildone.toml")
    assert [s.key for s in SETTINGS.values() if f"## {s.help}" not in text] == []
    one_less = "".join(line.removeprefix("#") for line in text.splitlines(keepends=True))
    bench.write("untildone.toml", one_less)
    assert set(tomllib.loads(one_less)) == set(SETTINGS)
    assert loaded(bench.repo) == Settings(strict=True)


def test_init_at_the_top_from_a_folder_below(bench: Bench) -> None:
    bench.run("init", cwd=bench.repo / "src").ok()
    assert bench.path("untildone.toml").exists()
    assert not bench.path("src/untildone.toml").exists()


def test_init_replaces_a_file_only_with_force(bench: Bench) -> None:
    bench.write("untildone.toml", "max_retries = 1\n")
    result = bench.run("init").ok(2)
    assert "--force" in result.stderr
    assert bench.read("untildone.toml") == "max_retries = 1\n"
    bench.run("init", "--force").ok()
    assert loaded(bench.repo) == STRICT


def test_init_does_not_put_a_table_of_pyproject_out_of_force(bench: Bench) -> None:
    bench.write("pyproject.toml", "[tool.untildone]\nmax_retries = 1\n")
    assert "pyproject.toml" in bench.run("init").ok(2).stderr
    assert loaded(bench.repo).max_retries == 1


def test_init_to_stdout_needs_no_repository_and_writes_nothing(bench: Bench) -> None:
    empty = bench.root / "nowhere"
    empty.mkdir()
    printed = bench.run("init", "--stdout", cwd=empty).ok().stdout
    assert tomllib.loads(printed) == {"strict": True}
    assert list(empty.iterdir()) == []
    bench.run("init").ok()
    assert bench.read("untildone.toml") == printed


def test_init_prints_the_schema_of_the_file(bench: Bench) -> None:
    schema = bench.run("init", "--schema", cwd=bench.root).ok().json()
    assert set(SETTINGS) <= set(schema["properties"])
    assert not bench.path("untildone.toml").exists()


def test_init_shows_what_it_finds(bench: Bench) -> None:
    bench.program("codex", "#!/bin/sh\n")
    bench.program("gemini", "#!/bin/sh\n")
    bench.write("Makefile", "test:\n\ttrue\n")
    bench.write("spec/a_spec.rb", "")
    bench.commit("a project")
    shown = bench.run("init").ok().stdout
    assert "Agents:  codex, gemini" in shown
    assert "Checks:  `make test` (Makefile)" in shown
    assert "Stories: demo (openspec)" in shown
    assert "Tests:   1 file" in shown
    assert tomllib.loads(bench.read("untildone.toml")) == {"strict": True, "agent": "codex"}
    bench.install_claude()
    bench.run("init", "--force").ok()
    assert tomllib.loads(bench.read("untildone.toml")) == {"strict": True}


def test_init_asks_at_a_terminal_which_agent_unless_it_is_told_not_to(bench: Bench) -> None:
    bench.program("codex", "#!/bin/sh\n")
    bench.program("gemini", "#!/bin/sh\n")
    terminal = bench.terminal("init")
    terminal.wait_text("Which agent")
    terminal.type("gemini\r")
    assert terminal.wait() == 0
    assert tomllib.loads(bench.read("untildone.toml"))["agent"] == "gemini"
    terminal = bench.terminal("init", "--force", "--yes")
    assert terminal.wait() == 0
    assert tomllib.loads(bench.read("untildone.toml"))["agent"] == "codex"
