"""`untildone gc`, and what `status` and `doctor` say about saved work."""

from __future__ import annotations

import os
import re
import subprocess
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, fails
from tests.e2e.change import tasks_text

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json

pytestmark = pytest.mark.e2e

STAMP = re.compile(r"\d{8}T\d{12}")
FORM = "%Y%m%dT%H%M%S%f"
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d")


def folders(bench: Bench) -> list[str]:
    """The recorded runs, oldest first."""
    return sorted(path.name for path in bench.path(".git/untildone/runs").iterdir())


def ended(bench: Bench, ending: str = "cleanup") -> str:
    """A run with one failed attempt, carried to its end; its id."""
    bench.plan({len(bench.calls()) + 1: fails("too late")})
    bench.loop("--on-complete", ending).ok()
    if ending == "cleanup":
        bench.git("reset", "-q", "--hard")
        bench.git("clean", "-qfd")
    return str(bench.state()["run_id"])


def age(bench: Bench, run_id: str, days: int) -> str:
    """Make a run and all it stored that many days older; its new id."""
    back = timedelta(days=days)
    began = datetime.strptime(f"{run_id[:15]}Z", "%Y%m%d-%H%M%S%z") - back
    aged = f"{began:%Y%m%d-%H%M%S}{run_id[15:]}"
    folder = bench.path(".git/untildone/runs") / run_id
    folder = folder.rename(folder.with_name(aged))
    journal = folder / "journal.jsonl"
    text = journal.read_text().replace(run_id, aged)
    journal.write_text(
        ISO.sub(lambda m: (datetime.fromisoformat(m[0]) - back).isoformat(), text), "utf-8"
    )
    then = folder.stat().st_ctime - back.total_seconds()
    os.utime(journal, (then, then))
    for name, commit in bench.refs("refs/ralph/").items():
        if f"Untildone-Run: {run_id}" in bench.git("log", "-1", "--format=%B", commit):
            bench.git("update-ref", "-d", name)
            aged_name = STAMP.sub(
                lambda m: f"{datetime.strptime(f'{m[0]}Z', f'{FORM}%z') - back:{FORM}}", name
            )
            aged_commit = older(bench, commit, run_id, aged, then)
            bench.git("update-ref", aged_name.replace(run_id, aged), aged_commit)
    return aged


