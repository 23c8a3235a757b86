"""`untildone finish`, and what cleanup leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, fails
from tests.e2e.change import TASKS

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_finish_cleanup_after_the_fact(bench: Bench) -> None:
    start = bench.sha()
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    bench.run("finish", "demo", "cleanup").ok()
    assert (bench.branch(), bench.sha()) == ("feature/x", start)
    assert bench.status() == [f" M {TASKS}", "?? work-1.txt", "?? work-2.txt", "?? work-3.txt"]
    assert not bench.has("refs/heads/ralph/demo")


def test_finish_saves_what_it_replaces(bench: Bench) -> None:
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    tip = bench.sha("ralph/demo")
    bench.run("finish", "demo", "cleanup").ok()
    kept = [r for r in bench.refs("refs/ralph/") if bench.contains(r, tip)]
    assert kept, "the commits of the deleted branch are reachable from no ref"


def test_cleanup_takes_later_edits_of_the_user_along(bench: Bench) -> None:
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    bench.write("README.md", "edited later\n")
    bench.run("finish", "demo", "cleanup").ok()
    assert bench.read("README.md") == "edited later\n"
    assert bench.branch() == "feature/x"


def test_after_cleanup_nothing_of_ours_is_in_the_tree(bench: Bench) -> None:
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    assert [name for name in bench.refs("refs/heads/") if "ralph" in name] == []
    assert [p.name for p in bench.path(".git").glob("*.lock")] == []
    assert [line for line in bench.status() if ".claude" in line or "untildone" in line] == []


@pytest.mark.parametrize("word", ["later", "l"])
def test_later_leaves_a_stuck_run_as_it_is(bench: Bench, word: str) -> None:
    bench.plan({1: DONE}, default=fails())
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent, "--max-retries", "0")
    terminal.wait_text("cleanup, keep or later?")
    terminal.type(f"{word}\r")
    assert terminal.wait() == 3
    state = bench.state()
    assert (state["status"], state["phase"], state["choice"]) == ("stuck", "awaiting_choice", None)
    assert bench.branch() == "ralph/demo"
    said = bench.run("status").ok().stdout
    assert "demo: stuck, your choice is still open (not running)" in said
    bench.plan()
    bench.run("resume", "demo", "--json", "--on-complete", "cleanup").ok()
    assert (bench.branch(), bench.state()["choice"]) == ("feature/x", "cleanup")


def test_finish_after_later(bench: Bench) -> None:
    bench.plan({}, default=fails())
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent, "--max-retries", "0")
    terminal.wait_text("cleanup, keep or later?")
    terminal.type("later\r")
    assert terminal.wait() == 3
    bench.run("finish", "demo", "cleanup").ok()
    assert (bench.branch(), bench.state()["choice"]) == ("feature/x", "cleanup")


def test_the_live_view_of_a_resumed_run_counts_all_stories(bench: Bench) -> None:
    bench.plan({1: DONE}, default=fails())
    bench.loop("--max-retries", "0").ok(3)
    bench.plan({3: [["wait", bench.gate("go")], *DONE]})
    terminal = bench.terminal("resume", "demo")
    terminal.wait_text("1 of 3 stories")
    bench.open_gate("go")
    terminal.wait_text("later?")
    terminal.type("keep\r")
    assert terminal.wait() == 0
    assert b"of 1 stories" not in terminal.raw


# -- without the name of the change ---------------------------------------------------------------


def test_finish_without_a_name_when_one_run_is_there(bench: Bench) -> None:
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    bench.run("finish", "cleanup").ok()
    assert (bench.branch(), bench.state()["choice"]) == ("feature/x", "cleanup")


@pytest.mark.parametrize("variant", ["branch", "worktree"])
def test_finish_without_a_name_for_a_loop_that_waits(bench: Bench, variant: str) -> None:
    bench.plan()
    live = bench.begin("--on-complete", "ask", "--checkpoint", variant)
    live.wait_event("complete")
    bench.run("finish", "keep").ok()
    live.wait().ok()
    assert live.wait().one("finished")["choice"] == "keep"


def test_finish_without_a_name_takes_the_only_run_that_can_go_on(bench: Bench) -> None:
    bench.plan({}, default=[["say", "nothing"]])
    bench.loop("one", "--task", "One", "--on-complete", "cleanup").ok(4)
    bench.loop("two", "--task", "Two").ok(4)
    bench.run("finish", "cleanup").ok()
    assert (bench.state()["change_id"], bench.state()["choice"]) == ("two", "cleanup")
    before = bench.snapshot()
    for words in (("finish", "keep"), ("restore",), ("attempts",), ("guide", "Be brief.")):
        refused = bench.run(*words).ok(2)
        assert "Which run is meant? Several changes have one: one, two" in refused.stderr
        assert "`untildone report one`, `untildone report two`" in refused.stderr
    assert bench.snapshot() == before


def test_other_commands_without_a_name(bench: Bench) -> None:
    bench.plan({1: fails("no luck")})
    bench.loop("--on-complete", "keep", "--max-retries", "0").ok(3)
    assert "no luck" in bench.run("attempts").ok().stdout
    assert "no luck" in bench.run("attempts", "--show", "1/1").ok().stdout
    assert "no luck" in bench.run("logs").ok().stdout
    assert "every story" in bench.run("guide", "Be brief.").ok().stdout
    assert "Be brief." in bench.run("guide", "--list").ok().stdout
    assert "There is no text" in bench.run("guide", "demo").ok(2).stderr
    assert "not by `untildone done`" in bench.run("done").ok(2).stderr
    bench.run("restore").ok()
    assert bench.branch() == "feature/x"


@pytest.mark.parametrize("words", [(), ("demo",), ("demo", "kepe"), ("a", "b", "keep")])
def test_finish_with_a_choice_that_is_none(bench: Bench, words: tuple[str, ...]) -> None:
    before = bench.snapshot()
    said = bench.run("finish", *words).ok(2).stderr
    assert "cleanup" in said or "One change at a time" in said
    assert bench.snapshot() == before


def test_finish_without_any_run(bench: Bench) -> None:
    assert "There is no run" in bench.run("finish", "keep").ok(2).stderr
