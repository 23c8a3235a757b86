"""What a newcomer types first: init, doctor, demo, and where settings come from."""

from __future__ import annotations

import time
import tomllib
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_init_writes_a_commented_file_that_is_valid(bench: Bench) -> None:
    bench.run("init").ok()
    text = bench.read("untildone.toml")
    tomllib.loads(text)
    assert text.count("#") >= 5
    bench.plan()
    bench.loop().ok()


def test_init_does_not_overwrite(bench: Bench) -> None:
    bench.write("untildone.toml", "max_retries = 1\n")
    result = bench.run("init")
    assert result.code == 2
    assert "untildone.toml" in result.stderr
    assert bench.read("untildone.toml") == "max_retries = 1\n"


def test_an_agent_by_flag_over_a_command_in_the_file(bench: Bench) -> None:
    bench.write("untildone.toml", 'agent_cmd = "false"\n')
    bench.commit("config")
    bench.install_claude()
    bench.only_stories(1)
    bench.plan()
    assert bench.loop("--agent", "claude").ok().one("iteration_started")["agent"] == "claude"
    assert len(bench.calls()) == 1


def test_settings_flag_over_environment_over_file(bench: Bench) -> None:
    bench.write("untildone.toml", "max_retries = 2\n")
    bench.commit("config")
    bench.plan({}, default=[["say", "off"]])

    def allowed(*args: str, **env: str) -> int:
        result = bench.loop(*args, "--on-complete", "cleanup", env=env).ok(3)
        count: int = result.named("iteration_started")[0]["attempts_allowed"]
        return count

    assert allowed() == 3
    assert allowed(UNTILDONE_MAX_RETRIES="1") == 2
    assert allowed("--max-retries", "0", UNTILDONE_MAX_RETRIES="1") == 1


def test_doctor_of_a_healthy_repository(bench: Bench) -> None:
    bench.install_claude()
    before = bench.snapshot()
    said = bench.run("doctor").ok().stdout
    for word in ("git", "claude", "demo"):
        assert word in said, word
    assert bench.snapshot() == before


def test_doctor_fix_leaves_runs_that_can_be_resumed(bench: Bench) -> None:
    bench.plan({2: [["write", "half.txt", "x"], ["sleep", 600]]})
    live = bench.begin()
    bench.wait_call(2)
    live.process.kill()
    live.wait()
    assert "demo" in bench.run("doctor").stdout
    bench.run("doctor", "--fix")
    assert bench.has("refs/heads/ralph/demo")
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    assert bench.state()["status"] == "done"


def test_doctor_fix_abandon_ends_the_run_and_keeps_the_users_files(bench: Bench) -> None:
    bench.write("mine.txt", "mine\n")
    bench.plan({2: [["sleep", 600]]})
    live = bench.begin()
    bench.wait_call(2)
    live.process.kill()
    live.wait()
    bench.run("doctor", "--fix", "--abandon", "demo").ok()
    assert bench.read("mine.txt") == "mine\n"
    assert bench.processes() == []
    assert bench.run("resume", "demo").code == 2


def test_demo_runs_without_a_key_a_network_or_a_home(bench: Bench) -> None:
    empty = bench.root / "nowhere"
    empty.mkdir()
    before = bench.snapshot()
    bare_home = bench.root / "bare-home"
    bare_home.mkdir()
    env = {"HOME": str(bare_home)}
    began = time.monotonic()
    result = bench.run("demo", cwd=empty, env=env, timeout=60).ok()
    assert time.monotonic() - began < 30
    assert result.stdout
    assert list(empty.iterdir()) == []
    assert bench.snapshot() == before
