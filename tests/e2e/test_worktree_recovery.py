"""`--checkpoint worktree`: stops, kills, leftovers, and commands given in the user's worktree."""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, fails
from tests.e2e.change import TASKS
from tests.e2e.users_tree import begin, finish, linked, loop, put_away, users_own
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench
    from tests.e2e.command import Live, Result

pytestmark = pytest.mark.e2e

WORK = [f" M {TASKS}", "?? work-1.txt", "?? work-2.txt", "?? work-3.txt"]
SLEEP: Actions = [["write", "half.txt", "half\n"], ["sleep", 600]]


def _kill(live: Live) -> None:
    live.signal(signal.SIGKILL)
    live.wait()


def _doctor(bench: Bench) -> list[str]:
    rows = bench.run("doctor", "--json").json()["rows"]
    return [row["text"] for row in rows if row["check"] == "worktree of a run"]


def _fix(bench: Bench, *more: str) -> list[str]:
    fixed: list[str] = bench.run("doctor", "--json", "--fix", *more).json()["fixed"]
    return fixed


def _worktrees(bench: Bench) -> int:
    return len(bench.git("worktree", "list").splitlines())


# -- stop, resume, done ----------------------------------------------------------------------------


def test_stop_and_resume_from_the_users_worktree(bench: Bench) -> None:
    before = users_own(bench)
    bench.plan({2: SLEEP})
    live = begin(bench)
    bench.wait_call(2)
    bench.run("stop", "demo").ok()
    live.wait().ok(6)
    assert users_own(bench) == before
    bench.run("resume", "demo", "--json").ok()
    assert [call.cwd for call in bench.calls()] == [str(linked(bench))] * 4
    assert users_own(bench) == before
    assert "work" in bench.run("logs", "demo").ok().stdout
    finish(bench).ok()
    assert bench.contents().keys() >= {"work-1.txt", "work-3.txt", "work-4.txt"}


def test_done_is_said_from_the_users_worktree(bench: Bench) -> None:
    bench.plan()
    live = begin(bench, "--done", "manual", "--on-complete", "cleanup")
    until(
        lambda: [row for row in bench.loops() if row.get("phase") == "awaiting_person"],
        what="the question",
    )
    bench.run("done", "demo").ok()
    live.wait().ok()
    assert bench.status() == WORK


def test_commands_without_a_change_find_the_only_run(bench: Bench) -> None:
    bench.plan({1: SLEEP})
    live = begin(bench)
    bench.wait_call(1)
    bench.run("stop").ok()
    live.wait().ok(6)
    bench.plan()
    bench.run("resume", "--json").ok()
    assert "COMPLETE" in bench.run("logs").ok().stdout
    finish(bench).ok()
    assert bench.contents().keys() >= {"work-2.txt", "work-3.txt", "work-4.txt"}


# -- kill -9 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["resume", "run"])
def test_kill_9_in_mid_attempt(bench: Bench, command: str) -> None:
    bench.write("loose.txt", "loose\n")
    before = users_own(bench)
    bench.plan({2: SLEEP})
    live = begin(bench)
    bench.wait_call(2)
    _kill(live)
    (shown,) = bench.loops()
    assert (shown["status"], shown["alive"]) == ("stopped", False)
    assert shown["worktree"] == str(linked(bench))
    assert users_own(bench) == before
    bench.run(command, "demo", "--json", "--on-complete", "cleanup").ok()
    assert bench.contents().keys() >= {"work-1.txt", "work-3.txt", "work-4.txt", "loose.txt"}
    assert not bench.path("half.txt").exists()
    assert "half" in bench.run("attempts", "demo", "--show", "2/1").ok().stdout
    assert bench.processes() == []


STARTING = [
    ("worktree add", "before"),
    ("worktree add", "after"),
    ("rev-parse --is-bare-repository", "in linked"),
    ("write-tree", "before"),
    ("write-tree", "after"),
    ("update-ref", "before"),
    ("update-ref", "after"),
    ("read-tree --reset -u", "before"),
    ("read-tree --reset -u", "after"),
    ("symbolic-ref", "before"),
    ("symbolic-ref", "after"),
]


