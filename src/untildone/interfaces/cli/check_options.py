"""Flags of `run` and `resume` about checks: what proves that a story is done."""

import click

ABOVE_ZERO = click.FloatRange(min=0, min_open=True)

CHECK_OPTIONS = [
    click.option(
        "--verify",
        multiple=True,
        metavar="CMD",
        help="Check to run after COMPLETE; repeatable. `warn: CMD` blocks nothing, `off: CMD` is "
        "not run, `auto`: what the project has.",
    ),
    click.option(
        "--story-verify",
        multiple=True,
        metavar="ID=CMD",
        help="Check of one story only; repeatable. So is a line Verify: `CMD` in its text.",
    ),
    click.option(
        "--protect",
        multiple=True,
        metavar="GLOB",
        help="Files that no attempt may change, move or delete; repeatable.",
    ),
    click.option(
        "--protect-checks/--no-protect-checks",
        default=None,
        help="Protect the files that the checks run.  [default: yes]",
    ),
    click.option(
        "--clean-room/--no-clean-room",
        default=None,
        help="Run the checks in a fresh checkout of what would be committed.  [default: no]",
    ),
    click.option(
        "--evidence/--no-evidence",
        default=None,
        help="COMPLETE without a change outside the task list is a failed attempt.  [default: no]",
    ),
    click.option(
        "--allow-empty-story",
        multiple=True,
        is_flag=False,
        flag_value="*",
        metavar="[ID]",
        help="With --evidence: this story, or without ID every story, may change nothing.",
    ),
    click.option(
        "--verify-start/--no-verify-start",
        default=None,
        help="Try the checks before the first story and say which already fail.  [default: yes]",
    ),
    click.option(
        "--baseline/--no-baseline",
        default=None,
        help="Let failures through that were there before the run; new ones block.  [default: no]",
    ),
    click.option(
        "--verify-timeout", type=ABOVE_ZERO, help="Limit of a check, minutes.  [default: --timeout]"
    ),
]
