"""`plan`: an agent drafts the stories of an idea, the person says yes."""

import os
import sys

import click

from untildone.commands.plan.drafting import Drafted, Drafting, Request, Telling, drafting, told
from untildone.commands.plan.drafts import Draft, NotWritten, apply, difference, kept
from untildone.commands.plan.single_call import CallFailed, Spent
from untildone.domain.agents.agent import AgentText, Notice
from untildone.domain.agents.drafting import SOURCES
from untildone.domain.costs.budget import said
from untildone.domain.errors import UntildoneError
from untildone.domain.plain_text import count_of
from untildone.domain.stories.lint import Level, counted
from untildone.interfaces.cli.plan.lint import finding_json, show_findings
from untildone.interfaces.cli.setting_flags import given, setting_flags
from untildone.interfaces.output import echo, echo_json
from untildone.interfaces.render import first_line, tokens
from untildone.settings.load import load
from untildone.wiring.repository import Repository, here

COLORS = {"+": "green", "-": "red", "@": "cyan"}
MOST_SAID = 100


@click.command(
    epilog='Examples:\n\n  untildone plan "People can log out"\n\n  untildone plan --from idea.md '
    "--source openspec --change add-logout\n\n  untildone plan --from 42 --yes\n\n"
    "  untildone plan --apply"
)
@click.argument("idea", required=False, default="")
@click.option(
    *("--from", "start"),
    default="",
    metavar="FILE|ISSUE",
    help="A text to plan from (`-`: standard input), or an issue on GitHub by number or address.",
)
@click.option("--source", type=click.Choice(SOURCES), help="Format.  [default: what is used here]")
@click.option("--change", default="", metavar="NAME", help="Name.  [default: made of the idea]")
@click.option(
    "--rounds",
    type=click.IntRange(1, 20),
    default=3,
    show_default=True,
    metavar="N",
    help="Agent calls at most: each after the first mends what `lint` has found.",
)
@click.option("--yes", is_flag=True, help="Write the plan without asking, if it has no error.")
@click.option("--apply", "applies", is_flag=True, help="Write the draft that was kept; no call.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@setting_flags(
    *("agent", "agent_cmd", "agent_arg", "model", "script", "timeout", "idle_timeout"),
    *("permissions", "sandbox", "verify", "lanes"),
)
def plan(  # noqa: PLR0913 - one parameter per option
    idea: str,
    start: str,
    source: str | None,
    change: str,
    rounds: int,
    yes: bool,  # noqa: FBT001 - click
    applies: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
    **flags: object,
) -> int:
    """Let the agent draft the stories of IDEA; nothing is written before you say yes.

    The agent works in a copy of the project that is thrown away. `lint` judges its draft, and the
    agent mends what was found. You see the difference, what it has cost, and are asked. Without a
    terminal, and without --yes, the draft is kept: exit code 5, and `untildone plan --apply`
    writes it without another call.
    """
    repository = here()
    if applies:
        return _apply(repository, kept(repository, change), as_json=as_json)
    if start == "-":
        idea, start = f"{idea}\n\n{sys.stdin.read()}", ""
    settings = load(repository.place.top, os.environ, given(flags))
    request = Request(idea, start, source or "", change, rounds)
    asks = sys.stdin.isatty() and sys.stderr.isatty() and not (as_json or yes)
    with drafting(repository, settings, request) as work:
        if asks:
            result, why = _asked_until_settled(repository, work, rounds)
        else:
            result = work.rounds(rounds, _Shown().telling)
            why = _refusal(result)
            if not as_json:
                _show(repository, result, work.calls.spent)
            if why is None and not yes:
                why = NotWritten("Nobody at a terminal could be asked", result.draft)
        return _end(repository, work, result, why, as_json=as_json)


def _asked_until_settled(
    repository: Repository, work: Drafting, rounds: int
) -> tuple[Drafted, UntildoneError | None]:
    """The draft and why it is not written; what the person says is one more reason to go on."""
    said, telling = "", _Shown().telling
    while True:
        result = work.rounds(rounds, telling, said)
        _show(repository, result, work.calls.spent)
        if result.leaks:
            return result, _refusal(result)
        said = _asked(result)
        if said == "y":
            return result, None
        if said == "n":
            return result, NotWritten("The draft was not written, as you said no", result.draft)