def _let_git_make_it(bench: Bench) -> None:
    """With this setting a worktree has more than we know of."""
    bench.git("config", "extensions.worktreeConfig", "true")


def _git_that_kills(bench: Bench, words: str, when: str) -> None:
    """A `git` on PATH that kills the loop once, at its first call with these words."""
    here = f'[ "$PWD" = {linked(bench)} ] && ' if when == "in linked" else ""
    run = "" if when != "after" else '/usr/bin/env -u X PATH="$REAL" git "$@"; '
    bench.program(
        "git",
        "#!/bin/sh\n"
        f"REAL=${{PATH#{bench.bin}:}}\n"
        f'case "$*" in *"{words}"*)\n'
        f"  if {here}[ -e {bench.root}/armed ] && rm {bench.root}/armed; then\n"
        f"    {run}kill -9 $PPID; exit 1\n  fi;;\nesac\n"
        'PATH="$REAL" exec git "$@"\n',
    )
    (bench.root / "armed").touch()


@pytest.mark.parametrize(("words", "when"), STARTING)
def test_kill_9_during_the_start(bench: Bench, words: str, when: str) -> None:
    bench.write("README.md", "# staged\n")
    bench.git("add", "README.md")
    bench.write("README.md", "# staged and more\n")
    bench.write("loose.txt", "loose\n")
    if words == "worktree add":
        _let_git_make_it(bench)
    before = users_own(bench)
    bench.plan()
    _git_that_kills(bench, words, when)
    assert loop(bench).code == -signal.SIGKILL
    (bench.bin / "git").unlink()
    assert users_own(bench) == before
    bench.run("status").ok()
    result = _run_as_told(bench)
    result.ok()
    after = users_own(bench)
    assert (after["git"], after["refs"]) == (before["git"], before["refs"])
    assert bench.read("README.md") == "# staged and more\n"
    assert bench.contents().keys() >= {"work-1.txt", "work-2.txt", "work-3.txt", "loose.txt"}
    assert _worktrees(bench) == 1
    assert _doctor(bench) == []


def _run_as_told(bench: Bench) -> Result:
    """`run` again; if it names `untildone run` as the next command, once more."""
    result = loop(bench, "--on-complete", "cleanup")
    if result.code == 2:
        assert "hint: untildone run demo" in result.stderr
        result = loop(bench, "--on-complete", "cleanup")
    return result


CLOSING = [
    ("merge-tree", "before"),
    ("read-tree -m -u", "before"),
    ("read-tree -m -u", "after"),
    ("update-ref --no-deref", "before"),
    ("update-ref --no-deref", "after"),
]


@pytest.mark.parametrize(("words", "when"), CLOSING)
@pytest.mark.parametrize("command", ["run", "finish", "doctor"])
def test_kill_9_during_cleanup(bench: Bench, words: str, when: str, command: str) -> None:
    bench.write("loose.txt", "loose\n")
    before = users_own(bench)
    bench.plan()
    loop(bench).ok()
    _git_that_kills(bench, words, when)
    assert finish(bench).code == -signal.SIGKILL
    (bench.bin / "git").unlink()
    if command == "run":
        loop(bench)  # carries the choice out first
    elif command == "doctor":
        assert "Finishing the cleanup" in _fix(bench)[0]
    else:
        finish(bench)
    assert bench.status() == [WORK[0], "?? loose.txt", *WORK[1:]]
    after = users_own(bench)
    assert (after["git"]["HEAD"], after["refs"]) == (before["git"]["HEAD"], before["refs"])
    assert _worktrees(bench) == 1
    assert len(bench.calls()) == 3


