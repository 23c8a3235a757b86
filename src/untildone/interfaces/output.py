"""The one door to standard output and error: nothing that a terminal obeys gets through it.

Titles, reasons and file names come from repositories and agents. Colours are ours and are named.
"""

import json
import os
import sys

import click

from untildone.domain.plain_text import plain


def echo(text: str = "", *, err: bool = False, nl: bool = True, color: str = "") -> None:
    """Print a text."""
    text = plain(text)
    click.echo(click.style(text, fg=color) if color else text, err=err, nl=nl)


def progress(text: str) -> None:
    """Say at a terminal what is waited for; a script hears nothing of it."""
    if sys.stderr.isatty():
        echo(f"{text} …", err=True, color="" if os.environ.get("NO_COLOR") else "bright_black")


def echo_json(value: object) -> None:
    """Print a value as one line of JSON."""
    click.echo(json_line(value))


def json_line(value: object) -> str:
    """A value as JSON in one line, in which what a terminal would obey is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)
