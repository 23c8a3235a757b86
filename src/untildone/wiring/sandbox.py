"""Whether the agents of a run get a sandbox, and which."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.git.place import Place
from untildone.adapters.process.process import Processes
from untildone.adapters.sandbox import Sandbox, sandbox_for, trouble
from untildone.domain.errors import UserError
from untildone.domain.run.plan import Plan

INSTALL = "`apt-get install bubblewrap` (or `dnf`, `pacman -S`, `apk add`) installs it"


def settled(plan: Plan, processes: Processes, top: Path) -> tuple[Plan, tuple[str, ...]]:
    """The plan with the answer whether there is a sandbox, and what is worth telling about it."""
    if plan.sandbox == "off":
        return replace(plan, contained=False), ()
    for path in _named(plan, top):
        if not os.path.exists(path):  # noqa: PTH110 - text, as bubblewrap wants it
            raise UserError(
                f"A path of `sandbox_writable` does not exist: {path}",
                state="Nothing was changed.",
                hint="Make it, or take it out of untildone.toml or the command line.",
            )
    why = trouble(processes, top)
    if why and plan.sandbox == "bwrap":
        raise UserError(
            f"There is no sandbox: {why}",
            state="Nothing was changed.",
            hint=f"{INSTALL}; `--sandbox off` runs without, `untildone doctor` says more",
        )
    remarks = (f"The agent runs without a sandbox: {why}; {INSTALL}",) if why else ()
    return replace(plan, contained=not why), remarks


def sandbox_of(
    plan: Plan, place: Place, more: Sequence[Path] = (), closed: Path | None = None
) -> Sandbox | None:
    """The sandbox of a run whose plan has one; of a `closed` folder it holds what is its own."""
    if not plan.contained:
        return None
    named = [*_named(plan, place.top), *map(str, more)]
    shut = str(closed or "")
    return sandbox_for(place, os.environ, named, network=plan.sandbox_network, closed=shut)


def _named(plan: Plan, top: Path) -> list[str]:
    return [str(top / Path(path).expanduser()) for path in plan.sandbox_writable]
