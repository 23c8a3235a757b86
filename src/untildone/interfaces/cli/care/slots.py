"""`slots`: the checkouts of lanes."""

import click

from untildone.commands.care.slots import IN_USE, ONLY_COPY, RESUMABLE, SPARE, SlotRow, elsewhere
from untildone.commands.care.slots import slots as found_slots
from untildone.domain.plain_text import amount, count_of
from untildone.interfaces.output import echo, echo_json
from untildone.wiring.repository import here

WORDS = {
    IN_USE: "a loop works in it",
    RESUMABLE: "its run can be resumed",
    ONLY_COPY: "holds what is nowhere else",
    SPARE: "all of it is elsewhere",
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def slots(as_json: bool) -> int:  # noqa: FBT001 - click
    """List the slots of this repository: the checkouts that lanes work in, outside your tree.

    For each: what it takes from the disk, which change and lane it is for, and whether everything
    in it is elsewhere, too. `gc` and `doctor --fix` delete only what is.
    """
    rows, gone = found_slots(here()), elsewhere()
    if as_json:
        lost = [str(path) for path in gone]
        echo_json({"slots": [slot_json(row) for row in rows], "without_repository": lost})
        return 0
    for row in rows:
        _show(row)
    if rows:
        whole = amount(sum(row.bytes for row in rows))
        echo(f"{count_of(len(rows), 'slot')}, {whole}. `untildone gc` deletes old ones.")
    else:
        echo("This repository has no slots: `untildone run --lanes 2` makes them.")
    for path in gone:
        echo(f"Its repository is gone, look before you delete it: {path}")
    return 0


def _show(row: SlotRow) -> None:
    echo(
        f"lane {row.lane}  {amount(row.bytes):>9}  {row.change} ({row.run_id}): {WORDS[row.state]}"
    )
    echo(f"  {row.top}")
    for why in row.reasons:
        echo(f"  {why}")
    if row.reasons:
        echo(f"  look: {row.look}")


def slot_json(row: SlotRow) -> dict[str, object]:
    """A slot for scripts."""
    return {
        "lane": row.lane,
        "folder": str(row.folder),
        "top": str(row.top),
        "kind": row.kind,
        "change_id": row.change,
        "run_id": row.run_id,
        "bytes": row.bytes,
        "used": row.used.isoformat(timespec="seconds"),
        "state": row.state,
        "proof": list(row.proof),
        "reasons": list(row.reasons),
    }
