"""S002: checkpoints in the stash list, with the user's files, index and branch left alone."""

# ruff: noqa: N802 - the ids of the requirement rows are part of the names
from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, fails
from tests.e2e.change import TASKS, tasks_text
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
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def user_stash(bench: Bench, text: str) -> None:
    """An entry of the user's own; the tree is clean afterwards."""
    bench.write("README.md", f"{text}\n")
    bench.git("stash", "push", "-q", "-m", text)


# save


def test_S002_R1_no_entry_without_the_flag(bench: Bench) -> None:
    make_dirty(bench)
    bench.plan({1: fails()})
    bench.loop().ok()
    assert [call.stash for call in bench.calls()] == [""] * 4


def test_S002_R1_slow_git_blocks_neither_status_nor_a_signal(bench: Bench) -> None:
    mark = bench.root / "slow"
    real = bench.git("--exec-path") + "/git"
    bench.program(
        "git",
        "#!/bin/sh\n"
        f'case " $* " in *" update-ref -m On "*) '
        f"[ -e {mark} ] || {{ touch {mark}; sleep 3; }} ;; esac\n"
        f'exec {real} "$@"\n',
    )
    make_dirty(bench)
    bench.plan()
    live = bench.begin(*STASH)
    until(mark.exists, what="the slow git call")
    began = time.monotonic()
    bench.run("status", "--json").ok()
    assert time.monotonic() - began < 2.5
    live.signal(signal.SIGINT)
    assert live.wait(5).code == 130


def test_S002_R1_S1_entry_holds_tracked_and_untracked_files_that_stay(bench: Bench) -> None:
    make_dirty(bench)
    before, start = users_view(bench), bench.sha()
    live, call = held(bench, at=1, then=DONE)
    assert names(call) == ["ralph:demo:1"]
    during = users_view(bench)
    assert during | {"stash": []} == before
    assert bench.git("rev-parse", "stash@{0}^1") == start
    assert bench.blob("stash@{0}", "README.md") == "# staged and more"
    assert bench.blob("stash@{0}", "run.sh") == "#!/bin/sh\necho edited"
    assert not bench.has("stash@{0}:src/app.py")
    assert bench.blob("stash@{0}^2", "README.md") == "# staged"
    assert bench.blob("stash@{0}^2", "staged new.txt") == "staged new"
    untracked = bench.git("ls-tree", "-rz", "--name-only", "stash@{0}^3").split("\0")
    assert sorted(filter(None, untracked)) == ["intended.txt", "notes/ünï cödé.txt", "src/new.py"]
    bench.open_gate("go")
    live.wait().ok()


def test_S002_R1_S1_git_itself_can_apply_the_entry(bench: Bench) -> None:
    make_dirty(bench)
    bench.git("rm", "-q", "--cached", "intended.txt")  # `git stash` knows no intent-to-add
    before = users_view(bench)
    live, _ = held(bench, at=1, then=DONE)
    twin = bench.root / "twin"
    bench.git("clone", "-q", str(bench.repo), str(twin))
    bench.git("fetch", "-q", str(bench.repo), "refs/stash", cwd=twin)
    bench.git("stash", "apply", "-q", "--index", "FETCH_HEAD", cwd=twin)
    assert bench.status(cwd=twin) == before["status"]
    assert bench.git("ls-files", "-s", "-t", cwd=twin) == before["index"]
    found = bench.contents(twin)
    assert found == {name: before["files"][name] for name in found}
    bench.open_gate("go")
    live.wait().ok()


def test_S002_R1_S1_later_entry_holds_the_finished_stories(bench: Bench) -> None:
    live, call = held(bench, at=2, then=DONE)
    assert names(call) == ["ralph:demo:2"]
    assert bench.blob("stash@{0}^3", "work-1.txt") == "work 1"
    assert bench.blob("stash@{0}", TASKS) == tasks_text([1]).rstrip("\n")
    assert bench.read("work-1.txt") == "work 1\n"
    bench.open_gate("go")
    live.wait().ok()


