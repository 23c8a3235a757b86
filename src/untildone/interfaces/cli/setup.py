"""`doctor`, `demo` and `completion`: getting started and staying healthy."""

import json
import os
import sys
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class
from msgspec import to_builtins

from untildone.commands import demo as demo_project
from untildone.commands import doctor as checkup
from untildone.interfaces import render
from untildone.interfaces.cli.driver import View, driver_for
from untildone.interfaces.cli.names import change_names
from untildone.interfaces.windows import terminal
from untildone.wiring.repository import here

COLORS = {"ok": "green", "warn": "yellow", "bad": "red"}


# -- doctor ------------------------------------------------------------------------------------


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.option("--fix", is_flag=True, help="Remove what a dead loop left behind.")
@click.option(
    "--abandon",
    metavar="CHANGE",
    shell_complete=change_names,
    help="With --fix: also end the unfinished run of this change; your files stay.",
)
def doctor(as_json: bool, fix: bool, abandon: str | None) -> int:  # noqa: FBT001 - click
    """Check git, agents, story sources, configuration and leftovers.

    Exits 1 when something is bad. `--fix` removes only files and stash entries of this tool that
    a dead loop left behind; runs that can be resumed, saved work and your own files stay.
    """
    if abandon and not fix:
        raise click.UsageError(f"`--abandon` needs `--fix`: doctor --fix --abandon {abandon}")
    done = checkup.mend(here(), abandon or "") if fix else []
    rows = checkup.examine(Path.cwd())
    healthy = all(row.level != "bad" for row in rows)
    if as_json:
        data = {"ok": healthy, "rows": [to_builtins(row) for row in rows], "fixed": done}
        click.echo(json.dumps(data, ensure_ascii=False))
        return 0 if healthy else 1
    for text in done:
        click.echo(f"fixed  {text}")
    if fix and not done:
        click.echo("There was nothing to fix.")
    for row in rows:
        _show(row)
    return 0 if healthy else 1


def _show(row: checkup.Row) -> None:
    plain = bool(os.environ.get("NO_COLOR"))
    level = f"{row.level:<5}"
    colored = level if plain else click.style(level, fg=COLORS[row.level])
    click.echo(f"{colored}  {row.check}: {row.text}")
    if row.fix and row.level != "ok":
        click.echo(f"       fix: {row.fix}")


# -- demo --------------------------------------------------------------------------------------


@click.command()
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Make the repository in this new folder and keep it.",
)
@click.option("--fast", is_flag=True, help="Without the pauses that let a person follow.")
def demo(keep: Path | None, fast: bool) -> int:  # noqa: FBT001 - click
    """A complete run in a throw-away repository with the built-in scripted agent.

    Needs no key and no network. Of four stories one passes, one fails with a reason and then
    passes, one lies about being done and is caught by the check, and one crashes and recovers.
    """
    if sys.stdin is None:  # descriptor 0 was closed: the next pipe must not get that number
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - open until the process ends
    asks = sys.stdin.isatty() and terminal() is not None
    on_complete = "ask" if asks else "cleanup"
    with demo_project.project(keep, fast=fast) as repository:
        click.echo(f"A throw-away repository, a change of four stories: {repository.place.top}")
        click.echo(f"$ untildone run {demo_project.CHANGE} --verify '{demo_project.CHECK}'")
        ended = demo_project.play(driver_for(repository, View()), on_complete)
        if ended.exit_code or ended.run is None:
            return ended.exit_code
        _sum_up(demo_project.summary(repository, ended.run), str(ended.run.choice), keep)
    return 0


def _sum_up(summary: demo_project.Summary, choice: str, keep: Path | None) -> None:
    commits = "\n".join(f"  {row}" for row in summary.commits)
    click.echo(f"\nThe commits it made, one per story (`git log --oneline`):\n{commits}")
    click.echo("Failed attempts were put back, nothing is lost, each is saved under a ref:")
    for row in summary.attempts:
        click.echo(f"  {row}")
    if choice == "cleanup":
        click.echo(f"After cleanup, uncommitted on `main`: {len(summary.edits)} files")
    click.echo(f"Tokens (as the scripted agent tells them): {render.tokens(summary.tokens)}")
    gone = "The throw-away repository was removed."
    click.echo(f"The repository is kept in: {keep}" if keep else gone)
    if keep:
        click.echo(f"What happened, on one page: cd {keep} && untildone report")
    click.echo("next: cd your-repo && untildone init")


# -- completion --------------------------------------------------------------------------------


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash  untildone completion bash > ~/.local/share/bash-completion/completions/untildone
    zsh   untildone completion zsh > "${fpath[1]}/_untildone"
    fish  untildone completion fish > ~/.config/fish/completions/untildone.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    script = found(ctx.find_root().command, {}, "untildone", "_UNTILDONE_COMPLETE")
    # Not the bash class's own `source`: it starts bash to look at its version.
    click.echo(ShellComplete.source(script))
    return 0
