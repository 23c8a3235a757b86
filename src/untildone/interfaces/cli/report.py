"""`report`: what happened in a run, on one page or in a file."""

from pathlib import Path

import click

from untildone.commands import bug_report as reports
from untildone.commands.run_account import newest, run_account
from untildone.domain.errors import UserError
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.output import echo, echo_json
from untildone.interfaces.report.data import data
from untildone.interfaces.report.html import html as as_html
from untildone.interfaces.report.markdown import markdown
from untildone.interfaces.report.page import page

FILE = click.Path(dir_okay=False, path_type=Path)


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
    page goes to standard output unless a file is named. What looks like a secret is redacted.
    """
    if bundle:
        _bundle(change, bundle)
    if not bundle or md or html or as_json:
        _page(change, md, html, as_json=as_json)
    return 0


def _page(change: str, md: Path | None, html: Path | None, *, as_json: bool) -> None:
    found = run_account(*newest(change))
    made = page(found)
    if as_json:
        echo_json(data(found))
    elif not (md or html):
        echo(markdown(made), nl=False)
    for path, text in ((md, markdown), (html, as_html)):
        if path:
            _write(path, text(made))
            echo(f"The report is in: {path}", err=True)


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
    repository, run_id = newest(change)
    if not bundle.name.endswith(".tar.gz"):
        bundle = bundle.with_name(f"{bundle.name}.tar.gz")
    for row in reports.bundle(repository, run_id, bundle):
        echo(f"  {row}")
    echo(f"The bundle is in: {bundle}")
    echo("It holds your prompts and what the agent said. Look into it before you send it:")
    echo(f"  tar -tzf {bundle}")