def _end(
    repository: Repository,
    work: Drafting,
    result: Drafted,
    why: UntildoneError | None,
    *,
    as_json: bool,
) -> int:
    patch = difference(repository, result.draft)
    try:
        if why is None:
            apply(repository, result.draft)
    except UntildoneError as error:
        why = error
    if as_json:
        echo_json(_data(work.source, result, work.calls.spent, written=why is None, patch=patch))
    if why is not None:
        raise why
    if not as_json:
        _say_written(result.draft)
    return 0


def _refusal(result: Drafted) -> UntildoneError | None:
    """Why `--yes` does not write it."""
    if result.leaks:
        return CallFailed(
            "The draft has what looks like a secret, and is kept nowhere",
            state="Nothing was written.",
            hint="Take the secret out of the idea and the project, then plan again.",
        )
    if not result.errors:
        return None
    refused = NotWritten(
        f"The draft still has {counted(result.findings)}",
        result.draft,
        hint=f"`untildone plan --apply --change {result.draft.change}` writes it all the same",
    )
    refused.exit_code = CallFailed.exit_code
    return refused


def _apply(repository: Repository, draft: Draft, *, as_json: bool) -> int:
    patch = difference(repository, draft)
    apply(repository, draft)
    if as_json:
        files = sorted(draft.files)
        echo_json({"change_id": draft.change, "written": True, "files": files, "diff": patch})
    else:
        _say_written(draft)
    return 0


def _say_written(draft: Draft) -> None:
    where = ", ".join(os.path.relpath(path) for path in draft.files) if len(draft.files) < 4 else ""
    echo(f"Written: {where or count_of(len(draft.files), 'file')}")
    echo(f"Next: `untildone lint {draft.change}`, then `untildone run {draft.change}`")


def _asked(result: Drafted) -> str:
    question = f"Write {told(result)}? y, n, or what should be different"
    answer: str = click.prompt(question, default="n", err=True)
    short = {"yes": "y", "no": "n"}
    lowered = answer.strip().lower()
    return short.get(lowered, lowered if lowered in ("y", "n") else answer.strip())


def show_notice(notice: Notice) -> None:
    """What the agent says and does, for who sits there."""
    if not sys.stderr.isatty():
        return
    text = notice.text if isinstance(notice, AgentText) else f"{notice.tool} {notice.detail}"
    if line := first_line(text, MOST_SAID):
        echo(f"  {line}", err=True, color="" if os.environ.get("NO_COLOR") else "bright_black")


class _Shown:
    """How far it is, on standard error."""

    def __init__(self) -> None:
        self.telling = Telling(self._round, show_notice, self._judged)

    def _round(self, number: int, most: int) -> None:
        what = "drafts the plan" if number == 1 else "goes over its draft"
        echo(f"Round {number} of at most {most}: the agent {what}", err=True)

    def _judged(self, result: Drafted) -> None:
        echo(f"  {told(result)}: {counted(result.findings) or 'nothing to mend'}", err=True)


def _show(repository: Repository, result: Drafted, spent: Spent) -> None:
    """The difference, what is to be said about it, and what it has cost."""
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    patch = "" if result.leaks else difference(repository, result.draft)
    for row in patch.split("\n") if patch else ():
        echo(row, color=COLORS.get(row[:1], "") if color else "")
    echo()
    show_findings(finding for finding in result.findings if finding.level is not Level.INFO)
    for path in result.left_out:
        echo(f"left out, a plan changes nothing else: {path}", wrap=True)
    echo(f"{result.draft.change}: {told(result)}; {cost_words(spent)}", wrap=True)


def cost_words(spent: Spent) -> str:
    """What the calls have cost."""
    total = spent.usage.total
    used = f"{tokens(total)} tokens" if spent.tokens_known else "tokens unknown"
    cost = said("cost", spent.usage.cost_usd or 0.0) if spent.cost_known else "unknown"
    return f"{count_of(spent.calls, 'call')}, {used}, cost {cost}"


def _data(
    source: str, result: Drafted, spent: Spent, *, written: bool, patch: str
) -> dict[str, object]:
    apply_it = (
        None
        if written or result.leaks
        else f"untildone plan --apply --change {result.draft.change}"
    )
    return {
        "change_id": result.draft.change,
        "source": source,
        "written": written,
        "apply": apply_it,
        "files": sorted(result.draft.files),
        "stories": [{"story_id": s.id, "title": s.title} for s in result.added],
        "findings": [finding_json(finding) for finding in result.findings],
        "left_out": list(result.left_out),
        "calls": spent.calls,
        "tokens": spent.usage.total if spent.tokens_known else None,
        "cost_usd": spent.usage.cost_usd if spent.cost_known else None,
        "diff": "" if result.leaks else patch,
    }