@pytest.mark.parametrize("command", ["run", "resume", "finish", "restore", "logs"])
def test_kill_9_between_the_last_two_steps_of_putting_away(bench: Bench, command: str) -> None:
    bench.plan()
    loop(bench, "--on-complete", "cleanup").ok()
    (files,) = put_away(bench)
    # The run's record has moved, git's own notes about the worktree have not.
    (files.parent / "worktree.git").rename(bench.repo / ".git/worktrees/repo-ralph-demo")
    assert _worktrees(bench) == 2
    if command == "run":
        loop(bench).ok()
    else:
        words = (command, "demo", "cleanup") if command == "finish" else (command, "demo")
        assert bench.run(*words).code in (0, 2)
    assert (_worktrees(bench), _doctor(bench)) == (1, [])
    assert put_away(bench) == [files]
    assert (files.parent / "worktree.git").is_dir()


# -- getting things back -------------------------------------------------------------------------


def test_restore_before_cleanup_gives_the_work_up(bench: Bench) -> None:
    before = users_own(bench)
    bench.plan()
    loop(bench).ok()
    tip = bench.tree_of("ralph/demo")
    result = bench.run("restore", "demo").ok()
    assert users_own(bench)["git"] == before["git"]
    assert bench.status() == []
    ref = next(word for word in result.stdout.split() if word.startswith("refs/ralph/"))
    assert bench.tree_of(ref) == tip
    assert not bench.has("refs/heads/ralph/demo")
    assert (_worktrees(bench), len(put_away(bench))) == (1, 1)


def test_restore_after_cleanup_takes_the_work_back(bench: Bench) -> None:
    bench.write("README.md", "# staged\n")
    bench.git("add", "README.md")
    bench.write("README.md", "# more\n")
    files, staged = bench.contents(), bench.staged()
    bench.plan({1: [["write", "README.md", "# more\nloop\n"], *DONE]})
    loop(bench, "--on-complete", "cleanup").ok()
    assert bench.contents() != files
    bench.run("restore", "demo").ok()
    assert (bench.contents(), bench.staged()) == (files, staged)


def test_an_attempt_is_restored_into_the_runs_worktree(bench: Bench) -> None:
    before = users_own(bench)
    bench.plan({1: fails()})
    loop(bench).ok()
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert (linked(bench) / "mess-1.txt").read_text() == "mess\n"
    assert users_own(bench) == before


@pytest.mark.parametrize("choice", ["cleanup", "keep"])
def test_finish_after_the_cleanup_was_undone(bench: Bench, choice: str) -> None:
    if choice == "keep":
        _let_git_make_it(bench)
    before = users_own(bench)
    bench.plan({1: [["write", "README.md", "loop\n"], *DONE]})
    loop(bench, "--on-complete", "cleanup").ok()
    made = bench.contents()
    bench.run("undo").ok()
    assert users_own(bench)["git"]["HEAD"] == before["git"]["HEAD"]
    finish(bench, choice).ok()
    if choice == "keep":
        assert (linked(bench) / "README.md").read_text() == "loop\n"
        assert bench.git("branch", "--show-current", cwd=linked(bench)) == "ralph/demo"
        assert bench.git("status", "--porcelain", cwd=linked(bench)) == ""
        finish(bench).ok()
    assert bench.contents() == made
    assert (_worktrees(bench), len(put_away(bench)), _doctor(bench)) == (1, 1, [])
    bench.run("undo").ok()
    assert bench.status() == []
    bench.run("undo").ok()
    assert bench.contents() == made


@pytest.mark.parametrize("command", ["run", "resume"])
def test_going_on_after_the_cleanup_was_undone(bench: Bench, command: str) -> None:
    bench.plan({2: SLEEP})
    live = begin(bench)
    bench.wait_call(2)
    bench.run("stop", "demo").ok()
    live.wait().ok(6)
    finish(bench).ok()
    bench.run("undo").ok()
    bench.plan()
    bench.run(command, "demo", "--json").ok()
    assert bench.branch() == "feature/x"
    assert [call.cwd for call in bench.calls()] == [str(linked(bench))] * 4
    finish(bench).ok()
    assert bench.contents().keys() >= {"work-1.txt", "work-3.txt", "work-4.txt"}


