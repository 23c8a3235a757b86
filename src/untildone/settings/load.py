"""The values of the settings: defaults < user file < repository file < environment < flags."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from untildone.domain.errors import UserError
from untildone.plain_files import read_text
from untildone.settings.amounts import EXAMPLES, READ
from untildone.settings.setting import INIT_HINT, PREFIX, Setting, near
from untildone.settings.settings import COMMANDS, FILE_NAME, SETTINGS, STRICT, Settings

# Set by the loop for its agents; a loop started inside an agent must not trip over them.
RESERVED = {
    "UNTILDONE_RUN_ID",
    "UNTILDONE_EVENT",
    "UNTILDONE_STORY_ID",
    "UNTILDONE_ATTEMPT",
    "UNTILDONE_STATE_FILE",
    "UNTILDONE_TASKS_FILE",
    "UNTILDONE_LOOP",
    "UNTILDONE_LANE",
    "UNTILDONE_PORTS",
}
# Read by `settings/fleet.py`, from the person's own file and the environment.
FLEET, FLEET_PREFIX = "fleet", f"{PREFIX}FLEET_"
NAMED_ORIGINS = (*COMMANDS, "strict")
WRONG_IN = "Wrong configuration in "
OFF = "off"
# In a file this is no empty variable of a script but the default as `init` writes it.
NO_COMMAND = ("agent_cmd", "")


def load(top: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """Settings from all layers; all wrong keys and types are one error that names their places."""
    values: dict[str, object] = {}
    mistakes: list[UserError] = []
    layers = [(str(path), _of_file(path, table, top)) for path, table in _files(top, environ)]
    layers.append(("the environment", _of_environment(environ)))
    layers.append(("the flags", _of_flags(flags)))
    for where, told in layers:
        layer: dict[str, object] = {}
        for found in told:
            if isinstance(found, UserError):
                mistakes.append(found)
            else:
                layer[found[0]] = found[1]
        try:
            _lay(values, layer, where)
        except UserError as error:
            mistakes.append(error)
    if mistakes:
        raise _together(mistakes)
    if values.get("strict"):
        values = STRICT | values
    return Settings(**values)  # type: ignore[arg-type]  # every value went through `checked_value`


def origins(
    top: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]
) -> dict[str, str]:
    """Where each command line of the settings is written: FILE:LINE, a variable, or a flag.

    For settings that were loaded, so nothing in them is wrong.
    """
    layers: list[dict[str, str]] = []
    for path, table in _files(top, environ):
        text, data = _read(path, table)
        name = path.name if path.parent == top else str(path)
        layers.append({key: f"{name}:{_line(text, key)}" for key in NAMED_ORIGINS if data.get(key)})
    variables = {key: SETTINGS[key].variable for key in NAMED_ORIGINS}
    layers.append({key: name for key, name in variables.items() if environ.get(name)})
    given = (key for key in NAMED_ORIGINS if flags.get(key))
    layers.append({key: SETTINGS[key].flags.partition("/")[0] for key in given})
    found = _laid(layers)
    if "strict" in found:
        found.setdefault("verify", found["strict"])
    return found


def _laid(layers: list[dict[str, str]]) -> dict[str, str]:
    """The strongest place of each; all of them where the layers add up."""
    found: dict[str, str] = {}
    for layer in layers:
        for key, where in layer.items():
            both = key in found and SETTINGS[key].adds
            found[key] = f"{found[key]}, {where}" if both else where
    return found


# A key and its value, or what is wrong with it.
Told = tuple[str, object] | UserError


def _told(key: str, read: Callable[[], object]) -> Told:
    try:
        return key, read()
    except UserError as error:
        return error


def _together(mistakes: list[UserError]) -> UserError:
    if len(mistakes) == 1:
        return mistakes[0]
    rows = "".join(f"\n  {found.message.removeprefix(WRONG_IN)}" for found in mistakes)
    hint = "\n  ".join(dict.fromkeys(found.hint for found in mistakes))
    return UserError(
        f"Wrong configuration, {len(mistakes)} mistakes:{rows}",
        state="Nothing was changed.",
        hint=hint,
    )


def _of_file(path: Path, table: str, top: Path | None) -> Iterator[Told]:
    try:
        text, data = _read(path, table)
    except UserError as error:
        yield error
        return
    within = top if top and path.parent == top else None
    if data.pop(FLEET, None) is not None and within:
        yield _fleet_of_a_repository(f"{path}:{_line(text, FLEET)}")
    for key in _tables_in(data):
        try:
            data |= _spread(SETTINGS[key], data.pop(key), f"{path}:{_line(text, key)}")
        except UserError as error:
            yield error
    for pair in data.items():
        if pair != NO_COMMAND:
            yield _told(pair[0], partial(_in_file, *pair, path, text, within))


def _tables_in(data: Mapping[str, object]) -> list[str]:
    return [key for key in data if key in SETTINGS and SETTINGS[key].tables]


def _fleet_of_a_repository(where: str) -> UserError:
    what = "[fleet] may not be set by a repository: it decides who gets your stories"
    hint = f"Set it in your own configuration file, or as {FLEET_PREFIX}ADDRESS and so on"
    return _wrong(where, what, hint)


def _spread(setting: Setting, value: object, where: str) -> dict[str, object]:
    """`[agent.NAME]` tables as lists of texts, since TOML has one thing only under a name."""
    if not isinstance(value, dict):
        return {setting.key: value}
    found: dict[str, object] = {}
    texts: list[str] = []
    for name, inner in value.items():
        if name == "name":
            found[setting.key] = inner
        elif not isinstance(inner, dict):
            raise _wrong(where, f"[{setting.key}.{name}] must be a table with `args` and `env`")
        else:
            texts += _texts_of(f"{setting.key}.{name}", inner, where)
    prefix = len(setting.key) + 1
    return found | ({setting.tables: [text[prefix:] for text in texts]} if texts else {})


def _texts_of(name: str, inner: dict[str, Any], where: str) -> list[str]:
    texts = []
    for key, value in inner.items():
        if key == "env" and isinstance(value, dict):
            values = [*value.values()]
            texts += [f"{name}.env.{variable}={text}" for variable, text in value.items()]
        else:
            values = (
                [value] if isinstance(value, str) else value if isinstance(value, list) else [0]
            )
            texts += [f"{name}.{key}={text}" for text in values]
        if not all(isinstance(text, str) for text in values):
            raise _wrong(
                where, f"`{key}` of [{name}] must be texts: args = [...], env = {{A = ...}}"
            )
    return texts


def _of_environment(environ: Mapping[str, str]) -> Iterator[Told]:
    for name, value in environ.items():
        ours = name.startswith(PREFIX) and not name.startswith(FLEET_PREFIX)
        if ours and name not in RESERVED:
            yield _told(name.removeprefix(PREFIX).lower(), partial(_in_environment, name, value))


def _of_flags(flags: Mapping[str, object]) -> Iterator[Told]:
    for key, value in flags.items():
        if value is not None:
            yield _told(key, partial(_flag, SETTINGS[key], value))


def _flag(setting: Setting, value: object) -> object:
    where = f"--{setting.key.replace('_', '-')}"
    typed = checked_value(setting, value, where)
    if setting.amount and setting.unset and not typed:
        # In a file 0 stands for what `unset` says; as a flag it would only be a riddle.
        raise _wrong(where, f"`{setting.key}` must be more than 0, not {value!r}")
    return typed


def _lay(values: dict[str, object], layer: dict[str, object], where: str) -> None:
    """Put a layer over the others: who names an agent means none of a layer below."""
    ladder = layer.get("agents")
    if isinstance(ladder, tuple) and ladder:
        first = ladder[0].partition(":")[0]
        if layer.get("agent", first) != first:
            raise _wrong(where, f"`agent` is not the first of `agents`, which is {first}: name one")
        layer = layer | {"agent": first}
    elif "agent_cmd" in layer:
        layer = layer | {"agents": (), "agent": "command"}
    elif "agent" in layer:
        layer = layer | {"agents": ()}
    for key, value in layer.items():
        earlier = values.get(key)
        adds = SETTINGS[key].adds and isinstance(earlier, tuple)
        values[key] = (*earlier, *value) if adds else value  # type: ignore[misc]  # two tuples


def user_file(environ: Mapping[str, str]) -> Path:
    """The person's own configuration file."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "/")) / ".config")
    return Path(base) / "untildone" / "config.toml"


