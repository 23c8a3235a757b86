"""Landing: clean merges and one commit on the run branch, or a conflict that says with what."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.slots.lanes import MESSAGE, Lanes, files, is_sound, shell
from tests.adapters.worktree import Worktree
from untildone.adapters.git.git import Git
from untildone.adapters.slots.landing import Landing, check_git
from untildone.domain.errors import StepError, UserError
from untildone.domain.run.landing import Conflict, Merged, Standing

REF = "refs/heads/ralph/demo"


def landing_of(lanes: Lanes, *beside: str) -> Landing:
    if not lanes.refs(REF):
        lanes.repo.sh("update-ref", REF, "HEAD")
        lanes.repo.folder.make()
    return Landing(lanes.repo.git(), lanes.repo.place, "demo", lanes.repo.folder.path, beside)


def land(lanes: Lanes, landing: Landing, base: str, work: str, story: str) -> str:
    """A story that must land; the candidate."""
    tip = landing.tip()
    merged = landing.merge(tip, base, work)
    assert isinstance(merged, Merged)
    candidate = landing.candidate(tip, merged.tree, MESSAGE.format(story))
    assert landing.swap(tip, candidate, f"untildone: land {story}")
    return candidate


def both(
    lanes: Lanes, one: str, two: str, *beside: str, setup: Callable[[Worktree], None] | None = None
) -> tuple[Landing, str, str, Merged | Conflict]:
    """Two stories from one base, of which the first has landed: landing, base, work, result."""
    if setup:
        setup(lanes.repo)
        lanes.repo.sh("add", "-A")
        lanes.repo.sh("commit", "-q", "-m", "set up")
    landing, base = landing_of(lanes, *beside), lanes.head
    first, second = lanes.story(one, 0, story="1"), lanes.story(two, 1, story="2")
    land(lanes, landing, base, first, "1")
    return landing, base, second, landing.merge(landing.tip(), base, second)


def test_stories_land_as_one_commit_each_with_their_trailers(lanes: Lanes) -> None:
    before = files(lanes.repo.top), lanes.repo.sh("status", "--porcelain"), lanes.head
    landing, base, work, merged = both(
        lanes, "echo 1 > one; git add one; git commit -qm a; echo 11 > one", "echo 2 > two"
    )
    assert isinstance(merged, Merged)
    land(lanes, landing, base, work, "2")

    assert lanes.repo.sh("log", "--format=%s", f"{base}..{REF}").splitlines() == [
        "checkpoint: 2",
        "checkpoint: 1",
    ]
    assert lanes.repo.sh("rev-list", "--min-parents=2", REF) == ""
    said = lanes.repo.sh("log", "-1", "--format=%(trailers:key=Untildone-Story,valueonly)", REF)
    assert said.strip() == "2"
    assert lanes.file(REF, "one") == "11"
    assert lanes.file(REF, "two") == "2"
    assert (files(lanes.repo.top), lanes.repo.sh("status", "--porcelain"), lanes.head) == before
    assert is_sound(lanes.repo.top)


def test_two_inserts_at_one_line_are_a_conflict_that_names_what_was_met(lanes: Lanes) -> None:
    landing, _, _, merged = both(lanes, "echo one >> a.txt", "echo two >> a.txt")
    assert isinstance(merged, Conflict)
    assert merged.files == ("a.txt",)
    assert [met.subject for met in merged.met] == ["checkpoint: 1"]
    assert [met.commit for met in merged.met] == [landing.tip()]
    assert lanes.file(REF, "a.txt") == "a\none"


def test_a_rename_and_an_edit_are_merged(lanes: Lanes) -> None:
    def fill(repo: Worktree) -> None:
        repo.write("old.txt", "".join(f"line {n}\n" for n in range(30)))

    landing, base, work, merged = both(
        lanes, "git mv old.txt new.txt", "echo more >> old.txt", setup=fill
    )
    assert isinstance(merged, Merged)
    land(lanes, landing, base, work, "2")
    assert lanes.file(REF, "new.txt").endswith("line 29\nmore")
    assert "old.txt" not in lanes.repo.tree(REF)


@pytest.mark.parametrize("setting", ["merge.renames false", "diff.renames false"])
def test_a_persons_taste_does_not_decide_about_a_merge(lanes: Lanes, setting: str) -> None:
    lanes.repo.sh("config", *setting.split())
    test_a_rename_and_an_edit_are_merged(lanes)


@pytest.mark.parametrize("driver", ["union", "ours"])
def test_no_attribute_makes_a_conflict_clean_by_dropping_or_adding_text(
    lanes: Lanes, driver: str
) -> None:
    lanes.repo.sh("config", "merge.ours.driver", "true")

    def mark(repo: Worktree) -> None:
        repo.write(".gitattributes", f"a.txt merge={driver}\n")

    *_, merged = both(lanes, "echo one >> a.txt", "echo two >> a.txt", setup=mark)
    assert isinstance(merged, Conflict)
    assert merged.files == ("a.txt",)


def test_a_merge_driver_that_merges_is_used(lanes: Lanes) -> None:
    lanes.repo.sh("config", "merge.sorted.driver", "sort -u %A %B > %A.new; mv %A.new %A")

    def mark(repo: Worktree) -> None:
        repo.write(".gitattributes", "a.txt merge=sorted\n")

    landing, base, work, merged = both(lanes, "echo one >> a.txt", "echo two >> a.txt", setup=mark)
    assert isinstance(merged, Merged)
    land(lanes, landing, base, work, "2")
    assert lanes.file(REF, "a.txt") == "a\none\ntwo"


CONFLICTS = {
    "edit and delete": ("echo x >> a.txt", "rm a.txt", "a.txt"),
    "two new files": ("echo 1 > n", "echo 2 > n", "n"),
    "file and folder": ("rm a.txt; mkdir a.txt; echo x > a.txt/x", "echo y >> a.txt", "a.txt"),
    "two renames": ("git mv a.txt b1", "git mv a.txt b2", "a.txt"),
    "bytes": ("printf '\\0001' > a.txt", "printf '\\0002' > a.txt", "a.txt"),
}


@pytest.mark.parametrize(("one", "two", "path"), CONFLICTS.values(), ids=CONFLICTS)
def test_every_kind_of_conflict_is_told(lanes: Lanes, one: str, two: str, path: str) -> None:
    _, _, _, merged = both(lanes, one, two)
    assert isinstance(merged, Conflict)
    assert path in merged.files
    assert merged.met


def test_what_is_no_product_of_a_story_stays_as_the_tip_has_it(lanes: Lanes) -> None:
    def plan(repo: Worktree) -> None:
        repo.write("plan/tasks.md", "- [ ] 1\n- [ ] 2\n")
        repo.write("learnings.md", "none\n")

    landing, base, work, merged = both(
        lanes,
        "echo 1 > one; printf -- '- [x] 1\\n- [ ] 2\\n' > plan/tasks.md",
        "echo 2 > two; rm -r plan; mkdir -p learnings.md.d; rm learnings.md; mkdir learnings.md; "
        "echo x > learnings.md/x; echo '{}' > state.json",
        "plan",
        "learnings.md",
        "state.json",
        setup=plan,
    )
    assert isinstance(merged, Merged)
    land(lanes, landing, base, work, "2")
    found = lanes.repo.tree(REF)
    assert found["plan/tasks.md"] == "- [ ] 1\n- [ ] 2"
    assert found["learnings.md"] == "none"
    assert {"one", "two"} <= found.keys()
    assert "state.json" not in found


def test_the_tip_may_tick_boxes_between_two_landings(lanes: Lanes) -> None:
    landing, base = landing_of(lanes, "tasks.md"), lanes.head
    first = lanes.story("echo 1 > one; echo claimed > tasks.md", 0)
    second = lanes.story("echo 2 > two; echo also claimed > tasks.md", 1)
    tip = land(lanes, landing, base, first, "1")
    assert "tasks.md" not in lanes.repo.tree(tip)
    ticked = lanes.repo.top.parent / "ticked"
    lanes.repo.sh("worktree", "add", "-q", "--detach", str(ticked), tip)
    shell(ticked, "echo ticked > tasks.md; git add -A; git commit -qm tick")
    lanes.repo.sh(
        "update-ref",
        REF,
        subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ticked, text=True).strip(),
    )
    land(lanes, landing, base, second, "2")
    assert lanes.file(REF, "tasks.md") == "ticked"
    assert lanes.file(REF, "two") == "2"


def test_a_history_that_an_agent_rewrote_is_still_one_story_on_its_base(lanes: Lanes) -> None:
    _, _, _, merged = both(
        lanes, "echo 1 > one", "echo 2 > two; git add two; git commit -q --amend -m x"
    )
    assert isinstance(merged, Merged)


def test_a_person_commits_to_the_run_branch_between_merge_and_swap(lanes: Lanes) -> None:
    landing, base = landing_of(lanes), lanes.head
    work = lanes.story("echo 1 > one")
    tip = landing.tip()
    merged = landing.merge(tip, base, work)
    assert isinstance(merged, Merged)
    candidate = landing.candidate(tip, merged.tree, MESSAGE.format("1"))
    by_hand = lanes.repo.sh("commit-tree", f"{tip}^{{tree}}", "-p", tip, "-m", "by hand")
    lanes.repo.sh("update-ref", REF, by_hand)

    assert not landing.swap(tip, candidate, "untildone: land 1")
    assert landing.stands(tip, candidate) is Standing.ELSEWHERE
    assert landing.tip() == by_hand
    assert landing.builds_on(tip)
    stored = landing.store_moved()
    assert lanes.refs()[stored] == by_hand
    land(lanes, landing, base, work, "1")
    assert lanes.repo.sh("log", "--format=%s", f"{base}..{REF}").splitlines() == [
        "checkpoint: 1",
        "by hand",
    ]


def test_a_crash_around_the_swap_is_told_from_the_branch(lanes: Lanes) -> None:
    landing, base = landing_of(lanes), lanes.head
    tip = landing.tip()
    merged = landing.merge(tip, base, lanes.story("echo 1 > one"))
    assert isinstance(merged, Merged)
    candidate = landing.candidate(tip, merged.tree, MESSAGE.format("1"))
    assert landing.stands(tip, candidate) is Standing.BEFORE
    assert landing.swap(tip, candidate, "why")
    assert landing_of(lanes).stands(tip, candidate) is Standing.LANDED
    assert not landing.swap(tip, lanes.repo.sh("rev-parse", f"{REF}^"), "why")
    lanes.repo.sh("update-ref", "-d", REF)
    assert landing.stands(tip, candidate) is Standing.ELSEWHERE
    assert landing.store_moved() == ""
    assert not landing.builds_on(tip)


def test_a_branch_that_cannot_be_written_is_an_error_not_a_move(lanes: Lanes) -> None:
    landing = landing_of(lanes)
    tip = landing.tip()
    other = landing.candidate(tip, lanes.repo.sh("rev-parse", f"{tip}^{{tree}}"), "x\n")
    lock = lanes.repo.place.common_dir / f"{REF}.lock"
    lock.write_text("")
    with pytest.raises(StepError, match="update-ref"):
        landing.swap(tip, other, "why")
    assert landing.tip() == tip


def test_a_worktree_on_the_run_branch_is_known(lanes: Lanes, tmp_path: Path) -> None:
    landing = landing_of(lanes)
    assert landing.checked_out_in() == ""
    lanes.repo.sh("worktree", "add", "-q", str(tmp_path / "look"), "ralph/demo")
    assert landing.checked_out_in() == str(tmp_path / "look")
    lanes.repo.sh("worktree", "remove", str(tmp_path / "look"))
    lanes.repo.sh("checkout", "-q", "ralph/demo")
    assert landing.checked_out_in() == str(lanes.repo.top)


def lock_files(repo: Worktree) -> None:
    repo.write("names", "a\n\n\n\n\n\n\nz\n")
    repo.write("names.lock", "# made of names: a z\n")


GENERATE = 'echo "# made of names: $(echo $(cat names))" > names.lock'
STORIES = (f"sed -i 2s/^/b/ names; {GENERATE}", f"sed -i 7s/^/y/ names; {GENERATE}")


def run(command: str, folder: str) -> str:
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
    return done.stderr or f"exit {done.returncode}" if done.returncode else ""


def test_a_generated_file_is_made_anew_by_its_command(lanes: Lanes) -> None:
    landing, base, work, conflict = both(lanes, *STORIES, setup=lock_files)
    assert isinstance(conflict, Conflict)
    assert conflict.files == ("names.lock",)
    tip = landing.tip()

    merged = landing.regenerated(conflict, (tip, base, work), {"*.lock": GENERATE}, run)

    assert isinstance(merged, Merged)
    assert merged.regenerated == ("names.lock",)
    assert lanes.file(merged.tree, "names.lock") == "# made of names: a b y z"
    assert lanes.file(merged.tree, "names").split() == ["a", "b", "y", "z"]
    assert lanes.repo.sh("worktree", "list").count("\n") == 0


UNSOLVED = {
    "no command": ({}, ""),
    "of another file": ({"other.lock": GENERATE}, ""),
    "it fails": ({"names.lock": "echo broken >&2; exit 3"}, "failed: broken"),
    "it does nothing": ({"names.lock": "true"}, "left it as it was: names.lock"),
    "it removes the file": ({"names.lock": "rm names.lock"}, "left it as it was: names.lock"),
}


@pytest.mark.parametrize(("commands", "why"), UNSOLVED.values(), ids=UNSOLVED)
def test_a_command_that_does_not_make_the_file_solves_nothing(
    lanes: Lanes, commands: dict[str, str], why: str
) -> None:
    landing, base, work, conflict = both(lanes, *STORIES, setup=lock_files)
    assert isinstance(conflict, Conflict)
    found = landing.regenerated(conflict, (landing.tip(), base, work), commands, run)
    assert isinstance(found, Conflict)
    assert found.files == ("names.lock",)
    assert why in found.why


def test_a_conflict_in_other_files_too_is_not_regenerated(lanes: Lanes) -> None:
    one, two = (f"{story}; echo {k} >> a.txt" for k, story in enumerate(STORIES))
    landing, base, work, conflict = both(lanes, one, two, setup=lock_files)
    assert isinstance(conflict, Conflict)
    sides = (landing.tip(), base, work)
    assert landing.regenerated(conflict, sides, {"names.lock": GENERATE}, run) == conflict


def test_a_git_that_cannot_merge_in_memory_is_refused(lanes: Lanes, tmp_path: Path) -> None:
    check_git(lanes.repo.git())
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho git version 2.37.7\n")
    fake.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
        git = Git(lanes.repo.processes, lanes.repo.top)
    with pytest.raises(UserError, match=r"git 2\.38 or newer .* 2\.37\.7"):
        check_git(git)


def test_changes_of_different_files_come_together_as_git_would_merge_them(lanes: Lanes) -> None:
    one = "mkdir -p d/e; echo 1 > d/e/one; echo more >> a.txt; echo 1 > b"
    two = "mkdir -p d/e; echo 2 > d/e/two; chmod +x run; ln -s a.txt link; echo 2 > b.c"

    def fill(repo: Worktree) -> None:
        repo.write("run", "exit 0\n")

    landing, base, work, merged = both(lanes, one, two, setup=fill)
    flat = lanes.repo.sh("commit-tree", f"{work}^{{tree}}", "-p", base, "-m", "flat")
    assert merged == Merged(lanes.repo.sh("merge-tree", "--write-tree", landing.tip(), flat))


def test_a_ticked_file_is_stored_as_git_would_store_it(lanes: Lanes) -> None:
    """Asked once per path, and again when attributes change."""
    landing, tip = landing_of(lanes), lanes.head
    tree = landing.tree_of(tip)

    def stored(data: bytes) -> str:
        commit = landing.candidate(tip, tree, "tick\n", {"tasks.md": data})
        return subprocess.run(
            ["git", "cat-file", "blob", f"{commit}:tasks.md"],
            cwd=lanes.repo.top,
            check=True,
            capture_output=True,
        ).stdout.decode()

    assert [stored(b"[ ] a\n"), stored(b"[x] a\n")] == ["[ ] a\n", "[x] a\n"]
    lanes.repo.write(".gitattributes", "*.md text\n")
    assert stored(b"[x] a\r\n") == "[x] a\n"
    lanes.repo.write(".gitattributes", "*.md text working-tree-encoding=UTF-16LE\n")
    assert stored("[x] b\n".encode("utf-16-le")) == "[x] b\n"
