"""Realistic story files of every format, for the fuzzer to spoil."""

from pathlib import Path

from tests.fakes.story_files import SAMPLES, Row

CORPUS = Path(__file__).parents[1] / "corpus"


def _realistic() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted((CORPUS / "openspec/realistic").glob("*.md")))


_SPECKIT = b"""# Tasks: Shop

**Input**: Design documents from `/specs/001-shop/`

## Format: `[ID] [P?] [Story] Description`

- **[P]**: Can run in parallel

## Phase 1: Setup

- [ ] T001 Create the project
- [x] T002 [P] Add a linter in tools/

## Phase 2: User Story 1 - Prices (Priority: P1)

**Goal**: Show prices
**Independent Test**: Open the page

- [ ] T003 [P] [US1] Write the model in src/model.py
- [ ] T004 [US1] Write the page (depends on T003)

**Checkpoint**: Prices are shown

## Notes

- [P] tasks = different files
"""
_KIRO = b"""# Implementation Plan

- [x] 1. Set up
  - [x] 1.1 Create the folder
    - with a file
    - _Requirements: 1.1, 2.3_
  - [ ]* 1.2 Write tests
- [-] 2. Model
  - [ ] 2.1 Fields
  - [~] 2.2 Keys
    - _Depends: 1.1_

## Task Dependency Graph

```json
{"waves": [{"id": 0, "tasks": ["1.1"]}, {"id": 1, "tasks": ["2.1", "2.2"]}]}
```
"""
_PRD = (
    b"""{
  "project": "Shop",
  "branchName": "ralph/shop",
  "userStories": [
    {
      "id": "US-001",
      "title": "Show a price",
      "description": "As a buyer I want \\u00e9 to see prices.",
      "acceptanceCriteria": ["It is shown", "Typecheck passes"],
      "priority": 1,
      "passes": false,
      "notes": ""
    },
    {"id": "US-002", "title": "Store", "priority": 2.5, "passes": true, "dependsOn": ["US-001"]}
  ]
}
""",
    b'{"stories":[{"id":"a","title":"A","status":"open"},'
    b'{"id":"b","title":"B","status":"done","blockedBy":["a"]}]}',
    b'[{"category": "ui", "description": "Show a list", "steps": ["open"], "passes": false}]\r\n',
    b'{"phases": [{"id": 1, "tasks": [{"id": 1, "title": "x", "complete": false}]}, {"id": 2}]}',
    b'\xef\xbb\xbf{"units": {"u1": {"name": "x"}, "u2": {"name": "y", "dependencies": "u1"}}}',
)
_TASKMASTER = (
    b"""{
  "master": {
    "tasks": [
      {"id": 1, "title": "Set up", "status": "done", "dependencies": [], "priority": "high"},
      {"id": 2, "title": "Model", "status": "pending", "dependencies": [1],
       "subtasks": [{"id": 1, "title": "Fields", "status": "pending", "dependencies": []}]},
      {"id": "3", "title": "Old", "status": "cancelled", "dependencies": ["1", "2.1"]}
    ],
    "metadata": {"created": "2026-01-01"}
  },
  "other": {"tasks": []}
}
""",
    b'{"tasks": [{"id": 1, "title": "a", "status": "in-progress"}]}',
)
_BACKLOG = (
    b"""---
id: TASK-1
title: 'First: thing'
status: To Do
assignee: []
labels:
  - a
dependencies: []
ordinal: 1000
---

## Description

<!-- SECTION:DESCRIPTION:BEGIN -->
Describe it
<!-- SECTION:DESCRIPTION:END -->

## Acceptance Criteria
<!-- AC:BEGIN -->
- [ ] #1 it works
- [x] #2 it is tested
<!-- AC:END -->
""",
    b"---\r\nid: TASK-2\r\ntitle: >-\r\n  A long\r\n  title\r\nstatus: In Progress\r\n---\r\n",
)
_RALPHY = (
    b"""# What to build
tasks:
  - title: Create the model # first
    completed: false
    parallel_group: 1
  - title: "Write: the docs"
    description: |
      Say what it does.

      And why.
  - {title: In one line, completed: true}
""",
    b"tasks:\n- id: 1\n  title: a\n  status: 'open'\n- id: 2\n  title: b\n  dependsOn: [1]\n",
)
_BEADS = (
    b'[{"id":"x-1","title":"a","status":"open","priority":1,"issue_type":"task"},'
    b'{"id":"x-2","title":"b","status":"closed","dependencies":[{"issue_id":"x-2",'
    b'"depends_on_id":"x-1","type":"blocks"}]},{"id":"x-3","title":"e","issue_type":"epic"},'
    b'{"id":"x-3.1","title":"c","status":"in_progress","labels":["ui"]}]',
    b'[{"id":"x-1","title":"a","status":"open","issue_type":"epic"},{"id":"x-2","title":"b",'
    b'"status":"open","parent":"x-1","dependency_count":0},{"id":"x-3","title":"c","status":"open",'
    b'"dependencies":[{"issue_id":"x-3","depends_on_id":"x-1","type":"blocks"}]}]',
    b'{"schema_version":1,"data":[{"id":"x-1","title":"a","status":"open"}]}',
)
_GITHUB = (
    b'[{"number":3,"title":"a","body":"x\\n## Acceptance\\n- one\\n","state":"OPEN",'
    b'"labels":[{"id":"L1","name":"night","description":"At night","color":"ededed"}]},'
    b'{"number":7,"title":"b","body":"Depends on #3","state":"CLOSED","stateReason":"COMPLETED",'
    b'"labels":[{"name":"P1"},{"name":"night"}]},{"number":8,"title":"c","state":"OPEN",'
    b'"labels":[{"name":"night"}],"url":"https://x.invalid/a/b/issues/8","blockedBy":{"nodes":'
    b'[{"number":3,"state":"OPEN","url":"https://x.invalid/a/b/issues/3"}],"totalCount":1}}]',
)
_BMAD = (
    b"""# Story 1.2: Log in

Status: ready-for-dev

## Story

As a user, I want to log in, so that I am known.

## Acceptance Criteria

1. A password is asked for
2. A wrong one is refused

## Tasks / Subtasks

- [ ] Write the form (AC: 1)
  - [x] Fields
- [ ] Check the password (AC: 2)

## Dev Notes
""",
)
_TRACKING = (
    b"""# generated: 2026-01-01
project: shop
development_status:
  epic-1: in-progress
  1-1-set-up: done # kept
  1-2-log-in: ready-for-dev
  1-3-log-out: backlog
  epic-1-retrospective: optional
""",
)
SEEDS: dict[str, tuple[bytes, ...]] = {
    "openspec": _realistic(),
    "tasks-md": _realistic(),
    "markdown": _realistic(),
    "speckit": (_SPECKIT,),
    "kiro": (_KIRO,),
    "bmad": _BMAD,
    "bmad/tracking": _TRACKING,
    "prd-json": _PRD,
    "taskmaster": _TASKMASTER,
    "backlog-md": _BACKLOG,
    "ralphy": _RALPHY,
    "beads": _BEADS,
    "github": _GITHUB,
}
# The change, and the file that holds its stories; behind a slash, which file of the format it is.
_SPRINT = "_bmad-output/implementation-artifacts"
PLACES: dict[str, tuple[str, str]] = {
    "openspec": ("x", "openspec/changes/x/tasks.md"),
    "tasks-md": ("tasks", "tasks.md"),
    "markdown": ("x", "x.md"),
    "speckit": ("001-x", "specs/001-x/tasks.md"),
    "kiro": ("x", ".kiro/specs/x/tasks.md"),
    "bmad": ("sprint", f"{_SPRINT}/1-2-log-in.md"),
    "bmad/tracking": ("sprint", f"{_SPRINT}/sprint-status.yaml"),
    "prd-json": ("prd", "prd.json"),
    "taskmaster": ("master", ".taskmaster/tasks/tasks.json"),
    "backlog-md": ("backlog", "backlog/tasks/task-1 - x.md"),
    "ralphy": ("tasks", "tasks.yaml"),
    "beads": ("beads", ".beads/answer"),
    "github": ("night", "answer"),
}
# Files that stand beside the spoilt one.
BESIDE: dict[str, dict[str, bytes]] = {
    "bmad": {f"{_SPRINT}/sprint-status.yaml": _TRACKING[0]},
    "bmad/tracking": {f"{_SPRINT}/1-2-log-in.md": _BMAD[0]},
}


def _add_sample(name: str) -> None:
    """A source without realistic files is tried with those of the contract."""
    rows = (Row("Log in"), Row("Log out", done=True), Row("Pay"))
    first, *others = [(path, text.encode()) for path, text in SAMPLES[name].files(rows).items()]
    PLACES[name] = (SAMPLES[name].change, first[0])
    SEEDS[name] = (first[1],)
    BESIDE[name] = dict(others)


for _name in SAMPLES.keys() - SEEDS.keys():
    _add_sample(_name)
