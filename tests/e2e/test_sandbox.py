"""The sandbox, seen from inside by an agent that tries everything."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, Actions
from tests.e2e.bench import Bench, new_bench
from tests.e2e.change import TASKS
from tests.e2e.needs import needs_bwrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.command import Result

pytestmark = pytest.mark.e2e

CONNECT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)"


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Not below /tmp, which is writable in the sandbox."""
    made = new_bench("/var/tmp")
    made.only_stories(1)
    yield made
    made.close()


def enclosed(bench: Bench, *more: str, sandbox: str = "bwrap") -> Result:
    """A loop in the sandbox; the bench's notes about calls must be writable."""
    return bench.loop("--sandbox", sandbox, "--sandbox-writable", str(bench.root / "calls"), *more)


def tries(*commands: str) -> Actions:
    """Each command in turn; those that worked are listed in `worked.txt`."""
    steps = [f"({c}) && echo {shlex.quote(c)} >> worked.txt" for c in commands]
    return [["sh", "\n".join(steps)], ["say", COMPLETE]]


def worked(bench: Bench, folder: Path | None = None) -> list[str]:
    path = (folder or bench.repo) / "worked.txt"
    return path.read_text().splitlines() if path.exists() else []


@needs_bwrap
def test_what_may_be_written(bench: Bench) -> None:
    (bench.home / ".cache").mkdir()
    temporary = f"/tmp/ud-{secrets.token_hex(6)}"
    allowed = [
        "echo x > inside.txt",
        f"echo x > {temporary}",
        'echo x > "$TMPDIR/x"',
        "echo x > ~/.cache/x",
        "git add -A && git commit -q -m mine && git tag mine && git checkout -q -b other",
        "git checkout -q ralph/demo && git merge -q other && git gc -q",
    ]
    denied = [
        ": >> .git/config",
        "rm .git/config",
        "mv .git/config .git/old",
        "git config user.name Evil",
        ": >> .git/hooks/post-checkout",
        "mv .git/hooks .git/old",
        "mv .git old",
        ": >> .git/info/exclude",
        "echo '* filter=x' > .git/info/attributes",
        ": >> .git/untildone/lock",
        'f=$(echo .git/untildone/runs/*/journal.jsonl) && test -e "$f" && : >> "$f"',
        "echo x > .git/untildone/inbox/x.json",
        f"echo x > {bench.root}/outside.txt",
        "echo x > ~/.bashrc",
        ": >> ~/.gitconfig",
        "mount -o remount,rw,bind /",
        "umount .git/config",
    ]
    bench.plan({1: tries(*allowed, *denied)})
    try:
        result = enclosed(bench).ok()
        assert Path(temporary).read_text() == "x\n"
    finally:
        Path(temporary).unlink(missing_ok=True)
    assert worked(bench) == allowed
    assert result.one("run_started")["sandbox"] == "bwrap"
    assert result.named("warning") == []
    assert bench.blob("ralph/demo", "inside.txt") == "x"


@needs_bwrap
def test_a_linked_worktree(bench: Bench) -> None:
    linked = bench.root / "linked"
    bench.git("worktree", "add", "-q", "-b", "side", str(linked))
    bench.git("worktree", "add", "-q", "-b", "third", str(bench.root / "third"))
    main = bench.repo / ".git"
    allowed = ["echo x > inside.txt", "git add -A && git commit -q -m mine && git tag mine"]
    denied = [
        ": >> .git",
        "mv .git old",
        f": >> {main}/config",
        f": >> {main}/hooks/post-checkout",
        f": >> {main}/HEAD",
        f": >> {main}/worktrees/third/HEAD",
        f": >> {main}/worktrees/linked/commondir",
        f": >> {main}/worktrees/linked/untildone/lock",
        f"echo x > {bench.repo}/outside.txt",
        f"echo x > {bench.root}/third/outside.txt",
    ]
    bench.plan({1: tries(*allowed, *denied)})
    args = ["--sandbox", "bwrap", "--sandbox-writable", str(bench.root / "calls")]
    bench.run(*bench.loop_args(*args), cwd=linked).ok()
    assert worked(bench, linked) == allowed


@needs_bwrap
def test_a_worktree_of_the_runs_own(bench: Bench) -> None:
    allowed = ["echo x > inside.txt", "git add -A && git commit -q -m mine"]
    bench.plan({1: tries(*allowed, f"echo x > {bench.repo}/outside.txt", ": >> .git")})
    enclosed(bench, "--checkpoint", "worktree", "--on-complete", "cleanup").ok()
    assert worked(bench) == allowed
    assert not bench.path("outside.txt").exists()


