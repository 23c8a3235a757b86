"""Runs worth remembering: each drives the installed command on a bench until a run is recorded."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from tests.e2e.agent_calls import COMPLETE, DONE, fails
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.stash_bench import make_dirty
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench
    from tests.e2e.command import Live, Terminal

CLAUDE = ("--agent", "claude")
KEEP = ("--on-complete", "keep")
CLEANUP = ("--on-complete", "cleanup")
WORK: Actions = [["write", "work-{n}.txt", "work\n"], ["say", "more to do"]]
IDLE: Actions = [["say", "nothing to do"]]
SAYS = {"id": "i1", "type": "agent_message", "text": COMPLETE}
USED = {"input_tokens": 1200, "cached_input_tokens": 300, "output_tokens": 45}
CODEX_EVENTS = (
    {"type": "thread.started", "thread_id": "t1"},
    {"type": "item.completed", "item": SAYS},
    {"type": "turn.completed", "usage": USED},
)
CODEX = "#!/bin/sh\ncat > /dev/null\necho x > codex.txt\n" + "".join(
    f"echo '{json.dumps(event)}'\n" for event in CODEX_EVENTS
)
PYTEST_LIKE = """\
for name in old-a old-b new; do
    test -f "$name.ok" || { echo "FAILED tests/test_a.py::$name - no"; code=1; }
done
exit ${code:-0}
"""


def mess(n: int, reason: str = "no port") -> Actions:
    return [["write", "mess.txt", f"mess {n}\n"], ["say", f"<promise>FAILED: {reason}</promise>"]]


def at_gate(bench: Bench, *flags: str) -> Live:
    """A loop whose first call waits for the gate `go`."""
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    live = bench.begin(*flags)
    bench.wait_call(1)
    return live


def let_go(bench: Bench, live: Live, code: int = 0) -> None:
    bench.open_gate("go")
    live.wait().ok(code)


def killed(bench: Bench, *flags: str) -> None:
    """A loop that is killed while its second call is at work."""
    bench.only_stories(1, 2)
    mark = bench.root / "acted"
    acts: Actions = [["write", "half.txt", "half\n"], ["sh", f"touch {mark}"], ["sleep", 600]]
    bench.plan({2: acts})
    live = bench.begin(*flags)
    until(mark.exists, what="the agent's acts")
    live.signal(signal.SIGKILL)
    live.wait()
    bench.plan()


def upstream(bench: Bench, name: str, content: str) -> None:
    """The original branch moves on while the loop's is checked out."""
    aside = bench.root / "aside"
    bench.git("worktree", "add", "-q", "--detach", str(aside), "feature/x")
    (aside / name).write_text(content)
    bench.git("commit", "-q", "-am", "upstream", cwd=aside)
    bench.git("update-ref", "refs/heads/feature/x", bench.git("rev-parse", "HEAD", cwd=aside))
    bench.git("worktree", "remove", "--force", str(aside))


# -- how runs go ---------------------------------------------------------------------------------


def done(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()


def done_cleanup(bench: Bench) -> None:
    bench.only_stories(1, 2)
    make_dirty(bench)
    bench.install_claude()
    said: Actions = [["say", 'Grüße, 世界 \u2028 \U0001f600 \\ " \x1b[1m'], ["tool", "ok"]]
    bench.plan({1: [*said, ["think", "Hm."], *DONE], 2: fails("kein Glück – \u2029 \U0001f4a5")})
    bench.loop(*CLAUDE, "--model", "opus", *CLEANUP).ok()


def retries(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1, 2)
    crash: Actions = [["say", "I begin."], ["commit", "mine"], ["err", "boom"], ["exit", 3]]
    silent: Actions = [["say", "I think."], ["sleep", 60]]
    bench.plan({1: fails("no database"), 2: crash, 3: silent, 4: [["say", "Well."]]})
    bench.loop(*CLAUDE, "--idle-timeout", "0.02", "--max-retries", "5", *KEEP).ok()


def time_limit(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["write", "half.txt", "half\n"], ["sleep", 600]]})
    bench.loop("--timeout", "0.02").ok()


