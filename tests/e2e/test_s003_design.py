"""S003: the design behind the stash checkpoints: goals, decisions and known risks."""

# ruff: noqa: N802 - the ids of the requirement rows are part of the names
from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, fails
from tests.e2e.change import TASKS
from tests.e2e.stash_bench import (
    STASH,
    WORK,
    entries,
    held,
    killed,
    listed,
    make_dirty,
    names,
    users_view,
)

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json, Result

pytestmark = pytest.mark.e2e


def rows(result: Result, check: str) -> list[Json]:
    """The findings of `doctor --json` of one kind."""
    return [row for row in result.json()["rows"] if row["check"] == check]


# goals


def test_S003_G1_state_before_each_call_is_in_the_stash_list(bench: Bench) -> None:
    make_dirty(bench)
    bench.plan({2: fails()})
    bench.loop(*STASH).ok()
    assert [names(call) for call in bench.calls()] == [
        ["ralph:demo:1"],
        ["ralph:demo:2"],
        ["ralph:demo:2"],
        ["ralph:demo:3"],
    ]


def test_S003_G2_put_back_and_retried_up_to_n_times(bench: Bench) -> None:
    make_dirty(bench)
    before = users_view(bench)
    bench.plan({}, fails())
    result = bench.loop(*STASH, "--max-retries", "2").ok(3)
    calls = bench.calls()
    assert len(calls) == 3
    assert calls[0].files == calls[1].files == calls[2].files
    assert [event["attempt"] for event in result.named("retrying")] == [2, 3]
    assert users_view(bench) == before
    refs = [f"refs/ralph/attempts/demo/1/{k}" for k in (1, 2, 3)]
    assert list(bench.refs("refs/ralph/attempts/")) == refs


def test_S003_G3_reason_is_in_prompt_event_and_state(bench: Bench) -> None:
    bench.plan({1: fails("the *disk*: is `full`")})
    result = bench.loop(*STASH).ok()
    assert "the *disk*: is `full`" in bench.calls()[1].prompt
    assert "the *disk*: is `full`" not in bench.calls()[2].prompt
    assert result.one("retrying")["reason"] == "the *disk*: is `full`"
    assert bench.state()["iterations"][0]["reason"] == "the *disk*: is `full`"


@pytest.mark.parametrize("status", ["done", "stuck"])
def test_S003_G4_cleanup_leaves_no_traces(bench: Bench, status: str) -> None:
    make_dirty(bench)
    bench.plan({}, DONE if status == "done" else fails())
    args = (*STASH, "--max-retries", "1", "--on-complete", "cleanup")
    bench.loop(*args).ok(0 if status == "done" else 3)
    assert not bench.has("refs/stash")
    assert not bench.has(WORK)
    assert bench.refs("refs/heads/ralph/") == {}
    assert list(bench.path(".git").glob("*.lock")) == []
    assert list(bench.path(".claude").iterdir()) == [bench.state_path()]
    found = {line[3:] for line in bench.status()}
    assert not {name for name in found if "tmp" in name or "lock" in name or "mess" in name}


# decisions


def test_S003_D1_D2_D3_entry_by_name_applied_on_failure_dropped_on_success(bench: Bench) -> None:
    make_dirty(bench)
    bench.plan({1: [["write", "README.md", "broken\n"], ["say", "off"]]})
    bench.loop(*STASH).ok()
    first, second, third = bench.calls()[:3]
    assert first.stash == "stash@{0}: On feature/x: ralph:demo:1"
    assert (second.stash, second.files) == (first.stash, first.files)
    assert third.stash == "stash@{0}: On feature/x: ralph:demo:2"
    assert listed(bench) == []


def test_S003_D3_C20_final_failure_drops_the_entry_and_keeps_the_attempt(bench: Bench) -> None:
    make_dirty(bench)
    bench.plan({}, [["write", "README.md", "last try\n"], *fails()])
    bench.loop(*STASH, "--max-retries", "0").ok(3)
    assert listed(bench) == []
    assert bench.blob("refs/ralph/attempts/demo/1/1", "README.md") == "last try"
    assert bench.read("README.md") == "# staged and more\n"


def test_S003_D4_no_promise_is_retried_without_context(bench: Bench) -> None:
    bench.plan({1: [["say", "I cannot go on: no luck."]]})
    bench.loop(*STASH).ok()
    first, second = bench.calls()[:2]
    assert second.prompt == first.prompt


def test_S003_D4_C17_quoted_promise_is_none(bench: Bench) -> None:
    bench.plan({1: [["say", f"The rules ask for `{COMPLETE}` at the end."]]})
    assert bench.loop(*STASH).ok().outcomes()[0] == "no_promise"


