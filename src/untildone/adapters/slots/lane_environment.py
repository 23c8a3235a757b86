"""What tells a lane's programs apart: ports, temporary files, the name of their containers.

And whether the machine has room for one more lane.
"""

import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from untildone.adapters.git.object_files import content
from untildone.adapters.git.repository import slug
from untildone.adapters.slots.slot import Slot
from untildone.domain.errors import StepError
from untildone.domain.run.lanes import LANE_MEMORY

PORTS = 20
# Below the ports that the system gives away by itself.
FIRST_PORT, LAST_PORT = 20_000, 32_000


def environment(slot: Slot, ports: int) -> dict[str, str]:
    """The variables of a lane; its ports are `PORT` and the 19 after it."""
    project = slug(f"{slot.folder.parent.name}-lane-{slot.lane}", 60)
    return {
        "UNTILDONE_LANE": str(slot.lane),
        "UNTILDONE_PORTS": f"{ports}-{ports + PORTS - 1}",
        "PORT": str(ports),
        "COMPOSE_PROJECT_NAME": project,
        "TMPDIR": str(slot.temporary),
    }


def free_ports(earlier: int, taken: Iterable[int]) -> int:
    """The first of a block of free ports: the one that the lane had, or one that no slot has.

    `taken` are the blocks of all other slots on this machine, at work or not.
    """
    others = set(taken)
    blocks = range(FIRST_PORT, LAST_PORT, PORTS)
    for first in (earlier, *blocks) if earlier in blocks else blocks:
        if first not in others and all(map(_is_free, range(first, first + PORTS))):
            return first
    raise StepError(
        f"No {PORTS} ports in a row are free between {FIRST_PORT} and {LAST_PORT}",
        hint="`untildone slots` lists the slots that hold ports.",
    )


def _is_free(port: int) -> bool:
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0")):  # noqa: S104 - tried, not served
        with socket.socket(family) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((address, port))
            except OSError:
                return False
    return True


def free_memory(system: Path = Path("/")) -> int | None:
    """Bytes that programs may still have, within the limit of a container; None if unknown."""
    rows = (line.split() for line in content(system / "proc/meminfo").splitlines())
    known = {row[0]: int(row[1]) * 1024 for row in rows if len(row) > 1 and row[1].isdigit()}
    free = known.get(b"MemAvailable:")
    for limit, used in _limits(system):
        if limit.isdigit() and used.isdigit():
            left = int(limit) - int(used)
            free = left if free is None else min(free, left)
    return None if free is None else max(free, 0)


def _limits(system: Path) -> Iterable[tuple[bytes, bytes]]:
    """Limit and use of the control group that we are in, new kind and old."""
    group = system / "sys/fs/cgroup"
    yield content(group / "memory.max").strip(), content(group / "memory.current").strip()
    old = group / "memory"
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    yield content(old / names[0]).strip(), content(old / names[1]).strip()


def has_room(free: int | None) -> bool:
    """Whether one more lane may start; where nobody can tell, it may."""
    return free is None or free >= LANE_MEMORY


def source_variables(top: Path, slot: Slot) -> Mapping[str, str]:
    """Where the user's files and the lane's are, by the names that other tools' set-ups know."""
    sources = ("ROOT_WORKTREE_PATH", "CODEX_SOURCE_TREE_PATH", "CONDUCTOR_ROOT_PATH")
    targets = ("CODEX_WORKTREE_PATH", "CONDUCTOR_WORKSPACE_PATH", "PASEO_WORKTREE_PATH")
    found = dict.fromkeys((*sources, "PASEO_SOURCE_CHECKOUT_PATH"), str(top))
    return found | dict.fromkeys(targets, str(slot.top))
