"""S001: checkpoints are commits on the side branch; put-back, cleanup and keep."""

# ruff: noqa: N802 - the ids of the requirement rows are part of the names
from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, fails
from tests.e2e.change import TASKS
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_S001_R1_S1_initial_state_holds_exactly_the_dirty_start(bench: Bench) -> None:
    start = bench.sha()
    bench.write("README.md", "# changed\n")
    bench.write("staged.txt", "staged\n")
    bench.git("add", "staged.txt")
    bench.path("src/app.py").unlink()
    bench.write("notes/new file.txt", "new\n")
    bench.plan()
    bench.loop().ok()
    first = bench.calls()[0]
    assert (first.subject, first.parent, first.status) == ("initial state", start, "")
    shown = bench.git("-c", "core.quotePath=off", "show", "--format=", "--name-status", first.head)
    assert sorted(shown.splitlines()) == [
        "A\tnotes/new file.txt",
        "A\tstaged.txt",
        "D\tsrc/app.py",
        "M\tREADME.md",
    ]
    assert bench.sha("feature/x") == start
    assert bench.state()["original_branch"] == "feature/x"


def test_S001_R1_S1_clean_start_makes_an_empty_commit(bench: Bench) -> None:
    start = bench.sha()
    bench.plan()
    bench.loop().ok()
    first = bench.calls()[0]
    assert first.parent == start
    assert bench.tree_of(first.head) == bench.tree_of(start)


def test_S001_R1_S1_loop_files_and_ignored_files_are_in_no_commit(bench: Bench) -> None:
    start = bench.sha()
    before = bench.read(".gitignore")
    bench.plan({1: fails()})
    bench.loop().ok()
    names = bench.git("log", "--format=", "--name-only", f"{start}..ralph/demo").split()
    assert sorted(set(names)) == [TASKS, "work-2.txt", "work-3.txt", "work-4.txt"]
    assert bench.read(".gitignore") == before
    assert bench.status() == []


def test_S001_R1_S1_slow_git_does_not_block_status_nor_a_signal(bench: Bench) -> None:
    # The row says 1 s for Ctrl-C, the contract 5 s in all and "short steps finish first":
    # the contract is checked, with one git call that takes 3 s.
    mark = bench.root / "slow"
    real = bench.git("--exec-path") + "/git"
    bench.program(
        "git",
        "#!/bin/sh\n"
        f'case " $* " in *" commit "*|*" write-tree "*) '
        f"[ -e {mark} ] || {{ touch {mark}; sleep 3; }} ;; esac\n"
        f'exec {real} "$@"\n',
    )
    bench.plan()
    live = bench.begin()
    until(mark.exists, what="the slow git call")
    began = time.monotonic()
    bench.run("status", "--json").ok()
    assert time.monotonic() - began < 2.5
    live.signal(signal.SIGINT)
    assert live.wait(5).code == 130


@pytest.mark.parametrize("verb", ["add", "write-tree", "update-ref", "symbolic-ref"])
def test_S001_R1_S1_signal_in_the_midst_of_the_start(bench: Bench, verb: str) -> None:
    """The last call of its kind is slow; whatever it is, the code is the signal's own."""
    mark, log = bench.root / "slow", bench.root / "asked"
    real = bench.git("--exec-path") + "/git"
    slow = f"touch {mark}; sleep 3"
    text = (
        "#!/bin/sh\n"
        f'case " $* " in *" {verb} "*) echo >> {log}; [ $(wc -l < {log}) != {{}} ] || {{{{ {slow}; '
        f'}}}} ;; esac\nexec {real} "$@"\n'
    )
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    bench.program("git", text.format(0))
    live = bench.begin()
    bench.wait_call(1)
    count = len(log.read_text().splitlines())
    live.signal(signal.SIGINT)
    live.wait().ok(130)
    bench.run("restore", "demo").ok()
    log.unlink(missing_ok=True)
    mark.unlink(missing_ok=True)
    bench.program("git", text.format(count))
    live = bench.begin()
    until(mark.exists, what="the slow git call")
    live.signal(signal.SIGINT)
    result = live.wait().ok(130)
    assert [event["status"] for event in result.named("finished")] == ["stopped"]
    assert len(bench.calls()) == 1


