"""The command tree and the outer error boundary."""

import atexit
import contextlib
import gc
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from untildone import __version__
from untildone.domain.errors import UntildoneError, UserError
from untildone.interfaces.cli.command_table import COMMANDS, overview
from untildone.interfaces.output import echo, fitted

# The state of things at every UserError that does not say otherwise: see its class.
NOTHING_CHANGED = "Nothing was changed."
THREADS_OF_ITS_OWN = "temporalio"
_FEWER_COLLECTIONS = 20_000


class HelpFormatter(click.HelpFormatter):
    """Breaks also what click leaves as it is written, such as examples, at words."""

    def getvalue(self) -> str:
        return fitted(super().getvalue(), sys.stdout)


class HelpContext(click.Context):
    """Makes that formatter for every command."""

    formatter_class = HelpFormatter


class LazyGroup(click.Group):
    """Imports a command's module only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"untildone.interfaces.cli.{COMMANDS[cmd_name][0]}")
        _collect_from_now_on()
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        command.context_class = HelpContext
        return command

    def get_help(self, ctx: click.Context) -> str:
        """The overview, without importing a command."""
        return fitted(overview().rstrip(), sys.stdout)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Unknown names get a suggestion."""
        name = args[0] if args else ""
        if name and name not in COMMANDS and not name.startswith("-"):
            raise click.exceptions.NoSuchCommand(name, possibilities=_near(name), ctx=ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="untildone %(version)s")
def cli() -> None:
    """Drive coding agents through the stories of a change until every story is truly done."""


def _collect_from_now_on() -> None:
    """Nothing that was loaded is garbage: no collection, that at the end either, looks at it."""
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(_FEWER_COLLECTIONS)
        gc.enable()


def main(argv: Sequence[str] | None = None, *, own_process: bool = False) -> int:
    """Run a command; every way it can fail ends here as one clear message and an exit code.

    With `own_process` nothing comes after it.
    """
    _open_streams()
    code = _run(_or_full_screen(sys.argv[1:] if argv is None else argv))
    for fd, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            # Nobody reads on: no noise at the exit, and no exit code of Python's own.
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
    if own_process and THREADS_OF_ITS_OWN in sys.modules:
        _leave(code)
    return code


def _leave(code: int) -> NoReturn:
    """The threads of a library that cannot be ended would crash an interpreter that is taken down.

    Seen with Python 3.11: the work was done, and the exit code was that of a segmentation fault.
    """
    atexit._run_exitfuncs()
    os._exit(code)


def _run(argv: Sequence[str] | None) -> int:
    try:
        result = cli.main(args=argv, prog_name="untildone", standalone_mode=False)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        with contextlib.suppress(OSError):
            error.show()
        return 2
    except click.ClickException as error:
        show(_usage(error, argv))
        return 2
    except KeyboardInterrupt:
        return 130
    except UntildoneError as error:
        show(error)
        return error.exit_code
    except BrokenPipeError:
        return 0
    except OSError as error:
        show(_outside_trouble(error))
        return 1
    except Exception:  # noqa: BLE001 - the outer boundary: a report instead of a traceback
        return _report(argv)
    return result if isinstance(result, int) else 0


def _or_full_screen(argv: Sequence[str]) -> Sequence[str]:
    """Nothing was typed at a terminal, and there is a run to look at: its full screen."""
    if argv or os.environ.get("TERM", "dumb") == "dumb":
        return argv
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return argv
    from untildone.commands.look.feed import recorded
    from untildone.wiring.repository import here

    try:
        return ["ui"] if recorded([here()]) else argv
    except (UntildoneError, OSError):
        return argv


def _open_streams() -> None:
    # With a closed standard stream its number would go to the next file opened, ours or git's.
    for fd, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, mode)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an ASCII terminal still gets every line


def show(error: UntildoneError) -> None:
    """What happened, what state things are in, what to type next."""
    with contextlib.suppress(OSError):  # nobody hears it; the exit code still says it
        echo(f"error: {error.message}", err=True, wrap=True)
        state = error.state or (NOTHING_CHANGED if isinstance(error, UserError) else "")
        if state:
            echo(f"  {state}", err=True, wrap=True)
        if error.hint:
            echo(f"hint: {error.hint}", err=True, wrap=True)


def _usage(error: click.ClickException, argv: Sequence[str] | None) -> UserError:
    """What click says about a command line, in our own form."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    words = [word for word in (sys.argv[1:] if argv is None else argv)[:1] if word in COMMANDS]
    command = ctx.command_path if ctx else " ".join(["untildone", *words])
    return UserError(error.format_message(), hint=f"{command} --help")


def _outside_trouble(error: OSError) -> UntildoneError:
    return UntildoneError(
        f"The machine refused: {error}",
        state="A run is recorded as far as it could be written; git has what was stored.",
        hint="Look at `df .` and at permissions, mend it, then `untildone status`.",
    )


def _report(argv: Sequence[str] | None) -> int:
    import tempfile
    import traceback

    text = traceback.format_exc()
    args = sys.argv[1:] if argv is None else argv
    with tempfile.NamedTemporaryFile(
        "w", prefix="untildone-report-", suffix=".txt", delete=False
    ) as file:
        python = sys.version.partition(" ")[0]
        file.write(f"untildone {__version__}, Python {python}\ncommand: {args}\n\n{text}")
    echo("error: something went wrong inside untildone", err=True)
    echo("  `untildone status` shows where a run stands, `git for-each-ref refs/ralph`", err=True)
    echo("  what is stored.", err=True)
    echo(f"hint: a report for the developers is in: {file.name}", err=True)
    return 1


def _near(name: str) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(name, COMMANDS, n=3)
