"""Which events a fact gives rise to: what happened, in the words of the public story."""

from collections.abc import Iterator, Sequence
from typing import assert_never

from msgspec import to_builtins
from msgspec.structs import replace

from untildone.app.wording import (
    STATE_OF,
    WHOLE_IS_RED,
    already_fails,
    check_hint,
    next_command,
    not_verified,
    others_are_open,
    red_hint,
    unfinished_hint,
    unmeasured_budgets,
)
from untildone.domain.agents.agent import Kind, Waiting
from untildone.domain.agents.same_failure import ANOTHER_WAY, next_rung, repeats
from untildone.domain.checks.checks import Proof
from untildone.domain.plain_text import count_of
from untildone.domain.reporting.event import Event, error, warning
from untildone.domain.reporting.views import proven
from untildone.domain.run import fact as f
from untildone.domain.run.machine import awaits_person
from untildone.domain.run.plan import label
from untildone.domain.run.run import Iteration, Outcome, Reason, Run, Stage, Status, StopHow
from untildone.domain.run.run_commands import is_checked, run_commands
from untildone.domain.run.spending import forecast, standing
from untildone.domain.stories.parking import Guidance, Why, blocked


def announce(before: Run, fact: f.Fact, after: Run) -> tuple[Event, ...]:
    """The events that this fact gives rise to, the run's ending included."""
    events = [*_with_lane(fact, after, _of_fact(before, fact, after)), *_of_wish(before, fact)]
    if after.parked is not before.parked:
        events += _set_aside(before, after)
    if after.undecided and not before.undecided:
        events.append(_to_decide(after.undecided[0]))
    ends = after.status is not before.status and after.ended and not before.ended
    if ends and not after.abandoned:
        events += _ending(after)
    if _is_over(after) and not _is_over(before):
        notes = fact.remarks if isinstance(fact, f.Closed) else ()
        data = {"choice": after.choice, "status": after.status, "notes": notes}
        events.append(Event("finished", data))
    return tuple(events)


def _with_lane(fact: f.Fact, run: Run, events: Iterator[Event]) -> Iterator[Event]:
    """Where there are several lanes, every event of one says which."""
    lane = getattr(fact, "lane", None) if len(run.lanes) > 1 else None
    for event in events:
        yield event if lane is None else Event(event.name, {**event.data, "lane": lane})


def _to_decide(story_id: str) -> Event:
    why = f"your decision about story {story_id}: retry, skip, stop, or what the agent should know"
    return Event("waiting", {"why": why, "until": None, "class": "decision"})


def _of_wish(before: Run, fact: f.Fact) -> Iterator[Event]:
    if isinstance(fact, f.GivenUp) and fact.key in before.parked:
        parked, story_id = before.parked[fact.key], fact.key[0]
        yield error(
            f"Story {story_id} was given up",
            parked.text,
            next_command(before.plan.change_id, story_id, parked.why),
            story_id,
            saved_ref=parked.saved_ref,
        )
    if isinstance(fact, f.Guided) and before.origin:
        yield _guided(fact)
    if isinstance(fact, f.StoriesReordered):
        yield Event("reordered", {"story_ids": [key[0] for key in fact.keys]})
    if isinstance(fact, f.StoryAdded):
        yield Event("added", {"story_id": fact.key[0], "title": fact.key[1]})


def _guided(said: f.Guided | Guidance) -> Event:
    return Event("guided", {"story_id": said.key[0] if said.key else "", "text": said.text})