@needs_bwrap
def test_checks_run_in_it_too(bench: Bench) -> None:
    outside = bench.root / "outside.txt"
    bench.plan()
    result = enclosed(bench, "--verify", f"echo x > {outside}", "--max-retries", "0").ok(3)
    assert result.outcomes() == ["verify_failed"]
    assert not outside.exists()


@needs_bwrap
def test_the_agents_own_folder_is_writable(bench: Bench) -> None:
    bench.install_claude()
    (bench.home / ".claude").mkdir()
    (bench.home / ".claude.json").write_text("{}")
    allowed = ["echo x > ~/.claude/x", "echo '{ }' > ~/.claude.json"]
    bench.plan({1: tries(*allowed, "echo x > ~/x")})
    enclosed(bench, "--agent", "claude").ok()
    assert worked(bench) == allowed


@needs_bwrap
def test_no_stub_is_left_where_something_is_missing(bench: Bench) -> None:
    before = sorted(str(p) for p in (bench.repo / ".git").iterdir())
    home = sorted(bench.home.rglob("*"))
    bench.plan()
    enclosed(bench, "--on-complete", "cleanup").ok()
    made = {"untildone", "logs", "ORIG_HEAD"}
    now = sorted(str(p) for p in (bench.repo / ".git").iterdir() if p.name not in made)
    assert now == [path for path in before if Path(path).name not in made]
    assert sorted(bench.home.rglob("*")) == home


@contextlib.contextmanager
def server() -> Iterator[tuple[int, list[object]]]:
    """A listener on the loopback; its port and the connections it has seen."""
    seen: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, where = listener.accept()
                    connection.close()
                    seen.append(where)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1], seen
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@needs_bwrap
@pytest.mark.parametrize(("flag", "connected"), [("", True), ("--no-sandbox-network", False)])
def test_the_network(bench: Bench, flag: str, connected: bool) -> None:
    with server() as (port, seen):
        call = shlex.join([sys.executable, "-IS", "-c", CONNECT, str(port)])
        bench.plan({1: tries(call)})
        enclosed(bench, *([flag] if flag else [])).ok()
    assert (len(worked(bench)), len(seen)) == ((1, 1) if connected else (0, 0))


@needs_bwrap
def test_resume_keeps_it(bench: Bench) -> None:
    bench.plan(default=[["sh", f"echo x > {bench.root}/outside.txt"], ["die", 9]])
    enclosed(bench, "--max-retries", "0").ok(3)
    result = bench.run("resume", "demo", "--json").ok(3)
    assert result.one("run_started")["sandbox"] == "bwrap"
    assert not (bench.root / "outside.txt").exists()
    result = bench.run("resume", "demo", "--json", "--sandbox", "off").ok(3)
    assert result.one("run_started")["sandbox"] == "off"
    assert (bench.root / "outside.txt").exists()


def without_bwrap(bench: Bench) -> dict[str, str]:
    """A PATH with everything but bubblewrap."""
    folder = bench.root / "programs"
    folder.mkdir()
    for path in reversed(bench.env()["PATH"].split(os.pathsep)):
        for program in Path(path).glob("*"):
            if program.name != "bwrap":
                (folder / program.name).unlink(missing_ok=True)
                (folder / program.name).symlink_to(program)
    return {"PATH": str(folder)}


def test_asked_for_and_absent(bench: Bench) -> None:
    before = bench.snapshot()
    result = bench.loop("--sandbox", "bwrap", env=without_bwrap(bench)).ok(2)
    assert "`bwrap` was not found" in result.stderr
    assert "apt-get install bubblewrap" in result.stderr
    assert "--sandbox off" in result.stderr
    assert (bench.snapshot(), bench.calls()) == (before, [])


def test_asked_for_and_not_able(bench: Bench) -> None:
    bench.program(
        "bwrap", "#!/bin/sh\necho 'bwrap: No permissions to create namespace' >&2; exit 1\n"
    )
    before = bench.snapshot()
    result = bench.loop("--sandbox", "bwrap").ok(2)
    assert "bwrap: No permissions to create namespace" in result.stderr
    assert (bench.snapshot(), bench.calls()) == (before, [])


def test_a_writable_path_that_does_not_exist(bench: Bench) -> None:
    result = bench.loop("--sandbox", "auto", "--sandbox-writable", "nowhere").ok(2)
    assert f"does not exist: {bench.repo}/nowhere" in result.stderr


