"""What scripts get from `untildone serve`, and what they may send."""

from __future__ import annotations

import json
import os
import shutil
import signal
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import fails
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.bench import Bench
    from tests.web.site import Sent, Site

Serve = "Callable[..., Site]"


def gated(bench: Bench, name: str = "go") -> list[list[object]]:
    return [["wait", bench.gate(name)], ["say", "<promise>COMPLETE</promise>"]]


def numbers(sent: list[Sent]) -> list[int | None]:
    return [one.id for one in sent if one.event == "message"]


def test_one_line_says_where_it_is(bench: Bench, serve: Callable[..., Site]) -> None:
    site = serve()
    told = json.loads(site.live.stdout)
    assert sorted(told) == ["pid", "token", "url"]
    assert told["url"].startswith("http://127.0.0.1:")
    assert os.path.exists(f"/proc/{told['pid']}")
    assert site.runs() == []
    site.live.signal(signal.SIGTERM)
    assert site.live.wait().code == 143


def test_a_run_as_json(bench: Bench, serve: Callable[..., Site]) -> None:
    bench.plan({1: fails("not today")})
    bench.loop().ok()
    site = serve()
    (row,) = site.runs()
    (state,) = bench.loops()
    for name in ("change_id", "run_id", "status", "stories", "started_at", "worktree", "alive"):
        assert row[name] == state[name], name
    assert row["light"] == "done"
    one = site.ask(f"/api/runs/{row['run_id']}").ok().json()
    assert [it["outcome"] for it in one["iterations"]][:2] == ["failed", "complete"]
    report = site.ask(f"/api/runs/{row['run_id']}/report").ok().json()
    assert report == bench.run("report", "--json").ok().json()
    assert site.ask("/api/runs/nobody").ok(404).json() == {"error": "There is no such thing here"}


def test_events_from_the_start_and_from_a_number_on(
    bench: Bench, serve: Callable[..., Site]
) -> None:
    bench.plan({2: gated(bench)})
    live = bench.begin()
    bench.wait_call(2)
    site = serve()
    stream = site.events(site.run_id())
    first = next(stream)
    assert (first.event, first.id, first.data["status"]) == ("state", None, "running")
    live.wait_event("iteration_started", n=2)
    so_far = len(live.events)
    seen = list(islice(stream, so_far))
    assert numbers(seen) == list(range(1, so_far + 1))
    late = site.events(site.run_id(), last=3)
    assert next(late).event == "state"
    bench.open_gate("go")
    result = live.wait().ok()
    seen += takewhile(lambda one: one.data["event"] != "finished", stream)
    assert [one.data for one in seen] == result.events[:-1]
    assert numbers(list(islice(late, len(result.events) - 3))) == [
        event["seq"] for event in result.events[3:]
    ]


def test_nothing_is_missed_when_the_server_is_killed(
    bench: Bench, serve: Callable[..., Site]
) -> None:
    bench.plan({1: gated(bench, "1"), 2: gated(bench, "2"), 3: gated(bench, "3")})
    live = bench.begin()
    bench.wait_call(1)
    seen: list[int | None] = []
    for n in (1, 2, 3):
        site = serve()
        stream = site.events(site.run_id(), last=seen[-1] if seen else None)
        bench.open_gate(str(n))
        for one in stream:
            if one.event == "message":
                seen.append(one.id)
            if one.data.get("event") == ("finished" if n == 3 else "checkpoint_saved"):
                break
        os.kill(site.pid, signal.SIGKILL)
    result = live.wait().ok()
    assert seen == [event["seq"] for event in result.events]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_dies_or_hangs_changes_nothing(
    bench: Bench, serve: Callable[..., Site], how: int
) -> None:
    bench.plan({1: gated(bench)})
    live = bench.begin()
    bench.wait_call(1)
    site = serve("--control")
    stream = site.events(site.run_id())
    next(stream)
    os.kill(site.pid, how)
    bench.open_gate("go")
    result = live.wait().ok()
    assert result.outcomes() == ["complete"] * 3
    assert result.stderr == ""
    site.live.close()


