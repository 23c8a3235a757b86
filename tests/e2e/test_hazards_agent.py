"""The hazard matrix, what agents do: git games, work on the wrong branch, programs left behind."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE
from tests.e2e.change import TASKS
from tests.e2e.hazard_ledger import (
    COMPLETES,
    FAILS,
    assert_nothing_lost,
    finished_bytes,
    kept_bytes,
    users_bytes,
    warnings,
)
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

GAME: Actions = [["write", "game-{n}.txt", "game {n}\n"]]
CONFLICT = (
    "git checkout -q -b left-{n} && echo left > README.md && git commit -qam left"
    " && git checkout -q ralph/demo && echo right > README.md && git commit -qam right && "
)

# Each agent writes a file, plays its game, and says FAILED (story 1) or COMPLETE (story 2).
# The word is what becomes of COMPLETE: "complete", or "astray" when it would drop finished work.
GAMES: dict[str, tuple[Actions, str]] = {
    "06_agent_commits": ([*GAME, ["commit", "mine {n}"]], "complete"),
    "07_agent_amends_the_checkpoint": (
        [*GAME, ["git", "add", "-A"], ["git", "commit", "-q", "--amend", "-m", "rewritten {n}"]],
        "complete",
    ),
    "07_agent_switches_the_branch": (
        [["git", "checkout", "-q", "-b", "other-{n}"], *GAME, ["commit", "other"]],
        "complete",
    ),
    "07_agent_commits_on_the_users_branch": (
        [["git", "checkout", "-q", "-f", "feature/x"], *GAME, ["commit", "on theirs"]],
        "astray",
    ),
    "07_agent_detaches_head": (
        [["git", "checkout", "-q", "--detach"], *GAME, ["commit", "nowhere"]],
        "complete",
    ),
    "07_agent_resets_hard": ([["git", "reset", "-q", "--hard", "HEAD~1"], *GAME], "astray"),
    "07_agent_deletes_the_branch": (
        [["sh", "git checkout -q --detach && git branch -q -D ralph/demo"], *GAME],
        "complete",
    ),
    "07_agent_deletes_the_branch_under_head": (
        [["git", "update-ref", "-d", "refs/heads/ralph/demo"], *GAME],
        "astray",
    ),
    "07_agent_renames_the_branch": (
        [["git", "branch", "-m", "ralph/demo", "mine-{n}"], *GAME, ["commit", "renamed"]],
        "complete",
    ),
    "07_agent_renames_the_branch_above_itself": (
        [["git", "branch", "-m", "ralph/demo", "ralph"], *GAME, ["commit", "renamed"]],
        "complete",
    ),
    "07_agent_renames_the_branch_below_itself": (
        [["git", "branch", "-m", "ralph/demo", "ralph/demo/x"], *GAME, ["commit", "renamed"]],
        "complete",
    ),
    "07_merge_left_open": ([*GAME, ["sh", CONFLICT + "git merge left-{n}"]], "astray"),
    "07_rebase_left_open": ([*GAME, ["sh", CONFLICT + "git rebase left-{n}"]], "astray"),
    "07_cherry_pick_left_open": (
        [*GAME, ["sh", CONFLICT + "git cherry-pick left-{n}"]],
        "astray",
    ),
    "07_agent_makes_an_orphan_branch": (
        [["git", "checkout", "-q", "--orphan", "fresh-{n}"], *GAME, ["commit", "orphan"]],
        "astray",
    ),
    "07_index_lock_left_behind": ([*GAME, ["sh", "touch .git/index.lock"]], "complete"),
    "07_index_deleted": ([*GAME, ["sh", "rm .git/index"]], "complete"),
    "07_index_corrupt": ([*GAME, ["sh", "echo rubbish > .git/index"]], "complete"),
    "07_index_truncated": (
        [*GAME, ["sh", "head -c 60 .git/index > .git/i && mv .git/i .git/index"]],
        "complete",
    ),
    "07_agent_deletes_our_refs": (
        [
            *GAME,
            [
                "sh",
                "git for-each-ref --format='delete %(refname)' refs/ralph | git update-ref --stdin",
            ],
        ],
        "complete",
    ),
}


@pytest.mark.parametrize("game", GAMES)
def test_hazard_06_07_agent_git_games(bench: Bench, game: str) -> None:
    """Story 1: the game, FAILED, a good retry. Story 2: the game, COMPLETE."""
    actions, verdict = GAMES[game]
    bench.only_stories(1, 2)
    bench.write("README.md", "# the user's edit\n")
    bench.write("loose.txt", "the user's new file\n")
    user, users = bench.sha("feature/x"), users_bytes(bench)
    bench.plan({1: [*actions, *FAILS], 3: [*actions, *COMPLETES]})
    result = bench.loop("--on-complete", "cleanup").ok()
    first, retry, second, *more = bench.calls()
    assert (retry.place, retry.files) == (("ralph/demo", first.head, ""), first.files)
    assert (second.branch, second.subject, second.status) == ("ralph/demo", "checkpoint: 1", "")
    if verdict == "astray":
        assert result.outcomes() == ["failed", "complete", "verify_failed", "complete"]
        assert (more[0].place, more[0].files) == (second.place, second.files)
        assert bench.read("work-4.txt") == "work 4\n"
    else:
        assert result.outcomes() == ["failed", "complete", "complete"]
        assert bench.read("game-3.txt") == "game 3\n"
    assert (bench.branch(), bench.sha()) == ("feature/x", user)
    assert bench.read("work-2.txt") == "work 2\n"
    for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "rebase-merge", "rebase-apply", "index.lock"):
        assert not bench.path(f".git/{name}").exists(), name
    game_file = {value for name, value in finished_bytes(bench) if name == "game-1.txt"}
    assert game_file == set(), "the failed attempt's file was there for a later call"
    assert bench.blob("refs/ralph/attempts/demo/1/1", "game-1.txt") == "game 1"
    assert_nothing_lost(bench, users)
    assert kept_bytes(bench) >= {value for name, value in users if name == "README.md"}


def test_hazard_07_agent_replaces_the_checkpoint_by_another_commit(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.write("loose.txt", "the user's new file\n")
    users = users_bytes(bench)
    swap = ["sh", "git replace HEAD HEAD~1 && rm loose.txt && git add -A"]
    bench.plan({1: [swap, *FAILS], 3: [swap, *COMPLETES]})
    bench.loop().ok()
    first, retry, *_ = bench.calls()
    assert (retry.head, retry.files) == (first.head, first.files)
    assert bench.git("replace") == ""
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("again", ["", "; git init -q; git add -A; git commit -qm fresh"])
@pytest.mark.parametrize("promise", [FAILS, COMPLETES], ids=["failed", "complete"])
def test_hazard_07_agent_removes_the_git_folder(bench: Bench, promise: Actions, again: str) -> None:
    bench.write("loose.txt", "the user's new file\n")
    before = bench.contents()
    bench.plan({2: [*GAME, ["sh", f"rm -rf .git{again}"], *promise]})
    result = bench.loop()
    assert result.code == 3
    assert "The git folder of the run is gone or damaged: " in result.stderr
    assert "Traceback" not in result.stderr
    assert len(bench.calls()) == 2
    assert before.items() <= {**bench.contents(), TASKS: before[TASKS]}.items()


# What an attempt may have done beside files when its loop is killed.
MESS = {
    "nested repository": "git init -q nested && touch nested/x",
    "nested repository with a commit": "git init -q nested && cd nested && touch x && git add x"
    " && git commit -qm x && cd ..",
    "no index": "rm .git/index",
    "stash": "echo mine >> README.md && git stash -q",
    "branches": "git branch -D theirs && git update-ref refs/heads/feature/x HEAD",
    "ignore rules": "echo junk >> .gitignore && touch junk && git add -A && git commit -qm junk",
    "bisect": "git bisect start HEAD HEAD~1",
}


@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
@pytest.mark.parametrize("mess", MESS)
def test_hazard_07_restore_when_the_loop_was_killed(
    bench: Bench, mess: str, checkpoint: str
) -> None:
    bench.only_stories(1, 2)
    bench.git("branch", "theirs")
    bench.write("README.md", "stashed\n")
    bench.git("stash", "-q")
    bench.write("README.md", "staged\n")
    bench.git("add", "README.md")
    bench.write("loose.txt", "the user's new file\n")
    before, folder = _all_but_ours(bench), set(os.listdir(bench.repo / ".git"))
    bench.plan({2: [["sh", f"{MESS[mess]}; touch messy"], ["sleep", 600]]})
    live = bench.begin("--checkpoint", checkpoint)
    until(bench.path("messy").exists, what="the mess")
    live.signal(signal.SIGKILL)
    live.wait()
    bench.run("restore", "demo").ok()
    assert _all_but_ours(bench) == before
    made = set(os.listdir(bench.repo / ".git")) - folder
    assert made <= {"untildone", "ORIG_HEAD", "packed-refs"}
    bench.git("fsck", "--no-dangling")


def _all_but_ours(bench: Bench) -> dict[str, object]:
    found = bench.snapshot(runtime=False)
    ours = ("refs/ralph/", "refs/bisect/")
    return found | {"refs": {k: v for k, v in found["refs"].items() if not k.startswith(ours)}}


@pytest.mark.parametrize("words", ["resume demo", "finish demo cleanup", "restore demo"])
def test_hazard_07_index_broken_and_the_loop_killed(bench: Bench, words: str) -> None:
    bench.only_stories(1, 2)
    bench.write("loose.txt", "the user's new file\n")
    users = users_bytes(bench)
    bench.plan({2: [["sh", "echo rubbish > .git/index && touch broken"], ["sleep", 600]]})
    live = bench.begin()
    until(bench.path("broken").exists, what="the broken index")
    live.signal(signal.SIGKILL)
    live.wait()
    agent = ("--agent-cmd", bench.agent) if "resume" in words else ()
    bench.run(*words.split(), *agent).ok()
    bench.git("status")
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("promise", ["failed", "complete"])
def test_hazard_27_agent_works_on_the_users_branch(bench: Bench, promise: str) -> None:
    bench.only_stories(1, 2)
    bench.write("loose.txt", "the user's new file\n")
    user, users = bench.sha("feature/x"), users_bytes(bench)
    astray: Actions = [["git", "checkout", "-q", "feature/x"], *GAME, ["commit", "astray"]]
    bench.plan({2: [*astray, *(FAILS if promise == "failed" else COMPLETES)]})
    result = bench.loop().ok()
    assert result.outcomes()[:2] == [
        "complete",
        "failed" if promise == "failed" else "verify_failed",
    ]
    assert (bench.sha("feature/x"), bench.branch()) == (user, "ralph/demo")
    assert "checkpoint: 2" not in bench.subjects("feature/x")
    assert "moved `refs/heads/feature/x`" in warnings(result)
    tips = bench.git("for-each-ref", "--format=%(subject)", "refs/ralph/moved/demo").splitlines()
    assert "astray" in tips
    assert_nothing_lost(bench, users)


WRITER = (
    "import os, time\n"
    "while True:\n"
    "    with open('noise.bin', 'wb') as f: f.write(os.urandom(200_000))\n"
    "    with open('README.md', 'w') as f: f.write('noise')\n"
)


@pytest.mark.parametrize("promise", ["failed", "complete"])
def test_hazard_24_background_writer_outlives_the_agent(bench: Bench, promise: str) -> None:
    bench.only_stories(1, 2)
    users = users_bytes(bench)
    (bench.root / "writer.py").write_text(WRITER)
    argv = f"setsid nohup {shutil.which('python3')} {bench.root}/writer.py"
    leave: Actions = [
        ["sh", f"{argv} child-of:{bench.root} >/dev/null 2>&1 &"],
        ["wait", "noise.bin"],
    ]
    bench.plan({1: [*leave, *(FAILS if promise == "failed" else COMPLETES)]})
    bench.loop().ok()
    first, second, *_ = bench.calls()
    assert bench.processes() == []
    assert second.status == ""
    if promise == "failed":
        assert second.files == first.files
    else:
        assert second.subject == "checkpoint: 1"
        assert bench.git("ls-tree", "--name-only", "ralph/demo~1", "noise.bin") == "noise.bin"
    assert_nothing_lost(bench, users)


# What an agent may plant so that our own git commands run its program.
PLANTS = {
    "config_and_gitattributes": "git config filter.evil.clean {mark}"
    " && git config filter.evil.smudge {mark} && echo '* filter=evil' > .gitattributes",
    "config_and_info_attributes": "git config filter.evil.clean {mark}"
    " && git config filter.evil.smudge {mark} && echo '* filter=evil' > .git/info/attributes",
    "filter_process": "git config filter.evil.process {mark}"
    " && echo '* filter=evil' > .gitattributes",
    "fsmonitor": "git config core.fsmonitor {mark}",
    "hooks": "for h in post-index-change reference-transaction post-checkout pre-commit; do"
    " cp {mark} .git/hooks/$h; done",
    "hooks_path": "mkdir own && cp {mark} own/post-index-change"
    " && cp {mark} own/reference-transaction"
    " && git config core.hooksPath own",
    "signing": "git config commit.gpgSign true && git config gpg.program {mark}",
    "ssh_and_pager": "git config core.pager {mark} && git config core.editor {mark}"
    " && git config diff.external {mark}",
}


ENDS = [(plant, promise) for plant in PLANTS for promise in ("failed", "complete")]
KILLED = [(plant, "killed") for plant in ("config_and_gitattributes", "hooks_path")]


@pytest.mark.parametrize(("plant", "promise"), ENDS + KILLED)
def test_hazard_26_planted_program_does_not_run_in_our_commands(
    bench: Bench, plant: str, promise: str
) -> None:
    bench.only_stories(1, 2)
    ran = bench.root / "ran"
    mark = bench.program("planted", f"#!/bin/sh\necho $0 $@ >> {ran}\ncat\n")
    config = bench.read(".git/config")
    # The planting itself may run the program: forget that.
    deed = ["sh", PLANTS[plant].replace("{mark}", str(mark)) + f"; rm -f {ran}"]
    end = {"failed": FAILS, "complete": COMPLETES, "killed": [["wait", bench.gate("never")]]}
    bench.plan({1: [*GAME, deed, ["write", "planted.txt", "x\n"], *end[promise]]})
    if promise == "killed":
        live = bench.begin()
        until(bench.path("planted.txt").exists, what="the planted program")
        live.signal(signal.SIGKILL)
        live.wait()
        bench.run("resume", "demo", "--agent-cmd", bench.agent).ok()
    else:
        bench.loop().ok()
    assert not ran.exists(), ran.read_text()
    assert bench.read(".git/config") == config
    assert not bench.path(".git/info/attributes").exists()
    assert not os.access(bench.path(".git/hooks/post-index-change"), os.X_OK)


# Git's folders of settings, turned into something else. `{outside}` is a folder of the user's.
TWISTS = {
    "hooks_are_a_link_to_outside": "rm -rf .git/hooks && ln -s {outside} .git/hooks",
    "hooks_are_gone": "rm -rf .git/hooks",
    "hooks_are_a_file": "rm -rf .git/hooks && touch .git/hooks",
    "hook_is_a_folder": "rm .git/hooks/pre-push && mkdir .git/hooks/pre-push .git/hooks/more",
    "hook_is_a_link": "ln -sf {outside}/one.txt .git/hooks/pre-push",
    "hook_is_endless": "ln -s /dev/zero .git/hooks/pre-commit",
    "hook_is_off": "chmod -x .git/hooks/pre-push && chmod +x .git/hooks/off",
    "info_is_a_link_to_outside": "rm -rf .git/info && ln -s {outside} .git/info",
    "exclude_is_a_pipe": "rm .git/info/exclude && mkfifo .git/info/exclude",
    "config_is_a_link": "cp .git/config {outside}/c && ln -sf {outside}/c .git/config",
}


def _modes_and_bytes(*folders: Path) -> dict[str, tuple[int, bytes]]:
    """All files but git's own examples of hooks."""
    found = (path for folder in folders for path in folder.iterdir() if path.is_file())
    files = (path for path in found if path.suffix != ".sample")
    return {str(path): (path.lstat().st_mode, path.read_bytes()) for path in files}


