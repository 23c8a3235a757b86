import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from untildone.adapters.agents.scripted import ScriptedProgram
from untildone.adapters.agents.scripted_player import ACTIONS
from untildone.domain.agents.agent import (
    AgentText,
    AgentTool,
    Intent,
    Notice,
    Reading,
    Session,
    Usage,
)
from untildone.domain.agents.promise import Promise
from untildone.domain.errors import AgentMissing

DOCS = Path(__file__).parents[3] / "docs" / "scripted-agent.md"
COMPLETE = Promise(complete=True)
FREE = Usage(cost_usd=0.0)
NO_RESULT = "ended without its result event"


class Played:
    """One real call of the player."""

    def __init__(self, folder: Path, script: str, intent: Intent) -> None:
        path = folder.parent / f"{folder.name}.toml"
        path.write_text(script)
        agent = ScriptedProgram(str(path))
        agent.check()
        call = agent.invocation(intent)
        done = subprocess.run(
            call.argv,
            input=call.stdin,
            cwd=folder,
            env={**os.environ, **call.env},
            capture_output=True,
            timeout=60,
            check=False,
        )
        reader = agent.reader(intent)
        self.exit_code = done.returncode
        self.stdout = done.stdout
        self.stderr = done.stderr.decode()
        self.notices: list[Notice] = reader.feed(done.stdout)
        self.reading = reader.finish(done.returncode, done.stderr)


def play(folder: Path, steps: str, *, prompt: str = "Do it.") -> Played:
    intent = Intent(prompt=prompt, cwd=str(folder), scratch=str(folder), story_id="1")
    return Played(folder, f"[default]\nsteps = [{steps}]\n", intent)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def test_a_whole_attempt(folder: Path) -> None:
    (folder / "old.txt").write_text("old")
    played = play(
        folder,
        """
        {say = "Hello."}, {tool = "Read a.txt"}, {write = {path = "d/a.txt", text = "a\\n"}},
        {append = {path = "d/a.txt", text = "b\\n"}}, {delete = "old.txt"},
        {run = "echo out; echo made > made.txt"}, {delay = 0.01}, {stderr = "note"},
        {usage = {input_tokens = 5, output_tokens = 6, cache_read_tokens = 7}},
        {cost_usd = 0.5}, {promise = "COMPLETE"},
        """,
    )
    assert played.notices == [
        AgentText("Hello."),
        AgentTool("Read", "a.txt"),
        AgentTool("Write", "d/a.txt"),
        AgentTool("Edit", "d/a.txt"),
        AgentTool("Bash", "rm old.txt"),
        AgentTool("Bash", "echo out; echo made > made.txt"),
        AgentText("<promise>COMPLETE</promise>"),
    ]
    assert played.reading == Reading(
        COMPLETE, usage=Usage(5, 6, 7, 0, 0.5), session=Session("scripted-1-1")
    )
    assert (played.exit_code, played.stderr) == (0, "out\nnote\n")
    files = {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}
    assert files == {"d/a.txt": "a\nb\n", "made.txt": "made\n"}


@pytest.mark.parametrize(
    ("story", "attempt", "said"),
    [("1", 1, "one"), ("1", 2, "two"), ("1", 9, "two"), ("2", 3, "always"), ("", 1, "other")],
)
def test_story_and_attempt_choose_the_steps(
    folder: Path, story: str, attempt: int, said: str
) -> None:
    script = """
        story = [
            {id = "1", attempt = [{steps = [{say = "one"}]}, {steps = [{say = "two"}]}]},
            {id = 2, steps = [{say = "always"}]},
        ]
        default = {attempt = [{steps = [{say = "other"}]}]}
    """
    intent = Intent("p", str(folder), str(folder), story_id=story, attempt=attempt)
    assert Played(folder, script, intent).notices == [AgentText(said)]