@pytest.mark.parametrize(("flags", "calls"), [(("0",), 1), (("1",), 2), (("3",), 4), ((), 4)])
def test_S003_D5_K4_number_of_calls(bench: Bench, flags: tuple[str, ...], calls: int) -> None:
    bench.plan({}, fails())
    bench.loop(*STASH, *(("--max-retries", *flags) if flags else ())).ok(3)
    assert len(bench.calls()) == calls


def test_S003_D5_help_says_three(bench: Bench) -> None:
    text = " ".join(bench.run("run", "--help").ok().stdout.split())
    option = text.partition("--max-retries")[2].partition("--max-iterations")[0]
    assert "3" in option


# non-goals


def test_S003_N1_unknown_ways_of_checkpointing_are_refused(bench: Bench) -> None:
    before = bench.snapshot()
    result = bench.loop("--checkpoint", "zfs").ok(2)
    assert "stash" in result.stderr
    assert bench.snapshot() == before


def test_S003_N3_nothing_is_merged_when_the_user_has_moved_on(bench: Bench) -> None:
    bench.plan({1: [["write", "README.md", "loop\n"], *DONE]})
    bench.loop(*STASH).ok()
    bench.write("README.md", "mine\n")
    bench.commit("mine")
    before = users_view(bench)
    bench.run("finish", "demo", "cleanup").ok()
    assert users_view(bench) == before


# known risks

AWKWARD: dict[str, Actions] = {
    "file becomes folder": [["delete", "README.md"], ["write", "README.md/in.txt", "in\n"]],
    "untracked file becomes folder": [
        ["delete", "src/new.py"],
        ["write", "src/new.py/deep/in.txt", "in\n"],
    ],
    "file becomes folder with ignored files": [
        ["delete", "README.md"],
        ["write", "README.md/build/cache", "in\n"],
        ["write", "README.md/.env", "in\n"],
    ],
    "file becomes repository": [["delete", "README.md"], ["nested", "README.md", True]],
    "folder becomes file": [["sh", "rm -r src"], ["write", "src", "a file\n"]],
    "folder of untracked files becomes file": [["sh", "rm -r notes"], ["write", "notes", "x\n"]],
    "folder becomes link to a folder": [["sh", "mv src elsewhere && ln -s elsewhere src"]],
    "folder becomes link to outside": [["sh", "rm -r src && ln -s /etc src"]],
    "file becomes link to outside": [["sh", "ln -sf /etc/hostname README.md"]],
    "file becomes broken link": [["sh", "ln -sf /nowhere/at/all README.md"]],
    "read-only folder": [["write", "src/more.py", "m\n"], ["chmod", "src", 0o555]],
}


@pytest.mark.parametrize("case", AWKWARD)
def test_S003_K1_awkward_paths_are_put_back_exactly(bench: Bench, case: str) -> None:
    make_dirty(bench)
    before = users_view(bench)
    bench.plan({1: [*AWKWARD[case], ["say", "off"]]}, [["say", COMPLETE]])
    bench.loop(*STASH).ok()
    first, second = bench.calls()[:2]
    assert (second.files, second.place) == (first.files, first.place)
    after = users_view(bench)
    assert after["index"] == before["index"]
    changed = {name for name, kind in after["files"].items() if before["files"].get(name) != kind}
    assert changed == {TASKS}


def test_S003_K1_impossible_put_back_is_an_error_and_the_stash_is_kept(bench: Bench) -> None:
    real = bench.git("--exec-path") + "/git"
    lame = bench.root / "lame"
    bench.program(
        "git",
        "#!/bin/sh\n"
        f'case " $* " in *" read-tree -m -u "*) if [ -e {lame} ]; then '
        "echo \"error: unable to unlink old 'README.md': Operation not permitted\" >&2; exit 128;"
        f' fi ;; esac\nexec {real} "$@"\n',
    )
    make_dirty(bench)
    bench.plan({1: [["sh", f"touch {lame}"], ["write", "README.md", "broken\n"], *fails()]})
    result = bench.loop(*STASH).ok(3)
    error = result.one("error")
    assert "README.md" in error["message"]
    assert "git read-tree" in error["message"]
    assert entries(bench) == ["ralph:demo:1"]
    assert bench.blob("stash@{0}", "README.md") == "# staged and more"
    assert "stash entry is kept" in str(result.one("finished")["notes"])
    lame.unlink()
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    assert bench.calls()[1].files == bench.calls()[0].files
    assert entries(bench) == []


