"""Slots: private clones that are brought to a base, whatever was left in them."""

import os
import shutil
from pathlib import Path
from threading import Timer

import pytest

from tests.adapters.slots.lanes import Lanes, everything, files, is_sound, shell
from tests.adapters.worktree import shell_git
from untildone.adapters.slots.slot import LOOKING, slots_folder
from untildone.domain.errors import UserError

HARM = {
    "clears the stash": "echo x >> a.txt; git stash; git stash clear",
    "collects garbage": "echo x > n; git add n; git commit -qm n; git reflog expire --expire=now "
    "--all; git gc -q --prune=now",
    "resets": "echo x > n; git add n; git commit -qm n; git reset -q --hard HEAD~1; git clean -fdq",
    "removes .git": "rm -rf .git",
    "removes its files": "rm -rf src a.txt .gitignore",
    "removes everything": "rm -rf ..?* .[!.]* *",
    "makes a repository of its own": "rm -rf .git; git init -q; git add -A; git commit -qm own",
    "empties its git folder": 'rm -rf "$(git rev-parse --git-dir)"/*',
    "removes its objects": "echo x > n; git add n; git commit -qm n; "
    'rm -rf "$(git rev-parse --git-dir)/objects"',
    "breaks HEAD": 'echo nonsense > "$(git rev-parse --git-dir)/HEAD"',
    "breaks the index": 'echo nonsense > "$(git rev-parse --git-dir)/index"',
    "borrows nothing": 'rm "$(git rev-parse --git-dir)/objects/info/alternates"',
    "sets hooks and filters": "git config core.hooksPath /tmp; git config core.bare true",
    "deletes branches": "git checkout -q --detach; git branch -D ralph/demo",
    "works on a branch": "git checkout -q -b other; echo x > n; git add n; git commit -qm n",
    "leaves a lock": 'touch "$(git rev-parse --git-dir)/index.lock"; echo x > n',
    "makes it a link": "cd ..; mv repo elsewhere; ln -s elsewhere repo",
}


def test_a_slot_has_the_files_of_its_base_and_nothing_else_of_the_repository(lanes: Lanes) -> None:
    lanes.repo.sh("remote", "add", "origin", "https://example.invalid/x")
    lanes.repo.sh("tag", "v1")
    lanes.repo.write("a.txt", "edited by hand\n")

    top = lanes.prepare().slot.top

    assert files(top) == {
        ".gitignore": b"node_modules/\n.env\n",
        "a.txt": b"a\n",
        "src/b.txt": b"b\n",
    }
    assert shell_git(top, "remote") == ""
    assert shell_git(top, "for-each-ref", "--format=%(refname)") == "refs/heads/ralph/demo"
    assert shell_git(top, "status", "--porcelain", "--branch") == "## ralph/demo"
    assert top.name == "repo"
    assert not top.is_relative_to(lanes.repo.top)


def test_slots_live_in_the_users_cache_folder(home: Path) -> None:
    assert slots_folder() == home / ".cache" / "untildone" / "slots"


