"""What a check proves: settings of its runner, tests that were there, work that is not there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.needs import needs_npm

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

# The real pytest, by a name that a person types.
PYTEST = f"PATH={Path(sys.executable).parent}:$PATH pytest -q -p no:cacheprovider"
OK: Actions = [["say", COMPLETE]]
TEST = "from m import f\n\n\ndef test_f():\n    assert f() == 1\n"
WRONG = "def f():\n    return 2\n"


def project(bench: Bench, **files: str) -> None:
    bench.only_stories(1)
    bench.write("m.py", "def f():\n    return 1\n")
    bench.write("test_m.py", TEST)
    bench.write(
        "pyproject.toml", '[project]\nname = "m"\n\n[tool.pytest.ini_options]\naddopts = ""\n'
    )
    for path, text in files.items():
        bench.write(path.replace("__", "/"), text)
    bench.write(".gitignore", "__pycache__/\n")
    bench.commit("a project with a test")


def wrong(*more: list[object]) -> Actions:
    return [["write", "m.py", WRONG], *more, ["say", COMPLETE]]


EXITS = "import os\nos._exit(0)\n"
RUNNER_HARM: dict[str, tuple[Actions, str]] = {
    "a new conftest": (wrong(["write", "conftest.py", EXITS]), "conftest.py (new)"),
    "one below": (wrong(["write", "sub/conftest.py", EXITS]), "sub/conftest.py (new)"),
    "one that git is told to ignore": (
        wrong(["write", "conftest.py", EXITS], ["sh", "echo conftest.py >> .git/info/exclude"]),
        "conftest.py (new)",
    ),
    "a new pytest.ini": (
        wrong(["write", "pytest.ini", "[pytest]\naddopts = --collect-only\n"]),
        "pytest.ini (new)",
    ),
    "a table of tox.ini": (
        wrong(["write", "tox.ini", "[pytest]\naddopts = --co\n"]),
        "tox.ini ([pytest]: new)",
    ),
    "the table of pyproject.toml": (
        wrong(["sh", "sed -i 's/addopts.*/addopts = \"--co\"/' pyproject.toml"]),
        "pyproject.toml (tool.pytest: changed)",
    ),
    "a pyproject.toml that nobody can read": (
        wrong(["write", "pyproject.toml", "[tool"]),
        "pyproject.toml (tool.pytest: can no longer be read)",
    ),
    "a module that is taken for pytest": (wrong(["write", "pytest.py", ""]), "pytest.py (new)"),
    "a module that is taken for Python's": (
        wrong(["write", "argparse.py", EXITS]),
        "argparse.py (new)",
    ),
}


@pytest.mark.parametrize("how", RUNNER_HARM)
def test_a4_who_rewrites_the_settings_of_pytest_is_not_done(bench: Bench, how: str) -> None:
    project(bench)
    harm, named = RUNNER_HARM[how]
    bench.plan({1: harm}, default=[["write", "n.py", "x = 1\n"], *DONE])
    result = bench.loop("--verify", PYTEST, "--max-retries", "1")
    assert result.outcomes()[0] == "verify_failed"
    assert f"- {named}" in result.named("iteration_ended")[0]["reason"]


def test_a4_other_tables_of_the_same_file_are_free(bench: Bench) -> None:
    project(bench)
    text = '[project]\nname = "m2"\ndependencies = []\n[tool.pytest.ini_options]\naddopts = ""\n'
    bench.plan({1: [["write", "pyproject.toml", text], *DONE]})
    result = bench.loop("--verify", PYTEST).ok()
    assert result.outcomes() == ["complete"]
    assert result.one("checkpoint_saved")["verified"]


def test_a4_a_story_may_change_what_the_person_lets_it_touch(bench: Bench) -> None:
    project(bench)
    heading = "## 1. Alpha greeting\n"
    touches = tasks_text(stories=("Alpha greeting",)).replace(
        heading, f"{heading}\nTouches: `conftest.py`\n"
    )
    bench.write(TASKS, touches)
    bench.commit("story 1 changes conftest.py")
    bench.plan({1: [["write", "conftest.py", "x = 1\n"], *DONE]})
    assert bench.loop("--verify", PYTEST).ok().outcomes() == ["complete"]


def test_a4_a_rewritten_test_is_never_verified(bench: Bench) -> None:
    project(bench)
    bench.plan({1: wrong(["write", "test_m.py", "def test_f():\n    assert True\n"])})
    result = bench.loop("--verify", PYTEST).ok()
    assert not result.one("checkpoint_saved")["verified"]
    assert result.one("complete")["stories"] == {"verified": 0, "unchanged": 0}
    (said,) = [e["message"] for e in result.named("warning") if "not counted" in e["message"]]
    assert "test_m.py" in said
    report = json.loads(bench.run("report", "demo", "--json").ok().stdout)
    assert (report["verified"], report["done_unverified"]) == (0, 1)


def test_a4_a_deleted_test_fails_the_story(bench: Bench) -> None:
    project(bench)
    bench.write("test_n.py", "def test_n():\n    pass\n")
    bench.commit("a second test")
    bench.plan({1: wrong(["delete", "test_m.py"])}, default=[["write", "n.py", "x = 1\n"], *DONE])
    result = bench.loop("--verify", PYTEST, "--max-retries", "1").ok()
    assert result.outcomes() == ["verify_failed", "complete"]


FORGED: dict[str, tuple[str, str]] = {
    "prints one more": ("print('1 passed in 0.01s')", "1 passed, 0 skipped"),
    "prints all and leaves": (
        "print('2 passed in 0.01s', flush=True); import os; os._exit(0)",
        "nothing was written",
    ),
}


@pytest.mark.parametrize("room", [[], ["--clean-room"]], ids=["here", "clean"])
@pytest.mark.parametrize("how", FORGED)
def test_a4_what_the_product_prints_does_not_make_up_for_a_test(
    bench: Bench, how: str, room: list[str]
) -> None:
    """Without a new line in the settings or in a test: the product itself prints the number."""
    project(bench)
    bench.write("test_n.py", "def test_n():\n    pass\n")
    bench.commit("a second test")
    printed, said = FORGED[how]
    forges = f"import sys\nsys.stdout = sys.__stdout__\n{printed}\ndef f():\n    return 1\n"
    harm: Actions = [["write", "m.py", forges], ["delete", "test_n.py"], ["say", COMPLETE]]
    bench.plan({1: harm}, default=[["write", "n.py", "x = 1\n"], *DONE])
    result = bench.loop("--verify", f"{PYTEST} -s", "--max-retries", "1", *room).ok()
    assert result.outcomes() == ["verify_failed", "complete"]
    reason = result.named("iteration_ended")[0]["reason"]
    assert f"by the report of its runner {said}" in reason
    assert result.one("checkpoint_saved")["verified"]
    assert bench.status() == []


@needs_npm
def test_a4_npm_test_the_script_cannot_be_rewritten_and_dependencies_can(bench: Bench) -> None:
    bench.only_stories(1)
    package = {"name": "m", "version": "1.0.0", "scripts": {"test": "node --test"}}
    bench.write("package.json", json.dumps(package))
    bench.write("m.test.js", "require('node:test')('one', () => {});\n")
    bench.commit("a package with a test")
    cheats = package | {"scripts": {"test": "true"}}
    fine = package | {"dependencies": {}, "version": "1.0.1"}
    bench.plan(
        {
            1: [["write", "package.json", json.dumps(cheats)], *OK],
            2: [["write", "package.json", json.dumps(fine)], *DONE],
        }
    )
    result = bench.loop("--verify", "npm test").ok()
    assert result.outcomes() == ["verify_failed", "complete"]
    reason = result.named("iteration_ended")[0]["reason"]
    assert "- package.json (scripts: changed)" in reason
    assert result.one("checkpoint_saved")["verified"]


def test_a4_a_script_that_a_target_calls_cannot_be_rewritten(bench: Bench) -> None:
    bench.write("Makefile", "test:\n\tsh scripts/check.sh\n")
    bench.write("scripts/check.sh", "exit 1\n")
    project(bench)
    bench.plan({1: wrong(["write", "scripts/check.sh", "exit 0\n"])})
    result = bench.loop("--verify", "make test", "--max-retries", "0").ok(3)
    assert "- scripts/check.sh" in result.named("iteration_ended")[0]["reason"]


def test_a4_make_test_the_target_and_what_it_needs_cannot_be_rewritten(bench: Bench) -> None:
    bench.only_stories(1)
    makefile = "RUN = test\n\nall:\n\techo all\n\ntest: unit\n\nunit:\n\t$(RUN) -f good.txt\n"
    bench.write("Makefile", makefile)
    bench.commit("a Makefile")
    bench.plan(
        {
            1: [["write", "Makefile", makefile.replace("RUN = test", "RUN = true")], *OK],
            2: [["write", "GNUmakefile", "test:\n\ttrue\n"], *OK],
            3: [
                ["write", "Makefile", makefile.replace("echo all", "echo every")],
                ["write", "good.txt", "x"],
                *DONE,
            ],
        }
    )
    result = bench.loop("--verify", "make test").ok()
    assert result.outcomes() == ["verify_failed", "verify_failed", "complete"]
    reasons = [e["reason"] for e in result.named("iteration_ended")]
    assert "- Makefile (test: changed)" in reasons[0]
    assert "- GNUmakefile (test: new)" in reasons[1]


def test_a_check_that_guards_no_file_says_so_at_the_start(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    result = bench.loop("--verify", "git --version", "--verify", "test -d .").ok()
    (said,) = [e["message"] for e in result.named("warning") if "--protect" in e["message"]]
    assert "`git --version`" in said
    assert "test -d" not in said
    (looks,) = [e["message"] for e in result.named("warning") if "only looks" in e["message"]]
    assert "`test -d .`" in looks
    assert "git --version" not in looks


def test_the_start_lists_every_command_and_where_it_comes_from(bench: Bench) -> None:
    heading = "## 2. Bravo greeting\n"
    bench.write(TASKS, tasks_text().replace(heading, f"{heading}\nVerify: `test -d .`\n"))
    bench.write(
        "untildone.toml", 'max_retries = 1\nusage_cmd = "echo 1"\n\n[story_verify]\n3 = "true"\n'
    )
    bench.write("Makefile", "test:\n\ttrue\n")
    bench.commit("checks from everywhere")
    bench.plan()
    agent = {"command": str(bench.agent), "what": "agent", "origin": "--agent-cmd", "story_id": ""}
    wanted = [
        ("echo 1", "usage", "untildone.toml:2", ""),
        ("make test", "check", "verify auto, found by Makefile", ""),
        ("git --version", "check", "--verify", ""),
        ("test -d .", "check", f"{TASKS}:10", "2"),
        ("true", "check", "untildone.toml:4", "3"),
    ]
    flags = ["--verify", "auto", "--verify", "git --version"]
    dry = json.loads(bench.loop(*flags, "--dry-run").ok().stdout)
    result = bench.loop(*flags).ok()
    keys = ("command", "what", "origin", "story_id")
    for listed in (result.one("run_started")["commands"], dry["commands"]):
        assert listed[0]["what"] == agent["what"]
        assert [tuple(row[key] for key in keys) for row in listed[1:]] == wanted
    lines = bench.run("logs", "demo").ok().stdout
    assert f"check of story 2: test -d . (from {TASKS}:10)" in lines
    assert "check: make test (from verify auto, found by Makefile)" in lines


def test_a_story_that_changes_nothing_is_told_everywhere(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: OK})
    result = bench.loop("--verify", "test -d .").ok()
    saved = result.one("checkpoint_saved")
    assert (saved["verified"], saved["unchanged"]) == (False, True)
    assert result.one("complete")["stories"] == {"verified": 0, "unchanged": 1}
    state = bench.state()
    assert state["stories"] == {"total": 3, "finished": 3, "verified": 0, "unchanged": 1}
    assert state["iterations"][0]["proof"] == "unchanged"
    assert "1 story done, nothing changed" in bench.run("status").ok().stdout
    assert "nothing changed" in bench.run("logs", "demo").ok().stdout
    assert "done, nothing changed" in bench.run("report", "demo").ok().stdout
    report = json.loads(bench.run("report", "demo", "--json").ok().stdout)
    assert (report["verified"], report["done_unchanged"]) == (0, 1)
    assert report["stories"][0]["state"] == "done, nothing changed"


@pytest.mark.parametrize("variant", ["branch", "stash", "worktree"])
@pytest.mark.parametrize("work", ["none", "own tests", "some"])
def test_what_was_saved_when_the_loop_was_killed_is_not_proven_by_that(
    bench: Bench, variant: str, work: str
) -> None:
    """The commit of the story is there, the line of the journal that tells of it is not."""
    project(bench)
    edit: Actions = {
        "none": [],
        "own tests": [["append", "test_m.py", "\n"]],
        "some": [["write", "n.py", "x = 1\n"]],
    }[work]
    bench.plan({1: [*edit, *OK]})
    bench.loop("--verify", "test -d .", "--checkpoint", variant).ok()
    (journal,) = bench.root.rglob("journal.jsonl")
    lines = journal.read_text().splitlines(keepends=True)
    saved = next(k for k, line in enumerate(lines) if json.loads(line).get("fact") == "Saved")
    journal.write_text("".join(lines[:saved]))
    result = bench.run("resume", "demo", "--json").ok()
    told = result.one("checkpoint_saved")
    assert (told["verified"], told["unchanged"]) == (work == "some", work == "none")
    assert len(bench.calls()) == 1


def test_a_run_without_any_check_says_so_at_its_start_in_status_and_at_its_end(
    bench: Bench,
) -> None:
    bench.only_stories(1)
    bench.plan()
    result = bench.loop().ok()
    assert result.one("run_started")["checked"] is False
    assert result.one("complete")["checked"] is False
    word = "the agent's word alone"
    lines = bench.run("logs", "demo").ok().stdout.splitlines()
    assert any(word in line for line in lines[:3])
    assert any("● done" in line and word in line for line in lines)
    assert word in bench.run("status").ok().stdout


STRICT_EDIT = "\n\ndef test_more():\n    assert f() + 1 == 2\n"


def test_strict_runs_tests_that_were_there_as_they_were(bench: Bench) -> None:
    """The first attempt weakens a test, the second adds one to the same file."""
    project(bench)
    bench.plan(
        {
            1: wrong(["write", "test_m.py", TEST.replace("== 1", "== 2")]),
            2: [["write", "test_m.py", TEST + STRICT_EDIT], *DONE],
        }
    )
    result = bench.loop("--strict", "--verify", PYTEST).ok()
    assert result.outcomes() == ["verify_failed", "complete"]
    reason = result.named("iteration_ended")[0]["reason"]
    assert "the tests that were there do not pass:\n- test_m.py" in reason
    assert result.one("checkpoint_saved")["verified"]
    assert "tests that are there already" in bench.calls()[0].prompt


def test_strict_a_new_test_that_disarms_the_old_ones_is_not_done(bench: Bench) -> None:
    project(bench)
    disarms = "import _pytest.python as P\nP.Function.runtest = lambda s: None\n"
    harm: list[object] = ["write", "test_a.py", f"{disarms}\n\ndef test_x():\n    pass\n"]
    bench.plan({1: wrong(harm)})
    result = bench.loop("--strict", "--verify", PYTEST, "--max-retries", "0").ok(3)
    assert "- test_a.py" in result.named("iteration_ended")[0]["reason"]


def test_strict_wants_evidence_and_what_the_person_says_beside_it_wins(bench: Bench) -> None:
    project(bench)
    bench.plan({1: OK})
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    strict = bench.loop("--strict", "--max-retries", "0", env={"PATH": path}).ok(3)
    assert strict.one("run_started")["verify"] == ["pytest -q"]
    assert "nothing was changed" in strict.one("iteration_ended")["reason"]
    bench.run("finish", "demo", "cleanup").ok()
    bench.plan({2: OK})
    free = bench.loop("--strict", "--no-evidence", "--verify", "test -d .").ok()
    assert free.one("run_started")["verify"] == ["test -d ."]


def test_strict_lets_a_story_change_tests_that_says_so(bench: Bench) -> None:
    project(bench)
    heading = "## 1. Alpha greeting\n"
    text = tasks_text(stories=("Alpha greeting",))
    bench.write(TASKS, text.replace(heading, f"{heading}\nTests: may change\n"))
    bench.commit("story 1 changes tests")
    bench.plan({1: wrong(["write", "test_m.py", TEST.replace("== 1", "== 2")])})
    result = bench.loop("--strict", "--verify", PYTEST).ok()
    assert result.outcomes() == ["complete"]
    assert result.one("checkpoint_saved")["verified"]


CANNOT = {
    "no program": "nosuchcheck --fast",
    "no file": "./nosuch.sh",
    "inside": "sh -c nosuchcheck",
}


@pytest.mark.parametrize("variant", ["branch", "stash", "worktree"])
@pytest.mark.parametrize("how", CANNOT)
def test_a9_a_check_that_cannot_start_is_refused_before_the_first_call(
    bench: Bench, how: str, variant: str
) -> None:
    bench.plan()
    bench.write("mine.txt", "untracked")
    before = (bench.git("rev-parse", "HEAD"), bench.git("branch", "--list"), bench.status())
    result = bench.loop("--verify", CANNOT[how], "--checkpoint", variant).ok(2)
    assert CANNOT[how] in result.stderr
    assert bench.calls() == []
    assert (bench.git("rev-parse", "HEAD"), bench.git("branch", "--list"), bench.status()) == before
    assert bench.git("stash", "list") == ""


def test_a9_a_check_of_one_story_that_cannot_start_is_refused_too(bench: Bench) -> None:
    bench.plan()
    result = bench.loop("--story-verify", "2=nosuchcheck").ok(2)
    assert "`nosuchcheck`" in result.stderr
    heading = "## 2. Bravo greeting\n"
    bench.write(TASKS, tasks_text().replace(heading, f"{heading}\nVerify: `nosuchcheck`\n"))
    bench.commit("a check of story 2")
    result = bench.loop().ok(2)
    assert f"{TASKS}:10" in result.stderr
    assert bench.calls() == []


def test_a9_a_check_that_merely_fails_is_no_reason_to_refuse(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["write", "good.txt", "x"], *DONE]})
    for check in ("test -f good.txt", "nosuchcheck || test -f good.txt", "exit 3; nosuchcheck"):
        bench.loop("--verify", check, "--max-retries", "0", "--dry-run").ok()


def test_a_task_without_an_end_says_what_will_happen_and_what_to_type(bench: Bench) -> None:
    bench.plan({}, default=OK)
    args = ["run", "--task", "Do it", "--agent-cmd", str(bench.agent), "--json"]
    result = bench.run(*args).ok(4)
    said = [event["message"] for event in result.named("warning")]
    assert "No tasks.md found, using manual done criteria" in said
    assert any("`--done promise`" in text and "`untildone done do-it`" in text for text in said)
    assert [text for text in said if "said COMPLETE" in text and "untildone done do-it" in text]
