"""Large files and secrets stay out of git: in failed attempts, in checkpoints and at the start."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.e2e.agent_calls import DONE, Actions, fails
from tests.e2e.bench import Bench

SECRET = "TOKEN=keep-me-out-of-git\n"
BIG = "dd if=/dev/urandom of={name} bs=1024 count=1500 status=none"
SMALL_LIMIT = ("--max-file-mb", "1")
ODD_NAMES = [
    "sp ace.key",
    "line\nbreak.key",
    "*[x]!#.key",
    "\u00fcml\u00e4ut.key",
    "-dash.key",
    "tab\t.key",
]

# Kills the loop once, before or after the git command that a file names.
KILLER = """#!/bin/sh
real=@GIT@
when=$(cat @ROOT@/kill-when 2>/dev/null)
for word in "$@"; do
  if [ -n "$when" ] && [ "$word" = "${when#*-}" ] && [ -n "$KILL_ARMED" ]; then
    rm @ROOT@/kill-when
    [ "${when%%-*}" = after ] && $real "$@" > /dev/null
    kill -9 $PPID
    exit 137
  fi
done
exec $real "$@"
"""


def in_object_store(bench: Bench, data: bytes) -> bool:
    """Whether any object, reachable or not, in a pack or loose, holds exactly this content."""
    digest = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    asked = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return digest in bench.git(*asked).split()


def make_secrets(bench: Bench) -> Actions:
    """A mess with a secret by name, one by content and a big file; copies for comparison."""
    copy = bench.root / "copies"
    copy.mkdir()
    return [
        ["write", "mess.txt", "mess\n"],
        ["write", "conf/.env.local", SECRET],
        ["write", "notes.md", "the key: AKIA" + "Q3EGRTZ5KW7LNP2M\n"],
        ["sh", BIG.format(name="model.bin")],
        ["sh", f"cp conf/.env.local notes.md model.bin {copy}"],
    ]


MADE = ("conf/.env.local", "model.bin", "notes.md")


def copies(bench: Bench) -> dict[str, bytes]:
    return {name: (bench.root / "copies" / Path(name).name).read_bytes() for name in MADE}


def kept_folders(bench: Bench) -> list[Path]:
    return list((bench.repo / ".git/untildone/runs").glob("*/kept"))


def assert_sound(bench: Bench) -> None:
    for data in copies(bench).values():
        assert not in_object_store(bench, data)
    bench.git("fsck", "--strict")
    assert not list((bench.repo / ".git").rglob("draft/objects/??/*"))


@pytest.mark.parametrize("variant", ["branch", "stash", "worktree"])
def test_a_failed_attempt_keeps_them_beside_git(bench: Bench, variant: str) -> None:
    bench.only_stories(1)
    bench.plan({1: [*make_secrets(bench), *fails()]})
    run = bench.loop(*SMALL_LIMIT, "--checkpoint", variant).ok()
    retry = bench.calls()[1]
    assert not {*MADE, "mess.txt", "conf"} & set(retry.files)
    [warned] = [e["message"] for e in run.named("warning") if "Left out" in e["message"]]
    assert all(name in warned for name in MADE)
    assert_sound(bench)
    ref = "refs/ralph/attempts/demo/1/1"
    assert bench.blob(ref, "mess.txt") == "mess"
    assert not set(MADE) & set(bench.git("ls-tree", "-r", "--name-only", ref).splitlines())

    [row] = bench.run("attempts", "demo", "--json").ok().json()["attempts"]
    assert row["kept"] == [
        {"path": MADE[0], "size": 25, "reason": "looks like a file of environment secrets"},
        {"path": MADE[1], "size": 1500 * 1024, "reason": "larger than 1 MiB"},
        {"path": MADE[2], "size": 30, "reason": "looks like an AWS access key"},
    ]
    for args in ((), ("--show", "1/1")):
        said = bench.run("attempts", "demo", *args).ok().stdout
        assert "conf/.env.local (25 bytes, looks like a file of environment secrets)" in said
        assert "model.bin (1.5 MiB, larger than 1 MiB)" in said

    bench.run("attempts", "demo", "--restore", "1/1").ok()
    top = Path(retry.cwd)
    assert {name: (top / name).read_bytes() for name in MADE} == copies(bench)
    assert (top / "mess.txt").read_text() == "mess\n"
    assert_sound(bench)


def test_restore_moves_a_different_file_aside_and_works_twice(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["write", "a.key", SECRET], *fails()]})
    bench.loop().ok()
    bench.write("a.key", "another key\n")
    for _ in range(2):
        bench.run("attempts", "demo", "--restore", "1/1").ok()
        assert bench.read("a.key") == SECRET
    [aside] = (bench.repo / ".git/untildone/runs").glob("*/beside/*/a.key")
    assert aside.read_text() == "another key\n"
    assert not in_object_store(bench, b"another key\n")


def test_a_checkpoint_leaves_them_on_disk_and_out_of_git(bench: Bench) -> None:
    bench.plan({1: [*make_secrets(bench), *DONE], 2: fails()})
    run = bench.loop(*SMALL_LIMIT).ok()
    [warned] = [e["message"] for e in run.named("warning") if "Left out" in e["message"]]
    assert all(name in warned for name in MADE)
    assert_sound(bench)
    assert {name: bench.path(name).read_bytes() for name in MADE} == copies(bench)
    assert "mess.txt" in bench.git("ls-tree", "-r", "--name-only", "ralph/demo").splitlines()
    assert all(set(MADE) <= set(call.files) for call in bench.calls()[1:])
    assert not kept_folders(bench)
    bench.run("finish", "demo", "cleanup").ok()
    assert {name: bench.path(name).read_bytes() for name in MADE} == copies(bench)
    assert_sound(bench)


def test_a_rule_that_unhides_a_secret_brings_it_not_into_git(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["write", ".gitignore", "!.env\n"], *fails()]})
    bench.loop().ok()
    assert bench.read(".env") == "SECRET=1\n"
    assert not in_object_store(bench, b"SECRET=1\n")


def test_a_secret_hidden_by_the_attempt_is_kept_too(bench: Bench) -> None:
    bench.only_stories(1)
    hide = ["write", ".gitignore", ".env\nbuild/\nprivate/\n"]
    bench.plan({1: [hide, ["write", "private/x.pem", SECRET], *fails()]})
    bench.loop().ok()
    assert not in_object_store(bench, SECRET.encode())
    [row] = bench.run("attempts", "demo", "--json").ok().json()["attempts"]
    assert [kept["path"] for kept in row["kept"]] == ["private/x.pem"]
    assert not bench.path("private").exists()


def test_a_secret_in_a_nested_repository_is_kept_too(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["nested", "sub", False], ["write", "sub/x.pem", SECRET], *fails()]})
    bench.loop().ok()
    assert not in_object_store(bench, SECRET.encode())
    [row] = bench.run("attempts", "demo", "--json").ok().json()["attempts"]
    assert [kept["path"] for kept in row["kept"]] == ["sub/x.pem"]
    assert not bench.path("sub").exists()


def test_what_the_agent_commits_is_named_and_left_as_it_is(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["write", "tests/server.pem", SECRET], ["commit", "a key"], *DONE]})
    run = bench.loop().ok()
    said = [e["message"] for e in run.named("warning")]
    assert any("itself has committed: tests/server.pem" in text for text in said)
    assert bench.blob("ralph/demo", "tests/server.pem") == SECRET.strip()


def test_a_staged_secret_stays_out_of_the_checkpoint(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["write", "a.key", SECRET], ["git", "add", "a.key"], *DONE]})
    bench.loop().ok()
    assert "a.key" not in bench.git("ls-tree", "-r", "--name-only", "ralph/demo").splitlines()
    assert bench.read("a.key") == SECRET


def test_a_tracked_file_may_grow(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["sh", BIG.format(name="README.md")], *DONE]})
    run = bench.loop(*SMALL_LIMIT).ok()
    assert not run.named("warning")
    size = bench.git("cat-file", "-s", "ralph/demo:README.md")
    assert int(size) == 1500 * 1024


def test_what_a_filter_stores_is_for_git(bench: Bench) -> None:
    """As with git-lfs: the file is large, what git stores of it is small."""
    bench.write(".gitattributes", "*.bin filter=short\n*.key filter=absent\n")
    bench.only_stories(1)
    bench.git("config", "filter.short.clean", "wc -c")
    bench.plan({1: [["sh", BIG.format(name="new.bin")], ["write", "a.key", SECRET], *DONE]})
    subprocess.run(["sh", "-c", BIG.format(name="old.bin")], cwd=bench.repo, check=True)
    bench.loop(*SMALL_LIMIT).ok()
    for name in ("old.bin", "new.bin"):
        assert bench.blob("ralph/demo", name) == str(1500 * 1024)
    assert not in_object_store(bench, SECRET.encode())


def test_cleanup_into_the_users_tree_leaves_its_secrets_alone(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["write", "made.txt", "made\n"], ["write", "agent.key", "agent's\n"], *DONE]})
    bench.loop("--checkpoint", "worktree", "--on-complete", "keep").ok()
    bench.write("mine.key", SECRET)
    bench.run("finish", "demo", "cleanup").ok()
    assert (bench.read("mine.key"), bench.read("made.txt")) == (SECRET, "made\n")
    assert not in_object_store(bench, SECRET.encode())
    assert not in_object_store(bench, b"agent's\n")
    [kept] = (bench.repo / ".git/untildone/runs").rglob("agent.key")
    assert kept.read_text() == "agent's\n"


@pytest.mark.parametrize("ending", [DONE, fails()], ids=["checkpoint", "attempt"])
def test_odd_names(bench: Bench, ending: Actions) -> None:
    bench.only_stories(1)
    writes: Actions = [["write", name, f"{SECRET}{name}"] for name in ODD_NAMES]
    bench.plan({1: [*writes, *ending], 2: fails()})
    bench.loop("--max-retries", "1")
    contents = [f"{SECRET}{name}".encode() for name in ODD_NAMES]
    assert not [data for data in contents if in_object_store(bench, data)]
    if ending is not DONE:
        assert not [name for name in ODD_NAMES if bench.path(name).exists()]
        bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert [bench.path(name).read_bytes() for name in ODD_NAMES] == contents


def test_names_in_odd_encoding_are_kept(bench: Bench) -> None:
    bench.only_stories(1)
    make = ["sh", f"printf '{SECRET.strip()}' > \"$(printf 'a\\377b.key')\""]
    bench.plan({1: [make, *fails()]})
    bench.loop().ok()
    [row] = bench.run("attempts", "demo", "--json").ok().json()["attempts"]
    assert row["kept"][0]["path"] == "a\ufffdb.key"
    assert "a\ufffdb.key" in bench.run("attempts", "demo").ok().stdout
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert (bench.repo / "a\udcffb.key").read_text() == SECRET.strip()


@pytest.mark.parametrize(
    "when",
    [
        "before-add",
        "after-add",
        "after-write-tree",
        "before-read-tree",
        "after-read-tree",
    ],
)
def test_kill_9_while_an_attempt_is_put_back(bench: Bench, when: str) -> None:
    bench.only_stories(1)
    bench.plan(
        {1: [*make_secrets(bench), ["sh", f"echo {when} > {bench.root}/kill-when"], *fails()]}
    )
    git = subprocess.run(["which", "git"], capture_output=True, check=True, text=True).stdout
    text = KILLER.replace("@GIT@", git.strip()).replace("@ROOT@", str(bench.root))
    bench.program("git", text)
    armed = {"KILL_ARMED": "1"}
    assert bench.loop(*SMALL_LIMIT, env=armed).code == -9
    assert_kept_or_there(bench)
    bench.run("resume", "demo", "--json").ok()
    assert_sound(bench)
    assert not {*MADE, "mess.txt"} & set(bench.calls()[1].files)
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert {name: bench.path(name).read_bytes() for name in MADE} == copies(bench)


def assert_kept_or_there(bench: Bench) -> None:
    """Every file is whole, in the tree or in the run's folder."""
    for name, data in copies(bench).items():
        places = [bench.path(name), *(folder / "1/1" / name for folder in kept_folders(bench))]
        assert data in [place.read_bytes() for place in places if place.exists()]


