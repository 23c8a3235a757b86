"""What kind of trouble a call had decides: wait, ask a person, step in, or use up an attempt."""

from __future__ import annotations

import json
import signal
import time
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, fails

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

ONCE = ("--agent", "claude", "--max-retries", "0", "--on-complete", "keep")


@pytest.fixture
def claude(bench: Bench) -> Bench:
    bench.install_claude()
    bench.only_stories(1)
    return bench


@pytest.mark.parametrize(
    ("word", "status", "text", "kind"),
    [
        ("rate_limit", 429, "API Error: Request rejected (429)", "rate_limited"),
        ("overloaded", 529, "API Error: 529 Overloaded", "overloaded"),
        pytest.param(
            *("server_error", 500, "API Error: 500 Internal server error", "overloaded"),
            marks=pytest.mark.full,
        ),
        pytest.param(
            *("unknown", None, "API Error: Connection dropped (ECONNRESET)", "overloaded"),
            marks=pytest.mark.full,
        ),
        ("billing_error", 400, "Credit balance is too low", "quota_exhausted"),
    ],
)
def test_what_passes_is_waited_for_and_is_no_attempt(
    claude: Bench, word: str, status: int, text: str, kind: str
) -> None:
    claude.plan({1: [["write", "half.txt", "x"], ["api_error", word, status, text]]})
    done = claude.loop(*ONCE).ok()
    waiting = done.one("waiting")
    assert waiting["class"] == kind
    begun, until = (datetime.fromisoformat(waiting[k]) for k in ("at", "until"))
    assert 4 < (until - begun).total_seconds() < 8
    first, second = claude.calls()
    assert first.stdin == second.stdin
    assert "half.txt" not in second.files
    (entry,) = claude.state()["iterations"]
    assert (entry["attempt"], entry["outcome_class"]) == (1, "complete")


def test_passing_trouble_after_real_work_has_a_limit(claude: Bench) -> None:
    cut = ["api_error", "overloaded", 529, "API Error: 529 Overloaded, try again in 1s"]
    claude.plan(default=[["write", "half.txt", "x"], ["say", "Half of it is done."], cut])
    done = claude.loop(*ONCE, "--trouble-budget", "calls=3").ok(3)
    assert len(done.named("waiting")) == 2
    assert len(claude.calls()) == 3
    (entry,) = claude.state()["iterations"]
    assert (entry["attempt"], entry["outcome_class"]) == (1, "overloaded")
    assert "passing trouble has ended 3 calls of this story after real work" in entry["reason"]
    assert "no retry is left" in done.one("error")["message"]
    assert claude.state()["reason"] == "max_retries"
    claude.run("replay").ok()


def test_a_limit_is_waited_out_until_the_moment_in_its_words(claude: Bench) -> None:
    reset = int(time.time()) + 7200
    text = f"Claude AI usage limit reached|{reset}"
    claude.plan({1: [["api_error", "", None, text]]})
    live = claude.begin(*ONCE)
    until = datetime.fromisoformat(live.wait_event("waiting")["until"])
    assert 0 <= until.timestamp() - reset < 60
    claude.run("stop", "demo").ok()
    live.wait().ok(6)


def test_words_of_a_limit_in_the_agents_own_text_are_no_limit(claude: Bench) -> None:
    say = "I installed `ratelimit`; 429 Too Many Requests is handled now.\n"
    claude.plan({1: [["say", say], ["err", "rate limit: 429"], ["exit", 1]]})
    done = claude.loop(*ONCE).ok(3)
    assert done.named("waiting") == []
    assert claude.state()["iterations"][0]["outcome_class"] == "crashed"


@pytest.mark.parametrize(
    ("text", "status", "kind"),
    [
        ("Prompt is too long: input exceeds the context window", 400, "context_overflow"),
        ("API Error: 400 fake error", 400, "agent_error"),
    ],
)
def test_what_does_not_pass_uses_an_attempt(
    claude: Bench, text: str, status: int, kind: str
) -> None:
    claude.plan(default=[["api_error", "invalid_request", status, text]])
    done = claude.loop(*ONCE).ok(3)
    assert done.named("waiting") == []
    assert [it["outcome_class"] for it in claude.state()["iterations"]] == [kind]


def test_who_is_not_logged_in_stops_the_run_at_once(claude: Bench) -> None:
    claude.plan({1: [["api_error", "authentication_failed", 401, "Please run /login"]]})
    done = claude.loop("--agent", "claude", "--on-complete", "keep").ok(3)
    error = done.one("error")
    assert "not logged in" in error["message"]
    assert "untildone resume demo" in error["hint"]
    state = claude.state()
    assert (state["status"], state["reason"]) == ("stuck", "error")
    assert state["iterations"][0]["outcome_class"] == "not_logged_in"
    again = claude.run("resume", "demo", "--json").ok()
    assert again.named("iteration_started")[0]["attempts_allowed"] == 5
    assert claude.state()["status"] == "done"


def test_a_service_that_never_answers_is_called_again(claude: Bench) -> None:
    claude.plan({1: [["sleep", 60]]})
    done = claude.loop(*ONCE, "--idle-timeout", "0.02").ok()
    assert done.one("waiting")["class"] == "hung"
    assert len(claude.calls()) == 2