def older(bench: Bench, commit: str, run_id: str, aged: str, then: float) -> str:
    """The same commit, made long ago by the aged run."""
    message = bench.git("log", "-1", "--format=%B", commit).replace(run_id, aged)
    parents = bench.git("log", "-1", "--format=%P", commit).split()
    flags = [part for parent in parents for part in ("-p", parent)]
    done = subprocess.run(
        ["git", "commit-tree", f"{commit}^{{tree}}", *flags, "-m", message],
        cwd=bench.repo,
        env=bench.env({"GIT_COMMITTER_DATE": f"{int(then)} +0000"}),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def outside(bench: Bench) -> Json:
    """Everything that gc must never touch."""
    shot = bench.snapshot()
    shot["refs"] = {k: v for k, v in shot["refs"].items() if not k.startswith("refs/ralph/")}
    return shot


def owners(bench: Bench) -> set[str]:
    """The runs that have something stored below refs/ralph."""
    form = "--format=%(contents:trailers:key=Untildone-Run,valueonly)"
    return set(bench.git("for-each-ref", form, "refs/ralph/").split())


def test_old_runs_go_and_young_ones_stay(bench: Bench) -> None:
    first = age(bench, ended(bench), 40)
    second, third = ended(bench), ended(bench)
    before = outside(bench)
    assert owners(bench) == {first, second, third}
    said = bench.run("gc").ok().stdout
    assert (folders(bench), owners(bench)) == ([second, third], {second, third})
    assert outside(bench) == before
    assert first in said
    assert f"refs/ralph/backup/demo/{first}" in said
    assert "older than 30 days: runs 1 (" in said
    assert "git gc" in said
    assert "runs 0 (0 bytes), refs 0 (0 bytes" in bench.run("gc").ok().stdout


def test_git_frees_the_space_afterwards(bench: Bench) -> None:
    age(bench, ended(bench), 40)
    (attempt,) = bench.refs("refs/ralph/attempts/").values()
    blob = bench.git("rev-parse", f"{attempt}:mess-1.txt")
    bench.plan()
    bench.loop("--on-complete", "cleanup").ok()
    result = bench.run("gc", "--json").ok().json()
    assert result["object_bytes"] > 0
    assert result["folder_bytes"] == sum(run["bytes"] for run in result["runs"]) > 0
    bench.git("reflog", "expire", "--expire=now", "--all")
    bench.git("gc", "-q", "--prune=now")
    assert not bench.git("cat-file", "-t", blob, ok=False)


def test_dry_run_lists_the_same_and_touches_nothing(bench: Bench) -> None:
    first = age(bench, ended(bench), 40)
    ended(bench)
    before, runs = bench.snapshot(), folders(bench)
    listed = bench.run("gc", "--dry-run", "--json").ok().json()
    assert first in bench.run("gc", "--dry-run").ok().stdout
    assert (bench.snapshot(), folders(bench)) == (before, runs)
    assert listed["dry_run"] is True
    assert [run["run_id"] for run in listed["runs"]] == [first]
    done = bench.run("gc", "--json").ok().json()
    assert done | {"dry_run": True} == listed
    assert set(before["refs"]) - set(bench.refs()) == {row["ref"] for row in done["refs"]}


def test_the_newest_ended_run_stays_however_old(bench: Bench) -> None:
    only = age(bench, ended(bench), 400)
    assert bench.run("gc", "--keep-days", "0", "--json").ok().json()["refs"] == []
    assert (folders(bench), owners(bench)) == ([only], {only})


def test_retention_from_the_flag_and_from_the_setting(bench: Bench) -> None:
    first = age(bench, ended(bench), 10)
    ended(bench)
    for args, env, count in (
        ([], {}, 0),
        ([], {"UNTILDONE_KEEP_DAYS": "5"}, 1),
        (["--keep-days", "20"], {"UNTILDONE_KEEP_DAYS": "5"}, 0),
        (["--keep-days", "5"], {}, 1),
    ):
        found = bench.run("gc", "--dry-run", "--json", *args, env=env).ok().json()
        assert [run["run_id"] for run in found["runs"]] == [first][:count], (args, env)


def test_a_stopped_run_keeps_everything(bench: Bench) -> None:
    bench.plan({1: fails(), 2: [["sleep", 600]]})
    live = bench.begin()
    bench.wait_call(2)
    bench.run("stop", "demo").ok()
    live.wait().ok(6)
    before = bench.snapshot()
    result = bench.run("gc", "--all", "--yes", "--json").ok().json()
    assert (result["runs"], result["refs"]) == ([], [])
    assert bench.snapshot() == before
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    bench.run("restore", "demo").ok()


def test_a_stuck_run_that_was_kept_can_be_resumed_and_stays(bench: Bench) -> None:
    bench.plan({}, default=fails())
    bench.loop("--max-retries", "0", "--on-complete", "keep").ok(3)
    assert bench.run("gc", "--all", "--yes", "--json").ok().json()["refs"] == []


def test_a_killed_run_with_a_newer_one_after_it_goes(bench: Bench) -> None:
    bench.plan({1: [["sleep", 600]]})
    live = bench.begin()
    bench.wait_call(1)
    live.process.kill()
    live.wait()
    killed = str(bench.state()["run_id"])
    bench.run("doctor", "--fix").ok()
    bench.git("checkout", "-q", "feature/x")
    newer = ended(bench)
    assert bench.has(f"refs/ralph/backup/demo/{killed}")
    bench.run("gc", "--keep-days", "0").ok()
    assert (folders(bench), bench.has(f"refs/ralph/backup/demo/{killed}")) == ([newer], False)
    # Its branch was moved out of the way by the newer run, and goes with that one.
    assert owners(bench) == {killed, newer}
    bench.run("gc", "--all", "--yes").ok()
    assert owners(bench) == set()


def test_all_needs_a_yes_in_scripts(bench: Bench) -> None:
    ended(bench)
    before = bench.snapshot()
    refused = bench.run("gc", "--all")
    assert (refused.code, "--yes" in refused.stderr) == (2, True)
    assert bench.run("gc", "--all", "--json").code == 2
    assert bench.snapshot() == before
    bench.run("gc", "--all", "--yes").ok()
    assert (folders(bench), bench.refs("refs/ralph/")) == ([], {})
    assert bench.run("attempts", "demo").code == 2
    bench.run("status").ok()
    bench.run("doctor").ok()


@pytest.mark.parametrize(("key", "left"), [("n", 1), ("y", 0)])
def test_all_asks_on_a_terminal(bench: Bench, key: str, left: int) -> None:
    run_id = ended(bench)
    terminal = bench.terminal("gc", "--all")
    terminal.wait_text("Remove all this?")
    assert run_id in terminal.screen()
    terminal.type(f"{key}\n")
    assert terminal.wait() == (2 if left else 0)
    assert len(folders(bench)) == left
    assert bool(bench.refs("refs/ralph/")) == bool(left)


def test_one_change_only(bench: Bench) -> None:
    bench.write("openspec/changes/second/tasks.md", tasks_text())
    bench.write("openspec/changes/second/proposal.md", "# Second\n")
    bench.commit("second")
    first = ended(bench)
    bench.plan()
    args = ("run", "second", "--agent-cmd", bench.agent, "--on-complete", "cleanup")
    bench.run(*args).ok()
    other = str(bench.state()["run_id"])
    bench.run("gc", "second", "--all", "--yes").ok()
    assert (folders(bench), owners(bench)) == ([first], {first})
    unknown = bench.run("gc", "third")
    assert unknown.code == 2
    assert "third" in unknown.stderr
    assert "demo" in unknown.stderr
    assert other not in unknown.stderr


def test_refused_while_a_loop_runs(bench: Bench) -> None:
    ended(bench)
    bench.plan({}, default=[["sleep", 600]])
    live = bench.begin()
    bench.wait_call(len(bench.calls()) or 1)
    live.wait_event("iteration_started")
    before = bench.refs()
    assert bench.run("gc", "--all", "--yes").code == 2
    bench.run("gc", "--dry-run").ok()
    assert bench.refs() == before


def test_runs_of_another_worktree(bench: Bench) -> None:
    first = ended(bench)
    linked = bench.root / "linked"
    bench.git("worktree", "add", "-q", "-b", "feature/y", str(linked))
    bench.plan({}, default=[["wait", bench.gate("go")], *DONE])
    live = bench.begin("--on-complete", "cleanup", cwd=linked)
    live.wait_event("iteration_started")
    second = str(bench.state(linked)["run_id"])
    bench.run("gc", "--all", "--yes").ok()
    # The loop of the other worktree is at work: all of its refs are there.
    assert owners(bench) == {second}
    assert first not in folders(bench)
    bench.open_gate("go")
    live.wait().ok()
    bench.run("gc", "--all", "--yes").ok()
    assert owners(bench) == set()
    assert list((bench.repo / ".git/worktrees/linked/untildone/runs").iterdir()) == []


def test_refs_whose_worktree_was_removed_go_by_their_age(bench: Bench) -> None:
    linked = bench.root / "linked"
    bench.git("worktree", "add", "-q", "-b", "feature/y", str(linked))
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup", cwd=linked).ok()
    bench.git("worktree", "remove", "--force", str(linked))
    assert bench.refs("refs/ralph/")
    bench.run("gc").ok()
    assert bench.refs("refs/ralph/")
    bench.run("gc", "--keep-days", "0").ok()
    assert bench.refs("refs/ralph/") == {}


def test_an_agent_cannot_remove_its_own_past(bench: Bench) -> None:
    run_id = ended(bench)
    refused = bench.run("gc", "--all", "--yes", env={"UNTILDONE_RUN_ID": run_id})
    assert (refused.code, folders(bench)) == (2, [run_id])


def test_what_was_moved_aside_goes_although_it_is_read_only(bench: Bench) -> None:
    run_id = ended(bench)
    aside = bench.path(f".git/untildone/runs/{run_id}/aside/0000-cache")
    aside.mkdir(parents=True)
    (aside / "file").write_text("x")
    (bench.root / "mine").mkdir()
    (bench.root / "mine/precious").write_text("x")
    (aside / "link").symlink_to(bench.root / "mine")
    aside.chmod(0o555)
    bench.run("gc", "--all", "--yes").ok()
    assert folders(bench) == []
    assert (bench.root / "mine/precious").read_text() == "x"
    assert not bench.path(".git/untildone/removed").exists()


def test_a_kept_branch_stays_when_its_run_goes(bench: Bench) -> None:
    ended(bench, "keep")
    before = outside(bench)
    bench.run("gc", "--all", "--yes").ok()
    assert outside(bench) == before
    assert bench.branch() == "ralph/demo"
    assert bench.subjects("feature/x..ralph/demo")[-1] == "checkpoint: 3"


def test_a_cleanup_that_was_undone_keeps_everything(bench: Bench) -> None:
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    bench.run("undo").ok()
    assert bench.run("gc", "--all", "--yes", "--json").ok().json()["refs"] == []
    bench.run("finish", "demo", "cleanup").ok()


def test_undo_after_gc_finds_nothing(bench: Bench) -> None:
    ended(bench)
    bench.run("gc", "--all", "--yes").ok()
    before = bench.snapshot()
    refused = bench.run("undo")
    assert (refused.code, "nothing to undo" in refused.stderr) == (2, True)
    assert bench.snapshot() == before


@pytest.mark.parametrize("ending", ["cleanup", "keep"])
@pytest.mark.parametrize("variant", ["stash", "worktree"])
def test_runs_with_other_checkpoints_go_too(bench: Bench, variant: str, ending: str) -> None:
    bench.plan({1: fails("too late")})
    bench.loop("--checkpoint", variant, "--on-complete", ending).ok()
    assert "too late" in bench.run("attempts", "demo", "--show", "1/1").ok().stdout
    before = outside(bench)
    bench.run("gc", "--all", "--yes").ok()
    assert bench.refs("refs/ralph/") == {}
    assert sorted(bench.path(".git").rglob("journal.jsonl")) == []
    assert outside(bench) == before


# status and doctor


def test_status_counts_saved_attempts_and_weighs_them(bench: Bench) -> None:
    noise = os.urandom(50_000).hex()
    bench.only_stories(1)
    bench.plan(
        {
            1: [["write", "noise.txt", noise], *fails("too late")],
            2: fails("again"),
        }
    )
    bench.loop().ok()
    (quick,) = bench.run("status", "--json").ok().json()["loops"]
    assert quick["saved_attempts"] == 2
    assert "saved_bytes" not in quick
    (weighed,) = bench.run("status", "--json", "--weigh").ok().json()["loops"]
    assert quick.items() <= weighed.items()
    assert 50_000 < weighed["saved_bytes"] < 60_000
    assert re.search(r"saved attempts: 2, 5\d(\.\d)? KiB", bench.run("status").ok().stdout)
    bench.git("pack-refs", "--all")
    assert bench.loops()[0]["saved_attempts"] == 2
    # What a branch keeps is no weight of ours.
    bench.git("branch", "mine", "refs/ralph/attempts/demo/1/1")
    (shared,) = bench.run("status", "--json", "--weigh").ok().json()["loops"]
    assert shared["saved_bytes"] < 5_000


def test_status_of_a_run_without_saved_attempts(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    assert bench.loops()[0]["saved_attempts"] == 0
    assert "saved attempts" not in bench.run("status").ok().stdout


def test_doctor_mentions_what_is_old(bench: Bench) -> None:
    def old(bench: Bench) -> list[str]:
        rows = bench.run("doctor", "--json").ok().json()["rows"]
        return [row["fix"] for row in rows if row["check"] == "old work"]

    age(bench, ended(bench), 40)
    ended(bench)
    assert old(bench) == ["untildone gc"]
    bench.run("gc").ok()
    assert old(bench) == []