def test_S001_R1_S2_checkpoint_holds_every_kind_of_change(bench: Bench) -> None:
    bench.write("old.txt", "old\n")
    bench.commit("old")
    bench.plan(
        {
            1: [
                ["append", "README.md", "edited\n"],
                ["write", "new folder/ünï cödé.txt", "new\n"],
                ["delete", "old.txt"],
                ["rename", "src/app.py", "src/main.py"],
                ["chmod", "run.sh", 0o755],
                ["symlink", "README.md", "link"],
                ["tick", "1"],
                ["say", DONE[-1][1]],
            ]
        }
    )
    bench.loop().ok()
    second = bench.calls()[1]
    assert (second.subject, second.status) == ("checkpoint: 1", "")
    shown = bench.git(
        "-c",
        "core.quotePath=off",
        "show",
        "--format=",
        "--name-status",
        "--no-renames",
        second.head,
    )
    assert sorted(shown.splitlines()) == [
        "A\tlink",
        "A\tnew folder/ünï cödé.txt",
        "A\tsrc/main.py",
        "D\told.txt",
        "D\tsrc/app.py",
        "M\tREADME.md",
        f"M\t{TASKS}",
        "M\trun.sh",
    ]
    assert bench.git("ls-tree", second.head, "run.sh").startswith("100755 ")


def test_S001_R1_S2_story_that_changes_nothing_has_its_commit_too(bench: Bench) -> None:
    start = bench.sha()
    bench.plan({1: [["tick", "1"], ["commit", "mine"], *DONE[1:]]})
    bench.loop().ok()
    assert bench.subjects(f"{start}..ralph/demo") == [
        "initial state",
        "mine",
        "checkpoint: 1",
        "checkpoint: 2",
        "checkpoint: 3",
    ]
    entry = bench.state()["iterations"][0]
    assert entry["commits"] == [bench.sha("ralph/demo~3"), bench.sha("ralph/demo~2")]


# name: what the failing call does, and files that its saved attempt must hold.
MATRIX: dict[str, tuple[Actions, dict[str, str]]] = {
    "tracked edit": ([["write", "README.md", "broken\n"]], {"README.md": "broken"}),
    "delete": ([["delete", "src/app.py"]], {}),
    "staged new file": (
        [["write", "staged.txt", "staged\n"], ["git", "add", "staged.txt"]],
        {"staged.txt": "staged"},
    ),
    "untracked file": ([["write", "new.txt", "new\n"]], {"new.txt": "new"}),
    "untracked folder": (
        [["write", "deep/er/new.txt", "new\n"]],
        {"deep/er/new.txt": "new"},
    ),
    "empty folder": ([["mkdir", "empty/folder"]], {}),
    "own commit": (
        [["write", "mine.txt", "mine\n"], ["commit", "agent's own"], ["append", "mine.txt", "2\n"]],
        {"mine.txt": "mine\n2"},
    ),
    "amended checkpoint": (
        [
            ["write", "mine.txt", "mine\n"],
            ["git", "add", "-A"],
            ["git", "commit", "-q", "--amend", "-m", "rewritten"],
        ],
        {"mine.txt": "mine"},
    ),
    "reset to before the checkpoint": ([["git", "reset", "-q", "--hard", "HEAD~1"]], {}),
    "own branch": (
        [["git", "checkout", "-q", "-b", "other"], ["write", "mine.txt", "m\n"], ["commit", "m"]],
        {"mine.txt": "m"},
    ),
    "detached head": (
        [["git", "checkout", "-q", "--detach"], ["write", "mine.txt", "m\n"], ["commit", "m"]],
        {"mine.txt": "m"},
    ),
    "nested repository": ([["nested", "nested", True]], {}),
    "nested repository without commit": ([["nested", "nested", False]], {}),
    "hidden by own ignore rules": (
        [["append", ".gitignore", "junk/\n"], ["write", "junk/file.txt", "junk\n"]],
        {"junk/file.txt": "junk"},
    ),
    "hidden by own ignore file": (
        [["write", "out/.gitignore", "*\n"], ["write", "out/file.txt", "junk\n"]],
        {"out/file.txt": "junk"},
    ),
    "ignore rules gone": ([["write", ".gitignore", "\n"]], {".gitignore": ""}),
    "ignore rules gone and committed": (
        [["write", ".gitignore", "x\n"], ["git", "commit", "-qam", "ignore less"]],
        {".gitignore": "x"},
    ),
    "mode change": ([["chmod", "run.sh", 0o755]], {}),
    "file becomes folder": (
        [["delete", "README.md"], ["write", "README.md/inside.txt", "in\n"]],
        {"README.md/inside.txt": "in"},
    ),
    "symlink to outside": ([["delete", "README.md"], ["symlink", "/etc", "README.md"]], {}),
    "half-done merge": ([["half_merge"]], {}),
    "half-done rebase": ([["half_rebase"]], {}),
    "stale index lock": ([["write", "a.txt", "a\n"], ["sh", "touch .git/index.lock"]], {}),
    "index deleted": ([["write", "a.txt", "a\n"], ["sh", "rm .git/index"]], {"a.txt": "a"}),
    "side branch deleted": (
        [["sh", "git checkout -q --detach && git branch -q -D ralph/demo"]],
        {},
    ),
}


