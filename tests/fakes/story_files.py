"""The same few stories in every format, as a person would write them and as the loop writes states.

The contract of all sources runs on them, and the fuzzer spoils them. A new source needs an entry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

NOTE = "a note that nobody reads"
SPRINT = "_bmad-output/implementation-artifacts"


@dataclass(frozen=True)
class Row:
    """A story: its title, and whether it is done."""

    title: str
    done: bool = False


Rows = Sequence[Row]
Write = Callable[[Rows], Mapping[str, str]]


@dataclass(frozen=True)
class Sample:
    """A change, and its files with these stories in them."""

    change: str
    files: Write


def _box(row: Row) -> str:
    return "[x]" if row.done else "[ ]"


def _checklist(path: str, heading: str, task: str) -> Write:
    """A heading per story with two tasks below it; `{n}` is its number."""

    def files(rows: Rows) -> Mapping[str, str]:
        text = f"# Plan\n\n<!-- {NOTE} -->\n"
        for n, row in enumerate(rows, start=1):
            text += f"\n{heading.format(n=n)}{row.title}\n\nHow it is meant.\n\n"
            for k in (1, 2):
                text += f"- {_box(row)} {task.format(n=n, k=k)} Do part {k} of {row.title}\n"
        return {path: text}

    return files


def _kiro(rows: Rows) -> Mapping[str, str]:
    text = f"# Implementation Plan\n\n{NOTE}\n\n"
    for n, row in enumerate(rows, start=1):
        box = _box(row)
        text += f"- {box} {n}. {row.title}\n  - {box} {n}.1 Do a part\n    - _Requirements: 1.1_\n"
    return {".kiro/specs/demo/tasks.md": text}


def _prd_json(rows: Rows) -> Mapping[str, str]:
    stories = ",\n".join(
        f'  {{"id": "US-{n}", "title": "{row.title}",  "passes": {str(row.done).lower()}}}'
        for n, row in enumerate(rows, start=1)
    )
    return {"prd.json": f'{{"project": "{NOTE}",\n "userStories": [\n{stories}\n]}}\n'}


def _taskmaster(rows: Rows) -> Mapping[str, str]:
    tasks = ",\n".join(
        f'  {{"id": {n}, "title": "{row.title}", "status": "{_word(row, "done", "pending")}"}}'
        for n, row in enumerate(rows, start=1)
    )
    text = f'{{"master": {{"metadata": {{"name": "{NOTE}"}}, "tasks": [\n{tasks}\n]}}}}\n'
    return {".taskmaster/tasks/tasks.json": text}


def _backlog_md(rows: Rows) -> Mapping[str, str]:
    return {
        f"backlog/tasks/task-{n} - Story.md": f"---\nid: TASK-{n}\ntitle: {row.title}\n"
        f"status: {_word(row, 'Done', 'To Do')} # now\n---\n\n{NOTE}\n\n<!-- AC:BEGIN -->\n"
        f"- {_box(row)} #1 It works\n<!-- AC:END -->\n"
        for n, row in enumerate(rows, start=1)
    }


def _ralphy(rows: Rows) -> Mapping[str, str]:
    text = f"# {NOTE}\ntasks:\n"
    for n, row in enumerate(rows, start=1):
        text += f"  - id: {n}\n    title: '{row.title}'  # as it is\n"
        text += f"    completed: {str(row.done).lower()}   # state\n"
    return {"tasks.yaml": text}


def _bmad(rows: Rows) -> Mapping[str, str]:
    """The loop leaves a story for review; only that makes it done."""
    files, tracking = {}, f"# {NOTE}\ndevelopment_status:\n  epic-1: in-progress\n"
    for n, row in enumerate(rows, start=1):
        word = _word(row, "review", "ready-for-dev")
        tracking += f"  1-{n}-story: {word} # state\n"
        files[f"{SPRINT}/1-{n}-story.md"] = (
            f"# Story 1.{n}: {row.title}\n\nStatus: {word}\n\n## Tasks / Subtasks\n\n"
            f"- {_box(row)} Do it\n\n## Dev Notes\n\n- [ ] {NOTE}\n"
        )
    return {f"{SPRINT}/sprint-status.yaml": tracking, **files}


def _word(row: Row, done: str, to_do: str) -> str:
    return done if row.done else to_do


_TASKS = ("## {n}. ", "{n}.{k}")
_PHASES = ("## Phase {n}: ", "T{n}0{k}")
# Formats in files. What is asked for through a program has its stories in `fakes/trackers.py`.
SAMPLES: dict[str, Sample] = {
    "openspec": Sample("demo", _checklist("openspec/changes/demo/tasks.md", *_TASKS)),
    "tasks-md": Sample("tasks", _checklist("tasks.md", *_TASKS)),
    "markdown": Sample("todo", _checklist("TODO.md", *_TASKS)),
    "speckit": Sample("001-demo", _checklist("specs/001-demo/tasks.md", *_PHASES)),
    "kiro": Sample("demo", _kiro),
    "prd-json": Sample("prd", _prd_json),
    "taskmaster": Sample("master", _taskmaster),
    "backlog-md": Sample("backlog", _backlog_md),
    "ralphy": Sample("tasks", _ralphy),
    "bmad": Sample("sprint", _bmad),
}