def test_S002_R1_S1_clean_tree_has_no_entry(bench: Bench) -> None:
    bench.plan({1: fails()})
    bench.loop(*STASH).ok()
    first, retry = bench.calls()[:2]
    assert (first.stash, retry.stash) == ("", "")
    assert (retry.place, retry.files) == (first.place, first.files)


def test_S002_R1_S1_staged_only_is_not_clean(bench: Bench) -> None:
    bench.write("README.md", "# staged\n")
    bench.git("add", "README.md")
    bench.write("README.md", "# Bench\n")
    before = users_view(bench)
    bench.plan({1: fails()})
    bench.loop(*STASH).ok()
    assert [names(call) for call in bench.calls()[:2]] == [["ralph:demo:1"]] * 2
    assert users_view(bench)["index"] == before["index"]


def test_S002_R1_S1_ignored_files_and_loop_files_are_in_no_entry(bench: Bench) -> None:
    make_dirty(bench)
    live, _ = held(bench, at=1, then=DONE)
    inside = [
        bench.git("ls-tree", "-r", "--name-only", f"stash@{{0}}{parent}").splitlines()
        for parent in ("", "^2", "^3")
    ]
    found = {name for rows in inside for name in rows}
    assert not {".env", "build/cache.bin", ".claude/loop-state.json"} & found
    bench.open_gate("go")
    live.wait().ok()


def test_S002_R1_S2_message_is_the_name_after_the_branch(bench: Bench) -> None:
    bench.git("mv", "openspec/changes/demo", "openspec/changes/my-feature")
    bench.commit("renamed")
    make_dirty(bench)
    bench.plan()
    args = ("run", "my-feature", *STASH, "--json", "--agent-cmd", bench.agent)
    bench.run(*args).ok()
    assert bench.calls()[0].stash == "stash@{0}: On feature/x: ralph:my-feature:1"


def test_S002_R1_S2_detached_head(bench: Bench) -> None:
    bench.git("checkout", "-q", "--detach")
    make_dirty(bench)
    before, start = users_view(bench), bench.sha()
    bench.plan({1: [["commit", "mine"], *fails()]})
    bench.loop(*STASH).ok()
    calls = bench.calls()
    assert calls[0].stash == calls[1].stash == "stash@{0}: On (no branch): ralph:demo:1"
    assert calls[0].place == calls[1].place
    after = users_view(bench)
    assert (bench.branch(), bench.sha()) == ("HEAD", start)
    assert (after["head"], after["heads"]) == (before["head"], before["heads"])
    assert after["index"] == before["index"]


# the whole run


@pytest.mark.parametrize("ending", ["keep", "cleanup"])
def test_S002_no_branch_no_commit_and_the_staged_split_is_kept(bench: Bench, ending: str) -> None:
    make_dirty(bench)
    before = users_view(bench)
    bench.plan({2: [["append", "run.sh", "echo more\n"], *DONE], 3: fails()})
    bench.loop(*STASH, "--on-complete", ending).ok()
    after = users_view(bench)
    for same in ("head", "heads", "index", "staged", "stash"):
        assert after[same] == before[same], same
    files = dict(after["files"])
    for name in ("work-1.txt", "work-2.txt", "work-4.txt"):
        del files[name]
    changed = {name for name, kind in files.items() if before["files"].get(name) != kind}
    assert changed == {"run.sh", TASKS}
    assert before["files"].keys() == files.keys()
    assert bench.state()["original_branch"] == "feature/x"
    assert [it["outcome"] for it in bench.state()["iterations"]] == [
        "complete",
        "complete",
        "failed",
        "complete",
    ]


# put back

