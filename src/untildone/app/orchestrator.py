"""The loop: take the next step, perform it through a port, fold in the fact, record, publish."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from untildone.domain import fact as f
from untildone.domain import step as s
from untildone.domain.agent import Intent, Notice, Trouble
from untildone.domain.errors import (
    CloseRefused,
    Interrupted,
    StoriesError,
    StoryLost,
    UntildoneError,
    WorkAstray,
)
from untildone.domain.event import Event, announce, noticed, warning
from untildone.domain.machine import apply, next_steps
from untildone.domain.policy import Verdict, judge, wake_at
from untildone.domain.prompt import Brief, render
from untildone.domain.run import Done, Iteration, Lane, Origin, Outcome, Run, StopHow
from untildone.domain.story import Story, StoryBook, StoryContext, checked
from untildone.domain.value import dataclass
from untildone.ports import (
    Agent,
    Checkpoint,
    Clock,
    Folder,
    Human,
    Mail,
    Meter,
    Record,
    StorySource,
    Verifier,
)

NOTICE_BUDGET = 512 * 1024
EVENT_SIZE = 100


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything the loop reaches the world through."""

    agent: Agent
    source: StorySource | None
    checkpoint: Checkpoint
    verifier: Verifier
    meter: Meter
    mail: Mail
    human: Human
    record: Record
    folder: Folder
    clock: Clock
    cwd: str
    template: str = ""


