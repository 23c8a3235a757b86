"""`untildone lint` from outside, and what the start of a run says about its plan."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.change import TASKS

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

KEYS = {"level", "rule", "path", "line", "story_id", "message", "fix"}
BAD = """\
# Tasks

## 1. Alpha page

- [ ] 1.1 Write the alpha page
  Verify: `no-such-program-here --all`

## 2. Bravo page

- [ ] 2.1 Write the bravo page, and its tests
  Verify: sh check.sh
  Depends: 7
"""


def write(bench: Bench, text: str) -> None:
    bench.write(TASKS, text)
    bench.commit("plan")


def rows(bench: Bench, *args: str, code: int = 3) -> list[tuple[str, str, int, str | None]]:
    findings = bench.run("lint", "demo", "--json", *args).ok(code).json()["findings"]
    assert all(set(finding) == KEYS for finding in findings)
    return [(f["level"], f["rule"], f["line"], f["story_id"]) for f in findings]


def test_a_good_plan_has_no_findings_and_is_left_alone(bench: Bench) -> None:
    before = bench.snapshot()
    assert bench.run("lint", "demo", "--json").ok().json() == {"findings": []}
    assert "nothing to mend" in bench.run("lint").ok().stdout
    assert bench.snapshot() == before


def test_findings_for_scripts_and_for_people(bench: Bench) -> None:
    write(bench, BAD)
    bench.write("check.sh", "true\n")
    assert rows(bench) == [
        ("error", "cannot-start", 6, "1"),
        ("warning", "prose-check", 11, "2"),
        ("error", "unknown-id", 12, "2"),
    ]
    shown = bench.run("lint", "demo").ok(3).stdout
    assert f"{TASKS}:6: error: `no-such-program-here --all` cannot start here" in shown
    assert "write: Verify: `sh check.sh`" in shown
    assert "demo: 2 errors and 1 warning." in shown


def test_what_cannot_be_read_and_what_is_unknown(bench: Bench) -> None:
    assert "Did you mean `demo`?" in bench.run("lint", "dmo").ok(2).stderr
    bench.path(TASKS).write_bytes("# Täsks\n".encode("utf-16"))
    assert "UTF-16" in bench.run("lint", "demo", "--json").ok(2).stderr


def test_fix_mends_what_has_one_answer_and_keeps_every_other_byte(bench: Bench) -> None:
    text = BAD.replace("Depends: 7", "Depends: 01").replace("\n", "\r\n")
    bench.path(TASKS).write_bytes(text.encode())
    bench.commit("plan")
    done = bench.run("lint", "demo", "--fix", "--json").ok(3).json()
    assert [(f["rule"], f["line"]) for f in done["fixed"]] == [
        ("prose-check", 11),
        ("unknown-id", 12),
    ]
    assert [f["rule"] for f in done["findings"]] == ["cannot-start", "cannot-start"]
    wanted = text.replace("Verify: sh check.sh", "Verify: `sh check.sh`").replace(": 01", ": 1")
    assert bench.path(TASKS).read_bytes() == wanted.encode()
    assert "fixed" not in bench.run("lint", "demo", "--fix").ok(3).stdout


def test_a_script_that_may_not_be_executed(bench: Bench) -> None:
    write(bench, BAD.replace("`no-such-program-here --all`", "`./check.sh`").replace("7", "1"))
    bench.write("check.sh", "#!/bin/sh\n")
    assert ("error", "cannot-start", 6, "1") in rows(bench)
    bench.path("check.sh").chmod(0o755)
    assert ("error", "cannot-start", 6, "1") not in rows(bench)


def test_every_open_change_and_those_that_cannot_be_read(bench: Bench) -> None:
    other = TASKS.replace("demo", "other")
    bench.write(other, "## 1. Alpha page\n\n- [ ] 1.1 Write it\n")
    found = bench.run("lint", "--json").ok(3).json()["findings"]
    assert {finding["path"] for finding in found} == {other}
    bench.path(TASKS).write_bytes("# Täsks\n".encode("utf-16"))
    told = bench.run("lint", "--json").ok(2)
    assert told.json()["findings"] == found
    assert "UTF-16" in told.stderr


def test_where_all_is_done_nothing_is_wrong(bench: Bench) -> None:
    bench.only_stories()
    assert bench.run("lint", "--json").ok().json() == {"findings": []}
    assert "No change is open" in bench.run("lint").ok().stdout
    shutil.rmtree(bench.path("openspec"))
    assert "No open change was found" in bench.run("lint").ok(2).stderr


def test_a_check_of_the_run_is_an_outcome_for_every_story(bench: Bench) -> None:
    write(bench, "## 1. Alpha page\n\n- [ ] 1.1 Write it\n")
    assert rows(bench) == [("warning", "no-outcome", 1, "1")]
    assert rows(bench, "--verify", "true", code=0) == []
    bench.write("untildone.toml", 'verify = ["true"]\n')
    assert rows(bench, code=0) == []


def test_a_secret_is_named_by_its_line_only(bench: Bench) -> None:
    key = "AKIA" + "QWERTYUIOPASDFGH"
    write(bench, f"## 1. Alpha page\n\n- [ ] 1.1 Test it\n  with {key}\n")
    assert rows(bench) == [("error", "secret", 4, "1")]
    assert key not in bench.run("lint", "demo").ok(3).stdout


def test_run_says_how_much_is_wrong_and_strict_refuses_errors(bench: Bench) -> None:
    write(bench, "## 1. Alpha\n\n- [ ] 1.1 Test it\n  Depends: 7\n\n## 2. Beta\n\n- [ ] 2.1 Do\n")
    bench.plan()
    refused = bench.run("run", "demo", "--strict", "--agent-cmd", bench.agent).ok(2).stderr
    assert "The plan has 1 error, and `--strict` starts without any" in refused
    assert "untildone lint demo" in refused
    assert bench.calls() == []
    assert bench.branch() != "ralph/demo"
    said = bench.run("run", "demo", "--json", "--agent-cmd", bench.agent).named("warning")
    told = [event["message"] for event in said if "untildone lint demo" in event["message"]]
    assert told == ["The plan has 1 error and 1 warning: `untildone lint demo` shows them"]


def test_a_thousand_stories(bench: Bench) -> None:
    parts = [
        f"## {n}. Page {n}\n\n- [ ] {n}.1 Write src/page{n}.py\n"
        f"- [ ] {n}.2 Test src/page{n % 50}.py\n"
        f"  Depends: {max(1, n - 1)}\n\n"
        for n in range(1, 1001)
    ]
    write(bench, "".join(parts))
    bench.run("lint", "demo", "--json")
    start = time.monotonic()
    bench.run("lint", "demo", "--json")
    assert time.monotonic() - start < 4  # a rule that compares every pair takes a minute
