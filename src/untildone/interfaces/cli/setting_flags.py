"""Flags of commands, made of what `Settings` says about each setting."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from untildone.interfaces.cli.completion import WORDS, open_story_ids, setting_words
from untildone.settings.setting import Setting
from untildone.settings.settings import SETTINGS

F = TypeVar("F", bound=Callable[..., Any])
Completion = Callable[[click.Context, click.Parameter, str], list[str]]
OFF = "no_"
UNITS = {"minutes": "m", "MiB": "M"}


class WholeNumber(click.IntRange):
    """A number that click does not call an integer range when somebody mistypes it."""

    name = "whole number"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "NUMBER"


def setting_flags(*keys: str) -> Callable[[F], F]:
    """Add the flags of these settings to a command, or of all that have one."""

    def decorate(command: F) -> F:
        for key in reversed(keys or list(SETTINGS)):
            for option in options(SETTINGS[key]):
                command = option(command)
        return command

    return decorate


def given(flags: dict[str, Any]) -> dict[str, Any]:
    """The settings as they were typed; None where a flag was not."""
    off = {key.removeprefix(OFF) for key, value in flags.items() if key not in SETTINGS and value}
    told = {key: value for key, value in flags.items() if key in SETTINGS}
    return {key: "off" if key in off else _none_if_empty(value) for key, value in told.items()}


def _none_if_empty(value: object) -> object:
    return None if value == () else value


def options(setting: Setting) -> Iterator[Callable[[F], F]]:
    """The click options of a setting, the last of them first."""
    if setting.off:
        name = setting.key.replace("_", "-")
        yield click.option(f"--no-{name}", OFF + setting.key, is_flag=True, help=setting.off)
    if setting.flags:
        more: dict[str, Any] = (
            {"is_flag": False, "flag_value": setting.bare} if setting.bare else {}
        )
        yield click.option(
            setting.flags,
            setting.key,
            default=None,
            type=_type(setting),
            multiple=isinstance(setting.default, tuple),
            metavar=f"[{setting.metavar}]" if setting.bare else setting.metavar or None,
            callback=_absolute if setting.from_cwd else None,
            help=help_text(setting),
            shell_complete=_completion(setting.key),
            **more,
        )


def _completion(key: str) -> Completion | None:
    return open_story_ids if key == "story" else setting_words if key in WORDS else None


def help_text(setting: Setting) -> str:
    if isinstance(setting.default, tuple):
        return f"{setting.help}  [repeatable]"
    shown = _shown_default(setting)
    return f"{setting.help}  [default: {shown}]" if shown else setting.help


def _shown_default(setting: Setting) -> str:
    match setting.default:
        case _ if setting.unset:
            return setting.unset
        case bool():
            return "yes" if setting.default else "no"
        case float():
            return f"{setting.default:g}{UNITS.get(setting.amount, '')}"
        case _:
            return str(setting.default)


def _type(setting: Setting) -> click.ParamType[Any] | None:
    # In a file 0 stands for what `unset` says; as a flag it would only be a riddle.
    no_zero = bool(setting.unset)
    match setting.default:
        case bool():
            return None
        case _ if setting.amount:
            return None  # `30m` is for `load`
        case int():
            return WholeNumber(min=1 if no_zero else setting.least)
        case str() if setting.words and not setting.metavar:
            return click.Choice(setting.words)
        case _:
            return None


def _absolute(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return str(Path(value).absolute()) if value else value
