"""What a person asks of a fleet: submit, look, say something, compare with the remotes."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from untildone.adapters.git.push import shown_address
from untildone.commands.fleet.server import folder, known_server
from untildone.domain.errors import UserError
from untildone.domain.fleet.order import ChangeOrder, plain_address
from untildone.domain.fleet.progress import OVER, State
from untildone.plain_files import opened, read_text
from untildone.settings.fleet import FleetSettings, fleet_settings

if TYPE_CHECKING:
    from untildone.adapters.temporal.connection import Connection
    from untildone.adapters.temporal.engine import Engine, Listed

ORDERS = "orders.jsonl"


class ChangeRow(Struct, frozen=True):
    """A change as `fleet status` shows it."""

    repository: str
    change_id: str
    status: str
    stories: dict[str, int]
    host: str
    cost_usd: float | None
    story_id: str
    reason: str
    calls: int
    tokens: int
    verified: int
    kept: tuple[str, ...]
    commit: str
    landed: bool
    since: str


class WorkerView(Struct, frozen=True):
    """A worker as `fleet status` shows it."""

    host: str
    pid: int
    slots: int
    seconds_ago: float


class Board(Struct, frozen=True):
    """All changes and all workers."""

    changes: tuple[ChangeRow, ...]
    workers: tuple[WorkerView, ...]


class Submitted(Struct, frozen=True):
    """What became of one order."""

    repository: str
    change_id: str
    status: str


def connection(settings: FleetSettings, address: str = "") -> "Connection":
    """Where the server is: as configured, else the one of `fleet up` on this host."""
    _needs_extra()
    from untildone.adapters.temporal.connection import Connection

    wanted = address or settings.address
    if not wanted:
        server = known_server()
        if server is None:
            raise UserError(
                "No fleet is configured, and no server of `fleet up` runs on this host",
                state="Nothing was changed.",
                hint="untildone fleet up; or UNTILDONE_FLEET_ADDRESS=HOST:PORT",
            )
        wanted = server.address
    return Connection(
        wanted,
        settings.namespace,
        settings.queue,
        settings.tls,
        settings.tls_ca,
        settings.tls_cert,
        settings.tls_key,
        settings.api_key(os.environ),
    )


def engine(settings: FleetSettings | None = None, address: str = "") -> "Engine":
    """The server that is asked."""
    where = connection(settings or fleet_settings(os.environ), address)
    from untildone.adapters.temporal.engine import Engine

    return Engine(where)


def _needs_extra() -> None:
    from importlib.util import find_spec

    if find_spec("temporalio") is None:
        raise UserError(
            "The fleet needs a package that is not installed: temporalio",
            state="Nothing was changed.",
            hint="pip install 'untildone[fleet]'",
        )


# -- submit ---------------------------------------------------------------------------------------


def submit(server: "Engine", orders: Sequence[ChangeOrder]) -> list[Submitted]:
    """Enqueue; one that is under way already stays as it is."""
    for order in orders:
        if shown_address(order.repository) != order.repository:
            raise UserError(
                f"The address has a password in it: {shown_address(order.repository)}",
                state="Nothing was submitted: the server and everybody who sees it would know.",
                hint="Leave it out; each worker has its own access to the repository.",
            )
    for name in {order.account for order in orders if order.account}:
        server.ensure_account(name)
    _remember(orders)
    words = server.submit(orders)
    return [
        Submitted(order.repository, order.change_id, word)
        for order, word in zip(orders, words, strict=True)
    ]


def _remember(orders: Iterable[ChangeOrder]) -> None:
    """Before the server has them: `reconcile` submits them again if it loses its memory."""
    known = {order.workflow_id: order for order in remembered()}
    new = [order for order in orders if known.get(order.workflow_id) != order]
    if not new:
        return
    path = folder() / ORDERS
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with opened(path, "ab", private=True) as file:
        file.write(b"".join(msgspec.json.encode(order) + b"\n" for order in new))
        file.flush()
        os.fsync(file.fileno())


def remembered() -> list[ChangeOrder]:
    """What was ever submitted from this host, each change as it was submitted last."""
    path = folder() / ORDERS
    found: dict[str, ChangeOrder] = {}
    for line in read_text(path).splitlines() if path.exists() else ():
        try:
            order = msgspec.json.decode(line, type=ChangeOrder)
        except msgspec.DecodeError:
            continue  # torn by a power cut
        found[order.workflow_id] = order
    return [*found.values()]


# -- look -----------------------------------------------------------------------------------------


def board(server: "Engine") -> Board:
    """Everything that the server knows."""
    changes, workers = server.everything()
    rows = tuple(sorted(map(_row, changes), key=_order))
    return Board(rows, tuple(_worker(row.identity, row.seconds_ago) for row in workers))


def _order(row: ChangeRow) -> tuple[bool, str, str]:
    return row.status in OVER, row.repository, row.change_id


def _row(found: "Listed") -> ChangeRow:
    view = msgspec.convert(found.view, _View)
    return ChangeRow(
        shown_address(found.repository),
        found.change_id,
        view.status,
        view.stories,
        view.host,
        view.cost_usd,
        view.story_id,
        view.reason,
        view.calls,
        view.tokens,
        view.verified,
        view.kept,
        view.commit,
        view.landed,
        found.since.isoformat(timespec="seconds"),
    )


class _View(Struct, frozen=True):
    status: str = State.QUEUED.value
    stories: dict[str, int] = msgspec.field(default_factory=lambda: {"total": 0, "finished": 0})
    host: str = ""
    cost_usd: float | None = None
    story_id: str = ""
    reason: str = ""
    calls: int = 0
    tokens: int = 0
    verified: int = 0
    kept: tuple[str, ...] = ()
    commit: str = ""
    landed: bool = False


def identity(host: str, pid: int, slots: int) -> str:
    """What a worker calls itself at the server."""
    return f"{host} {pid} {slots}"


def _worker(text: str, seconds_ago: float) -> WorkerView:
    host, _, numbers = text.partition(" ")
    pid, _, slots = numbers.partition(" ")
    number = (int(part) if part.isdigit() else 0 for part in (pid, slots))
    return WorkerView(host, next(number), next(number), seconds_ago)


# -- say ------------------------------------------------------------------------------------------


def named(server: "Engine", words: Sequence[str]) -> list[str]:
    """The workflows that are meant: by a change, or by the end of REPOSITORY/CHANGE."""
    open_ones = [row.workflow_id for row in server.changes() if row.open]
    return [_the_one(open_ones, word) for word in words]


def _the_one(open_ones: Sequence[str], word: str) -> str:
    wanted = plain_address(word)
    found = [
        name for name in open_ones if name == f"change/{wanted}" or name.endswith(f"/{wanted}")
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(
            f"This change is not under way in the fleet: {word}",
            state="Nothing was changed.",
            hint="untildone fleet status",
        )
    names = ", ".join(sorted(name.removeprefix("change/") for name in found))
    raise UserError(
        f"Several changes are called `{word}`: {names}",
        state="Nothing was changed.",
        hint="Name the repository, too: REPOSITORY/CHANGE",
    )


# -- compare --------------------------------------------------------------------------------------


class Difference(Struct, frozen=True):
    """What `reconcile` has found for one change, and what it did."""

    repository: str
    change_id: str
    what: str


def reconcile(server: "Engine", tip_of: Callable[[ChangeOrder], str | None]) -> list[Difference]:
    """Compare what was submitted here with the server and the remotes; submit what is missing."""
    known = {row.workflow_id: row for row in server.changes()}
    rows = ((order, known.get(order.workflow_id)) for order in remembered())
    found = [(order, what) for order, row in rows if (what := _missing(order, row, tip_of))]
    submit(server, [order for order, _ in found])
    return [Difference(order.repository, order.change_id, what) for order, what in found]


def _missing(
    order: ChangeOrder, row: "Listed | None", tip_of: Callable[[ChangeOrder], str | None]
) -> str:
    if row is None:
        return "the server does not know it: submitted again"
    view = msgspec.convert(row.view, _View)
    if row.open or view.status != State.DONE or not view.commit or view.landed:
        return ""
    tip = tip_of(order)
    if tip is None or tip == view.commit:  # the remote does not answer: nothing is known
        return ""
    if not tip:
        return "its branch is gone from the remote: submitted again"
    return "its branch has moved since: submitted again, to look"
