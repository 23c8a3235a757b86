"""`gc`: removing what ended runs have stored."""

import sys

import click

from untildone.commands.care import gc as garbage
from untildone.commands.care import slots
from untildone.domain.errors import UserError
from untildone.domain.plain_text import amount, count_of
from untildone.domain.run.retention import Rule
from untildone.interfaces.cli.care.slots import slot_json
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.output import echo, echo_json
from untildone.interfaces.windows import terminal
from untildone.wiring.repository import Repository, here


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
    the runs with journal, logs and prompts; and slots of lanes, if all that is in them is proven to
    be elsewhere too. A run that can be resumed is never touched. The newest
    ended run of each change stays, unless --all is given. There is no way back.
    """
    repository = here()
    days = garbage.keep_days(repository, keep_days)
    rule = garbage.rule(repository, days, change, everything=everything)
    if dry_run:
        old = garbage.find(repository, rule, garbage.busy_homes(repository))
        found = slots.old(repository, rule)
        gone = slots.spare(found)
    else:
        ask = everything and not yes
        old, found, gone = _removed(repository, rule, ask=ask, as_json=as_json)
    kept = [row for row in found if row not in gone]
    if as_json:
        data = {"dry_run": dry_run, "keep_days": None if everything else days} | _data(old)
        listed = {"slots": list(map(slot_json, gone)), "slots_kept": list(map(slot_json, kept))}
        echo_json(data | listed)
    else:
        what = (
            "everything of ended runs"
            if everything
            else f"what is older than {count_of(days, 'day')}"
        )
        _tell(old, gone, kept, f"{'Would remove' if dry_run else 'Removed'} {what}")
    return 0


def _removed(
    repository: Repository, rule: Rule, *, ask: bool, as_json: bool
) -> tuple[garbage.Old, list[slots.SlotRow], list[slots.SlotRow]]:
    """What went, all slots that were old, and those that went."""
    with garbage.locked(repository) as busy:
        old = garbage.find(repository, rule, busy)
        found = slots.old(repository, rule)
        if ask and (old or found):
            _ask(old, found, as_json=as_json)
        # First: what a slot holds is proven by refs that may go now, too.
        gone = slots.delete(repository, found)
        garbage.remove(repository, old)
    return old, found, gone


def _ask(old: garbage.Old, found: list[slots.SlotRow], *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty() or terminal() is None:
        raise UserError(
            "`gc --all` removes everything that ended runs have stored",
            state="Nothing was changed.",
            hint="`untildone gc --all --dry-run` lists it, `untildone gc --all --yes` removes it",
        )
    _list(old, slots.spare(found))
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


def _tell(
    old: garbage.Old, gone: list[slots.SlotRow], kept: list[slots.SlotRow], words: str
) -> None:
    _list(old, gone)
    for row in kept:
        echo(f"  kept: {row.named}, {' '.join(row.reasons)} Look: {row.look}")
    weight = amount(sum(row.bytes for row in gone))
    echo(
        f"{words}: runs {len(old.runs)} ({amount(old.folder_bytes)}), "
        f"refs {len(old.refs)} ({amount(old.object_bytes)} of objects)"
        + (f", slots {len(gone)} ({weight})" if gone else "")
    )
    if old.refs:
        echo("Git itself frees the space of the objects, at a later `git gc`.")
    if not old and not gone:
        echo("Runs that can be resumed stay, and so does the newest ended run of a change.")


def _list(old: garbage.Old, spare: list[slots.SlotRow]) -> None:
    for slot in spare:
        echo(f"  {slot.named}: {'; '.join(slot.proof)}")
    for row in old.runs:
        ended = row.run.last_sign.astimezone().strftime("%Y-%m-%d")
        size = amount(row.bytes)
        echo(f"  run {row.run.run_id} of {row.run.change}, last sign {ended}, {size}")
    for ref in old.refs:
        echo(f"  {ref.name}")
