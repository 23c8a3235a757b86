"""What the start of a run decides about its lanes: how many, and what makes a checkout work."""

from collections.abc import Callable
from itertools import islice
from statistics import median

from msgspec.structs import replace

from untildone.adapters.records.run_folder import run_ids
from untildone.adapters.slots.lane_environment import free_memory
from untildone.adapters.slots.setup import AUTO, SetUp, found_setups
from untildone.adapters.slots.slot import slot_of, slots_folder
from untildone.commands.run_account import told_account
from untildone.domain.errors import UntildoneError, UserError
from untildone.domain.run.lanes import LaneCount, lanes_that_pay
from untildone.domain.run.plan import Plan
from untildone.wiring.repository import Repository

# How long stories take is told by so many runs, the newest.
RUNS = 3


def with_lanes(
    repo: Repository, plan: Plan, agrees: Callable[[str], bool] | None = None
) -> tuple[Plan, tuple[str, ...]]:
    """The plan with `auto` spelled out, and what is to be said about it.

    The commands are those of now: what a story writes into such a file is never run by us.
    """
    if plan.lanes == 1:
        return plan, ()
    said: list[str] = []
    if not plan.lanes:
        count = count_of_lanes(repo)
        said.append(f"Lanes: {count.lanes}, because {count.why}")
        plan = replace(plan, lanes=count.lanes)
    if plan.lanes == 1:
        return plan, tuple(said)
    _refuse_busy(repo, plan)
    plan, remarks = _with_setup(repo, plan, agrees)
    return plan, (*said, *remarks)


def _refuse_busy(repo: Repository, plan: Plan) -> None:
    """Two runs of one worktree would want the same slots."""
    slots = (slot_of(repo.place, lane, slots_folder()) for lane in range(plan.lanes))
    if busy := next((slot for slot in slots if slot.is_busy()), None):
        raise UserError(
            f"Another loop works in the slot of lane {busy.lane}: {busy.folder}",
            state="Nothing was changed.",
            hint="`untildone status` shows it. Wait for its end, or beside it "
            f"`untildone run {plan.change_id} --checkpoint worktree --lanes 1`",
        )


def count_of_lanes(repo: Repository) -> LaneCount:
    """How many lanes pay here, by what earlier runs took and what memory is free now."""
    stories: list[float] = []
    checks: list[float] = []
    for run_id in islice(run_ids(repo.home), RUNS):
        try:
            calls = told_account(repo, run_id)[1].calls
        except (UntildoneError, KeyError, TypeError, ValueError, AssertionError):
            continue  # empty, or written by another version
        kept = [call for call in calls if call.kept]
        stories += [call.seconds for call in kept]
        checks += [sum(check.seconds for check in call.checks) for call in kept if call.checks]
    story_s = median(stories) if stories else None
    return lanes_that_pay(story_s, median(checks) if checks else None, free_memory())


def _with_setup(
    repo: Repository, plan: Plan, agrees: Callable[[str], bool] | None
) -> tuple[Plan, tuple[str, ...]]:
    found = found_setups(repo.place.top)
    if plan.lane_setup == AUTO and found:
        return _using(plan, found[0]), ()
    if plan.lane_setup or "lane_setup" in plan.origins or not found:
        return plan, ()
    first = found[0]
    if agrees and agrees(_question(first)):
        return _using(plan, first), ()
    text = f"{first.source} says how to set up a checkout, and lanes do not run it without your yes"
    return plan, (f"{text}: `--lane-setup auto` is one",)


def _using(plan: Plan, setup: SetUp) -> Plan:
    origin = f"lane_setup auto, found in {setup.source}"
    return replace(plan, lane_setup=setup.script, origins=plan.origins | {setup.script: origin})


def _question(setup: SetUp) -> str:
    rows = "".join(f"  {line}\n" for command in setup.commands for line in command.splitlines())
    return (
        f"A lane is a fresh checkout, and {setup.source} says how to set one up:\n{rows}"
        "Run this in every lane? (y, or n: lanes start without) "
    )
