"""`status` and `logs`: where loops stand, what agents said and did."""

import sys
from collections.abc import Iterator

import click

from untildone.commands import status as loop_status
from untildone.domain.plain_text import amount
from untildone.interfaces import render
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.output import echo, echo_json
from untildone.wiring.repository import here
from untildone.wiring.worktrees import here_for


@click.command()
@click.option("--json", "as_json", is_flag=True, help='{"loops": [...]}: every state file.')
@click.option("--weigh", is_flag=True, help="With --json: also what the saved attempts weigh.")
@click.option("--schema", is_flag=True, help="The JSON Schema of the state file.")
def status(as_json: bool, weigh: bool, schema: bool) -> int:  # noqa: FBT001 - click
    """Where every loop of this repository stands, in all worktrees."""
    if schema:
        echo(loop_status.schema())
        return 0
    repository = here()
    loops = loop_status.loops(repository)
    if weigh or not as_json:
        loop_status.weigh(repository, loops)
    if as_json:
        echo_json({"loops": loops})
        return 0
    if not loops:
        echo("No loop has run in this repository yet. Start one: `untildone run`")
    for loop in loops:
        echo(_loop_text(loop))
    return 0


def _loop_text(loop: dict[str, object]) -> str:
    alive = "live" if loop["alive"] else "not running"
    rows = [
        f"{loop['change_id']}: {loop['status']} ({loop.get('phase')}, {alive})",
        f"  worktree: {loop['worktree']}",
        f"  iteration {loop['current_iteration']} of {loop['max_iterations']}, {loop['agent']}",
        *_figures(loop),
        *_parked(loop),
    ]
    rows += [f"  learnings: {path}" for path in filter(None, [loop.get("learnings_file")])]
    rows += [f"  error: {error}" for error in filter(None, [loop.get("error")])]
    rows += [f"  next: untildone {command}" for command in _next_command(loop)]
    return "\n".join(rows)


def _figures(loop: dict[str, object]) -> Iterator[str]:
    counts = loop.get("stories")
    if isinstance(counts, dict):
        yield f"  stories: {counts['finished']} of {counts['total']} finished"
    yield f"  tokens: {_tokens(loop)}"
    for text in render.budgets(loop.get("budgets")):
        yield f"  budget: {text}"
    rest = render.forecast(loop.get("forecast"))
    if rest:
        yield f"  forecast: {rest}"
    if loop["saved_attempts"]:
        size = amount(loop["saved_bytes"])
        yield f"  saved attempts: {loop['saved_attempts']}, {size} that nothing else keeps"
    if loop.get("ignored"):
        yield f"  lines not counted as tasks: {loop['ignored']} (`untildone stories` lists them)"
    if loop.get("waiting_until"):
        yield f"  waiting until {render.clock_time(loop['waiting_until'])}"


def _tokens(loop: dict[str, object]) -> str:
    rows = loop.get("iterations")
    calls = rows if isinstance(rows, list) else []
    # The file has whole numbers only: where nobody told them, all are 0 and there is no cost.
    names = ("tokens_used", "cache_read_tokens", "cache_write_tokens", "cost_usd")
    unknown = sum(not any(row.get(name) for name in names) for row in calls)
    if unknown and not loop["total_tokens"]:
        return "unknown"
    return f"{loop['total_tokens']}" + (f" (unknown of {unknown} more calls)" if unknown else "")


def _next_command(loop: dict[str, object]) -> Iterator[str]:
    change, phase = loop["change_id"], loop.get("phase")
    dead = not loop["alive"] and loop["status"] in ("stopped", "stuck", "stalled", "running")
    if dead or phase == "waiting_budget":
        over = loop.get("budget_reached")
        more = f" --budget {over['enough']}" if isinstance(over, dict) else ""
        # A start that was cut short, or a run that was cleaned up, has nothing to go on from.
        verb = "resume" if loop.get("backup_ref") and loop.get("choice") != "cleanup" else "run"
        yield f"{verb} {change}{more}"
    elif phase == "awaiting_person":
        yield f"done {change}"
    elif phase == "awaiting_choice":
        yield f"finish {change} cleanup|keep"


def _parked(loop: dict[str, object]) -> list[str]:
    rows = loop.get("parked")
    if not isinstance(rows, list):
        return []
    texts = []
    for row in rows:
        said = render.first_line(row.get("question") or row.get("reason") or "")
        texts.append(f"  parked: story {row['story_id']} ({row['why']})" + (said and f": {said}"))
        if row["why"] in ("question", "marked"):
            answer = f'untildone guide {loop["change_id"]} --story {row["story_id"]} "your answer"'
            texts.append(f"    answer: {answer}")
    return texts


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option("--iteration", "-n", type=click.IntRange(1), help="Only this iteration.")
@click.option("--follow", "-f", is_flag=True, help="Go on as the loop goes on.")
@click.option("--raw", is_flag=True, help="The agent's raw output, escapes taken out.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
def logs(change: str, iteration: int | None, follow: bool, raw: bool, as_json: bool) -> int:  # noqa: FBT001 - click
    """What the agent said and did in the newest run of CHANGE."""
    repository = here_for(change)
    if raw:
        for text in loop_status.raw_output(repository, change, iteration):
            echo(text, nl=False)
        return 0
    for event in loop_status.events(repository, change, iteration, follow=follow):
        if as_json:
            echo_json(event)
        else:
            text = _log_line(render.safe(event))
            if text:
                echo(text)
        sys.stdout.flush()
    return 0


def _log_line(event: render.EventObject) -> str:
    if event["event"] == "agent_text":
        return str(event["text"]).rstrip("\n")
    text = render.complaint(event) or render.line(event)
    return f"{render.clock_time(event['at'])} {text}" if text else ""
