"""`interview`: the questions of the night, asked before it."""

import os
import sys
from pathlib import Path

import click

from untildone.commands.control import Early, Heard
from untildone.commands.plan import interview as asking
from untildone.commands.plan.interview import Interview, NotAnswered, Question
from untildone.commands.plan.single_call import Spent
from untildone.domain.errors import UserError
from untildone.domain.plain_text import count_of
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.cli.plan.plan import cost_words, show_notice
from untildone.interfaces.cli.setting_flags import given, setting_flags
from untildone.interfaces.cli.steer import tell
from untildone.interfaces.output import echo, echo_json
from untildone.plain_files import read_bytes
from untildone.settings.load import load
from untildone.wiring.repository import Repository
from untildone.wiring.worktrees import here_for

MOST = 12


@click.command()
@click.argument("change", shell_complete=change_names)
@click.option(
    "--most",
    type=click.IntRange(1, 50),
    default=MOST,
    show_default=True,
    metavar="N",
    help="Questions at most.",
)
@click.option(
    "--answers",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take these answers to the questions of the last call (`-`: standard input); no call.",
)
@click.option("--yes", is_flag=True, help="Take the agent's own answer where there is no other.")
@click.option("--again", is_flag=True, help="Ask anew, also where the plan is still the same.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@setting_flags(
    *("agent", "agent_cmd", "agent_arg", "model", "script", "timeout", "idle_timeout"),
    *("permissions", "sandbox"),
)
def interview(
    change: str,
    most: int,
    answers: Path | None,
    yes: bool,  # noqa: FBT001 - click
    again: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
    **flags: object,
) -> int:
    """Let the agent ask now what the plan of CHANGE leaves open; your answers become guidance.

    One call over the whole plan, in a copy of the project, that may only ask. At a terminal you
    answer each question or pass over it. For scripts: `--json` prints the questions, and
    `--answers` takes a file like {"answers": {"q1": "text"}}.
    """
    repository = here_for(change)
    found = asking.known(repository, change)
    if answers:
        return _take(repository, change, found, answers, yes=yes, as_json=as_json)
    spent = Spent()
    if found is None or again:
        settings = load(repository.place.top, os.environ, given(flags))
        echo("The agent reads the plan", err=True)
        found, spent = asking.ask(repository, settings, change, most, show_notice)
    if yes:
        told = asking.defaults(found)
    elif not as_json and sys.stdin.isatty() and sys.stderr.isatty():
        told = _asked(found, spent)
    else:
        return _shown(found, spent, as_json=as_json)
    return _end(found, spent, asking.take(repository, found, told), as_json=as_json)


def _take(
    repository: Repository,
    change: str,
    found: Interview | None,
    answers: Path,
    *,
    yes: bool,
    as_json: bool,
) -> int:
    """The answers of a script to the questions of an earlier call."""
    if found is None:
        raise UserError(
            f"There are no questions about the plan of `{change}` as it is now",
            state="Nothing was changed.",
            hint=f"untildone interview {change} --json",
        )
    told = asking.defaults(found) if yes else {}
    told |= asking.read_answers(_bytes_of(answers), found)
    return _end(found, Spent(), asking.take(repository, found, told), as_json=as_json)


def _bytes_of(answers: Path) -> bytes:
    return sys.stdin.buffer.read() if str(answers) == "-" else read_bytes(answers)


def _asked(found: Interview, spent: Spent) -> dict[str, str]:
    """The answers of the person; what is passed over has none."""
    told, group = dict[str, str](), ""
    _say_count(found, spent)
    for name, question in found.numbered:
        if question.group and question.group != group:
            group = question.group
            echo(f"\n{group}", err=True)
        _show(name, question)
        default = question.default or "-"
        answer: str = click.prompt("Answer (- passes over it)", default=default, err=True)
        told[name] = _meant(answer.strip(), question)
    return {name: text for name, text in told.items() if text != "-"}


def _meant(answer: str, question: Question) -> str:
    """A number stands for the choice."""
    chosen = int(answer) if answer.isdecimal() else 0
    return question.choices[chosen - 1] if 0 < chosen <= len(question.choices) else answer


def _shown(found: Interview, spent: Spent, *, as_json: bool) -> int:
    """The questions for somebody who answers later."""
    if as_json:
        rows = [{"id": name} | _row(question) for name, question in found.numbered]
        answer = f"untildone interview {found.change} --answers FILE" if rows else None
        echo_json({"change_id": found.change, "questions": rows, "answer": answer} | _spent(spent))
        return 0
    _say_count(found, spent)
    for name, question in found.numbered:
        _show(name, question)
    if found.questions:
        raise NotAnswered("Nobody at a terminal could be asked", found.change)
    return _end(found, spent, None, as_json=False)


def _show(name: str, question: Question) -> None:
    stories = f" (story {', '.join(question.stories)})" if question.stories else ""
    echo(f"\n{name}: {question.question}{stories}", err=True, wrap=True)
    if question.why:
        echo(f"    {question.why}", err=True, wrap=True)
    for number, choice in enumerate(question.choices, 1):
        echo(f"    {number}  {choice}", err=True, wrap=True)


def _row(question: Question) -> dict[str, object]:
    fields = ("group", "stories", "question", "why", "choices", "default")
    return {name: getattr(question, name) for name in fields}


def _spent(spent: Spent) -> dict[str, object]:
    tokens = spent.usage.total if spent.tokens_known else None
    cost = spent.usage.cost_usd if spent.cost_known else None
    return {"calls": spent.calls, "tokens": tokens, "cost_usd": cost}


def _say_count(found: Interview, spent: Spent) -> None:
    count = count_of(len(found.questions), "question")
    echo(f"{count}; {cost_words(spent)}", err=True, wrap=True)


def _end(found: Interview, spent: Spent, heard: Heard | Early | None, *, as_json: bool) -> int:
    if heard:
        return tell(heard, "The answers are guidance now.", as_json=as_json)
    if as_json:
        return _shown(found, spent, as_json=True)
    echo("Nothing was answered." if found.questions else "The plan leaves nothing open.")
    echo(f"Next: `untildone run {found.change}`")
    return 0