def _of_fact(before: Run, fact: f.Fact, after: Run) -> Iterator[Event]:  # noqa: C901 - one arm each
    match fact:
        case f.Opened():
            yield _run_started(after, resumed=False)
            yield from map(_guided, after.guidance)  # what was said before it began
            yield from map(warning, fact.remarks)
            if fact.archived_ref:
                text = f"An earlier ralph/{after.plan.change_id} was stored as: {fact.archived_ref}"
                yield warning(text)
        case f.Resumed():
            yield _run_started(after, resumed=True)
            for lane in after.lanes:
                if lane.waiting:
                    yield _waiting(lane.waiting)
        case f.AskedAgain():
            yield _run_started(after, resumed=True)
            yield _complete(after)
        case f.StoriesLoaded():
            yield _stories_loaded(before, after, fact)
            yield from _no_more_to_call(after, fact)
        case f.ChecksTried():
            yield from _checks_tried(fact, after)
        case f.AttemptStarted():
            yield _iteration_started(after, fact)
        case f.UsageMeasured():
            yield from map(warning, (*fact.warnings, *unmeasured_budgets(before, after, fact.lane)))
            yield from _judged(before, after, fact.lane)
        case f.Verified():
            yield from _judged(before, after, fact.lane)
        case f.Saved():
            yield from _saved(before, fact, after)
        case f.SlotReady() | f.LandIntended() | f.Landed() | f.Requeued():
            yield from _beside(before, fact, after)
        case f.Reverted():
            yield from _reverted(before, fact, after)
        case f.WaitStarted():
            yield _waiting(Waiting(fact.until, fact.why, fact.kind))
        case f.BudgetReached() if after.over and after.over is not before.over:
            yield from _over_budget(after)
        case f.BudgetSet():
            yield from _budget_set(before, after)
        case f.Archived():
            yield from map(warning, fact.remarks)
            yield _archived(before, fact)
        case f.Refused():
            yield error(fact.message, "refused", fact.hint)
        case f.StepFailed():
            yield error(fact.message, fact.message, fact.hint, _story_id(before, fact.lane))
        case f.Adopted():
            yield from map(warning, fact.remarks)
        case _:
            return


def _checks_tried(fact: f.ChecksTried, run: Run) -> Iterator[Event]:
    for found in fact.failing:
        if found.command not in fact.cannot_start:
            yield warning(already_fails(found, baseline=run.plan.baseline))
    yield from map(warning, fact.remarks)
    if run.cannot_start:
        yield error(run.error, run.error, check_hint(run.plan.change_id))


def _archived(run: Run, fact: f.Archived) -> Event:
    if fact.refused:
        return warning(f"The change {run.plan.change_id} was not archived: {fact.refused}")
    data = {"change_id": run.plan.change_id, "path": fact.path, "commit": fact.commit}
    return Event("archived", data)


def _waiting(waiting: Waiting) -> Event:
    data = {"why": waiting.why, "until": waiting.until, "class": waiting.kind}
    return Event("waiting", data)


def _over_budget(run: Run) -> Iterator[Event]:
    over, change = run.over, run.plan.change_id
    assert over is not None
    command = f"`untildone resume {change} --budget {over.enough}`"
    told = {"budget": over.name, "spent": over.spent, "limit": over.limit}
    if run.ended:
        yield error(over.said, over.said, f"{command} goes on", over.story_id, **told)
    else:
        yield warning(
            f"{over.said}. The loop waits: type a new amount (such as {over.enough}) or stop; "
            f"{command} in another terminal does the same"
        )
        yield Event("waiting", {"why": over.said, "until": None, "class": "budget"} | told)


def _budget_set(before: Run, after: Run) -> Iterator[Event]:
    if before.over and after.over and not after.ended:
        yield warning(f"{after.over.said}. That is not enough; {after.over.enough} would be")
    data: dict[str, object] = {"budgets": standing(after), "paused": bool(after.over)}
    rest = forecast(after)
    yield Event("budget_set", data | {"forecast": rest} if rest else data)


