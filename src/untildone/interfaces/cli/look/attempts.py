"""`attempts`: failed attempts that were saved."""

import os
import sys
from datetime import datetime
from typing import Any

import click

from untildone.app.wording import call_words
from untildone.commands.look import attempts as saved_attempts
from untildone.domain.plain_text import amount, count_of
from untildone.interfaces.cli import completion
from untildone.interfaces.output import echo, echo_json
from untildone.wiring.repository import here
from untildone.wiring.worktrees import changes_with_runs, here_for, the_change

COLORS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.argument("change", required=False, default="", shell_complete=completion.change_names)
@click.argument(
    "other",
    required=False,
    default="",
    metavar="[STORY/K2]",
    shell_complete=completion.saved_attempts,
)
@click.option(
    "--show",
    metavar="STORY/K",
    shell_complete=completion.saved_attempts,
    help="What the attempt was: outcome, reason, files, log.",
)
@click.option(
    "--diff",
    metavar="STORY/K [STORY/K2]",
    shell_complete=completion.saved_attempts,
    help="Its patch against the checkpoint it started from, or with STORY/K2 the patch from one "
    "attempt to the other; ready for `git apply`.",
)
@click.option(
    "--restore",
    metavar="STORY/K",
    shell_complete=completion.saved_attempts,
    help="Bring its files into the working tree.",
)
@click.option("--all", "every_run", is_flag=True, help="List those of earlier runs, too.")
@click.option(
    "--json", "as_json", is_flag=True, help="Machine-readable list (of all runs) or --show."
)
def attempts(  # noqa: PLR0913 - click
    change: str,
    other: str,
    show: str | None,
    diff: str | None,
    restore: str | None,
    every_run: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
) -> int:
    """Failed attempts of CHANGE that were saved: list, show, compare, bring back.

    \b
    untildone attempts add-login                  those of the newest run
    untildone attempts add-login --all            those of all runs
    untildone attempts add-login --show 2/1       the first attempt at story 2
    untildone attempts add-login --diff 2/1 | git apply
    untildone attempts add-login --diff 2/1 2/2   from the first to the second

    CHANGE can be left out if only one run could be meant.
    """
    if sum(map(bool, (show, diff, restore))) > 1:
        raise click.UsageError("`--show`, `--diff` and `--restore` do not go together.")
    change, other = _change_and_second(change, other)
    if other and not diff:
        raise click.UsageError(f"A second attempt is for `--diff` only: {other}")
    if diff and as_json:
        raise click.UsageError("`--diff` prints a patch; `--json` goes with `--show`.")
    repository = here_for(change)
    if show:
        _show(saved_attempts.details(repository, change, show), change, as_json=as_json)
        return 0
    if diff:
        _print_patch(saved_attempts.patch(repository, change, diff, other))
        return 0
    if restore:
        stored = saved_attempts.bring_back(repository, change, restore)
        echo(f"The attempt's files are in the working tree; what was there is stored as: {stored}")
        return 0
    rows = saved_attempts.attempts(repository, change)
    if as_json:
        echo_json({"attempts": rows})
    else:
        _list(rows, change, every_run=every_run)
    return 0


def _change_and_second(change: str, other: str) -> tuple[str, str]:
    """Without a change, the second attempt of `--diff` stands in its place."""
    if "/" in change and not other and change not in changes_with_runs(here()):
        change, other = "", change
    return change or the_change(here()), other


def _list(rows: list[dict[str, Any]], change: str, *, every_run: bool) -> None:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in reversed(rows):
        groups.setdefault(row["run_id"], []).insert(0, row)
    if not rows:
        echo(f"No attempt of {change} was saved.")
    for k, (run_id, group) in enumerate(groups.items()):
        if k == 0 or every_run:
            _list_run(run_id, group)
    older = sum(map(len, groups.values())) - len(next(iter(groups.values()), []))
    if older and not every_run:
        runs = count_of(len(groups) - 1, "earlier run")
        echo(f"{count_of(older, 'attempt')} of {runs}: untildone attempts {change} --all")


def _list_run(run_id: str, rows: list[dict[str, Any]]) -> None:
    started = rows[0]["run_started"]
    echo(f"run {run_id}" + (f", started {_local(started)}:" if started else ":"))
    for row in rows:
        how, why = call_words(row["outcome"], row["reason"])
        what = f"{how}  {count_of(row['files'], 'file')}" + (f"  {why}" if why else "")
        echo(f"  {row['attempt']}  {_local(row['at'])}  {what}")
        for kept in row["kept"]:
            echo(f"    kept beside git: {_kept(kept)}")


def _local(at: str) -> str:
    return f"{datetime.fromisoformat(at).astimezone():%b %d %H:%M:%S}"


def _show(found: dict[str, Any], change: str, *, as_json: bool) -> None:
    if as_json:
        echo_json(found)
        return
    name = found["attempt"]
    how, why = call_words(found["outcome"], found["reason"])
    rows = [f"attempt {name} of {change}: {how}"]
    reason = why.replace("\n", "\n    ")
    rows += [f"  reason: {reason}"] if reason else []
    rows.append(f"  story: {found['story_id']}")
    rows.append(f"  saved: {found['at']} as {found['ref']}")
    rows += ["  the agent's commits:"] if found["commits"] else []
    rows += [f"    {row['commit'][:12]} {row['subject']}" for row in found["commits"]]
    rows.append(f"  changed files: {len(found['files'])}")
    rows += [f"    {_lines(row):>12}  {row['path']}" for row in found["files"]]
    rows += [f"  kept beside git, comes back with --restore: {_kept(row)}" for row in found["kept"]]
    rows += [f"  log: {found['log_file']}"] if found["log_file"] else []
    rows.append(f"  as a patch: untildone attempts {change} --diff {name}")
    rows.append(f"  get it back: untildone attempts {change} --restore {name}")
    echo("\n".join(rows))


def _kept(row: dict[str, Any]) -> str:
    return f"{row['path']} ({amount(row['size'])}, {row['reason']})"


def _lines(row: dict[str, Any]) -> str:
    return "binary" if row["added"] is None else f"+{row['added']} -{row['deleted']}"


def _print_patch(patch: bytes) -> None:
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(patch)
        return
    # What an agent wrote must not be obeyed by the terminal; a pipe gets every byte.
    colors = {} if os.environ.get("NO_COLOR") else COLORS
    for line in patch.decode(errors="replace").removesuffix("\n").split("\n"):
        echo(line, color=colors.get(line[:1], ""))
