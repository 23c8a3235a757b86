"""What a run keeps is for its owner's eyes, and what others wrote is not obeyed."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, failed
from tests.e2e.change import TASKS

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31mred\u202etxt\x08"
# All that a terminal obeys; the colours and cursor moves of our own live view come with them.
OBEYED = re.compile("\x1b\\]0;owned|\x1b\\[2J|[\x80-\x9f\u202e\x08]")


def below(folder: Path) -> list[Path]:
    """Everything in a folder, the folder too."""
    return [folder, *folder.rglob("*")]


def too_open(folder: Path) -> list[str]:
    """Folders that are not 0700 and files that are not 0600."""
    modes = {p: stat.S_IMODE(p.lstat().st_mode) for p in below(folder)}
    return [
        f"{mode:o} {path}"
        for path, mode in modes.items()
        if mode != (0o700 if path.is_dir() else 0o600)
    ]


def test_run_folders_are_0700_and_their_files_0600(bench: Bench) -> None:
    changes_config = ["sh", "git config user.token s3cr3t"]
    gate = ["wait", bench.gate("go")]
    bench.plan({1: [changes_config, ["say", failed("no")]], 2: [gate, *DONE]})
    index = bench.path(".git/index").stat().st_mode
    live = bench.begin("--on-complete", "cleanup")
    bench.wait_call(2)
    runs = bench.path(".git/untildone/runs")
    (run,) = runs.iterdir()
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    named = [run / "journal.jsonl", *run.glob("changed-config*"), *run.glob("logs/*")]
    assert {f"{stat.S_IMODE(path.stat().st_mode):o}" for path in named} == {"600"}
    bench.open_gate("go")
    live.wait().ok()
    assert too_open(runs) == []
    assert bench.path(".git/index").stat().st_mode == index


MODES = {"private.key": 0o600, "team.cfg": 0o640, "only-read.txt": 0o444, "tool.sh": 0o700}


@pytest.mark.parametrize(
    "checkpoint",
    ["branch", *(pytest.param(name, marks=pytest.mark.full) for name in ("stash", "worktree"))],
)
def test_files_that_are_written_anew_keep_modes_that_git_does_not_store(
    bench: Bench, checkpoint: str
) -> None:
    for name, mode in MODES.items():
        bench.write(name, "first\n")
        bench.path(name).chmod(mode)
    bench.commit("theirs")

    def modes() -> dict[str, int]:
        return {name: stat.S_IMODE(bench.path(name).stat().st_mode) for name in MODES}

    edit = ["sh", f"for f in {' '.join(MODES)}; do echo {{n}} >> $f; done"]
    bench.only_stories(1)
    bench.plan({1: [edit, ["say", failed("no")]], 2: [edit, *DONE]})
    bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    assert (bench.read("private.key"), modes()) == ("first\n2\n", MODES)
    bench.run("undo").ok()
    assert modes() == MODES
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert (bench.read("private.key"), modes()) == ("first\n1\n", MODES)
    bench.run("restore", "demo").ok()
    assert (bench.read("private.key"), modes()) == ("first\n", MODES)


REPLACED = {
    "deleted": "rm {f}",
    "replaced": "echo {{n}} > new; chmod 644 new; mv -f new {f}",
    "opened to all": "chmod 666 {f} && echo {{n}} >> {f}",
}


@pytest.mark.parametrize("how", REPLACED)
@pytest.mark.parametrize(
    "checkpoint",
    ["branch", *(pytest.param(name, marks=pytest.mark.full) for name in ("stash", "worktree"))],
)
def test_modes_of_files_that_an_attempt_deletes_or_replaces_come_back(
    bench: Bench, checkpoint: str, how: str
) -> None:
    names = {**MODES, "vault/deep/key.txt": 0o600}
    for name, mode in names.items():
        bench.write(name, "first\n")
        bench.path(name).chmod(mode)
    bench.path("vault").chmod(0o2750)
    bench.commit("theirs")
    bench.only_stories(1)
    names["vault"] = 0o2750

    def modes(folder: Path) -> dict[str, int]:
        return {name: stat.S_IMODE((folder / name).stat().st_mode) for name in names}

    each = "; ".join(REPLACED[how].format(f=name) for name in names if name != "vault")
    harm = ["sh", f"{each}; chmod 755 vault; rmdir -p vault/deep"]
    bench.plan({1: [harm, ["say", failed("no")]], 2: [["wait", bench.gate("go")], harm, *DONE]})
    live = bench.begin("--checkpoint", checkpoint)
    place = Path(bench.wait_call(2).cwd)
    assert modes(place) == names
    assert {(place / name).read_text() for name in MODES} == {"first\n"}
    bench.open_gate("go")
    live.wait().ok()
    bench.run("restore", "demo").ok()
    assert modes(bench.repo) == names


def test_run_folders_that_exist_already_are_made_private(bench: Bench) -> None:
    bench.loop("--on-complete", "cleanup").ok()
    runs = bench.path(".git/untildone/runs")
    for path in below(runs):
        path.chmod(0o755 if path.is_dir() else 0o644)
    bench.loop("--task", "Another", "--done", "promise").ok()
    assert too_open(runs) == []


@pytest.mark.parametrize("where", ["plain", "terminal"])
def test_no_text_of_others_reaches_the_terminal_with_escapes(bench: Bench, where: str) -> None:
    bench.write(TASKS, f"## 1. Title {EVIL}\n\n- [ ] 1.1 Task {EVIL}\n")
    bench.commit("evil")
    bench.plan({1: [["say", f"words {EVIL}\n{failed('reason ' + EVIL)}"]]})
    args = ("run", "demo", "--agent-cmd", bench.agent, "--max-retries", "0", "--on-complete")
    if where == "terminal":
        screen = bench.terminal(*args, "keep")
        assert screen.wait() == 3
        shown = [screen.raw.decode()]
    else:
        ended = bench.run(*args, "keep")
        shown = [ended.stdout, ended.stderr]
    looks = ("logs demo", "logs demo --json", "status", "stories demo", "attempts demo")
    plans = ("stories demo --graph", "lint demo", "lint demo --json", "run demo --dry-run")
    for more in (*looks, *plans, "attach demo", "wait demo", "report demo", "report demo --html"):
        ended = bench.run(*more.split())
        shown += [ended.stdout, ended.stderr]
    shown.append(bench.run("add", "demo", f"New {EVIL}").ok().stdout)
    shown += [bench.run("attempts", "demo", "--show", "1/1").ok().stdout]
    assert [text for text in shown if OBEYED.search(text)] == []
    told = bench.run("logs", "demo", "--json").events
    title = next(e for e in told if e["event"] == "iteration_started")["title"]
    assert "\x1b[2J" in title  # for scripts it is data as it was


def test_a_bundle_holds_no_password_and_no_key(bench: Bench) -> None:
    aws = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzQ9s1xKEY"
    said = f"password=hunter2 then\naws_secret_access_key = {aws}\nDB_PASS='letmein'"
    token, netrc = "ghp_" + "0a1B2c3D4e" * 4, "machine h\n  login ada\n  password sesame"
    said += f"\n{token}\n\x1b[31m{token[:-1]}\x1b[0m\naws:\n{aws[::-1]}\n{netrc}"
    bench.plan({1: [["say", said], *DONE]})
    bench.loop("--on-complete", "keep").ok()
    bench.run("report", "demo", "--bundle", "run.tar.gz").ok()
    import tarfile

    with tarfile.open(bench.path("run.tar.gz")) as tar:
        files = [tar.extractfile(member) for member in tar]
        whole = b"".join(file.read() for file in files if file)
    assert b"hunter2" not in whole
    assert aws.encode() not in whole
    assert b"letmein" not in whole
    # At the start of a line, which is `\n` in the journal, or behind a colour.
    assert token[:-1].encode() not in whole
    assert aws[::-1].encode() not in whole
    assert b"sesame" not in whole


OUTSIDE = {
    "prompt_template": '"../../etc/passwd"',
    "source_file": '"../stories.md"',
    "script": '"/etc/passwd"',
    "learnings": '"~/.bashrc"',
    "sandbox_writable": '["~/.ssh"]',
}


@pytest.mark.parametrize("key", OUTSIDE)
def test_a_repositorys_configuration_names_only_files_inside_of_it(bench: Bench, key: str) -> None:
    bench.write("untildone.toml", f"{key} = {OUTSIDE[key]}\n")
    bench.commit("a clone's configuration")
    refused = bench.loop().ok(2)
    assert f"untildone.toml:1: `{key}` " in refused.stderr
    assert "inside the repository" in refused.stderr
    assert bench.calls() == []


def test_a_link_does_not_lead_the_prompt_template_out(bench: Bench) -> None:
    os.symlink("/etc/passwd", bench.path("prompt.md"))
    bench.write("untildone.toml", 'prompt_template = "prompt.md"\n')
    bench.commit("a link")
    assert "inside the repository" in bench.loop().ok(2).stderr
