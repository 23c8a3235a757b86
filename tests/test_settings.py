"""Settings from all layers; what is wrong is named with its place."""

import json
import tomllib
from itertools import combinations
from pathlib import Path

import click
import pytest
from jsonschema import Draft202012Validator, ValidationError

from untildone.domain.errors import UserError
from untildone.domain.run.plan import Limits, Plan
from untildone.interfaces.cli.main import cli
from untildone.interfaces.cli.plan.init import configuration, json_schema
from untildone.interfaces.cli.run import resume, run
from untildone.interfaces.cli.setting_flags import given
from untildone.settings.choices import PROGRAMS
from untildone.settings.load import load, origins, user_file
from untildone.settings.settings import SETTINGS, Settings


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    return folder


def of_user(home: Path, text: str) -> dict[str, str]:
    path = home / ".config" / "untildone" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return {"HOME": str(home)}


def test_defaults(top: Path) -> None:
    assert load(top, {}, {}) == Settings()
    assert load(None, {}, {"agent": None}) == Settings()


def test_the_contracts_defaults() -> None:
    ours = Settings()
    assert (ours.source, ours.agent, ours.max_retries, ours.max_iterations) == (
        *("auto", "claude", 3, 0),
    )
    assert (ours.stall_threshold, ours.timeout, ours.idle_timeout, ours.checkpoint) == (
        *(2, 45.0, 15.0, "branch"),
    )


def test_each_layer_beats_the_one_below(top: Path, tmp_path: Path) -> None:
    names = ("model", "script", "source", "agent_cmd")
    environ = of_user(tmp_path, "".join(f'{name} = "user"\n' for name in names))
    (top / "untildone.toml").write_text("".join(f'{name} = "file"\n' for name in names[1:]))
    environ |= {"UNTILDONE_SOURCE": "env", "UNTILDONE_AGENT_CMD": "env"}
    ours = load(top, environ, {"agent_cmd": "flag"})
    assert tuple(getattr(ours, name) for name in names) == ("user", "file", "env", "flag")


def test_types_and_spellings(top: Path) -> None:
    (top / "untildone.toml").write_text(
        'max-retries = 0\ntimeout = 2\nverify = ["a", "b"]\non_complete = "keep"\n'
    )
    environ = {"UNTILDONE_IDLE_TIMEOUT": "0.5", "UNTILDONE_MAX_ITERATIONS": "7", "OTHER": "x"}
    assert load(top, environ, {"stall_threshold": 5}) == Settings(
        max_retries=0,
        timeout=2.0,
        verify=("a", "b"),
        on_complete="keep",
        idle_timeout=0.5,
        max_iterations=7,
        stall_threshold=5,
    )
    assert load(top, {"UNTILDONE_VERIFY": "make"}, {}).verify == ("make",)
    assert load(top, {}, {"verify": ("x",)}).verify == ("x",)
    for word, meant in (("false", False), ("0", False), ("True", True), ("yes", True)):
        assert load(top, {"UNTILDONE_SANDBOX_NETWORK": word}, {}).sandbox_network is meant


def test_a_ladder_and_an_agent_of_different_layers(top: Path) -> None:
    (top / "untildone.toml").write_text('agents = ["claude:haiku", "codex"]\n')
    ours = load(top, {}, {})
    assert (ours.agent, ours.agents) == ("claude", ("claude:haiku", "codex"))
    for flags in ({"agent": "codex"}, {"agent_cmd": "x"}):
        assert load(top, {}, flags).agents == ()
    higher = load(top, {"UNTILDONE_AGENT": "goose"}, {"agents": ("pi, aider:x", "claude")})
    assert (higher.agent, higher.agents) == ("pi", ("pi", "aider:x", "claude"))
    assert load(top, {}, {"agent": "claude", "agents": ("claude:x",)}).agents == ("claude:x",)
    with pytest.raises(UserError, match="`agent` is not the first of `agents`, which is claude"):
        load(top, {}, {"agent": "codex", "agents": ("claude:x",)})
    with pytest.raises(UserError, match="no agent called 'clade'; did you mean `claude`"):
        load(top, {}, {"agents": ("clade",)})


