"""The report's page: what happened, what it cost, what was saved where."""

from collections.abc import Iterator

from untildone.app.wording import STATE_OF, next_command
from untildone.commands.run_account import RunAccount, Size
from untildone.domain.agents.agent import Usage
from untildone.domain.plain_text import count_of
from untildone.domain.reporting.account import (
    UNCHANGED,
    Call,
    CheckRun,
    StoryAccount,
    bought,
    total,
)
from untildone.interfaces import render
from untildone.interfaces.plan_rows import plan_rows
from untildone.interfaces.report import formatting, plots
from untildone.interfaces.report.blocks import (
    MOST_ROWS,
    Block,
    Cell,
    Code,
    Detail,
    Heading,
    Legend,
    Page,
    Table,
    Text,
    bounded,
)


def page(summary: RunAccount) -> Page:
    """Everything, in the order of a reader's questions."""
    blocks: list[Block] = [Text((formatting.outcome(summary),)), *not_done(summary)]
    blocks += [Heading("Iterations" if summary.run.plan.plain else "Stories"), _stories(summary)]
    blocks += [Heading("Time, tokens and cost"), _figures(summary)]
    drawn = plots.bars(summary.account)
    if drawn:
        blocks += [Legend(plots.LEGEND), *drawn]
    blocks += [
        *_lanes(summary),
        *_details(summary),
        Heading("Attempts"),
        _attempts(summary),
    ]
    blocks += [*checks(summary), *_pauses(summary), *_remarks(summary)]
    blocks += [Heading("What was saved where"), _stored(summary)]
    blocks += [Heading("Settings of the run"), _settings(summary)]
    return Page(f"Report: {summary.run.plan.change_id}", tuple(blocks))


def _figures(summary: RunAccount) -> Table:
    found = summary.account
    everything, wasted = total(found.calls), total(c for c in found.calls if c.wasted)
    rows: list[tuple[Cell, ...]] = [
        ("started", found.first.isoformat(sep=" ", timespec="seconds")),
        ("agent", agents(summary)),
        ("time", _times(summary)),
        ("tokens", formatting.all_tokens(everything)),
        ("cost", formatting.cost(everything)),
        *_per_story(summary),
        ("wasted", _share(wasted.calls, everything.calls)),
    ]
    if wasted.calls:
        rows.append(
            (
                "",
                f"{_tokens(wasted.usage)}, {_cost(formatting.cost(wasted))}, "
                f"{formatting.span(wasted.seconds)} of the agent",
            )
        )
    sizes = [summary.size(call) for call in found.calls if call.tip]
    known = [size for size in sizes if size]
    rows.append(
        (
            "kept changes",
            formatting.size(_sum(known)) if len(known) == len(sizes) else formatting.UNKNOWN,
        )
    )
    return Table(("figure", "value"), tuple(rows))


def _per_story(summary: RunAccount) -> Iterator[tuple[Cell, ...]]:
    found, everything = summary.account, total(summary.account.calls)
    verified = len(found.of_state("verified"))
    unproven = len(found.of_state("done, not verified"))
    share = everything.per(verified)
    if share:
        yield (
            "per verified story",
            f"{_tokens(share.usage)}, {_cost(formatting.money(share.usage.cost_usd))}, "
            f"{formatting.span(share.seconds)} of the agent",
        )
    elif not summary.run.plan.plain:
        yield "per verified story", "no story was verified by a check"
    eased = sum(1 for call in found.calls if call.kept and call.own_tests)
    if unproven > eased:
        told = f"{unproven - eased}: by the agent's word alone, not counted above"
        yield "done without a check", told
    if eased:
        yield "done, with tests changed", f"{eased}: tests that were there, not counted above"
    if unchanged := len(found.of_state(UNCHANGED)):
        yield UNCHANGED, f"{unchanged}: not counted above"


def _tokens(usage: Usage) -> str:
    known = formatting.tokens(usage)
    return f"tokens {known}" if known == formatting.UNKNOWN else f"{known} tokens"


def _cost(amount: str) -> str:
    return f"cost {amount}" if amount == formatting.UNKNOWN else amount