# name: what the failing call does, and files that its saved attempt must hold.
MATRIX: dict[str, tuple[Actions, dict[str, str]]] = {
    "tracked edit": ([["write", "run.sh", "broken\n"]], {"run.sh": "broken"}),
    "edit of a staged file": ([["write", "README.md", "broken\n"]], {"README.md": "broken"}),
    "delete": ([["delete", "README.md"]], {}),
    "delete of an untracked file of the user": ([["delete", "notes/ünï cödé.txt"]], {}),
    "deleted file is back": ([["write", "src/app.py", "back\n"]], {"src/app.py": "back"}),
    "staged new file": (
        [["write", "staged.txt", "staged\n"], ["git", "add", "-A"]],
        {"staged.txt": "staged"},
    ),
    "everything unstaged": ([["git", "reset", "-q"]], {}),
    "untracked folder": ([["write", "deep/er/new.txt", "new\n"]], {"deep/er/new.txt": "new"}),
    "empty folder": ([["mkdir", "empty/folder"]], {}),
    "own commit": (
        [["write", "mine.txt", "mine\n"], ["commit", "agent's own"], ["append", "mine.txt", "2\n"]],
        {"mine.txt": "mine\n2"},
    ),
    "amended commit of the user": (
        [
            ["write", "mine.txt", "mine\n"],
            ["git", "add", "-A"],
            ["git", "commit", "-q", "--amend", "-m", "rewritten"],
        ],
        {"mine.txt": "mine"},
    ),
    "reset hard": ([["git", "reset", "-q", "--hard"]], {}),
    "reset hard to before": ([["git", "reset", "-q", "--hard", "HEAD~1"]], {}),
    "clean": ([["git", "clean", "-qfd"]], {}),
    "own branch": (
        [["git", "checkout", "-q", "-b", "other"], ["write", "mine.txt", "m\n"], ["commit", "m"]],
        {"mine.txt": "m"},
    ),
    "orphan branch": (
        [["git", "checkout", "-q", "--orphan", "o"], ["write", "mine.txt", "m\n"], ["commit", "m"]],
        {"mine.txt": "m"},
    ),
    "detached head": (
        [["git", "checkout", "-q", "--detach"], ["write", "mine.txt", "m\n"], ["commit", "m"]],
        {"mine.txt": "m"},
    ),
    "the user's branch deleted": (
        [["sh", "git checkout -q --detach && git branch -q -D feature/x"]],
        {},
    ),
    "the user's branch renamed": ([["git", "branch", "-m", "feature/y"]], {}),
    "nested repository": ([["nested", "nested", True]], {}),
    "nested repository without commit": ([["nested", "nested", False]], {}),
    "hidden by own ignore rules": (
        [["append", ".gitignore", "junk/\n"], ["write", "junk/file.txt", "junk\n"]],
        {"junk/file.txt": "junk"},
    ),
    "ignore rules gone": ([["write", ".gitignore", "\n"]], {".gitignore": ""}),
    "mode change": ([["chmod", "run.sh", 0o755]], {}),
    "half-done merge": ([["sh", "git stash -q -u"], ["half_merge"]], {}),
    "half-done rebase": ([["sh", "git stash -q -u"], ["half_rebase"]], {}),
    "stale index lock": ([["write", "a.txt", "a\n"], ["sh", "touch .git/index.lock"]], {}),
    "index deleted": ([["write", "a.txt", "a\n"], ["sh", "rm .git/index"]], {"a.txt": "a"}),
    "index broken": ([["write", "a.txt", "a\n"], ["sh", "echo x > .git/index"]], {"a.txt": "a"}),
    "stash": ([["write", "run.sh", "gone\n"], ["git", "stash", "-q"]], {}),
    "stash with untracked": ([["write", "a.txt", "a\n"], ["git", "stash", "-q", "-u"]], {}),
    "stash dropped": ([["git", "stash", "drop", "-q"]], {}),
    "lower stash dropped": ([["git", "stash", "drop", "-q", "stash@{1}"]], {}),
    "stash popped": ([["git", "reset", "-q", "--hard"], ["git", "stash", "pop", "-q"]], {}),
    "stash list cleared": ([["git", "stash", "clear"]], {}),
    "stash list cleared and filled": (
        [["git", "stash", "clear"], ["write", "a.txt", "a\n"], ["git", "stash", "-q", "-u"]],
        {},
    ),
}