LAYERS = ("user", "file", "environment", "flags")


def of_layers(home: Path, top: Path, **layers: tuple[str, str]) -> Settings:
    """The settings where some layers say one thing each."""
    environ, flags = {"HOME": str(home)}, {}
    for name, (key, value) in layers.items():
        if name == "user":
            of_user(home, f'{key} = "{value}"\n')
        elif name == "file":
            (top / "untildone.toml").write_text(f'{key} = "{value}"\n')
        elif name == "environment":
            environ[f"UNTILDONE_{key.upper()}"] = value
        else:
            flags[key] = value
    return load(top, environ, flags)


@pytest.mark.parametrize(("weaker", "stronger"), list(combinations(LAYERS, 2)))
def test_an_agent_and_a_command_of_different_layers(
    weaker: str, stronger: str, top: Path, tmp_path: Path
) -> None:
    told = {weaker: ("agent_cmd", "x"), stronger: ("agent", "codex")}
    assert of_layers(tmp_path / "a", top, **told).agent == "codex"
    told = {weaker: ("agent", "codex"), stronger: ("agent_cmd", "x")}
    ours = of_layers(tmp_path / "b", top, **told)
    assert (ours.agent, ours.agent_cmd) == ("command", "x")


def test_a_command_beside_an_agent_in_one_layer_is_the_agent(top: Path) -> None:
    assert load(top, {}, {"agent": "codex", "agent_cmd": "x"}).agent == "command"
    (top / "untildone.toml").write_text('agent = "codex"\nagent_cmd = "x"\n')
    assert load(top, {}, {}).agent == "command"
    ours = load(top, {}, {"agents": ("codex", "command")})
    assert (ours.agent, ours.agent_cmd) == ("codex", "x")  # the ladder ends at that command


def test_table_in_pyproject(top: Path) -> None:
    (top / "pyproject.toml").write_text('[tool.untildone]\nagent = "scripted"\n')
    assert load(top, {}, {}).agent == "scripted"
    (top / "untildone.toml").write_text("")
    assert load(top, {}, {}).agent == "claude"
    (top / "untildone.toml").unlink()
    (top / "pyproject.toml").write_text("[tool.other]\n")
    assert load(top, {}, {}) == Settings()


PYPROJECT = {
    "tool is no table": ("tool = 1\n", ": `tool` must be a table, not 1"),
    "untildone is no table": (
        "[tool]\nuntildone = 3\n",
        ": `untildone` must be a table, not 3",
    ),
    "the same key in another table": (
        "[tool.pytest]\ntimeout = 120\n[tool.untildone]\ntimeout = 'x'\n",
        ":4: `timeout` must be a duration such as 30m or 1h30m (a number: minutes), not 'x'",
    ),
    "our table in a text": (
        "[tool.other]\nx = '''\n[tool.untildone]\ntimeout = 1\n'''\n"
        "[tool.untildone]\ntimeout = 'x'\n",
        ":7: `timeout` must be a duration such as 30m or 1h30m (a number: minutes), not 'x'",
    ),
}


@pytest.mark.parametrize("name", PYPROJECT)
def test_what_is_wrong_in_pyproject_is_named(name: str, top: Path) -> None:
    text, message = PYPROJECT[name]
    path = top / "pyproject.toml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load(top, {}, {})
    assert caught.value.message == f"Wrong configuration in {path}{message}"


@pytest.mark.parametrize("value", ["inf", "nan", "-inf", "1e999"])
@pytest.mark.parametrize("key", ["timeout", "idle_timeout"])
def test_a_time_out_has_an_end(key: str, value: str, top: Path) -> None:
    with pytest.raises(UserError, match=f"`{key}` must be more than 0, not "):
        load(top, {f"UNTILDONE_{key.upper()}": value}, {})


