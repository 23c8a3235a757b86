"""Several lanes: a thread performs the steps of each, the main thread keeps the machine.

What a thread has to say goes to the main thread as mail, as requests of people do: nothing but the
main thread records a fact or tells an event.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from threading import Thread
from typing import NoReturn, assert_never

from msgspec import Struct
from msgspec.structs import replace

from untildone.app import tracker
from untildone.app.call_agent import called, make_ready, measure, planned
from untildone.app.keep_or_revert import revert
from untildone.app.land import Landable, attempt_ref, begun, bring_in, land, store
from untildone.app.run_driver import FinishedWork, RunDriver
from untildone.app.verify import try_checks, verify
from untildone.domain.errors import Interrupted, StepError, UntildoneError
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.run import Outcome, Run
from untildone.domain.run.run_endings import must_stop_now
from untildone.ports import Lanes, Mail, Report

# What a thread does, one at a time in each lane.
InLane = s.PrepareSlot | s.TryChecks | s.RunAttempt | s.MeasureUsage | s.Verify | s.Land | s.Revert
CHECKING = (s.TryChecks, s.Verify, s.Land)
SLOT_GONE = "The slot in which this was done is gone, and with it the work"
Act = Callable[[RunDriver], object]


class LaneRecord(Struct, frozen=True):
    """What a thread sees of the run's memory: it may tell something, and no more."""

    mail: Mail
    lane: int

    def fact(self, fact: f.Fact, published: tuple[Event, ...], run: Run, at: datetime) -> NoReturn:
        raise AssertionError("only the main thread records what happened")

    def notice(self, event: Event, at: datetime) -> None:
        """For the main thread to tell."""
        told = Event(event.name, {**event.data, "lane": self.lane})
        self.mail.report(Report(self.lane, told))


def free_step(driver: RunDriver, steps: Sequence[s.Step]) -> s.Step | None:
    """What may begin now: nothing in a lane that is at work.

    What is finished lands first; waits come last, because they hold up the main thread.
    """
    if not driver.lanes:
        return steps[0]
    free = [step for step in steps if _may_begin(driver, driver.lanes, step)]
    return min(free, key=_rank, default=None)


def _rank(step: s.Step) -> int:
    return 0 if isinstance(step, s.Land) else 2 if isinstance(step, s.Wait) else 1


def _may_begin(driver: RunDriver, lanes: Lanes, step: s.Step) -> bool:
    if getattr(step, "lane", None) in driver.begun:
        return False
    if isinstance(step, CHECKING):
        begun = (step for lane, (step, _) in driver.begun.items() if lane not in driver.storing)
        return sum(isinstance(step, CHECKING) for step in begun) < lanes.checks_at_once
    alone = not isinstance(step, s.RunAttempt) or not driver.begun
    return alone or lanes.has_room()


def store_finished(driver: RunDriver, steps: Sequence[s.Step]) -> None:
    """Finished work is stored at once, while it waits for its turn to land."""
    if not driver.lanes or not any(isinstance(step, s.Land) for step in steps):
        return
    for lane in driver.run.lanes:
        if lane.ticket and lane.id not in driver.begun and lane.ticket not in driver.finished:
            driver.finished[lane.ticket] = None
            driver.storing.add(lane.id)
            _start(
                driver, s.Land(lane.id), partial(_in_slot, lane=lane.id, act=store, gone=_nothing)
            )


def begin(driver: RunDriver, step: InLane) -> None:
    """Begin a step of a lane; how it ends arrives by mail."""
    if driver.book is None:  # what an earlier process has begun comes first
        driver.book = tracker.look(driver)
    _start(driver, step, _act(driver, step))


def _start(driver: RunDriver, step: InLane, act: Act) -> None:
    lanes = driver.lanes
    assert lanes is not None
    run = replace(driver.run, book=driver.run.book or driver.book)
    ports = replace(driver.ports, learnings=None, record=LaneRecord(driver.ports.mail, step.lane))
    lane = RunDriver(ports, run, driver.origin)
    lane.told, lane.book, lane.stories = driver.told, driver.book, driver.stories
    lane.finished = driver.finished
    lanes.interrupt(step.lane, wanted=must_stop_now(run))
    thread = Thread(target=_work, args=(lane, step, act), daemon=True)
    driver.begun[step.lane] = (step, thread)
    thread.start()


def failed(step: s.Work, error: UntildoneError) -> f.StepFailed:
    """A step that the outside world has refused."""
    message = f"{error.message}. {error.state}".strip() if error.state else error.message
    return f.StepFailed(type(step).__name__, message, error.hint, getattr(step, "lane", 0))


def hear_lanes(driver: RunDriver) -> None:
    """Fold in what lanes and messengers report, and end the programs of those that are to stop."""
    for report in driver.ports.mail.reports():
        if report.told:
            driver.tell(report.told)
        else:
            step, _ = driver.begun.pop(report.lane)
            driver.storing.discard(report.lane)
            if fact := _result(driver, step, report.lane, report.result):
                driver.record(fact)
    for lane in driver.begun:
        if _is_to_end(driver.run, lane):
            assert driver.ports.lanes is not None
            driver.ports.lanes.interrupt(lane, wanted=True)


def end_lanes(driver: RunDriver) -> None:
    """However the loop ends: no thread and no program of a lane goes on."""
    lanes = driver.ports.lanes
    if not lanes:
        return
    for lane, (_, thread) in driver.begun.items():
        lanes.interrupt(lane, wanted=True)
        thread.join()
    driver.begun.clear()
    lanes.release()


def _is_to_end(run: Run, lane: int) -> bool:
    iteration = run.lanes[lane].iteration
    skipped = iteration is not None and iteration.story_key in run.parked
    return must_stop_now(run) or skipped


