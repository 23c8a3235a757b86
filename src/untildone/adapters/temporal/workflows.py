"""What the engine remembers: decisions only. Everything that touches the world is an activity.

This code is run again over old histories: what it does in which order must not change without
`workflow.patched`, and `tests/fleet/histories` has the histories that it must still fit.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from untildone.domain.fleet.account import Account
    from untildone.domain.fleet.order import (
        ChangeOrder,
        LandResult,
        Stories,
        StoryOrder,
        StoryResult,
    )
    from untildone.domain.fleet.progress import Progress, State

# The loop's own time limits end a story; this only ends what nobody looks after any more.
LONGEST_STORY = timedelta(days=2)
LONGEST_LOOK = timedelta(minutes=30)
# For hosts that die or are cut off. A red check is a result and never tried again by the engine.
LOST_HOSTS = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    maximum_interval=timedelta(minutes=5),
    maximum_attempts=6,
)
# A repository that cannot be read says so soon; a person may have mistyped it.
FEW_TRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)
# A repository that was out of reach is tried again without a word: no agent was paid yet.
AGAIN = timedelta(minutes=10)
LOOK_FOR_GONE = timedelta(seconds=60)


@workflow.defn(name="ChangeRun")
class ChangeRun:
    """One change: its stories one after the other."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._paused = self._again = self._granted = False
        self._guidance: list[str] = []
        self._answers: list[LandResult] = []

    @workflow.run
    async def run(self, order: ChangeOrder) -> dict[str, object]:
        """Until every story is finished, or somebody cancels."""
        self._guidance = [*order.guidance]
        try:
            await self._stories(order)
            if order.land:
                await self._land(order)
            else:
                self._show(self._progress.at(State.DONE))
        except BaseException as error:
            cancelled = _is_cancel(error)
            reason = "" if cancelled else _said(error)
            state = State.CANCELLED if cancelled else State.FAILED
            self._show(self._progress.at(state, self._progress.story_id, reason))
            raise
        return self._progress.view()

    async def _stories(self, order: ChangeOrder) -> None:
        while (stories := await self._looked_at(order)) is None:
            continue
        self._show(self._progress.loaded(stories))
        while story := self._progress.next_story:
            await self._not_paused()
            result = await self._story(order, story)
            if result is None:
                continue
            self._show(self._progress.ended(result))
            if self._progress.status is not State.QUEUED:
                await self._word()

    async def _looked_at(self, order: ChangeOrder) -> Stories | None:
        try:
            stories: Stories = await workflow.execute_activity(
                "read_stories",
                order,
                result_type=Stories,
                start_to_close_timeout=LONGEST_LOOK,
                heartbeat_timeout=timedelta(seconds=order.heartbeat_s),
                retry_policy=FEW_TRIES,
                priority=_priority(order),
            )
        except ActivityError as error:
            await self._lost(error, "")
            return None
        return stories

    async def _story(self, order: ChangeOrder, story: str) -> StoryResult | None:
        await self._gate(order, story)
        cost = 0.0
        try:
            self._show(self._progress.at(State.QUEUED, story))
            result: StoryResult = await workflow.execute_activity(
                "run_story",
                StoryOrder(order, story, tuple(self._guidance)),
                result_type=StoryResult,
                start_to_close_timeout=LONGEST_STORY,
                heartbeat_timeout=timedelta(seconds=order.heartbeat_s),
                retry_policy=LOST_HOSTS,
                cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                priority=_priority(order),
            )
            cost = result.cost_usd or 0.0
            self._guidance = [*order.guidance]
        except ActivityError as error:
            await self._lost(error, story)
            return None
        else:
            return result
        finally:
            await self._let_go(order, cost)

    async def _lost(self, error: ActivityError, story: str) -> None:
        """Not a red check: a repository, a host or the network does not do its part."""
        if _is_cancel(error):
            raise error
        self._show(self._progress.at(State.STUCK, story, _said(error)))
        await self._word(AGAIN if _is_unpaid(error) else None)

    async def _word(self, patience: timedelta | None = None) -> None:
        """Until a person wants the story tried again; or, with patience, until that is over."""
        self._again = False
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: self._again, timeout=patience)

    async def _not_paused(self) -> None:
        if self._paused:
            self._show(self._progress.at(State.PAUSED))
            await workflow.wait_condition(lambda: not self._paused)

    # -- the account -----------------------------------------------------------------------------

    async def _gate(self, order: ChangeOrder, story: str) -> None:
        if not order.account:
            return
        self._granted = False
        self._show(self._progress.at(State.WAITING, story, f"for the account {order.account}"))
        handle = workflow.get_external_workflow_handle(account_id(order.account))
        await handle.signal("ask", args=[workflow.info().workflow_id, order.reserve])
        try:
            await workflow.wait_condition(lambda: self._granted)
        except BaseException:
            await self._let_go(order, 0.0)
            raise

    async def _let_go(self, order: ChangeOrder, cost: float) -> None:
        if order.account:
            handle = workflow.get_external_workflow_handle(account_id(order.account))
            with suppress(ApplicationError):  # the account was removed by hand
                await handle.signal("release", args=[workflow.info().workflow_id, cost])

    # -- the base branch -------------------------------------------------------------------------

    async def _land(self, order: ChangeOrder) -> None:
        while not self._progress.landed:
            self._answers.clear()
            self._show(self._progress.at(State.LANDING))
            handle = workflow.get_external_workflow_handle(train_id(order))
            await handle.signal("land", order)
            await workflow.wait_condition(lambda: bool(self._answers))
            self._show(self._progress.after_landing(self._answers[-1]))
            if not self._progress.landed:
                await self._word()

    def _show(self, progress: Progress) -> None:
        self._progress = progress
        workflow.upsert_memo({"view": progress.view()})

    # -- what is said to it ----------------------------------------------------------------------

    @workflow.signal
    def begun(self, host: str) -> None:
        """A worker has taken the story."""
        if self._progress.status is State.QUEUED:
            self._show(self._progress.begun(host))

    @workflow.signal
    def granted(self) -> None:
        """The account lets it call."""
        self._granted = True

    @workflow.signal
    def landed(self, result: LandResult) -> None:
        """The merge train is through with it."""
        self._answers.append(result)

    @workflow.signal
    def pause(self) -> None:
        """No story is begun any more; the one at work goes on."""
        self._paused = True

    @workflow.signal
    def resume(self) -> None:
        """Go on after a pause."""
        self._paused = False

    @workflow.signal
    def guide(self, text: str) -> None:
        """Words for the next story's agent."""
        self._guidance.append(text)

    @workflow.signal
    def retry(self, text: str) -> None:
        """Try the story again."""
        if text:
            self._guidance.append(text)
        self._again, self._paused = True, False

    @workflow.query
    def view(self) -> dict[str, object]:
        """The same as the memo."""
        return self._progress.view()


