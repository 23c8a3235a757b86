"""Bad input: exit 2, an error that names the problem and the next command, nothing changed."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.change import TASKS, tasks_text
from tests.e2e.command import COMMAND, Result
from untildone.adapters.records.journal import Journal
from untildone.domain.run.fact import ChoiceMade
from untildone.domain.run.run import Choice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bench import Bench
    from tests.e2e.command import Json

pytestmark = pytest.mark.e2e

SLEEP = [["sleep", 600]]


def refused(result: Result, *words: str) -> None:
    """Exit 2, all words named, the state, a command to type next, no traceback."""
    said = result.stdout + result.stderr
    assert result.code == 2, f"exit {result.code}\n{said}"
    assert "Traceback" not in said
    assert "Nothing was changed" in said
    for word in words:
        assert word.lower() in said.lower(), f"{word!r} is not named:\n{said}"
    assert re.search(r"`[^`\n]+`|\b(untildone|git) -{0,2}[a-z]", said), f"no next command:\n{said}"


def run(
    bench: Bench,
    *args: str,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> Result:
    """`run` with the fake agent and no events; a `--agent-cmd` of its own wins."""
    agent = [] if "--agent-cmd" in args else ["--agent-cmd", bench.agent]
    return bench.run("run", *args, *agent, cwd=cwd, env=env)


def refuses(bench: Bench, *args: str, words: tuple[str, ...], **env: str) -> None:
    """The run is refused and the repository is as before."""
    before = bench.snapshot()
    refused(run(bench, *args, env=env), *words)
    assert bench.snapshot() == before
    assert bench.calls() == []


def test_not_a_repository(bench: Bench) -> None:
    empty = bench.root / "empty"
    empty.mkdir()
    refused(run(bench, "demo", cwd=empty), "repository", "git init")
    assert list(empty.iterdir()) == []


def test_bare_repository(bench: Bench) -> None:
    bare = bench.root / "bare.git"
    bench.git("clone", "-q", "--bare", str(bench.repo), str(bare))
    before = bench.git("for-each-ref", cwd=bare)
    refused(run(bench, "demo", cwd=bare), "bare")
    assert bench.git("for-each-ref", cwd=bare) == before


def test_top_level_is_home(bench: Bench) -> None:
    refuses(bench, "demo", words=("home",), HOME=str(bench.repo))


def test_top_level_is_the_root_folder(bench: Bench) -> None:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a repository in / needs a private mount namespace, which only root can make")
    made = bench.root / "overlay"
    made.mkdir()
    prefix = Path(sys.prefix).resolve()
    script = f"""
    set -e
    mount -t tmpfs tmpfs {made}
    mkdir {made}/up {made}/work {made}/new
    mount -t overlay overlay \
        -o lowerdir=/,upperdir={made}/up,workdir={made}/work {made}/new || exit 99
    for folder in /dev /proc {prefix} {Path(sys.base_prefix).resolve()} {bench.bin}; do
        mkdir -p {made}/new$folder; mount --rbind $folder {made}/new$folder
    done
    exec chroot {made}/new sh -c '
        cd / && git init -q -b main / && echo "*" > /.git/info/exclude || exit 98
        git -c user.name=a -c user.email=a@b.invalid commit -q --allow-empty -m base || exit 98
        git for-each-ref > /before
        {COMMAND} run x --task "do it" --agent-cmd {bench.agent}
        code=$?
        git for-each-ref | cmp - /before || exit 97
        exit $code'
    """
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        env=bench.env() | {"PATH": f"{bench.bin}:/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    if done.returncode == 99:
        pytest.skip("this kernel allows no overlay mount here")
    refused(Result(done.returncode, done.stdout.decode(), done.stderr.decode()), "/")
    assert bench.calls() == []


def test_unborn_branch(bench: Bench) -> None:
    young = bench.root / "young"
    young.mkdir()
    bench.git("init", "-q", cwd=young)
    shutil.copytree(bench.path("openspec"), young / "openspec")
    before = bench.contents(young, runtime=True)
    refused(run(bench, "demo", cwd=young), "commit", "git commit")
    assert bench.contents(young, runtime=True) == before
    assert bench.git("for-each-ref", cwd=young) == ""


def _conflict(bench: Bench) -> None:
    bench.git("checkout", "-q", "-b", "left")
    bench.write("README.md", "left\n")
    bench.commit("left")
    bench.git("checkout", "-q", "feature/x")
    bench.write("README.md", "right\n")
    bench.commit("right")


@pytest.mark.parametrize("word", ["merge", "rebase", "cherry-pick"])
def test_operation_in_progress(bench: Bench, word: str) -> None:
    _conflict(bench)
    bench.git(word, "left", ok=False)
    refuses(bench, "demo", words=(word, f"git {word} --abort"))


def test_bisect_in_progress(bench: Bench) -> None:
    bench.git("bisect", "start", "HEAD", "HEAD~1")
    refuses(bench, "demo", words=("bisect", "git bisect reset"))


def test_unknown_change_names_the_nearest(bench: Bench) -> None:
    refuses(bench, "dmeo", words=("dmeo", "demo"))


@pytest.mark.parametrize(
    "name", ["bad..name", "has space", "x.lock", "a~b", "a:b", "/x", "x/", ".x"]
)
@pytest.mark.parametrize("plain", [False, True], ids=["change", "task"])
def test_illegal_change_name(bench: Bench, name: str, *, plain: bool) -> None:
    refuses(bench, name, *(["--task", "do it"] if plain else []), words=(name,))


@pytest.mark.parametrize(
    "text",
    ["", "# Tasks\n", "# Tasks\n\n## 1. Alpha\n\n- no box\n\n## 2. Bravo\n"],
    ids=["empty", "title only", "groups without tasks"],
)
def test_no_stories(bench: Bench, text: str) -> None:
    bench.write(TASKS, text)
    bench.commit("no tasks")
    refuses(bench, "demo", words=("tasks.md", "task"))


def test_duplicate_story_numbers_name_the_line(bench: Bench) -> None:
    text = tasks_text() + "\n## 2. Again\n\n- [ ] 2.1 Again\n"
    bench.write(TASKS, text)
    bench.commit("twice")
    line = text.splitlines().index("## 2. Again") + 1
    refuses(bench, "demo", words=("tasks.md", f"{line}", "2"))


def test_tasks_file_that_cannot_be_read(bench: Bench) -> None:
    # A folder in its place: root can read a file of mode 000.
    bench.path(TASKS).unlink()
    bench.write(f"{TASKS}/x.txt", "x\n")
    bench.commit("folder")
    refuses(bench, "demo", words=("tasks.md",))


def test_agent_command_not_found(bench: Bench) -> None:
    before = bench.snapshot()
    refused(bench.run("run", "demo", "--agent-cmd", "/nonexistent/agent -x"), "/nonexistent/agent")
    assert bench.snapshot() == before


def test_claude_not_installed(bench: Bench) -> None:
    before = bench.snapshot()
    bare = bench.root / "bare-bin"
    bare.mkdir()
    for tool in ("git", "sh"):
        (bare / tool).symlink_to(shutil.which(tool) or tool)
    refused(bench.run("run", "demo", env={"PATH": str(bare)}), "claude")
    assert bench.snapshot() == before


def test_unknown_agent_names_the_nearest(bench: Bench) -> None:
    before = bench.snapshot()
    refused(bench.run("run", "demo", "--agent", "cluade"), "cluade", "claude")
    assert bench.snapshot() == before


def _config(bench: Bench, text: str, name: str = "untildone.toml") -> None:
    bench.write(name, text)
    bench.commit("config")


def test_config_unknown_key_names_file_line_and_nearest_key(bench: Bench) -> None:
    _config(bench, "# mine\n\nmax_retrys = 2\n")
    refuses(bench, "demo", words=("untildone.toml", "3", "max_retrys", "max_retries"))


def test_config_wrong_type_names_file_line_and_key(bench: Bench) -> None:
    _config(bench, '# mine\nmax_retries = "three"\n')
    refuses(bench, "demo", words=("untildone.toml", "2", "max_retries"))


def test_config_syntax_error_names_file_and_line(bench: Bench) -> None:
    _config(bench, "# mine\n\n\nmax_retries = = 2\n")
    refuses(bench, "demo", words=("untildone.toml", "4"))


def test_config_in_pyproject_is_checked_too(bench: Bench) -> None:
    _config(bench, '[project]\nname = "x"\n[tool.untildone]\nmax_retrys = 2\n', "pyproject.toml")
    refuses(bench, "demo", words=("pyproject.toml", "4", "max_retrys", "max_retries"))


def test_config_that_cannot_be_read(bench: Bench) -> None:
    # A folder in its place: root can read a file of mode 000.
    _config(bench, "x\n", "untildone.toml/x.txt")
    refuses(bench, "demo", words=("untildone.toml",))


def test_config_that_is_not_utf_8(bench: Bench) -> None:
    bench.path("untildone.toml").write_bytes(b"# \xff\xfe\nmax_retries = 2\n")
    bench.commit("config")
    refuses(bench, "demo", words=("untildone.toml",))


def test_wrong_value_in_the_environment(bench: Bench) -> None:
    refuses(bench, "demo", words=("UNTILDONE_MAX_RETRIES",), UNTILDONE_MAX_RETRIES="many")


@pytest.mark.parametrize(
    "args",
    [
        ("--max-retries", "-1"),
        ("--max-retries", "many"),
        ("--max-iterations", "0"),
        ("--timeout", "-5"),
        ("--done", "maybe"),
        ("--checkpoint", "cloud"),
        ("--on-complete", "explode"),
        ("--stall-threshold", "0"),
    ],
    ids=" ".join,
)
def test_wrong_value_of_a_flag(bench: Bench, args: tuple[str, str]) -> None:
    refuses(bench, "demo", *args, words=(args[0],))


@pytest.mark.parametrize("task", ["", " \n"], ids=["empty", "blank"])
def test_empty_task(bench: Bench, task: str) -> None:
    bench.path(".git/task.txt").write_text(task)
    refuses(bench, "demo", "--task", task, words=("task", "empty"))
    refuses(bench, "--task-file", ".git/task.txt", words=("task", "empty"))


UNREADABLE = {"missing": "No such file", "folder": "Is a directory", "utf-16": "not UTF-8"}


@pytest.mark.parametrize("how", UNREADABLE)
@pytest.mark.parametrize("flag", ["--task-file", "--prompt-template"])
def test_file_that_cannot_be_read(bench: Bench, flag: str, how: str) -> None:
    name = bench.path(".git/named")
    if how == "folder":
        name.mkdir()
    elif how == "utf-16":
        name.write_bytes("é".encode("utf-16"))
    what = flag.removeprefix("--").replace("-", " ")
    words = (what, UNREADABLE[how], str(name), "hint: ")
    refuses(bench, "demo", flag, str(name), "--checkpoint", "worktree", words=words)


def test_a_task_and_a_task_file(bench: Bench) -> None:
    bench.path(".git/task.txt").write_text("Do it.\n")
    args = ("--task", "Do that.", "--task-file", ".git/task.txt")
    refuses(bench, "demo", *args, words=("--task", "--task-file", "only one"))


def test_empty_change_name(bench: Bench) -> None:
    refuses(bench, "", words=("change", "empty"))
    refuses(bench, "", "--task", "do it", words=("change", "empty"))


@pytest.mark.parametrize("flag", ["--agent-cmd", "--verify"])
@pytest.mark.parametrize("text", ["", " "], ids=["empty", "blank"])
def test_empty_command(bench: Bench, flag: str, text: str) -> None:
    # An unset variable of a script: neither another agent nor a check that never runs.
    bench.install_claude()
    refuses(bench, "demo", flag, text, words=(flag, "no command", "Nothing was changed"))


def test_wrong_flag_names_the_nearest(bench: Bench) -> None:
    refuses(bench, "demo", "--max-retrys", "2", words=("--max-retrys", "--max-retries"))


def test_wrong_command_names_the_nearest(bench: Bench) -> None:
    refused(bench.run("statsu"), "statsu", "status")


def test_second_loop_in_the_same_worktree(bench: Bench) -> None:
    bench.plan({}, default=SLEEP)
    live = bench.begin()
    bench.wait_call(1)

    def seen() -> Json:
        return bench.snapshot(runtime=False)

    before = seen()
    refused(run(bench, "demo"), str(live.pid))
    refused(run(bench, "other", "--task", "do it"), str(live.pid))
    assert seen() == before
    assert live.alive()
    assert len(bench.calls()) == 1


def test_side_branch_checked_out_in_another_worktree(bench: Bench) -> None:
    linked = bench.root / "linked"
    bench.git("worktree", "add", "-q", "-b", "ralph/demo", str(linked))
    before = bench.contents(linked, runtime=True)
    refuses(bench, "demo", words=("ralph/demo", str(linked)))
    assert bench.contents(linked, runtime=True) == before


def test_branch_called_ralph(bench: Bench) -> None:
    bench.git("branch", "ralph")
    refuses(bench, "demo", words=("ralph", "git branch"))


def test_branch_below_the_side_branch(bench: Bench) -> None:
    bench.git("branch", "ralph/demo/more")
    refuses(bench, "demo", words=("ralph/demo/more",))


@pytest.fixture
def full_disk(bench: Bench) -> Iterator[Path]:
    """`.claude` on a full tiny file system; where mounting is not allowed, a file in its place."""
    folder = bench.path(".claude")
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)],
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
    if mounted:
        with (folder / "filler").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
    else:
        folder.rmdir()
        folder.write_text("not a folder\n")
    bench.path(".git/info/exclude").write_text(".claude\n")
    yield folder
    if mounted:
        for _ in range(50):
            if subprocess.run(["umount", str(folder)], check=False).returncode == 0:
                break
            time.sleep(0.05)


def test_disk_full_while_writing_state(bench: Bench, full_disk: Path) -> None:
    # The backup ref that came before may stay; everything of the user's must be as it was.
    before = bench.snapshot()
    refused(run(bench, "demo"), full_disk.name)
    after = bench.snapshot()
    for side in (before, after):
        side["refs"] = {k: v for k, v in side["refs"].items() if not k.startswith("refs/ralph/")}
    assert after == before
    assert bench.calls() == []


@pytest.mark.parametrize("command", ["finish", "attempts", "restore", "logs", "done", "resume"])
def test_command_for_an_unknown_run(bench: Bench, command: str) -> None:
    before = bench.snapshot()
    args = ["dmeo", "keep"] if command == "finish" else ["dmeo"]
    refused(bench.run(command, *args), "dmeo")
    assert bench.snapshot() == before


def test_an_error_after_an_attempt_was_put_back_says_so(bench: Bench) -> None:
    bench.plan({}, default=SLEEP)
    live = bench.begin()
    bench.wait_call(1)
    live.kill_unguarded()
    bench.git("worktree", "add", "-q", str(bench.root / "linked"), "feature/x")
    said = bench.run("restore", "demo").ok(2).stderr
    assert "`feature/x` is checked out in another worktree" in said
    assert "cut short was saved and put back; nothing else was changed" in said
    assert "Nothing was changed" not in said


def test_an_error_after_a_choice_was_carried_out_says_so(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    live = bench.begin("--on-complete", "ask")
    live.wait_event("complete")
    live.kill_unguarded()
    (journal,) = bench.path(".git").glob("untildone/runs/*/journal.jsonl")
    with contextlib.closing(Journal(journal)) as book:  # killed right after this
        book.record(ChoiceMade(Choice.KEEP), (), dt.datetime.now(dt.UTC))
    said = run(bench, "dmeo").ok(2).stderr
    assert "Unknown change: dmeo" in said
    assert "The keep of `demo` that was cut short was finished first; nothing else" in said
    assert "Nothing was changed" not in said


def test_stop_without_a_live_loop(bench: Bench) -> None:
    refused(bench.run("stop", "demo"), "loop")


def test_finish_with_an_unknown_choice(bench: Bench) -> None:
    refused(bench.run("finish", "demo", "explode"), "explode", "cleanup", "keep")


def test_run_without_change_and_none_open(bench: Bench) -> None:
    shutil.rmtree(bench.path("openspec"))
    bench.commit("gone")
    refuses(bench, words=("change",))


def test_run_without_change_and_several_open_names_them(bench: Bench) -> None:
    bench.write("openspec/changes/second/tasks.md", tasks_text())
    bench.write("openspec/changes/second/proposal.md", "# Second\n")
    bench.commit("second")
    refuses(bench, words=("demo", "second"))


@pytest.mark.parametrize("args", [("run", "dmeo"), ("statsu",)], ids=" ".join)
def test_an_error_that_nobody_hears_keeps_its_exit_code(
    bench: Bench, args: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [str(COMMAND), *args]
        done = subprocess.run(command, cwd=bench.repo, env=bench.env(), stderr=full, check=False)
    assert done.returncode == 2


def test_errors_in_json_mode_leave_only_json_on_standard_output(bench: Bench) -> None:
    result = bench.loop("--max-retries", "-1")
    assert result.code == 2
    assert result.events is not None
    unknown = bench.run("run", "dmeo", "--json", "--agent-cmd", bench.agent)
    assert unknown.code == 2
    assert unknown.events is not None
    assert "dmeo" in unknown.stdout + unknown.stderr