@pytest.mark.parametrize("promise", ["failed", "complete"])
@pytest.mark.parametrize("twist", TWISTS)
def test_hazard_15_settings_turned_into_something_else(
    bench: Bench, twist: str, promise: str
) -> None:
    git, outside = bench.path(".git"), bench.root / "outside"
    outside.mkdir()
    (outside / "one.txt").write_text("one\n")
    (git / "hooks").mkdir(exist_ok=True)
    for name, mode in {"pre-push": 0o755, "off": 0o644}.items():
        (git / "hooks" / name).write_text("#!/bin/sh\n")
        (git / "hooks" / name).chmod(mode)
    bench.write(".git/info/exclude", "private.txt\n")
    bench.only_stories(1, 2)
    before, files = _modes_and_bytes(git / "hooks"), _modes_and_bytes(outside)
    config = _modes_and_bytes(git)[str(git / "config")]
    deed = ["sh", TWISTS[twist].replace("{outside}", str(outside))]
    bench.plan({1: [deed, *(FAILS if promise == "failed" else COMPLETES)]})
    result = bench.loop().ok()
    assert "it was put back" in warnings(result)
    assert _modes_and_bytes(git / "hooks") == before
    assert [path.is_symlink() for path in (git / "hooks", git / "info")] == [False, False]
    assert not (git / "hooks/more").exists()
    assert (git / "info/exclude").read_text().startswith("private.txt\n")
    assert _modes_and_bytes(git)[str(git / "config")] == config
    assert files.items() <= _modes_and_bytes(outside).items()


