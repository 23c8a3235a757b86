"""`doctor`, from outside."""

import json
import os
import shutil
import time
from datetime import datetime

import pytest

from tests.e2e.bench import Bench
from tests.e2e.command import Json, Result
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e
DAY = 24 * 3600


def findings(result: Result, check: str) -> list[Json]:
    return [row for row in result.json()["rows"] if row["check"] == check]


def only(result: Result, check: str) -> Json:
    (row,) = findings(result, check)
    return row


def crash(bench: Bench, *flags: str) -> None:
    """A loop killed in its second story, its agent still alive."""
    bench.plan({2: [["write", "half.txt", "x"], ["sleep", 600]]})
    live = bench.begin(*flags)
    bench.wait_call(2)
    until(bench.path("half.txt").exists)
    live.kill_unguarded()


def test_doctor_says_which_git_is_needed(bench: Bench) -> None:
    row = only(bench.run("doctor", "--json").ok(), "git")
    assert (row["level"], "2.38" in row["text"]) == ("ok", True)
    shim = 'case "$*" in *" version") echo git version 2.30.2 ;; *) exec %s "$@" ;; esac'
    bench.program("git", f"#!/bin/sh\n{shim % shutil.which('git')}\n")
    row = only(bench.run("doctor", "--json").ok(1), "git")
    assert (row["level"], "merge-tree" in row["text"]) == ("bad", True)


def test_doctor_without_git(bench: Bench) -> None:
    result = bench.run("doctor", "--json", env={"PATH": str(bench.bin)}).ok(1)
    assert only(result, "git")["level"] == "bad"


def test_doctor_outside_a_repository(bench: Bench) -> None:
    result = bench.run("doctor", cwd=bench.root).ok(1)
    assert "not a git repository" in result.stdout
    assert "git init" in result.stdout


def test_doctor_warns_of_a_missing_identity(bench: Bench) -> None:
    env = {"HOME": str(bench.root), "EMAIL": None}
    bench.git("config", "user.useConfigOnly", "true")
    row = only(bench.run("doctor", "--json", env=env).ok(), "identity")
    assert (row["level"], "user.name" in row["fix"]) == ("warn", True)


def test_doctor_finds_a_merge_in_progress(bench: Bench) -> None:
    bench.git("update-ref", "MERGE_HEAD", "HEAD")
    row = only(bench.run("doctor", "--json").ok(1), "repository")
    assert (row["level"], "git merge --abort" in row["fix"]) == ("bad", True)


def test_doctor_finds_wrong_configuration(bench: Bench) -> None:
    bench.write("untildone.toml", "max_retrys = 1\n")
    row = only(bench.run("doctor", "--json").ok(1), "configuration")
    assert (row["level"], "max_retries" in row["text"]) == ("bad", True)


def test_doctor_looks_for_agents(bench: Bench) -> None:
    missing = bench.run("doctor", "--json").ok()
    if shutil.which("claude", path=bench.env()["PATH"]) is None:
        assert only(missing, "agent claude")["level"] == "warn"
    bench.program("claude", "#!/bin/sh\necho '2.1.0 (Claude Code)'\n")
    row = only(bench.run("doctor", "--json").ok(), "agent claude")
    assert (row["level"], "2.1.0" in row["text"]) == ("warn", True)
    assert ("No login" in row["text"], "/login" in row["fix"]) == (True, True)
    key = {"ANTHROPIC_API_KEY": "k"}
    row = only(bench.run("doctor", "--json", env=key).ok(), "agent claude")
    assert (row["level"], "2.1.0" in row["text"]) == ("ok", True)
    bench.program("claude", "#!/bin/sh\nexit 3\n")
    row = only(bench.run("doctor", "--json").ok(), "agent claude")
    assert (row["level"], "3" in row["text"]) == ("warn", True)


def test_doctor_checks_the_configured_agent(bench: Bench) -> None:
    env = {"UNTILDONE_AGENT_CMD": "no-such-agent --stdin"}
    row = only(bench.run("doctor", "--json", env=env).ok(1), "agent command")
    assert (row["level"], "no-such-agent" in row["text"]) == ("bad", True)
    env = {"UNTILDONE_AGENT_CMD": bench.agent}
    row = only(bench.run("doctor", "--json", env=env).ok(), "agent command")
    assert row["level"] == "ok"