class Orchestrator:
    """Drives one run to its end."""

    def __init__(
        self, ports: Ports, run: Run, origin: Origin, remarks: tuple[str, ...] = ()
    ) -> None:
        self.ports = ports
        self._origin = origin
        self._remarks = remarks
        self.run = run

    def drive(self) -> Run:
        """Step by step until nothing is left to do."""
        while not isinstance(step := next_steps(self.run)[0], s.Finish):
            fact = self._attempted(step)
            for request in self.ports.mail.take():
                self.record(request)
            if fact:
                self.record(fact)
        return self.run

    def record(self, fact: f.Fact) -> None:
        """Fold a fact into the run and write it down before anything else happens."""
        at = self.ports.clock.now()
        before, self.run = self.run, apply(self.run, fact, at)
        self.ports.record.fact(fact, announce(before, fact, self.run), self.run, at)

    def adopt(self) -> tuple[str, tuple[str, ...]]:
        """Back to the workspace of an earlier process, with what was edited there by hand."""
        return self.ports.checkpoint.adopt(self.run.lanes[0].checkpoint)

    def tell(self, event: Event) -> None:
        """An event that changes nothing."""
        self.ports.record.notice(event, self.ports.clock.now())

    def _attempted(self, step: s.Work) -> f.Fact | None:
        try:
            return self._perform(step)
        except Interrupted:
            raise
        except CloseRefused as error:
            assert isinstance(step, s.Close)
            return f.Refused(step.choice, _said(error), error.hint)
        except UntildoneError as error:
            if self.run.origin is None:
                raise
            return f.StepFailed(type(step).__name__, _said(error), error.hint)

    def _perform(self, step: s.Work) -> f.Fact | None:  # noqa: C901 - one arm per step
        ports = self.ports
        match step:
            case s.Open():
                stamp = ports.clock.now().strftime("%Y%m%dT%H%M%S%f")
                opened = ports.checkpoint.open(self._origin, stamp)
                return replace(opened, remarks=(*self._remarks, *opened.remarks))
            case s.LoadStories():
                return self._load()
            case s.RunAttempt():
                return self._run_attempt(step)
            case s.MeasureUsage(lane):
                return self._measure(lane)
            case s.Verify(lane):
                return self._verify(lane)
            case s.Save(lane):
                return self._save(lane)
            case s.Revert(lane):
                return self._revert(lane)
            case s.Wait():
                return self._wait(step)
            case s.AwaitPerson():
                ports.human.wait_for_word()
                return None
            case s.AskChoice():
                choice = ports.human.choose()
                return f.ChoiceMade(choice) if choice else None
            case s.Close(choice):
                assert self.run.origin is not None
                return f.Closed(choice, ports.checkpoint.close(choice, self.run.origin))
            case _:
                assert_never(step)

    def _load(self) -> f.StoriesLoaded:
        source = self.ports.source
        book = checked(source.load()) if source else StoryBook("", "", "", ())
        if self.run.plan.plain:
            done = self.run.plan.done is Done.TASKS and 0 < book.total == book.complete
            return f.StoriesLoaded(book.total, book.complete, done, book=book)
        count = len(book.stories)
        open_stories = book.open_stories(self.run.finished)
        if open_stories and book.next_story(self.run.finished) is None:
            names = ", ".join(story.id for story in open_stories)
            raise StoriesError(f"The open stories wait for each other in {book.path}: {names}")
        finished = count - len(open_stories)
        done = finished == count and self.run.plan.done is not Done.MANUAL
        return f.StoriesLoaded(book.total, book.complete, done, book, count, finished)

    def _run_attempt(self, step: s.RunAttempt) -> f.AttemptEnded:
        ports, plan, story = self.ports, self.run.plan, step.story
        lane = self.run.lanes[step.lane]
        story_id = story.id if story else ""
        ports.checkpoint.stand(lane.checkpoint, story_id or f"iteration-{step.n}")
        context = ports.source.context(story) if ports.source and story else StoryContext()
        brief = Brief(
            change=plan.change_id,
            story=story,
            task=plan.task,
            context=context,
            verify=plan.verify,
            reason=step.reason,
            template=ports.template,
            tasks_file=self.run.book.path if self.run.book else "",
        )
        prompt = render(brief)
        log_file = ports.folder.log_file(step.n)
        ports.folder.keep_prompt(step.n, prompt)
        key = story.key if story else ("", "")
        ports.meter.start()
        now = ports.clock.now()
        agent, model = self._whom(lane, now)
        resume = self.run.conversation(key, agent) if plan.resume_session else None
        self.record(
            f.AttemptStarted(step.lane, step.n, story_id, key, log_file, agent, model, resume)
        )
        intent = Intent(
            prompt=prompt,
            cwd=ports.cwd,
            scratch=ports.folder.scratch(step.n),
            story_id=story_id,
            attempt=step.attempt,
            model=model,
            permissions=plan.permissions,
            resume=resume,
            asked=now,
            agent=agent,
        )
        report = ports.agent.run(intent, plan.limits, log_file, self._notifier())
        verdict = judge(report, lane.strikes)
        commits = ports.checkpoint.commits(lane.checkpoint)
        complete = verdict.outcome is Outcome.COMPLETE
        lost = self._lost(story, lane.checkpoint) if story and complete else ""
        if lost:
            verdict = Verdict(Outcome.VERIFY_FAILED, lost)
        for denied in report.reading.denied:
            self.tell(warning(f"The agent was not allowed to use a tool: {denied}"))
        return f.AttemptEnded(
            step.lane,
            verdict.outcome,
            verdict.reason,
            commits,
            report.reading.usage,
            verdict.trouble,
            report.reading.session,
            report.ending,
            report.exit_code,
            report.spoke,
        )

    def _whom(self, lane: Lane, now: datetime) -> tuple[str, str]:
        """The agent to call and its model: the stand-in until the usual one is past its limit."""
        other = lane.stand_in
        if other and now < other.until:
            return other.agent, other.model
        return self.run.plan.agent, self.run.plan.model

    def _lost(self, story: Story, checkpoint: str) -> str:
        """Why this work could not be saved as the story's; worth a retry with this reason."""
        astray = self.ports.checkpoint.astray(checkpoint)
        if astray or not self.ports.source:
            return astray
        # An unreadable file is found by the next look at the stories, which says so.
        with contextlib.suppress(StoriesError):
            book = self.ports.source.load()
            if book.find(story.key) is None:
                return f"Story {story.id} is not found by number and text any more: {book.path}"
        return ""

    def _notifier(self) -> Callable[[Notice], None]:
        left = NOTICE_BUDGET

        def notify(notice: Notice) -> None:
            nonlocal left
            event = noticed(notice)
            size = EVENT_SIZE + sum(len(str(value)) for value in event.data.values())
            if left > 0:
                self.tell(event)
                if left <= size:
                    self.tell(warning("The agent says a lot; the rest is only in its log file"))
            left -= size

        return notify

    def _measure(self, lane: int) -> f.UsageMeasured:
        iteration = _iteration(self.run.lanes[lane])
        if self.run.stop and self.run.stop.how is StopHow.NOW:
            return f.UsageMeasured(lane, iteration.usage)  # no time for another program
        session_id = iteration.session.id if iteration.session else ""
        usage, warnings = self.ports.meter.measure(iteration.usage, session_id)
        return f.UsageMeasured(lane, usage, tuple(warnings))

    def _verify(self, lane: int) -> f.Verified:
        for command in self.run.plan.verify:
            self.tell(Event("verify_started", {"command": command}))
            reason = self.ports.verifier.run(command, self.run.plan.limits.timeout_min * 60)
            data = {"command": command, "passed": not reason, "reason": reason}
            self.tell(Event("verify_ended", data))
            if reason:
                return f.Verified(lane, passed=False, reason=reason)
        return f.Verified(lane, passed=True)

    def _save(self, lane_id: int) -> f.Saved | f.Verified:
        ports, plan = self.ports, self.run.plan
        lane = self.run.lanes[lane_id]
        iteration = _iteration(lane)
        name = f"iteration-{iteration.n}" if plan.plain else iteration.story_id
        remarks: tuple[str, ...] = ()
        if not plan.plain and ports.source:
            book = self.run.book or ports.source.load()
            story = book.find(iteration.story_key)
            try:
                remarks = ports.source.settle(story, book) if story else ()
            except StoryLost as lost:
                # Worth a retry with this reason: what cannot be ticked must not be saved.
                return f.Verified(lane_id, passed=False, reason=lost.message)
        message = (
            f"checkpoint: {name}\n\nUntildone-Run: {plan.run_id}\n"
            f"Untildone-Story: {name}\nUntildone-Attempt: {iteration.attempt}\n"
        )
        try:
            saved = ports.checkpoint.save(
                lane_id, lane.checkpoint, message, only_changes=plan.plain
            )
        except WorkAstray as astray:
            return f.Verified(lane_id, passed=False, reason=astray.message)
        return f.Saved(lane_id, saved.commit, saved.checkpoint, (*remarks, *saved.remarks))

    def _revert(self, lane_id: int) -> f.Reverted:
        lane = self.run.lanes[lane_id]
        it = _iteration(lane)
        story = f"{it.story_id}-limit" if it.limit else it.story_id
        attempt = it.n if it.limit else it.attempt
        reverted = self.ports.checkpoint.revert(lane_id, lane.checkpoint, story, attempt)
        if self.ports.source and self.run.book:
            # An unreadable file is found by the next look at the stories, which says so.
            with contextlib.suppress(StoriesError):
                self.ports.source.take_back(self.run.book)
        return reverted

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
        plan, other = self.run.plan, self.run.lanes[lane_id].stand_in
        works = other is not None and now < other.until
        if plan.fallback and not works:
            agent, model = plan.stand_in
            self.tell(warning(f"{plan.agent}: {limit.why}; {plan.fallback} steps in"))
            return f.SteppedIn(lane_id, agent, model, until, limit.why)
        return f.WaitStarted(lane_id, until, limit.why, limit.kind)


def _said(error: UntildoneError) -> str:
    return f"{error.message}. {error.state}".strip() if error.state else error.message


def _iteration(lane: Lane) -> Iteration:
    assert lane.iteration is not None
    return lane.iteration
