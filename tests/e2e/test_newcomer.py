"""What a newcomer ran into: agents that cheat or stray, and answers that came late."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, failed
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.command import COMMAND, Result

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def _ignore_the_tasks(bench: Bench) -> None:
    bench.git("rm", "-q", "--cached", TASKS)
    bench.write(".gitignore", f".env\nbuild/\n{TASKS}\n")
    bench.commit("ignore the tasks")


def test_ticks_of_a_failed_attempt_in_an_ignored_file_are_taken_back(bench: Bench) -> None:
    _ignore_the_tasks(bench)
    cheats = [["tick_all"], ["write", "mess.txt", "mess\n"], ["say", failed("no luck")]]
    bench.plan({1: cheats}, default=cheats)
    ended = bench.loop("--max-retries", "1")
    assert ended.code != 0
    assert ended.outcomes() == ["failed", "failed"]
    assert bench.read(TASKS) == tasks_text()
    assert bench.state()["status"] == "stuck"


def test_work_that_starts_from_the_original_branch_is_a_failed_attempt(bench: Bench) -> None:
    strays = [
        ["git", "checkout", "-q", "feature/x", "-b", "side"],
        ["write", "side.txt", "side\n"],
        ["commit", "side"],
        ["say", COMPLETE],
    ]
    bench.plan({2: strays})
    bench.loop().ok()
    assert len(bench.state()["iterations"]) == 4
    _, straying, again = bench.calls()[:3]
    assert again.place == ("ralph/demo", straying.head, "")
    assert "does not build on the branch" in again.prompt
    assert again.files == straying.files
    for n in (1, 3, 4):
        assert bench.blob("ralph/demo", f"work-{n}.txt") == f"work {n}"
    assert not bench.has("ralph/demo:side.txt")


def test_done_is_refused_for_a_run_of_stories(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    live = bench.begin()
    bench.wait_call(1)
    refused = bench.run("done", "demo").ok(2)
    assert "not by your word" in refused.stderr
    bench.open_gate("go")
    live.wait().ok()
    assert len(bench.calls()) == 3


def test_done_is_refused_for_a_stopped_run_of_stories(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    live = bench.begin()
    bench.wait_call(1)
    live.signal(signal.SIGTERM)
    live.wait()
    assert "not by your word" in bench.run("done", "demo").ok(2).stderr
    assert bench.state()["status"] == "stopped"


@pytest.mark.parametrize("more", [(), ("--done", "manual")], ids=["tasks", "manual"])
def test_done_is_refused_inside_the_agent(bench: Bench, more: tuple[str, ...]) -> None:
    said = bench.root / "said"
    tries = f"{COMMAND} done demo 2> {said}; echo $? >> {said}"
    bench.plan({1: [["sh", tries], ["wait", bench.gate("go")], *DONE]})
    live = bench.begin(*more)
    live.wait_event("iteration_started")
    bench.wait_call(1)
    bench.open_gate("go")
    if more:
        live.wait_event("iteration_started", n=3)
        live.wait_event("iteration_ended", n=3)
        live.signal(signal.SIGTERM)
        live.wait()
    else:
        live.wait().ok()
    assert said.read_text().splitlines()[-1] == "2"
    assert "belongs to the person" in said.read_text()
    assert len(bench.calls()) == 3


MEDDLES: Actions = [
    ["sh", "printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit"],
    ["chmod", ".git/hooks/pre-commit", 0o755],
    ["delete", ".git/hooks/pre-push"],
    ["git", "config", "user.email", "evil@bench.invalid"],
    ["git", "config", "core.hooksPath", "/nowhere"],
    ["say", failed("no luck")],
]


def test_hooks_and_config_are_put_back_after_a_failed_attempt(bench: Bench) -> None:
    git = bench.repo / ".git"
    (git / "hooks").mkdir(exist_ok=True)
    (git / "hooks/pre-push").write_text("#!/bin/sh\n")
    (git / "hooks/pre-push").chmod(0o755)
    config = (git / "config").read_text()
    bench.plan({1: MEDDLES})
    bench.loop().ok()
    assert (git / "config").read_text() == config
    assert not (git / "hooks/pre-commit").exists()
    assert (git / "hooks/pre-push").read_text() == "#!/bin/sh\n"
    assert os.access(git / "hooks/pre-push", os.X_OK)


def test_settings_that_were_put_back_are_told(bench: Bench) -> None:
    bench.path(".git/hooks").mkdir(exist_ok=True)
    bench.write(".git/hooks/pre-push", "#!/bin/sh\n")
    bench.plan({1: MEDDLES})
    told = " ".join(event["message"] for event in bench.loop().ok().named("warning"))
    for name in ("config", "hooks/pre-commit", "hooks/pre-push"):
        assert f".git/{name}`" in told


def test_a_dirty_submodule_is_refused(bench: Bench) -> None:
    lib = bench.root / "lib"
    lib.mkdir()
    bench.git("init", "-q", cwd=lib)
    (lib / "lib.txt").write_text("lib\n")
    bench.git("add", "-A", cwd=lib)
    bench.git("commit", "-q", "-m", "lib", cwd=lib)
    allow = ("-c", "protocol.file.allow=always")
    bench.git(*allow, "submodule", "--quiet", "add", str(lib), "vendor/lib")
    bench.commit("submodule")
    bench.write("vendor/lib/lib.txt", "mine\n")
    bench.plan()
    before = bench.snapshot()
    refused = bench.loop().ok(2)
    assert "vendor/lib" in refused.stderr
    assert (bench.snapshot(), bench.calls()) == (before, [])
    bench.git("-C", "vendor/lib", "checkout", "-q", ".")
    bench.loop().ok()


def _killed_at_the_question(bench: Bench) -> None:
    bench.plan()
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent)
    terminal.wait_text("cleanup")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.wait() == 143
    assert bench.branch() == "ralph/demo"


def test_resume_asks_again_after_a_signal_at_the_question(bench: Bench) -> None:
    _killed_at_the_question(bench)
    terminal = bench.terminal("resume", "demo")
    terminal.wait_text("cleanup")
    terminal.type("keep\r")
    assert terminal.wait() == 0
    assert len(bench.calls()) == 3
    assert (bench.branch(), bench.state()["status"]) == ("ralph/demo", "done")


def test_resume_with_an_answer_cleans_up_after_a_signal_at_the_question(bench: Bench) -> None:
    _killed_at_the_question(bench)
    ended = bench.run("resume", "demo", "--json", "--on-complete", "cleanup").ok()
    assert [event["event"] for event in ended.events][:2] == ["run_started", "complete"]
    assert ended.one("finished")["choice"] == "cleanup"
    assert (bench.branch(), len(bench.calls())) == ("feature/x", 3)
    assert bench.has("refs/heads/ralph/demo") is False


@pytest.mark.parametrize("more", [("--json",), ()], ids=["json", "text"])
def test_nobody_reads_the_output_any_more(bench: Bench, more: tuple[str, ...]) -> None:
    bench.plan()
    args = [str(COMMAND), "run", "demo", "--agent-cmd", bench.agent, "--on-complete", "keep"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*args, *more],
        cwd=bench.repo,
        env=bench.env(),
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    Result(done.returncode, "", done.stderr.decode()).ok()
    assert "Traceback" not in done.stderr.decode()
    assert (bench.state()["status"], len(bench.calls())) == ("done", 3)


def test_cleanup_keeps_an_ignored_file_in_the_place_of_a_folder(bench: Bench) -> None:
    bench.write(".gitignore", ".env\nbuild/\ncache\n")
    bench.commit("ignore the cache")
    bench.write("cache", "mine\n")
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    other = bench.root / "other"
    bench.git("worktree", "add", "-q", str(other), "feature/x")
    (other / "cache").mkdir()
    (other / "cache/x").write_text("theirs\n")
    bench.git("add", "-f", "cache/x", cwd=other)
    bench.git("commit", "-q", "-m", "moved", cwd=other)
    bench.git("worktree", "remove", "--force", str(other))
    moved = bench.sha("feature/x")
    refused = bench.run("finish", "demo", "cleanup").ok(5)
    assert "cache" in refused.stderr
    assert bench.read("cache") == "mine\n"
    assert (bench.branch(), bench.sha("feature/x")) == ("ralph/demo", moved)


@pytest.mark.parametrize("checkpoint", ["branch", "worktree"])
@pytest.mark.parametrize("ending", ["keep", "cleanup"])
def test_a_restored_run_is_shown_as_restored_everywhere(
    bench: Bench, ending: str, checkpoint: str
) -> None:
    bench.plan()
    bench.loop("--on-complete", ending, "--checkpoint", checkpoint).ok()
    restored = bench.run("restore", "demo").ok().stdout
    status = bench.run("status").ok().stdout
    assert "done, then restored" in status
    assert "next: untildone run demo" in status
    assert "untildone finish" not in status
    report = bench.run("report", "demo").ok().stdout
    assert "It was restored; the state before is stored as" in report
    assert "The choice was" not in report
    back = "`untildone undo` takes the restore back"
    for said in (restored, report):
        assert "`untildone run demo` starts anew" in said
        assert (back in said) is (checkpoint == "branch")
    for command in (("finish", "demo", "cleanup"), ("finish", "demo", "keep"), ("resume", "demo")):
        refused = bench.run(*command).ok(2).stderr
        assert "was restored" in refused
        assert "`untildone run demo` starts anew" in refused


def test_only_the_person_can_go_on_with_stories_that_ask_or_were_skipped(bench: Bench) -> None:
    bench.plan({1: [["say", "<promise>ASK: which one?</promise>"]]})
    ended = bench.run("run", "demo", "--agent-cmd", bench.agent).ok(3)
    guide = "untildone guide demo --story 1"
    assert "the agent asks, tokens unknown: which one?" in ended.stdout
    assert f"Next: `{guide}" in ended.stdout
    status = bench.run("status").ok().stdout
    shown = bench.run("attempts", "demo", "--show", "1/1").ok().stdout
    for said in (ended.stdout, status, shown, bench.run("report", "demo").ok().stdout):
        assert "without a promise" not in said
    assert f"next: {guide}" in status
    assert f"Next: `{guide}" in bench.run("report", "demo").ok().stdout
    bench.run("resume", "demo").ok(2)
    bench.run("skip", "demo", "1").ok()
    assert "next: untildone retry demo 1" in bench.run("status").ok().stdout