@pytest.mark.parametrize("case", MATRIX)
def test_S002_R2_S2_put_back_to_the_state_before_the_attempt(bench: Bench, case: str) -> None:
    actions, saved = MATRIX[case]
    user_stash(bench, "mine, older")
    user_stash(bench, "mine, newer")
    make_dirty(bench)
    before = users_view(bench)
    bench.plan({2: [*actions, ["say", "I am off."]]})
    bench.loop(*STASH).ok()
    _, failing, retry = bench.calls()[:3]
    assert names(failing) == ["ralph:demo:2", "mine, newer", "mine, older"]
    assert (retry.place, retry.stash) == (failing.place, failing.stash)
    assert retry.files == failing.files
    for name in ("MERGE_HEAD", "rebase-merge", "rebase-apply", "index.lock"):
        assert not bench.path(f".git/{name}").exists(), name
    after = users_view(bench)
    for same in ("head", "index", "staged", "stash"):
        assert after[same] == before[same], same
    assert before["heads"].items() <= after["heads"].items()
    assert (bench.read(".env"), bench.read("build/cache.bin")) == ("SECRET=1\n", "cache\n")
    ref = "refs/ralph/attempts/demo/2/1"
    assert bench.state()["iterations"][1]["saved_ref"] == ref
    assert {path: bench.blob(ref, path) for path in saved} == saved
    listing = bench.git("ls-tree", "-r", "--name-only", ref).splitlines()
    assert not {".env", "build/cache.bin", ".claude/loop-state.json"} & set(listing)
    bench.git("fsck", "--connectivity-only", "--no-dangling")


def test_S002_R2_S1_entry_is_kept_while_retries_are_left(bench: Bench) -> None:
    make_dirty(bench)
    bench.plan({1: fails(), 2: fails()})
    bench.loop(*STASH).ok()
    first, second, third, fourth = bench.calls()[:4]
    assert names(first) == ["ralph:demo:1"]
    assert first.stash == second.stash == third.stash
    assert first.files == second.files == third.files
    assert names(fourth) == ["ralph:demo:2"]


def test_S002_R2_S1_story_1_is_not_story_10(bench: Bench) -> None:
    stories = [f"Story{n} text" for n in range(1, 12)]
    bench.write(TASKS, tasks_text(range(2, 10), stories))
    bench.commit("eleven stories")
    bench.write("README.md", "an entry for story 10\n")
    bench.git("stash", "push", "-q", "-m", "ralph:demo:10")
    bench.write("README.md", "# mine\n")
    bench.plan({1: fails()})
    bench.loop(*STASH, "--max-iterations", "2").ok(3)
    first, retry = bench.calls()[:2]
    assert names(first) == names(retry) == ["ralph:demo:1", "ralph:demo:10"]
    assert retry.files == first.files
    assert bench.read("README.md") == "# mine\n"


def test_S002_R2_S1_earlier_entry_of_the_same_name_is_not_taken_for_ours(bench: Bench) -> None:
    user_stash(bench, "ralph:demo:1")
    (line,) = listed(bench)
    commit = line.split()[0]
    make_dirty(bench)
    bench.plan({1: fails()})
    live, call = held(bench, at=1, then=fails())
    assert names(call) == ["ralph:demo:1"]
    assert bench.blob("stash@{0}", "README.md") == "# staged and more"
    bench.open_gate("go")
    live.wait().ok()
    first, retry = bench.calls()[:2]
    assert (retry.files, retry.stash) == (first.files, first.stash)
    assert listed(bench) == []
    assert commit in bench.refs("refs/ralph/").values(), "the dropped entry is kept by no ref"


def test_S002_R2_S2_partial_staging_of_one_file_is_kept_exactly(bench: Bench) -> None:
    bench.write("lines.txt", "".join(f"{n}\n" for n in range(20)))
    bench.commit("lines")
    text = bench.read("lines.txt")
    bench.write("lines.txt", text.replace("3\n", "three\n", 1))
    bench.git("add", "lines.txt")
    bench.write("lines.txt", bench.read("lines.txt").replace("19\n", "nineteen\n"))
    before = users_view(bench)
    raw = bench.path(".git/index").read_bytes()
    bench.plan({1: [["git", "add", "-A"], *fails()], 2: [["git", "commit", "-qam", "x"], *DONE]})
    bench.loop(*STASH).ok()
    after = users_view(bench)
    assert (after["index"], after["staged"]) == (before["index"], before["staged"])
    assert after["head"] == before["head"]
    assert len(bench.path(".git/index").read_bytes()) == len(raw)


