"""Inputs whose meaning the real programs were asked for; `make_oracle.py` writes their answers."""

import json
from typing import Any


def _task(number: int | str, status: str, needs: tuple[int | str, ...] = (), **more: Any) -> Any:
    # The program refuses a task without a priority or a description; we do not.
    head = {"id": number, "title": f"Task {number}", "description": "d", "status": status}
    return head | {"dependencies": list(needs), "priority": "medium", "details": "", **more}


def _sub(number: int, status: str) -> Any:
    return {"id": number, "title": "s", "description": "", "status": status, "dependencies": []}


def _tag(*tasks: Any) -> Any:
    return {"tasks": list(tasks), "metadata": {}}


_STATUSES = ("pending", "in-progress", "done", "review", "deferred", "cancelled", "blocked")
TASKMASTER: dict[str, str] = {
    "plain": json.dumps(
        {
            "master": _tag(
                _task(1, "done"), _task(2, "pending", (1,)), _task("3", "in-progress", ("1", 2))
            )
        }
    ),
    "old layout": json.dumps(_tag(_task(1, "review"))),
    "statuses": json.dumps({"master": _tag(*(_task(n, w) for n, w in enumerate(_STATUSES, 1)))}),
    "subtasks": json.dumps(
        {"master": _tag(_task(5, "pending", subtasks=[_sub(1, "done"), _sub(2, "pending")]))}
    ),
    "finished parent": json.dumps(
        {"master": _tag(_task(1, "done", subtasks=[_sub(1, "pending")]))}
    ),
    "other tag first": json.dumps(
        {"x": _tag(_task(9, "pending")), "master": _tag(_task(1, "done"))}
    ),
    "unknown status": json.dumps({"master": _tag(_task(1, "todo"))}),
    "not JSON": '{"master": {"tasks": [}}',
}
BACKLOG: dict[str, str] = {
    "plain": "---\nid: TASK-1\ntitle: First\nstatus: To Do\nassignee: []\nlabels: []\n"
    "dependencies: []\npriority: high\nordinal: 2000\n---\n\n## Acceptance Criteria\n"
    "<!-- AC:BEGIN -->\n- [ ] #1 one\n- [x] #2 two\n<!-- AC:END -->\n",
    "folded": "---\nid: TASK-2\ntitle: >-\n  A title that is\n  folded\nstatus: In Progress\n"
    "assignee:\n  - '@me'\nlabels:\n  - a\ndependencies:\n  - TASK-1\nordinal: 1000\n---\n",
    "quoted": "---\nid: TASK-3\ntitle: 'It''s: quoted'\nstatus: \"Done\"\nassignee: []\n"
    "labels: []\ndependencies: [TASK-1, TASK-2]\n---\n",
    "line ends": "---\r\nid: TASK-4\r\ntitle: Windows\r\nstatus: Done\r\nassignee: []\r\n"
    "labels: []\r\ndependencies: []\r\n---\r\n\r\ntext\r\n",
    "subtask": "---\nid: TASK-1.1\ntitle: Part\nstatus: To Do\nassignee: []\nlabels: []\n"
    "dependencies: []\nparent_task_id: TASK-1\n---\n",
    "comment": "---\nid: TASK-5\ntitle: Noted # here\nstatus: Done # yes\nassignee: []\n"
    "labels: []\ndependencies: []\n---\n",
}
