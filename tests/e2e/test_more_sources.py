"""Stories that have a state of their own, driven from outside: only their marks change."""

import shutil

import pytest

from tests.e2e.agent_calls import COMPLETE, failed
from tests.e2e.bench import Bench
from tests.fakes.trackers import BD, GH, Tracker, bead, issue

pytestmark = pytest.mark.e2e

PRD = """\
{
  "userStories": [
    { "id": "US-002", "title": "Second", "priority": 2, "passes": false },
    { "id": "US-001", "title": "First", "priority": 1, "passes": false, "notes": "" }
  ]
}
"""
TASKMASTER = """\
{"master": {"tasks": [
  {"id": 1, "title": "First", "status": "pending", "dependencies": [],
   "subtasks": [{"id": 1, "title": "Part", "status": "in-progress"}]},
  {"id": 2, "title": "Second", "status": "in-progress", "dependencies": [1]}
]}}
"""
BACKLOG = (
    "---\nid: TASK-1\ntitle: 'First'\nstatus: To Do # yet\n---\n"
    "<!-- AC:BEGIN -->\n- [ ] #1 ok\n<!-- AC:END -->\n"
)
RALPHY = "tasks: # all\n  - title: First\n    completed: false # one\n  - title: Second\n"
FORMATS = {
    "prd-json": ("prd", "prd.json", PRD, PRD.replace("false", "true"), ["US-001", "US-002"]),
    "taskmaster": (
        "master",
        ".taskmaster/tasks/tasks.json",
        TASKMASTER,
        TASKMASTER.replace("pending", "done").replace("in-progress", "done"),
        ["1", "2"],
    ),
    "backlog-md": (
        "backlog",
        "backlog/tasks/task-1 - First.md",
        BACKLOG,
        BACKLOG.replace("To Do", "Done").replace("[ ]", "[x]"),
        ["TASK-1"],
    ),
    "ralphy": (
        "tasks",
        "tasks.yaml",
        RALPHY,
        RALPHY.replace("false", "true").replace("Second\n", "Second\n    completed: true\n"),
        ["first", "second"],
    ),
}


@pytest.mark.parametrize("source", FORMATS)
def test_a_run_to_done_changes_only_the_marks(bench: Bench, source: str) -> None:
    change, path, before, after, stories = FORMATS[source]
    shutil.rmtree(bench.path("openspec"))
    bench.write(path, before)
    bench.commit(source)
    bench.plan()
    bench.run("run", "--json", "--agent-cmd", bench.agent).ok()
    assert bench.state()["change_id"] == change
    assert [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()] == stories
    assert bench.path(path).read_bytes() == after.encode()


@pytest.mark.parametrize("source", FORMATS)
def test_a_story_that_is_taken_out_is_open_in_its_format(bench: Bench, source: str) -> None:
    _, path, before, _, stories = FORMATS[source]
    shutil.rmtree(bench.path("openspec"))
    bench.write(path, before)
    bench.commit(source)
    bench.plan()
    bench.run("run", "--json", "--agent-cmd", bench.agent).ok()
    bench.run("undo", "--story", stories[-1]).ok()
    bench.run("resume", "--json").ok()
    ran = [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()]
    assert ran == [*stories, stories[-1]]


def test_issues_of_beads_are_closed_by_the_loop_alone(bench: Bench) -> None:
    issues = [bead("x-2", "Second", "x-1"), bead("x-1", "First", status="in_progress")]
    bd = Tracker(bench.bin, "bd", BD, {each["id"]: each for each in issues})
    bench.path(".beads").mkdir()
    claim = [["sh", "bd close x-1 && bd close x-2"], ["say", failed("no luck")]]
    bench.plan({1: claim})
    done = bench.run("run", "beads", "--json", "--agent-cmd", bench.agent).ok()
    ran = [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()]
    assert ran == ["x-1", "x-1", "x-2"]
    said = [event["message"] for event in done.named("warning")]
    assert any("marked as done by a failed attempt: x-2, x-1" in text for text in said)
    assert {each["status"] for each in bd.state["issues"].values()} == {"closed"}
    assert [call[1] for call in bd.calls("reopen")] == ["x-2", "x-1"]
    assert ["update", "x-1", "--status", "in_progress", "--json"] in bd.calls("update")