def test_a_start_with_such_files_is_refused_in_scripts(bench: Bench) -> None:
    bench.write("new.pem", SECRET)
    subprocess.run(["sh", "-c", BIG.format(name="big.bin")], cwd=bench.repo, check=True)
    before = bench.snapshot()
    refused = bench.loop(*SMALL_LIMIT).ok(2)
    assert "new.pem (25 bytes, looks like a private key)" in refused.stderr
    assert "big.bin (1.5 MiB, larger than 1 MiB)" in refused.stderr
    assert "--include-flagged" in refused.stderr
    assert bench.snapshot() == before
    assert not in_object_store(bench, SECRET.encode())
    assert bench.calls() == []


def test_a_start_takes_them_along_when_told_to(bench: Bench) -> None:
    bench.write("new.pem", SECRET)
    bench.plan({1: fails()})
    bench.loop("--include-flagged").ok()
    assert bench.blob("ralph/demo", "new.pem") == SECRET.strip()
    assert bench.read("new.pem") == SECRET


def test_ignored_files_are_no_reason_to_refuse(bench: Bench) -> None:
    bench.write("new.pem", SECRET)
    bench.path(".git/info/exclude").write_text("*.pem\n")
    bench.loop().ok()
    assert bench.read("new.pem") == SECRET
    assert not in_object_store(bench, SECRET.encode())


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_is_asked_at_the_start(bench: Bench, answer: str) -> None:
    bench.write("new.pem", SECRET)
    before = bench.snapshot()
    args = ["run", "demo", "--agent-cmd", bench.agent, "--on-complete", "keep"]
    terminal = bench.terminal(*args)
    terminal.wait_text("new.pem (25 bytes, looks like a private key)")
    terminal.wait_text("Take them along?")
    terminal.type("what\n")
    terminal.wait_text("Please type y or n")
    terminal.type(f"{answer}\n")
    if answer == "y":
        assert terminal.wait() == 0
        assert bench.blob("ralph/demo", "new.pem") == SECRET.strip()
    else:
        assert terminal.wait() == 2
        assert bench.snapshot() == before