@pytest.mark.parametrize("case", MATRIX)
def test_S001_R2_S1_put_back_to_the_last_checkpoint(bench: Bench, case: str) -> None:
    actions, saved = MATRIX[case]
    user = bench.sha("feature/x")
    bench.plan({2: [*actions, ["say", "I am off."]]})
    bench.loop().ok()
    _, failing, retry = bench.calls()[:3]
    assert failing.subject == "checkpoint: 1"
    assert retry.place == ("ralph/demo", failing.head, "")
    assert retry.files == failing.files
    for name in ("MERGE_HEAD", "rebase-merge", "rebase-apply", "index.lock"):
        assert not bench.path(f".git/{name}").exists(), name
    assert bench.sha("feature/x") == user
    assert (bench.read(".env"), bench.read("build/cache.bin")) == ("SECRET=1\n", "cache\n")
    ref = "refs/ralph/attempts/demo/2/1"
    assert bench.state()["iterations"][1]["saved_ref"] == ref
    assert {path: bench.blob(ref, path) for path in saved} == saved
    listed = bench.git("ls-tree", "-r", "--name-only", ref).splitlines()
    assert not {".env", "build/cache.bin", ".claude/loop-state.json"} & set(listed)
    assert bench.git("merge-base", "--is-ancestor", failing.head, "ralph/demo") == ""


@pytest.mark.parametrize("case", ["own commit", "amended checkpoint", "own branch"])
def test_S001_R2_S1_commits_of_a_put_back_attempt_stay_reachable(bench: Bench, case: str) -> None:
    bench.plan({2: [*MATRIX[case][0], ["say", "off"]]})
    bench.loop().ok()
    entry = bench.state()["iterations"][1]
    assert entry["commits"]
    for commit in entry["commits"]:
        bench.git("merge-base", "--is-ancestor", commit, entry["saved_ref"])


def test_S001_R2_S1_agent_commit_on_the_users_branch_is_undone_and_saved(bench: Bench) -> None:
    user = bench.sha("feature/x")
    bench.plan(
        {
            1: [
                ["git", "checkout", "-q", "feature/x"],
                ["write", "astray.txt", "astray\n"],
                ["commit", "astray"],
                ["say", DONE[-1][1]],
            ]
        }
    )
    bench.loop().ok()
    assert bench.sha("feature/x") == user
    assert bench.calls()[1].branch == "ralph/demo"
    tips = [sha for name, sha in bench.refs("refs/ralph/").items() if "astray" in _log(bench, name)]
    assert tips, "the moved tip of the user's branch was not saved"


def _log(bench: Bench, ref: str) -> str:
    return bench.git("log", "--format=%s", ref, ok=False)


def _dirty(bench: Bench) -> None:
    bench.write("README.md", "# staged\n")
    bench.write("new.txt", "staged new\n")
    bench.git("add", "README.md", "new.txt")
    bench.write("README.md", "# staged and more\n")
    bench.write("loose.txt", "loose\n")