def test_a_folder_in_the_place_of_the_worktree_after_undo(bench: Bench) -> None:
    bench.plan()
    loop(bench, "--on-complete", "cleanup").ok()
    bench.run("undo").ok()
    linked(bench).mkdir()
    assert str(linked(bench)) in finish(bench).ok(2).stderr
    linked(bench).rmdir()
    finish(bench).ok()
    assert bench.status() == WORK


# -- leftovers -----------------------------------------------------------------------------------


def test_the_folder_exists_already(bench: Bench) -> None:
    linked(bench).mkdir()
    (linked(bench) / "mine.txt").write_text("mine\n")
    before = users_own(bench)
    bench.plan()
    result = loop(bench).ok(2)
    assert str(linked(bench)) in result.stderr
    assert "hint:" in result.stderr
    assert users_own(bench) == before
    assert (linked(bench) / "mine.txt").read_text() == "mine\n"
    assert _fix(bench) == []
    assert (linked(bench) / "mine.txt").read_text() == "mine\n"


def test_a_worktree_that_cannot_be_made_is_refused(bench: Bench) -> None:
    (bench.repo / ".git/worktrees").touch()
    before = users_own(bench)
    bench.plan()
    assert "File exists" in loop(bench).ok(2).stderr
    assert users_own(bench) == before
    assert bench.loops() == []


def test_a_worktree_that_git_cannot_make_is_refused(bench: Bench) -> None:
    _let_git_make_it(bench)
    before = users_own(bench)
    bench.plan()
    bench.program(
        "git",
        '#!/bin/sh\ncase "$*" in *"worktree add"*) echo "fatal: no room" >&2; exit 128;; esac\n'
        f'PATH=${{PATH#{bench.bin}:}} exec git "$@"\n',
    )
    assert "no room" in loop(bench).ok(2).stderr
    (bench.bin / "git").unlink()
    assert users_own(bench) == before
    assert bench.loops() == []


def test_stories_that_git_ignores_are_refused(bench: Bench) -> None:
    bench.git("rm", "-rq", "--cached", "openspec")
    bench.git("commit", "-q", "-m", "untracked")
    bench.write(".git/info/exclude", "openspec/\n")
    before = users_own(bench)
    bench.plan()
    assert TASKS in loop(bench).ok(2).stderr
    assert users_own(bench) == before
    assert not linked(bench).exists()


def _killed_and_deleted(bench: Bench) -> None:
    bench.plan({2: SLEEP})
    live = begin(bench)
    bench.wait_call(2)
    _kill(live)
    shutil.rmtree(linked(bench))
    bench.plan()


@pytest.mark.parametrize("command", ["run", "resume"])
def test_a_folder_that_the_user_deleted_is_put_back(bench: Bench, command: str) -> None:
    _killed_and_deleted(bench)
    bench.run("status").ok()
    bench.run("logs", "demo").ok()
    bench.run(command, "demo", "--json").ok()
    assert len(bench.calls()) == 4
    finish(bench).ok()
    assert bench.contents().keys() >= {"work-1.txt", "work-3.txt", "work-4.txt"}
    assert bench.read(TASKS).count("[x]") == 6


def test_finish_and_undo_after_the_user_deleted_the_folder(bench: Bench) -> None:
    _killed_and_deleted(bench)
    finish(bench).ok()
    assert bench.status() == WORK[:2]
    assert bench.read(TASKS).count("[x]") == 2
    bench.run("undo").ok()
    assert bench.status() == []


def test_restore_after_the_user_deleted_the_folder(bench: Bench) -> None:
    before = users_own(bench)
    _killed_and_deleted(bench)
    tip = bench.sha("ralph/demo")
    bench.run("restore", "demo").ok()
    assert users_own(bench)["git"] == before["git"]
    assert tip in bench.refs("refs/ralph/archive/demo/").values()


def test_a_dry_run_leaves_a_deleted_folder_alone(bench: Bench) -> None:
    _killed_and_deleted(bench)
    assert "untildone resume demo" in bench.run("run", "demo", "--dry-run").ok(2).stderr
    assert not linked(bench).exists()


