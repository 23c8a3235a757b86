"""What is asked of the server and said to it; each call connects, does one thing and ends."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from untildone.adapters.clock import SystemClock
from untildone.adapters.temporal.connection import Connection, as_names, as_view, connected
from untildone.adapters.temporal.workflows import (
    AccountRun,
    ChangeRun,
    MergeTrain,
    account_id,
    train_id,
)
from untildone.domain.errors import UntildoneError, UserError
from untildone.domain.fleet.account import Account
from untildone.domain.fleet.order import ChangeOrder
from untildone.domain.fleet.progress import Progress, State

T = TypeVar("T")
CHANGES = "WorkflowType = 'ChangeRun'"
PAGE = 1000
AT_ONCE = 20


class Listed(Struct, frozen=True):
    """One change as the server lists it: the newest run of its workflow."""

    workflow_id: str
    repository: str
    change_id: str
    open: bool
    since: datetime
    view: dict[str, object]


class WorkerRow(Struct, frozen=True):
    """A worker that has asked for work; `identity` is what it calls itself."""

    identity: str
    seconds_ago: float


class Engine:
    """A server by its connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def submit(self, orders: Sequence[ChangeOrder]) -> list[str]:
        """`submitted` or, where the change is under way, `already`; for each."""

        async def submitted(client: Client) -> list[str]:
            gate = asyncio.Semaphore(AT_ONCE)

            async def one(order: ChangeOrder) -> str:
                async with gate:
                    return await self._submitted(client, order)

            return [*await asyncio.gather(*map(one, orders))]

        return self._run(submitted)

    async def _submitted(self, client: Client, order: ChangeOrder) -> str:
        queue = self._connection.queue
        if order.land:
            await _ensure(client, queue, train_id(order), MergeTrain.run, [])
        try:
            await client.start_workflow(
                ChangeRun.run,
                order,
                id=order.workflow_id,
                task_queue=queue,
                memo={"view": Progress().view(), "order": [order.repository, order.change_id]},
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                priority=Priority(priority_key=order.priority, fairness_key=order.fairness_key),
            )
        except WorkflowAlreadyStartedError:
            return "already"
        return "submitted"

    def set_account(self, name: str, limit: int, budget_usd: float) -> None:
        """An account with these limits from now on; it is made if it is new."""

        async def told(client: Client) -> None:
            queue, account = self._connection.queue, Account(name, limit, budget_usd)
            await _ensure(client, queue, account_id(name), AccountRun.run, account)
            handle = client.get_workflow_handle(account_id(name))
            await handle.signal("limit", args=[limit, budget_usd])

        self._run(told)

    def ensure_account(self, name: str) -> None:
        """An account without limits, unless it is there."""

        async def made(client: Client) -> None:
            queue = self._connection.queue
            await _ensure(client, queue, account_id(name), AccountRun.run, Account(name))

        self._run(made)

    def changes(self) -> list[Listed]:
        """All changes, each once."""
        return self._run(_changes)

    def everything(self) -> tuple[list[Listed], list[WorkerRow]]:
        """All changes, and who has asked for stories of late."""

        async def asked(client: Client) -> tuple[list[Listed], list[WorkerRow]]:
            workers = _workers(client, self._connection.queue)
            changes, rows = await asyncio.gather(_changes(client), workers)
            return changes, rows

        return self._run(asked)

    def tell(self, workflow_id: str, signal: str, *args: str) -> None:
        """A person's word to a change that is under way."""

        async def told(client: Client) -> None:
            handle = client.get_workflow_handle(workflow_id)
            await _found(workflow_id, handle.signal(signal, args=[*args]))

        self._run(told)

    def cancel(self, workflow_id: str) -> None:
        """End a change; its agents are ended by the workers."""

        async def told(client: Client) -> None:
            await _found(workflow_id, client.get_workflow_handle(workflow_id).cancel())

        self._run(told)

    def ready(self) -> bool:
        """Whether the server answers and has its namespace."""

        async def asked(client: Client) -> bool:
            await client.count_workflows(CHANGES)
            return True

        try:
            return self._run(asked)
        except UntildoneError:
            return False

    def _run(self, ask: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        async def asked() -> T:
            client = await connected(self._connection)
            try:
                return await ask(client)
            except RPCError as error:
                raise UntildoneError(
                    f"The fleet's server refused: {error.message}",
                    state="What it had before stays.",
                    hint="untildone fleet status",
                ) from error

        return asyncio.run(asked())


async def _workers(client: Client, queue: str) -> list[WorkerRow]:
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    answer = await client.workflow_service.describe_task_queue(request)
    now = SystemClock().now().timestamp()
    return [WorkerRow(p.identity, now - p.last_access_time.seconds) for p in answer.pollers]


async def _changes(client: Client) -> list[Listed]:
    newest: dict[str, WorkflowExecution] = {}
    async for run in client.list_workflows(CHANGES, page_size=PAGE):
        known = newest.get(run.id)
        if known is None or run.start_time > known.start_time:
            newest[run.id] = run
    return [_listed(run) for run in newest.values()]


def _listed(run: WorkflowExecution) -> Listed:
    repository, change = as_names(run)
    view = as_view(run)
    is_open = run.status is WorkflowExecutionStatus.RUNNING
    if run.status in (WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.CANCELED):
        view = view | {"status": State.CANCELLED.value}
    elif not is_open and run.status is not WorkflowExecutionStatus.COMPLETED:
        view = view | {"status": State.FAILED.value}
    return Listed(run.id, repository, change, is_open, run.close_time or run.start_time, view)


async def _ensure(client: Client, queue: str, name: str, run: Any, argument: object) -> None:  # noqa: ANN401 - a workflow's method
    """A workflow that is there for as long as the fleet."""
    await client.start_workflow(
        run,
        argument,
        id=name,
        task_queue=queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
    )


async def _found(name: str, call: Coroutine[Any, Any, None]) -> None:
    try:
        await call
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise UserError(
            f"This change is not under way: {name.removeprefix('change/')}",
            state="Nothing was changed.",
            hint="untildone fleet status",
        ) from error


async def gone_changes(client: Client, names: Sequence[str]) -> list[str]:
    """Which of these workflows are over."""
    gone = []
    for name in names:
        try:
            found = await client.get_workflow_handle(name).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                gone.append(name)
            continue
        if found.status is not WorkflowExecutionStatus.RUNNING:
            gone.append(name)
    return gone


async def at_work(client: Client) -> bool:
    """Whether any change is under way that does not wait for a person."""
    at_rest = {State.PAUSED.value, State.STUCK.value, State.QUESTION.value}
    async for run in client.list_workflows(f"{CHANGES} AND ExecutionStatus = 'Running'"):
        if as_view(run).get("status") not in at_rest:
            return True
    return False
