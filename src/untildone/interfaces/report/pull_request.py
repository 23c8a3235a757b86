"""What a pull request says: the evidence for every story, and how to look at it."""

from collections.abc import Iterator

from untildone.commands.pull_request import Text as PullRequestText
from untildone.commands.run_account import RunAccount
from untildone.domain.reporting.account import UNCHANGED, StoryAccount, total
from untildone.interfaces.report import formatting
from untildone.interfaces.report.blocks import (
    Block,
    Cell,
    Code,
    Heading,
    Page,
    Table,
    Text,
    bounded,
)
from untildone.interfaces.report.markdown import without_title
from untildone.interfaces.report.page import agents, checks, not_done

LONGEST_TITLE = 72
KNOWN_BY = {
    "verified": "verified: its checks passed",
    "done, not verified": "the agent's word alone",
    "done before": "done before the run",
    "kept": "kept, not verified",
    UNCHANGED: "done, but nothing was changed",
    "parked": "NOT DONE, parked",
    "not done": "NOT DONE",
    "not started": "NOT DONE, not started",
    "interrupted": "NOT DONE, interrupted",
}


def pull_request_text(summary: RunAccount) -> PullRequestText:
    """Title and text; commits are not named, they have other names where they are pushed."""
    plan = summary.run.plan
    blocks: list[Block] = [Text((formatting.outcome(summary),))]
    blocks += [Heading("Iterations" if plan.plain else "Stories"), _stories(summary)]
    blocks += not_done(summary)
    blocks += (block for block in checks(summary) if isinstance(block, Heading | Table | Text))
    blocks += [Heading("Cost"), _cost(summary), Heading("How to look"), *_how_to_look(summary)]
    title = plan.task if plan.plain else plan.change_id
    only = summary.account.stories[0].title if len(summary.account.stories) == 1 else ""
    title = " ".join((f"{title}: {only}" if only and not plan.plain else title).split())
    short = title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1].rstrip()}…"
    return PullRequestText(short, without_title(Page("", tuple(blocks))))


def _stories(summary: RunAccount) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            story.id,
            story.title,
            _known_by(story),
            str(len(story.calls)),
            formatting.cost(total(story.calls)) if story.calls else "",
        )
        for story in summary.account.stories
    ]
    return bounded(("story", "title", "how it is known", "calls", "cost"), rows, frozenset((3, 4)))


def _known_by(story: StoryAccount) -> str:
    kept = story.kept
    if kept and kept.own_tests and story.state != "verified":
        return f"done; it changed what it is judged by: {', '.join(kept.own_tests)}"
    return KNOWN_BY.get(story.state, story.state)


def _cost(summary: RunAccount) -> Table:
    found = summary.account
    everything, wasted = total(found.calls), total(call for call in found.calls if call.wasted)
    rows: tuple[tuple[Cell, ...], ...] = (
        ("agent", agents(summary)),
        ("calls", f"{everything.calls}, {wasted.calls} of them put back or ended at a limit"),
        ("time", formatting.span((found.last - found.first).total_seconds())),
        ("tokens", formatting.all_tokens(everything)),
        ("cost", formatting.cost(everything)),
    )
    return Table(("figure", "value"), rows)


def _how_to_look(summary: RunAccount) -> Iterator[Block]:
    plan = summary.run.plan
    yield Text(
        (
            "Each story is a commit of its own unless it was squashed; the last lines of its "
            "message say which run, story and attempt it is of. To see them one by one:",
            Code("git log --reverse -p --first-parent"),
        )
    )
    if plan.verify:
        yield Text(("The checks of the run, to be run again:",))
        yield Table(("check",), tuple((Code(command),) for command in plan.verify))
    yield Text(
        (
            "Written by untildone from the journal of the run; brought up to date by",
            Code(f"untildone finish {plan.change_id} pr"),
        )
    )