@pytest.mark.parametrize("variant", ["branch", "worktree"])
def test_ctrl_c_at_the_question_changes_nothing(bench: Bench, variant: str) -> None:
    bench.write("new.pem", SECRET)
    before = bench.snapshot()
    args = ["run", "demo", "--agent-cmd", bench.agent, "--checkpoint", variant]
    terminal = bench.terminal(*args)
    terminal.wait_text("Take them along?")
    terminal.type("\x03")
    assert terminal.wait() == 130
    assert bench.snapshot() == before
    assert bench.git("worktree", "list").count("\n") == 0


def test_edits_by_hand_are_kept_without_them(bench: Bench) -> None:
    bench.plan({1: fails()})
    bench.loop("--max-retries", "0").ok(3)
    bench.write("by-hand.txt", "mine\n")
    bench.write("mine.pem", SECRET)
    bench.plan()
    run = bench.run("resume", "demo", "--json").ok()
    assert any("mine.pem" in event["message"] for event in run.named("warning"))
    assert bench.blob("ralph/demo", "by-hand.txt") == "mine"
    assert bench.read("mine.pem") == SECRET
    assert not in_object_store(bench, SECRET.encode())


def test_a_large_file_with_holes_is_not_read_for_minutes(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["sh", "truncate -s 400G big.img"], *DONE]})
    ended = bench.loop("--on-complete", "keep").ok()
    assert "big.img (400 GiB, larger than 50 MiB)" in str(ended.named("warning"))
    assert bench.path("big.img").stat().st_size == 400 * 1024**3
    assert "big.img" not in bench.git("ls-tree", "--name-only", "ralph/demo")