def test_github_issues_with_a_label(bench: Bench) -> None:
    issues = [issue(4, "Second", "night", body="Depends on #3"), issue(3, "First", "night")]
    gh = Tracker(bench.bin, "gh", GH, {str(each["number"]): each for each in issues})
    claim = [["sh", "gh issue close 4"], ["write", "a.txt", "a\n"], ["say", COMPLETE]]
    bench.plan({1: claim})
    args = ("--source", "github", "--json", "--agent-cmd", bench.agent)
    bench.run("run", "night", *args).ok()
    assert [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()] == ["3", "4"]
    assert [each["state"] for each in gh.state["issues"].values()] == ["CLOSED", "CLOSED"]
    closed = [call[2] for call in gh.calls("issue", "close") if "--comment" in call]
    assert (closed, [call[2] for call in gh.calls("issue", "reopen")]) == (["3", "4"], ["4"])


@pytest.mark.parametrize("works", [True, False])
def test_an_issue_whose_work_is_taken_out_is_open_again(bench: Bench, *, works: bool) -> None:
    issues = [issue(4, "Second", "night"), issue(3, "First", "night")]
    gh = Tracker(bench.bin, "gh", GH, {str(each["number"]): each for each in issues})
    args = ("--source", "github", "--json", "--agent-cmd", bench.agent)
    bench.run("run", "night", *args).ok()
    if not works:
        real = bench.bin / "gh"
        real.rename(bench.bin / "real-gh")
        refuse = '[ "$2" != reopen ] || exit 1\nexec "$(dirname "$0")/real-gh" "$@"'
        bench.program("gh", f"#!/bin/sh\n{refuse}\n")
    undone = bench.run("undo", "night", "--story", "3").ok()
    assert not bench.path("work-1.txt").exists()
    assert bench.path("work-2.txt").exists()
    states = {number: each["state"] for number, each in gh.state["issues"].items()}
    assert states == {"3": "OPEN" if works else "CLOSED", "4": "CLOSED"}
    assert ("still marked as done in github: open it by hand" in undone.stderr) is not works
    if works:
        bench.run("resume", "night", "--json").ok()
        assert [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()] == ["3", "4", "3"]


def test_a_source_without_its_program_says_so(bench: Bench) -> None:
    bench.path(".beads").mkdir()
    refused = bench.run("run", "beads", "--agent-cmd", bench.agent)
    assert (refused.code, "`bd` is not on PATH" in refused.stderr) == (2, True)
    assert "`bd` is not on PATH" in bench.run("doctor").stdout


SPRINT = "_bmad-output/implementation-artifacts"


def test_a3_a_sprint_with_entries_without_a_file_is_never_done(bench: Bench) -> None:
    shutil.rmtree(bench.path("openspec"))
    status = "development_status:\n  1-1-a: ready-for-dev\n  1-2-b: backlog\n  1-3-c: backlog\n"
    bench.write(f"{SPRINT}/sprint-status.yaml", status)
    bench.write(f"{SPRINT}/1-1-a.md", "# Story 1.1: A\n\nStatus: ready-for-dev\n")
    bench.commit("sprint")
    bench.plan()
    stuck = bench.run("run", "sprint", "--json", "--agent-cmd", bench.agent)
    (said,) = stuck.named("error")
    assert (stuck.code, bench.state()["status"], bench.state()["reason"]) == (
        *(3, "stuck", "unfinished"),
    )
    assert "1-2-b (backlog) has no file" in said["message"]
    assert "1-3-c (backlog) has no file" in said["message"]
    assert "untildone resume sprint" in said["hint"]
    bench.run("finish", "sprint", "cleanup").ok()
    again = bench.run("run", "sprint", "--agent-cmd", bench.agent)
    assert (again.code, "2 entries are left" in again.stderr) == (2, True)
    assert "2 entries are left" in bench.run("stories", "--json").stdout


