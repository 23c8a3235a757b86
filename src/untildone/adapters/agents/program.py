"""An agent program whose ways are data: its command line, its environment, its reader."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field

from untildone.domain.agents.agent import Intent, Invocation, Permissions
from untildone.domain.errors import AgentMissing, UserError
from untildone.ports import OutputReader


class Place(Struct, frozen=True):
    """A file or folder that the program writes; `variable` moves it, or with `below` its parent."""

    usual: str
    variable: str = ""
    below: str = ""

    def path(self) -> str:
        """Where it is for a child of this process."""
        moved = os.environ.get(self.variable) if self.variable else ""
        return str(Path(moved, self.below)) if moved else self.usual


class Grant(Struct, frozen=True):
    """What makes the program work without asking, on its command line or in its environment."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


class Login(Struct, frozen=True):
    """How to log in, and what shows that somebody has: a variable that is set, a file."""

    how: str
    variables: tuple[str, ...] = ()
    files: tuple[Place, ...] = ()


class Ways(Struct, frozen=True):
    """How one program wants to be called; words are put together in the order of the fields.

    The value follows the words of `model` and `resume`; a program without the latter cannot go on
    with a conversation. `root_env` is for the child of root only. `unset` are the variables that
    tell an agent that it runs inside another one. `adapt` does what cannot be said as data.
    `droppings` are patterns of files that it leaves in the worktree and nobody wants in a commit.
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
    places: tuple[Place, ...] = ()
    adapt: Callable[[Intent, Invocation], Invocation] | None = None
    login: Login | None = None
    droppings: tuple[str, ...] = ()
    greets: bool = True


class Program:
    """An agent on PATH that reads the whole prompt from its standard input."""

    def __init__(self, ways: Ways, program: str = "", extra_args: tuple[str, ...] = ()) -> None:
        self._ways = ways
        self._program = program or ways.name
        self._extra_args = extra_args

    @property
    def name(self) -> str:
        """The name that `--agent` takes."""
        return self._ways.name

    @property
    def greets(self) -> bool:
        """Whether the program prints something before it asks its model for the first time."""
        return self._ways.greets

    @property
    def ways(self) -> Ways:
        """How it wants to be called."""
        return self._ways

    def path(self) -> str:
        """Where the program is; empty if it is not installed."""
        return shutil.which(self._program) or ""

    def logged_in(self) -> bool | None:
        """Whether a key or a login was found; None if that cannot be told from outside."""
        login = self._ways.login
        if login is None:
            return None
        if any(os.environ.get(name) for name in login.variables):
            return True
        if any(Path(place.path()).expanduser().exists() for place in login.files):
            return True
        # There the key chain may have what we must not look into.
        return None if sys.platform == "darwin" else False

    def check(self) -> None:
        """Raise AgentMissing if the program cannot be started."""
        if shutil.which(self._program) is None:
            raise AgentMissing(
                f"The agent's program was not found: {self._program}",
                hint=f"Install it with `{self._ways.install}`, "
                "or name any other program with `--agent-cmd`.",
            )

    def invocation(self, intent: Intent) -> Invocation:
        """The program call for this intent."""
        ways = self._ways
        grant = self._grant(intent.permissions)
        model = (*ways.model, intent.model) if ways.model and intent.model else ()
        resume = (*ways.resume, intent.resume.id) if ways.resume and intent.resume else ()
        call = Invocation(
            argv=(
                self._program,
                *ways.args,
                *grant.args,
                *model,
                *self._extra_args,
                *resume,
                *ways.last,
            ),
            stdin=intent.prompt.encode("utf-8", "replace"),
            env={**ways.env, **grant.env, **(ways.root_env if _is_root() else {})},
            unset=ways.unset,
            writable=tuple(place.path() for place in ways.places),
        )
        return ways.adapt(intent, call) if ways.adapt else call

    def reader(self, intent: Intent) -> OutputReader:
        """A fresh reader for one call."""
        return self._ways.reader(intent)

    def _grant(self, permissions: Permissions) -> Grant:
        grant = self._ways.grants.get(permissions)
        if grant is None:
            raise UserError(
                f"The agent {self.name} cannot be held to `--permissions {permissions}`",
                hint=f"`untildone agents --permissions {permissions}` shows which can. Or allow "
                "it everything, with a sandbox around it: `--permissions full --sandbox auto`.",
            )
        return grant


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