@workflow.defn(name="Account")
class AccountRun:
    """Lets changes call an agent, one after the other; no more at once than the account takes."""

    def __init__(self) -> None:
        self._account = Account("")

    @workflow.run
    async def run(self, account: Account) -> None:
        """For as long as there is a fleet."""
        early = self._account  # signals may come before the first step
        self._account = account
        for change, reserve in early.waiting:
            self._account = self._account.asked(change, reserve)
        if early.limit or early.budget_usd:
            self._account = self._account.limited(early.limit, early.budget_usd)
        while not workflow.info().is_continue_as_new_suggested():
            try:
                await workflow.wait_condition(
                    lambda: bool(self._account.granted()[1]), timeout=LOOK_FOR_GONE
                )
            except TimeoutError:
                await self._look_for_gone()
                continue
            self._account, change = self._account.granted()
            await self._tell(change)
        workflow.continue_as_new(self._account)

    async def _tell(self, change: str) -> None:
        try:
            await workflow.get_external_workflow_handle(change).signal("granted")
        except ApplicationError:
            self._account = self._account.released(change)  # it is over

    async def _look_for_gone(self) -> None:
        """One that was terminated has released nothing: others would wait for ever."""
        if not (self._account.waiting and self._account.holders):
            return
        gone = await workflow.execute_activity(
            "gone_changes",
            sorted(self._account.holders),
            result_type=list[str],
            start_to_close_timeout=timedelta(seconds=60),
        )
        self._release(gone)

    def _release(self, changes: Iterable[str]) -> None:
        for change in changes:
            self._account = self._account.released(change)

    @workflow.signal
    def ask(self, change: str, reserve: float) -> None:
        """A change wants to begin a story."""
        self._account = self._account.asked(change, reserve)

    @workflow.signal
    def release(self, change: str, cost: float) -> None:
        """A change is through with its story."""
        self._account = self._account.released(change, cost)

    @workflow.signal
    def limit(self, limit: int, budget_usd: float) -> None:
        """Other limits from now on."""
        self._account = self._account.limited(limit, budget_usd)

    @workflow.query
    def account(self) -> Account:
        """How it stands."""
        return self._account


@workflow.defn(name="MergeTrain")
class MergeTrain:
    """Brings finished changes onto the base branches of one repository, one after the other."""

    def __init__(self) -> None:
        self._queue: list[ChangeOrder] = []

    @workflow.run
    async def run(self, queue: list[ChangeOrder]) -> None:
        """For as long as there is a fleet."""
        self._queue = [*queue, *self._queue]
        while not workflow.info().is_continue_as_new_suggested():
            await workflow.wait_condition(lambda: bool(self._queue))
            order = self._queue[0]
            try:
                result = await self._landed(order)
            except ActivityError as error:
                result = LandResult(landed=False, host="", reason=_said(error))
            self._queue.pop(0)
            try:
                handle = workflow.get_external_workflow_handle(order.workflow_id)
                await handle.signal("landed", result)
            except ApplicationError:
                continue  # it was cancelled meanwhile
        workflow.continue_as_new(self._queue)

    async def _landed(self, order: ChangeOrder) -> LandResult:
        result: LandResult = await workflow.execute_activity(
            "land_change",
            order,
            result_type=LandResult,
            start_to_close_timeout=LONGEST_STORY,
            heartbeat_timeout=timedelta(seconds=order.heartbeat_s),
            retry_policy=LOST_HOSTS,
            priority=Priority(priority_key=1),
        )
        return result

    @workflow.signal
    def land(self, order: ChangeOrder) -> None:
        """One more; one that waits already waits once."""
        if all(order.workflow_id != other.workflow_id for other in self._queue):
            self._queue.append(order)


WORKFLOWS = (ChangeRun, AccountRun, MergeTrain)


def account_id(name: str) -> str:
    return f"account/{name}"


def train_id(order: ChangeOrder) -> str:
    return f"train/{order.fairness_key}"


def _priority(order: ChangeOrder) -> Priority:
    return Priority(priority_key=order.priority, fairness_key=order.fairness_key)


def _is_cancel(error: BaseException) -> bool:
    """Also of an activity that failed while it was being cancelled."""
    return is_cancelled_exception(error) or workflow.cancellation_reason() is not None


def _is_unpaid(error: ActivityError) -> bool:
    """Whether it ended before an agent was called: a worker gives what came after as a result."""
    return isinstance(error.cause, ApplicationError) and error.cause.type == "Failed"


def _said(error: BaseException) -> str:
    """The innermost words of an error of the engine."""
    cause = getattr(error, "cause", None)
    return _said(cause) if isinstance(cause, BaseException) else str(error)