def test_a_silent_agent_that_has_worked_has_used_its_attempt(claude: Bench) -> None:
    claude.plan({1: [["say", "I begin."], ["sleep", 60]]})
    claude.loop(*ONCE, "--idle-timeout", "0.02").ok(3)
    assert claude.state()["iterations"][0]["outcome_class"] == "idle_timeout"


def test_an_agent_that_lingers_after_its_result_has_finished_its_work(claude: Bench) -> None:
    claude.plan({1: [*DONE, ["child", "session"], ["linger", 600]]})
    done = claude.loop(*ONCE, "--idle-timeout", "0.05").ok()
    assert done.outcomes() == ["complete"]
    assert any("did not exit" in event["message"] for event in done.named("warning"))
    assert claude.read("work-1.txt") == "work 1\n"
    (entry,) = claude.state()["iterations"]
    assert (entry["outcome_class"], entry["tokens_used"]) == ("complete", 2490)
    claude.run("replay").ok()
    assert claude.processes() == []


# Of a program of `--agent-cmd`, after its promise: how it ends, and which files are kept.
LINGERS: dict[str, tuple[Actions, str, list[str]]] = {
    "sleeps": ([["child", "session"], ["sleep", 600]], "complete", ["work-1.txt"]),
    "says more": ([["say", "One more thing."], ["sleep", 600]], "idle_timeout", []),
    "goes on writing": (
        [["sleep", 2], ["write", "a.txt", "a"], ["sleep", 2], ["write", "b.txt", "b"]],
        "complete",
        ["a.txt", "b.txt", "work-1.txt"],
    ),
    "goes on working": (
        [["sh", "timeout 5 sh -c 'while :; do :; done'"], ["write", "a.txt", "a"]],
        "complete",
        ["a.txt", "work-1.txt"],
    ),
}


@pytest.mark.parametrize("how", LINGERS)
def test_a_plain_program_that_promises_on_its_last_line_and_stays(bench: Bench, how: str) -> None:
    more, outcome, files = LINGERS[how]
    bench.only_stories(1)
    bench.plan({1: [*DONE, *more]})
    started = time.monotonic()
    result = bench.loop("--max-retries", "0", "--idle-timeout", "0.05")
    assert (result.outcomes(), result.code) == ([outcome], 0 if files else 3)
    told = any("did not exit" in event["message"] for event in result.named("warning"))
    assert told is (how == "sleeps")
    kept = {"a.txt", "b.txt", "work-1.txt"} & set(bench.contents())
    assert sorted(kept) == files
    assert time.monotonic() - started < 60
    assert bench.processes() == []


def test_complete_with_denied_writes_is_not_complete(claude: Bench) -> None:
    claude.plan({1: [["denied", "Write", "/repo/a.txt"], ["say", COMPLETE]]})
    done = claude.loop("--agent", "claude", "--on-complete", "keep").ok()
    assert done.outcomes() == ["agent_error", "complete"]
    assert "Write /repo/a.txt" in claude.state()["iterations"][0]["reason"]
    assert any("Write /repo/a.txt" in event["message"] for event in done.named("warning"))


def test_another_agent_steps_in(claude: Bench) -> None:
    claude.plan({1: [["limit", 3600]]})
    wrong = claude.run("run", "demo", "--json", "--agent", "claude", "--fallback", "nobody")
    assert (wrong.code, "nobody" in wrong.stderr) == (2, True)
    claude.program("codex", f"#!/bin/sh\n{CODEX}")
    done = claude.loop("--agent", "claude", "--fallback", "codex:small").ok()
    assert done.named("waiting") == []
    assert [event["agent"] for event in done.named("iteration_started")] == ["claude", "codex"]
    (entry,) = claude.state()["iterations"]
    assert (entry["agent"], entry["attempt"], entry["input_tokens"]) == ("codex", 1, 900)
    assert "small" in claude.read("codex.args")


SAYS = {"id": "i1", "type": "agent_message", "text": COMPLETE}
USED = {"input_tokens": 1200, "cached_input_tokens": 300, "output_tokens": 45}
EVENTS = (
    {"type": "thread.started", "thread_id": "t1"},
    {"type": "item.completed", "item": SAYS},
    {"type": "turn.completed", "usage": USED},
)
CODEX = 'cat > /dev/null\necho "$*" > codex.args\n' + "".join(
    f"echo '{json.dumps(event)}'\n" for event in EVENTS
)


def test_a_retry_goes_on_with_the_conversation_if_asked(claude: Bench) -> None:
    claude.plan({1: fails("no luck")})
    claude.loop("--agent", "claude", "--resume-session").ok()
    first, second = (call.argv for call in claude.calls())
    assert "--resume" not in first
    assert second[second.index("--resume") + 1] == "32fc7fc3-3850-423f-8dba-80a9fbf5d7dd"


