"""What a newcomer ran into: agents that cheat or stray, and answers that came late."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, failed
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.command import COMMAND, Result
from tests.e2e.waiting import PATIENCE, until
from untildone.domain.plain_text import plain

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
    assert "not by `untildone done`" in refused.stderr
    bench.open_gate("go")
    live.wait().ok()
    assert len(bench.calls()) == 3


def test_done_is_refused_for_a_stopped_run_of_stories(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    live = bench.begin()
    bench.wait_call(1)
    live.signal(signal.SIGTERM)
    live.wait()
    assert "not by `untildone done`" in bench.run("done", "demo").ok(2).stderr
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


WRONG = {
    "a key": ("colour = 1\n", ()),
    "a value": ("max_retries = -1\n", ()),
    "a flag": ("", ("--timeout", "soon")),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_hint_of_a_wrong_setting_works_where_a_file_is(bench: Bench, case: str) -> None:
    text, flags = WRONG[case]
    bench.write("untildone.toml", text)
    refused = bench.run("run", "demo", *flags).ok(2)
    assert "hint: `untildone init --stdout` prints every key" in refused.stderr
    assert "max_retries" in bench.run("init", "--stdout").ok().stdout


def test_a_word_in_place_of_a_number_is_told_in_plain_words(bench: Bench) -> None:
    for args in (("run", "demo", "--max-retries", "lots"), ("logs", "demo", "-n", "lots")):
        assert "'lots' is not a valid whole number" in bench.run(*args).ok(2).stderr


def test_strict_without_tests_says_that_it_looked(bench: Bench) -> None:
    bench.write("untildone.toml", "strict = true\n")
    bench.commit("strict")
    bench.plan()
    ended = bench.run("run", "demo", "--agent-cmd", bench.agent, "--on-complete", "keep").ok()
    said = ended.stdout + ended.stderr
    assert "`--strict` (`--verify auto`) found no tests" in said
    assert "the run goes by the agent's word alone. `--verify CMD` names a check" in said
    assert "looks for one" not in said


@pytest.mark.parametrize("strict", [(), ("--strict",)], ids=["usual", "strict"])
def test_a_run_that_only_the_person_ends_says_one_thing(
    bench: Bench, strict: tuple[str, ...]
) -> None:
    bench.plan()
    task = ("--task", "Polish", "--max-iterations", "1", *strict)
    ended = bench.run("run", "polish", "--agent-cmd", bench.agent, *task).ok(3)
    said = ended.stdout + ended.stderr + bench.run("status").ok().stdout
    assert "only you end this run" in said
    assert "word alone" not in said
    refused = bench.run("done", "polish").ok(2).stderr
    assert "`untildone resume polish` goes on with it" in refused


def test_a_missing_choice_is_answered_with_both_commands(bench: Bench) -> None:
    bare = bench.run("finish").ok(2).stderr
    assert "`untildone finish cleanup` or `untildone finish keep`" in bare
    named = bench.run("finish", "demo").ok(2).stderr
    assert "`untildone finish demo cleanup` or `untildone finish demo keep`" in named
    wrong = bench.run("finish", "demo", "throw").ok(2).stderr
    assert "`throw` is none: `untildone finish demo cleanup`" in wrong


@pytest.mark.parametrize("checkpoint", ["branch", "worktree"])
def test_cleanup_names_the_branch_and_offers_nothing_that_is_refused(
    bench: Bench, checkpoint: str
) -> None:
    bench.plan({1: [["say", "<promise>ASK: which one?</promise>"]]})
    bench.loop("--checkpoint", checkpoint).ok(3)
    said = bench.run("finish", "demo", "cleanup").ok().stdout
    assert "cleanup: done. `feature/x` is checked out, all changes are uncommitted edits" in said
    status = bench.run("status").ok().stdout
    assert "story 1 waits for an answer" in status
    assert "untildone guide" not in status
    assert "It was ended with `cleanup`." in bench.run("report", "demo").ok().stdout


NARROW = [("--help",), ("run", "--help"), ("finish", "--help"), ("status",), ("doctor",)]


@pytest.mark.parametrize("args", NARROW, ids=" ".join)
def test_in_60_columns_lines_are_broken_at_words(bench: Bench, args: tuple[str, ...]) -> None:
    terminal = bench.terminal(*args, env={"COLUMNS": "60"})
    terminal.wait()
    rows = terminal.raw.decode().replace("\r", "").split("\n")
    too_long = [row for row in rows if len(plain(row)) > 60 and " " in plain(row).strip()]
    assert too_long == []
    whole = bench.run(*args, env={"COLUMNS": "60"})
    assert set(whole.stdout.split()) <= set(plain(" ".join(rows)).split())


def test_the_bar_is_seen_without_colours(bench: Bench) -> None:
    bench.plan({2: [["wait", bench.gate("go")], *DONE]})
    args = ("run", "demo", "--agent-cmd", bench.agent, "--on-complete", "keep")
    terminal = bench.terminal(*args, env={"NO_COLOR": "1"})
    bench.wait_call(2)
    until(lambda: b"1 of 3 stories" in terminal.raw, PATIENCE, "the bar")
    bench.open_gate("go")
    assert terminal.wait() == 0
    assert re.search(rb"\[#+-+\] +1 of 3 stories", terminal.raw)


def test_what_follows_an_interrupt_at_the_question_has_its_own_line(bench: Bench) -> None:
    bench.plan()
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent)
    terminal.wait_text("cleanup, keep or later?")
    terminal.type("\x03")
    terminal.wait()
    rows = terminal.raw.decode().replace("\r", "").split("\n")
    asked = next(row for row in rows if "cleanup, keep or later?" in row)
    assert "finished" not in asked
    assert not re.search(r"\d\d:\d\d:\d\d", asked.partition("?")[2])


def test_doctor_says_whether_there_is_a_configuration(bench: Bench) -> None:
    assert "There is no configuration file" in bench.run("doctor").stdout
    bench.write("pyproject.toml", "[project]\n")
    assert "There is no configuration file" in bench.run("doctor").stdout
    bench.write("untildone.toml", "# max_retries = 1\n")
    said = bench.run("doctor").stdout
    assert f"Every key is known and its value fits: {bench.path('untildone.toml')}" in said
    assert not re.search(r"ok +source \w+: The source", said)