def repeating(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1)
    bench.write("untildone.toml", "repeat_limit = 5\n")
    bench.commit("settings")
    bench.plan({1: [*[["say", "Let me try that again."]] * 8, ["sleep", 600]]})
    bench.loop(*CLAUDE).ok()


def stuck_and_resumed(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({n: fails() for n in (1, 2, 3)})
    bench.loop("--max-retries", "1").ok(3)
    bench.run("resume", "demo", "--json", "--max-retries", "2", "--verify", "true").ok()


def cap(bench: Bench) -> None:
    bench.plan({1: IDLE})
    bench.loop("--max-iterations", "2").ok(3)


def not_logged_in(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.install_claude()
    bench.plan({1: [["api_error", "authentication_failed", 401, "Please run /login"]]})
    bench.loop(*CLAUDE, *KEEP).ok(3)


def ladder(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1, 2)
    bench.plan({n: mess(n) for n in range(1, 5)})
    rungs = ("--agents", "claude:haiku,claude:opus", "--agents", "command")
    bench.loop(*rungs, "--max-retries", "5").ok()


def session(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1)
    bench.plan({1: fails("no luck")})
    bench.loop(*CLAUDE, "--resume-session").ok()


def learnings(bench: Bench) -> None:
    bench.only_stories(1, 2)
    note = ["append", str(bench.repo / ".untildone-learnings-demo.md"), "Use make.\n"]
    bench.plan({1: [note, *DONE], 2: fails()})
    bench.loop().ok()


def usage_meter(bench: Bench) -> None:
    bench.install_usage("1000")
    bench.only_stories(1, 2)
    bench.plan({1: [["meter", "1750"], *DONE], 2: [["meter", "broken"], *DONE]})
    bench.loop("--usage-cmd", "wt-usage --since {since}").ok()


def usage_guessed(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1)
    bench.plan({1: [["usage", None], ["session", 4000], *DONE]})
    bench.loop(*CLAUDE).ok()


# -- checks ----------------------------------------------------------------------------------------


def checks(bench: Bench) -> None:
    heading = "## 2. Bravo greeting\n"
    bench.write(TASKS, tasks_text([3]).replace(heading, f"{heading}\nVerify: `sh two.sh`\n"))
    bench.write("two.sh", "test -f bravo.txt\n")
    bench.write("untildone.toml", '[story_verify]\n1 = "test -f alpha.txt"\n')
    bench.commit("checks of stories")
    alpha, bravo = (["write", f"{name}.txt", "x"] for name in ("alpha", "bravo"))
    touched: Actions = [alpha, ["append", "two.sh", "true\n"], ["say", COMPLETE]]
    bench.plan({1: DONE, 2: touched, 3: [alpha, *DONE], 4: [alpha, *DONE], 5: [bravo, *DONE]})
    flags = ("--verify", "warn: echo ugly; exit 3", "--verify", "off: false", "--protect", "two.sh")
    bench.loop(*flags, "--evidence", "--clean-room", "--verify-timeout", "1").ok()


def baseline(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.write("tests.sh", PYTEST_LIKE)
    bench.write("new.ok", "")
    bench.commit("two tests fail, one passes")
    breaks = [["delete", "new.ok"], ["say", COMPLETE]]
    mends = [["write", "old-a.ok", ""], ["say", COMPLETE]]
    bench.plan({1: breaks, 2: mends})
    bench.loop("--verify", "echo x >> junk.log; sh tests.sh", "--baseline").ok()


# -- variants, starts and endings --------------------------------------------------------------


def stash(bench: Bench) -> None:
    bench.only_stories(1, 2)
    make_dirty(bench)
    bench.plan({2: fails()})
    bench.loop("--checkpoint", "stash", *CLEANUP).ok()


def stash_crash(bench: Bench) -> None:
    killed(bench, "--checkpoint", "stash")
    bench.run("resume", "demo", "--json").ok()


def worktree(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({2: fails()})
    bench.loop("--checkpoint", "worktree", *KEEP).ok()


def worktree_cleanup(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.write("loose.txt", "loose\n")
    bench.plan()
    bench.loop("--checkpoint", "worktree", *KEEP).ok()
    bench.run("finish", "demo", "cleanup").ok()


def detached(bench: Bench) -> None:
    bench.git("branch", "-q", "ralph/demo")
    bench.git("checkout", "-q", "--detach")
    bench.only_stories(1)
    bench.plan()
    bench.loop(*CLEANUP).ok()


def refused(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({1: [["write", "README.md", "loop\n"], *DONE]})
    bench.loop().ok()
    upstream(bench, "README.md", "upstream\n")
    bench.run("finish", "demo", "cleanup").ok(5)


def asked_again(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    live = bench.begin("--on-complete", "ask")
    live.wait_event("complete")
    live.signal(signal.SIGKILL)
    live.wait()
    bench.run("resume", "demo", "--json", *KEEP).ok()


def archive(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan()
    bench.loop("--archive", *CLEANUP).ok()


def archive_refused(bench: Bench) -> None:
    """The last story brings spec deltas, which only the real program could merge."""
    bench.only_stories(1, 2)
    bench.program("openspec", "#!/bin/sh\necho no >&2\nexit 1\n")
    bench.plan({2: [["write", "openspec/changes/demo/specs/x/spec.md", "# x\n"], *DONE]})
    bench.loop("--archive", *KEEP).ok()


def two_runs(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    bench.loop(*CLEANUP).ok()
    bench.write(TASKS, tasks_text([1, 3]))
    bench.commit("more to do")
    bench.loop(*KEEP).ok()


# -- stops, crashes and what comes after -----------------------------------------------------------


def stopped_now(bench: Bench) -> None:
    bench.only_stories(1, 2)
    live = at_gate(bench)
    bench.run("stop", "demo").ok()
    live.wait().ok(6)


def signalled(bench: Bench) -> None:
    bench.only_stories(1, 2)
    live = at_gate(bench)
    live.signal(signal.SIGTERM)
    live.wait().ok(143)


def crashed(bench: Bench) -> None:
    killed(bench)
    bench.loops()


def crashed_between(bench: Bench) -> None:
    """Killed between two calls; its last line is torn, and the person edits the branch."""
    bench.only_stories(1, 2)
    bench.install_claude()
    bench.plan({2: [["limit", 3]]})
    live = bench.begin(*CLAUDE, *KEEP)
    live.wait_event("waiting")
    live.signal(signal.SIGKILL)
    live.wait()
    (journal,) = bench.path(".git/untildone/runs").glob("*/journal.jsonl")
    with journal.open("ab") as file:
        file.write(b'{"v": 1, "at": "2026-01-0')
    bench.write("by-hand.txt", "mine\n")
    bench.run("resume", "demo", "--json").ok()


def finished_after_a_crash(bench: Bench) -> None:
    killed(bench)
    bench.run("finish", "demo", "cleanup").ok()


def broken_stories(bench: Bench) -> None:
    bench.plan({1: [["append", TASKS, "\n## 3. Once more\n\n- [ ] 3.1 Again\n"], *DONE]})
    bench.loop("--max-retries", "1").ok(3)


def undo_checkpoint(bench: Bench) -> None:
    bench.plan({1: fails(), 2: fails(), 3: [["wait", bench.gate("go")], *DONE]})
    live = bench.begin()
    bench.wait_call(3)
    bench.run("stop", "demo", "--after-iteration").ok()
    let_go(bench, live, 6)
    bench.run("undo").ok()


def undo_undo(bench: Bench) -> None:
    undo_checkpoint(bench)
    for _ in range(2):
        bench.run("undo").ok()
    bench.plan()
    bench.run("resume", "demo", "--json", *CLEANUP).ok()


def undo_keep(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({1: fails()})
    bench.loop(*KEEP).ok()
    bench.run("undo").ok()


def undo_start(bench: Bench) -> None:
    bench.write("untildone.toml", 'budget = ["iterations=1"]\n')
    bench.commit("settings")
    bench.plan()
    bench.loop().ok(6)
    for _ in range(2):
        bench.run("undo").ok()


def restored(bench: Bench) -> None:
    bench.only_stories(1, 2)
    make_dirty(bench)
    bench.plan({1: fails()})
    bench.loop(*CLEANUP).ok()
    bench.run("restore", "demo").ok()


def restored_and_undone(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan()
    bench.loop(*CLEANUP).ok()
    bench.run("restore", "demo").ok()
    bench.run("undo").ok()


# -- the plain loop --------------------------------------------------------------------------------


def plain_promise(bench: Bench) -> None:
    bench.plan({}, default=[*WORK, ["say", COMPLETE]])
    flags = ("--done", "promise", "--verify", "test -f work-2.txt")
    bench.loop("polish", "--task", "Polish the greeting", *flags).ok()


def plain_manual(bench: Bench) -> None:
    bench.plan({1: [*WORK, ["wait", bench.gate("go")]]}, default=IDLE)
    live = bench.begin("polish", "--task", "Polish")
    bench.wait_call(1)
    bench.run("done", "polish").ok()
    let_go(bench, live)


def plain_stalled(bench: Bench) -> None:
    bench.plan({1: WORK}, default=IDLE)
    bench.loop("polish", "--task", "Polish").ok(4)


def plain_back_and_forth(bench: Bench) -> None:
    bench.plan({n: [["write", "side.txt", f"{n % 2}\n"], ["say", "x"]] for n in range(1, 9)})
    bench.loop("--task", "go round", "--done", "manual", "--max-iterations", "8").ok(4)


def plain_tasks(bench: Bench) -> None:
    bench.write("tasks.md", "- [ ] a\n")
    bench.commit("tasks")
    bench.plan({2: [["write", "tasks.md", "- [x] a\n"], ["say", "done"]]}, default=WORK)
    bench.loop("polish", "--task", "Polish", *CLEANUP).ok()


def manual_stories(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    live = bench.begin("--done", "manual")
    live.wait_event("waiting")
    bench.run("done", "demo").ok()
    live.wait().ok()


# -- budgets and limits ----------------------------------------------------------------------------


def budget_and_resumed(bench: Bench) -> None:
    bench.install_claude()
    bench.loop(*CLAUDE, "--budget", "tokens=3k,cost=9,time=8h").ok(6)
    bench.run("resume", "demo", "--json", "--budget", "tokens=8k").ok()


def budget_of_a_story(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({2: fails("first"), 3: fails("second")})
    bench.loop("--budget", "story-iterations=2", "--budget", "cost=5").ok(6)


def budget_raised_live(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.install_claude()
    live = at_gate(bench, *CLAUDE)
    bench.run("resume", "demo", "--budget", "iterations=1").ok()
    let_go(bench, live, 6)


def budget_paused(bench: Bench) -> None:
    bench.install_claude()
    args = ("run", "demo", *CLAUDE, *KEEP, "--budget", "tokens=3k")
    terminal = bench.terminal(*args)
    terminal.wait_text("new amount, or stop?")
    terminal.type("tokens=4k\n")
    terminal.wait_text("That is not enough; tokens=9k would be")
    terminal.type("20k\n")
    assert terminal.wait() == 0


def limit_and_stopped(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.install_claude()
    bench.plan({2: [["limit", 3600]]})
    live = bench.begin(*CLAUDE)
    live.wait_event("waiting")
    bench.run("stop", "demo").ok()
    live.wait().ok(6)


def limit_in_force(bench: Bench) -> None:
    """Killed in mid-wait: it goes on waiting."""
    bench.install_claude()
    bench.only_stories(1)
    bench.plan({1: [["limit", 4]]})
    live = bench.begin(*CLAUDE, *KEEP)
    live.wait_event("waiting")
    live.signal(signal.SIGKILL)
    live.wait()
    bench.run("resume", "demo", "--json").ok()


def fallback(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1)
    bench.program("codex", CODEX)
    bench.plan({1: [["limit", 3600]]})
    bench.loop(*CLAUDE, "--fallback", "codex:small").ok()


# -- the person ------------------------------------------------------------------------------------


def guided(bench: Bench) -> None:
    live = at_gate(bench)
    bench.run("guide", "demo", "Use tabs.").ok()
    bench.run("guide", "demo", "--story", "3", "Only in three.").ok()
    bench.run("reorder", "demo", "3").ok()
    let_go(bench, live)


def guidance_cleared(bench: Bench) -> None:
    bench.only_stories(1, 2)
    live = at_gate(bench)
    bench.run("stop", "demo").ok()
    live.wait().ok(6)
    bench.run("guide", "demo", "First.").ok()
    bench.run("guide", "demo", "--story", "2", "Second.").ok()
    bench.run("guide", "demo", "--clear", "--story", "2").ok()
    bench.run("guide", "demo", "--clear").ok()
    bench.run("guide", "demo", "Third.").ok()


def skipped_and_retried(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({1: [["write", "half.txt", "half\n"], ["wait", bench.gate("never")]]})
    live = bench.begin()
    bench.wait_call(1)
    bench.run("skip", "demo", "1", "--why", "later").ok()
    live.wait().ok(3)
    bench.run("retry", "demo", "1").ok()
    bench.run("resume", "demo", "--json").ok()


def skipped(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({1: fails("no net"), 2: fails("no net")})
    bench.loop("--on-fail", "skip", "--max-retries", "1").ok(3)


def parked_stuck(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({n: mess(n) for n in (1, 2, 3)})
    bench.loop("--on-stuck", "park", "--max-retries", "9").ok(3)


def asks(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.install_claude()
    question: Actions = [["write", "half.txt", "half\n"], ["ask_tool", "Which one?"]]
    promise: Actions = [["say", "<promise>ASK: Which of them?</promise>"]]
    bench.plan({1: [*question, ["say", "I wait."]], 2: promise})
    bench.loop(*CLAUDE).ok(3)


def asks_and_answered(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({1: [["say", "I see two ways.\n\nWhich one?"]]})
    bench.loop().ok(3)
    bench.run("guide", "demo", "--story", "1", "The first one.").ok()
    bench.run("resume", "demo", "--json").ok()


def marked(bench: Bench) -> None:
    bench.write(TASKS, tasks_text([3]).replace("- [ ] 1.1", "- [?] 1.1"))
    bench.commit("a question")
    bench.plan()
    bench.loop().ok(3)
    bench.run("guide", "demo", "In UTF-8.").ok()
    bench.run("resume", "demo", "--json").ok()


def decided(bench: Bench) -> None:
    """Asked at the terminal about every story that fails."""
    bench.plan({n: fails("no net") for n in (1, 2, 3)})
    flags = ["--agent-cmd", bench.agent, "--on-fail", "ask", "--max-retries", "0"]
    terminal = bench.terminal("run", "demo", *flags, *KEEP)
    words = ("Use the Cache.", "skip", "stop")
    for count, word in enumerate(words, 1):
        _answer(terminal, count, word)
    assert terminal.wait() == 3


def _answer(terminal: Terminal, count: int, word: str) -> None:
    until(lambda: terminal.raw.count(b"what the agent should know? ") >= count)
    terminal.type(f"{word}\n")


def retried_in_time(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({1: fails()})
    live = bench.begin("--max-retries", "0", "--on-complete", "ask")
    live.wait_event("complete", reason="max_retries")
    bench.run("retry", "demo", "1").ok()
    live.wait_event("complete", reason="success")
    bench.run("finish", "demo", "keep").ok()
    live.wait().ok()


SCENARIOS: tuple[Callable[[Bench], None], ...] = (
    done,
    done_cleanup,
    retries,
    time_limit,
    repeating,
    stuck_and_resumed,
    cap,
    not_logged_in,
    ladder,
    session,
    learnings,
    usage_meter,
    usage_guessed,
    checks,
    baseline,
    stash,
    stash_crash,
    worktree,
    worktree_cleanup,
    detached,
    refused,
    asked_again,
    archive,
    archive_refused,
    two_runs,
    stopped_now,
    signalled,
    crashed,
    crashed_between,
    finished_after_a_crash,
    broken_stories,
    undo_checkpoint,
    undo_undo,
    undo_keep,
    undo_start,
    restored,
    restored_and_undone,
    plain_promise,
    plain_manual,
    plain_stalled,
    plain_back_and_forth,
    plain_tasks,
    manual_stories,
    budget_and_resumed,
    budget_of_a_story,
    budget_raised_live,
    budget_paused,
    limit_and_stopped,
    limit_in_force,
    fallback,
    guided,
    guidance_cleared,
    skipped_and_retried,
    skipped,
    parked_stuck,
    asks,
    asks_and_answered,
    marked,
    decided,
    retried_in_time,
)
