"""When a run ends: done, stopped, stalled, stuck at its cap."""

from msgspec.structs import replace

from untildone.domain.run.plan import Done
from untildone.domain.run.run import Choice, Iteration, Outcome, Reason, Run, Status, StopHow


def after_plain_iteration(run: Run, iteration: Iteration) -> Run:
    promised = run.plan.done is Done.PROMISE and iteration.outcome is Outcome.COMPLETE
    if promised:
        last = replace(run.iterations[-1], done_check=True)
        run = replace(run, iterations=(*run.iterations[:-1], last))
    if promised or run.person_done:
        return end(run, Status.DONE, Reason.SUCCESS)
    if run.plan.done is Done.TASKS and not must_stop_now(run):
        return run  # the boxes decide first, see stories_loaded
    if stop_is_due(run):
        return end(run, Status.STOPPED, Reason.STOPPED)
    if run.commitless >= run.plan.limits.stall_threshold:
        return end(run, Status.STALLED, Reason.STALLED)
    if iterations_used(run) >= run.plan.limits.max_iterations:
        return end(run, Status.STUCK, Reason.MAX_ITERATIONS)
    return run


def asked_for_is_done(run: Run) -> Run:
    """Stopped, because others are open; what the flags choose for the end is carried out."""
    chosen = run.plan.on_complete
    choice = Choice(chosen) if chosen in tuple(Choice) else None
    return replace(end(run, Status.STOPPED, Reason.STOPPED), choice=choice)


def iterations_used(run: Run) -> int:
    """Those that count against the cap; a call at a limit is none, whatever its number was."""
    return len(run.iterations) + len(run.open_iterations)


def must_stop_now(run: Run) -> bool:
    return run.stop is not None and run.stop.how is StopHow.NOW


def stop_now(run: Run) -> Run:
    """Stopped, if a stop wants it at once."""
    return end(run, Status.STOPPED, Reason.STOPPED) if must_stop_now(run) else run


def stop_is_due(run: Run) -> bool:
    """Whether a stop takes effect between two iterations."""
    if not run.stop:
        return False
    if run.stop.how is not StopHow.AFTER_STORY or run.plan.plain or not run.iterations:
        return True
    return run.iterations[-1].outcome is Outcome.COMPLETE


def person_may_end_run(run: Run) -> bool:
    """The person's word ends a plain loop, and a manual one when its stories are finished."""
    manual = run.plan.done is Done.MANUAL and all_finished(run)
    return run.person_done and (run.plan.plain or manual)


def all_finished(run: Run) -> bool:
    """Whether every story is finished, by the last look at them."""
    return not run.plan.plain and 0 < run.story_count == run.finished_count


def end(run: Run, status: Status, reason: Reason) -> Run:
    """The run, ended; while other lanes have work to settle, it is going to be."""
    if not any(lane.iteration and not lane.broken for lane in run.lanes):
        return replace(run, status=status, reason=reason, ending=None)
    if run.ending and status is not Status.STOPPED:
        return run
    return replace(run, ending=(status, reason))


def settled(run: Run) -> Run:
    """The run as it was going to end, if no lane has work to settle any more."""
    return end(run, *run.ending) if run.ending else run