def _result(driver: RunDriver, step: s.Work, lane: int, result: object) -> f.Fact | None:
    """The fact of a step that has ended; a landing is brought in first."""
    if isinstance(result, BaseException):
        raise result
    if isinstance(result, f.AttemptEnded) and driver.ports.learnings:
        driver.ports.learnings.keep()
    if isinstance(result, FinishedWork):
        driver.finished[driver.run.lanes[lane].ticket] = result
        return None
    if isinstance(result, f.Requeued | f.Reverted):
        remarks = (*result.remarks, *tracker.put_back(driver, result.lane))
        result = replace(result, remarks=remarks)
    if isinstance(result, f.Requeued):
        _build_on_tip(driver, result.lane)
    if not isinstance(result, Landable):
        return result  # type: ignore[return-value]  # a fact or nothing, see `_act`
    try:
        return bring_in(driver, result)
    except Interrupted:
        raise
    except UntildoneError as error:
        return failed(step, error)


def _build_on_tip(driver: RunDriver, lane: int) -> None:
    """What a person committed is met again and again by work that does not begin from it."""
    assert driver.ports.branch is not None
    if (tip := driver.ports.branch.tip()) != driver.run.tip:
        driver.record(f.Adopted(lane, tip))


# -- in the thread of a lane -------------------------------------------------------------------


def _work(driver: RunDriver, step: InLane, act: Act) -> None:
    result: object
    try:
        result = act(driver)
    except Interrupted as cut:
        called = isinstance(step, s.RunAttempt)
        result = f.AttemptEnded(step.lane, Outcome.INTERRUPTED, cut.message) if called else None
    except UntildoneError as error:
        result = failed(step, error)
    except BaseException as error:  # noqa: BLE001 - the main thread raises it again
        result = error
    driver.ports.mail.report(Report(step.lane, result=result))


def _act(driver: RunDriver, step: InLane) -> Act:
    """What the thread is to do; the start of a call is on disk before it begins."""
    match step:
        case s.PrepareSlot(lane, base):
            return partial(_prepare, lane=lane, base=base)
        case s.RunAttempt():
            call = planned(driver, step)
            driver.record(call.started)

            def attempt(own: RunDriver) -> object:
                _make_ready(own, step.lane, step.base)
                make_ready(own, step)
                own.ports.meter.start(call.intent.agent)
                return called(own, step, call)

            return attempt
        case s.TryChecks(lane):
            base = driver.run.lanes[lane].checkpoint

            def tried(own: RunDriver) -> object:
                _make_ready(own, lane, base)
                return try_checks(own, step)

            return tried
        case s.MeasureUsage(lane):
            return partial(_in_slot, lane=lane, act=measure, gone=_unmeasured)
        case s.Verify(lane):
            return partial(_in_slot, lane=lane, act=verify, gone=_unverified)
        case s.Land(lane):
            return partial(_land, lane=lane)
        case s.Revert(lane):
            return partial(_in_slot, lane=lane, act=_revert, gone=_stored)
        case _:
            assert_never(step)


def _make_ready(driver: RunDriver, lane: int, base: str, *, may_be_cut: bool = True) -> None:
    assert driver.ports.lanes is not None
    driver.use(driver.ports.lanes.ready(lane, base, may_be_cut=may_be_cut))


def _prepare(driver: RunDriver, lane: int, base: str) -> f.SlotReady:
    assert driver.ports.lanes is not None
    driver.use(driver.ports.lanes.prepare(lane, base))
    return f.SlotReady(lane, driver.ports.cwd)


def _in_slot(
    driver: RunDriver,
    lane: int,
    act: Callable[[RunDriver, int], object],
    gone: Callable[[RunDriver, int], object],
) -> object:
    """On the work that is in the slot; after a crash there may be none."""
    assert driver.ports.lanes is not None
    own = driver.ports.lanes.as_left(lane, driver.run.lanes[lane].checkpoint)
    if own is None:
        return gone(driver, lane)
    driver.use(own)
    try:
        return act(driver, lane)
    except (OSError, StepError):
        if driver.ports.lanes.is_there(lane):
            raise
        return gone(driver, lane)  # removed meanwhile, by an agent of any lane


def _unmeasured(driver: RunDriver, lane: int) -> f.UsageMeasured:
    return f.UsageMeasured(lane, driver.iteration(lane).usage)


def _unverified(driver: RunDriver, lane: int) -> f.Verified:
    return f.Verified(lane, passed=False, reason=SLOT_GONE)


def _nothing(driver: RunDriver, lane: int) -> None:
    """A slot that is gone has nothing to be stored."""


def _land(driver: RunDriver, lane: int) -> object:
    """What a crash has cut short needs no slot any more."""
    return begun(driver, lane) or _in_slot(driver, lane, land, _land_from_store)


def _land_from_store(driver: RunDriver, lane: int) -> object:
    """A slot that is at the sum by now, or another story: the work itself was stored before."""
    if not _is_stored(driver, lane):
        return _unverified(driver, lane)
    _make_ready(driver, lane, driver.run.lanes[lane].checkpoint, may_be_cut=False)
    return land(driver, lane)


def _revert(driver: RunDriver, lane: int) -> f.Reverted:
    return _stored(driver, lane) if _is_stored(driver, lane) else revert(driver, lane)


def _stored(driver: RunDriver, lane: int) -> f.Reverted:
    """Nothing is to be put back: what was done is stored, or nothing was."""
    return f.Reverted(lane, attempt_ref(driver, lane) if _is_stored(driver, lane) else "")


def _is_stored(driver: RunDriver, lane: int) -> bool:
    iteration = driver.iteration(lane)
    assert driver.ports.branch is not None
    return bool(driver.ports.branch.stored_work(iteration.story_id, iteration.attempt))
