"""An agent program described as data: its command line, its environment, its reader."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field

from untildone.domain.agents.agent import Intent, Invocation, Permissions
from untildone.domain.errors import AgentMissing, UserError
from untildone.domain.regex import regex
from untildone.plain_files import opened
from untildone.ports import OutputReader

SETTINGS_BYTES = 256 * 1024

# Why an argument of the person's own is refused.
OUTPUT = "the loop relies on the output as it asks for it"
PROMPT = "the prompt comes from the loop"
GRANTS = "`--permissions` says what the agent may do"
MODEL = "`--model` names the model"
SESSION = "the loop says which conversation goes on"
PLACE = "the loop says where the agent works"
ENDS = "it would do no work"
_HUMP = regex(r"(?<=[a-z0-9])[A-Z]")
# Variables that are the loop's own, or send git elsewhere.
LOOPS_OWN = ("UNTILDONE_", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")


class HomePath(Struct, frozen=True):
    """A file or folder of the program; `variable` moves it, or with `below` its parent."""

    default: str
    variable: str = ""
    below: str = ""

    def path(self) -> str:
        moved = os.environ.get(self.variable) if self.variable else ""
        return str(Path(moved, self.below)) if moved else self.default


class Grant(Struct, frozen=True):
    """What makes the program work without asking, on its command line or in its environment.

    `holds` says in a sentence what the program then really keeps its model from.
    """

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    holds: str = ""


class Login(Struct, frozen=True):
    """How to log in, and what shows that somebody has: a variable that is set, a file.

    `settings` are files of the program's own settings, each with a word that stands in it where a
    provider of one's own is set up.
    """

    how: str
    variables: tuple[str, ...] = ()
    files: tuple[HomePath, ...] = ()
    settings: tuple[tuple[HomePath, str], ...] = ()


class AgentSpec(Struct, frozen=True):
    """How one program is called; the words of its command line are in the order of the fields.

    The value follows the words of `model` and `resume`; a program without the latter cannot
    continue a conversation. `root_env` is for the child of root only. `unset` are the variables
    that tell an agent that it runs inside another one. `writable` stays writable in a sandbox.
    `adapt` does what cannot be said as data. `leftover_files` are patterns of files that it leaves
    in the worktree and nobody wants in a commit. `tells_cost`: its output says what a call cost.
    `tells_tokens`: its output or its records say what a call used. `untested`: nobody has run it.

    Arguments of the person's own may not repeat an option of this command line, but those in
    `repeatable`, nor be one of `reserved`, each with the reason; those in `widening` only where
    less than everything is permitted. An entry with a blank means the beginning of an option's
    value: `-c sandbox_`. `abbreviates`: it takes the beginning of an option for the option.
    """

    name: str
    install: str
    reader: Callable[[Intent], OutputReader]
    args: tuple[str, ...]
    grants: Mapping[Permissions, Grant]
    model: tuple[str, ...] = ("--model",)
    resume: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    root_env: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    writable: tuple[HomePath, ...] = ()
    adapt: Callable[[Intent, Invocation], Invocation] | None = None
    login: Login | None = None
    leftover_files: tuple[str, ...] = ()
    prints_before_model: bool = True
    tells_cost: bool = False
    tells_tokens: bool = True
    untested: bool = False
    repeatable: tuple[str, ...] = ()
    reserved: Mapping[str, str] = field(default_factory=dict)
    widening: tuple[str, ...] = ()
    abbreviates: bool = False

    def holds(self, permissions: Permissions) -> str:
        """What these permissions really keep the agent from; empty if nothing is to be said."""
        grant = self.grants.get(permissions)
        return grant.holds if grant else ""


class KnownProgram:
    """A program with an AgentSpec; it reads the whole prompt from its standard input."""

    def __init__(
        self,
        spec: AgentSpec,
        program: str = "",
        extra_args: tuple[str, ...] = (),
        extra_env: Mapping[str, str] | None = None,
    ) -> None:
        self._spec = spec
        self._program = program or spec.name
        self._extra_args = extra_args
        self._extra_env = extra_env or {}

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def prints_before_model(self) -> bool:
        return self._spec.prints_before_model

    @property
    def spec(self) -> AgentSpec:
        return self._spec

    def path(self) -> str:
        """Where the program is; empty if it is not installed."""
        return shutil.which(self._program) or ""

    def logged_in(self) -> bool | None:
        """Whether a key or a login was found; None if that cannot be told from outside."""
        login = self._spec.login
        if login is None:
            return None
        if any(os.environ.get(name) for name in login.variables):
            return True
        if any(Path(file.path()).expanduser().exists() for file in login.files):
            return True
        if any(_mentions(file, word) for file, word in login.settings):
            return True
        # The macOS keychain may hold a login, and we must not look into it.
        return None if sys.platform == "darwin" else False

    def check(self) -> None:
        """Raise AgentMissing if the program cannot be started."""
        if shutil.which(self._program) is None:
            raise AgentMissing(
                f"The agent's program was not found: {self._program}",
                hint=f"Install it with `{self._spec.install}`, "
                "or name any other program with `--agent-cmd`.",
            )

    def invocation(self, intent: Intent) -> Invocation:
        spec = self._spec
        grant = self._grant(intent.permissions)
        self._refuse_reserved(grant, intent.permissions)
        model = (*spec.model, intent.model) if spec.model and intent.model else ()
        resume = (*spec.resume, intent.resume.id) if spec.resume and intent.resume else ()
        call = Invocation(
            argv=(
                self._program,
                *spec.args,
                *grant.args,
                *model,
                *self._extra_args,
                *resume,
                *spec.last,
            ),
            stdin=intent.prompt.encode("utf-8", "replace"),
            env={
                **self._extra_env,
                **spec.env,
                **grant.env,
                **(spec.root_env if _is_root() else {}),
            },
            unset=spec.unset,
            writable=tuple(path.path() for path in spec.writable),
        )
        return spec.adapt(intent, call) if spec.adapt else call

    def reader(self, intent: Intent) -> OutputReader:
        return self._spec.reader(intent)

    def _grant(self, permissions: Permissions) -> Grant:
        grant = self._spec.grants.get(permissions)
        if grant is None:
            raise UserError(
                f"The agent {self.name} cannot be held to `--permissions {permissions}`",
                hint=f"`untildone agents --permissions {permissions}` shows which can. Or allow "
                "it everything, with a sandbox around it: `--permissions full --sandbox auto`.",
            )
        return grant

    def _refuse_reserved(self, grant: Grant, permissions: Permissions) -> None:
        """What the person adds must not change what the loop relies on."""
        spec, given = self._spec, self._extra_args
        refuse_variables(
            spec.name, self._extra_env, (*spec.env, *grant.env, *spec.root_env, *spec.unset)
        )
        if not given:
            return
        if not given[0].startswith("-") or "--" in given:
            raise _refused(spec.name, given[0], f"it would be read as the prompt, and {PROMPT}")
        widening = spec.widening if permissions is not Permissions.FULL else ()
        reserved = _own_options(spec, grant) | dict(spec.reserved) | dict.fromkeys(widening, GRANTS)
        for word, value in zip(given, (*given[1:], ""), strict=True):
            for own, why in reserved.items():
                shortened = spec.abbreviates and word not in spec.repeatable and _begins(own, word)
                if shortened or _is_option(own, word, value):
                    raise _refused(spec.name, word, why)


def refuse_variables(name: str, given: Mapping[str, str], own: Iterable[str]) -> None:
    """Variables that the loop sets or takes away itself are not for the configuration."""
    for variable in given:
        if variable in own or variable.startswith(LOOPS_OWN):
            raise UserError(
                f"The variable `{variable}` cannot be set for {name}: the loop decides about it",
                state="Nothing was changed.",
                hint=f"Take it out of `env` of [agent.{name}].",
            )


def _own_options(spec: AgentSpec, grant: Grant) -> dict[str, str]:
    """The options that the loop gives by itself, and those that would take them back."""
    granted = [word for grant in spec.grants.values() for word in grant.args]
    parts = (
        *((spec.args, OUTPUT), (spec.last, OUTPUT), (granted, GRANTS)),
        *((spec.model, MODEL), (spec.resume, SESSION)),
    )
    found = {
        word: why
        for words, why in parts
        for word in words
        if word.startswith("-") and word.strip("-") and word not in spec.repeatable
    }
    given = [word for word in (*spec.args, *grant.args) if word in found and word.startswith("--")]
    return {_opposite(word): found[word] for word in given} | found


def _opposite(option: str) -> str:
    name = option.removeprefix("--no-")
    return f"--{name}" if name != option else f"--no-{option[2:]}"


def _is_option(own: str, word: str, value: str) -> bool:
    """Whether a word of a command line is this option, also with its value in the same word."""
    option, _, begins = own.partition(" ")
    if begins:
        return (word == option and value.startswith(begins)) or word.startswith(
            (f"{option}={begins}", f"{option}{begins}")
        )
    if not word.startswith("--"):
        return word.startswith(option) if len(option) == len("-x") else word == option
    # Several parsers take `--outputFormat` for `--output-format`.
    given = word.partition("=")[0]
    return option in (given, _HUMP.sub(lambda hump: f"-{hump[0].lower()}", given))


def _begins(own: str, word: str) -> bool:
    given = word.partition("=")[0]
    return given.startswith("--") and own.startswith(given)


def _refused(name: str, word: str, why: str) -> UserError:
    return UserError(
        f"The argument `{word}` cannot be given to {name}: {why}",
        state="Nothing was changed.",
        hint=f"Take it out of `args` of [agent.{name}], or of `--agent-arg`.",
    )


def _mentions(file: HomePath, word: str) -> bool:
    try:
        with opened(Path(file.path()).expanduser()) as settings:
            return word.encode() in settings.read(SETTINGS_BYTES)
    except OSError:
        return False


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
