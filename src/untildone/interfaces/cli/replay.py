"""`replay`: a recorded run, read once more."""

import tempfile
from pathlib import Path

import click
from msgspec import to_builtins

from untildone.app.wording import outcome_words
from untildone.commands import bug_report as reports
from untildone.commands import replay as replays
from untildone.commands.run_account import newest
from untildone.domain.plain_text import count_of
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.output import echo, echo_json


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
        repository, run_id = newest(run)
        again = replays.play(repository.folder(run_id).path)
    if as_json:
        echo_json(to_builtins(_data(again)))
    else:
        for call in again.calls:
            echo(_row(call))
        echo(
            f"{count_of(len(again.calls), 'call')}, "
            + ("the same state is reached" if again.same else "ANOTHER STATE IS REACHED")
        )
    return 0 if again.same else 1


def _row(call: replays.Replayed) -> str:
    what = f"iteration {call.n}: {outcome_words(call.then.outcome)}"
    if call.same:
        return f"  {what}" + (f" ({call.note})" if call.note else "")
    now = to_builtins(call.now)
    changed = {k: (v, now[k]) for k, v in to_builtins(call.then).items() if v != now[k]}
    rows = [f"    {name}: {then!r} -> {new!r}" for name, (then, new) in changed.items()]
    return "\n".join([f"! {what}, now {outcome_words(call.now.outcome)}", *rows])


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