# the agent's git games with COMPLETE


def test_S002_R3_S1_commits_on_the_users_branch_are_stored_and_undone(bench: Bench) -> None:
    make_dirty(bench)
    before = users_view(bench)
    bench.plan({1: [["write", "mine.txt", "m\n"], ["commit", "agent's own"], *DONE]})
    bench.loop(*STASH).ok()
    after = users_view(bench)
    for same in ("head", "heads", "index"):
        assert after[same] == before[same], same
    assert bench.read("mine.txt") == "m\n"
    (commit, *_) = bench.state()["iterations"][0]["commits"]
    assert bench.git("log", "-1", "--format=%s", commit) == "agent's own"
    assert bench.git("for-each-ref", "--contains", commit, "refs/ralph/")


def test_S002_R3_S1_commits_on_another_branch_are_done_and_head_is_home(bench: Bench) -> None:
    make_dirty(bench)
    before = users_view(bench)
    bench.plan({1: [["git", "checkout", "-q", "-b", "o"], ["commit", "x"], *DONE]})
    bench.loop(*STASH).ok()
    after = users_view(bench)
    assert (after["head"], after["index"]) == (before["head"], before["index"])
    assert bench.read("work-1.txt") == "work 1\n"


@pytest.mark.parametrize(
    "game",
    [["stash", "drop", "-q"], ["stash", "clear"], ["stash", "drop", "-q", "stash@{1}"]],
    ids=["drop", "clear", "lower"],
)
def test_S002_R3_S1_agent_that_drops_entries_loses_none(bench: Bench, game: list[str]) -> None:
    user_stash(bench, "mine")
    make_dirty(bench)
    before = listed(bench)
    bench.plan({1: [["git", *game], *DONE]})
    bench.loop(*STASH).ok()
    assert names(bench.calls()[1]) == ["ralph:demo:2", "mine"]
    assert listed(bench) == before


@pytest.mark.parametrize(
    "wipe",
    ["git reset -q --hard", "git stash -q", "git stash -q -u", "git checkout -q ."],
)
def test_S002_R3_S1_wiped_work_is_not_taken_for_done(bench: Bench, wipe: str) -> None:
    make_dirty(bench)
    bench.git("rm", "-q", "--cached", "intended.txt")  # `git stash` knows no intent-to-add
    bench.plan({2: [["sh", wipe], *DONE]})
    result = bench.loop(*STASH).ok()
    assert result.outcomes() == ["complete", "verify_failed", "complete", "complete"]
    _, failing, retry = bench.calls()[:3]
    assert retry.files == failing.files
    assert "uncommitted" in retry.prompt


def test_S002_R3_S1_index_deleted_by_a_finished_story_is_put_back(bench: Bench) -> None:
    make_dirty(bench)
    before = users_view(bench)
    bench.plan({1: [["sh", "rm .git/index"], *DONE]})
    bench.loop(*STASH).ok()
    assert users_view(bench)["index"] == before["index"]


# drop


def test_S002_R3_S1_entry_is_gone_before_the_next_call(bench: Bench) -> None:
    make_dirty(bench)
    bench.plan()
    bench.loop(*STASH).ok()
    seen = [names(call) for call in bench.calls()]
    assert seen == [["ralph:demo:1"], ["ralph:demo:2"], ["ralph:demo:3"]]
    assert entries(bench) == []


def test_S002_R3_S1_users_stashes_above_and_below_keep_order_and_hash(bench: Bench) -> None:
    user_stash(bench, "below")
    (below,) = listed(bench)
    bench.write("README.md", "dirty\n")
    bench.plan({2: [["wait", bench.gate("go")], *DONE]})
    live = bench.begin(*STASH, "--on-complete", "ask")
    bench.wait_call(2)
    bench.open_gate("go")
    live.wait_event("complete")
    user_stash(bench, "above")
    above = listed(bench)[0]
    bench.run("finish", "demo", "cleanup").ok()
    live.wait().ok()
    assert listed(bench) == [above, below]