def test_a_restart_in_mid_wait_goes_on_waiting(claude: Bench) -> None:
    claude.plan({1: [["limit", 4]]})
    live = claude.begin(*ONCE)
    until = live.wait_event("waiting")["until"]
    live.signal(signal.SIGKILL)
    live.wait(10)
    again = claude.run("resume", "demo", "--json").ok()
    assert again.one("waiting")["until"] == until
    started = again.named("iteration_started")[0]["at"]
    assert datetime.fromisoformat(started) >= datetime.fromisoformat(until)
    assert len(claude.calls()) == 2


def test_the_wait_counts_down_and_a_stop_ends_it_at_once(claude: Bench) -> None:
    claude.plan(default=[["limit", 3600]])
    terminal = claude.terminal("run", "demo", "--agent", "claude")
    terminal.wait_text("left")
    assert "usage limit" in terminal.screen()
    before = time.monotonic()
    claude.run("stop", "demo").ok()
    assert terminal.wait() == 6
    assert time.monotonic() - before < 5


def test_permissions_and_sandbox_are_said_first(claude: Bench) -> None:
    claude.plan(default=DONE)
    first = claude.run("run", "demo", "--agent", "claude", "--permissions", "edits").ok().stdout
    line = first.splitlines()[0]
    assert "permissions: edits" in line
    assert "sandbox: off" in line
    assert "acceptEdits" in claude.calls()[0].argv
    assert "--dangerously-skip-permissions" not in claude.calls()[0].argv


def test_rate_limit_is_waited_for_and_is_no_attempt(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1)
    bench.plan({1: [["limit", 2]]})
    live = bench.begin("--agent", "claude", "--max-retries", "0")
    waiting = live.wait_event("waiting")
    assert datetime.fromisoformat(waiting["until"]).tzinfo is not None
    assert waiting["why"]
    assert bench.state()["status"] == "running"
    result = live.wait().ok()
    assert len(bench.calls()) == 2
    assert bench.calls()[1].stdin == bench.calls()[0].stdin
    assert {event["attempt"] for event in result.named("iteration_started")} == {1}
    assert result.named("error") == []
    assert bench.state()["status"] == "done"


def test_the_reason_of_a_program_that_failed_is_the_line_that_says_why(bench: Bench) -> None:
    program = "echo 'Error: no such profile: work' >&2; echo 'See --help for more.' >&2; exit 4"
    agent = bench.program("other", f"#!/bin/sh\n{program}\n")
    bench.loop("--agent-cmd", str(agent), "--max-retries", "0").ok(3)
    (entry,) = bench.state()["iterations"]
    assert entry["reason"] == "the agent exited with code 4: Error: no such profile: work"
    assert entry["outcome_class"] == "crashed"
    assert "See --help for more." in bench.run("logs", "demo", "--raw").ok().stdout
    bench.run("replay", "demo").ok()


def test_a_limit_that_any_program_names_clearly_uses_no_attempt(bench: Bench) -> None:
    limited = "echo 'Error: 429 Too Many Requests, retry in 1s' >&2; touch .git/seen; exit 1"
    agent = bench.program(
        "other",
        f"#!/bin/sh\ntest -e .git/seen || {{ {limited}; }}\necho x > x; echo '{COMPLETE}'\n",
    )
    bench.only_stories(1)
    done = bench.loop("--agent-cmd", str(agent), "--max-retries", "0").ok()
    assert done.one("waiting")["class"] == "rate_limited"
    assert done.outcomes() == ["complete"]


def test_a_login_that_any_program_misses_ends_the_run_and_uses_no_attempt(bench: Bench) -> None:
    agent = bench.program("other", "#!/bin/sh\necho 'HTTP 401: Unauthorized' >&2; exit 1\n")
    done = bench.loop("--agent-cmd", str(agent), "--max-retries", "3").ok(3)
    assert len(done.named("iteration_started")) == 1
    assert bench.state()["iterations"][0]["outcome_class"] == "not_logged_in"


CRASH = [["err", "loading"], ["err", "Error: no room on the device"], ["err", "see the manual"]]


@pytest.mark.parametrize(
    "word", [[], [["say", "<promise>COMPLETE</promise>"]]], ids=["", "promise"]
)
def test_standard_error_of_an_agent_command_is_in_reason_logs_and_next_prompt(
    bench: Bench, word: Actions
) -> None:
    bench.only_stories(1)
    bench.plan({1: [*word, *CRASH, ["exit", 3]], 2: [*CRASH, ["exit", 3]]})
    bench.loop().ok()
    why = "the agent exited with code 3: Error: no room on the device"
    assert bench.state()["iterations"][0]["reason"] == why
    logged = bench.run("logs", "--iteration", "1").ok().stdout
    assert "stderr: loading\nstderr: Error: no room on the device\nstderr: see" in logged
    first, second, third = bench.calls()
    assert why not in first.stdin
    assert why in second.stdin
    assert f"- Attempt 1, crashed: {why}" in third.stdin


def test_standard_error_of_a_call_that_went_well_is_no_word_of_the_agent(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["err", "noise"], ["say", "<promise>COMPLETE</promise>"]]})
    bench.loop().ok()
    assert "noise" not in bench.run("logs").ok().stdout
    assert "noise" in bench.run("logs", "--raw").ok().stdout