def test_doctor_counts_stories(bench: Bench) -> None:
    bench.only_stories(2, 3)
    bench.write("openspec/changes/empty/proposal.md", "# Nothing\n")
    good, empty = findings(bench.run("doctor", "--json").ok(), "stories")
    assert (good["level"], "demo (2 of 6 tasks done)" in good["text"]) == ("ok", True)
    assert (empty["level"], "empty" in empty["text"]) == ("warn", True)
    shutil.rmtree(bench.path("openspec"))
    assert "--task" in only(bench.run("doctor", "--json").ok(), "stories")["fix"]
    bench.write("tasks.md", "- [x] one\n- [ ] two\n")
    assert "tasks (1 of 2 " in only(bench.run("doctor", "--json").ok(), "stories")["text"]


def test_doctor_counts_runs_and_saved_work(bench: Bench) -> None:
    bench.plan({1: [["say", "<promise>FAILED: no</promise>"]]})
    bench.loop("--on-complete", "cleanup").ok()
    result = bench.run("doctor", "--json").ok()
    assert "attempts 1, backup 1, archive 1, moved 0" in only(result, "saved work")["text"]
    assert "Recorded runs: 1 " in only(result, "run folders")["text"]
    assert findings(result, "unfinished run") == []


def test_doctor_names_what_a_killed_loop_left_and_touches_nothing(bench: Bench) -> None:
    crash(bench)
    before = bench.snapshot()
    result = bench.run("doctor", "--json").ok()
    assert "untildone resume demo" in only(result, "unfinished run")["fix"]
    for check in ("processes", "state file"):
        row = only(result, check)
        assert (row["level"], row["fix"]) == ("warn", "untildone doctor --fix")
    assert bench.snapshot() == before
    assert bench.processes()


def test_doctor_fix_removes_only_own_leftovers(bench: Bench) -> None:
    crash(bench)
    state = bench.state() | {"theirs": "kept"}
    bench.state_path().write_text(json.dumps(state))
    bench.write(".claude/loop-state.json.4711.tmp", "{")
    inbox = bench.repo / ".git/untildone/inbox"
    inbox.mkdir(exist_ok=True)
    (inbox / "1-1.json").write_text('{"kind": "stop", "how": "now"}')
    (inbox / "2-1.draft").write_text("{")
    refs, files = bench.refs(), bench.contents()
    fixed = bench.run("doctor", "--fix", "--json").ok().json()["fixed"]
    assert len(fixed) == 5, fixed
    assert not bench.path(".claude/loop-state.json.4711.tmp").exists()
    assert list(inbox.iterdir()) == []
    assert (bench.state()["status"], bench.state()["theirs"]) == ("stopped", "kept")
    assert bench.state()["open_iteration"] is None
    until(lambda: not bench.processes())
    assert (bench.refs(), bench.contents()) == (refs, files)
    assert "nothing to fix" in bench.run("doctor", "--fix").ok().stdout
    bench.plan()
    bench.run("resume", "demo", "--json").ok()


