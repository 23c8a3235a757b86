"""Numbers of a report as text, and its first sentence."""

from untildone.app.wording import how_to_go_on, last_sign, restored_hint
from untildone.commands.run_account import RunAccount, Size
from untildone.domain.agents.agent import Usage
from untildone.domain.plain_text import count_of
from untildone.domain.reporting.account import UNCHANGED, Account, Bought, Totals
from untildone.domain.run.run import Run, Status
from untildone.interfaces import render

UNKNOWN = "unknown"


def span(seconds: float) -> str:
    """A time, with tenths while it is short."""
    return f"{seconds:.1f}s" if seconds < 10 else render.duration(seconds)


def bought(found: Bought) -> str:
    """Whether lanes paid, in a sentence."""
    times = f"{span(found.wall_s)} in {found.lanes} lanes, {span(found.serial_s)} in one"
    if not found.paid:
        return f"they did not pay: {times}; `--lanes 1` is the better choice here"
    return f"they paid: {times}, {found.serial_s / found.wall_s:.1f} times as fast"


def money(amount: float | None) -> str:
    """An amount of dollars; small ones with more digits."""
    if amount is None:
        return UNKNOWN
    return f"${amount:.2f}" if amount >= 1 or not amount else f"${amount:.4f}"


def cost(totals: Totals) -> str:
    """What is known of the cost of some calls."""
    if totals.usage.cost_usd is None:
        return UNKNOWN
    part = f" (known of {totals.priced} of {count_of(totals.calls, 'call')})"
    return money(totals.usage.cost_usd) + (part if totals.priced < totals.calls else "")


def tokens(usage: Usage | None) -> str:
    """Input and output, marked if it is a guess."""
    if usage is None or not usage.told:
        return UNKNOWN
    return f"{'≈' if usage.estimated else ''}{render.tokens(usage.total)}"


def kinds(usage: Usage) -> tuple[str, str, str]:
    """Tokens of input, of output, and read from a cache or written to it."""
    if not usage.told:
        return UNKNOWN, UNKNOWN, UNKNOWN
    counts = usage.input_tokens, usage.output_tokens
    cache = usage.cache_read_tokens + usage.cache_write_tokens
    return render.tokens(counts[0]), render.tokens(counts[1]), render.tokens(cache)


def all_tokens(totals: Totals) -> str:
    """What is known of the tokens of some calls."""
    if not totals.counted:
        return UNKNOWN
    into, out, cache = kinds(totals.usage)
    part = f" (known of {totals.counted} of {count_of(totals.calls, 'call')})"
    return f"{into} input, {out} output, {cache} cache" + (
        part if totals.counted < totals.calls else ""
    )


def size(found: Size | None) -> str:
    if found is None:
        return UNKNOWN
    return f"{count_of(found.files, 'file')}, +{found.added} −{found.deleted}"  # noqa: RUF001 - a minus


def outcome(summary: RunAccount) -> str:
    """How the run went, in one sentence."""
    run, found = summary.run, summary.account
    took = span((found.last - found.first).total_seconds())
    counts = _counts(run, found)
    calls = count_of(len(found.calls), "agent call")
    head = {
        Status.DONE: "Done",
        Status.STUCK: "Stuck",
        Status.STALLED: "Stalled",
        Status.STOPPED: "Stopped",
    }.get(run.status, "Running" if summary.live else "Not over")
    if run.died:
        head = "Died"
    ending = f" after {took} and {calls}"
    return f"{head}{ending}: {counts}.{_why(summary)}"


def _counts(run: Run, found: Account) -> str:
    if run.plan.plain:
        kept = sum(1 for call in found.calls if call.kept)
        return f"{kept} of {count_of(len(found.calls), 'iteration')} kept their work"
    verified = len(found.of_state("verified"))
    unproven = len(found.of_state("done, not verified"))
    before = len(found.of_state("done before"))
    counted = len(found.stories) - before
    unchanged = len(found.of_state(UNCHANGED))
    done = verified + unproven + unchanged
    text = f"{done} of {count_of(counted, 'story is', 'stories are')} done"
    text += f", {verified} of them verified by a check"
    text += f", {unchanged} changed nothing" if unchanged else ""
    return text + (f" ({before} more were done before)" if before else "")


def _why(summary: RunAccount) -> str:
    run = summary.run
    if run.died:
        said = f" The loop is gone without a word ({last_sign(run.died)})."
    elif run.error:
        said = f" {render.first_line(run.error).rstrip('.')}."
    else:
        said = _WHY.get(str(run.reason), "")
    if run.restored:
        return f" It was {run.error}. Next: {restored_hint(run)}."
    choice = f" It was ended with `{run.choice}`." if run.choice and run.closed else ""
    if not summary.live and run.resumable and run.status is not Status.DONE:
        choice += f" Next: {how_to_go_on(run)}."
    return f"{said}{choice}"


_WHY = {
    "max_retries": " A story had no retry left.",
    "max_iterations": " The cap of iterations was reached.",
    "stalled": " Iterations in a row left no commit.",
}
