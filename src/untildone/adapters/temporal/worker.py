"""Takes stories from the server and hands them to code that knows nothing of it."""

import asyncio
import contextvars
import logging
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Any, Protocol

from msgspec import Struct
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.service import RPCError
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.temporal.connection import Connection, connected
from untildone.adapters.temporal.engine import at_work, gone_changes
from untildone.adapters.temporal.workflows import WORKFLOWS
from untildone.domain.errors import Interrupted, UntildoneError, UserError
from untildone.domain.fleet.order import (
    ChangeOrder,
    LandResult,
    Stories,
    StoryOrder,
    StoryResult,
)

BEAT_S = 1.0
# A cancel arrives with the answer to a heartbeat: at most so late.
THROTTLE = timedelta(seconds=3)
IDLE_LOOKS = 3
LOOK_S = 1.0
LONGEST_DRAIN = timedelta(days=2)


class Task:
    """One activity as the code that does it sees it: what it tells, and whether it is to end."""

    def __init__(self, begun: Callable[[], None]) -> None:
        self.wake = WakePipe()
        self.begun = begun  # an agent is about to be paid
        self.progress: dict[str, object] = {}
        self._stop = False

    def stop(self) -> None:
        self._stop = True
        self.wake.set()

    def is_stopped(self) -> bool:
        self.wake.clear()
        return self._stop

    def close(self) -> None:
        self.wake.close()


class StoryWork(Protocol):
    """What a worker does, each in a thread of its own."""

    def read(self, order: ChangeOrder, task: Task) -> Stories:
        """The stories of a change."""

    def run(self, order: StoryOrder, task: Task) -> StoryResult:
        """One story, to its end."""

    def land(self, order: ChangeOrder, task: Task) -> LandResult:
        """A finished change onto its base branch."""


class WorkerOptions(Struct, frozen=True):
    """How many stories at once, under which name; `once`: until there is nothing to do."""

    slots: int
    identity: str
    once: bool = False
    say: Callable[[str], None] = lambda text: None


class _Activities:
    def __init__(self, work: StoryWork, client: Client, options: WorkerOptions) -> None:
        self._work, self._client, self._say = work, client, options.say
        self._identity = options.identity
        self._loop = asyncio.get_running_loop()
        self._tasks = set[Task]()
        self.ending = False

    def all(self) -> list[Callable[..., Any]]:
        return [self.read_stories, self.run_story, self.land_change, self.gone_changes]

    def stop(self) -> None:
        """End what is being done now; another worker takes it."""
        self.ending = True
        for task in tuple(self._tasks):
            task.stop()

    def busy(self) -> bool:
        return bool(self._tasks)

    @activity.defn(name="read_stories", no_thread_cancel_exception=True)
    def read_stories(self, order: ChangeOrder) -> Stories:
        with self._task() as task:
            return self._work.read(order, task)

    @activity.defn(name="run_story", no_thread_cancel_exception=True)
    def run_story(self, order: StoryOrder) -> StoryResult:
        with self._task() as task:
            return self._work.run(order, task)

    @activity.defn(name="land_change", no_thread_cancel_exception=True)
    def land_change(self, order: ChangeOrder) -> LandResult:
        with self._task() as task:
            return self._work.land(order, task)

    @activity.defn(name="gone_changes")
    async def gone_changes(self, names: list[str]) -> list[str]:
        return await gone_changes(self._client, names)

    @contextmanager
    def _task(self) -> Iterator[Task]:
        """Heartbeats from a thread of their own, so that no agent's output can starve them."""
        task, over = Task(self._begun(activity.info().workflow_id or "")), Event()
        self._tasks.add(task)
        context = contextvars.copy_context()
        beats = Thread(target=context.run, args=(_beat, task, over), daemon=True)
        beats.start()
        try:
            yield task
        except UntildoneError as error:
            if activity.is_cancelled() and not self.ending:
                raise CancelledError("The agents were ended") from None
            if not isinstance(error, Interrupted):
                self._say(_words(error))
            raise _as_failure(error) from None
        finally:
            over.set()
            beats.join()
            self._tasks.discard(task)
            task.close()

    def _begun(self, workflow_id: str) -> Callable[[], None]:
        async def tell() -> None:
            try:
                await self._client.get_workflow_handle(workflow_id).signal("begun", self._identity)
            except RPCError:
                return  # only a view: the story is done all the same

        return lambda: void(asyncio.run_coroutine_threadsafe(tell(), self._loop))


def void(value: object) -> None:
    del value


def _as_failure(error: UntildoneError) -> ApplicationError:
    """What the engine makes of it: another worker, another try, or neither."""
    if isinstance(error, Interrupted):
        return ApplicationError(f"Cut short: {error.message}", type="CutShort")
    kind = "Refused" if isinstance(error, UserError) else "Failed"
    return ApplicationError(_words(error), type=kind, non_retryable=kind == "Refused")


def _words(error: UntildoneError) -> str:
    return f"{error.message}. {error.hint}".strip()


def _beat(task: Task, over: Event) -> None:
    while not over.wait(BEAT_S):
        activity.heartbeat(task.progress)
        if activity.is_cancelled():
            task.stop()


def run_worker(connection: Connection, work: StoryWork, options: WorkerOptions) -> None:
    """Until it is told to end: then the stories at work are ended first, in peace or at once."""
    # What went wrong with a story is said in our words, without a traceback.
    logging.getLogger("temporalio.activity").setLevel(logging.CRITICAL)
    asyncio.run(_run(connection, work, options))


async def _run(connection: Connection, work: StoryWork, options: WorkerOptions) -> None:
    client = await connected(connection, options.identity)
    activities = _Activities(work, client, options)
    leave = asyncio.Event()
    _obey_signals(activities, leave, options.say)
    with ThreadPoolExecutor(options.slots + 1) as threads:
        worker = Worker(
            client,
            task_queue=connection.queue,
            workflows=WORKFLOWS,
            activities=activities.all(),
            activity_executor=threads,
            identity=options.identity,
            max_concurrent_activities=options.slots,
            max_heartbeat_throttle_interval=THROTTLE,
            default_heartbeat_throttle_interval=THROTTLE,
            graceful_shutdown_timeout=LONGEST_DRAIN,
            workflow_runner=SandboxedWorkflowRunner(
                restrictions=SandboxRestrictions.default.with_passthrough_modules("msgspec")
            ),
        )
        async with worker:
            options.say(f"Taking stories as {options.identity}")
            if options.once:
                await _until_idle(client, activities, leave)
            else:
                await leave.wait()


def _obey_signals(
    activities: _Activities, leave: asyncio.Event, say: Callable[[str], None]
) -> None:
    def ask() -> None:
        if leave.is_set():
            activities.stop()
        elif activities.busy():
            say("No more stories; those at work are finished first. Once more: they are ended")
        leave.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)


async def _until_idle(client: Client, activities: _Activities, leave: asyncio.Event) -> None:
    idle = 0
    while idle < IDLE_LOOKS and not leave.is_set():
        try:
            await asyncio.wait_for(leave.wait(), LOOK_S)
        except TimeoutError:
            busy = activities.busy() or await at_work(client)
            idle = 0 if busy else idle + 1
