"""The loop: take the next step, perform it through a port, fold in the fact, record, publish."""

import contextlib
from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from untildone.app import story_terms, tracker
from untildone.app.call_agent import measure, run_attempt
from untildone.app.keep_or_revert import archive, revert, save
from untildone.app.land import final_gate
from untildone.app.lanes import (
    InLane,
    begin,
    end_lanes,
    failed,
    free_step,
    hear_lanes,
    store_finished,
)
from untildone.app.run_driver import RunDriver
from untildone.app.verify import try_checks, verify
from untildone.domain.agents.agent import Trouble
from untildone.domain.errors import CloseRefused, Interrupted, UntildoneError
from untildone.domain.reporting.event import warning
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.brief import stories_now
from untildone.domain.run.judging import wake_at
from untildone.domain.run.machine import next_steps
from untildone.domain.run.plan import label
from untildone.domain.run.run import Choice, Run
from untildone.domain.run.spending import reached
from untildone.domain.run.user_requests import unattended
from untildone.domain.stories.story import StoryKey


def drive(driver: RunDriver) -> Run:
    """Step by step until nothing is left to do."""
    try:
        while not isinstance(step := _next_step(driver), s.Finish):
            fact = _attempted(driver, step)
            driver.hear()
            if fact:
                driver.record(fact)
            hear_lanes(driver)
    finally:
        end_lanes(driver)
    return driver.run


def _next_step(driver: RunDriver) -> s.Step | None:
    steps = next_steps(driver.run)
    store_finished(driver, steps)
    return free_step(driver, steps)


def _attempted(driver: RunDriver, step: s.Work | None) -> f.Fact | None:
    if step is None:  # all lanes are at work: whatever comes next comes by mail
        driver.ports.human.wait_for_word()
        return None
    try:
        return _perform(driver, step)
    except Interrupted:
        raise
    except CloseRefused as error:
        assert isinstance(step, s.Close)
        return f.Refused(step.choice, failed(step, error).message, error.hint)
    except UntildoneError as error:
        if driver.run.origin is None:
            with contextlib.suppress(OSError):  # what went wrong first is told
                driver.record(failed(step, error))
            raise
        return failed(step, error)


def _perform(driver: RunDriver, step: s.Work) -> f.Fact | None:  # noqa: C901 - one arm per step
    ports = driver.ports
    if isinstance(step, s.RunAttempt | s.Wait) and (over := _over_budget(driver, step)):
        return over
    if driver.lanes and isinstance(step, InLane):
        begin(driver, step)
        return None
    match step:
        case s.Open():
            stamp = ports.clock.now().strftime("%Y%m%dT%H%M%S%f")
            opened = ports.checkpoint.open(driver.origin, stamp)
            return replace(opened, remarks=(*driver.remarks, *opened.remarks))
        case s.LoadStories():
            return _look_at_stories(driver)
        case s.TryChecks():
            return try_checks(driver, step)
        case s.RunAttempt():
            return run_attempt(driver, step)
        case s.MeasureUsage(lane):
            return measure(driver, lane)
        case s.Verify(lane):
            return verify(driver, lane)
        case s.Save(lane):
            return save(driver, lane)
        case s.Revert(lane):
            return revert(driver, lane)
        case s.Wait():
            return _wait(driver, step)
        case s.AwaitPerson():
            ports.human.wait_for_word()
            return None
        case s.AwaitBudget(name):
            return ports.human.new_budget(name)
        case s.Archive():
            return archive(driver)
        case s.AskAboutStory(key):
            return _decided(driver, key)
        case s.AskChoice():
            answer = ports.human.choose()
            return f.ChoiceMade(answer) if isinstance(answer, Choice) else answer
        case s.Close(choice):
            assert driver.run.origin is not None
            return f.Closed(choice, ports.checkpoint.close(choice, driver.run.origin))
        case s.PrepareSlot() | s.Land():
            raise AssertionError("a single lane works where the run does")
        case _:
            assert_never(step)


def _look_at_stories(driver: RunDriver) -> f.StoriesLoaded | None:
    book, plain = tracker.look(driver), driver.run.plan.plain
    if book and driver.ports.predicted:
        book = driver.ports.predicted(book, driver.run.iterations)
    fact = stories_now(driver.run, book, driver.book)
    if book and not plain:
        story_terms.look(driver, book)
    return final_gate(driver, fact) if fact.done and driver.lanes else fact


def _decided(driver: RunDriver, key: StoryKey) -> f.UserRequest | None:
    human = driver.ports.human
    return human.decide(key) if human.present() else unattended(key, driver.run.parked[key])


def _over_budget(driver: RunDriver, step: s.RunAttempt | s.Wait) -> f.BudgetReached | None:
    """Looked at between calls only: what is under way is finished, judged and kept."""
    story = None
    if isinstance(step, s.RunAttempt):
        story = (step.story.id, step.story.key) if step.story else ("", ("", ""))
    over = reached(driver.run, driver.ports.clock.now(), story)
    return f.BudgetReached(over, waits=driver.ports.human.present()) if over else None


def _wait(driver: RunDriver, step: s.Wait) -> f.Fact | None:
    now = driver.ports.clock.now()
    if step.until is None:
        assert step.limit is not None
        return _begin_wait(driver, step.lane, step.limit, step.limit_hits, now)
    left = (step.until - now).total_seconds()
    if left <= 0:
        return f.WaitOver(step.lane)
    driver.ports.human.wait_until(left)
    return None


def _begin_wait(
    driver: RunDriver, lane_id: int, limit: Trouble, limit_hits: int, now: datetime
) -> f.Fact:
    until = wake_at(limit, limit_hits, now)
    plan = driver.run.plan
    limited = driver.run.lanes[lane_id].limited or plan.agent
    agent, model = plan.stand_in
    if agent and limited != label(agent, model):
        driver.tell(warning(f"{limited}: {limit.why}; {plan.fallback} steps in"))
        return f.SteppedIn(lane_id, agent, model, until, limit.why, limited)
    return f.WaitStarted(lane_id, until, limit.why, limit.kind)
