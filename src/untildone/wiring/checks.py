"""The checks of a plan: what was asked for, with `auto` replaced by what the project has."""

from dataclasses import replace
from pathlib import Path

from untildone.adapters.project_checks import LOOKED_FOR, detect
from untildone.domain.checks import AUTO, Level, parse
from untildone.domain.errors import UserError
from untildone.settings import Settings

NOTHING_FOUND = (
    f"`--verify auto` found no tests at the top of this project (it looks for {LOOKED_FOR}), "
    "so nothing is checked after COMPLETE"
)


def with_detected(settings: Settings, top: Path) -> tuple[Settings, tuple[str, ...]]:
    """The settings with `auto` (or `warn: auto`) spelled out, and remarks."""
    for pair in settings.story_verify:
        if not all(part.strip() for part in pair.partition("=")):
            raise UserError(
                f"`--story-verify` must be ID=CMD, not {pair!r}",
                state="Nothing was changed.",
                hint='untildone run --story-verify "2=pytest tests/test_login.py"',
            )
    commands: list[str] = []
    remarks: tuple[str, ...] = ()
    for text in settings.verify:
        check = parse(text)
        if check.command != AUTO:
            commands.append(text)
            continue
        prefix = "" if check.level is Level.REQUIRED else f"{check.level}: "
        found = [f"{prefix}{command}" for command in detect(top)]
        remarks = remarks if found else (NOTHING_FOUND,)
        commands += found
    return replace(settings, verify=tuple(commands)), remarks


def not_asked_for(settings: Settings, top: Path) -> tuple[str, ...]:
    """What could be checked when nobody asked for a check: named, never used."""
    return () if settings.verify else detect(top)
