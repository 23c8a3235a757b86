"""The colours: one theme for dark terminals, one for light ones, and those that Textual brings."""

import os
from collections.abc import Iterable
from difflib import get_close_matches

from textual.theme import Theme

from untildone.domain.errors import UserError

DARK, LIGHT = "untildone-dark", "untildone-light"
THEMES = (
    Theme(
        name=DARK,
        primary="#66b2e8",
        secondary="#8aa4c8",
        accent="#66b2e8",
        warning="#f0c060",
        error="#ff7b72",
        success="#7bd88f",
        foreground="#d6deeb",
        background="#10151e",
        surface="#1a2230",
        panel="#1c2430",
        dark=True,
    ),
    Theme(
        name=LIGHT,
        primary="#0b5ea8",
        secondary="#44597a",
        accent="#0b5ea8",
        warning="#8a5a00",
        error="#b3261e",
        success="#1b6e35",
        foreground="#1c2430",
        background="#fbfcfe",
        surface="#eef2f7",
        panel="#e4eaf2",
        dark=False,
    ),
)


def chosen_theme(name: str, known: Iterable[str]) -> str:
    """The theme of a name; without one what the terminal says of its own colours."""
    if not name:
        # Set by some terminals: colours of text and background as numbers, 7 and 15 are light.
        light = os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
        return LIGHT if light else DARK
    found = {"dark": DARK, "light": LIGHT}.get(name, name)
    if found in known:
        return found
    near = get_close_matches(name, ["dark", "light", *known], 3)
    raise UserError(
        f"There is no theme of this name: {name}",
        hint=f"untildone ui --theme {near[0]}" if near else "untildone ui --theme dark",
    )