def test_a_huge_time_out_is_allowed(top: Path) -> None:
    assert load(top, {"UNTILDONE_TIMEOUT": "1e300"}, {}) == Settings(timeout=1e300)


def test_variables_of_the_loop_itself_are_no_settings(top: Path) -> None:
    environ = {"UNTILDONE_RUN_ID": "r1", "UNTILDONE_STORY_ID": "1", "UNTILDONE_ATTEMPT": "2"}
    assert load(top, environ | {"UNTILDONE_STATE_FILE": "x"}, {}) == Settings()


FILES: dict[str, tuple[str, str]] = {
    "unknown": ("\nmax_retrys = 3\n", ":2: unknown key `max_retrys`; did you mean `max_retries`?"),
    "the key in a text": (
        'model = """\nmax_retry = 2\n"""\nmax_retry = 3\n',
        ":4: unknown key `max_retry`; did you mean `max_retries`?",
    ),
    "the key in a list": (
        "verify = [\n'a', '\\f', \"\"\"\ntimeout = 1\"\"\",\n]\ntimeout = 'x'\n",
        ":5: `timeout` must be a duration such as 30m or 1h30m (a number: minutes), not 'x'",
    ),
    "far": ("zzz = 1\n", ":1: unknown key `zzz`"),
    "a table": ("# x\n[models]\nx = 1\n", ":2: unknown key `models`; did you mean `model`?"),
    "text": ("model = 3\n", ":1: `model` must be a text, not 3"),
    "number": ('\n\nrepeat_limit = "3"\n', ":3: `repeat_limit` must be a whole number, not '3'"),
    "size": ("max_file_mb = 'big'\n", ":1: `max_file_mb` must be a size such as 200M or 1G "),
    "days": ("keep_days = '36h'\n", ":1: `keep_days` must be whole days such as 30 or 4 weeks"),
    "whole": ("max-retries = 1.5\n", ":1: `max_retries` must be a whole number, not 1.5"),
    "bool": ("max_retries = true\n", ":1: `max_retries` must be a whole number, not True"),
    "bool as number": ("timeout = true\n", ":1: `timeout` must be a duration such as "),
    "list": ("verify = [1]\n", ":1: `verify` must be a text or a list of texts"),
    "no list": ("verify = 1\n", ":1: `verify` must be a text or a list of texts"),
    "small": ("stall_threshold = 0\n", ":1: `stall_threshold` must be at least 1, not 0"),
    "large": ("lanes = 17\n", ":1: `lanes` must be at most 16, not 17"),
    "lanes": ("lanes = 'many'\n", ":1: `lanes` must be a whole number from 1 to 16, or auto"),
    "no lane": ("lanes = '0'\n", ":1: `lanes` must be a whole number from 1 to 16, or auto"),
    "word": (
        'agent = "claud"\n',
        f":1: `agent` must be one of {', '.join(PROGRAMS)}, command, scripted, not 'claud'; "
        "did you mean `claude`?",
    ),
    "done": ('done = "x"\n', ":1: `done` must be one of tasks, manual, promise, not 'x'"),
    "no file": ("[regenerate]\n'' = 'x'\n", ":1: `regenerate` must be GLOB=CMD, not '=x'"),
    "broken": ('agent = "x"\n= 3\n', ":2: this is not valid TOML: Invalid statement"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_wrong_in_a_file_is_named(name: str, top: Path) -> None:
    text, message = FILES[name]
    path = top / "untildone.toml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load(top, {}, {})
    assert caught.value.message.startswith(f"Wrong configuration in {path}{message}")
    command = "untildone agents" if name == "word" else "untildone init"
    assert (caught.value.state, command in caught.value.hint) == ("Nothing was changed.", True)


BLANK = {
    "agent_cmd": ("", " \n"),
    "verify": ("", " ", "warn: ", "off:"),
    "story_verify": ("2=", "2= warn:", "pytest"),
    "regenerate": ("*.lock=", "npm ci"),
}


@pytest.mark.parametrize(
    ("key", "text"), [(k, text) for k, texts in BLANK.items() for text in texts]
)
def test_a_command_that_is_none_is_refused_in_every_layer(key: str, text: str, top: Path) -> None:
    with pytest.raises(UserError, match=f"in --{key.replace('_', '-')}: `{key}` has no command: "):
        load(top, {}, {key: text if key == "agent_cmd" else ("x=true", text)})
    name = f"UNTILDONE_{key.upper()}"
    with pytest.raises(UserError, match=f"variable {name}: `{key}` has no command: "):
        load(top, {name: text}, {})
    (top / "untildone.toml").write_text(f"\n{key} = {json.dumps(text)}\n")
    if (key, text) == ("agent_cmd", ""):
        assert load(top, {}, {}) == Settings()  # as `init` writes it
        return
    with pytest.raises(UserError, match=f"untildone.toml:2: `{key}` has no command: "):
        load(top, {}, {})


def test_bytes_that_are_no_text(top: Path) -> None:
    (top / "untildone.toml").write_bytes(b"\xff")
    with pytest.raises(UserError, match="the file cannot be read"):
        load(top, {}, {})


ENVIRONMENT = {
    "UNTILDONE_AGNT": ("x", "unknown key `agnt`; did you mean `agent`?"),
    "UNTILDONE_MAX_RETRIES": ("many", "`max_retries` must be a whole number"),
    "UNTILDONE_TIMEOUT": ("-1", "`timeout` must be more than 0"),
    "UNTILDONE_SANDBOX_NETWORK": ("maybe", "`sandbox_network` must be true or false"),
    "UNTILDONE_SANDBOX": ("docker", "`sandbox` must be one of auto, bwrap, off"),
    "UNTILDONE_DONE": ("later", "`done` must be one of"),
}


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_what_is_wrong_in_the_environment_is_named(name: str, top: Path) -> None:
    value, message = ENVIRONMENT[name]
    with pytest.raises(UserError) as caught:
        load(top, {name: value}, {})
    assert f"environment variable {name}: {message}" in caught.value.message


def test_what_is_wrong_in_a_flag_is_named(top: Path) -> None:
    with pytest.raises(UserError, match="in --stall-threshold: `stall_threshold` must be at least"):
        load(top, {}, {"stall_threshold": 0})


def test_the_users_file() -> None:
    assert user_file({"HOME": "/h"}) == Path("/h/.config/untildone/config.toml")
    assert user_file({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}) == Path("/x/untildone/config.toml")


def test_checks_of_stories_as_a_table(top: Path) -> None:
    (top / "untildone.toml").write_text('[story_verify]\n2 = "a"\n"3.1" = ["b = c", "d"]\n')
    assert load(top, {}, {}).story_verify == ("2=a", "3.1=b = c", "3.1=d")
    (top / "untildone.toml").write_text("[story_verify]\n2 = 1\n")
    with pytest.raises(UserError, match="`story_verify` must be a text or a list of texts"):
        load(top, {}, {})


def test_budgets_of_all_layers_add_up(top: Path, tmp_path: Path) -> None:
    environ = of_user(tmp_path, 'budget = "cost=10"\n') | {"UNTILDONE_BUDGET": "time=8h"}
    (top / "untildone.toml").write_text('budget = ["tokens=2M", "cost=5"]\n')
    assert load(top, environ, {"budget": ("tokens=3M",)}).budget == (
        *("cost=10", "tokens=2M", "cost=5", "time=8h", "tokens=3M"),
    )
    assert load(top, environ, {}).budget[-1] == "time=8h"


def test_a_wrong_budget_is_named_with_its_place(top: Path) -> None:
    (top / "untildone.toml").write_text('\nbudget = ["tokens=2M", "costs=5"]\n')
    with pytest.raises(UserError, match=r"untildone.toml:2: .* did you mean `cost=5`") as wrong:
        load(top, {}, {})
    assert "--budget tokens=2M" in wrong.value.hint


# One place per setting: everything below is asked of every setting that there is.

SPECIAL: dict[str, object] = {
    "agent": "codex",
    "agent_options": ("codex.args=--x", "pi.env.A=b=c"),
    "agents": ("codex:x", "pi"),
    "budget": ("cost=5",),
    "trouble_budget": ("calls=7",),
    "learnings": "off",
    "regenerate": ("*.lock=make lock",),
    "notify": ("terminal", "cmd:true"),
    "notify_on": ("done", "stuck"),
    "source_file": "/somewhere/else.md",
    "story_verify": ("2=make",),
}


def another(key: str) -> object:
    """A value that is not the default."""
    setting = SETTINGS[key]
    if key in SPECIAL:
        return SPECIAL[key]
    match setting.default:
        case bool():
            return not setting.default
        case int() | float():
            return setting.default + 1
        case tuple():
            return ("x", "y")
        case _:
            return next((w for w in setting.words if w != setting.default), "x")


def typed(key: str, value: object) -> list[str]:
    """The value on a command line."""
    yes, _, no = SETTINGS[key].flags.partition("/")
    if isinstance(value, bool):
        return [yes if value else no]
    values = value if isinstance(value, tuple) else (value,)
    return [word for one in values for word in (yes, str(one))]


def flags_of(command: click.Command, words: list[str]) -> dict[str, object]:
    """What a command line says, without running it."""
    # With the parent of real life: click keeps the help option that it makes here for ever.
    parent = click.Context(cli, **cli.context_settings)
    return given(command.make_context("x", words, parent=parent).params)


def written(key: str, value: object) -> str:
    """The value as a line of the file."""
    return f"{key} = {json.dumps(value)}\n"


@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_is_the_same_in_file_variable_and_flag(key: str, top: Path) -> None:
    value = another(key)
    in_file = "stories.md" if key == "source_file" else value
    (top / "untildone.toml").write_text(written(key, in_file))
    assert getattr(load(top, {}, {}), key) == in_file
    (top / "untildone.toml").unlink()
    if not isinstance(value, tuple):
        assert getattr(load(top, {SETTINGS[key].variable: str(value)}, {}), key) == value
    for command in (run, resume):
        if SETTINGS[key].flags:
            flags = flags_of(command, typed(key, value))
            told = str(value) if SETTINGS[key].amount else value
            assert {k: v for k, v in flags.items() if v is not None} == {key: told}
            assert getattr(load(top, {}, flags), key) == value


def test_no_flag_is_typed_by_itself() -> None:
    flags = flags_of(run, [])
    assert flags == {key: None for key, setting in SETTINGS.items() if setting.flags}


def test_flags_that_stand_for_a_word() -> None:
    flags = flags_of(run, ["--no-learnings", "--allow-empty-story"])
    assert (flags["learnings"], flags["allow_empty_story"]) == ("off", ("*",))


def test_a_setting_goes_to_a_field_of_the_plan() -> None:
    told = list(SETTINGS.values())
    assert {s.plan for s in told if s.plan} <= set(Plan.__struct_fields__)
    assert {s.limit for s in told if s.limit} == set(Limits.__struct_fields__) - {"max_iterations"}


def valid(text: str) -> bool:
    try:
        Draft202012Validator(json_schema()).validate(tomllib.loads(text))
    except ValidationError:
        return False
    return True


def test_the_schema_is_one_and_the_files_of_init_fit_it() -> None:
    Draft202012Validator.check_schema(json_schema())
    text = configuration()
    assert valid(text)
    assert valid("".join(line.removeprefix("#") for line in text.splitlines(keepends=True)))


@pytest.mark.parametrize("key", SETTINGS)
def test_the_schema_takes_what_is_loaded_and_no_wrong_type(key: str, top: Path) -> None:
    other = 1.5 if isinstance(SETTINGS[key].default, str | tuple | int) else True
    for spelled in {key, key.replace("_", "-")}:
        assert valid(written(spelled, another(key)))
        wrong = written(spelled, other)
        assert not valid(wrong)
        (top / "untildone.toml").write_text(wrong)
        with pytest.raises(UserError):
            load(top, {}, {})


@pytest.mark.parametrize(
    "text",
    [
        *("max_retrys = 1", "timeout = 0", "max_retries = -1", 'agent = "claud"', "verify = [1]"),
        *("archive = 1", "max_retries = true", "[story_verify]\n2 = 1", "[verify]\n2 = 'x'"),
    ],
)
def test_the_schema_refuses_what_is_refused(text: str, top: Path) -> None:
    assert not valid(text)
    (top / "untildone.toml").write_text(text)
    with pytest.raises(UserError):
        load(top, {}, {})


def test_the_schema_takes_a_table_of_checks() -> None:
    assert valid('[story_verify]\n2 = "a"\n"3.1" = ["b = c", "d"]\n')


AMOUNTS = {
    ("timeout", "30m"): 30.0,
    ("timeout", "1h30m"): 90.0,
    ("timeout", "1h30"): 90.0,
    ("idle_timeout", "90 seconds"): 1.5,
    ("verify_timeout", "2 Hours"): 120.0,
    ("timeout", "12"): 12.0,
    ("max_file_mb", "1G"): 1024.0,
    ("max_file_mb", "512 KiB"): 0.5,
    ("max_file_mb", "200MB"): 200.0,
    ("keep_days", "2 weeks"): 14,
    ("keep_days", "30d"): 30,
    ("lanes", "4"): 4,
    ("lanes", "auto"): 0,
}


@pytest.mark.parametrize(("key", "text"), AMOUNTS)
def test_amounts_are_taken_as_people_write_them(key: str, text: str, top: Path) -> None:
    meant = AMOUNTS[key, text]
    assert getattr(load(top, {SETTINGS[key].variable: text}, {}), key) == meant
    assert getattr(load(top, {}, {key: text}), key) == meant
    (top / "untildone.toml").write_text(written(key, text))
    assert getattr(load(top, {}, {}), key) == meant


@pytest.mark.parametrize("text", ["0", "0m", "-5", "soon", "", "1x"])
def test_a_duration_that_is_none_is_refused(text: str, top: Path) -> None:
    for key in ("timeout", "verify_timeout"):
        with pytest.raises(UserError, match=f"in --{key.replace('_', '-')}: `{key}` must be "):
            load(top, {}, {key: text})


def test_several_configuration_errors_are_told_at_once(top: Path, tmp_path: Path) -> None:
    environ = of_user(tmp_path, "modle = 1\n")
    (top / "untildone.toml").write_text('max_retrys = 3\nagent = "claud"\n= broken\n')
    with pytest.raises(UserError) as caught:
        load(top, environ | {"UNTILDONE_TIMEOUT": "soon"}, {"stall_threshold": 0})
    message = caught.value.message
    assert message.startswith("Wrong configuration, 4 mistakes:\n  ")
    for told in ("config.toml:1: unknown key `modle`", "untildone.toml:3: this is not valid TOML"):
        assert told in message
    (top / "untildone.toml").write_text('max_retrys = 3\nagent = "claud"\n')
    with pytest.raises(UserError) as caught:
        load(top, environ, {})
    for told in ("config.toml:1: ", "untildone.toml:1: unknown key", "untildone.toml:2: `agent`"):
        assert told in caught.value.message
    assert "untildone agents" in caught.value.hint
    assert "untildone init" in caught.value.hint


OUTSIDE = {
    "prompt_template": "../../etc/passwd",
    "script": "/etc/passwd",
    "source_file": ".git/config",
    "learnings": "~/.bashrc",
    "sandbox_writable": ["build", "/"],
}


@pytest.mark.parametrize("key", OUTSIDE)
def test_only_a_person_names_files_outside_of_the_repository(
    key: str, top: Path, tmp_path: Path
) -> None:
    value = OUTSIDE[key]
    (top / "untildone.toml").write_text(written(key, value))
    with pytest.raises(UserError, match=f"toml:1: `{key}` may only name what is inside the repo"):
        load(top, {}, {})
    (top / "untildone.toml").unlink()
    meant = tuple(value) if isinstance(value, list) else value
    assert getattr(load(top, of_user(tmp_path, written(key, value)), {}), key) == meant
    assert getattr(load(top, {}, {key: meant}), key) == meant


OPTIONS = """
[agent]
name = "codex"

[agent.codex]
args = ["-c", "a=b"]

[agent.claude]
args = "--x"
env = {A = "b=c"}
"""


def test_a_table_of_each_agent(top: Path) -> None:
    (top / "untildone.toml").write_text(OPTIONS)
    found = load(top, {}, {})
    assert found.agent == "codex"
    assert found.agent_options == (
        *("codex.args=-c", "codex.args=a=b", "claude.args=--x", "claude.env.A=b=c"),
    )
    assert valid(OPTIONS)
    (top / "untildone.toml").unlink()
    text = OPTIONS.replace("[agent", "[tool.untildone.agent")
    (top / "pyproject.toml").write_text(text)
    assert load(top, {}, {}) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[agent.claud]\nargs = []\nenv = {A = 'x'}", ":1: `agent` has no agent called 'claud'"),
        ("[agent.claude]\narg = ['x']", ":1: [agent.claude] has `args` and `env`, not 'arg'"),
        ("[agent.claude]\nargs = [1]", ":1: `args` of [agent.claude] must be texts"),
        ("[agent.claude]\nargs = 1", ":1: `args` of [agent.claude] must be texts"),
        ("[agent.claude]\nenv = {A = 1}", ":1: `env` of [agent.claude] must be texts"),
        ("[agent]\nclaude = 'x'", ":1: [agent.claude] must be a table"),
    ],
)
def test_a_wrong_table_of_an_agent_is_named(text: str, said: str, top: Path) -> None:
    assert not valid(text)
    (top / "untildone.toml").write_text(text)
    with pytest.raises(UserError) as wrong:
        load(top, {}, {})
    assert said in wrong.value.message


