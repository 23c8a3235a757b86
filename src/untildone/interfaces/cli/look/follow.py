"""`attach` and `wait`: a run that another process drives."""

import math
import os
import sys
import termios
import tty
from typing import Any

import click

from untildone.commands.look import wait as waiting
from untildone.commands.look.feed import Followed, followed
from untildone.commands.run_ending import Ended, exit_code
from untildone.domain.costs.budget import minutes
from untildone.interfaces import render
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.cli.setting_flags import WholeNumber
from untildone.interfaces.cli.view import View, colored, say_ended, view_flags
from untildone.interfaces.output import echo, echo_json, progress
from untildone.interfaces.windows import JsonLines, PlainLines
from untildone.wiring.repository import here

TIMED_OUT = 124
DIED = (
    "The loop over {change} is gone without a word (killed, or the machine went down). "
    "Next: untildone resume {change}"
)


class Seconds(click.ParamType[float]):
    """A duration as people write it; a number alone is seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value)
        try:
            seconds = float(text)
        except ValueError:
            seconds = 60 * (minutes(text) or math.nan)
        if not 0 <= seconds < math.inf:
            self.fail(f"{text!r} is no duration such as 30s, 5m or 1h30m", param, ctx)
        return seconds


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option("--ui", "full", is_flag=True, help="On the full screen, as `untildone ui` does it.")
@view_flags
def attach(change: str, full: bool, **typed: Any) -> int:  # noqa: ANN401, FBT001 - click
    """The live view on a run that another process drives; `q` or Ctrl-C leaves, the run goes on.

    Whoever comes late sees the same: what happened before, then what happens. At its end, and on a
    run that has ended, the exit code is the run's. Without CHANGE: the live run, if there is only
    one, or the newest.
    """
    if full:
        from untildone.interfaces.cli.look.full_screen import open_window

        return open_window(here(), change)
    view, run = View.of(typed), followed(change)
    if sys.stdout.isatty() and not view.as_json and not view.quiet:
        return _attach_terminal(run, view)
    window: JsonLines | PlainLines
    if view.as_json:
        window = JsonLines(sys.stdout, sys.stderr)
    else:
        window = PlainLines(sys.stdout, sys.stderr, quiet=view.quiet, asks=_asks(run))
    for batch in run.batches(run.pause):
        for event in batch:
            window(event)
    return _end(run, view)


def _asks(run: Followed) -> bool:
    """Whether the loop will wait for the completion choice."""
    return run.run().plan.on_complete == "ask"


def _attach_terminal(run: Followed, view: View) -> int:
    from untildone.interfaces.console import LiveView

    window = LiveView(color=colored(view), ask=_asks(run), answers=False)
    keys = Keys()
    try:
        for k, batch in enumerate(run.batches(lambda: keys.wait(run))):
            if k == 0:
                window.catch_up(batch)
                if run.alive():
                    window.start()
            else:
                for event in batch:
                    window(event)
            if keys.left:
                break
    except KeyboardInterrupt:
        keys.left = True
    finally:
        window.stop()
        keys.close()
    if keys.left and run.alive():
        name = run.run().plan.change_id
        echo(f"Left. The run of {name} goes on: `untildone attach {name}` looks again.", wrap=True)
        return 0
    return _end(run, view)


class Keys:
    """The keyboard while a view is open: single keys, not shown."""

    def __init__(self) -> None:
        self.left = False
        self._as_it_was = termios.tcgetattr(0) if sys.stdin.isatty() else None
        if self._as_it_was:
            tty.setcbreak(0)

    def wait(self, run: Followed) -> None:
        """Until the next look at the run, or until the person leaves."""
        if not self._as_it_was:
            run.pause()
        elif run.pause(also=(0,)):
            typed = os.read(0, 1024)
            self.left = not typed or b"q" in typed.lower()

    def close(self) -> None:
        if self._as_it_was:
            termios.tcsetattr(0, termios.TCSADRAIN, self._as_it_was)


def _end(run: Followed, view: View) -> int:
    ended = run.run()
    if ended.died:
        echo(DIED.format(change=ended.plan.change_id), err=True, wrap=True)
        return waiting.DIED
    return say_ended(Ended(exit_code(ended), ended), view)


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option(
    "--next", "next_", is_flag=True, help="Also return at a story's end, a question or a limit."
)
@click.option(
    "--after", type=WholeNumber(0), help="With --next: what came after the event with this `seq`."
)
@click.option(
    "--timeout",
    type=Seconds(),
    metavar="DURATION",
    help="Give up after 30s, 5m, 1h30m; a number alone is seconds. Exit code 124.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def wait(
    change: str,
    next_: bool,  # noqa: FBT001 - click
    after: int | None,
    timeout: float | None,
    as_json: bool,  # noqa: FBT001 - click
) -> int:
    """Wait for the end of a run and exit as it did; with --next for the next thing worth knowing.

    These are: a story is done, a story failed, a question, a limit or a budget that is waited for,
    the end. Then the exit code is 0. A loop that was killed ends the wait too (exit code 1).
    Without CHANGE: the live run, if there is only one, or the newest.
    """
    run = followed(change)
    if not as_json:
        progress("Waiting; Ctrl-C leaves the run alone")
    news = waiting.wait(run, timeout, for_news=next_, after=after)
    if as_json:
        echo_json(news.data)
    else:
        _say(news)
    if news.name == "timeout":
        return TIMED_OUT
    return 0 if next_ or news.exit_code is None else news.exit_code


def _say(news: waiting.News) -> None:
    run = news.run
    if news.name == "timeout":
        echo(f"The run of {run.plan.change_id} goes on: {news.data['phase']}", err=True)
    elif news.name == "died":
        echo(DIED.format(change=run.plan.change_id), err=True, wrap=True)
    else:
        event = render.safe(news.event)
        text = render.complaint(event) or render.line(event)
        echo(f"{render.clock_time(event['at'])} {text}", wrap=True)
        if news.exit_code is not None:
            say_ended(Ended(news.exit_code, run), View())
