"""A dry run in words, and as one JSON object."""

import shlex
from collections.abc import Iterator

from msgspec import to_builtins

from untildone.app.rehearsal import Rehearsed
from untildone.commands.start.dry_run import DryRun, LaneRehearsal
from untildone.domain.plain_text import plain
from untildone.domain.run.plan import label
from untildone.domain.run.run import Status
from untildone.domain.run.run_commands import RunCommand, run_commands
from untildone.domain.secrets import shown
from untildone.domain.stories.story import Story
from untildone.interfaces import render
from untildone.interfaces.plan_rows import plan_rows

HEAD = "Dry run: nothing is changed, no agent is called, no check is run."
RULE = "─" * 40


def page(dry: DryRun) -> str:
    """The plan, then the first prompt in full."""
    rows = [("change", dry.plan.change_id), *_what(dry), *plan_rows(dry.plan)]
    rows += [("executes", _said(command)) for command in run_commands(dry.plan)]
    rows += [("warning", text) for text in dry.warnings]
    lines = [HEAD, "", *_table(rows)]
    if dry.book and dry.book.stories and not dry.plan.plain:
        lines += ["", f"Stories ({dry.book.path}):", *_stories(dry)]
    lines += _lanes(dry.lanes)
    if dry.idle:
        lines += ["", dry.idle]
    if dry.told and dry.told.before:
        lines += ["", "First:", *(f"  {said}" for said in dry.told.before)]
    if dry.told and dry.told.call:
        lines += ["", f"The first prompt, {len(dry.told.prompt.encode())} bytes:", RULE]
        lines += [dry.told.prompt.rstrip("\n"), RULE]
    return plain("\n".join(lines))


def data(dry: DryRun) -> dict[str, object]:
    """The same for scripts."""
    call, told = dry.told.call if dry.told else None, dry.told
    return {
        "dry_run": True,
        "would": _would(dry),
        "change_id": dry.plan.change_id,
        "original_branch": dry.origin.label,
        "source": dry.plan.source,
        "stories": _story_data(dry),
        "next": {
            "n": call.n,
            "story_id": call.story.id if call.story else "",
            "attempt": call.attempt,
            "attempts_allowed": call.attempts_allowed,
        }
        if call
        else None,
        "agent": {
            "name": dry.intent.agent,
            "model": dry.intent.model,
            "argv": list(dry.invocation.argv),
            "env": shown(dry.invocation.env),
        }
        if dry.intent and dry.invocation
        else None,
        "commands": [to_builtins(command) for command in run_commands(dry.plan)],
        "plan": to_builtins(dry.plan),
        "lanes": _lane_data(dry.lanes),
        "warnings": list(dry.warnings),
        "before": list(told.before) if told else [],
        "message": dry.idle,
        "refused": dry.refusal.message if dry.refusal else "",
        "prompt": told.prompt if told else "",
    }


def _lanes(lanes: LaneRehearsal | None) -> list[str]:
    """The schedule as if all stories took equally long, and what a fresh checkout gets."""
    return ["", "Lanes:", *(f"  {said}" for said in _schedule(lanes))] if lanes else []


def _schedule(lanes: LaneRehearsal) -> Iterator[str]:
    for n, stories in enumerate(lanes.beside.rounds):
        yield f"{'then' if n else 'at once'}: {', '.join(story.id for story in stories)}"
    if lanes.beside.apart or lanes.beside.unknown:
        yield "`untildone stories --graph` says why not more of them"
    setup = lanes.setup
    copied = ", ".join((*setup.files, *(f"{folder}/" for folder in setup.folders)))
    if copied:
        yield f"copied into each: {copied}"
    for command in setup.commands:
        yield f"run in each, once and when a lock file changes: {command}"
    if not setup.source:
        yield "a lane has the files of git and nothing that is ignored; see `--lane-setup`"


def _lane_data(lanes: LaneRehearsal | None) -> dict[str, object] | None:
    if lanes is None:
        return None
    return {
        "rounds": [[story.id for story in stories] for stories in lanes.beside.rounds],
        "setup": {
            "commands": list(lanes.setup.commands),
            "files": list(lanes.setup.files),
            "folders": list(lanes.setup.folders),
        },
    }


def _said(command: RunCommand) -> str:
    return render.command(to_builtins(command))


def _would(dry: DryRun) -> str:
    if dry.refusal:
        return "be_refused"
    if dry.idle or (dry.told and not dry.told.call and dry.told.run.status is not Status.RUNNING):
        return "call_nobody"
    return "go_on" if dry.going_on else "start"


def _what(dry: DryRun) -> list[tuple[str, str]]:
    branch = f"ralph/{dry.plan.change_id}"
    where = {
        "branch": f"the branch {branch}, made from {dry.origin.label}",
        "worktree": f"the branch {branch} in a worktree of its own, from {dry.origin.label}",
        "stash": f"your own tree and branch, {dry.origin.label}",
    }[dry.plan.checkpoint]
    how = f"go on with the run {dry.plan.run_id}" if dry.going_on else "start a new run"
    rows = [("would", "do nothing" if dry.idle else how), ("work in", where)]
    states = [row["state"] for row in _story_data(dry)]
    if states:
        done = states.count("done")
        rows.append(("stories", f"{len(states) - done} open, {done} done"))
    if dry.plan.plain:
        rows.append(("task", dry.plan.task.strip()))
    if dry.intent and dry.invocation:
        given = [
            f"{name}={shlex.quote(value)}" for name, value in shown(dry.invocation.env).items()
        ]
        rows.append(("call", " ".join([*given, shlex.join(dry.invocation.argv)])))
        rows.append(("", "with the prompt on its standard input"))
    return rows


def _stories(dry: DryRun) -> list[str]:
    width = max(len(str(row["id"])) for row in _story_data(dry))
    marks = {"done": "✓", "next": "▶", "open": "○", "parked": "?"}
    return [
        f"  {marks[str(row['state'])]} {row['id']!s:<{width}}  {row['title']}"
        + (f"  (by {row['agent']})" if "agent" in row else "")
        for row in _story_data(dry)
    ]


def _story_data(dry: DryRun) -> list[dict[str, object]]:
    if not dry.book or dry.plan.plain:
        return []
    return [
        {"id": story.id, "title": story.title, "state": _state(story, dry.told)} | _by(story, dry)
        for story in dry.book.stories
    ]


def _by(story: Story, dry: DryRun) -> dict[str, object]:
    """Who is to work on it, if that is not who works on the others."""
    first = dry.plan.rungs_of(story.key)[0]
    usual = story.done or first == dry.plan.rungs[0]
    return {} if usual else {"agent": label(*first)}


def _state(story: Story, told: Rehearsed | None) -> str:
    if story.done or (told and story.key in told.run.finished):
        return "done"
    if told and told.call and told.call.story and told.call.story.key == story.key:
        return "next"
    return "parked" if told and story.key in told.run.parked else "open"


def _table(rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    lines = []
    for name, text in rows:
        first, *more = text.splitlines() or [""]
        lines.append(f"{name:<{width}}  {first}".rstrip())
        lines += [f"{'':<{width}}  {row}" for row in more]
    return lines