def test_doctor_fix_writes_a_broken_state_file_again(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    whole = bench.state()
    bench.state_path().write_text('{"status": "do')
    assert only(bench.run("doctor", "--json").ok(), "state file")["level"] == "warn"
    bench.run("doctor", "--fix").ok()
    written = bench.state()
    assert written["iterations"] == whole["iterations"]
    assert (written["status"], written["total_tokens"]) == ("done", whole["total_tokens"])


def test_doctor_does_not_know_a_state_file_without_its_run(bench: Bench) -> None:
    bench.write(".claude/loop-state.json", '{"status": "running", "change_id": "demo"}')
    row = only(bench.run("doctor", "--fix", "--json").ok(), "state file")
    assert row["fix"] == "rm .claude/loop-state.json"
    assert bench.state()["status"] == "running"


def a_day_ago(bench: Bench) -> float:
    """Make the newest run a day old; the time of its last line."""
    (journal,) = bench.repo.glob(".git/untildone/runs/*/journal.jsonl")
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    for row in rows:
        at = datetime.fromisoformat(row["at"]).timestamp() - DAY
        row["at"] = datetime.fromtimestamp(at).astimezone().isoformat()
    journal.write_text("".join(json.dumps(row) + "\n" for row in rows))
    last = time.time() - DAY
    os.utime(journal, (last, last))
    return last


def test_doctor_moves_an_old_lock_of_ours_aside(bench: Bench) -> None:
    bench.plan()
    bench.loop("--on-complete", "cleanup").ok()
    last = a_day_ago(bench)
    lock = bench.repo / ".git/index.lock"
    lock.write_text("half an index")
    assert findings(bench.run("doctor", "--json").ok(), "index.lock") == []
    os.utime(lock, (last, last))
    assert only(bench.run("doctor", "--json").ok(1), "index.lock")["fix"].endswith("--fix")
    bench.run("doctor", "--fix").ok()
    (moved,) = bench.repo.glob(".git/untildone/runs/*/aside/index.lock-*")
    assert (lock.exists(), moved.read_text()) == (False, "half an index")


def test_doctor_leaves_a_lock_of_somebody_else(bench: Bench) -> None:
    bench.plan()
    bench.loop("--on-complete", "cleanup").ok()
    lock = bench.repo / ".git/index.lock"
    lock.write_text("")
    os.utime(lock, (time.time() - DAY, time.time() - DAY))
    row = only(bench.run("doctor", "--fix", "--json").ok(1), "index.lock")
    assert (lock.exists(), f"rm {lock}" in row["fix"]) == (True, True)


def test_doctor_abandon_ends_a_run_and_nothing_else(bench: Bench) -> None:
    crash(bench)
    refs, files, branch = bench.refs(), bench.contents(), bench.branch()
    said = bench.run("doctor", "--fix", "--abandon", "demo").ok().stdout
    assert "untildone restore demo" in said
    assert (bench.refs(), bench.contents(), bench.branch()) == (refs, files, branch)
    state = bench.state()
    assert (state["status"], state["phase"], state["open_iteration"]) == ("stopped", "ended", None)
    assert findings(bench.run("doctor", "--json").ok(), "unfinished run") == []
    bench.run("resume", "demo").ok(2)
    assert "already ended" in bench.run("doctor", "--fix", "--abandon", "demo").ok(2).stderr
    bench.run("restore", "demo").ok()
    assert (bench.branch(), bench.status()) == ("feature/x", [])


def test_doctor_abandon_goes_on_where_another_was_killed(bench: Bench) -> None:
    bench.write("mine.txt", "mine\n")
    crash(bench, "--checkpoint", "stash")
    entry, name = bench.git("stash", "list", "--format=%H %gs").split(" ", 1)
    abandon = ("doctor", "--fix", "--abandon", "demo")
    bench.run(*abandon).ok()
    assert bench.git("stash", "list") == ""
    bench.git("stash", "store", "-m", name, entry)  # as if it had been killed before it came here
    assert "Leftovers of an ended run were removed" in bench.run(*abandon).ok().stdout
    assert bench.git("stash", "list") == ""
    assert "already ended" in bench.run(*abandon).ok(2).stderr


@pytest.mark.parametrize("args", [["--abandon", "demo"], ["--fix", "--abandon", "nope"]])
def test_doctor_abandon_needs_fix_and_a_known_run(bench: Bench, args: list[str]) -> None:
    before = bench.snapshot()
    bench.run("doctor", *args).ok(2)
    assert bench.snapshot() == before


def test_doctor_beside_a_live_loop(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], *([["say", "<promise>COMPLETE</promise>"]])]})
    live = bench.begin()
    bench.wait_call(1)
    result = bench.run("doctor", "--json").ok()
    assert "demo" in only(result, "loop")["text"]
    assert findings(result, "unfinished run") == []
    assert findings(result, "processes") == []
    for more in ([], ["--abandon", "demo"]):
        assert "already running" in bench.run("doctor", "--fix", *more).ok(2).stderr
    bench.open_gate("go")
    live.wait().ok()
