"""The one door to standard output and error: nothing that a terminal obeys gets through it.

Titles, reasons and file names come from repositories and agents. Colours are ours and are named.
"""

import json
import os
import shutil
import sys
import textwrap
from typing import TextIO

import click

from untildone.domain.plain_text import plain

# In fewer columns than these nothing is won by wrapping.
NARROWEST = 30


def echo(
    text: str = "", *, err: bool = False, nl: bool = True, color: str = "", wrap: bool = False
) -> None:
    """Print a text; one for people is wrapped at words where it goes to a terminal."""
    text = plain(text)
    text = fitted(text, sys.stderr if err else sys.stdout) if wrap else text
    click.echo(click.style(text, fg=color) if color else text, err=err, nl=nl)


def progress(text: str) -> None:
    """Say at a terminal what is waited for; a script hears nothing of it."""
    if sys.stderr.isatty():
        echo(f"{text} …", err=True, color="" if os.environ.get("NO_COLOR") else "bright_black")


def fitted(text: str, stream: TextIO) -> str:
    """The text as wide as the terminal of a stream; as it is where there is none."""
    return wrapped(text, shutil.get_terminal_size().columns) if stream.isatty() else text


def wrapped(text: str, width: int) -> str:
    """Lines broken at spaces only, what goes on further to the right; a long word stays whole."""
    rows = []
    for line in text.split("\n"):
        if len(line) <= width or width < NARROWEST:
            rows.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        rows += textwrap.wrap(
            line,
            width,
            subsequent_indent=f"{indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(rows)


def echo_json(value: object) -> None:
    """Print a value as one line of JSON."""
    click.echo(json_line(value))


def json_line(value: object) -> str:
    """A value as JSON in one line, in which what a terminal would obey is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)