def _times(summary: RunAccount) -> str:
    found = summary.account
    checked = sum(check.seconds for call in found.calls for check in call.all_checks)
    waited = sum(pause.seconds for pause in found.pauses)
    whole = formatting.span((found.last - found.first).total_seconds())
    agent = formatting.span(total(found.calls).seconds)
    checks, waiting = formatting.span(checked), formatting.span(waited)
    return f"{whole}: agent {agent}, checks {checks}, waiting {waiting}"


def agents(summary: RunAccount) -> str:
    """Who was called, with the models."""
    said = ((c.agent, (c.usage.model if c.usage else "") or c.model) for c in summary.account.calls)
    named = dict.fromkeys(" ".join(pair).strip() for pair in said)
    return ", ".join(named) or summary.run.plan.agent


def _share(part: int, whole: int) -> str:
    if not part:
        return "nothing: every call that ended was kept"
    return f"{part} of {count_of(whole, 'call was', 'calls were')} put back or ended at a limit"


def _stories(summary: RunAccount) -> Table:
    head = ("story", "title", "state", "calls", "time", "in", "out", "cache", "cost", "changed")
    rows = [_story(summary, story) for story in summary.account.stories]
    return bounded((*head, "commit"), rows, frozenset(range(3, 9)))


def _story(summary: RunAccount, story: StoryAccount) -> tuple[Cell, ...]:
    sums = total(story.calls)
    kept = story.kept
    used = sums.usage
    return (
        story.id,
        story.title,
        story.state,
        str(sums.calls),
        formatting.span(sums.seconds),
        *(formatting.kinds(used) if sums.calls else ("", "", "")),
        formatting.cost(sums) if sums.calls else "",
        formatting.size(summary.size(kept)) if kept and kept.tip else "",
        Code(kept.commit[:12] if kept else ""),
    )


def _lanes(summary: RunAccount) -> Iterator[Block]:
    """What several lanes did, and what that was good for."""
    drawn, found = plots.timeline(summary.account), bought(summary.account)
    if drawn:
        yield Heading("Lanes")
        yield drawn
    if found is None:
        return
    share = found.extra_tokens
    rows: list[tuple[Cell, ...]] = [
        ("what lanes bought", formatting.bought(found)),
        ("time with a call open", formatting.span(found.wall_s)),
        ("one after the other", f"{formatting.span(found.serial_s)}, by the times of these calls"),
        ("extra tokens", formatting.UNKNOWN if share is None else f"{share:.0f} %"),
        (
            "requeued",
            f"{count_of(found.requeues, 'call')} whose work could not be brought together",
        ),
        (
            "checked together",
            f"{formatting.span(found.again_s)} of checks beside those of one lane",
        ),
        ("flaky checks", str(found.flaky)),
    ]
    yield Table(("lanes", "value"), tuple(rows))


def not_done(summary: RunAccount) -> Iterator[Block]:
    """Stories that wait for a person or have failed: why, and what to type."""
    change, parked = summary.run.plan.change_id, summary.run.parked
    rows: list[tuple[Cell, ...]] = [
        (key[0], STATE_OF[found.why], found.text, next_command(change, key[0], found.why))
        for key, found in parked.items()
    ]
    rows += [
        (
            story.id,
            story.state,
            render.gist(call.reason),
            f"`untildone attempts {change} --show {story.id}/{call.attempt}`",
        )
        for story in summary.account.stories
        if story.state == "not done" and (call := story.last_call) and call.saved_ref
    ]
    if rows:
        yield Heading("Not done, and why")
        yield bounded(("story", "state", "question or reason", "next"), rows)


def _details(summary: RunAccount) -> Iterator[Block]:
    """What the agent said last about each story, and what it changed."""
    called = [(story, call) for story in summary.account.stories if (call := story.last_call)]
    shown = [pair for pair in called if summary.words.get(pair[1].n) or summary.diff(pair[1])]
    if shown:
        yield Heading("Last words and changes")
    for story, call in shown[:MOST_ROWS]:
        name = f"{story.id} {story.title}".strip()
        if words := summary.words.get(call.n):
            yield Detail(f"{name}: the agent's last words", words)
        if diff := summary.diff(call):
            how = "what it changed" if call.kept else "what was put back"
            yield Detail(f"{name}: {how}", diff, as_text=False)


