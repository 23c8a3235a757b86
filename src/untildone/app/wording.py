"""Sentences for people that several events, commands and pages share."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from untildone.domain.agents.agent import Kind
from untildone.domain.checks.baseline import listed
from untildone.domain.checks.checks import Failing
from untildone.domain.costs.budget import kind
from untildone.domain.plain_text import count_of
from untildone.domain.run.judging import ASKS
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Outcome, Reason, Run
from untildone.domain.run.user_requests import waits_for_person
from untildone.domain.stories.parking import Why

STATE_OF = {
    Why.QUESTION: "waits for an answer",
    Why.MARKED: "is marked as one that waits for an answer",
    Why.FAILED: "has no retry left and was skipped",
    Why.STUCK: "made no progress and was skipped",
    Why.SKIPPED: "was skipped on request",
}

# What people read in place of the words of the state file and of the events, which stay.
OUTCOME_WORDS: dict[str, str] = {
    Outcome.COMPLETE: "complete",
    Outcome.FAILED: "the agent gave up",
    Outcome.NO_PROMISE: "ended without a promise",
    Outcome.TIMEOUT: "out of time",
    Outcome.IDLE_TIMEOUT: "silent for too long",
    Outcome.VERIFY_FAILED: "not accepted",
    Outcome.AGENT_ERROR: "the agent failed",
    Outcome.INTERRUPTED: "interrupted",
    Kind.RATE_LIMITED: "at a rate limit",
    Kind.QUOTA_EXHAUSTED: "at a usage limit",
    Kind.OVERLOADED: "the service is overloaded",
    Kind.NOT_LOGGED_IN: "not logged in",
    Kind.CONTEXT_OVERFLOW: "the context is full",
    Kind.BUDGET: "at a budget of the agent",
    Kind.REFUSED: "the model refused",
    Kind.HUNG: "hung",
    Kind.CRASHED: "crashed",
    Kind.REPEATING: "went round in circles",
    "question": ASKS,
}
REASON_WORDS: dict[str, str] = {
    Reason.SUCCESS: "all is done",
    Reason.MAX_RETRIES: "a story has no retry left",
    Reason.MAX_ITERATIONS: "the cap of iterations is reached",
    Reason.STALLED: "no progress",
    Reason.STOPPED: "stopped",
    Reason.ERROR: "an error",
    Reason.PARKED: "only parked stories are left",
    Reason.UNFINISHED: "stories are left that cannot be run",
}


def parked_words(why: object) -> str:
    """What a parked story waits for, for people."""
    return STATE_OF[Why(str(why))] if str(why) in set(Why) else f"is parked ({why})"


def outcome_words(outcome: object) -> str:
    """How a call went, for people; what is not known is shown without its underscores."""
    return OUTCOME_WORDS.get(str(outcome), str(outcome).replace("_", " "))


def call_words(outcome: object, reason: object) -> tuple[str, str]:
    """How a call went and why; one that asks is told by its question alone."""
    text = str(reason or "")
    asked = text.removeprefix(f"{ASKS}: ")
    return (outcome_words(outcome), text) if asked == text else (ASKS, asked)


def reason_words(reason: object) -> str:
    """Why a run has ended, for people."""
    return REASON_WORDS.get(str(reason), str(reason).replace("_", " "))


def last_sign(at: datetime) -> str:
    """When a loop that has died was last heard of, in local time."""
    return f"last sign of life: {at.astimezone():%b %d %H:%M:%S}"


def next_command(change: str, story_id: str, why: Why) -> str:
    """What to type so that the story goes on."""
    resume = f"`untildone resume {change}`"
    if why in (Why.QUESTION, Why.MARKED):
        return f'`untildone guide {change} --story {story_id} "your answer"`, then {resume}'
    if why is Why.SKIPPED:
        return f"`untildone retry {change} {story_id}`, then {resume}"
    return f"{resume} tries it again"


def how_to_go_on(run: Run) -> str:
    """What to type so that a run that is not done goes on; only the person may know it."""
    change = run.plan.change_id
    for (story_id, _), why in waits_for_person(run, run.book).items():
        return next_command(change, story_id, why)
    more = f" --budget {run.held_up.enough}" if run.held_up else ""
    return f"`untildone resume {change}{more}` goes on"


def restored_hint(run: Run) -> str:
    """What to type when a run was taken back as a whole."""
    return ", ".join(f"`untildone {command}` {what}" for command, what in after_restore(run))


def after_restore(run: Run) -> Iterator[tuple[str, str]]:
    """The commands that make sense then, and what each does."""
    yield f"run {run.plan.change_id}", "starts anew"
    if run.plan.checkpoint != "worktree":  # its own worktree is gone, and its operations with it
        yield "undo", "takes the restore back"


def unfinished_hint(change: str, command: str) -> str:
    """What to type when all stories are done and the change is not."""
    return (
        f"`untildone stories {change}` lists them; make each one that can be run, or take it out, "
        f"then `untildone {command} {change}`"
    )


WHOLE_IS_RED = "All stories have landed, and a check fails on the whole"


def whole_is_red(story_id: str, commit: str, reason: str) -> str:
    """Every story is green, and all of them together are not."""
    return f"{WHOLE_IS_RED}, for the first time with story {story_id} ({commit[:12]}). {reason}"


def red_hint(change: str, error: str) -> str:
    """What to type then."""
    found = re.search(r"for the first time with story (\S+) \(", error)
    return (
        f"`untildone undo {change} --story {found[1] if found else 'ID'}` takes that story out and "
        f"leaves the others; or mend it in the worktree of the run (`untildone status {change}` "
        f"names it). Then `untildone resume {change}`"
    )


def already_fails(found: Failing, *, baseline: bool) -> str:
    """The sentence for a check that fails before anything was done."""
    rule = (
        "only what is newly broken blocks a story"
        if baseline
        else "a story is finished only when it passes; `--baseline` lets old failures through"
    )
    tests = f", {listed(found.names)}" if found.names else ""
    return f"already fails before the first story: `{found.command}` ({found.how}{tests}); {rule}"


def check_hint(change: str) -> str:
    """What to type when a check cannot start."""
    return (
        "Install it, or correct the command (`untildone run --dry-run` says where it is written). "
        "If a story is to make it, name it in that story alone, as a line Verify: `CMD`; then "
        f"`untildone run {change}`"
    )


def not_verified(story_id: str, tests: Sequence[str]) -> str:
    """The sentence for a story that wrote the tests, or the script, that it is judged by."""
    return (
        f"Story {story_id} wrote what it is judged by, tests that were there before or the script "
        f"of a check: {listed(tuple(tests))}. It is done, but not counted as verified; `--strict` "
        "runs such tests as they were, and a line `Tests: may change` or `Touches: PATH` in its "
        "text allows it"
    )


def let_through(now: Failing, old: tuple[str, ...]) -> str:
    """The sentence for old failures that do not block."""
    return f"Old failures of `{now.command}` were let through: {listed(old)}"


def unmeasured_budgets(before: Run, after: Run, lane: int) -> tuple[str, ...]:
    """What to say, once, when a budget cannot be held because the agent does not tell its use."""
    then, now = before.ledger.total, after.ledger.total
    call = before.open_iteration(lane)
    agent = call.agent or after.plan.agent
    kinds = {kind(budget.name) for budget in after.plan.budgets_of(call.story_key)}
    told = []
    if "tokens" in kinds and now.uncounted and not then.uncounted:
        told.append(
            f"{agent} does not say how many tokens it used: such a call does not count against "
            "the budget of tokens; `--budget iterations=…` and `time=…` always count"
        )
    return tuple(told)


def others_are_open(plan: Plan, count: int) -> str:
    """What is said at the end of a run that was asked for some stories only."""
    change, others = plan.change_id, count_of(count, "other story is", "other stories are")
    return (
        f"Done as asked for: {', '.join(plan.only)}. {others} open, so the change is not done: "
        f"`untildone resume {change} --story all` goes on, `untildone finish {change}` ends it"
    )