def test_S002_R3_S1_entry_below_a_users_stash_is_dropped_alone(bench: Bench) -> None:
    bench.write("README.md", "dirty\n")
    live, _ = held(bench, at=1, then=DONE)
    bench.run("stop", "demo").ok()
    live.wait().ok(6)
    bench.git("stash", "push", "-q", "-u", "-m", "above")
    assert entries(bench) == ["above", "ralph:demo:1"]
    above = listed(bench)[0]
    bench.run("finish", "demo", "keep").ok()
    assert listed(bench) == [above]


@pytest.mark.parametrize(
    ("instant", "below"),
    [("update-ref -m checkpoint: 1", []), ("stash drop", ["below"])],
    ids=["the only entry", "one of several"],
)
def test_S002_R3_S1_user_who_stashes_in_that_very_instant_loses_nothing(
    bench: Bench, instant: str, below: list[str]
) -> None:
    for name in below:
        user_stash(bench, name)
    mark, real = bench.root / "stashed", bench.git("--exec-path") + "/git"
    bench.program(
        "git",
        "#!/bin/sh\n"
        f'case " $* " in *" {instant} "*) [ -e {mark} ] || {{ touch {mark};'
        f" echo mine > mine.txt; {real} add mine.txt; {real} stash push -q -m mine mine.txt; }} ;;"
        f' esac\nexec {real} "$@"\n',
    )
    bench.write("README.md", "dirty\n")
    bench.plan()
    bench.loop(*STASH).ok()
    assert mark.exists()
    assert entries(bench) == ["mine", *below]
    assert bench.blob("stash@{0}", "mine.txt") == "mine"


@pytest.mark.parametrize("ending", ["keep", "cleanup"])
@pytest.mark.parametrize("status", ["done", "stuck"])
def test_S002_R4_S1_no_entry_of_the_change_is_left(bench: Bench, ending: str, status: str) -> None:
    user_stash(bench, "mine")
    user_stash(bench, "ralph:demo2:1")
    user_stash(bench, "ralph:dem:1")
    user_stash(bench, "about ralph:demo:1")
    theirs = listed(bench)
    make_dirty(bench)
    bench.plan({}, DONE if status == "done" else fails())
    args = (*STASH, "--max-retries", "1", "--on-complete", ending)
    bench.loop(*args).ok(0 if status == "done" else 3)
    assert bench.state()["status"] == status
    assert listed(bench) == theirs


def test_S002_R4_S1_changes_a_and_a2(bench: Bench) -> None:
    for name in ("a", "a2"):
        bench.write(f"openspec/changes/{name}/proposal.md", "# P\n")
        bench.write(f"openspec/changes/{name}/tasks.md", tasks_text())
    bench.commit("two more changes")
    user_stash(bench, "ralph:a2:1")
    user_stash(bench, "ralph:a:1:extra")
    theirs = listed(bench)[1:]
    bench.write("README.md", "dirty\n")
    bench.plan()
    bench.run("run", "a", *STASH, "--json", "--agent-cmd", bench.agent).ok()
    assert names(bench.calls()[0])[0] == "ralph:a:1"
    assert listed(bench) == theirs