def test_guide_skip_retry_and_stop(bench: Bench, serve: Callable[..., Site]) -> None:
    bench.plan({1: gated(bench)}, default=[["sleep", 600]])
    live = bench.begin()
    bench.wait_call(1)
    site = serve("--control")
    run = f"/api/runs/{site.run_id()}"
    said = site.post(f"{run}/guide", {"text": "use tabs"}).ok().json()
    assert said == {"ok": True, "message": "The next prompt of every story will say it."}
    site.post(f"{run}/skip", {"story_id": "2", "why": "not now"}).ok()
    bench.open_gate("go")
    call = bench.wait_call(2)
    assert live.wait_event("iteration_started", n=2)["story_id"] == "3"
    assert "use tabs" in call.prompt
    site.post(f"{run}/retry", {"story_id": "2"}).ok()
    unknown = site.post(f"{run}/retry", {"story_id": "77"}).ok(409).json()
    assert "no story `77`" in unknown["error"]
    wrong = site.post(f"{run}/stop", {"how": "softly"}).ok(409).json()
    assert wrong["hint"] == "now, after-iteration, after-story"
    assert "Stopped." in site.post(f"{run}/stop", {}).ok().json()["message"]
    live.wait().ok(6)
    assert site.post(f"{run}/stop", {}).ok(409).json()["error"].startswith("No loop")
    site.post(f"{run}/dance", {}).ok(404)


def test_an_answer_lets_the_story_go_on(bench: Bench, serve: Callable[..., Site]) -> None:
    bench.only_stories(1)
    bench.plan({1: [["say", "<promise>ASK: blue or green?</promise>"]]})
    bench.loop().ok(3)
    site = serve("--control")
    (row,) = site.runs()
    assert row["parked"][0]["question"] == "blue or green?"
    path = f"/api/runs/{row['run_id']}/answer"
    said = site.post(path, {"story_id": "1", "text": "green"}).ok().json()["message"]
    assert "Retried: 1." in said
    assert "untildone resume demo" in said
    bench.run("resume", "demo").ok()
    assert "green" in bench.calls()[-1].prompt


def test_only_the_newest_run_of_a_change_is_steered(
    bench: Bench, serve: Callable[..., Site]
) -> None:
    bench.plan({}, default=fails())
    bench.loop("--max-retries", "0").ok(3)
    bench.run("finish", "demo", "cleanup").ok()
    bench.loop("--max-retries", "0").ok(3)
    site = serve("--control")
    new, old = site.runs()
    refused = site.post(f"/api/runs/{old['run_id']}/guide", {"text": "x"}).ok(409).json()
    assert "not the newest run" in refused["error"]
    site.post(f"/api/runs/{new['run_id']}/guide", {"text": "x"}).ok()


def test_several_repositories(bench: Bench, serve: Callable[..., Site]) -> None:
    other = bench.root / "other"
    bench.git("clone", "-q", str(bench.repo), str(other))
    bench.loop().ok()
    bench.start(*bench.loop_args(), cwd=other).wait().ok()
    site = serve(str(bench.repo), str(other), str(other))
    tops = {row["worktree"] for row in site.runs()}
    assert tops == {str(bench.repo), str(other)}
    assert "There is no folder" in bench.run("serve", "nowhere").ok(2).stderr


def test_a_run_in_a_worktree_of_its_own_and_after_it(
    bench: Bench, serve: Callable[..., Site]
) -> None:
    bench.plan({3: gated(bench)})
    live = bench.begin("--checkpoint", "worktree", "--on-complete", "cleanup")
    bench.wait_call(3)
    site = serve()
    stream = site.events(site.run_id())
    bench.open_gate("go")
    events = live.wait().ok().events
    seen = [next(stream).data for _ in range(len(events) + 1)]
    assert seen[1:] == events
    run_id = site.run_id()
    until(lambda: site.ask(f"/runs/{run_id}").status == 200)
    assert site.runs()[0]["status"] == "done"


def test_a_run_that_cannot_be_read_hides_no_other(bench: Bench, serve: Callable[..., Site]) -> None:
    bench.loop().ok()
    broken = bench.path(".git/untildone/runs/20300101-000000-dead/journal.jsonl")
    broken.parent.mkdir()
    broken.write_text('{"v": 1, "at": "2030-01-01T00:00:00+00:00", "fact": "Started", "data": 7}\n')
    site = serve()
    (row,) = site.runs()
    assert row["change_id"] == "demo"
    site.ask("/").ok()
    assert "is empty" in site.ask(f"/runs/{broken.parent.name}").ok(500).json()["error"]
    shutil.rmtree(broken.parent)
    until(lambda: site.ask(f"/runs/{broken.parent.name}").status == 404)
    shutil.rmtree(bench.path(f".git/untildone/runs/{row['run_id']}"))  # as `gc` does
    until(lambda: site.ask(f"/runs/{row['run_id']}").status == 404)
    assert site.runs() == []
