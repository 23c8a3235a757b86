"""One agent call: its prompt, whom to call, and how the call went."""

import contextlib
from collections.abc import Callable

from msgspec import Struct

from untildone.app.run_driver import RunDriver
from untildone.app.story_terms import changed_for_others
from untildone.domain.agents.agent import AgentReport, Ending, Intent, Notice
from untildone.domain.agents.learnings import Notes
from untildone.domain.agents.prompt import NO_CONTEXT, render
from untildone.domain.checks.check_files import named_files, scripts_of
from untildone.domain.checks.checks import in_force
from untildone.domain.checks.terms import own_checks as checks_of
from untildone.domain.errors import StoriesError
from untildone.domain.reporting.event import noticed, warning
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.brief import Place, brief_of, intent_of, requeued_as
from untildone.domain.run.judging import Verdict, judge
from untildone.domain.run.run import Lane, Outcome, Run, StopHow
from untildone.domain.stories.same_story import same_story
from untildone.domain.stories.story import Story, open_tasks

SLOT_REMOVED = "The folder that the story was worked on in was removed, and with it the work"
UNANSWERED = (Outcome.AGENT_ERROR, Outcome.TIMEOUT, Outcome.IDLE_TIMEOUT)
# What the journal takes of one call; the rest is only in its log file.
NOTICE_BUDGET = 512 * 1024
# What a notice takes beside its text: very many short ones count, too.
EVENT_SIZE = 100
LINGERED = "The agent said its last word and did not exit; it was ended, and what it said counts"


class Call(Struct, frozen=True):
    """An agent call that is about to be made, and the fact that says so."""

    intent: Intent
    started: f.AttemptStarted


def run_attempt(driver: RunDriver, step: s.RunAttempt) -> f.AttemptEnded:
    """Call the agent once and judge the call; the start is on disk before the process exists."""
    driver.keep_edits(step.lane)
    make_ready(driver, step)
    call = planned(driver, step)
    driver.ports.meter.start(call.intent.agent)
    driver.record(call.started)
    return called(driver, step, call)


def make_ready(driver: RunDriver, step: s.RunAttempt) -> None:
    """The workspace is where the attempt begins, and what it may not change is noted."""
    checkpoint = driver.run.lanes[step.lane].checkpoint
    name = step.story.id if step.story else f"iteration-{step.n}"
    driver.ports.checkpoint.ensure_at(checkpoint, name)
    _note_protected_files(driver, checkpoint, _own_checks(driver, step))


def planned(driver: RunDriver, step: s.RunAttempt) -> Call:
    """Whom to call and with which words."""
    ports = driver.ports
    _note_open_tasks(driver)
    notes = ports.learnings.open() if ports.learnings else Notes()
    intent = _intent(driver, step, notes)
    log_file = ports.folder.log_file(step.n)
    driver.has_called = True
    own_checks = _own_checks(driver, step)
    return Call(intent, _started(driver.run, step, intent, log_file, own_checks, notes))


def called(driver: RunDriver, step: s.RunAttempt, call: Call) -> f.AttemptEnded:
    """Make the call and judge it."""
    ports, lane = driver.ports, driver.run.lanes[step.lane]
    limits, log_file = driver.run.plan.limits, call.started.log_file
    report = ports.agent.run(call.intent, limits, log_file, _notifier(driver))
    if ports.learnings:
        ports.learnings.keep()
    if report.ending is Ending.LINGERED:
        driver.tell(warning(LINGERED))
    for denied in report.reading.denied:
        driver.tell(warning(f"The agent was not allowed to use a tool: {denied}"))
    if driver.lanes and not driver.lanes.is_there(step.lane):
        verdict = judge(report, lane.limit_hits)
        lost = Verdict(Outcome.VERIFY_FAILED, SLOT_REMOVED)
        return _ended(
            step.lane, report, lost if verdict.outcome is Outcome.COMPLETE else verdict, ()
        )
    commits = ports.checkpoint.commits(lane.checkpoint)
    return _ended(step.lane, report, _judged(driver, step, report, lane), commits)


def _own_checks(driver: RunDriver, step: s.RunAttempt) -> tuple[str, ...]:
    plan = driver.run.plan
    return checks_of(step.story, plan.terms, plan.story_verify)


