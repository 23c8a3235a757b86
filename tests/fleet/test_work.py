"""What a person asks of a fleet, and what comes of it on the remotes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.waiting import until
from tests.fleet.scene import COMMAND, needs_temporal

if TYPE_CHECKING:
    from tests.fleet.scene import Fleet

pytestmark = [pytest.mark.e2e, needs_temporal]
TWO = ("One", "Two")


def test_a_red_check_is_a_result_and_a_person_says_what_comes_next(fleet: Fleet) -> None:
    remote = fleet.repository("app", {"c0": TWO})
    check = f"test -f {fleet.root}/green"
    fleet.submit(remote, "c0", "--verify", check, "--max-retries", "1")
    fleet.worker(1)
    row = fleet.wait_status("c0", "stuck")
    assert "green" in row["reason"]
    time.sleep(2)
    # One call and one retry of the loop's own; the engine adds none.
    assert [story for _, story, _ in fleet.started()] == ["1", "1"]
    assert fleet.stories(remote, "c0") == []
    kept = fleet.git("for-each-ref", "--format=%(refname)", "refs/ralph/attempts/c0", cwd=remote)
    assert len(kept.splitlines()) == 2
    assert fleet.submit(remote, "c0")["changes"][0]["status"] == "already"
    (fleet.root / "green").touch()
    fleet.run("fleet", "retry", "c0", "use the blue lamp")
    fleet.wait_done(remote, ["c0"], 2)
    prompts = [path.read_text() for path in fleet.root.glob("prompt-*")]
    assert sum("use the blue lamp" in prompt for prompt in prompts) == 1
    done = fleet.wait_status("c0", "done")
    assert (done["stories"], done["verified"]) == ({"total": 2, "finished": 2}, 2)


def test_pause_resume_guide_and_a_question(fleet: Fleet) -> None:
    remote = fleet.repository("app", {"c0": ("One", "Two", "Three")})
    gate = fleet.root / "gate"
    fleet.script("c0-1", f"while [ ! -e {gate} ]; do sleep 0.1; done")
    ask = 'echo "<promise>ASK: which colour?</promise>"; exit 0'
    fleet.script("c0-2", f'grep -q "make it red" {fleet.root}/prompt-$$ || {{ {ask}; }}')
    fleet.submit(remote, "c0")
    fleet.worker(1)
    fleet.wait_effects(1)
    fleet.run("fleet", "pause", "c0")
    gate.touch()
    fleet.wait_status("c0", "paused")
    assert fleet.stories(remote, "c0") == ["1"]
    fleet.run("fleet", "guide", "c0", "the house style is terse")
    fleet.run("fleet", "resume", "c0")
    asked = fleet.wait_status("c0", "question")
    assert "which colour?" in asked["reason"]
    fleet.run("fleet", "answer", "app/c0", "make it red")
    fleet.wait_done(remote, ["c0"], 3)
    prompts = [path.read_text() for path in fleet.root.glob("prompt-*")]
    assert any("the house style is terse" in prompt for prompt in prompts)
    assert "not under way" in fleet.run("fleet", "pause", "nothing", code=2)


def test_changes_land_one_after_the_other_and_a_conflict_is_told(fleet: Fleet) -> None:
    changes = ("c0", "c1", "c2")
    remote = fleet.repository("app", dict.fromkeys(changes, ("One",)))
    for name in ("c1", "c2"):
        fleet.script(f"{name}-1", f"echo {name} > shared.txt")
    fleet.submit(remote, *changes)
    fleet.worker(2)
    fleet.wait_done(remote, changes, 1)
    for name in changes:
        fleet.wait_status(name, "done")
    fleet.ask("land", str(remote), *changes, "--verify", "test -f README.md")
    rows = {name: fleet.poll(partial(_over, fleet, name), name) for name in changes}
    assert sorted(row["status"] for row in rows.values()) == ["done", "done", "stuck"]
    (left,) = (row for row in rows.values() if row["status"] == "stuck")
    assert "shared.txt" in left["reason"]
    log = fleet.git(
        "log", "--format=%s %(trailers:key=Untildone-Story,valueonly)", "main", cwd=remote
    )
    assert log.count("checkpoint: 1") == 2
    assert fleet.git("log", "--merges", "--format=%h", "main", cwd=remote) == ""


def _over(fleet: Fleet, change: str) -> dict[str, object] | None:
    (row,) = (row for row in fleet.ask("status")["changes"] if row["change_id"] == change)
    found: dict[str, object] = row
    return found if found["status"] in ("done", "stuck") else None


@pytest.mark.parametrize("count", [4, pytest.param(12, marks=pytest.mark.full)])
def test_an_account_takes_no_more_calls_at_once_than_it_may(fleet: Fleet, count: int) -> None:
    """Two accounts, peaks from the effect log, and one of two workers killed on the way."""
    limits = {"red": 1, "blue": 2}
    changes = {name: [f"{name}{n}" for n in range(count)] for name in limits}
    remote = fleet.repository("app", {c: ("One",) for names in changes.values() for c in names})
    fleet.script("any", "sleep 0.8")
    for name, limit in limits.items():
        fleet.run("fleet", "account", name, "--limit", str(limit))
        fleet.submit(remote, *changes[name], "--account", name)
    killed = fleet.worker(4)
    fleet.worker(4)
    fleet.wait_effects(2)
    killed.kill()
    everything = [change for names in changes.values() for change in names]
    fleet.wait_done(remote, everything, 1)
    fleet.checked(remote, everything, 1, repeats=3)
    peaks = {name: _peak(fleet, name) for name in limits}
    print(peaks)
    assert peaks == limits


def _peak(fleet: Fleet, account: str) -> int:
    """How many changes of an account were at work at once; a second start is the same one."""
    at_work, most = set[str](), 0
    for line in fleet.effects.read_text().splitlines():
        word, change, *_ = line.split()
        if change.startswith(account):
            (at_work.add if word == "start" else at_work.discard)(change)
            most = max(most, len(at_work))
    return most


def test_a_budget_is_reserved_before_a_call_and_not_overdrawn(fleet: Fleet) -> None:
    changes = [f"c{n}" for n in range(3)]
    remote = fleet.repository("app", dict.fromkeys(changes, ("One",)))
    fleet.script("any", "sleep 0.5")
    fleet.run("fleet", "account", "red", "--budget", "5")
    fleet.submit(remote, *changes, "--account", "red", "--reserve", "4")
    fleet.worker(3)
    fleet.wait_done(remote, changes, 1)
    assert _peak(fleet, "c") == 1


def test_repositories_take_turns(fleet: Fleet) -> None:
    """Twelve changes of one repository are queued first; those of the other do not wait for all."""
    many, few = [f"m{n}" for n in range(12)], ["f0", "f1"]
    one = fleet.repository("one", dict.fromkeys(many, ("One",)))
    other = fleet.repository("other", dict.fromkeys(few, ("One",)))
    fleet.script("any", "true")
    fleet.submit(one, *many)
    fleet.submit(other, *few)
    fleet.worker(1, "--once")
    fleet.wait_done(other, few, 1)
    fleet.wait_done(one, many, 1)
    order = [change for change, _, _ in fleet.started()]
    assert max(order.index(name) for name in few) < len(order) - 4, order


def test_agents_are_told_nothing_of_the_server(fleet: Fleet) -> None:
    remote = fleet.repository("app", {"c0": ("One",)})
    fleet.script("any", f"env > {fleet.root}/seen")
    fleet.submit(remote, "c0")
    address = fleet.server["address"]
    secrets = {"UNTILDONE_FLEET_API_KEY": "hush-hush", "UNTILDONE_FLEET_ADDRESS": address}
    worker = fleet.worker(1, "--once", **{**secrets, "UNTILDONE_FLEET_TLS": "false"})
    # The development server speaks no TLS, which a key asks for.
    assert worker.wait(60) != 0
    assert "hush-hush" not in fleet.log(0)
    del secrets["UNTILDONE_FLEET_API_KEY"]
    assert fleet.worker(1, "--once", **secrets).wait(60) == 0
    seen = (fleet.root / "seen").read_text()
    assert "UNTILDONE_RUN_ID=" in seen
    assert "UNTILDONE_FLEET_ADDRESS" not in seen


def test_what_cannot_work_is_said(fleet: Fleet) -> None:
    (fleet.root / "repo").mkdir()
    fleet.git("init", "-q", cwd=fleet.root / "repo")
    (fleet.root / "repo/untildone.toml").write_text('[fleet]\naddress = "evil.invalid:7233"\n')
    refused = fleet.run("status", cwd=fleet.root / "repo")
    assert "evil" not in fleet.run("fleet", "status", cwd=fleet.root / "repo")
    refused = fleet.run("run", "x", cwd=fleet.root / "repo", code=2)
    assert "may not be set by a repository" in refused
    (fleet.home / ".config/untildone").mkdir(parents=True)
    file = fleet.home / ".config/untildone/config.toml"
    file.write_text('[fleet]\nadress = "127.0.0.1:1"\n')
    assert "did you mean `address`" in fleet.run("fleet", "status", code=2)
    file.write_text('[fleet]\naddress = "127.0.0.1:1"\n')
    assert "does not answer at 127.0.0.1:1" in fleet.run("fleet", "status", code=2)
    file.unlink()
    address = "https://ada:hunter2hunter2@git.invalid/app.git"
    refused = fleet.run("fleet", "submit", address, "c0", code=2)
    assert "password" in refused
    assert "hunter2" not in refused
    fleet.run("fleet", "down")
    assert "fleet up" in fleet.run("fleet", "status", code=2)
    assert json.loads(fleet.run("fleet", "down", "--json")) == {"ended": False, "pid": None}


def test_a_missing_repository_is_stuck_until_it_is_there(fleet: Fleet) -> None:
    fleet.submit(f"{fleet.root}/later.git", "c0")
    fleet.worker(1)
    row = fleet.wait_status("c0", "stuck")
    assert "later" in row["reason"]
    remote = fleet.repository("later", {"c0": TWO})
    fleet.run("fleet", "retry", "c0")
    fleet.wait_done(remote, ["c0"], 2)


def test_a_worker_drains_before_it_ends(fleet: Fleet) -> None:
    remote = fleet.repository("app", {"c0": TWO})
    fleet.script("any", "sleep 1.5")
    fleet.submit(remote, "c0")
    worker = fleet.worker(1)
    fleet.wait_effects(1)
    worker.terminate()
    assert worker.wait(30) == 0
    assert fleet.stories(remote, "c0") == ["1"]
    assert [story for _, story, _ in fleet.started()] == ["1"]


def test_only_fleet_needs_the_package() -> None:
    """Nothing else of the program loads it, and without it `fleet` says what to install."""
    script = (
        "import sys, importlib.util as u\n"
        "sys.modules['temporalio'] = None\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'temporalio' else find(name, *a)\n"
        "from untildone.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    environment = {**os.environ, "UNTILDONE_FLEET_ADDRESS": "127.0.0.1:1"}
    for words, code in ((["fleet", "status"], 2), (["fleet", "--help"], 0), (["agents"], 0)):
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        if code:
            assert "pip install 'untildone[fleet]'" in done.stderr
    assert COMMAND.exists()
    assert until(lambda: True)


def test_a_push_that_is_refused_is_a_result_and_not_paid_again(fleet: Fleet) -> None:
    remote = fleet.repository("app", {"c0": ("One",)})
    hook = remote / "hooks" / "update"
    hook.write_text("#!/bin/sh\ncase $1 in refs/heads/ralph/*) echo no such right; exit 1;; esac\n")
    hook.chmod(0o755)
    fleet.submit(remote, "c0")
    fleet.worker(1)
    row = fleet.wait_status("c0", "stuck")
    assert "no such right" in row["reason"]
    host, _, where = row["kept"][0].partition(":")
    mirror, *refs = where.split()
    assert host
    assert refs == [] or all(ref.startswith("refs/ralph/") for ref in refs)
    kept = fleet.git("log", "--all", "--format=%s", cwd=Path(mirror))
    assert "checkpoint: 1" in kept
    assert len(fleet.started()) == 1


def test_a_remote_that_is_away_when_the_work_is_done_is_waited_for(fleet: Fleet) -> None:
    remote = fleet.repository("app", {"c0": ("One",)})
    fleet.script("any", "sleep 2")
    fleet.submit(remote, "c0")
    fleet.worker(1)
    fleet.wait_effects(1)
    away = remote.rename(remote.with_suffix(".away"))
    fleet.wait_effects(1, "end")
    time.sleep(3)
    away.rename(remote)
    fleet.wait_done(remote, ["c0"], 1)
    fleet.checked(remote, ["c0"], 1, repeats=0)
