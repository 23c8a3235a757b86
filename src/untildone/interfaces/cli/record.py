"""`replay` and `report`: a recorded run, once more or in one file."""

import json
import tempfile
from pathlib import Path

import click
from msgspec import to_builtins

from untildone.commands import bug_report as reports
from untildone.commands import replay as replays
from untildone.domain.errors import UserError
from untildone.domain.run.run import Run
from untildone.interfaces.cli.names import change_names
from untildone.wiring.repository import Repository, here
from untildone.wiring.worktrees import here_for

FILE = click.Path(dir_okay=False, path_type=Path)


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
    epilog="Examples:\n\n  untildone report add-login\n\n"
    "  untildone report add-login --html report.html\n\n"
    "  untildone report --bundle report.tar.gz"
)
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option("--md", type=FILE, help="Write the page as Markdown into this file.")
@click.option("--html", type=FILE, help="Write the page as one HTML file with plots.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object with everything.")
@click.option(
    "--bundle",
    type=FILE,
    help="Write journal, raw output and prompts into this new file, for a bug report.",
)
def report(
    change: str,
    md: Path | None,
    html: Path | None,
    as_json: bool,  # noqa: FBT001 - click
    bundle: Path | None,
) -> int:
    """What happened in a run, on one page: outcome, attempts, checks, cost, what is saved where.

    CHANGE is a change (its newest run) or the id of a run; without it, the newest run here. The
    page goes to standard output unless a file is named. What looks like a secret is blotted out.
    """
    if bundle:
        _bundle(change, bundle)
    if not bundle or md or html or as_json:
        _tell(change, md, html, as_json=as_json)
    return 0


def _tell(change: str, md: Path | None, html: Path | None, *, as_json: bool) -> None:
    from untildone.commands.run_account import newest, tell
    from untildone.interfaces.report.data import data
    from untildone.interfaces.report.html import html as as_html
    from untildone.interfaces.report.markdown import markdown
    from untildone.interfaces.report.page import page

    told = tell(*newest(change))
    made = page(told)
    if as_json:
        click.echo(json.dumps(data(told), ensure_ascii=False))
    elif not (md or html):
        click.echo(markdown(made), nl=False)
    for path, text in ((md, markdown), (html, as_html)):
        if path:
            _write(path, text(made))
            click.echo(f"The report is in: {path}", err=True)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"The report cannot be written: {path}: {error.strerror}",
            state="The run is as it was.",
            hint="Name a file in a folder that you can write to.",
        ) from error


def _bundle(change: str, bundle: Path) -> None:
    repository, run = _newest(change)
    if not bundle.name.endswith(".tar.gz"):
        bundle = bundle.with_name(f"{bundle.name}.tar.gz")
    for row in reports.bundle(repository, run, bundle):
        click.echo(f"  {row}")
    click.echo(f"The bundle is in: {bundle}")
    click.echo("It holds your prompts and what the agent said. Look into it before you send it:")
    click.echo(f"  tar -tzf {bundle}")


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
    now = to_builtins(call.now)
    changed = {k: (v, now[k]) for k, v in to_builtins(call.then).items() if v != now[k]}
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
                "then": to_builtins(call.then),
                "now": to_builtins(call.now),
            }
            for call in again.calls
        ],
    }
