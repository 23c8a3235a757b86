"""`completion`, from outside."""

import re
import shutil
import subprocess

import pytest

from tests.e2e.agent_calls import fails
from tests.e2e.bench import Bench
from tests.e2e.command import COMMAND

pytestmark = pytest.mark.e2e


def completed(bench: Bench, words: str, at: int) -> list[str]:
    env = {"COMP_WORDS": words, "COMP_CWORD": str(at), "_UNTILDONE_COMPLETE": "bash_complete"}
    rows = bench.run(env=env).ok().stdout.splitlines()
    return [row.partition(",")[2] for row in rows if row]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(bench: Bench, shell: str) -> None:
    script = bench.run("completion", shell, cwd=bench.root).ok().stdout
    assert f"_UNTILDONE_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script.encode(), check=True)


def test_completion_answers_the_shell(bench: Bench) -> None:
    assert completed(bench, "untildone do", 1) == ["done", "doctor"]
    agents = {"--agent", "--agents", "--agent-cmd", "--agent-arg"}
    assert set(completed(bench, "untildone run --agent", 2)) == agents
    assert completed(bench, "untildone finish demo ", 3) == ["cleanup", "keep", "pr"]
    assert completed(bench, "untildone doctor --abandon d", 3) == ["demo"]
    assert completed(bench, "untildone doctor --abandon x", 3) == []
    assert completed(bench, "untildone help e", 2) == ["environment", "exit-codes"]


def test_completion_knows_agents_sources_and_open_stories(bench: Bench) -> None:
    assert completed(bench, "untildone run --agent g", 3) == ["gemini", "goose"]
    assert completed(bench, "untildone run --agents codex,g", 3) == ["codex,gemini", "codex,goose"]
    assert completed(bench, "untildone stories --source b", 3) == ["backlog-md", "beads", "bmad"]
    bench.only_stories(2, 3)
    assert completed(bench, "untildone skip demo ", 3) == ["2", "3"]
    assert completed(bench, "untildone guide demo --story 3", 4) == ["3"]
    assert completed(bench, "untildone reorder demo 3 ", 4) == ["2", "3"]
    assert completed(bench, "untildone retry nothing ", 3) == []
    bench.plan(default=fails())
    bench.loop("--max-retries", "0").ok(3)
    assert completed(bench, "untildone skip ", 2) == ["demo", "2", "3"]
    assert completed(bench, "untildone reorder 3 ", 3) == ["2", "3"]
    assert completed(bench, "untildone guide --story ", 3) == ["2", "3"]
    assert completed(bench, "untildone attempts demo --show ", 4) == ["2/1"]
    assert completed(bench, "untildone attempts --restore 2", 3) == ["2/1"]


def test_completion_knows_stories_before_the_first_run_budgets_and_events(bench: Bench) -> None:
    bench.only_stories(2, 3)
    assert completed(bench, "untildone run --story ", 3) == ["2", "3"]
    assert completed(bench, "untildone run demo --story 3", 4) == ["3"]
    assert completed(bench, "untildone attempts demo --show ", 4) == []
    assert "cost=10" in completed(bench, "untildone run --budget ", 3)
    assert completed(bench, "untildone run --notify-on done,s", 3) == ["done,stuck"]


def test_completion_knows_a_change_whose_run_is_done(bench: Bench) -> None:
    bench.only_stories(1)
    bench.loop("--on-complete", "keep").ok()
    for command in ("finish", "logs", "undo", "restore", "report", "attempts"):
        assert completed(bench, f"untildone {command} d", 2) == ["demo"], command


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion_works_in_bash(bench: Bench) -> None:
    script = bench.run("completion", "bash").ok().stdout
    ask = "COMP_WORDS=(untildone sto); COMP_CWORD=1; _untildone_completion untildone\n"
    env = bench.env({"PATH": f"{COMMAND.parent}:{bench.env()['PATH']}"})
    shown = subprocess.run(
        ["bash", "--norc", "-c", script + ask + 'echo "${COMPREPLY[@]}"'],
        env=env,
        cwd=bench.repo,
        capture_output=True,
        check=True,
    )
    assert re.findall(r"\w+", shown.stdout.decode()) == ["stories", "stop"]
