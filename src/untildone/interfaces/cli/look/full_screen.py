"""`ui`: the full screen over a run that another process drives."""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

import click

from untildone.commands.look.feed import Followed, followed, recorded
from untildone.commands.look.status import changes_json
from untildone.domain.errors import UserError
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.windows import terminal
from untildone.wiring.repository import Repository, here

# The terminal keeps its title in a stack of its own.
KEEP_TITLE, BRING_TITLE_BACK = "\x1b[22;2t", "\x1b[23;2t"


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option("--theme", default="", metavar="NAME", help="light, dark, or the name of a theme.")
def ui(change: str, theme: str) -> int:
    """The full screen over a run: stories, attempts, diffs, checks, what the agent says, steering.

    The run is driven by another process: leaving (`q`), a closed terminal or a crash of the window
    change nothing in it. Works on runs that have ended, too. Without CHANGE: the live run, if
    there is only one, or the newest; `w` changes to another. `?` tells the keys.

    With a screen reader `untildone attach` is the better choice, or `untildone logs --follow`.
    """
    return open_window(here(), change, theme)


def open_window(repository: Repository, change: str, theme: str = "") -> int:
    """Show it until the person leaves."""
    screen = terminal()
    if screen is None or not sys.stdin.isatty():
        raise UserError(
            "The full screen needs a terminal", hint="`untildone attach` or `untildone status`"
        )
    from untildone.interfaces.tui.lines import Entry, clean
    from untildone.interfaces.tui.window import Window

    runs = [] if change else recorded([repository])
    live = [run for run in runs if run.alive()]
    choices = live if len(live) > 1 else []
    source = followed(change) if change else _first(live or runs, choices)
    window = Window(
        repository,
        source,
        choices,
        lambda: [Entry(clean(row), style) for row, style in no_run(repository)],
        theme,
    )
    with _kept_title(screen), _ended_by_signals(window.leave):
        window.run()
    if window.failure:
        raise window.failure
    return 0


def _first(runs: list[Followed], choices: list[Followed]) -> Followed | None:
    return None if choices or not runs else runs[0]


def no_run(repository: Repository) -> Iterator[tuple[str, str]]:
    """What can be typed where nothing has run yet."""
    yield "Nothing has run here yet. As soon as a run begins, it is shown.", "strong"
    yield "", ""
    changes = [row for row in changes_json(repository) if row["state"] == "open"]
    for row in changes[:10]:
        yield f"  untildone run {row['name']} --detach", "accent"
    if not changes:
        yield (
            "  untildone init          a configuration file with every setting explained",
            "accent",
        )
        yield '  untildone run --task "…" a task without a plan', "accent"
        yield "  untildone demo          a whole run in a throw-away repository", "accent"


@contextlib.contextmanager
def _kept_title(screen: TextIO) -> Iterator[None]:
    screen.write(KEEP_TITLE)
    screen.flush()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            screen.write(BRING_TITLE_BACK)
            screen.flush()


@contextlib.contextmanager
def _ended_by_signals(leave: Callable[[], object]) -> Iterator[None]:
    """A closed terminal, or somebody who ends the window: the terminal is left as it was."""
    numbers = signal.SIGTERM, signal.SIGHUP
    before = {number: signal.signal(number, lambda *_: leave()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