def test_a_backlog_with_a_missing_dependency_runs_all_but_that_task(bench: Bench) -> None:
    shutil.rmtree(bench.path("openspec"))
    for name, needs in (("1", ""), ("2", "dependencies: [task-9]\n"), ("3", "")):
        text = f"---\nid: TASK-{name}\ntitle: T{name}\nstatus: To Do\n{needs}---\n"
        bench.write(f"backlog/tasks/task-{name} - T.md", text)
    bench.write("backlog/archive/tasks/task-9 - Away.md", "---\nid: TASK-9\n---\n")
    bench.commit("backlog")
    listed = bench.run("stories", "backlog", "--json").ok().json()
    assert [(s["id"], s["question"]) for s in listed["stories"]] == [
        ("TASK-1", ""),
        ("TASK-2", "It depends on what is archived: task-9"),
        ("TASK-3", ""),
    ]
    bench.plan()
    ended = bench.run("run", "backlog", "--json", "--agent-cmd", bench.agent)
    assert [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()] == ["TASK-1", "TASK-3"]
    assert ended.code == 3
    assert "status: To Do" in bench.read("backlog/tasks/task-2 - T.md")


def test_a_kiro_run_by_task_ticks_the_parents(bench: Bench) -> None:
    shutil.rmtree(bench.path("openspec"))
    text = "- [ ] 1. A\n  - [ ] 1.1 a\n  - [x] 1.2 b\n- [ ] 2. B\n  - [ ]* 2.1 c\n  - [ ] 2.2 d\n"
    bench.write(".kiro/specs/x/tasks.md", text)
    bench.commit("kiro")
    counts = [
        bench.run("stories", "x", "--granularity", size, "--json").ok().json()["tasks"]
        for size in ("group", "task")
    ]
    assert counts == [{"total": 5, "complete": 1}] * 2
    bench.plan()
    bench.run("run", "x", "--granularity", "task", "--json", "--agent-cmd", bench.agent).ok()
    assert [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()] == ["1.1", "2.2"]
    assert bench.read(".kiro/specs/x/tasks.md") == text.replace("[ ] ", "[x] ")


def test_records_of_beads_are_listed_and_never_run(bench: Bench) -> None:
    issues = [
        bead("x-1", "Work"),
        bead("x-1.1", "State changed", issue_type="event", parent="x-1"),
        bead("x-2", "Patrol", issue_type="molecule"),
        bead("x-3", "witness", issue_type="agent"),
    ]
    Tracker(bench.bin, "bd", BD, {each["id"]: each for each in issues})
    bench.path(".beads").mkdir()
    listed = bench.run("stories", "beads", "--json").ok().json()
    assert [(s["id"], s["state"]) for s in listed["stories"]] == [
        ("x-1", "open"),
        ("x-1.1", "record"),
    ]
    assert "1 record that the tracker keeps" in bench.run("stories", "beads").ok().stdout
    bench.plan()
    bench.run("run", "beads", "--json", "--agent-cmd", bench.agent).ok()
    assert [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()] == ["x-1"]


def test_a_task_of_task_master_that_was_begun_comes_first(bench: Bench) -> None:
    shutil.rmtree(bench.path("openspec"))
    bench.write(
        ".taskmaster/tasks/tasks.json",
        '{"master": {"tasks": [{"id": 1, "title": "a", "priority": "high"},'
        ' {"id": 2, "title": "b", "status": "in-progress", "priority": "low",'
        ' "subtasks": [{"id": 1, "title": "c", "status": "pending"}]}]}}',
    )
    bench.commit("tasks")
    bench.plan()
    bench.run("run", "master", "--json", "--agent-cmd", bench.agent).ok()
    assert [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()] == ["2", "1"]
