"""`watch-ci`: after the pull request, until its checks are green."""

import os

import click

from untildone.commands import run as loop
from untildone.commands.hand_over.watch_ci import Bounds, Doing, Outcome, Watch, Watched
from untildone.commands.pull_request import Request
from untildone.commands.run_ending import Ended
from untildone.domain.checks.ci import Standing
from untildone.domain.plain_text import count_of
from untildone.domain.run.run import Run
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.cli.look.follow import TIMED_OUT, Seconds
from untildone.interfaces.cli.pull_request import keep_and_hand_over
from untildone.interfaces.cli.view import View, process_for, say_ended
from untildone.interfaces.output import echo, echo_json
from untildone.settings.load import load
from untildone.wiring.repository import Repository, here
from untildone.wiring.worktrees import here_for, the_change

CODES = {
    Outcome.GREEN: 0,
    Outcome.RED: 3,
    Outcome.NO_CI: 4,
    Outcome.CLOSED: 5,
    Outcome.BUDGET: 6,
    Outcome.TIMEOUT: TIMED_OUT,
}


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option(
    "--rounds",
    type=click.IntRange(0, 20),
    default=3,
    show_default=True,
    metavar="N",
    help="How often red checks are mended at most; 0 only looks.",
)
@click.option(
    "--timeout",
    type=Seconds(),
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="For the checks of one push.",
)
@click.option(
    "--every", type=Seconds(), default="20s", show_default=True, help="How often to look."
)
@click.option(
    "--appear",
    type=Seconds(),
    default="3m",
    show_default=True,
    metavar="DURATION",
    help="Without any check after so long there is no CI.",
)
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines on stdout.")
def watch_ci(
    change: str,
    rounds: int,
    timeout: float,
    every: float,
    appear: float,
    as_json: bool,  # noqa: FBT001 - click
) -> int:
    """Follow the checks of the pull request of CHANGE on GitHub; a red one is mended and pushed.

    Each red check becomes a story, the end of its log goes into the prompt, the loop works on it
    within the run's budgets, and the branch is pushed again: never by force, and to no other
    branch. Exit code 0: green; 3: red after the last round, or nothing that code can mend; 4: no
    CI; 5: the pull request is closed or GitHub does not answer; 6: the budget is used up; 124: the
    time is over. CHANGE can be left out if only one run could be meant.
    """
    change = change or the_change(here())
    repository, view = here_for(change), View(as_json=as_json)
    doing = Doing(
        loop=lambda place, run, flags: _loop(place, run, flags, view),
        hand_over=lambda place, run, again: _hand_over(place, run, again, view),
        standing=lambda standing, url: _tell_standing(standing, url, as_json=as_json),
        round=lambda n, ids, names: _tell_round(n, ids, names, as_json=as_json),
    )
    bounds = Bounds(rounds, timeout, max(every, 0.1), appear)
    watched = Watch(repository, repository.needed(change), bounds, doing).until_end()
    _say(change, watched, as_json=as_json)
    return watched.code or CODES.get(watched.outcome, 3)


def _loop(repository: Repository, run: Run, flags: dict[str, object], view: View) -> Ended:
    settings = load(repository.place.top, os.environ, flags)
    process = process_for(repository, view, may_ask=False)
    return loop.resume(process, settings, flags, run.plan.change_id)


def _hand_over(repository: Repository, run: Run, again: dict[str, object], view: View) -> int:
    request = Request(
        remote=str(again["remote"] or ""),
        squash=bool(again["squash"]),
        uncommitted=bool(again["uncommitted"]),
        forge=load(repository.place.top, os.environ, {}).forge,
    )
    refused = keep_and_hand_over(repository, run.plan.change_id, request, view)
    return say_ended(refused, view) if refused else 0


def _tell_round(number: int, ids: list[str], names: list[str], *, as_json: bool) -> None:
    if as_json:
        echo_json({"event": "ci_round", "n": number, "story_ids": ids, "red": names})
        return
    count = count_of(len(ids), "story", "stories")
    echo(f"Round {number}: {count} to mend {', '.join(names)}", wrap=True)


def _tell_standing(standing: Standing, url: str, *, as_json: bool) -> None:
    total, red = len(standing.checks), [check.name for check in standing.red]
    running = [check.name for check in standing.running]
    if as_json:
        told = {"total": total, "red": red, "running": running, "url": url}
        echo_json({"event": "ci_checks"} | told)
        return
    if not total:
        echo(f"No check has begun yet: {url}", wrap=True)
        return
    parts = [f"{total - len(red) - len(running)} green"]
    parts += [f"{len(red)} red ({', '.join(red)})"] if red else []
    parts += [f"{len(running)} running"] if running else []
    echo(f"{count_of(total, 'check')}: {', '.join(parts)}", wrap=True)


def _say(change: str, watched: Watched, *, as_json: bool) -> None:
    red = [check.name for check in watched.standing.red]
    url, rounds = watched.pull_request.url, watched.rounds
    if as_json:
        ended = {"event": "ci_ended", "outcome": watched.outcome, "rounds": rounds}
        echo_json(ended | {"red": red, "url": url, "change_id": change})
        return
    named = ", ".join(red)
    words = {
        Outcome.GREEN: f"Green: every check of {url} has passed.",
        Outcome.RED: f"Red: {named}. Look at {url}",
        Outcome.NO_CI: f"No CI: nothing checks {url}",
        Outcome.TIMEOUT: f"The time is over, and checks still run: {url}",
        Outcome.CLOSED: f"The pull request is not open any more: {url}",
        Outcome.BUDGET: f"Red: {named}. The budget is used up: `untildone resume {change} --help`",
        Outcome.NOT_MENDED: f"Red: {named}. The loop did not mend it: `untildone status`",
    }
    echo(f"{words[watched.outcome]}  ({count_of(rounds, 'round')})", wrap=True)