def test_S001_R3_S1_cleanup_leaves_all_changes_uncommitted_and_unstaged(bench: Bench) -> None:
    start = bench.sha()
    bench.plan({2: [["rename", "src/app.py", "src/main.py"], *DONE]})
    live = bench.begin("--on-complete", "ask")
    live.wait_event("complete")
    tip = bench.tree_of("ralph/demo")
    bench.run("finish", "demo", "cleanup").ok()
    live.wait().ok()
    assert (bench.branch(), bench.sha("feature/x")) == ("feature/x", start)
    assert bench.staged() == ""
    assert not bench.has("refs/heads/ralph/demo")
    assert bench.tree() == tip
    assert bench.status() == [
        f" M {TASKS}",
        " D src/app.py",
        "?? src/main.py",
        "?? work-1.txt",
        "?? work-2.txt",
        "?? work-3.txt",
    ]
    assert not bench.path(".git/SQUASH_MSG").exists()
    assert not bench.has("refs/stash")


def test_S001_R3_S1_what_was_staged_is_staged_again(bench: Bench) -> None:
    _dirty(bench)
    staged = bench.staged()
    bench.plan()
    bench.loop("--on-complete", "cleanup").ok()
    assert bench.staged() == staged
    assert bench.read("README.md") == "# staged and more\n"
    assert bench.read("loose.txt") == "loose\n"
    assert bench.read("work-3.txt") == "work 3\n"


