"""Where a worker does its stories: mirrors of repositories, and slots as lanes have them."""

import fcntl
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from untildone.adapters.checkpoints.guard import Guard
from untildone.adapters.git.git import Git
from untildone.adapters.git.mirror import Mirror
from untildone.adapters.git.place import Place
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.slots.setup import AUTO, SetUp, found_setups
from untildone.adapters.slots.slots import Slots
from untildone.domain.errors import StepError, UserError
from untildone.domain.fleet.order import ChangeOrder
from untildone.settings.load import load
from untildone.settings.settings import SETTINGS
from untildone.wiring.repository import Repository, at

# Lanes of one worker; another worker of the same host has other ones.
BLOCK = 1000
OFF = "off"


class Task(Protocol):
    """What a piece of work hears and tells."""

    wake: WakePipe
    progress: dict[str, object]

    def is_stopped(self) -> bool:
        """Whether it is to end."""

    def begun(self) -> None:
        """An agent is about to be paid."""


class Tips(Struct, frozen=True):
    """Where a change stands on its remote: its base, and its branch if there is one."""

    base_name: str
    base: str
    branch: str

    @property
    def start(self) -> str:
        """Where the next story begins."""
        return self.branch or self.base


class Host:
    """This worker's place on the machine: its folder, its name, a number that no other has."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.name = socket.gethostname()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.number, self._lock = _free_number(root)
        self._taken = set[int]()
        self._taking = threading.Lock()

    @contextmanager
    def lane(self) -> Iterator[int]:
        """A slot's number for one piece of work; the lowest is the warmest."""
        with self._taking:
            lane = next(k for k in range(BLOCK) if k not in self._taken)
            self._taken.add(lane)
        try:
            yield self.number * BLOCK + lane
        finally:
            with self._taking:
                self._taken.discard(lane)


def _free_number(root: Path) -> tuple[int, int]:
    for number in range(BLOCK):
        fd = os.open(root / f"worker-{number}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            continue
        return number, fd
    raise StepError(f"{BLOCK} workers run on this host already")


class Checkout:
    """A change in a slot of this worker."""

    def __init__(self, host: Host, lane: int, order: ChangeOrder, task: Task) -> None:
        self.order, self._task, self._lane = order, task, lane
        self.processes = Processes(task.wake.fd)
        self.mirror = Mirror(host.root, order.repository, self.processes, task.is_stopped)
        self.tips = self.look()
        self._root = host.root / "slots"
        self._slots: Slots | None = None

    def look(self) -> Tips:
        """Ask the remote; what it has is here then."""
        order = self.order
        found = self.mirror.branches((order.branch, order.base))
        name = order.base or found.default
        if not name:
            raise UserError(
                f"{order.repository} does not say which branch is its usual one",
                hint="untildone fleet submit … --base main",
            )
        tips = found.tips
        if name not in tips:
            tips = tips | self.mirror.branches((name,)).tips
        if name not in tips:
            raise UserError(
                f"The base branch `{name}` is not on {order.repository}",
                hint="untildone fleet submit … --base NAME",
            )
        self.mirror.fetch({n: c for n, c in tips.items() if n in (name, order.branch)})
        return Tips(name, tips[name], tips.get(order.branch, ""))

    def finished(self) -> dict[str, str]:
        """The stories that the remote's branch has, each with its commit: the ledger."""
        tips = self.tips
        if not tips.branch:
            return {}
        base = self.mirror.git.merge_base(tips.base, tips.branch) or tips.base
        return self.mirror.stories_on(base, tips.branch)

    def at(self, commit: str, *, set_up: bool = True) -> tuple[Repository, dict[str, str]]:
        """A slot with the files of a commit, on the base branch, and the variables of a lane."""
        settings = load(None, os.environ, as_flags(self.order))
        guard = Guard.of(settings.max_file_mb)
        self._slots = Slots(
            self.processes,
            self.mirror.git,
            self.mirror.place,
            self._root,
            settings.slots,
            self._task.is_stopped,
        )
        run_id = f"fleet-{commit[:12]}"
        change = self.order.change_id
        prepared = self._slots.prepare(self._lane, change, run_id, commit, guard)
        variables = self._slots.environment(prepared.slot)
        setup = self._setup(prepared.place.top)
        if set_up and setup.source:
            self._slots.set_up(prepared, setup, variables)
        self._leave_branch(prepared.place, commit)
        return at(prepared.place, self._task.wake), variables

    def rescued(self, commit: str) -> tuple[str, ...]:
        """What only the slot has, under refs of the mirror; the slot is ready for another story."""
        assert self._slots is not None
        run_id, change = f"fleet-{commit[:12]}-over", self.order.change_id
        return self._slots.prepare(self._lane, change, run_id, commit).rescued

    def close(self) -> None:
        if self._slots:
            self._slots.release(self._lane)

    def _setup(self, top: Path) -> SetUp:
        """What makes the checkout work, as for lanes; the order says so, or the repository."""
        asked = load(top, os.environ, as_flags(self.order)).lane_setup
        if asked == AUTO:
            return next(iter(found_setups(top)), SetUp(""))
        return SetUp("lane_setup", (asked,)) if asked not in ("", OFF) else SetUp("")

    def _leave_branch(self, place: Place, commit: str) -> None:
        """The run makes `ralph/CHANGE` itself, from the base branch."""
        git = Git(self.processes, place.top)
        git.use_common_dir(place.common_dir)
        git.use_git_dir(place.git_dir)
        git.update_refs([(f"refs/heads/{self.tips.base_name}", commit, None)], "untildone: base")
        git.point_head(self.tips.base_name, "untildone: base")
        own = f"refs/heads/{self.order.branch}"
        git.update_refs([(own, "", git.resolve(own))], "untildone: base")


def as_flags(order: ChangeOrder) -> dict[str, object]:
    """The flags of an order as `load` takes them."""
    return {key: tuple(v) if isinstance(v, list) else v for key, v in order.flags.items()}


def as_words(order: ChangeOrder) -> list[str]:
    """The flags of an order as they would be typed."""
    words: list[str] = []
    for key, value in order.flags.items():
        on, _, off = SETTINGS[key].flags.partition("/")
        if isinstance(value, bool):
            words.append(on if value else off)
        else:
            words += [f"{on}={one}" for one in (value if isinstance(value, list) else [value])]
    return words
