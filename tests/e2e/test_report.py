"""`report`: one page of what happened, for live, ended, crashed and cleaned-up runs."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, fails
from tests.interfaces.test_report import parsed, widths
from untildone.interfaces.report.svg import LENGTH

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

EVIL = "<script>alert(1)</script> password=hunter2hunter2"


def told(bench: Bench, *args: str) -> Any:
    return bench.run("report", *args, "--json").ok().json()


def test_an_ended_run_on_a_page(bench: Bench) -> None:
    bench.plan({2: fails(EVIL), 4: [["say", "nothing to do"]]})
    bench.loop("--verify", "test -e README.md").ok()
    found = told(bench, "demo")
    assert [(s["id"], s["state"], s["calls"]) for s in found["stories"]] == [
        ("1", "verified", [1]),
        ("2", "verified", [2, 3]),
        ("3", "verified", [4, 5]),
    ]
    calls = found["calls"]
    assert [c["outcome"] for c in calls] == [
        *("complete", "failed", "complete", "no_promise", "complete"),
    ]
    assert [c["changed"]["files"] for c in calls] == [2, 1, 2, 0, 2]  # with the ticked list
    assert calls[0]["commit"] == bench.sha("ralph/demo~2")
    assert calls[1]["saved_ref"] == "refs/ralph/attempts/demo/2/1"
    assert (found["verified"], found["wasted"]["agent_calls"]) == (3, 2)
    page, site = bench.root / "r.md", bench.root / "r.html"
    bench.run("report", "demo", "--md", str(page), "--html", str(site)).ok()
    text = site.read_text()
    parsed(text)
    shown = [width for _, width in widths(text, "Time of the agent")]
    sums = [s["seconds"] for s in found["stories"]]
    scale = LENGTH / max(sums)
    assert shown == pytest.approx([c["seconds"] * scale for c in calls], abs=0.02)
    printed = bench.run("report").ok().stdout
    assert printed == page.read_text()
    assert printed.startswith("# Report: demo\n\nDone after ")
    for output in (printed, text, str(found)):
        assert "hunter2" not in output
    assert "`untildone restore demo`" in printed
    assert "alert(1)" in printed


def test_after_cleanup_sizes_come_from_what_git_still_has(bench: Bench) -> None:
    bench.plan()
    bench.loop("--on-complete", "cleanup").ok()
    found = told(bench, "demo")
    assert [c["changed"]["files"] for c in found["calls"]] == [2, 2, 2]
    assert found["verified"] == 0
    assert found["done_unverified"] == 3
    assert found["per_verified_story"] is None
    for ref in bench.refs("refs/ralph"):
        bench.git("update-ref", "-d", ref)
    bench.git("reflog", "expire", "--expire=now", "--all")
    bench.git("gc", "-q", "--prune=now")
    assert [c["changed"] for c in told(bench, "demo")["calls"]] == [None] * 3
    assert "| kept changes | unknown |" in bench.run("report", "demo").ok().stdout


def test_a_live_run_and_the_same_after_its_death(bench: Bench) -> None:
    bench.plan({2: [["write", "half.txt", "half\n"], ["wait", bench.gate("never")]]})
    live = bench.begin()
    bench.wait_call(2)
    live.wait_event("iteration_started", n=2)
    found = told(bench, "demo")
    assert (found["live"], found["outcome"].split()[0]) == (True, "Running")
    assert [s["state"] for s in found["stories"]] == [
        *("done, not verified", "running", "not started"),
    ]
    live.signal(signal.SIGKILL)
    live.wait()
    found = told(bench, "demo")
    assert (found["live"], found["status"]) == (False, "stopped")
    assert found["calls"][1]["outcome"] == "interrupted"
    assert "`untildone resume demo` goes on" in found["outcome"]
    run = found["run_id"]
    assert told(bench, run)["run_id"] == run


def test_a_plain_loop_a_stuck_run_and_no_run(bench: Bench) -> None:
    assert "There is no run" in bench.run("report").ok(2).stderr
    bench.plan({1: DONE, 2: [["say", COMPLETE]]})
    bench.loop("--task", "Go", "--done", "promise", "--verify", "test -e work-2.txt").ok(3)
    found = told(bench)
    assert {s["state"] for s in found["stories"]} <= {"kept", "verified", "verify_failed"}
    assert re.match(r"Stuck after .*: \d+ of \d+ iterations kept", found["outcome"])
    assert "There is no run of this change" in bench.run("report", "nope").ok(2).stderr
    taken = bench.run("report", "--html", "/nowhere/x.html").ok(2)
    assert "cannot be written" in taken.stderr


def test_the_page_has_the_agents_last_words_and_the_diffs(bench: Bench) -> None:
    token = "ghp_" + "a1B2" * 9
    said = ["say", f"<b>Ready</b> with {token}.\n```\nx\n```\n{COMPLETE}"]
    bench.plan({1: [["write", "new.txt", "\tindented <i>\n"], said], 2: fails("no database")})
    bench.loop("--max-retries", "0").ok(3)
    text = bench.run("report", "demo").ok().stdout
    assert "2 Bravo greeting: the agent's last words:\n\n```text\n<promise>FAILED" in text
    assert "````text\n<b>Ready</b> with" in text
    shown = bench.run("report", "--html", "--open", env={"BROWSER": "echo %s"}).ok()
    path = Path(shown.stdout.strip().removeprefix("file://"))
    page = path.read_text()
    assert path.parent.parent == bench.path(".git/untildone/runs")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "<pre>&lt;b&gt;Ready&lt;/b&gt; with" in page
    assert "+\tindented &lt;i&gt;\n" in page
    assert "2 Bravo greeting: what was put back" in page
    assert token not in text + page


def test_a_page_without_a_browser(bench: Bench) -> None:
    bench.loop().ok()
    out = bench.root / "night.html"
    result = bench.run("report", "--html", str(out), "--open", env={"BROWSER": "/nowhere/firefox"})
    assert str(out) in result.ok().stderr
    assert out.exists()
