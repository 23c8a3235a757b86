"""`report` and `replay`: a recorded run, on one page, in a file, or read once more."""

import tempfile
from pathlib import Path

import click
from msgspec import to_builtins

from untildone.app.wording import outcome_words
from untildone.commands.look import replay as recorded
from untildone.commands.run_account import newest, run_account
from untildone.domain.errors import UserError
from untildone.domain.plain_text import count_of
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.output import echo, echo_json
from untildone.interfaces.report.data import data
from untildone.interfaces.report.html import html as as_html
from untildone.interfaces.report.markdown import markdown
from untildone.interfaces.report.page import page
from untildone.plain_files import opened

IN_RUN, IN_RUN_NAME = "(in the run's folder)", "report-of-run.html"
FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    epilog="Examples:\n\n  untildone report add-login\n\n"
    "  untildone report add-login --html report.html\n\n"
    "  untildone report --html --open\n\n"
    "  untildone report --bundle report.tar.gz"
)
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option("--md", type=FILE, help="Write the page as Markdown into this file.")
@click.option(
    "--html",
    type=FILE,
    is_flag=False,
    flag_value=IN_RUN,
    metavar="[FILE]",
    help="Write the page as one HTML file with plots and diffs; without FILE to the run's folder.",
)
@click.option("--open", "opens", is_flag=True, help="Show the HTML page in a browser.")
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
    opens: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
    bundle: Path | None,
) -> int:
    """What happened in a run, on one page: outcome, attempts, checks, cost, what is saved where.

    CHANGE is a change (its newest run) or the id of a run; without it, the newest run here. The
    page goes to standard output unless a file is named. What looks like a secret is redacted.
    """
    if bundle:
        _bundle(change, bundle)
    html = html or (Path(IN_RUN) if opens else None)
    if not bundle or md or html or as_json:
        html = _page(change, md, html, as_json=as_json)
    if opens and html:
        _open(html)
    return 0


def _open(path: Path) -> None:
    import webbrowser

    if not webbrowser.open(path.absolute().as_uri()):
        echo(f"No browser was found; open it yourself: {path.absolute()}", err=True)


def _page(change: str, md: Path | None, html: Path | None, *, as_json: bool) -> Path | None:
    repository, run_id = newest(change)
    if html == Path(IN_RUN):
        html = repository.folder(run_id).path / IN_RUN_NAME
    found = run_account(repository, run_id, with_diffs=html is not None)
    made = page(found)
    if as_json:
        echo_json(data(found))
    elif not (md or html):
        echo(markdown(made), nl=False)
    for path, text in ((md, markdown), (html, as_html)):
        if path:
            _write(path, text(made))
            echo(f"The report is in: {path}", err=True)
    return html


def _write(path: Path, text: str) -> None:
    try:
        with opened(path, "wb", private=path.name == IN_RUN_NAME) as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise UserError(
            f"The report cannot be written: {path}: {error.strerror}",
            state="The run is as it was.",
            hint="Name a file in a folder that you can write to.",
        ) from error


def _bundle(change: str, bundle: Path) -> None:
    repository, run_id = newest(change)
    if not bundle.name.endswith(".tar.gz"):
        bundle = bundle.with_name(f"{bundle.name}.tar.gz")
    for row in recorded.bundle(repository, run_id, bundle):
        echo(f"  {row}")
    echo(f"The bundle is in: {bundle}")
    echo("It holds your prompts and what the agent said. Look into it before you send it:")
    echo(f"  tar -tzf {bundle}")


@click.command(
    epilog="Examples:\n\n  untildone replay add-login\n\n  untildone replay report.tar.gz --json"
)
@click.argument("run", required=False, default="", shell_complete=change_names)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def replay(run: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Replay a recorded run, without its agent, and compare every decision.

    RUN is a change (its newest run), the id of a run, or a file of `untildone report --bundle`;
    without it, the newest run here. Exit code 0: the same state is reached. Nothing is changed.
    """
    if run.endswith(".tar.gz"):
        with tempfile.TemporaryDirectory(prefix="untildone-") as folder:
            again = recorded.play(recorded.unpacked(Path(run), Path(folder)))
    else:
        repository, run_id = newest(run)
        again = recorded.play(repository.folder(run_id).path)
    if as_json:
        echo_json(to_builtins(_replay_data(again)))
    else:
        for call in again.calls:
            echo(_replay_row(call))
        echo(
            f"{count_of(len(again.calls), 'call')}, "
            + ("the same state is reached" if again.same else "ANOTHER STATE IS REACHED")
        )
    return 0 if again.same else 1


def _replay_row(call: recorded.Replayed) -> str:
    what = f"iteration {call.n}: {outcome_words(call.then.outcome)}"
    if call.same:
        return f"  {what}" + (f" ({call.note})" if call.note else "")
    now = to_builtins(call.now)
    changed = {k: (v, now[k]) for k, v in to_builtins(call.then).items() if v != now[k]}
    rows = [f"    {name}: {then!r} -> {new!r}" for name, (then, new) in changed.items()]
    return "\n".join([f"! {what}, now {outcome_words(call.now.outcome)}", *rows])


def _replay_data(again: recorded.Again) -> dict[str, object]:
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
