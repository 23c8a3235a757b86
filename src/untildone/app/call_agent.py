"""One agent call: its prompt, whom to call, and how the call went."""

import contextlib
from collections.abc import Callable

from untildone.app.brief import Place, brief_of, intent_of
from untildone.app.course import Course
from untildone.domain.agents.agent import Notice
from untildone.domain.agents.learnings import Notes
from untildone.domain.agents.prompt import render
from untildone.domain.checks.check_files import named_files
from untildone.domain.checks.checks import own_checks
from untildone.domain.errors import StoriesError
from untildone.domain.reporting.event import noticed, warning
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.judging import Verdict, judge
from untildone.domain.run.run import Outcome, StopHow
from untildone.domain.stories.claims import open_tasks
from untildone.domain.stories.story import Story

NOTICE_BUDGET = 512 * 1024
EVENT_SIZE = 100


class Caller:
    """Calls the agent once and judges the call."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._noted = False
        self._kept_open = False

    def run_attempt(self, step: s.RunAttempt) -> f.AttemptEnded:
        ports, plan, story = self._course.ports, self._course.run.plan, step.story
        lane = self._course.run.lanes[step.lane]
        story_id = story.id if story else ""
        ports.checkpoint.stand(lane.checkpoint, story_id or f"iteration-{step.n}")
        if self._course.run.book and story and not self._kept_open:
            ports.folder.keep_open(open_tasks(self._course.run.book))
            self._kept_open = True
        notes = ports.learnings.open() if ports.learnings else Notes()
        prompt = render(brief_of(self._course.run, step, ports.source, ports.template, notes))
        log_file = ports.folder.log_file(step.n)
        ports.folder.keep_prompt(step.n, prompt)
        own = own_checks(story, plan.story_verify)
        self._guard(lane.checkpoint, own)
        ports.meter.start()
        place = Place(ports.cwd, ports.folder.scratch(step.n))
        intent = intent_of(self._course.run, step, prompt, place, ports.clock.now())
        first = notes.path and self._course.run.tally(step.key).learned is None
        learned = notes.text if first else None
        called = (intent.agent, intent.model, intent.resume, own, step.rung, learned)
        started = f.AttemptStarted(step.lane, step.n, story_id, step.key, log_file, *called)
        self._course.record(started)
        report = ports.agent.run(intent, plan.limits, log_file, self._notifier())
        if ports.learnings:
            ports.learnings.keep()
        verdict = judge(report, lane.strikes)
        commits = ports.checkpoint.commits(lane.checkpoint)
        if story and verdict.outcome is Outcome.COMPLETE:
            lost = self._lost(story, lane.checkpoint)
            verdict = Verdict(Outcome.VERIFY_FAILED, lost) if lost else verdict
        for denied in report.reading.denied:
            self._course.tell(warning(f"The agent was not allowed to use a tool: {denied}"))
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
            question=verdict.question,
        )

    def _guard(self, checkpoint: str, own: tuple[str, ...]) -> None:
        """Note the files that the agent may not change."""
        plan = self._course.run.plan
        files = (*plan.check_files, *(named_files(own) if plan.protect_checks else ()))
        if (files or plan.protect) and not (plan.plain and self._noted):
            # A plain loop keeps what an iteration did: its files are compared with the first ones.
            self._course.ports.protected_files.note(checkpoint, plan.protect, files)
            self._noted = True

    def measure(self, lane: int) -> f.UsageMeasured:
        iteration = self._course.iteration(lane)
        if self._course.run.stop and self._course.run.stop.how is StopHow.NOW:
            return f.UsageMeasured(lane, iteration.usage)  # no time for another program
        session_id = iteration.session.id if iteration.session else ""
        usage, warnings = self._course.ports.meter.measure(iteration.usage, session_id)
        return f.UsageMeasured(lane, usage, tuple(warnings))

    def _lost(self, story: Story, checkpoint: str) -> str:
        """Why this work could not be saved as the story's; worth a retry with this reason."""
        astray = self._course.ports.checkpoint.astray(checkpoint)
        if astray or not self._course.ports.source:
            return astray
        # An unreadable file is found by the next look at the stories, which says so.
        with contextlib.suppress(StoriesError):
            book = self._course.ports.source.load()
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
                self._course.tell(event)
                if left <= size:
                    self._course.tell(
                        warning("The agent says a lot; the rest is only in its log file")
                    )
            left -= size

        return notify