def test_S003_K1_folder_that_cannot_be_moved_is_an_error_and_the_stash_is_kept(
    bench: Bench,
) -> None:
    folder = bench.path("README.md")
    make_dirty(bench)
    stuck = "rm README.md && mkdir README.md && touch README.md/x && chattr +i README.md"
    can = shutil.which("chattr")
    if not can or subprocess.run([can, "+i", folder], check=False).returncode:
        pytest.skip("no file here can be made immutable")
    subprocess.run(["chattr", "-i", folder], check=True)
    bench.plan({1: [["sh", stuck], *fails()]})
    try:
        result = bench.loop(*STASH).ok(3)
    finally:
        subprocess.run(["chattr", "-i", folder], check=False)
    error = result.one("error")
    assert "README.md" in error["message"]
    assert "git read-tree" in error["message"]
    assert result.one("complete")["reason"] == "error"
    assert entries(bench) == ["ralph:demo:1"]
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    assert bench.calls()[1].files == bench.calls()[0].files


def test_S003_K1_what_git_cannot_record_is_put_back_too(bench: Bench) -> None:
    make_dirty(bench)
    bench.plan({1: [["sh", "rm README.md && mkfifo README.md"], ["say", "off"]]})
    bench.loop(*STASH).ok()
    assert bench.calls()[1].files == bench.calls()[0].files
    assert entries(bench) == []


def test_S003_K2_untracked_files_are_part_of_the_state(bench: Bench) -> None:
    bench.write("only/untracked.txt", "u\n")
    live, call = held(bench, at=1, then=[["sh", "rm -r only"], ["say", "off"]])
    assert bench.blob("stash@{0}^3", "only/untracked.txt") == "u"
    assert "only/untracked.txt" in call.files
    bench.open_gate("go")
    live.wait().ok()
    assert bench.calls()[1].files == call.files


def test_S003_K3_doctor_leaves_a_run_that_can_be_resumed_alone(bench: Bench) -> None:
    make_dirty(bench)
    killed(bench)
    view, refs = users_view(bench), bench.refs()
    result = bench.run("doctor", "--json").ok()
    assert rows(result, "stash") == []
    assert "untildone resume demo" in rows(result, "unfinished run")[0]["fix"]
    bench.run("doctor", "--fix").ok()
    assert (users_view(bench), bench.refs()) == (view, refs)
    bench.run("resume", "demo", "--json").ok()
    assert entries(bench) == []


def test_S003_K3_doctor_fix_removes_only_this_tools_leftovers(bench: Bench) -> None:
    bench.write("README.md", "below\n")
    bench.git("stash", "push", "-q", "-m", "ralph:demo:1")
    bench.write("README.md", "dirty\n")
    live, _ = held(bench, at=2, then=DONE)
    bench.run("stop", "demo").ok()
    live.wait().ok(6)
    bench.write("above.txt", "above\n")
    bench.git("stash", "push", "-q", "-u", "-m", "above", "--", "above.txt")
    kept = [line for line in listed(bench) if not line.endswith(": ralph:demo:2")]
    tip = bench.sha(WORK)
    shutil.rmtree(bench.path(".git/untildone"))  # nobody can go on with this run any more
    before = users_view(bench)
    (row,) = rows(bench.run("doctor", "--json").ok(), "stash")
    assert (row["level"], row["fix"]) == ("warn", "untildone doctor --fix")
    assert "ralph:demo:" in row["text"]
    assert WORK in row["text"]
    assert users_view(bench) == before
    bench.run("doctor", "--fix").ok()
    assert users_view(bench) | {"stash": []} == before | {"stash": []}
    assert listed(bench) == kept
    assert not bench.has(WORK)
    assert tip in bench.refs("refs/ralph/archive/").values()
    assert rows(bench.run("doctor", "--json").ok(), "stash") == []


def test_S003_K3_doctor_abandons_a_killed_run(bench: Bench) -> None:
    bench.write("README.md", "below\n")
    bench.git("stash", "push", "-q", "-m", "mine")
    make_dirty(bench)
    killed(bench)
    before = users_view(bench)
    bench.run("doctor", "--fix", "--abandon", "demo").ok()
    after = users_view(bench)
    assert entries(bench) == ["mine"]
    assert after | {"stash": []} == before | {"stash": []}
    assert bench.read("half.txt") == "half\n"
    assert not bench.has(WORK)
    assert bench.processes() == []
    bench.run("resume", "demo").ok(2)


def test_S003_K3_doctor_in_another_worktree_leaves_the_run_alone(bench: Bench) -> None:
    make_dirty(bench)
    killed(bench)
    before, refs = users_view(bench), bench.refs()
    aside = bench.root / "aside"
    bench.git("worktree", "add", "-q", "--detach", str(aside))
    result = bench.run("doctor", "--fix", "--json", cwd=aside)
    assert rows(result, "stash") == []
    assert (users_view(bench), bench.refs()) == (before, refs)