def test_S002_R4_S2_lookup_does_not_depend_on_the_language(bench: Bench) -> None:
    user_stash(bench, "mine")
    mine = listed(bench)
    make_dirty(bench)
    language = {"LANGUAGE": "de:fr", "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}
    bench.plan({1: fails()})
    bench.loop(*STASH, env=language).ok()
    assert [names(call)[0] for call in bench.calls()] == [
        "ralph:demo:1",
        "ralph:demo:1",
        "ralph:demo:2",
        "ralph:demo:3",
    ]
    assert listed(bench) == mine


@pytest.mark.parametrize(
    "setting",
    [
        "log.date=iso",
        "log.showSignature=true",
        "stash.showIncludeUntracked=true",
        "log.follow=true",
    ],
)
def test_S002_R4_S2_lookup_does_not_depend_on_settings(bench: Bench, setting: str) -> None:
    bench.git("config", *setting.split("="))
    user_stash(bench, "mine")
    make_dirty(bench)
    bench.plan({1: fails()})
    bench.loop(*STASH).ok()
    assert entries(bench) == ["mine"]


# going on


def test_S002_kill_9_then_status_and_resume(bench: Bench) -> None:
    user_stash(bench, "mine")
    make_dirty(bench)
    before = users_view(bench)
    games: Actions = [["write", "half.txt", "half\n"], ["commit", "x"], ["git", "stash", "clear"]]
    killed(bench, does=games)
    (loop,) = bench.loops()
    assert (loop["status"], loop["alive"]) == ("stopped", False)
    bench.run("resume", "demo", "--json").ok()
    failing, retry = bench.calls()[1:3]
    assert (retry.place, retry.files, retry.stash) == (failing.place, failing.files, failing.stash)
    after = users_view(bench)
    for same in ("head", "heads", "index", "stash"):
        assert after[same] == before[same], same
    assert bench.blob("refs/ralph/attempts/demo/2/1", "half.txt") == "half"
    assert len(bench.calls()) == 4


def test_S002_kill_9_then_run_goes_on(bench: Bench) -> None:
    make_dirty(bench)
    killed(bench)
    bench.run("run", "demo", "--json", "--agent-cmd", bench.agent).ok()
    failing, retry = bench.calls()[1:3]
    assert (retry.place, retry.files, retry.stash) == (failing.place, failing.files, failing.stash)
    assert bench.refs("refs/heads/ralph/") == {}
    assert entries(bench) == []
    assert len(bench.calls()) == 4


def test_S002_kill_9_then_another_change_is_refused(bench: Bench) -> None:
    bench.write("openspec/changes/other/proposal.md", "# P\n")
    bench.write("openspec/changes/other/tasks.md", tasks_text())
    bench.commit("other")
    killed(bench)
    before = bench.snapshot(runtime=False)
    for flags in (STASH, ()):
        result = bench.run("run", "other", *flags, "--agent-cmd", bench.agent).ok(2)
        assert "untildone resume demo" in result.stderr
        assert "untildone finish demo" in result.stderr
    assert bench.snapshot(runtime=False) == before


@pytest.mark.parametrize("how", ["--now", "--after-iteration", "--after-story"])
def test_S002_stop_and_resume(bench: Bench, how: str) -> None:
    make_dirty(bench)
    before = users_view(bench)
    live, call = held(bench, at=2, then=DONE)
    bench.run("stop", "demo", how).ok()
    bench.open_gate("go")
    live.wait().ok(6)
    done = how != "--now"
    assert bench.path("work-2.txt").exists() is done
    view = users_view(bench)
    assert (view["head"], view["index"]) == (before["head"], before["index"])
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    assert entries(bench) == []
    assert len(bench.calls()) == (3 if done else 4)
    if not done:
        assert bench.calls()[2].files == call.files


def test_S002_edits_and_staging_between_stop_and_resume_are_kept(bench: Bench) -> None:
    make_dirty(bench)
    live, _ = held(bench, at=2, then=fails())
    bench.run("stop", "demo").ok()
    live.wait().ok(6)
    bench.write("by hand.txt", "by hand\n")
    bench.write("run.sh", "#!/bin/sh\necho by hand\n")
    bench.git("add", "run.sh")
    index = users_view(bench)["index"]
    bench.plan({3: [["write", "by hand.txt", "broken\n"], ["git", "add", "-A"], *fails()]})
    bench.run("resume", "demo", "--json").ok()
    assert bench.read("by hand.txt") == "by hand\n"
    assert users_view(bench)["index"] == index
    failing, retry = bench.calls()[2:4]
    assert (retry.files, retry.stash) == (failing.files, failing.stash)
    assert names(retry) == ["ralph:demo:2"]


def test_S002_moved_head_between_stop_and_resume_is_refused(bench: Bench) -> None:
    live, _ = held(bench, at=2, then=fails())
    bench.run("stop", "demo").ok()
    live.wait().ok(6)
    bench.git("checkout", "-q", "-b", "elsewhere")
    before = bench.snapshot(runtime=False)
    result = bench.run("resume", "demo").ok(2)
    assert "git checkout feature/x" in result.stderr
    assert bench.snapshot(runtime=False) == before


# the end, after the fact


@pytest.mark.parametrize("ending", ["keep", "cleanup"])
def test_S002_finish_after_kill_9(bench: Bench, ending: str) -> None:
    user_stash(bench, "mine")
    make_dirty(bench)
    before = users_view(bench)
    killed(bench)
    said = bench.run("finish", "demo", ending).ok().stdout
    assert "All changes are uncommitted edits in your working tree" in said
    after = users_view(bench)
    for same in ("head", "heads", "index", "stash"):
        assert after[same] == before[same], same
    assert bench.read("work-1.txt") == "work 1\n"
    assert not bench.path("half.txt").exists()
    assert bench.has(WORK) is (ending == "keep")
    assert bench.processes() == []


def test_S002_finish_leaves_what_the_user_did_since_alone(bench: Bench) -> None:
    make_dirty(bench)
    bench.plan()
    bench.loop(*STASH).ok()
    bench.commit("all of it")
    bench.write("README.md", "# next\n")
    bench.git("add", "README.md")
    before = users_view(bench)
    bench.run("finish", "demo", "cleanup").ok()
    assert users_view(bench) == before


def test_S002_restore_is_exact(bench: Bench) -> None:
    user_stash(bench, "mine")
    make_dirty(bench)
    before = users_view(bench)
    bench.plan({}, [["append", "run.sh", "more\n"], ["delete", "README.md"], *DONE])
    live = bench.begin(*STASH, "--on-complete", "ask")
    live.wait_event("complete")
    live.signal(signal.SIGTERM)
    live.wait()
    bench.run("restore", "demo").ok()
    assert users_view(bench) == before
    assert not bench.has(WORK)


def test_S002_restore_after_kill_9(bench: Bench) -> None:
    user_stash(bench, "mine")
    make_dirty(bench)
    before = users_view(bench)
    killed(bench, does=[["write", "half.txt", "half\n"], ["git", "add", "-A"]])
    bench.run("restore", "demo").ok()
    assert users_view(bench) == before


def test_S002_attempts_restore_keeps_the_staged_part(bench: Bench) -> None:
    make_dirty(bench)
    before = users_view(bench)
    bench.plan({1: [["append", "run.sh", "tried\n"], *fails("no")]})
    bench.loop(*STASH).ok()
    assert "1/1" in bench.run("attempts", "demo").ok().stdout
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert bench.read("run.sh") == "#!/bin/sh\necho edited\ntried\n"
    assert bench.read("mess-1.txt") == "mess\n"
    after = users_view(bench)
    assert (after["index"], after["head"]) == (before["index"], before["head"])


# the plain loop


def test_S002_plain_loop(bench: Bench) -> None:
    make_dirty(bench)
    before = users_view(bench)
    bench.plan({3: [["write", "last.txt", "x\n"], ["say", COMPLETE]]}, DONE[:1])
    args = ("--task", "write things", "--done", "promise", "--max-iterations", "3")
    bench.loop(*STASH, *args).ok()
    assert [names(call) for call in bench.calls()] == [
        [f"ralph:write-things:iteration-{n}"] for n in (1, 2, 3)
    ]
    after = users_view(bench)
    for same in ("head", "heads", "index", "stash"):
        assert after[same] == before[same], same
    for name in ("work-1.txt", "work-2.txt", "last.txt"):
        assert bench.path(name).exists()


def test_S002_plain_loop_stalls_without_work_and_leaves_no_entry(bench: Bench) -> None:
    make_dirty(bench)
    before = users_view(bench)
    bench.plan({}, [["say", "nothing to do"]])
    bench.loop(*STASH, "--task", "idle", "--done", "manual").ok(4)
    assert users_view(bench) == before


def test_doctor_names_the_entry_of_a_killed_run(bench: Bench) -> None:
    bench.write("README.md", "edited\n")
    bench.plan({1: [["sleep", 60]]})
    live = bench.begin("--checkpoint", "stash")
    bench.wait_call(1)
    live.kill_unguarded()
    said = bench.run("doctor").stdout
    assert "stash@{0} ralph:demo:1" in " ".join(said.split())
