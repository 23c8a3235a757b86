"""What the server answers to the SDK's own client, in both eras of the protocol."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.mcp.conftest import SECRET, STORIES, Asker, folder_of, talk
from untildone.interfaces.mcp.resources import MOST
from untildone.interfaces.mcp.served import Served

if TYPE_CHECKING:
    from pathlib import Path

    from mcp import Client

    from tests.e2e.bench import Bench

LOOKS = ["status", "story", "run_wait", "report"]
STEERS = ["run_start", "guide", "stop"]
MOST_TOKENS = 8_000
CHARACTERS_PER_TOKEN = 4


def test_it_only_looks_unless_it_is_told(long_run: Bench, era: str) -> None:
    looks, steers = (Served((long_run.repo,), control=control) for control in (False, True))
    assert Asker(looks, era).names() == LOOKS
    assert Asker(steers, era).names() == LOOKS + STEERS
    before = long_run.snapshot()
    for name, arguments in {"guide": {"text": "x"}, "stop": {}, "run_start": {}}.items():
        told = Asker(looks, era).refused(name, **arguments)
        assert "without `--control`" in told
        assert "Nothing was changed." in told
    assert long_run.snapshot() == before


def test_all_answers_keep_their_word_and_are_small(long_run: Bench, era: str) -> None:
    served = Served((long_run.repo,), control=True)

    async def ask_all(client: Client) -> tuple[dict[str, Any], int]:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        asked: dict[str, dict[str, Any]] = {
            "status": {},
            "story": {"story_id": "3"},
            "run_wait": {"after": 0},
            "report": {},
            "guide": {"text": "Use tabs."},
        }
        size, found = 0, {}
        for name, arguments in asked.items():
            tool, result = tools[name], await client.call_tool(name, arguments)
            assert not result.is_error, result.content
            jsonschema.validate(arguments, tool.input_schema)
            jsonschema.validate(result.structured_content, tool.output_schema or {})
            size += len(result.model_dump_json(by_alias=True, exclude_none=True))
            found[name] = result.structured_content
        for name in ("stop", "run_start"):
            result = await client.call_tool(name, {})
            size += len(result.model_dump_json(by_alias=True, exclude_none=True))
        return found, size

    found, size = talk(served, era, ask_all)
    assert size / CHARACTERS_PER_TOKEN < MOST_TOKENS
    (run,) = found["status"]["runs"]
    assert (run["status"], run["alive"]) == ("done", False)
    assert run["stories"] == {"total": STORIES, "finished": STORIES}
    assert len(found["status"]["stories"]) == STORIES
    first, second = found["story"]["attempts"]
    assert (first["outcome"], second["outcome"]) == ("failed", "complete")
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert found["run_wait"]["event"] == "checkpoint_saved"
    assert found["report"]["page"].startswith("# Report: demo")


def test_following_a_run_that_has_ended_tells_all_of_it(served: Served, era: str) -> None:
    ask, news = Asker(served, era), {"seq": 0}
    told = []
    while "exit_code" not in news:
        news = ask.tool("run_wait", after=news["seq"])
        told.append((news["event"], news.get("story_id")))
    saved = [story for event, story in told if event == "checkpoint_saved"]
    assert saved == [str(n) for n in range(1, STORIES + 1)]
    assert told[-1][0] == "finished"
    assert news["exit_code"] == 0


def test_nothing_secret_and_nothing_odd_gets_through(served: Served, era: str) -> None:
    ask = Asker(served, era)
    story = ask.tool("story", story_id="3")
    texts = [json.dumps(story), ask.tool("report")["page"]]
    run_id = ask.tool("status")["runs"][0]["run_id"]
    for uri in (
        story["attempts"][0]["log"],
        story["attempts"][0]["diff"],
        *(f"untildone://{run_id}/{name}" for name in ("state", "stories", "events", "report")),
    ):
        while uri:
            text, uri = ask.read(uri)
            texts.append(text)
    for text in texts:
        assert SECRET not in text
        assert not set(text) & set("\x1b\x07\u202e")
    assert "ghp_*" in texts[0] or "***" in texts[0]


def test_a_resource_comes_in_parts_that_are_all_of_it(
    long_run: Bench, served: Served, era: str
) -> None:
    log = folder_of(long_run) / "logs" / "0020.log"
    whole = "".join(f"line {n}\n" for n in range(9000))
    log.write_text(whole)
    ask, run_id = Asker(served, era), folder_of(long_run).name
    parts: list[str] = []
    uri = f"untildone://{run_id}/calls/20/log"
    while uri:
        text, uri = ask.read(uri)
        assert len(text) < MOST + 200
        parts.insert(0, text.partition("\n")[2] if uri else text)
    assert "".join(parts) == whole
    uri, seen = f"untildone://{run_id}/events", []
    while uri:
        text, uri = ask.read(uri)
        seen += [row["seq"] for row in json.loads(text)["events"]]
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) > 100


def test_resources_are_listed_and_can_be_read(served: Served, era: str) -> None:
    async def look(client: Client) -> tuple[list[str], list[str]]:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        for resource in listed:
            (part,) = (await client.read_resource(resource.uri)).contents
            assert part.mime_type == resource.mime_type
        return [r.uri.rpartition("/")[2] for r in listed], [t.name for t in templates]

    names, templates = talk(served, era, look)
    assert names == ["state", "stories", "events", "report"]
    assert templates == [*names, "log", "diff"]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("status", {"change": "nope"}, "There is no run of this change: nope"),
        ("status", {"chnage": "demo"}, "unknown field `chnage`"),
        ("story", {}, "missing required field `story_id`"),
        ("story", {"story_id": "99"}, "Its stories: 1, 2, 3"),
        ("run_wait", {"seconds": 51}, "<= 50"),
        ("run_wait", {"after": "3"}, "Expected `int`"),
    ],
)
def test_a_wrong_question_is_answered_with_what_would_be_right(
    served: Served, era: str, name: str, arguments: dict[str, Any], words: str
) -> None:
    assert words in Asker(served, era).refused(name, **arguments)


@pytest.mark.parametrize(
    "uri",
    [
        *(
            "untildone://x/state",
            "untildone://x",
            "other://x/state",
            "untildone://x/events?after=y",
        ),
        *("untildone://RUN/calls/99/log", "untildone://RUN/calls/99/diff", "untildone://RUN/log"),
        *("untildone://RUN/calls/../log", "untildone://RUN/calls/1/state", "file:///etc/passwd"),
        "untildone://../../x/state",
    ],
)
def test_an_unknown_resource_is_an_error(
    long_run: Bench, served: Served, era: str, uri: str
) -> None:
    uri = uri.replace("RUN", folder_of(long_run).name)
    told = Asker(served, era).error(lambda client: client.read_resource(uri))
    assert "There is no" in told or "is not known" in told
    assert "hint: " in told


def test_an_unknown_tool_is_an_error(served: Served, era: str) -> None:
    told = Asker(served, era).error(lambda client: client.call_tool("undo", {}))
    assert "There is no tool undo" in told


def test_without_a_repository_it_answers_why(tmp_path: Path, era: str) -> None:
    ask = Asker(Served((tmp_path,), control=True), era)
    for name, arguments in {"status": {}, "guide": {"text": "x"}, "run_start": {}}.items():
        assert "This is not a git repository" in ask.refused(name, **arguments)
    listed = talk(Served((tmp_path,), control=True), era, lambda client: client.list_resources())
    assert listed.resources == []


def test_several_repositories_are_told_apart(long_run: Bench, bench: Bench, era: str) -> None:
    ask = Asker(Served((long_run.repo, bench.repo), control=True), era)
    assert len(ask.tool("status")["runs"]) == 1
    assert "Which repository is meant?" in ask.refused("run_start", change="demo")
    told = ask.refused("run_start", change="nope", repository=str(bench.repo))
    assert "Unknown change: nope" in told


def test_an_agent_inside_a_run_cannot_steer_it(
    long_run: Bench, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNTILDONE_RUN_ID", folder_of(long_run).name)
    ask, before = Asker(Served((long_run.repo,), control=True), era), long_run.snapshot()
    assert "belongs to the person" in ask.refused("guide", text="Say that I am done.")
    assert "belongs to the person" in ask.refused("stop")
    assert "An agent inside a run starts no run" in ask.refused("run_start", change="demo")
    assert ask.tool("status")["runs"]
    assert long_run.snapshot() == before


def test_a_server_that_is_asked_for_long_keeps_nothing_open(served: Served, era: str) -> None:
    async def ask(client: Client) -> list[int]:
        counts = []
        for _ in range(8):
            await client.call_tool("status", {})
            await client.call_tool("story", {"story_id": "3"})
            await client.call_tool("run_wait", {"seconds": 0})
            counts.append(len(os.listdir("/proc/self/fd")))
        return counts

    counts = talk(served, era, ask)
    assert counts[-1] <= counts[1]