def test_strict_stands_for_four_settings_unless_a_layer_says_otherwise(tmp_path: Path) -> None:
    strict = load(None, {"HOME": str(tmp_path)}, {"strict": True})
    assert (strict.evidence, strict.protect_tests, strict.clean_room) == (True, True, True)
    assert strict.verify == ("auto",)
    (tmp_path / "untildone.toml").write_text("strict = true\nclean_room = false\n")
    mixed = load(tmp_path, {"HOME": str(tmp_path)}, {"evidence": False, "verify": ("make",)})
    assert (mixed.evidence, mixed.protect_tests, mixed.clean_room) == (False, True, False)
    assert mixed.verify == ("make",)
    assert not load(tmp_path, {"HOME": str(tmp_path)}, {"strict": False}).evidence


def test_where_commands_are_written(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "x")}
    (tmp_path / "x/untildone").mkdir(parents=True)
    (tmp_path / "x/untildone/config.toml").write_text('usage_cmd = "u"\nverify = "mine"\n')
    (tmp_path / "untildone.toml").write_text('\n[story_verify]\n2 = "a"\n')
    user = str(tmp_path / "x/untildone/config.toml")
    assert origins(tmp_path, home, {}) == {
        "usage_cmd": f"{user}:1",
        "verify": f"{user}:2",
        "story_verify": "untildone.toml:2",
    }
    assert origins(tmp_path, {**home, "UNTILDONE_VERIFY": "x"}, {})["verify"] == "UNTILDONE_VERIFY"
    assert origins(tmp_path, home, {"verify": ("x",), "agent_cmd": None})["verify"] == "--verify"
    (tmp_path / "untildone.toml").write_text("strict = true\n")
    assert origins(tmp_path, {"HOME": str(tmp_path)}, {})["verify"] == "untildone.toml:1"
