"""What the pages say of stories and of the calls for them: plain values, no markup."""

from collections.abc import Mapping
from urllib.parse import quote
from zlib import crc32

from msgspec import Struct

from untildone.app.wording import STATE_OF, parked_words
from untildone.commands.run_account import Size
from untildone.domain.reporting.account import (
    UNCHANGED,
    Account,
    Call,
    CheckRun,
    StoryAccount,
    total,
)
from untildone.domain.run.run import Run
from untildone.domain.stories.parking import Why
from untildone.interfaces.report import formatting
from untildone.interfaces.report.plots import how, kind_of
from untildone.interfaces.web.views import as_text

# A story's state as a glyph and as a colour.
MARKS = {
    "verified": ("✓", "done"),
    "done, not verified": ("✓", "unproven"),
    UNCHANGED: ("✓", "unproven"),
    "done before": ("✓", "quiet"),
    "running": ("▶", "running"),
    "parked": ("?", "question"),
    "interrupted": ("■", "stopped"),
    "not done": ("✗", "failed"),
    "not started": ("○", "quiet"),
}
PARKED = {
    Why.QUESTION: ("?", "question"),
    Why.MARKED: ("?", "question"),
    Why.FAILED: ("✗", "failed"),
    Why.STUCK: ("✗", "failed"),
    Why.SKIPPED: ("↷", "quiet"),
}


class Story(Struct, frozen=True):
    """A row of the list of stories."""

    id: str
    title: str
    state: str
    glyph: str
    colour: str
    attempts: int
    taken: str
    cost: str
    changed: str
    since: str
    href: str

    @property
    def key(self) -> str:
        """A name for this story within the page, whatever signs are in its own."""
        return f"{crc32(f'{self.id} {self.title}'.encode('utf-8', 'replace')):08x}"


def stories(run_id: str, run: Run, account: Account, sizes: Mapping[int, Size]) -> list[Story]:
    return [_story(run_id, run, story, sizes) for story in account.stories]


def story_href(run_id: str, story_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}/stories/{quote(story_id, safe='')}"


def _story(run_id: str, run: Run, story: StoryAccount, sizes: Mapping[int, Size]) -> Story:
    sums, kept, last = total(story.calls), story.kept, story.last_call
    state, glyph, colour = _stands(run, story)
    size = sizes.get(kept.n) if kept else None
    opened = last if last and not last.ended and story.state == "running" else None
    cost = sums.usage.cost_usd
    return Story(
        story.id,
        story.title,
        state,
        glyph,
        colour,
        sums.calls,
        formatting.span(sums.seconds) if sums.seconds else "",
        "" if cost is None else formatting.money(cost),
        formatting.size(size) if size else "",
        as_text(opened.started) if opened else "",
        story_href(run_id, story.id),
    )


def _stands(run: Run, story: StoryAccount) -> tuple[str, str, str]:
    """How a story stands, in words, as a glyph and as a colour."""
    parked = run.parked.get((story.id, story.title))
    if parked:
        return parked_words(parked.why), *PARKED[parked.why]
    glyph, colour = MARKS.get(story.state, ("✗", "failed"))
    again = story.state == "running" and len(story.calls) > 1
    return story.state, "↻" if again else glyph, colour


class Question(Struct, frozen=True):
    """A story that waits for the person."""

    story_id: str
    title: str
    text: str
    said: str
    asks: bool
    href: str

    @property
    def key(self) -> str:
        """A name for this story within the page, whatever signs are in its own."""
        return f"{crc32(f'{self.story_id} {self.title}'.encode('utf-8', 'replace')):08x}"


def questions(run_id: str, run: Run) -> list[Question]:
    """Those that ask first, then those that were set aside."""
    found = [
        Question(
            *key,
            parked.text,
            STATE_OF[parked.why],
            parked.why in (Why.QUESTION, Why.MARKED),
            story_href(run_id, key[0]),
        )
        for key, parked in run.parked.items()
        if parked.why is not Why.SKIPPED
    ]
    return sorted(found, key=lambda question: not question.asks)


class Checkpoint(Struct, frozen=True):
    """A story's work as it is on the branch of the run."""

    story_id: str
    title: str
    commit: str
    changed: str
    proof: str
    at: str
    href: str


def checkpoints(run_id: str, account: Account, sizes: Mapping[int, Size]) -> list[Checkpoint]:
    """Newest first."""
    kept = [call for call in account.calls if call.kept and call.commit]
    return [
        Checkpoint(
            call.key[0] or f"iteration {call.n}",
            call.key[1],
            call.commit[:12],
            formatting.size(sizes.get(call.n)),
            "verified" if call.verified else "not verified",
            as_text(call.closed) if call.closed else "",
            attempt_href(run_id, call),
        )
        for call in reversed(kept)
    ]


def attempt_href(run_id: str, call: Call) -> str:
    return f"{story_href(run_id, call.key[0] or f'iteration-{call.n}')}#call-{call.n}"


class Check(Struct, frozen=True):
    """One run of a check."""

    command: str
    word: str
    glyph: str
    colour: str
    taken: str
    reason: str


class Attempt(Struct, frozen=True):
    """One agent call on the page of its story."""

    n: int
    attempt: int
    agent: str
    outcome: str
    glyph: str
    colour: str
    why: str
    started: str
    open: bool
    taken: str
    tokens: str
    cost: str
    changed: str
    commit: str
    saved_ref: str
    checks: tuple[Check, ...]
    words: str
    diff: str
    lane: int


_OUTCOME = {
    "kept": ("✓", "done"),
    "failed": ("✗", "failed"),
    "limit": ("◔", "waiting"),
    "open": ("▶", "running"),
}


def attempt(call: Call, size: Size | None, diff: str, words: str) -> Attempt:
    glyph, colour = _OUTCOME[kind_of(call)]
    if call.requeued:
        glyph, colour = "↻", "waiting"
    used = call.usage
    return Attempt(
        n=call.n,
        attempt=call.attempt,
        agent=" ".join(filter(None, (call.agent, (used.model if used else "") or call.model))),
        outcome=how(call),
        glyph=glyph,
        colour=colour,
        why=call.reason,
        started=as_text(call.started),
        open=not call.ended,
        taken=formatting.span(call.seconds) if call.ended else "",
        tokens=f"{formatting.tokens(used)} tokens" if used and used.told else "",
        cost=formatting.money(used.cost_usd) if used and used.cost_usd is not None else "",
        changed=formatting.size(size) if size else "",
        commit=call.commit[:12],
        saved_ref=call.saved_ref,
        checks=tuple(_check(check) for check in call.all_checks),
        words=words,
        diff=diff,
        lane=call.lane,
    )


_CHECKED = {
    True: ("passed", "✓", "done"),
    False: ("failed", "✗", "failed"),
    None: ("has no end yet", "▶", "running"),
}


def _check(check: CheckRun) -> Check:
    word, glyph, colour = _CHECKED[check.passed]
    word += "" if check.level == "required" else f" ({check.level})"
    taken = formatting.span(check.seconds) if check.ended else ""
    return Check(check.command, word, glyph, colour, taken, check.reason)
