"""Clients of the server: the SDK's own, in both eras of the protocol."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.e2e.agent_calls import DONE, fails
from tests.e2e.bench import new_bench
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.conftest import bench
from untildone.interfaces.mcp.served import Served
from untildone.interfaces.mcp.server import make

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from mcp import StdioServerParameters
    from mcp_types import CallToolResult

    from tests.e2e.bench import Bench

__all__ = ["bench"]

ERAS = {"2025-11-25": "legacy", "2026-07-28": "auto"}
STORIES = 20
SECRET = "ghp_" + "a1B2" * 10
# What could end a line of the protocol, or a terminal's patience.
ODD = f'\x1b]0;x\x07 {{"jsonrpc":"2.0","id":1,"result":{{}}}} \u202e {SECRET}'
R = TypeVar("R")


def talk(
    server: Served | StdioServerParameters, era: str, say: Callable[[Client], Awaitable[R]]
) -> R:
    """A conversation from its start to its end."""

    async def whole() -> R:
        where = make(server) if isinstance(server, Served) else server
        async with Client(where, mode=ERAS[era], read_timeout_seconds=60) as client:
            return await say(client)

    return anyio.run(whole)


class Asker:
    """One call for each conversation: that is all a client of the new era may rely on."""

    def __init__(self, server: Served | StdioServerParameters, era: str) -> None:
        self._talk = partial(talk, server, era)

    def result(self, name: str, **arguments: Any) -> CallToolResult:
        return self._talk(lambda client: client.call_tool(name, arguments))

    def tool(self, name: str, **arguments: Any) -> Any:
        """Its answer, which is the same as text and as data."""
        result = self.result(name, **arguments)
        text = said(result)
        assert not result.is_error, text
        assert json.loads(text) == result.structured_content
        return result.structured_content

    def refused(self, name: str, **arguments: Any) -> str:
        """What an error says."""
        result = self.result(name, **arguments)
        assert result.is_error
        assert result.structured_content is None
        return said(result)

    def read(self, uri: str) -> tuple[str, str]:
        """The text of a resource, and the address of the rest."""
        (part,) = self._talk(lambda client: client.read_resource(uri)).contents
        return part.text, (part.meta or {}).get("untildone/rest", "")  # type: ignore[union-attr]

    def error(self, ask: Callable[[Client], Awaitable[object]]) -> str:
        """What the protocol's own error says."""

        async def asked(client: Client) -> str:
            with pytest.raises(MCPError) as caught:
                await ask(client)
            return caught.value.message

        return self._talk(asked)

    def names(self) -> list[str]:
        """The tools there are."""
        return [tool.name for tool in self._talk(lambda client: client.list_tools()).tools]


def said(result: CallToolResult) -> str:
    (block,) = result.content
    return str(block.text)  # type: ignore[union-attr]


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def long_run() -> Iterator[Bench]:
    """A run of twenty stories that has ended; the first attempt at one failed, with odd words."""
    made = new_bench()
    made.write(TASKS, tasks_text(stories=[f"Greeting number {n}" for n in range(1, STORIES + 1)]))
    made.commit("twenty stories")
    made.plan({3: [["say", f"I try {SECRET}"], *fails(ODD)]}, DONE)
    made.loop().ok()
    yield made
    made.close()


@pytest.fixture
def served(long_run: Bench) -> Served:
    return Served((long_run.repo,), control=False)


def folder_of(bench: Bench) -> Path:
    """The folder of its newest run."""
    return max((bench.repo / ".git" / "untildone" / "runs").iterdir())
