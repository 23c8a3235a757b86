"""Real clients of the MCP server: they connect, start a run, wait for it and read its report."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.agents.install import pins
from tests.agents.programs import PROGRAMS
from tests.e2e.command import COMMAND
from tests.modelserver.script import Script, Story, Use
from tests.modelserver.server import ModelServer

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = [pytest.mark.e2e, pytest.mark.agent]

PATIENCE = 100
MARKER = "Work on the demo change"
SAID = "The run is over and I have read the report."
CALLS = (
    Use("run_start", {"change": "demo"}),
    Use("run_wait", {"change": "demo", "after": 0}),
    *([Use("run_wait", {"change": "demo"})] * 5),
    Use("report", {"change": "demo"}),
)
ASKS = {
    "claude": (
        "-p",
        MARKER,
        "--allowedTools",
        "mcp__untildone",
        "--output-format",
        "stream-json",
        "--verbose",
    ),
    "codex": (
        "-c",
        "mcp_servers.untildone.required=true",
        "exec",
        "--dangerously-bypass-approvals-and-sandbox",
        "--json",
        MARKER,
    ),
}
LISTED = {
    "claude": "untildone: {command} mcp --control - ✔ Connected",
    "codex": "untildone  {command}",
}


def program(name: str) -> str:
    """The path of a pinned program; it is skipped where it is not installed, but not in CI."""
    pin = pins()[name]
    if why := pin.missing():
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)
    return str(pin.path)


def call(
    bench: Bench, words: list[str], env: dict[str, str | None]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=bench.repo,
        env=bench.env(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_inspector_finds_nothing_to_complain_of(bench: Bench) -> None:
    path = program("inspector")
    node = os.path.dirname(path)
    env: dict[str, str | None] = {"PATH": f"{node}:{bench.env()['PATH']}"}
    server = [path, "--cli", str(COMMAND), "mcp", "--control"]
    listed = call(bench, [*server, "--method", "tools/list", "--strict"], env)
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert len(json.loads(listed.stdout)["tools"]) == 7
    told = call(bench, [*server, "--method", "resources/templates/list"], env)
    assert "untildone://{run}/state" in told.stdout


@pytest.mark.parametrize("name", ASKS)
def test_a_real_client_starts_a_run_waits_and_reads_the_report(bench: Bench, name: str) -> None:
    path = program(name)
    bench.write("untildone.toml", f"agent_cmd = {json.dumps(bench.agent)}\n")
    bench.commit("settings")
    with ModelServer(Script([Story(MARKER, CALLS, SAID)])) as model:
        for file, text in PROGRAMS[name].settings(model.url).items():
            (bench.home / file).parent.mkdir(parents=True, exist_ok=True)
            (bench.home / file).write_text(text)
        env = PROGRAMS[name].environment(model.url) | {"ENABLE_TOOL_SEARCH": "false"}
        env["MCP_CONNECTION_NONBLOCKING"] = "0"
        add = [path, "mcp", "add", "untildone", "--", str(COMMAND), "mcp", "--control"]
        assert call(bench, add, env).returncode == 0
        listed = call(bench, [path, "mcp", "list"], env)
        assert LISTED[name].format(command=COMMAND) in listed.stdout
        done = call(bench, [path, *ASKS[name]], env)
        assert SAID in done.stdout, "\n".join((*model.faults, done.stdout, done.stderr))
        assert "# Report: demo" in done.stdout
        assert max(seen.place.step for seen in model.main) == len(CALLS)
    assert bench.state()["status"] == "done"