def _run_started(run: Run, *, resumed: bool) -> Event:
    plan = run.plan
    return Event(
        "run_started",
        {
            "change_id": plan.change_id,
            "run_id": plan.run_id,
            "agent": plan.agent,
            "source": plan.source,
            "task": plan.task,
            "done_criteria": plan.done,
            "max_iterations": plan.limits.max_iterations,
            "max_retries": plan.limits.max_retries,
            "verify": plan.verify,
            "commands": [to_builtins(command) for command in run_commands(plan)],
            "checked": is_checked(plan),
            "verify_found": plan.verify_found,
            "protected": plan.protected,
            "permissions": plan.permissions,
            "sandbox": "bwrap" if plan.contained else "off",
            "original_branch": run.origin.label if run.origin else "",
            "backup_ref": run.backup_ref,
            "resumed": resumed,
            "budgets": standing(run),
        }
        | ({"agent_args": plan.agent_args} if plan.agent_args else {})
        | ({"agent_env": plan.agent_env} if plan.agent_env else {})
        | ({"notify": plan.notify} if plan.notify else {})
        | ({"permissions_hold": plan.permissions_hold} if plan.permissions_hold else {}),
    )


def _stories_loaded(before: Run, run: Run, fact: f.StoriesLoaded) -> Event:
    data: dict[str, object] = {"total": fact.total, "complete": fact.complete}
    if run.book and not run.plan.plain:
        story = run.next_story
        data["next"] = story.id if story else None
        if not (run.iterations and before.listed):
            data["stories"] = [
                {"id": s.id, "title": s.title, "state": "done" if s.done else "open"}
                for s in run.book.stories
            ]
        data["ignored"] = [{"line": r.line, "why": r.why} for r in run.book.ignored]
        rest = forecast(run)
        if rest:
            data["forecast"] = rest
    return Event("stories_loaded", data)


def _no_more_to_call(run: Run, fact: f.StoriesLoaded) -> Iterator[Event]:
    if fact.unasked:
        yield warning(others_are_open(run.plan, fact.unasked))
    if awaits_person(run):
        why = f"all stories are finished; say `untildone done {run.plan.change_id}`"
        yield Event("waiting", {"why": why, "until": None})


def _iteration_started(run: Run, fact: f.AttemptStarted) -> Event:
    iteration = run.open_iteration(fact.lane)
    agent, usual = iteration.agent or run.plan.agent, label(*run.plan.rungs[0])
    # The story names another agent, or it is the ladder's or the fallback's turn.
    other = iteration.agent and label(agent, iteration.model) != usual
    return Event(
        "iteration_started",
        {
            "n": iteration.n,
            "story_id": iteration.story_id,
            "title": fact.story_key[1],
            "attempt": iteration.attempt,
            "attempts_allowed": iteration.attempts_allowed,
            "log_file": iteration.log_file,
            "agent": agent,
            "model": iteration.model,
        }
        | ({"instead_of": usual} if other else {}),
    )


def _judged(before: Run, after: Run, lane: int) -> Iterator[Event]:
    iteration = after.lanes[lane].iteration
    already = before.open_iteration(lane).stage is Stage.JUDGED
    if iteration and iteration.stage is Stage.JUDGED and not iteration.limit and not already:
        yield Event(
            "iteration_ended",
            {
                "n": iteration.n,
                "story_id": iteration.story_id,
                "attempt": iteration.attempt,
                "outcome": iteration.outcome,
                "outcome_class": iteration.outcome_class,
                "reason": iteration.reason,
                "tokens_used": iteration.usage.total if iteration.usage else None,
                "commits": iteration.commits,
            }
            | ({"budgets": standing(after)} if after.plan.budgets else {}),
        )


def _beside(before: Run, fact: f.Beside, after: Run) -> Iterator[Event]:
    """What happens only where several stories are worked on at once."""
    iteration = before.lanes[fact.lane].iteration
    told: dict[str, object] = {"story_id": iteration.story_id if iteration else ""}
    match fact:
        case f.SlotReady():
            yield Event("slot_ready", {"path": fact.path})
            yield from map(warning, fact.remarks)
        case f.LandIntended():
            yield Event("landing", told | {"base": fact.tip, "candidate": fact.candidate})
        case f.Landed():
            yield Event("landed", told | {"commit": fact.commit})
            for command in fact.flaky:
                yield warning(f"A check failed once and passed on the very same files: `{command}`")
            kept = f.Saved(fact.lane, fact.commit, fact.commit, fact.remarks)
            kept = replace(kept, unchanged=fact.unchanged, own_tests=fact.own_tests)
            yield from _saved(before, kept, after)
        case f.Requeued():
            yield from map(warning, fact.remarks)
            count = before.tally(iteration.story_key).requeues + 1 if iteration else 0
            more = {"files": fact.files, "requeues": count, "saved_ref": fact.saved_ref}
            yield Event("requeued", told | {"why": fact.why} | more)
        case _:
            assert_never(fact)