def test_the_work_of_a_story_is_a_commit_in_the_users_repository(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    lanes.attempt(
        prepared, "echo c > c; git add c; git commit -qm own; echo d > d; echo e >> a.txt"
    )
    commit = lanes.save(prepared)
    shutil.rmtree(prepared.slot.folder)

    assert lanes.file(commit, "c") == "c"
    assert lanes.file(commit, "d") == "d"
    assert lanes.file(commit, "a.txt") == "a\ne"
    assert lanes.repo.sh("log", "--format=%s", commit).splitlines()[:2] == ["checkpoint: 1", "own"]
    assert is_sound(lanes.repo.top)
    assert "c" not in files(lanes.repo.top)


def test_what_an_agent_leaves_beside_its_work_is_in_the_users_repository_too(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    lanes.attempt(
        prepared,
        "git checkout -q -b other; echo o > o; git add o; git commit -qm other; "
        "git checkout -q ralph/demo; echo staged > s; git add s; echo work > s",
    )
    lanes.save(prepared)
    shutil.rmtree(prepared.slot.folder)

    subjects = lanes.repo.sh("log", "--format=%s", "--all").splitlines()
    assert {"other", "staged when it was stored"} <= {*subjects}


def test_the_index_of_one_story_is_not_what_the_next_one_staged(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    lanes.attempt(prepared, "echo n > n")
    prepared.workspace.commits(lanes.head)
    prepared.workspace.revert(0, lanes.head, "1", 1)
    lanes.repo.write("a.txt", "new\n")
    lanes.repo.sh("commit", "-qam", "new")
    lanes.story("echo work > w")
    assert "staged when it was stored" not in lanes.repo.sh("log", "--format=%s", "--all")


def test_a_failed_attempt_is_in_the_users_repository_before_it_is_put_back(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    lanes.attempt(
        prepared,
        "echo c > c; git add c; git commit -qm own; echo n > new; echo s > .env; rm src/b.txt; "
        "echo '*.o' >> .gitignore; echo o > x.o",
    )
    prepared.workspace.commits(lanes.head)
    reverted = prepared.workspace.revert(0, lanes.head, "1", 1)
    left = files(prepared.slot.top)
    shutil.rmtree(prepared.slot.folder)

    assert left.pop(".env") == b"s\n"
    assert left == {".gitignore": b"node_modules/\n.env\n", "a.txt": b"a\n", "src/b.txt": b"b\n"}
    assert reverted.saved_ref == "refs/ralph/attempts/demo/1/1"
    assert set(lanes.repo.attempt("1/1")) == {".gitignore", "a.txt", "c", "new", "x.o"}
    assert "own" in lanes.repo.sh("log", "--format=%s", reverted.saved_ref).splitlines()
    assert is_sound(lanes.repo.top)


def test_what_git_must_not_have_of_an_attempt_goes_to_the_users_run_folder(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    lanes.attempt(prepared, "printf 'AWS_SECRET_ACCESS_KEY=abc' > .env.production")
    prepared.workspace.commits(lanes.head)
    prepared.workspace.revert(0, lanes.head, "1", 1)

    kept = lanes.repo.folder.path / "kept" / "1" / "1" / ".env.production"
    assert kept.read_text() == "AWS_SECRET_ACCESS_KEY=abc"
    assert ".env.production" not in files(prepared.slot.top)


def test_a_slot_is_used_again_exactly_at_the_new_base(lanes: Lanes) -> None:
    lanes.story(
        "mkdir -p node_modules/x dist empty; echo m > node_modules/x/m; echo d > dist/d; "
        "echo dist/ >> .gitignore; echo n > new; echo s > .env"
    )
    lanes.repo.write("src/c.txt", "c\n")
    lanes.repo.sh("add", "-A")
    lanes.repo.sh("commit", "-q", "-m", "landed")

    prepared = lanes.prepare()

    assert files(prepared.slot.top) == files(lanes.repo.top) | {
        ".env": b"s\n",
        "node_modules/x/m": b"m\n",
    }
    assert not (prepared.slot.top / "dist").exists()
    assert not (prepared.slot.top / "empty").exists()
    assert shell_git(prepared.slot.top, "status", "--porcelain") == ""
    assert shell_git(prepared.slot.top, "rev-parse", "HEAD") == lanes.head
    assert [lanes.file(ref, "dist/d") for ref in prepared.rescued] == ["d"]


def test_what_nobody_stored_is_stored_before_a_slot_is_used_again(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    lanes.attempt(
        prepared,
        "echo one > one; git add one; git commit -qm one; git reset -q --hard HEAD~1; "
        "echo two > two; git stash -qu; echo three > three; echo four > four; git add four; "
        "echo five > four",
    )
    lanes.restart()

    again = lanes.prepare()

    shutil.rmtree(again.slot.folder)
    found = lanes.repo.sh("log", "-m", "--name-only", "--format=", *again.rescued).splitlines()
    assert {"one", "three", "four"} <= set(found)
    blobs = lanes.repo.sh("rev-list", "--objects", *again.rescued)
    for word in ("one", "two", "three", "four", "five"):
        assert lanes.repo.sh("hash-object", "--stdin", stdin=f"{word}\n") in blobs
    assert is_sound(lanes.repo.top)


@pytest.mark.parametrize("script", HARM.values(), ids=HARM)
def test_an_agent_harms_nothing_outside_and_the_slot_is_repaired(lanes: Lanes, script: str) -> None:
    lanes.repo.write("a.txt", "stashed\n")
    lanes.repo.sh("stash")
    lanes.repo.write("untracked", "u\n")
    before = everything(lanes.repo)
    prepared = lanes.prepare()
    lanes.attempt(prepared, script)
    lanes.restart()

    again = lanes.prepare()

    assert everything(lanes.repo) == before
    assert is_sound(lanes.repo.top)
    wanted = {".gitignore": b"node_modules/\n.env\n", "a.txt": b"a\n", "src/b.txt": b"b\n"}
    assert files(again.slot.top) == wanted
    assert shell_git(again.slot.top, "status", "--porcelain", "--branch") == "## ralph/demo"
    lanes.attempt(again, "echo more > more")
    assert lanes.file(lanes.save(again), "more") == "more"


@pytest.mark.parametrize(
    "script",
    [script for name, script in HARM.items() if name != "removes everything"],
    ids=[name for name in HARM if name != "removes everything"],
)
def test_an_attempt_that_did_harm_is_put_back_like_any_other(lanes: Lanes, script: str) -> None:
    prepared = lanes.prepare()
    lanes.attempt(prepared, f"echo worked > worked; {script}")
    lanes.restart()
    workspace = lanes.slots.workspace(0)
    assert workspace
    workspace.commits(lanes.head)
    workspace.revert(0, lanes.head, "1", 1)

    assert is_sound(lanes.repo.top)
    wanted = {".gitignore": b"node_modules/\n.env\n", "a.txt": b"a\n", "src/b.txt": b"b\n"}
    assert files(prepared.slot.top) == wanted
    blobs = lanes.repo.sh("rev-list", "--objects", "refs/ralph/attempts/demo/1/1")
    cleaned = "clean -f" in script
    assert (lanes.repo.sh("hash-object", "--stdin", stdin="worked\n") in blobs) != cleaned


def test_two_loops_do_not_share_a_slot(lanes: Lanes) -> None:
    lanes.prepare()
    with pytest.raises(UserError, match="Another loop works in the slot of lane 0"):
        lanes.anew().prepare(0, "demo", "r2", lanes.head)


def test_lanes_do_not_see_each_other(lanes: Lanes) -> None:
    one, two = lanes.prepare(0), lanes.prepare(1)
    lanes.attempt(one, "echo 1 > one; git stash -qu")
    lanes.attempt(two, "echo 2 > two; git branch extra")
    assert shell_git(two.slot.top, "stash", "list") == ""
    assert shell_git(one.slot.top, "branch", "--format=%(refname:short)") == "ralph/demo"
    assert "one" not in files(two.slot.top)


def test_a_start_that_was_cut_short_is_done_anew(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    note = prepared.slot.note()
    assert note
    shell(prepared.slot.top, "rm a.txt; echo half > src/b.txt; rm -f ../git/index")
    prepared.slot.folder.joinpath("slot.json").write_text(
        prepared.slot.folder.joinpath("slot.json")
        .read_text()
        .replace('"ready":true', '"ready":false')
    )
    lanes.restart()

    again = lanes.prepare()
    assert again.rescued == ()
    assert files(again.slot.top)["a.txt"] == b"a\n"


def test_what_a_lane_borrows_survives_any_prune_of_the_users(lanes: Lanes) -> None:
    repo, first = lanes.repo, lanes.head
    repo.write("only/here.txt", "in the base only\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", "base of the lane")
    base = lanes.head
    prepared = lanes.prepare(0, base)
    lanes.attempt(prepared, "true", base)
    repo.sh("reset", "-q", "--hard", first)
    for turn in range(3):
        repo.sh("reflog", "expire", "--expire=now", "--all")
        repo.sh("gc", "-q", "--prune=now")
        shell(prepared.slot.top, f"echo {turn} >> turns; git add -A; git commit -qm {turn}")
        repo.sh("prune", "--expire=now")
    shell_git(prepared.slot.top, "fsck", "--full")
    commit = lanes.save(prepared, base=base)
    assert lanes.file(commit, "turns") == "0\n1\n2"
    assert lanes.file(commit, "only/here.txt") == "in the base only"
    assert is_sound(repo.top)


def test_a_pruned_object_that_an_agent_had_staged_is_made_again(lanes: Lanes) -> None:
    repo = lanes.repo
    loose = repo.sh("hash-object", "-w", "--stdin", stdin="as before\n")
    prepared = lanes.prepare()
    lanes.attempt(prepared, "echo as before > again; git add again; git commit -qm again")
    repo.sh("prune", "--expire=now")
    assert not (repo.place.common_dir / "objects" / loose[:2] / loose[2:]).exists()
    commit = lanes.save(prepared)
    assert lanes.file(commit, "again") == "as before"
    assert is_sound(repo.top)


def test_the_files_of_an_attempt_are_stored_if_its_commits_have_gaps(lanes: Lanes) -> None:
    repo = lanes.repo
    repo.sh("hash-object", "-w", "--stdin", stdin="as before\n")
    prepared = lanes.prepare()
    script = "echo as before > again; git add again; git commit -qm again; echo now > again"
    lanes.attempt(prepared, f"{script}; git add again; git commit -qm now")
    repo.sh("prune", "--expire=now")
    prepared.workspace.commits(lanes.head)
    prepared.workspace.revert(0, lanes.head, "1", 1)
    assert repo.attempt("1/1")["again"] == "now"
    assert files(prepared.slot.top) == files(repo.top)
    assert files(lanes.prepare().slot.top) == files(repo.top)
    assert is_sound(repo.top)
    kept = repo.folder.path / "lane-0"
    assert list(kept.rglob("HEAD")), "the agent's commits are kept as they are"


def test_bases_are_held_while_they_are_in_use_only(lanes: Lanes) -> None:
    lanes.prepare(0)
    lanes.prepare(1)
    first = lanes.head
    lanes.repo.sh("commit", "-q", "--allow-empty", "-m", "next")
    lanes.prepare(0)
    pins = lanes.refs("refs/ralph/slots/")
    assert sorted(pins.values()) == sorted([first, lanes.head])


def test_a_look_says_where_all_is_and_deletes_nothing(lanes: Lanes) -> None:
    commit = lanes.story("echo c > c")
    found = lanes.slots.delete(0, only_look=True)
    assert (found.deleted, found.reasons) == (False, ())
    assert f"{commit[:12]} is held by refs/ralph/moved/demo/{commit[:16]}" in found.proof
    assert files(lanes.slots.slot(0).top)["c"] == b"c\n"


def test_a_loop_waits_for_somebody_who_looks_into_its_slot(lanes: Lanes) -> None:
    slot = lanes.prepare().slot
    lanes.restart()
    look = slot.take(LOOKING)
    timer = Timer(0.5, look.release)
    timer.start()
    assert files(lanes.prepare().slot.top)["a.txt"] == b"a\n"
    timer.join()


def test_a_slot_is_deleted_with_the_proof_that_all_is_elsewhere(lanes: Lanes) -> None:
    commit = lanes.story(
        "echo c > c; git add c; git commit -qm own; mkdir node_modules; echo m > node_modules/m"
    )
    deletion = lanes.slots.delete(0)
    assert deletion.deleted
    assert f"{commit[:12]} is held by refs/ralph/moved/demo/{commit[:16]}" in deletion.proof
    assert not deletion.folder.exists()
    assert lanes.file(commit, "c") == "c"
    assert lanes.refs("refs/ralph/slots/") == {}
    assert is_sound(lanes.repo.top)
    assert files(lanes.prepare().slot.top)["a.txt"] == b"a\n"


def test_a_base_that_the_user_let_go_is_kept_with_its_slot(lanes: Lanes) -> None:
    lanes.repo.write("landed.txt", "landed\n")
    lanes.repo.sh("add", "-A")
    lanes.repo.sh("commit", "-q", "-m", "on the run branch only")
    base = lanes.head
    lanes.prepare(0, base)
    lanes.repo.sh("reset", "-q", "--hard", "HEAD~1")
    deletion = lanes.slots.delete(0)
    assert not deletion.deleted
    assert deletion.reasons == (f"No ref holds the commit {base[:12]} of it.",)
    lanes.prepare()
    lanes.repo.sh("reflog", "expire", "--expire=now", "--all")
    lanes.repo.sh("gc", "-q", "--prune=now")
    assert lanes.file(base, "landed.txt") == "landed"


LEFT = {
    "a file": ("echo n > new", "No commit holds its files: new"),
    "an edit": ("echo n >> a.txt", "No commit holds its files: a.txt"),
    "a commit": ("echo n > n; git add n; git commit -qm n", "No ref holds the commit "),
    "a stash": ("echo n > n; git stash -qu", "No ref holds the commit "),
    "a lost commit": (
        "echo n > n; git add n; git commit -qm n; git reset -q --hard HEAD~1",
        "No ref holds the commit ",
    ),
    "a commit with a gap": (
        "echo n > n; git add n; git commit -qm n; find ../git/objects -type f -name '??????*' "
        "! -name alternates -delete",
        "Git cannot tell what it holds: ",
    ),
    "a repository": ("rm .git; git init -q", "Nothing else holds what was moved aside: "),
}


@pytest.mark.parametrize(("script", "why"), LEFT.values(), ids=LEFT)
def test_a_slot_that_is_the_only_copy_of_something_stays(
    lanes: Lanes, script: str, why: str
) -> None:
    prepared = lanes.prepare()
    lanes.attempt(prepared, script)

    deletion = lanes.slots.delete(0)
    assert not deletion.deleted
    assert deletion.reasons[0].startswith(why)
    assert prepared.slot.top.exists()

    assert lanes.slots.delete(0, store=True).deleted
    assert not prepared.slot.folder.exists()
    assert is_sound(lanes.repo.top)


def test_a_slot_in_use_elsewhere_is_not_deleted(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    deletion = lanes.anew().delete(0)
    assert not deletion.deleted
    assert "Another loop works" in deletion.reasons[0]
    assert prepared.slot.top.exists()


def test_ignored_files_in_the_way_of_a_base_make_room(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    shell(prepared.slot.top, "mkdir -p node_modules/x; echo m > node_modules/x/m; echo s > .env")
    lanes.repo.write("node_modules/x", "now a file\n")
    lanes.repo.write(".env", "now tracked\n")
    lanes.repo.sh("add", "-f", "-A", "node_modules/x", ".env")
    lanes.repo.sh("commit", "-q", "-m", "tracked")
    assert files(lanes.prepare().slot.top) == files(lanes.repo.top)


def test_a_read_only_folder_of_an_agent_does_not_stop_the_next_story(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    lanes.attempt(prepared, "mkdir shut; echo x > shut/x; chmod 500 shut")
    lanes.restart()
    assert "shut/x" not in files(lanes.prepare().slot.top)
    assert os.path.isdir(prepared.slot.top)


@pytest.mark.parametrize(
    ("script", "kept"),
    [
        ("git update-index --assume-unchanged a.txt; echo hidden >> a.txt", "a\nhidden"),
        ("git update-index --skip-worktree a.txt; echo hidden >> a.txt", "a\nhidden"),
        ("echo staged > a.txt; git add a.txt; echo a > a.txt", "staged"),
        ("echo long >> a.txt; touch -r .gitignore a.txt", "a\nlong"),
    ],
)
def test_what_git_would_not_see_at_once_is_found_by_a_new_process(
    lanes: Lanes, script: str, kept: str
) -> None:
    lanes.story("echo 1 > one")
    shell(lanes.slots.slot(0).top, script)
    lanes.restart()
    rescued = lanes.prepare().rescued
    shown = [lanes.repo.sh("log", "-p", "-m", "--format=", ref) for ref in rescued]
    assert any(f"+{kept.splitlines()[-1]}" in text for text in shown)
    assert files(lanes.slots.slot(0).top) == files(lanes.repo.top)


@pytest.mark.parametrize("own", ["", "git add -A; git commit -qm own; ", "git add -A; git gc -q; "])
def test_all_that_a_work_needs_is_in_the_users_repository(lanes: Lanes, own: str) -> None:
    work = lanes.story(f"mkdir d; echo 1 > d/one; {own}echo 2 > d/two")
    shutil.rmtree(lanes.slots.slot(0).folder)
    assert lanes.file(work, "d/one") + lanes.file(work, "d/two") == "12"
    assert is_sound(lanes.repo.top)