def test_auto_without_it_goes_on_and_says_so(bench: Bench) -> None:
    bench.plan()
    result = bench.loop("--sandbox", "auto", env=without_bwrap(bench)).ok()
    assert result.one("run_started")["sandbox"] == "off"
    (warning,) = result.named("warning")
    assert "runs without a sandbox: the program `bwrap` was not found" in warning["message"]


@needs_bwrap
def test_auto_takes_it_when_it_works(bench: Bench) -> None:
    bench.plan()
    result = enclosed(bench, sandbox="auto").ok()
    assert (result.one("run_started")["sandbox"], result.named("warning")) == ("bwrap", [])


def test_the_first_line_says_that_there_is_none(bench: Bench) -> None:
    bench.plan()
    lines = bench.run("run", "demo", "--agent-cmd", bench.agent).ok().stdout.splitlines()
    assert lines[0].endswith("sandbox: off")


def test_doctor_recommends_it(bench: Bench) -> None:
    def row(env: dict[str, str] | None = None) -> dict[str, str]:
        rows = bench.run("doctor", "--json", env=env).json()["rows"]
        (found,) = [row for row in rows if row["check"] == "sandbox"]
        return dict(found)

    assert "apt-get install bubblewrap" in row(without_bwrap(bench))["fix"]
    bench.program("bwrap", "#!/bin/sh\nexit 0\n")
    assert row()["level"] == "ok"
    assert 'sandbox = "auto"' in row()["fix"]
    bench.write("untildone.toml", 'sandbox = "auto"\n')
    assert (row()["level"], row()["fix"]) == ("ok", "")
    bench.write("untildone.toml", 'sandbox = "bwrap"\n')
    bench.program("bwrap", "#!/bin/sh\nexit 1\n")
    assert row()["level"] == "bad"


@needs_bwrap
def test_a_check_can_write_the_report_that_its_runner_is_asked_for(bench: Bench) -> None:
    bench.plan({1: [["write", "a.txt", "x"], ["say", COMPLETE]]})
    report = 'report="${PYTEST_ADDOPTS#*=}"; test -n "$report"'
    enclosed(bench, "--verify", f"{report} && echo '<testcase/>' > $report").ok()
    (written,) = (bench.repo / ".git/untildone/runs").glob("*/reports/pytest.xml")
    assert written.read_text() == "<testcase/>\n"


@needs_bwrap
@pytest.mark.parametrize("slots", ["clone", "worktree"])
def test_a_lane_writes_to_its_own_slot_and_to_no_other(bench: Bench, slots: str) -> None:
    run = bench.repo.with_name(f"{bench.repo.name}-ralph-demo")
    note = f"{run}/.untildone-learnings-demo.md"
    other = 'o=$(ls -d ../../lane-* | grep -v "lane-$UNTILDONE_LANE$") && '
    allowed = [
        "echo x > inside-$UNTILDONE_LANE.txt",
        'echo x > "$TMPDIR/x"',
        "echo x > ~/.cache/x",
        f"echo learned in $UNTILDONE_LANE >> {note}",
        "git add -A && git commit -q -m mine",
    ]
    denied = [
        f"{other} echo x > $o/x",
        f"{other} echo x > $o/{bench.repo.name}/README.md",
        f"{other} echo x > $o/tmp/x",
        f"{other} rm -rf $o",
        "echo x > ../x",
        ": >> ../slot.json",
        "mkdir ../../lane-9",
        "git config user.name Evil",
        f": >> {bench.repo}/README.md",
        f": >> {run}/README.md",
        f": >> {bench.repo}/.git/HEAD",
    ]
    lines = ["while [ $(ls -d ../../lane-*/tmp | wc -l) -lt 2 ]; do sleep 0.02; done"]
    for n, line in enumerate((*allowed, *denied)):
        lines.append(f"({line}) && echo {n} >> worked-$UNTILDONE_LANE")
    script = "\n".join(["#!/bin/sh", "cat > /dev/null", *lines, f"echo '{COMPLETE}'", ""])
    stories = (f"## {n}. Story {n}\n\nTouches: own-{n}\n\n- [ ] {n}.1 task\n" for n in (1, 2))
    bench.write(TASKS, "\n".join(stories))
    bench.commit("stories")
    (bench.home / ".cache").mkdir()
    agent = str(bench.program("shell-agent", script))
    lanes = ("--lanes", "2", "--slots", slots, "--sandbox", "bwrap")
    bench.loop("--agent-cmd", agent, *lanes).ok()
    for lane in (0, 1):
        done = bench.git("show", f"ralph/demo:worked-{lane}").split()
        tried = [(*allowed, *denied)[int(n)] for n in done]
        assert tried == allowed
    assert {"learned in 0", "learned in 1"} <= set(Path(note).read_text().splitlines())