def _saved(before: Run, fact: f.Saved, after: Run) -> Iterator[Event]:
    iteration = before.open_iteration(fact.lane)
    yield from map(warning, fact.remarks)
    if fact.commit:
        name = f"iteration-{iteration.n}" if before.plan.plain else iteration.story_id
        data = {"story_id": name, "commit": fact.commit, "attempt": iteration.attempt}
        proof = after.iterations[-1].proof if after.iterations else Proof.NONE
        data |= {"verified": proof is Proof.VERIFIED, "unchanged": fact.unchanged}
        yield Event("checkpoint_saved", data)
    if _first_promise(before, iteration):
        yield warning(
            "The agent said COMPLETE, which does not end this run: `untildone done "
            f"{before.plan.change_id}` does"
        )
    if fact.own_tests:
        yield warning(not_verified(iteration.story_id, fact.own_tests))


def _first_promise(run: Run, iteration: Iteration) -> bool:
    """Whether a plain run that only the person ends hears COMPLETE for the first time."""
    ends = not run.plan.person_ends or run.person_done
    if ends or iteration.outcome is not Outcome.COMPLETE:
        return False
    return all(earlier.outcome is not Outcome.COMPLETE for earlier in run.iterations)


def _reverted(before: Run, fact: f.Reverted, after: Run) -> Iterator[Event]:
    iteration = before.open_iteration(fact.lane)
    story_id, change = iteration.story_id, after.plan.change_id
    yield from map(warning, fact.remarks)
    yield Event("reverted", {"story_id": story_id, "saved_ref": fact.saved_ref})
    if iteration.limit or iteration.outcome is Outcome.INTERRUPTED:
        return
    if iteration.trouble and iteration.trouble.kind is Kind.NOT_LOGGED_IN:
        agent = iteration.agent or after.plan.agent
        yield error(
            f"The agent `{agent}` is not logged in; no attempt was used up",
            iteration.reason,
            f"Log in (`untildone agents` says how), then `untildone resume {change}`",
            story_id,
        )
    elif iteration.fatal:
        yield _given_up(iteration, fact.saved_ref, after, iteration.reason)
    elif after.reason is Reason.MAX_RETRIES:
        last = f"Story {story_id}: no retry is left after attempt {iteration.attempt}"
        blocks = blocked(after.book or before.book, after.finished, [iteration.story_key])
        more = _not_started(blocks.get(iteration.story_key, ()))
        yield _given_up(iteration, fact.saved_ref, after, last + more)
    elif not after.ended and iteration.story_key not in after.parked:
        yield _retrying(iteration, after)


def _given_up(iteration: Iteration, saved_ref: str, run: Run, message: str) -> Event:
    change, story_id = run.plan.change_id, iteration.story_id
    return error(
        message,
        iteration.reason,
        f"`untildone attempts {change} --show {story_id}/{iteration.attempt}` shows the last "
        f"attempt, `untildone resume {change}` tries again",
        story_id,
        saved_ref=saved_ref,
    )


def _retrying(iteration: Iteration, run: Run) -> Event:
    tally = run.tally(iteration.story_key)
    last = iteration.attempt + 1 == iteration.attempts_allowed
    rungs = run.plan.rungs_of(iteration.story_key)
    rung = next_rung(tally.tried, len(rungs), last=last)
    data: dict[str, object] = {
        "story_id": iteration.story_id,
        "attempt": iteration.attempt + 1,
        "attempts_allowed": iteration.attempts_allowed,
        "retry": tally.spent,
        "reason": iteration.reason,
    }
    if (count := repeats(tally.tried)) >= ANOTHER_WAY:
        data["same_failure"] = count
    if rung > iteration.rung:
        data["agent"] = label(*rungs[rung])
    return Event("retrying", data)


