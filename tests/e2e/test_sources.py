"""Stories from other formats, driven from outside."""

import shutil

import pytest

from tests.e2e.agent_calls import DONE
from tests.e2e.bench import Bench
from tests.e2e.change import TASKS

pytestmark = pytest.mark.e2e

SPECKIT = """\
## Phase 1: Setup

- [ ] T001 Make it
- [ ] T002 [P] Check it

## Phase 2: User Story 1 - Use (Priority: P1)

- [ ] T003 [US1] Use it

- [P] tasks = different files
"""
KIRO = "- [ ] 1. One\n  - [ ] 1.1 a\n  - [ ]* 1.2 b\n- [ ] 2. Two\n"


def without_openspec(bench: Bench) -> None:
    shutil.rmtree(bench.path("openspec"))


def test_a_spec_kit_feature_task_by_task(bench: Bench) -> None:
    without_openspec(bench)
    bench.write("specs/001-use/tasks.md", SPECKIT)
    bench.commit("speckit")
    bench.plan()
    bench.run("run", "--granularity", "task", "--json", "--agent-cmd", bench.agent).ok()
    assert bench.state()["change_id"] == "001-use"
    assert [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()] == ["T001", "T002", "T003"]
    assert bench.read("specs/001-use/tasks.md") == SPECKIT.replace("[ ]", "[x]")


def test_several_sources_are_listed_and_one_can_be_run(bench: Bench) -> None:
    bench.write(".kiro/specs/app/tasks.md", KIRO)
    bench.write("TODO.md", "- [ ] later\n")
    bench.write("notes.txt", "- [ ] a thing\n")
    bench.commit("sources")
    rows = bench.run("stories", "--json").ok().json()["changes"]
    assert [(row["source"], row["name"], row["state"]) for row in rows] == [
        ("openspec", "demo", "open"),
        ("kiro", "app", "open"),
        ("markdown", "todo", "open"),
    ]
    said = bench.run("stories").ok().stdout
    assert all(word in said for word in ("demo", "app", "todo", "untildone run CHANGE"))
    refused = bench.run("run", "--agent-cmd", bench.agent)
    assert (refused.code, "demo, app" in refused.stderr) == (2, True)
    assert "too: todo (markdown)" in refused.stderr
    assert bench.run("stories", "--source", "markdown", "--json").ok().json()["change"] == "todo"
    assert "Unknown story source" in bench.run("stories", "--source", "kir").ok(2).stderr
    assert "name what to run" in bench.run("run", "--source", "github").ok(2).stderr
    bench.plan()
    kiro = ("--source", "kiro", "--agent-cmd", bench.agent)
    bench.run("run", *kiro, "--on-complete", "cleanup").ok()
    assert bench.read(".kiro/specs/app/tasks.md") == KIRO.replace("[ ] ", "[x] ")
    args = ("--source-file", "notes.txt", "--agent-cmd", bench.agent)
    bench.run("run", *args, "--include-flagged").ok()
    assert bench.read("notes.txt") == "- [x] a thing\n"
    assert bench.branch() == "ralph/notes"


def test_a_change_that_was_done_before_is_not_archived_and_that_is_told(bench: Bench) -> None:
    bench.write("openspec/changes/demo/tasks.md", "- [x] all\n")
    bench.commit("done")
    said = bench.run("run", "demo", "--archive", "--agent-cmd", bench.agent).ok().stdout
    assert "nothing was changed. Nor archived: `openspec archive demo`" in said


def test_the_graph_of_a_change(bench: Bench) -> None:
    bench.write("specs/001-use/tasks.md", SPECKIT)
    chart = bench.run("stories", "001-use", "--graph").ok().stdout
    assert chart.startswith('flowchart TD\n    s1["phase-1: Phase 1: Setup"]\n')
    assert "    s1 --> s2\n" in chart
    told = bench.run("stories", "001-use", "--graph", "--json").ok().json()
    assert (told["change"], told["rounds"]) == ("001-use", [["phase-1"], ["phase-2"]])
    value = bench.run("stories", "001-use", "--json").ok().json()
    assert [(s["priority"], s["line"]) for s in value["stories"]] == [(None, 1), (1, 6)]
    assert value["ignored"][0]["path"] == "specs/001-use/tasks.md"
    bench.write("specs/001-use/tasks.md", "- [ ] T001 a, depends on T002\n")
    held = bench.run("stories", "001-use").ok().stdout
    assert "waits for your answer: It depends on what is not in this change: T002" in held


def test_a_finished_change_is_archived_and_cleanup_takes_it_along(bench: Bench) -> None:
    bench.plan()
    bench.loop("--archive", "--on-complete", "cleanup").ok()
    assert not bench.path("openspec/changes/demo").exists()
    (moved,) = bench.path("openspec/changes/archive").glob("*-demo")
    assert "[ ]" not in (moved / "tasks.md").read_text()
    assert bench.branch() == "feature/x"
    refused = bench.run("run", "--archive", "--task", "x", "--agent-cmd", bench.agent)
    assert (refused.code, "--archive" in refused.stderr) == (2, True)


def test_an_agent_that_archives_the_change_with_its_last_story(bench: Bench) -> None:
    there = "openspec/changes/archive/2026-01-02-demo"
    move = f"mkdir -p openspec/changes/archive && git mv openspec/changes/demo {there}"
    bench.plan({3: [*DONE[:1], ["sh", move], *DONE[1:]]})
    bench.loop("--on-complete", "cleanup").ok()
    assert len(bench.calls()) == 3
    assert "- [ ]" not in bench.read(f"{there}/tasks.md")
    bench.commit("archived")
    before = bench.refs()
    result = bench.run("run", "demo", "--agent-cmd", bench.agent).ok()
    assert f"The change `demo` is archived ({there}); nothing was changed." in result.stdout
    assert (bench.refs(), len(bench.calls())) == (before, 3)


def test_an_agent_that_deletes_another_story_has_failed_and_the_story_is_done_later(
    bench: Bench,
) -> None:
    text = bench.read(TASKS)
    bench.plan({1: [["write", TASKS, text[: text.index("## 2.")]], *DONE]})
    result = bench.loop().ok()
    outcomes = [entry["outcome"] for entry in bench.state()["iterations"]]
    assert outcomes == ["verify_failed", "complete", "complete", "complete"]
    assert "Open tasks of other stories are gone" in result.named("retrying")[0]["reason"]
    assert "Open tasks of other stories are gone" in bench.calls()[1].stdin
    assert "- [ ]" not in bench.read(TASKS)
    assert [f"## {n}." in bench.read(TASKS) for n in (1, 2, 3)] == [True] * 3
