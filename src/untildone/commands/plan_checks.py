"""The checks of a plan: what was asked for, with `auto` replaced by what the project has."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.checks.detect import LOOKED_FOR, detect
from untildone.domain.checks.check_files import named_files
from untildone.domain.checks.checks import AUTO, Level, in_force, parse
from untildone.domain.errors import UserError
from untildone.domain.run.run import Plan
from untildone.settings.settings import Settings

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


def with_files(plan: Plan, flags: Mapping[str, object], top: Path) -> Plan:
    """The plan of a run that goes on: other checks run other files."""
    if not flags.get("verify") and flags.get("protect_checks") is None:
        return plan
    files = files_of_checks(plan.verify, top) if plan.protect_checks else ()
    return replace(plan, check_files=files)


def not_asked_for(settings: Settings, top: Path) -> tuple[str, ...]:
    """What could be checked when nobody asked for a check: named, never used."""
    return () if settings.verify else detect(top)


def files_of_checks(verify: Iterable[str], top: Path) -> tuple[str, ...]:
    """The files of the project that its checks run, as far as they exist."""
    commands = [check.command for check in in_force(verify)]
    return tuple(path for path in named_files(commands) if (top / path).is_file())
