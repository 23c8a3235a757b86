"""Arguments and variables of the person's own for an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import fails

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

TABLES = """
[agent.claude]
args = ["--max-turns", "9"]
env = {MAX_THINKING_TOKENS = "31999", MY_API_KEY = "hush-hush-hush"}

[agent.codex]
args = ["-c", "model_reasoning_effort=high"]
"""


@pytest.fixture
def claude(bench: Bench) -> Bench:
    bench.install_claude()
    bench.only_stories(1)
    return bench


def test_arguments_and_variables_reach_their_agent_and_no_other(claude: Bench) -> None:
    claude.write("untildone.toml", TABLES)
    claude.plan({1: [["sh", "echo $MAX_THINKING_TOKENS $MY_API_KEY > seen.txt"], *fails()]})
    claude.loop("--agent", "claude", "--agent-arg=--effort", "--agent-arg", "high").ok()
    argv = claude.calls()[0].argv
    assert argv[argv.index("--max-turns") :] == ["--max-turns", "9", "--effort", "high"]
    assert "model_reasoning_effort=high" not in argv
    shown = claude.git("show", "refs/ralph/attempts/demo/1/1:seen.txt")
    assert shown.strip() == "31999 hush-hush-hush"


def test_a_resumed_run_keeps_its_arguments_and_may_get_others(claude: Bench) -> None:
    claude.plan({1: fails(), 2: fails()})
    once = ("--max-retries", "0")
    claude.loop("--agent", "claude", *once, "--agent-arg=--effort=high").ok(3)
    claude.run("resume", "demo", *once).ok(3)
    claude.run("resume", "demo", "--agent-arg=--effort=low").ok()
    told = [[word for word in call.argv if "effort" in word] for call in claude.calls()]
    assert told == [["--effort=high"], ["--effort=high"], ["--effort=low"]]


def test_a_secret_value_is_shown_and_written_nowhere(claude: Bench) -> None:
    claude.write("untildone.toml", TABLES)
    claude.commit("settings")
    claude.plan()
    shown = claude.run("run", "demo", "--dry-run").ok().stdout
    shown += claude.run("run", "demo", "--dry-run", "--json").ok().stdout
    shown += claude.run("agents").ok().stdout + claude.run("agents", "--json").ok().stdout
    assert "MAX_THINKING_TOKENS" in shown
    assert "MY_API_KEY='(redacted)'" in shown
    done = claude.run("run", "demo").ok()
    assert "argument for claude: --max-turns" in done.stdout
    assert "variable for claude: MY_API_KEY" in done.stdout
    files = [p for p in (claude.repo / ".git/untildone").rglob("*") if p.is_file()]
    texts = [shown, done.stdout, done.stderr, *(p.read_text(errors="replace") for p in files)]
    assert len(files) > 3
    assert not any("hush-hush" in text for text in texts)


REFUSED = {
    "--output-format=text": "the loop relies on the output",
    "-p": "the loop relies on the output",
    "--dangerously-skip-permissions": "`--permissions` says what",
    "--model": "`--model` names the model",
    "--continue": "which conversation goes on",
    "do it": "the prompt comes from the loop",
}


@pytest.mark.parametrize("word", REFUSED)
def test_an_argument_that_the_loop_relies_on_is_refused_with_the_reason(
    claude: Bench, word: str
) -> None:
    before = claude.snapshot()
    refused = claude.run("run", "demo", f"--agent-arg={word}").ok(2)
    assert f"The argument `{word}` cannot be given to claude" in refused.stderr
    assert REFUSED[word] in refused.stderr
    assert (claude.snapshot(), claude.calls()) == (before, [])


def test_what_would_widen_the_permissions_is_refused_where_they_are_narrow(claude: Bench) -> None:
    more = ("--agent-arg=--add-dir", "--agent-arg", "/tmp")
    refused = claude.run("run", "demo", "--permissions", "edits", *more).ok(2)
    assert "`--add-dir` cannot be given to claude: `--permissions` says" in refused.stderr
    claude.plan()
    claude.run("run", "demo", *more).ok()


def test_a_variable_of_the_loops_own_is_refused(claude: Bench) -> None:
    claude.write("untildone.toml", '[agent.claude]\nenv = {IS_SANDBOX = "0"}\n')
    assert "`IS_SANDBOX` cannot be set for claude" in claude.run("run", "demo").ok(2).stderr
    claude.write("untildone.toml", '[agent.command]\nenv = {GIT_DIR = "/x"}\n')
    assert "`GIT_DIR` cannot be set for command" in claude.loop().ok(2).stderr
    claude.write("untildone.toml", '[agent.command]\nargs = ["--x"]\n')
    assert "Arguments cannot be given to the agent `command`" in claude.loop().ok(2).stderr


def test_what_the_permissions_really_hold_is_told_at_the_start(claude: Bench) -> None:
    claude.plan()
    done = claude.run("run", "demo", "--permissions", "edits").ok()
    assert "claude: It edits files of the worktree and runs the commands there" in done.stdout
    agents = claude.run("agents", "--permissions", "edits").ok().stdout
    assert "permissions edits: It edits files of the worktree" in agents
    claude.write("untildone.toml", 'permissions = "edits"\n')
    assert "It edits files of the worktree" in claude.run("doctor").stdout
