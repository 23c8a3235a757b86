"""`replay` and `report`: a recorded run, once more or in one file."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from untildone.domain.errors import UserError
from untildone.domain.run import Run
from untildone.interfaces.cli.names import change_names
from untildone.wiring import replay as replays
from untildone.wiring import report as reports
from untildone.wiring.repository import Repository, here
from untildone.wiring.worktrees import here_for


@click.command(
    epilog="Examples:\n\n  untildone replay add-login\n\n  untildone replay report.tar.gz --json"
)
@click.argument("run", required=False, default="", shell_complete=change_names)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def replay(run: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Read a recorded run once more, without its agent, and compare every decision.

    RUN is a change (its newest run), the id of a run, or a file of `untildone report --bundle`;
    without it, the newest run here. Exit code 0: the same state is reached. Nothing is changed.
    """
    if run.endswith(".tar.gz"):
        with tempfile.TemporaryDirectory(prefix="untildone-") as folder:
            again = replays.play(reports.unpacked(Path(run), Path(folder)))
    else:
        again = replays.play(_folder(run))
    if as_json:
        click.echo(json.dumps(_data(again), ensure_ascii=False, default=str))
    else:
        for call in again.calls:
            click.echo(_row(call))
        click.echo(
            f"{len(again.calls)} calls, "
            + ("the same state is reached" if again.same else "ANOTHER STATE IS REACHED")
        )
    return 0 if again.same else 1


@click.command(
    epilog="Examples:\n\n  untildone report --bundle report.tar.gz\n\n"
    "  untildone replay report.tar.gz"
)
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file to write; it must not exist yet.",
)
def report(change: str, bundle: Path) -> int:
    """Put a recorded run into one file, for a bug report; what looks like a secret is blotted out.

    Journal, raw output with its times, prompts, state and versions of the newest run.
    """
    repository, run = _newest(change)
    if not bundle.name.endswith(".tar.gz"):
        bundle = bundle.with_name(f"{bundle.name}.tar.gz")
    for row in reports.bundle(repository, run, bundle):
        click.echo(f"  {row}")
    click.echo(f"The bundle is in: {bundle}")
    click.echo("It holds your prompts and what the agent said. Look into it before you send it:")
    click.echo(f"  tar -tzf {bundle}")
    return 0


def _newest(change: str) -> tuple[Repository, Run]:
    repository = here_for(change)
    run = repository.needed(change) if change else repository.latest()
    if run is None:
        raise UserError("There is no run in this worktree", hint="untildone run")
    return repository, run


def _folder(run: str) -> Path:
    found = here().folder(run) if run else None
    if found and found.journal.exists():
        return found.path
    repository, newest = _newest(run)
    return repository.folder(newest.plan.run_id).path


def _row(call: replays.Replayed) -> str:
    what = f"iteration {call.n}: {call.then.outcome}"
    if call.same:
        return f"  {what}" + (f" ({call.note})" if call.note else "")
    now = asdict(call.now)
    changed = {k: (v, now[k]) for k, v in asdict(call.then).items() if v != now[k]}
    rows = [f"    {name}: {then!r} -> {new!r}" for name, (then, new) in changed.items()]
    return "\n".join([f"! {what}, now {call.now.outcome}", *rows])


def _data(again: replays.Again) -> dict[str, object]:
    return {
        "same": again.same,
        "status": again.now.status,
        "iterations": [
            {
                "n": call.n,
                "story_id": call.story_id,
                "same": call.same,
                "outcome": call.now.outcome,
                "note": call.note,
                "then": asdict(call.then),
                "now": asdict(call.now),
            }
            for call in again.calls
        ],
    }