def test_hazard_15_hooks_that_are_a_link_of_the_users(bench: Bench) -> None:
    hooks, outside = bench.path(".git/hooks"), bench.root / "shared-hooks"
    shutil.rmtree(hooks, ignore_errors=True)
    outside.mkdir()
    (outside / "pre-push").write_text("#!/bin/sh\n")
    hooks.symlink_to(outside)
    came_later = ["sh", f"echo later > {outside}/commit-msg && rm .git/hooks && mkdir .git/hooks"]
    bench.plan({1: [came_later, *FAILS]})
    bench.loop().ok()
    assert hooks.readlink() == outside
    assert sorted(path.name for path in outside.iterdir()) == ["commit-msg", "pre-push"]


def test_hazard_06_story_that_changes_nothing_or_is_all_committed_is_done(bench: Bench) -> None:
    start = bench.sha()
    committed: Actions = [["tick", "2"], *DONE[:1], ["commit", "all of it"], *COMPLETES]
    bench.plan({1: [["tick", "1"], ["commit", "ticked"], *COMPLETES], 2: committed})
    assert bench.loop().ok().outcomes() == ["complete"] * 3
    assert bench.subjects(f"{start}..ralph/demo") == [
        *("initial state", "ticked", "checkpoint: 1", "all of it", "checkpoint: 2"),
        "checkpoint: 3",
    ]
