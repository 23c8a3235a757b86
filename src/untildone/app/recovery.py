"""What a crash left behind: the facts that the dead process could not write."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from untildone.domain.run import apply_fact
from untildone.domain.run import fact as f
from untildone.domain.run.machine import apply, begin
from untildone.domain.run.run import Origin, Outcome, Run, Stage
from untildone.ports import Checkpoint, Lanes, RunBranch

# What the operation is called that takes a single story back.
UNDO_STORY = "undo story"
DIED = "the loop ended during this iteration"


def missing_facts(
    run: Run,
    origin: Origin,
    checkpoint: Checkpoint,
    lanes: Lanes | None = None,
    branch: RunBranch | None = None,
) -> tuple[f.Fact, ...]:
    """Ask the checkpoint where it stands; afterwards the machine simply goes on.

    Beside others each lane has a workspace of its own, and the branch knows what has landed.
    """
    if run.origin is None:
        opened = checkpoint.reopened(origin)
        return (opened,) if opened else (f.Abandoned("the start was cut short"),)
    if lanes and branch:
        return tuple(_of_lanes(run, lanes, branch))
    facts: list[f.Fact] = []
    for lane in run.lanes:
        iteration = lane.iteration
        if iteration is None:
            continue
        if iteration.stage is Stage.RUNNING:
            commits = checkpoint.commits(lane.checkpoint)
            facts.append(f.AttemptEnded(lane.id, Outcome.INTERRUPTED, DIED, commits))
        elif iteration.stage is Stage.JUDGED:
            name = f"iteration-{iteration.n}" if run.plan.plain else iteration.story_id
            commit = checkpoint.saved_as(lane.checkpoint, name, iteration.attempt)
            if commit:
                paths = checkpoint.changed_between(lane.checkpoint, commit)
                facts.append(f.Saved(lane.id, commit, commit, paths=paths))
    return tuple(facts)


def _of_lanes(run: Run, lanes: Lanes, branch: RunBranch) -> Iterator[f.Fact]:
    for lane in run.lanes:
        iteration, landing = lane.iteration, lane.landing
        if iteration and iteration.stage is Stage.RUNNING:
            left = lanes.as_left(lane.id, lane.checkpoint)
            commits = left.checkpoint.commits(lane.checkpoint) if left else ()
            yield f.AttemptEnded(lane.id, Outcome.INTERRUPTED, DIED, commits)
        elif run.plan.in_tracker:
            continue  # it has to be told first, by whoever goes on
        elif iteration and landing and branch.builds_on(landing.candidate):
            branch.forget_work(iteration.story_id, iteration.attempt)
            yield f.Landed(lane.id, landing.candidate)


def replay(facts: Iterable[tuple[f.Fact, datetime]]) -> Run | None:
    """The run that a journal tells of, or None for an empty journal."""
    known = list(facts)
    wanted = {fact.facts for fact, _ in known if isinstance(fact, f.TakenBack)}
    run: Run | None = None
    states: dict[int, Run | None] = {}
    for k, (fact, at) in enumerate(known):
        if k in wanted:
            states[k] = run
        if isinstance(fact, f.Started):
            run = begin(fact, at)
        elif run and isinstance(fact, f.TakenBack) and (then := states[fact.facts]):
            run = apply_fact.taken_back(run, then)
        elif run:
            run = apply(run, fact, at)
    return run


def facts_before(name: str, commit: str, facts: Sequence[f.Fact]) -> int | None:
    """How many facts a run had before an operation; None if the operation left the run alone."""
    for k in reversed(range(len(facts))):
        fact = facts[k]
        if name == "checkpoint" and isinstance(fact, f.Saved) and fact.checkpoint == commit:
            return _last(facts[:k], f.AttemptStarted)
        if name in ("cleanup", "keep") and isinstance(fact, f.Closed):
            k = _last(facts[:k], f.ChoiceMade)
            # After a kill in the middle of it, the choice was made once more to end it.
            while isinstance(facts[k - 1], f.ChoiceMade):
                k -= 1
            return k
        if name == "restore" and isinstance(fact, f.Abandoned):
            return k
        if name == UNDO_STORY and isinstance(fact, f.StoryUndone):
            return k
    return None


def story_base(facts: Sequence[tuple[f.Fact, datetime]], commit: str) -> str:
    """Where the branch was before a story was kept as this commit; empty if none was."""
    for k, (fact, _) in enumerate(facts):
        if isinstance(fact, f.Landed | f.Saved) and fact.commit == commit:
            then = replay(facts[:k])
            assert then is not None
            lane = then.lanes[fact.lane]
            return lane.landing.tip if lane.landing else lane.checkpoint
    return ""


def _last(facts: Sequence[f.Fact], kind: type) -> int:
    return max(k for k, fact in enumerate(facts) if isinstance(fact, kind))