def test_S001_R3_S1_original_branch_moved_without_conflict(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    bench.git("worktree", "add", "-q", "--detach", str(bench.root / "aside"), "feature/x")
    (bench.root / "aside" / "upstream.txt").write_text("upstream\n")
    bench.git("add", "-A", cwd=bench.root / "aside")
    bench.git("commit", "-q", "-m", "upstream", cwd=bench.root / "aside")
    bench.git(
        "update-ref",
        "refs/heads/feature/x",
        bench.git("rev-parse", "HEAD", cwd=bench.root / "aside"),
    )
    moved = bench.sha("feature/x")
    bench.run("finish", "demo", "cleanup").ok()
    assert (bench.branch(), bench.sha()) == ("feature/x", moved)
    assert bench.status() == [f" M {TASKS}", "?? work-1.txt", "?? work-2.txt", "?? work-3.txt"]
    assert bench.read("upstream.txt") == "upstream\n"


def test_S001_R3_S1_conflict_with_a_moved_original_branch_changes_nothing(bench: Bench) -> None:
    bench.plan({1: [["write", "README.md", "loop\n"], *DONE]})
    bench.loop().ok()
    aside = bench.root / "aside"
    bench.git("worktree", "add", "-q", "--detach", str(aside), "feature/x")
    (aside / "README.md").write_text("upstream\n")
    bench.git("commit", "-q", "-am", "upstream", cwd=aside)
    bench.git("update-ref", "refs/heads/feature/x", bench.git("rev-parse", "HEAD", cwd=aside))
    before = bench.snapshot(runtime=False)
    result = bench.run("finish", "demo", "cleanup").ok(5)
    assert "README.md" in result.stderr
    assert bench.snapshot(runtime=False) == before


def test_S001_R3_S1_conflict_at_the_end_of_a_run_is_exit_5(bench: Bench) -> None:
    bench.plan({1: [["write", "README.md", "loop\n"], *DONE]})
    live = bench.begin("--on-complete", "ask")
    live.wait_event("complete")
    aside = bench.root / "aside"
    bench.git("worktree", "add", "-q", "--detach", str(aside), "feature/x")
    (aside / "README.md").write_text("upstream\n")
    bench.git("commit", "-q", "-am", "upstream", cwd=aside)
    bench.git("update-ref", "refs/heads/feature/x", bench.git("rev-parse", "HEAD", cwd=aside))
    before = bench.snapshot(runtime=False)
    bench.run("finish", "demo", "cleanup")
    result = live.wait().ok(5)
    assert "README.md" in result.stdout + result.stderr
    assert bench.snapshot(runtime=False) == before


def test_S001_R3_S1_original_branch_gone_is_exit_5(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    bench.git("branch", "-q", "-D", "feature/x")
    before = bench.snapshot(runtime=False)
    result = bench.run("finish", "demo", "cleanup").ok(5)
    assert "feature/x" in result.stderr
    assert bench.snapshot(runtime=False) == before


def test_S001_R3_S1_user_has_left_the_side_branch_is_exit_5(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    bench.git("checkout", "-q", "-b", "elsewhere", "feature/x")
    before = bench.snapshot(runtime=False)
    bench.run("finish", "demo", "cleanup").ok(5)
    assert bench.snapshot(runtime=False) == before


def test_S001_R3_S2_keep_preserves_every_commit(bench: Bench) -> None:
    start = bench.sha()
    bench.plan()
    live = bench.begin("--on-complete", "ask")
    live.wait_event("complete")
    tip = bench.sha("ralph/demo")
    bench.run("finish", "demo", "keep").ok()
    live.wait().ok()
    assert (bench.branch(), bench.sha()) == ("ralph/demo", tip)
    assert bench.subjects(f"{start}..ralph/demo") == [
        "initial state",
        "checkpoint: 1",
        "checkpoint: 2",
        "checkpoint: 3",
    ]
    assert bench.sha("feature/x") == start
    assert bench.status() == []


@pytest.mark.parametrize("detached", [False, True], ids=["branch", "detached"])
def test_S001_R3_S3_original_branch_survives_kill_9(bench: Bench, *, detached: bool) -> None:
    start = bench.sha()
    if detached:
        bench.git("checkout", "-q", "--detach")
    bench.plan({2: [["write", "half.txt", "half\n"], ["sleep", 600]]})
    live = bench.begin()
    bench.wait_call(2)
    live.signal(signal.SIGKILL)
    live.wait()
    assert bench.state()["original_branch"] == (start if detached else "feature/x")
    bench.run("finish", "demo", "cleanup").ok()
    assert bench.branch() == ("HEAD" if detached else "feature/x")
    assert (bench.sha(), bench.sha("feature/x")) == (start, start)
    assert bench.status() == [f" M {TASKS}", "?? work-1.txt"]
    assert not bench.has("refs/heads/ralph/demo")
    assert bench.processes() == []


def test_S001_R3_S3_detached_start_returns_to_the_same_commit(bench: Bench) -> None:
    start = bench.sha()
    bench.git("checkout", "-q", "--detach")
    bench.plan()
    bench.loop("--on-complete", "cleanup").ok()
    assert (bench.branch(), bench.sha()) == ("HEAD", start)
    assert bench.state()["original_branch"] == start
    assert bench.status() == [f" M {TASKS}", "?? work-1.txt", "?? work-2.txt", "?? work-3.txt"]


@pytest.mark.parametrize("ending", ["keep", "cleanup"])
def test_S001_X1_user_stashes_are_left_alone(bench: Bench, ending: str) -> None:
    bench.write("README.md", "stashed\n")
    bench.git("stash", "push", "-q", "-m", "ralph:demo:1")
    before = bench.git("stash", "list", "--format=%H %gd %gs")
    bench.write("README.md", "dirty\n")
    bench.plan({1: fails()})
    bench.loop("--on-complete", ending).ok()
    assert bench.git("stash", "list", "--format=%H %gd %gs") == before


def test_S001_X1_no_stash_is_made(bench: Bench) -> None:
    bench.write("README.md", "dirty\n")
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    assert not bench.has("refs/stash")
    assert [call.stash for call in bench.calls()] == ["", "", "", ""]


def test_S001_X2_only_the_side_branch_is_made(bench: Bench) -> None:
    bench.git("branch", "other")
    before = bench.refs("refs/heads/")
    bench.plan({1: fails()})
    bench.loop().ok()
    assert bench.refs("refs/heads/") == before | {"refs/heads/ralph/demo": bench.sha("ralph/demo")}


def test_S001_X3_a_stash_with_our_old_name_is_not_looked_up(bench: Bench) -> None:
    bench.write("README.md", "from the stash\n")
    bench.git("stash", "push", "-q", "-m", "ralph:demo:1")
    bench.plan({1: fails()})
    bench.loop().ok()
    assert bench.calls()[1].files == bench.calls()[0].files
    assert bench.read("README.md") == "# Bench\n"