def _note_open_tasks(driver: RunDriver) -> None:
    """What is open before the first call, for a process that comes after a crash."""
    book = driver.run.book
    if book and not driver.run.plan.plain and not driver.has_called:
        driver.ports.folder.keep_open(open_tasks(book))


def _note_protected_files(driver: RunDriver, checkpoint: str, own_checks: tuple[str, ...]) -> None:
    plan = driver.run.plan
    # A script that came to be since the start is proof from now on.
    named = (*scripts_of(c.command for c in in_force(plan.verify)), *named_files(own_checks))
    files = tuple(dict.fromkeys((*plan.check_files, *(named if plan.protect_checks else ()))))
    # A plain loop keeps what an iteration did: its files are compared with the first ones.
    first = not (plan.plain and driver.has_called)
    if first and (files or plan.protect or plan.runner_settings):
        driver.ports.protected_files.note(checkpoint, plan.protect, files, plan.runner_settings)


def _intent(driver: RunDriver, step: s.RunAttempt, notes: Notes) -> Intent:
    run, ports = driver.run, driver.ports
    source, story = ports.source, step.story
    context = source.context(story) if source and story else NO_CONTEXT
    redone = requeued_as(run, step)
    earlier = ports.branch.diff(redone) if redone and ports.branch else ""
    prompt = render(brief_of(run, step, context, ports.template, notes, earlier))
    ports.folder.keep_prompt(step.n, prompt)
    place = Place(run.lanes[step.lane].slot or ports.cwd, ports.folder.scratch(step.lane))
    return intent_of(run, step, prompt, place, ports.clock.now())


def _started(
    run: Run,
    step: s.RunAttempt,
    intent: Intent,
    log_file: str,
    own_checks: tuple[str, ...],
    notes: Notes,
) -> f.AttemptStarted:
    first = notes.path and run.tally(step.key).learned is None
    return f.AttemptStarted(
        step.lane,
        step.n,
        intent.story_id,
        step.key,
        log_file,
        intent.agent,
        intent.model,
        intent.resume,
        own_checks,
        step.rung,
        notes.text if first else None,
        step.base,
        step.reserved,
    )


def _judged(driver: RunDriver, step: s.RunAttempt, report: AgentReport, lane: Lane) -> Verdict:
    verdict = judge(report, lane.limit_hits)
    if step.story and verdict.outcome is Outcome.COMPLETE:
        lost = _lost(driver, step.story, lane.checkpoint)
        return Verdict(Outcome.VERIFY_FAILED, lost) if lost else verdict
    return verdict


def _ended(
    lane: int, report: AgentReport, verdict: Verdict, commits: tuple[str, ...]
) -> f.AttemptEnded:
    return f.AttemptEnded(
        lane,
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


def measure(driver: RunDriver, lane: int) -> f.UsageMeasured:
    iteration = driver.iteration(lane)
    if driver.run.stop and driver.run.stop.how is StopHow.NOW:
        return f.UsageMeasured(lane, iteration.usage)  # no time for another program
    session_id = iteration.session.id if iteration.session else ""
    usage, warnings = driver.ports.meter.measure(iteration.usage, session_id)
    if usage and usage.estimated and not iteration.spoke and iteration.outcome in UNANSWERED:
        usage = None  # what its records grew by is its own: no model has said a word
    return f.UsageMeasured(lane, usage, tuple(warnings))


def _lost(driver: RunDriver, story: Story, checkpoint: str) -> str:
    """Why this work could not be saved as the story's; worth a retry with this reason."""
    diverged = driver.ports.checkpoint.diverged(checkpoint)
    if diverged or not driver.ports.source or len(driver.run.lanes) > 1:
        return diverged  # of a lane's work the task list is no part
    # An unreadable file is found by the next look at the stories, which says so.
    with contextlib.suppress(StoriesError):
        book = driver.ports.source.load()
        if same_story(story, driver.run.book or book, book) is None:
            return f"Story {story.id} is not found by number and text any more: {book.path}"
        return changed_for_others(driver, book, story.key)
    return ""


def _notifier(driver: RunDriver) -> Callable[[Notice], None]:
    left = NOTICE_BUDGET

    def notify(notice: Notice) -> None:
        nonlocal left
        event = noticed(notice)
        size = EVENT_SIZE + sum(len(str(value)) for value in event.data.values())
        if left > 0:
            driver.tell(event)
            if left <= size:
                driver.tell(warning("The agent says a lot; the rest is only in its log file"))
        left -= size

    return notify
