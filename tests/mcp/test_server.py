"""The installed command as a server over real pipes, and a client that starts and follows a run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from mcp import StdioServerParameters
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from tests.e2e.agent_calls import DONE
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.command import COMMAND
from tests.mcp.conftest import Asker, talk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp import Client

    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e
PATIENCE = 40


@pytest.fixture
def place(bench: Bench) -> Iterator[Bench]:
    """A repository whose settings name the agent; a loop that was started ends with the test."""
    bench.write("untildone.toml", f"agent_cmd = {json.dumps(bench.agent)}\n")
    bench.commit("settings")
    yield bench
    if bench.state_path().exists() and bench.loops()[0]["alive"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(bench.state()["pid"], signal.SIGKILL)


def server(bench: Bench, *words: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=str(COMMAND), args=["mcp", *words], env=bench.env(), cwd=str(bench.repo)
    )


class Piped:
    """The server as a process whose pipes are ours, and a client of few words."""

    def __init__(self, bench: Bench, *words: str) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [COMMAND, "mcp", *words],
            cwd=bench.repo,
            env=bench.env(),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
        hello = {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {}}
        self.ask(0, "initialize", **hello, clientInfo={"name": "test", "version": "1"})
        self.answer()
        self.send({"method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, number: int, method: str, **params: Any) -> None:
        self.send({"id": number, "method": method, "params": params})

    def answer(self) -> Any:
        """The next line, which is one of the protocol."""
        assert self.process.stdout
        message = json.loads(self.process.stdout.readline())
        assert message["jsonrpc"] == "2.0"
        return message

    def __enter__(self) -> Piped:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                assert pipe
                pipe.close()


def test_a_client_starts_a_run_follows_it_and_answers_a_question(place: Bench, era: str) -> None:
    bench = place
    bench.write(TASKS, tasks_text().replace("- [ ] 2.1", "- [?] 2.1"))
    bench.commit("a question")
    ask = Asker(server(bench, "--control"), era)
    begun = ask.tool("run_start", change="demo")
    assert begun["run_id"] == bench.state()["run_id"]
    told, news = [], {"seq": 0}
    while "exit_code" not in news:
        news = ask.tool("run_wait", after=news["seq"])
        told.append((news["event"], news.get("story_id", "")))
    assert ("checkpoint_saved", "1") in told
    assert ("checkpoint_saved", "3") in told
    assert news["exit_code"] == 3
    (run,) = ask.tool("status")["runs"]
    assert [question["story_id"] for question in run["questions"]] == ["2"]
    heard = ask.tool("guide", text="Write it in blue.", stories=["2"])
    assert heard == {"change_id": "demo", "live": False, "released": ["2"]}
    ask.tool("run_start", change="demo", resume=True)
    while "exit_code" not in (news := ask.tool("run_wait", after=news["seq"])):
        pass
    assert news["exit_code"] == 0
    assert "Write it in blue." in bench.calls()[-1].prompt
    assert "3 of 3 stories are done" in ask.tool("report")["page"]


def test_a_client_stops_a_run(place: Bench, era: str) -> None:
    bench = place
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    ask = Asker(server(bench, "--control"), era)
    ask.tool("run_start", change="demo", stories=["1"], budget=["time=2h"])
    bench.wait_call(1)
    waited = ask.tool("run_wait", seconds=0.5)
    assert (waited["event"], waited["phase"]) == ("timeout", "agent")
    refused = ask.refused("run_start", change="demo")
    assert "A loop is already running" in refused
    assert ask.tool("stop")["said"].startswith("Stopped.")
    assert bench.state()["status"] == "stopped"


def test_a_value_is_no_flag(place: Bench, era: str) -> None:
    bench = place
    ask = Asker(server(bench, "--control"), era)
    before = bench.snapshot()
    for arguments in (
        {"change": "--agent-cmd=touch stolen"},
        {"change": "demo", "agent": "x --agent-cmd=y"},
        {"change": "demo", "stories": ["--verify=touch stolen"]},
    ):
        assert ask.refused("run_start", **arguments).startswith("error: ")
    assert bench.snapshot() == before


def test_nothing_of_the_repository_is_run_at_the_start(place: Bench) -> None:
    bench = place
    for name in ("click", "untildone", "json"):
        bench.write(f"{name}.py", "raise SystemExit('taken over')\n")
    bench.commit("modules of the same name")
    ask = Asker(server(bench, "--control"), "2026-07-28")
    assert ask.tool("run_start", change="demo")["change_id"] == "demo"


def test_it_ends_with_its_input_also_while_somebody_waits(place: Bench) -> None:
    bench = place
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    bench.loop("--detach").ok()
    with Piped(bench) as piped:
        piped.ask(1, "tools/call", name="run_wait", arguments={})
        piped.ask(2, "tools/call", name="status", arguments={})
        assert piped.answer()["id"] == 2
        assert piped.process.stdin
        piped.process.stdin.close()
        assert piped.process.wait(PATIENCE) == 0
        assert piped.process.stderr
        assert piped.process.stderr.read() == b""
    bench.open_gate("go")
    bench.run("wait").ok()


def test_what_is_no_message_is_answered_and_passed_over(place: Bench) -> None:
    with Piped(place) as piped:
        assert piped.process.stdin
        piped.process.stdin.write(b'nonsense\n{"jsonrpc":"2.0","id":7}\n\xff\xfe\n')
        piped.ask(8, "tools/call", name="status", arguments={})
        while piped.answer().get("id") != 8:
            pass


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGTERM])
def test_a_server_that_dies_or_hangs_changes_nothing_in_the_run(
    place: Bench, number: signal.Signals
) -> None:
    bench = place
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    with Piped(bench, "--control") as piped:
        arguments = {"change": "demo"}
        piped.ask(1, "tools/call", name="run_start", arguments=arguments)
        assert not piped.answer()["result"]["isError"]
        piped.ask(2, "tools/call", name="run_wait", arguments={})
        bench.wait_call(1)
        os.killpg(piped.process.pid, number)
        if number != signal.SIGSTOP:
            piped.process.wait(PATIENCE)
        bench.open_gate("go")
        bench.run("wait").ok()
    assert bench.state()["status"] == "done"
    assert len(bench.calls()) == 3


def test_nobody_reads_its_output_any_more(place: Bench) -> None:
    with Piped(place) as piped:
        assert piped.process.stdout
        piped.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            for number in range(3):
                piped.ask(number + 1, "tools/list")
            assert piped.process.stdin
            piped.process.stdin.close()
        assert piped.process.wait(PATIENCE) == 0
        assert piped.process.stderr
        assert piped.process.stderr.read() == b""


def test_it_starts_outside_of_a_repository_and_says_so(bench: Bench) -> None:
    outside = StdioServerParameters(
        command=str(COMMAND), args=["mcp"], env=bench.env(), cwd=str(bench.home)
    )

    async def look(client: Client) -> str:
        return str((await client.call_tool("status", {})).content)

    assert "This is not a git repository" in talk(outside, "2025-11-25", look)
    refused = bench.run("mcp", str(bench.home)).ok(2)
    assert "This is not a git repository" in refused.stderr
    assert refused.stdout == ""
