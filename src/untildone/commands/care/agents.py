"""The agents of this machine: what is installed, in which version, with a login or without."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from untildone.adapters.agents.program import KnownProgram
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.domain.agents.agent import Ending, Intent, Permissions
from untildone.domain.errors import UserError
from untildone.domain.plain_text import plain
from untildone.domain.secrets import shown
from untildone.settings.choices import PROGRAMS
from untildone.settings.settings import Settings
from untildone.wiring.agents import agent_options_of, known_program

if TYPE_CHECKING:
    from concurrent.futures import Future

# All are asked at once, and several are slow to start on a machine with few cores.
VERSION_WAIT_S = 30
MOMENT_S = 1.0


class Found(Struct, frozen=True):
    """One agent. `version` is empty if it gave none, `why` says then why not.

    `logged_in` is None where that cannot be told from outside. `call` and `environment` are how it
    will be called; empty if it cannot be, and `refused` says why. `holds` is what the permissions
    really keep it from. `untested`: written from its documentation, and never run by us.
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
    holds: str = ""
    refused: str = ""


def agents(
    settings: Settings,
    folder: Path,
    names: Sequence[str] = PROGRAMS,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[Found]:
    """These agents in this order; they are all asked for their versions at once.

    `tell` hears whom we wait for when it takes longer than a moment.
    """
    from concurrent.futures import ThreadPoolExecutor, wait

    wake, given_up = WakePipe(), False
    processes, options = Processes(wake.fd), agent_options_of(settings)

    def ask(name: str) -> Found:
        agent = known_program(name, options)
        return look(processes, agent, settings, folder, lambda: given_up)

    with ThreadPoolExecutor(max(1, len(names))) as pool:
        asked = {pool.submit(ask, name): name for name in names}
        waiting: set[Future[Found]] = set(asked)
        told = ""
        try:
            for future in asked:
                while not future.done():
                    waiting = wait(waiting, MOMENT_S).not_done
                    left = ", ".join(name for one, name in asked.items() if one in waiting)
                    if not future.done() and left != told:
                        told = left
                        tell(f"Waiting for the versions of: {left}")
                yield future.result()
        finally:
            given_up = True
            wake.set()


def look(
    processes: Processes,
    agent: KnownProgram,
    settings: Settings,
    folder: Path,
    given_up: Callable[[], bool],
) -> Found:
    """One agent, asked for its version if it is installed."""
    spec, path = agent.spec, agent.path()
    version, why = _version(processes, path, folder, given_up) if path else ("", "not installed")
    chosen = spec.name == settings.agent
    intent = Intent(
        prompt="",
        cwd=str(folder),
        scratch="(a private folder)",
        model=settings.model if chosen else "",
        permissions=Permissions(settings.permissions),
    )
    refused = ""
    try:
        call = agent.invocation(intent)
    except UserError as error:
        call, refused = None, error.message
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
        environment=shown(call.env) if call else {},
        chosen=chosen,
        untested=spec.untested,
        holds=spec.holds(Permissions(settings.permissions)) if call else "",
        refused=refused,
    )


def _version(
    processes: Processes, path: str, folder: Path, given_up: Callable[[], bool]
) -> tuple[str, str]:
    asked = Command((path, "--version"), folder, timeout_s=VERSION_WAIT_S, end_descendants=True)
    answer = processes.capture(asked, given_up)
    # pi prints its version where others print errors.
    printed = answer.stdout.strip() or answer.stderr.strip()
    said = plain(printed.decode(errors="replace")).strip().partition("\n")[0][:80]
    if answer.ok and said:
        return said, ""
    if answer.ending is Ending.TIMEOUT:
        why = f"gave no answer in {VERSION_WAIT_S} s"
    elif answer.ending is Ending.NOT_STARTED:
        why = "could not be started"
    else:
        why = "printed nothing" if answer.ok else f"exited with {answer.exit_code}"
    return "", f"`{path} --version` {why}"