def _ending(run: Run) -> Iterator[Event]:
    # A signal ends the process without a choice: `finished` alone says so.
    if run.status is Status.STOPPED and run.stop and run.stop.signal:
        return
    if run.reason is Reason.MAX_ITERATIONS:
        cap = count_of(run.plan.limits.max_iterations, "iteration")
        text = f"The cap of {cap} is reached"
        yield error(text, text, f"`untildone resume {run.plan.change_id}` goes on with a new cap")
    if run.reason is Reason.STALLED:
        yield _stalled(run)
    if run.reason is Reason.PARKED:
        yield from _still_parked(run)
    if run.reason is Reason.UNFINISHED:
        change, red = run.plan.change_id, run.error.startswith(WHOLE_IS_RED)
        hint = red_hint(change, run.error) if red else unfinished_hint(change, "resume")
        yield error(run.error, run.error, hint)
    if run.choice is None:
        yield _complete(run)


def _complete(run: Run) -> Event:
    data: dict[str, object] = {
        "reason": run.reason,
        "options": ["cleanup", "keep"],
        "checked": is_checked(run.plan),
        "stories": proven(run),
    }
    return Event("complete", data | ({"by": "person"} if run.plan.person_ends else {}))


def _stalled(run: Run) -> Event:
    change, idle = run.plan.change_id, run.iterations[-run.commitless :]
    count = f"{len(idle)} iterations in a row" if len(idle) > 1 else "The last iteration"
    what = "only took earlier work back" if any(it.commits for it in idle) else "left no commit"
    text = f"{count} {what}; what was done before is kept"
    shows = f"`untildone logs {change}` shows what the agent said"
    return error(text, text, f"{shows}, `untildone resume {change}` goes on")


def _set_aside(before: Run, after: Run) -> Iterator[Event]:
    """Stories that are passed over from now on, and those that are taken up again."""
    fresh = {k: v for k, v in after.parked.items() if before.parked.get(k) != v}
    blocks = blocked(after.book or before.book, after.finished, fresh)
    for key, parked in fresh.items():
        data = {
            "story_id": key[0],
            "title": key[1],
            "why": parked.why,
            "question": parked.text if parked.asks else "",
            "reason": "" if parked.asks else parked.text,
            "saved_ref": parked.saved_ref,
            "blocks": blocks.get(key, ()),
        }
        yield Event("story_parked", data)
    for key in before.parked:
        if key not in after.parked and key not in after.finished:
            yield Event("story_released", {"story_id": key[0], "title": key[1]})


def _still_parked(run: Run) -> Iterator[Event]:
    change = run.plan.change_id
    blocks = blocked(run.book, run.finished, run.parked)
    for key, parked in run.parked.items():
        story_id = key[0]
        text = f"Story {story_id} {STATE_OF[parked.why]}{_not_started(blocks.get(key, ()))}"
        command = next_command(change, story_id, parked.why)
        if parked.why is Why.SKIPPED:  # as the person wanted it
            yield warning(f"{text}. To take it up again: {command}")
            continue
        yield error(
            text,
            parked.text,
            command,
            story_id,
            saved_ref=parked.saved_ref,
        )


def _not_started(blocks: Sequence[str]) -> str:
    return f"; not started because of it: {', '.join(blocks)}" if blocks else ""


def _is_over(run: Run) -> bool:
    at_once = run.stop is not None and run.stop.how is StopHow.NOW and run.ended
    left_open = run.choice is None and (run.status is Status.STOPPED or at_once)
    return run.closed or run.abandoned or left_open


def _story_id(run: Run, lane: int) -> str:
    iteration = run.lanes[lane].iteration
    return iteration.story_id if iteration else ""