def test_ticking_and_committing(folder: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    tasks = folder / "openspec" / "tasks.md"
    tasks.parent.mkdir()
    tasks.write_bytes(
        b"# 1\r\n- [ ] 1.1 one\r\n- [x] 1.2 two\r\n- [ ] 2.1 other\r\n* [ ]  1.3 x\r\n"
    )
    prompt = "Read `openspec/tasks.md`.\n- [ ] 1.1 one\n- [x] 1.2 two\n- [ ] 1.3 x\n"
    played = play(folder, '{tick = true}, {commit = "it\'s done"}', prompt=prompt)
    assert played.reading == Reading(usage=FREE, session=Session("scripted-1-1"))
    assert tasks.read_bytes() == (
        b"# 1\r\n- [x] 1.1 one\r\n- [x] 1.2 two\r\n- [ ] 2.1 other\r\n* [x]  1.3 x\r\n"
    )
    log = ["git", "log", "--format=%s", "--name-only"]
    shown = subprocess.run(log, cwd=folder, check=True, capture_output=True, text=True).stdout
    assert shown.split("\n\n") == ["it's done", "openspec/tasks.md\n"]


def test_a_failing_command_is_told(folder: Path) -> None:
    played = play(folder, '{run = "exit 3"}, {promise = "FAILED: no"}')
    assert played.stderr == "`exit 3` ended with 3\n"
    assert played.reading.promise == Promise(complete=False, reason="no")


@pytest.mark.parametrize(("crash", "exit_code"), [("3", 3), ('"KILL"', -9), ('"SIGTERM"', -15)])
def test_a_crash_has_no_result(folder: Path, crash: str, exit_code: int) -> None:
    played = play(folder, f'{{say = "x"}}, {{stderr = "bang"}}, {{crash = {crash}}}')
    assert (played.exit_code, played.notices) == (exit_code, [AgentText("x")])
    assert played.reading.error == f"{NO_RESULT}: bang"


def test_raw_lines_and_a_flood(folder: Path) -> None:
    played = play(
        folder, '{raw = "not json"}, {flood = 1000123}, {raw = ""}, {promise = "COMPLETE"}'
    )
    assert played.reading.promise == COMPLETE
    before, after = played.stdout.split(b"not json\n")
    assert before.count(b"\n") == 1
    assert after.startswith(b"x" * 99 + b"\n")
    assert after.index(b"{") == 1000124


def test_a_hang_lasts_until_it_is_killed(folder: Path) -> None:
    (folder / "s.toml").write_text('[default]\nsteps = [{say = "x"}, {hang = true}]\n')
    intent = Intent("p", str(folder), str(folder))
    call = ScriptedProgram(str(folder / "s.toml")).invocation(intent)
    with subprocess.Popen(call.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for _ in range(2):
            child.stdout.readline()
        time.sleep(0.2)
        assert child.poll() is None
        child.kill()


WRONG = {
    "steps = [{wrote = 1}]": "unknown key default, step 1: wrote",
    "steps = [{say = 1}]": "default, step 1 has a value of the wrong type: say",
    "steps = [{flood = true}]": "default, step 1 has a value of the wrong type: flood",
    "steps = [{tick = 1}]": "default, step 1 has a value of the wrong type: tick",
    'steps = [{}, {say = "x"}]': "default, step 1 needs exactly one key, it has: none",
    'steps = [{say = "x", tick = true}]': "exactly one key, it has: say, tick",
    'steps = [{write = {path = "x"}}]': "default, step 1, write has no key: text",
    'steps = [{write = "x"}]': "a table is expected: default, step 1, write",
    "steps = [{usage = {tokens = 1}}]": "unknown key default, step 1, usage: tokens",
    'steps = [{usage = {input_tokens = "1"}}]': "usage has a value of the wrong type: input_tokens",
    "steps = 1": "a table is expected: default",
    "step = []": "unknown key default: step",
    "attempt = [{step = []}]": "unknown key default, attempt 1: step",
    "steps = []\nattempt = []": "default has both keys: steps, attempt",
    "[defaults]": "unknown key at the top: defaults",
    "[[story]]": "story number 1 has no key: id",
    "steps = [": "cannot be read",
    "steps = [{tick = true}]": "tick: no tasks file",
    'steps = [{delete = "nowhere"}]': "nowhere",
    'steps = [{crash = "NOSUCH"}]': "there is no such signal: NOSUCH",
}


@pytest.mark.parametrize(("script", "message"), WRONG.items(), ids=WRONG)
def test_a_wrong_script_says_where(folder: Path, script: str, message: str) -> None:
    played = Played(folder, f"[default]\n{script}\n", Intent("p", str(folder), str(folder)))
    assert played.exit_code == 64
    assert message in played.stderr
    assert message in played.reading.error


def test_a_story_that_no_one_plays(folder: Path) -> None:
    played = Played(folder, "", Intent("p", str(folder), str(folder), story_id="7"))
    assert (played.exit_code, played.stdout) == (64, b"")
    assert "neither a [default] nor this story: 7" in played.stderr


def test_the_player_needs_a_script(folder: Path) -> None:
    call = ScriptedProgram("x.toml").invocation(Intent("p", str(folder), str(folder)))
    alone = subprocess.run(call.argv[:-1], input=b"", capture_output=True, check=False)
    assert (alone.returncode, call.argv[0]) == (64, sys.executable)
    with pytest.raises(AgentMissing, match=r"nowhere\.toml"):
        ScriptedProgram("nowhere.toml").check()


def test_the_example_in_the_docs_plays(folder: Path) -> None:
    text = DOCS.read_text()
    script, limit = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    tomllib.loads(script)
    (folder / "tasks.md").write_text("- [ ] 1.1 one\n")

    def attempt(story: str, number: int) -> Played:
        prompt = "- [ ] 1.1 one\n"
        intent = Intent(prompt, str(folder), str(folder), story_id=story, attempt=number)
        return Played(folder, script, intent)

    assert attempt("1", 1).reading.promise == Promise(
        complete=False, reason="the test folder is missing"
    )
    assert attempt("1", 2).reading == Reading(
        COMPLETE, usage=Usage(1200, 90, cost_usd=0.02), session=Session("scripted-1-2")
    )
    assert attempt("2", 1).exit_code == 137
    assert attempt("9", 1).reading.promise == COMPLETE
    limited = Played(folder, limit, Intent("p", str(folder), str(folder))).reading.trouble
    assert limited is not None
    assert limited.until is not None


def test_the_docs_name_every_step() -> None:
    table = DOCS.read_text().split("## Steps")[1]
    assert [action for action in ACTIONS if f"`{action} = " not in table] == []