def _attempts(summary: RunAccount) -> Table:
    head = ("iteration", "story", "attempt", "outcome", "time", "tokens", "cost", "checks")
    rows = [_attempt(summary, call) for call in summary.account.calls]
    return bounded((*head, "changed", "saved as", "why"), rows, frozenset((0, 4, 5, 6)))


def _attempt(summary: RunAccount, call: Call) -> tuple[Cell, ...]:
    changed = formatting.size(summary.size(call)) if call.tip or call.saved_ref else ""
    return (
        str(call.n),
        call.key[0],
        str(call.attempt) if call.attempt else "none used" if call.limit else "",
        plots.how(call),
        formatting.span(call.seconds) if call.ended else "",
        formatting.tokens(call.usage) if call.ended else "",
        formatting.money(call.usage.cost_usd if call.usage else None) if call.ended else "",
        _check_words(call),
        changed,
        Code(call.saved_ref or call.commit[:12]),
        render.gist(call.reason),
    )


def _check_words(call: Call) -> str:
    found = [_check_word(check) for check in call.all_checks]
    if call.let_through:
        found.append(f"{count_of(call.let_through, 'old failure')} let through")
    if call.own_tests:
        found.append(f"wrote what it is judged by: {', '.join(call.own_tests)}")
    return ", ".join(found)


def _check_word(check: CheckRun) -> str:
    word = {True: "passed", False: "failed", None: "no end"}[check.passed]
    return word if check.level == "required" else f"{word} ({check.level})"


def checks(summary: RunAccount) -> Iterator[Block]:
    """How often each ran and passed."""
    groups: dict[tuple[str, str], list[CheckRun]] = {}
    for call in summary.account.calls:
        for check in call.all_checks:
            groups.setdefault((check.command, check.level), []).append(check)
    yield Heading("Checks")
    if not groups:
        whose = "your" if summary.run.plan.person_ends else "the agent's"
        yield Text((f"No check ran: what is done is done by {whose} word alone.",))
        return
    rows: list[tuple[Cell, ...]] = [
        (
            Code(command),
            level,
            str(len(runs)),
            str(sum(run.passed is True for run in runs)),
            str(sum(run.passed is False for run in runs)),
            formatting.span(sum(run.seconds for run in runs)),
        )
        for (command, level), runs in groups.items()
    ]
    head = ("check", "level", "runs", "passed", "failed", "time")
    yield bounded(head, rows, frozenset((2, 3, 4, 5)))
    drawn = plots.checks(summary.account)
    if drawn:
        yield drawn


def _pauses(summary: RunAccount) -> Iterator[Block]:
    pauses = summary.account.pauses
    if pauses:
        yield Heading("Waiting")
        rows: list[tuple[Cell, ...]] = [
            (p.started.isoformat(sep=" ", timespec="seconds"), formatting.span(p.seconds), p.why)
            for p in pauses
        ]
        yield bounded(("since", "for", "why"), rows, frozenset((1,)))


def _remarks(summary: RunAccount) -> Iterator[Block]:
    if remarks := summary.account.remarks:
        yield Heading("Remarks")
        rows: list[tuple[Cell, ...]] = [
            (r.at.isoformat(sep=" ", timespec="seconds"), r.text) for r in remarks
        ]
        yield bounded(("at", "what"), rows)


def _stored(summary: RunAccount) -> Table:
    rows = tuple((row.what, Code(row.where), Code(row.command)) for row in summary.stored)
    return Table(("what", "where", "get at it"), rows)


def _settings(summary: RunAccount) -> Table:
    rows = tuple((label, text.replace("\n", "; ")) for label, text in plan_rows(summary.run.plan))
    return Table(("setting", "value"), rows)


def _sum(sizes: list[Size]) -> Size:
    whole = Size()
    for size in sizes:
        whole = whole.plus(size)
    return whole
