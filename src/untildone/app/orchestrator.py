"""The loop: take the next step, perform it through a port, fold in the fact, record, publish."""

import contextlib
from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from untildone.app.brief import stories_now
from untildone.app.call_agent import Caller
from untildone.app.course import Course, Ports
from untildone.app.keep_or_revert import Keeper
from untildone.app.verify import Checker
from untildone.domain.agents.agent import Trouble
from untildone.domain.errors import CloseRefused, Interrupted, UntildoneError
from untildone.domain.reporting.event import warning
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.judging import wake_at
from untildone.domain.run.machine import next_steps
from untildone.domain.run.parking_rules import unattended
from untildone.domain.run.run import Origin, Run, label
from untildone.domain.run.spending import reached
from untildone.domain.stories.story import StoryKey


class Orchestrator(Course):
    """Drives one run to its end."""

    def __init__(
        self, ports: Ports, run: Run, origin: Origin, remarks: tuple[str, ...] = ()
    ) -> None:
        super().__init__(ports, run)
        self._origin = origin
        self._remarks = remarks
        self._caller = Caller(self)
        self._checker = Checker(self)
        self._keeper = Keeper(self)

    def drive(self) -> Run:
        """Step by step until nothing is left to do."""
        while not isinstance(step := next_steps(self.run)[0], s.Finish):
            fact = self._attempted(step)
            self.hear()
            if fact:
                self.record(fact)
        return self.run

    def hear(self) -> None:
        """Fold in what people and signals want; it is on disk before their messages go."""
        for request in self.ports.mail.take():
            self.record(request)
        self.ports.mail.recorded()

    def adopt(self) -> tuple[str, tuple[str, ...]]:
        """Back to the workspace of an earlier process, with what was edited there by hand."""
        return self.ports.checkpoint.adopt(self.run.lanes[0].checkpoint)

    def _attempted(self, step: s.Work) -> f.Fact | None:
        try:
            return self._perform(step)
        except Interrupted:
            raise
        except CloseRefused as error:
            assert isinstance(step, s.Close)
            return f.Refused(step.choice, _said(error), error.hint)
        except UntildoneError as error:
            failed = f.StepFailed(type(step).__name__, _said(error), error.hint)
            if self.run.origin is None:
                with contextlib.suppress(OSError):  # what went wrong first is told
                    self.record(failed)
                raise
            return failed

    def _perform(self, step: s.Work) -> f.Fact | None:  # noqa: C901 - one arm per step
        ports = self.ports
        match step:
            case s.Open():
                stamp = ports.clock.now().strftime("%Y%m%dT%H%M%S%f")
                opened = ports.checkpoint.open(self._origin, stamp)
                return replace(opened, remarks=(*self._remarks, *opened.remarks))
            case s.LoadStories():
                return stories_now(self.run, ports.source)
            case s.TryChecks():
                return self._checker.try_first(step)
            case s.RunAttempt():
                return self._over_budget(step) or self._caller.run_attempt(step)
            case s.MeasureUsage(lane):
                return self._caller.measure(lane)
            case s.Verify(lane):
                return self._checker.verify(lane)
            case s.Save(lane):
                return self._keeper.save(lane)
            case s.Revert(lane):
                return self._keeper.revert(lane)
            case s.Wait():
                return self._over_budget(step) or self._wait(step)
            case s.AwaitPerson():
                ports.human.wait_for_word()
                return None
            case s.AwaitBudget(name):
                return ports.human.new_budget(name)
            case s.Archive():
                return self._keeper.archive()
            case s.AskAboutStory(key):
                return self._decided(key)
            case s.AskChoice():
                choice = ports.human.choose()
                return f.ChoiceMade(choice) if choice else None
            case s.Close(choice):
                assert self.run.origin is not None
                return f.Closed(choice, ports.checkpoint.close(choice, self.run.origin))
            case _:
                assert_never(step)

    def _decided(self, key: StoryKey) -> f.Wish | None:
        human = self.ports.human
        return human.decide(key) if human.present() else unattended(key, self.run.parked[key])

    def _over_budget(self, step: s.RunAttempt | s.Wait) -> f.BudgetReached | None:
        """Looked at between calls only: what is under way is finished, judged and kept."""
        if not self.run.plan.budgets:
            return None
        story = None
        if isinstance(step, s.RunAttempt):
            story = (step.story.id, step.story.key) if step.story else ("", ("", ""))
        over = reached(self.run, self.ports.clock.now(), story)
        return f.BudgetReached(over, waits=self.ports.human.present()) if over else None

    def _wait(self, step: s.Wait) -> f.Fact | None:
        now = self.ports.clock.now()
        if step.until is None:
            assert step.limit is not None
            return self._begin_wait(step.lane, step.limit, step.strikes, now)
        left = (step.until - now).total_seconds()
        if left <= 0:
            return f.WaitOver(step.lane)
        self.ports.human.wait_until(left)
        return None

    def _begin_wait(self, lane_id: int, limit: Trouble, strikes: int, now: datetime) -> f.Fact:
        until = wake_at(limit, strikes, now)
        plan = self.run.plan
        limited = self.run.lanes[lane_id].limited or plan.agent
        agent, model = plan.stand_in
        if agent and limited != label(agent, model):
            self.tell(warning(f"{limited}: {limit.why}; {plan.fallback} steps in"))
            return f.SteppedIn(lane_id, agent, model, until, limit.why, limited)
        return f.WaitStarted(lane_id, until, limit.why, limit.kind)


def _said(error: UntildoneError) -> str:
    return f"{error.message}. {error.state}".strip() if error.state else error.message
