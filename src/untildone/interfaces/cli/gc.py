"""`gc`: removing what ended runs have stored."""

import sys

import click

from untildone.commands import gc as garbage
from untildone.domain.errors import UserError
from untildone.domain.plain_text import amount, count_of
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.output import echo, echo_json
from untildone.interfaces.windows import terminal
from untildone.wiring.repository import here


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option("--dry-run", is_flag=True, help="Only list what would go.")
@click.option(
    "--keep-days",
    metavar="DAYS",
    help="Keep what is younger: 30, 4weeks.  [default: the setting keep_days, 30]",
)
@click.option("--all", "everything", is_flag=True, help="Of every ended run, however young.")
@click.option("--yes", is_flag=True, help="With --all: do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def gc(
    change: str,
    dry_run: bool,  # noqa: FBT001 - click
    keep_days: str | None,
    everything: bool,  # noqa: FBT001 - click
    yes: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
) -> int:
    """Remove what ended runs have stored (of CHANGE, or of all changes), once it is old.

    That is: saved attempts, backups, archives and moved tips below refs/ralph, and the folders of
    the runs with journal, logs and prompts. A run that can be resumed is never touched. The newest
    ended run of each change stays, unless --all is given. There is no way back.
    """
    repository = here()
    days = garbage.keep_days(repository, keep_days)
    rule = garbage.rule(repository, days, change, everything=everything)
    if dry_run:
        old = garbage.find(repository, rule, garbage.busy_homes(repository))
    else:
        with garbage.locked(repository) as busy:
            old = garbage.find(repository, rule, busy)
            if old and everything and not yes:
                _ask(old, as_json=as_json)
            garbage.remove(repository, old)
    if as_json:
        data = {"dry_run": dry_run, "keep_days": None if everything else days} | _data(old)
        echo_json(data)
    else:
        what = (
            "everything of ended runs"
            if everything
            else f"what is older than {count_of(days, 'day')}"
        )
        _tell(old, f"{'Would remove' if dry_run else 'Removed'} {what}")
    return 0


def _ask(old: garbage.Old, *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty() or terminal() is None:
        raise UserError(
            "`gc --all` removes everything that ended runs have stored",
            state="Nothing was changed.",
            hint="`untildone gc --all --dry-run` lists it, `untildone gc --all --yes` removes it",
        )
    _list(old)
    echo("`restore`, `finish` and `attempts` will know nothing of these runs any more.")
    if not click.confirm("Remove all this?", err=True):
        raise UserError("Not confirmed", state="Nothing was changed.")


def _data(old: garbage.Old) -> dict[str, object]:
    return {
        "runs": [
            {
                "run_id": row.run.run_id,
                "change_id": row.run.change,
                "ended": row.run.last_sign.isoformat(timespec="seconds"),
                "folder": str(row.folder),
                "bytes": row.bytes,
            }
            for row in old.runs
        ],
        "refs": [{"ref": ref.name, "commit": ref.commit} for ref in old.refs],
        "folder_bytes": old.folder_bytes,
        "object_bytes": old.object_bytes,
    }


def _tell(old: garbage.Old, words: str) -> None:
    _list(old)
    echo(
        f"{words}: runs {len(old.runs)} ({amount(old.folder_bytes)}), "
        f"refs {len(old.refs)} ({amount(old.object_bytes)} of objects)"
    )
    if old.refs:
        echo("Git itself frees the space of the objects, at a later `git gc`.")
    if not old:
        echo("Runs that can be resumed stay, and so does the newest ended run of a change.")


def _list(old: garbage.Old) -> None:
    for row in old.runs:
        ended = row.run.last_sign.astimezone().strftime("%Y-%m-%d")
        size = amount(row.bytes)
        echo(f"  run {row.run.run_id} of {row.run.change}, last sign {ended}, {size}")
    for ref in old.refs:
        echo(f"  {ref.name}")