def test_doctor_ends_a_run_whose_folder_the_user_deleted(bench: Bench) -> None:
    _killed_and_deleted(bench)
    tip = bench.sha("ralph/demo")
    (text,) = _doctor(bench)
    assert str(linked(bench)) in text
    assert "untildone resume demo" in text
    assert len(_fix(bench)) == 1
    assert (bench.sha("ralph/demo"), _worktrees(bench), _doctor(bench)) == (tip, 1, [])
    assert "half" not in "".join(bench.status())
    loop(bench, "--on-complete", "cleanup").ok()
    archived = [at for name, at in bench.refs("refs/ralph/archive/demo/").items()]
    assert tip in archived


def test_doctor_leaves_a_run_that_can_be_resumed(bench: Bench) -> None:
    bench.plan({2: SLEEP})
    live = begin(bench)
    bench.wait_call(2)
    assert _doctor(bench) == []
    bench.run("stop", "demo").ok()
    live.wait().ok(6)
    (text,) = _doctor(bench)
    assert str(linked(bench)) in text
    _fix(bench)
    assert linked(bench).exists()
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    assert (_doctor(bench), _fix(bench), linked(bench).exists()) == ([], [], True)


def test_doctor_ends_the_agent_of_a_killed_loop(bench: Bench) -> None:
    bench.plan({2: SLEEP})
    live = begin(bench)
    bench.wait_call(2)
    live.kill_unguarded()
    rows = bench.run("doctor", "--json").json()["rows"]
    assert "processes" in {row["check"] for row in rows}
    (said,) = _fix(bench)
    assert "left running were ended" in said
    assert (bench.processes(), linked(bench).exists()) == ([], True)
    bench.plan()
    bench.run("resume", "demo", "--json").ok()


def test_doctor_gives_a_run_up_and_puts_its_worktree_away(bench: Bench) -> None:
    before = users_own(bench)
    bench.plan({2: SLEEP})
    live = begin(bench)
    bench.wait_call(2)
    live.kill_unguarded()
    tip = bench.sha("ralph/demo")
    ended, given, away = _fix(bench, "--abandon", "demo")
    assert "left running were ended" in ended
    assert bench.processes() == []
    assert "abandoned" in given
    (kept,) = put_away(bench)
    assert str(kept) in away
    assert (kept / "half.txt").read_text() == "half\n"
    assert (bench.sha("ralph/demo"), _worktrees(bench)) == (tip, 1)
    assert users_own(bench)["git"] == before["git"]
    assert "ended" in bench.run("resume", "demo").ok(2).stderr
    bench.plan()
    loop(bench, "--on-complete", "cleanup").ok()


def test_doctor_refuses_to_give_up_a_live_run(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    live = begin(bench)
    bench.wait_call(1)
    assert "running" in bench.run("doctor", "--fix", "--abandon", "demo").ok(2).stderr
    bench.open_gate("go")
    live.wait().ok()


def test_doctor_puts_a_start_away_that_was_cut_short(bench: Bench) -> None:
    bench.plan()
    _git_that_kills(bench, "rev-parse", "in linked")
    loop(bench)
    (bench.bin / "git").unlink()
    (text,) = _doctor(bench)
    assert "no run" in text
    assert len(_fix(bench)) == 1
    assert (_worktrees(bench), linked(bench).exists(), _doctor(bench)) == (1, False, [])


def test_an_unfinished_run_of_the_users_worktree_stays_in_sight(bench: Bench) -> None:
    bench.write("openspec/changes/two/tasks.md", "## 1. Two\n\n- [ ] 1.1 Do two\n")
    bench.commit("two")
    bench.plan({2: SLEEP})
    args = ("--json", "--agent-cmd", bench.agent, "--checkpoint", "worktree")
    bench.run("run", "two", *args).ok()
    live = bench.begin("--checkpoint", "stash")
    bench.wait_call(2)
    bench.run("stop", "demo").ok()
    live.wait().ok(6)
    finish(bench, change="two").ok()
    shown = {row["change_id"]: row["status"] for row in bench.loops()}
    assert shown == {"demo": "stopped"}
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
