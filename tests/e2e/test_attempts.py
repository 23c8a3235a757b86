"""`untildone attempts`: what failed attempts left is listed, shown and brought back."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import failed, fails
from tests.e2e.command import COMMAND

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_attempts_are_listed_shown_and_restored(bench: Bench) -> None:
    bench.plan({1: [["write", "idea.txt", "a good idea\n"], ["say", failed("too late")]]})
    bench.loop().ok()
    said = bench.run("attempts", "demo").ok().stdout
    assert "1/1" in said
    assert "too late" in said
    shown = bench.run("attempts", "demo", "--show", "1/1").ok().stdout
    for words in (
        "the agent gave up",
        "too late",
        "+1 -0  idea.txt",
        "--restore 1/1",
        "/logs/0001.log",
    ):
        assert words in shown, words
    assert "a good idea" not in shown
    assert "+a good idea" in bench.run("attempts", "demo", "--diff", "1/1").ok().stdout
    head = bench.sha()
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert bench.read("idea.txt") == "a good idea\n"
    assert bench.sha() == head
    assert (bench.branch(), bench.staged()) == ("ralph/demo", "")


def test_attempts_restore_saves_what_it_replaces(bench: Bench) -> None:
    bench.plan({1: [["write", "README.md", "attempt\n"], ["say", failed("x")]]})
    bench.loop().ok()
    bench.write("README.md", "precious, uncommitted\n")
    result = bench.run("attempts", "demo", "--restore", "1/1")
    if result.code == 2:
        assert bench.read("README.md") == "precious, uncommitted\n"
        return
    result.ok()
    assert bench.read("README.md") == "attempt\n"
    refs = bench.refs("refs/ralph/")
    blobs = [bench.git("show", f"{ref}:README.md", ok=False) for ref in refs]
    assert "precious, uncommitted" in blobs


def test_attempts_restore_brings_back_a_nested_repository(bench: Bench) -> None:
    bench.plan({1: [["nested", "nested", True], ["say", failed("x")]]})
    bench.loop().ok()
    assert not bench.path("nested").exists()
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert bench.read("nested/inner.txt") == "inner\n"


def test_attempts_of_a_run_without_failures(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    assert "1/1" not in bench.run("attempts", "demo").ok().stdout


@pytest.mark.parametrize("flag", ["--show", "--diff", "--restore"])
def test_attempts_unknown_number(bench: Bench, flag: str) -> None:
    bench.plan({1: fails(), 2: fails()})
    bench.loop().ok()
    before = bench.snapshot()
    for words in ([flag, "7/9"], ["--diff", "1/1", "7/9"]):
        result = bench.run("attempts", "demo", *words)
        assert result.code == 2
        assert "7/9" in result.stderr
        assert "1/1, 1/2" in result.stderr
    assert bench.snapshot() == before


def test_two_attempts_are_compared_without_naming_the_only_change(bench: Bench) -> None:
    bench.plan({1: [["write", "idea.txt", "one\n"], ["say", failed("no")]], 2: fails()})
    bench.loop().ok()
    named = bench.run("attempts", "demo", "--diff", "1/1", "1/2").ok().stdout
    assert "-one" in named
    assert bench.run("attempts", "--diff", "1/1", "1/2").ok().stdout == named
    assert "for `--diff` only: 1/1" in bench.run("attempts", "1/1").ok(2).stderr


def test_attempts_flags_that_do_not_go_together(bench: Bench) -> None:
    for words in (
        ["--show", "1/1", "--restore", "1/1"],
        ["--show", "1/1", "1/2"],
        ["1/1"],
        ["--diff", "1/1", "--json"],
    ):
        assert bench.run("attempts", "demo", *words).code == 2, words


def test_attempts_show_as_json(bench: Bench) -> None:
    bench.plan(
        {
            1: [
                ["write", "idea.txt", "one\ntwo\n"],
                ["git", "add", "-A"],
                ["git", "commit", "-q", "-m", "an idea"],
                ["write", "README.md", "other\n"],
                ["sh", "printf '\\000\\001' > blob.bin"],
                ["say", failed("too late\nreally")],
            ]
        }
    )
    bench.loop().ok()
    value = bench.run("attempts", "demo", "--show", "1/1", "--json").ok().json()
    ref = "refs/ralph/attempts/demo/1/1"
    state = bench.state()
    assert value["reason"] == state["iterations"][0]["reason"]
    fields = ("attempt", "story_id", "outcome", "ref", "commit", "run_id", "log_file")
    assert [value[name] for name in fields] == [
        "1/1",
        "1",
        "failed",
        ref,
        bench.sha(ref),
        state["run_id"],
        state["iterations"][0]["log_file"],
    ]
    assert value["checkpoint"] == bench.sha(f"{ref}^1")
    assert [row["subject"] for row in value["commits"]] == ["an idea"]
    assert [row["commit"] for row in value["commits"]] == state["iterations"][0]["commits"]
    assert value["files"] == [
        {"path": "README.md", "added": 1, "deleted": 1},
        {"path": "blob.bin", "added": None, "deleted": None},
        {"path": "idea.txt", "added": 2, "deleted": 0},
    ]
    said = bench.run("attempts", "demo", "--show", "1/1").ok().stdout
    assert "an idea" in said
    assert "binary  blob.bin" in said


def patch_of(bench: Bench, *attempts: str) -> bytes:
    """The bytes that `--diff` prints; settings of the user must not change them."""
    args = [str(COMMAND), "attempts", "demo", "--diff", *attempts]
    done = subprocess.run(args, cwd=bench.repo, env=bench.env(), capture_output=True, check=True)
    return done.stdout


def apply_patch(bench: Bench, patch: bytes) -> None:
    """`git apply` in the working tree."""
    args = ["git", "apply", "--whitespace=nowarn"]
    subprocess.run(args, input=patch, cwd=bench.repo, env=bench.env(), check=True)


def test_attempts_diff_is_a_patch_for_git_apply(bench: Bench) -> None:
    odd = "sp ace \u00e9.txt"
    bench.plan(
        {
            1: [
                ["write", odd, "a\r\nb"],
                ["sh", "printf '\\000\\377\\n\\033[31m' > blob.bin; chmod +x README.md"],
                ["sh", "mv src/app.py src/moved.py; ln -s README.md link"],
                ["say", failed("x")],
            ],
            2: [["write", odd, "other"], ["say", failed("y")]],
        }
    )
    bench.loop("--max-retries", "1").ok(3)
    for name, value in (("diff.noprefix", "true"), ("color.ui", "always"), ("diff.external", "no")):
        bench.git("config", name, value)
    start = bench.contents()
    first = patch_of(bench, "1/1")
    assert first.startswith(b"diff --git a/")
    apply_patch(bench, first)
    assert bench.tree() == bench.tree_of("refs/ralph/attempts/demo/1/1")
    apply_patch(bench, patch_of(bench, "1/1", "1/2"))
    assert bench.tree() == bench.tree_of("refs/ralph/attempts/demo/1/2")
    assert bench.contents() != start
    assert patch_of(bench, "1/2", "1/2") == b""


def test_attempts_diff_on_a_terminal_is_coloured_and_safe(bench: Bench) -> None:
    bench.plan({1: [["write", "idea.txt", "\x1b]0;owned\x07idea\n"], ["say", failed("x")]]})
    bench.loop().ok()
    terminal = bench.terminal("attempts", "demo", "--diff", "1/1")
    assert terminal.wait() == 0
    assert b"\x1b[32m+idea" in terminal.raw
    assert b"owned" not in terminal.raw
    plain = bench.terminal("attempts", "demo", "--diff", "1/1", env={"NO_COLOR": "1"})
    assert plain.wait() == 0
    assert b"\x1b" not in plain.raw


def test_attempts_of_an_older_run_keep_their_story(bench: Bench) -> None:
    bench.plan({1: fails("first run"), 2: fails("again")})
    bench.loop("--on-complete", "cleanup").ok()
    bench.git("reset", "-q", "--hard")
    bench.git("clean", "-qfd")
    bench.plan({len(bench.calls()) + 1: fails("second run")})
    bench.loop().ok()
    assert "again" in bench.run("attempts", "demo", "--show", "1/2").ok().stdout
    assert "second run" in bench.run("attempts", "demo", "--show", "1/1").ok().stdout


def test_attempts_are_grouped_by_run_and_those_of_the_newest_run_come_first(bench: Bench) -> None:
    bench.plan({1: fails("first run"), 2: fails("first again")})
    bench.loop("--on-complete", "cleanup").ok()
    bench.git("checkout", "-q", "--", ".")
    bench.plan({6: fails("second run")})
    bench.loop("--on-complete", "keep").ok()
    said = bench.run("attempts", "demo").ok().stdout
    first, row, older = said.splitlines()
    assert re.fullmatch(r"run \d{8}-\d{6}-\w{4}, started \w{3} \d\d \d\d:\d\d:\d\d:", first)
    assert re.fullmatch(r"  1/1  .*  the agent gave up  1 file  second run", row)
    assert older == "1 attempt of 1 earlier run: untildone attempts demo --all"
    every = bench.run("attempts", "demo", "--all").ok().stdout.splitlines()
    assert [row.split()[-1] for row in every if "gave up" in row] == ["run", "again"]
    assert len([row for row in every if row.startswith("run ")]) == 2
    rows = bench.run("attempts", "demo", "--json").ok().json()["attempts"]
    # The name of the first run's first attempt went to the second run; that one is archived.
    told = [(row["attempt"], row["reason"]) for row in rows]
    assert told == [("1/2", "first again"), ("1/1", "second run")]
    assert len({row["run_id"] for row in rows}) == 2
