"""Sentences for people that several events, commands and pages share."""

from collections.abc import Sequence

from untildone.domain.checks.baseline import listed
from untildone.domain.checks.checks import Failing
from untildone.domain.costs.budget import kind
from untildone.domain.run.run import Run
from untildone.domain.stories.parking import Why

STATE_OF = {
    Why.QUESTION: "waits for an answer",
    Why.MARKED: "is marked as one that waits for an answer",
    Why.FAILED: "has no retry left and was skipped",
    Why.STUCK: "made no progress and was skipped",
    Why.SKIPPED: "was skipped on request",
}


def next_command(change: str, story_id: str, why: Why) -> str:
    """What to type so that the story goes on."""
    resume = f"`untildone resume {change}`"
    if why in (Why.QUESTION, Why.MARKED):
        return f'`untildone guide {change} --story {story_id} "your answer"`, then {resume}'
    if why is Why.SKIPPED:
        return f"`untildone retry {change} {story_id}`, then {resume}"
    return f"{resume} tries it again"


def unfinished_hint(change: str, command: str) -> str:
    """What to type when all stories are done and the change is not."""
    return (
        f"`untildone stories {change}` lists them; make each one that can be run, or take it out, "
        f"then `untildone {command} {change}`"
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
    """The sentence for a story that changed the tests it is judged by."""
    return (
        f"Story {story_id} changed tests that were there before: {listed(tuple(tests))}. It is "
        "done, but not counted as verified; `--strict` runs such tests as they were, and a line "
        "`Tests: may change` in its text allows it"
    )


def let_through(now: Failing, old: tuple[str, ...]) -> str:
    """The sentence for old failures that do not block."""
    return f"Old failures of `{now.command}` were let through: {listed(old)}"


def unmeasured_budgets(before: Run, after: Run) -> tuple[str, ...]:
    """What to say, once, when a budget cannot be held because the agent does not tell its use."""
    agent, then, now = after.plan.agent, before.ledger.total, after.ledger.total
    kinds = {kind(budget.name) for budget in after.plan.budgets}
    told = []
    if "tokens" in kinds and now.uncounted and not then.uncounted:
        told.append(
            f"{agent} does not say how many tokens it used: such a call does not count against "
            "the budget of tokens; `--budget iterations=…` and `time=…` always count"
        )
    return tuple(told)
