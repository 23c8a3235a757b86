"""`skills`: what agents are told about this program, put where they look for it."""

import sys
from pathlib import Path

import click

from untildone.commands.care import skills as shipped
from untildone.domain.errors import UserError
from untildone.interfaces.output import echo, echo_json
from untildone.wiring.repository import here

ACTIONS = ("install", "list", "remove")


@click.command(
    epilog="Examples:\n\n  untildone skills install --agent claude\n\n"
    "  untildone skills install --project --yes\n\n  untildone skills list --json"
)
@click.argument("action", type=click.Choice(ACTIONS))
@click.option(
    *("--agent", "agents"),
    type=click.Choice(list(shipped.FOLDERS)),
    multiple=True,
    help="For this agent; repeatable.  [default: claude and codex]",
)
@click.option(
    "--project/--user",
    default=False,
    help="In this repository, for everybody who works on it, or in your home folder (default).",
)
@click.option("--yes", is_flag=True, help="Do not ask, not even before your edits are replaced.")
@click.option("--json", "as_json", is_flag=True, help="list: machine-readable.")
def skills(action: str, agents: tuple[str, ...], project: bool, yes: bool, as_json: bool) -> int:  # noqa: FBT001 - click
    """Install, list or remove the skills with which agents start, follow and plan runs.

    \b
    untildone         start a run, follow it, report
    untildone-plan    write stories and check them
    untildone-answer  answer the questions of a run

    What you have edited is never replaced or removed without a question.
    """
    if as_json and action != "list":
        raise click.UsageError("`--json` goes with `list`.")
    top = here().place.top if project else None
    places = shipped.places(agents or ("claude", "codex"), top)
    found = [skill for place in places for skill in shipped.skills_in(place)]
    if action == "list":
        return _list(found, as_json=as_json)
    if action == "remove":
        return _done(list(shipped.remove(found, lambda path: _agrees(path, "Remove", yes=yes))))
    if not yes:
        _ask(found)
    return _done(list(shipped.install(found, lambda path: _agrees(path, "Replace", yes=yes))))


def _list(found: list[shipped.Skill], *, as_json: bool) -> int:
    if as_json:
        rows = [{"name": s.name, "path": str(s.path), "state": s.state} for s in found]
        echo_json({"skills": rows})
    for skill in () if as_json else found:
        echo(f"{skill.state:<8}  {skill.name:<17} {skill.path}")
    return 0


def _ask(found: list[shipped.Skill]) -> None:
    """What will be written, before it is; a script says --yes."""
    new = [skill for skill in found if skill.state in ("missing", "older")]
    for skill in new:
        echo(f"{'new' if skill.state == 'missing' else skill.state}: {skill.path}")
    if new and not _confirmed("Write them?", yes=False):
        raise UserError("You said no", state="Nothing was written.", hint="untildone skills list")


def _agrees(path: Path, what: str, *, yes: bool) -> bool:
    if _confirmed(f"{path} was edited, or is not ours. {what} it?", yes=yes):
        return True
    echo(f"kept as it is: {path}")
    return False


def _confirmed(question: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UserError(
            f"{question} Nobody can be asked here", state="Nothing was changed.", hint="Add --yes."
        )
    return click.confirm(question, err=True)


def _done(paths: list[Path]) -> int:
    for path in paths:
        echo(f"{'written' if path.exists() else 'removed'}: {path}")
    if not paths:
        echo("Nothing had to be changed.")
    return 0