def configuration_files(top: Path | None, environ: Mapping[str, str]) -> list[Path]:
    """The files that are read; a pyproject.toml without a table of ours is none."""
    return [path for path, table in _files(top, environ) if not table or _read(path, table)[1]]


def _files(top: Path | None, environ: Mapping[str, str]) -> list[tuple[Path, str]]:
    found = [(user_file(environ), "")]
    if top:
        project = top / FILE_NAME
        found.append((project, "") if project.exists() else (top / "pyproject.toml", "tool"))
    return [(path, table) for path, table in found if path.exists()]


def _read(path: Path, table: str) -> tuple[str, dict[str, object]]:
    import tomllib  # noqa: PLC0415 - costs start-up time

    try:
        text = read_text(path)
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        raise _wrong(f"{path}:{at[1] if at else 1}", f"this is not valid TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(str(path), f"the file cannot be read: {error}") from error
    if table:
        data = _table(_table(data, "tool", path), "untildone", path)
    return text, {key.replace("-", "_"): value for key, value in data.items()}


def _table(data: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    value = data.get(name, {})
    if not isinstance(value, dict):
        raise _wrong(str(path), f"`{name}` must be a table, not {value!r}")
    return value


def table_of(path: Path, name: str) -> dict[str, object]:
    """One table of a file; empty if it has none."""
    _, data = _read(path, "")
    inner = _table(data, name, path)
    return {key.replace("-", "_"): value for key, value in inner.items()}


def _in_environment(name: str, value: str) -> object:
    where = f"environment variable {name}"
    setting = _known(name.removeprefix(PREFIX).lower(), where)
    return checked_value(setting, from_text(setting, value, where), where)


def _in_file(key: str, value: object, path: Path, text: str, within: Path | None) -> object:
    try:
        return _allowed(key, value, str(path), within)
    except UserError:  # only now the line is needed
        return _allowed(key, value, f"{path}:{_line(text, key)}", within)


def _allowed(key: str, value: object, where: str, within: Path | None) -> object:
    setting = _known(key, where)
    typed = checked_value(setting, value, where)
    if setting.path and within:
        for text in typed if isinstance(typed, tuple) else (str(typed),):
            _refuse_outside(setting, text, where, within)
    return typed


def _refuse_outside(setting: Setting, text: str, where: str, top: Path) -> None:
    """A clone must not send what it likes of this machine to a model, nor write there."""
    if text in ("", OFF):
        return
    path, inside = (top / Path(text).expanduser()).resolve(), top.resolve()
    if path.is_relative_to(inside) and not path.is_relative_to(inside / ".git"):
        return
    raise _wrong(
        where,
        f"`{setting.key}` may only name what is inside the repository here, not {text!r}",
        "Other files are named by your own configuration file, by "
        f"{setting.variable} or by --{setting.key.replace('_', '-')}",
    )


def _known(key: str, where: str) -> Setting:
    if key not in SETTINGS:
        raise _wrong(where, f"unknown key `{key}`{near(key, list(SETTINGS))}")
    return SETTINGS[key]


def checked_value(setting: Setting, value: object, where: str) -> object:
    """A value of a setting as it is used; a wrong one is an error."""
    kind: type = type(setting.default)
    if kind is tuple:
        return _listed(setting, value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if setting.amount and isinstance(value, str):
        written, value = value, READ[setting.amount](value)
        if value is None:
            raise _no_amount(setting, written, where)
    if type(value) is not kind:
        raise _no_amount(setting, value, where)
    if isinstance(value, str):
        _refuse_other_words(setting, value, where)
    elif isinstance(value, int | float):
        _refuse_out_of_range(setting, value, where)
    return value


def _no_amount(setting: Setting, value: object, where: str) -> UserError:
    usual = _TYPE_WORDS[type(setting.default)]
    return _wrong(
        where, f"`{setting.key}` must be {EXAMPLES.get(setting.amount, usual)}, not {value!r}"
    )


def _refuse_other_words(setting: Setting, value: str, where: str) -> None:
    _refuse_blank(setting, (value,), where)
    if setting.choices and value not in setting.choices:
        known = f"`{setting.key}` must be one of {', '.join(setting.words)}"
        what = f"{known}, not {value!r}{near(value, setting.choices)}"
        raise _wrong(where, what, setting.hint)
    _checked(setting, (value,), where)


def _refuse_out_of_range(setting: Setting, value: float, where: str) -> None:
    least, above, most = setting.least, setting.above, setting.most
    if least is not None and value < least:
        raise _wrong(where, f"`{setting.key}` must be at least {least}, not {value}")
    if above is not None and not above < value < math.inf:
        raise _wrong(where, f"`{setting.key}` must be more than {above}, not {value}")
    if most is not None and value > most:
        raise _wrong(where, f"`{setting.key}` must be at most {most}, not {value}")


def _listed(setting: Setting, value: object, where: str) -> tuple[str, ...]:
    if isinstance(value, dict) and setting.table:
        value = _pairs(value)
    listed = (value,) if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(v, str) for v in listed):
        raise _wrong(where, f"`{setting.key}` must be a text or a list of texts")
    texts = tuple(listed)
    _refuse_blank(setting, texts, where)
    return _checked(setting, texts, where)


def _checked(setting: Setting, texts: tuple[str, ...], where: str) -> tuple[str, ...]:
    try:
        return setting.checked(texts) if setting.checked else texts
    except ValueError as wrong:
        raise _wrong(where, str(wrong), setting.hint) from None


def _refuse_blank(setting: Setting, texts: tuple[str, ...], where: str) -> None:
    if not setting.command:
        return
    from untildone.domain.checks.checks import parse  # noqa: PLC0415 - costs start-up time

    for text in texts:
        key, _, command = text.partition("=") if setting.table else (text, "", text)
        if not parse(command).command.strip():
            raise _wrong(
                where, f"`{setting.key}` has no command: {text!r}. Name one or leave it out"
            )
        if not key.strip():
            raise _wrong(where, f"`{setting.key}` must be {setting.metavar}, not {text!r}")


def _pairs(table: dict[str, Any]) -> list[object]:
    """A table as KEY=VALUE texts; a value that is no text stays as it is, and is refused."""
    rows = ((k, v) for k, vs in table.items() for v in (vs if isinstance(vs, list) else [vs]))
    return [f"{key}={value}" if isinstance(value, str) else value for key, value in rows]


_TYPE_WORDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def from_text(setting: Setting, value: str, where: str) -> object:
    """A value as the environment has it."""
    kind: type = type(setting.default)
    if setting.amount:
        return value
    try:
        if kind is bool:
            return _TRUTH[value.lower()]
        return kind(value) if kind in (int, float) else value
    except (KeyError, ValueError):
        what = f"`{setting.key}` must be {_TYPE_WORDS[kind]}, not {value!r}"
        raise _wrong(where, what) from None


def _line(text: str, key: str) -> int:
    written = (key, key.replace("_", "-"), *(s.key for s in SETTINGS.values() if s.tables == key))
    names = "|".join(re.escape(name) for name in written)
    pattern = re.compile(rf"^\s*\[?(?:tool\.untildone\.)?\"?({names})\"?\s*[=\].]")
    rows = text.split("\n")
    header = (n for n, row in enumerate(rows) if row.strip() == "[tool.untildone]")
    ours = next((n for n in header if _is_whole(rows[:n])), 0)
    found = (n for n, row in enumerate(rows[ours:], ours) if pattern.match(row))
    return next((n for n in found if _is_whole(rows[:n])), 0) + 1


def _is_whole(rows: list[str]) -> bool:
    """Whether something new begins after these lines: no text or list is open there."""
    import tomllib  # noqa: PLC0415 - costs start-up time

    try:
        tomllib.loads("\n".join(rows))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _wrong(where: str, what: str, hint: str = INIT_HINT) -> UserError:
    return UserError(f"{WRONG_IN}{where}: {what}", state="Nothing was changed.", hint=hint)
