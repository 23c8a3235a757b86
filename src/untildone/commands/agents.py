"""The agents of this machine: what is installed, in which version, with a login or without."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from untildone.adapters.agents.program import KnownProgram
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.domain.agents.agent import Ending, Intent, Permissions
from untildone.domain.errors import UserError
from untildone.domain.plain_text import plain
from untildone.settings.settings import PROGRAMS, Settings
from untildone.wiring.agents import known_program

VERSION_WAIT_S = 10


class Found(Struct, frozen=True):
    """One agent. `version` is empty if it gave none, `why` says then why not.

    `logged_in` is None where that cannot be told from outside. `call` and `environment` are how it
    will be called; empty if the wanted permissions cannot be had from it. `untested`: written from
    its documentation, and never run by us.
    """

    name: str
    path: str
    version: str
    why: str
    logged_in: bool | None
    login: str
    install: str
    permissions: str
    call: tuple[str, ...]
    environment: dict[str, str]
    chosen: bool
    untested: bool = False


def agents(settings: Settings, folder: Path) -> Iterator[Found]:
    """Every agent that is a program, one by one as the versions come in."""
    processes = Processes(WakePipe().fd)
    for name in PROGRAMS:
        yield look(processes, known_program(name), settings, folder)


def look(processes: Processes, agent: KnownProgram, settings: Settings, folder: Path) -> Found:
    """One agent, asked for its version if it is installed."""
    spec, path = agent.spec, agent.path()
    version, why = _version(processes, path, folder) if path else ("", "not installed")
    chosen = spec.name == settings.agent
    intent = Intent(
        prompt="",
        cwd=str(folder),
        scratch="(a private folder)",
        model=settings.model if chosen else "",
        permissions=Permissions(settings.permissions),
    )
    try:
        call = agent.invocation(intent)
    except UserError:
        call = None
    return Found(
        name=spec.name,
        path=path,
        version=version,
        why=why,
        logged_in=agent.logged_in(),
        login=spec.login.how if spec.login else "",
        install=spec.install,
        permissions=settings.permissions,
        call=call.argv if call else (),
        environment=dict(call.env) if call else {},
        chosen=chosen,
        untested=spec.untested,
    )


def _version(processes: Processes, path: str, folder: Path) -> tuple[str, str]:
    asked = Command((path, "--version"), folder, timeout_s=VERSION_WAIT_S, end_descendants=True)
    answer = processes.capture(asked, lambda: False)
    said = plain(answer.stdout.decode(errors="replace")).strip().partition("\n")[0][:80]
    if answer.ok and said:
        return said, ""
    if answer.ending is Ending.TIMEOUT:
        why = f"gave no answer in {VERSION_WAIT_S} s"
    elif answer.ending is Ending.NOT_STARTED:
        why = "could not be started"
    else:
        why = "printed nothing" if answer.ok else f"exited with {answer.exit_code}"
    return "", f"`{path} --version` {why}"
