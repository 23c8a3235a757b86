"""The person edits the plan while the loop runs: what was written is kept, or named and stored."""

import shlex
import shutil

import pytest

from tests.e2e.agent_calls import COMPLETE, Actions, failed
from tests.e2e.bench import Bench
from tests.e2e.change import TASKS

pytestmark = pytest.mark.e2e

# The agent does with a shell what a person does with an editor at the same time: the loop sees
# no difference.
NEW_STORY = r"printf '\n## 4. Delta greeting\n\n- [ ] 4.1 Write the delta file\n' >> " + TASKS


def fails_after(*commands: str) -> Actions:
    return [*(["sh", command] for command in commands), ["say", failed("no luck")]]


def said(events: list[dict[str, object]]) -> str:
    return "\n".join(str(event["message"]) for event in events)


@pytest.mark.parametrize("checkpoint", ["branch", "stash", "worktree"])
def test_a6_a_story_added_during_a_failed_attempt_is_kept_and_run(
    bench: Bench, checkpoint: str
) -> None:
    bench.only_stories(1)
    bench.plan({1: [["tick", "1"], *fails_after(NEW_STORY, "echo x > mess.txt")]})
    args = ("--checkpoint", checkpoint, "--json", "--agent-cmd", bench.agent)
    done = bench.run("run", "demo", *args, "--on-complete", "cleanup").ok()
    assert [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()] == ["1", "1", "4"]
    assert not bench.path("mess.txt").exists()
    assert "- [x] 4.1 Write the delta file" in bench.read(TASKS)
    assert "the new story 4 (Delta greeting)" in said(done.named("warning"))
    assert "the new story 4 (Delta greeting)" in bench.run("report", "demo").stdout


def test_a6_an_edit_that_cannot_be_kept_is_named_and_stored(bench: Bench) -> None:
    bench.only_stories(1, 2)
    edit = f"sed -i 's/2.1 Write the bravo file/2.1 Write a bravo page/; /2.2 Check/d' {TASKS}"
    bench.plan({1: fails_after(edit, NEW_STORY)})
    done = bench.run("run", "demo", "--json", "--agent-cmd", bench.agent).ok()
    warned = said(done.named("warning"))
    assert "tasks of story 2 would be gone" in warned
    assert "the new story 4" in warned
    ref = "refs/ralph/attempts/demo/1/1"
    assert f"git show {ref}:{TASKS}" in warned
    assert "2.1 Write a bravo page" in bench.blob(ref, TASKS)
    assert "- [x] 2.2 Check the bravo file" in bench.read(TASKS)


def test_a6_the_command_that_shows_a_stored_edit_can_be_typed_as_it_stands(bench: Bench) -> None:
    shutil.rmtree(bench.path("openspec"))
    path = "backlog/tasks/task-1 - It's one.md"
    bench.write(path, "---\nid: TASK-1\ntitle: One\nstatus: To Do\n---\nWords.\n")
    bench.commit("backlog")
    bench.plan({1: fails_after("sed -i 's/Words/Others/' backlog/tasks/*.md")})
    done = bench.run("run", "backlog", "--json", "--agent-cmd", bench.agent).ok()
    command = said(done.named("warning")).partition("`git show ")[2].partition("`")[0]
    assert "Others." in bench.git("show", *shlex.split(command))


def test_a6_a_renamed_title_fails_no_good_attempt(bench: Bench) -> None:
    bench.only_stories(1)
    rename = f"sed -i 's/Alpha greeting/Alpha welcome/' {TASKS}"
    bench.plan({1: [["sh", rename], ["write", "a.txt", "a\n"], ["say", COMPLETE]]})
    bench.run("run", "demo", "--json", "--agent-cmd", bench.agent).ok()
    assert len(bench.calls()) == 1
    assert "## 1. Alpha welcome\n\n- [x] 1.1" in bench.read(TASKS)


def test_a6_a_file_of_a_new_task_is_kept(bench: Bench) -> None:
    shutil.rmtree(bench.path("openspec"))
    task = "---\nid: TASK-{n}\ntitle: Task {n}\nstatus: To Do\n---\n"
    bench.write("backlog/tasks/task-1.md", task.format(n=1))
    bench.commit("backlog")
    added = task.format(n=2).replace("\n", r"\n")
    bench.plan({1: fails_after(f"printf -- '{added}' > backlog/tasks/task-2.md")})
    bench.run("run", "backlog", "--json", "--agent-cmd", bench.agent).ok()
    assert [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()] == [
        *("TASK-1", "TASK-1", "TASK-2"),
    ]


def test_a6_what_an_agent_gains_by_is_not_kept(bench: Bench) -> None:
    bench.write(TASKS, "## 1. A\n- [ ] 1.1 a\n\n## 2. B\nVerify: `false`\n- [ ] 2.1 b\n")
    bench.commit("plan")
    bench.plan({1: [["sh", f"sed -i 's/`false`/`true`/' {TASKS}"], ["say", failed("x")]]})
    args = ("--max-retries", "1", "--json", "--agent-cmd", bench.agent)
    stuck = bench.run("run", "demo", *args)
    assert stuck.code == 3
    assert "it changes what decides about story 2" in said(stuck.named("warning"))
    assert "Verify: `false`" in bench.read(TASKS)


# -- what an attempt that is kept did to the words of others --------------------------------------


@pytest.mark.parametrize("checkpoint", ["branch", "stash", "worktree"])
@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("s/2.1 Write the bravo file/2.1 Nothing to do/", "“2.1 Nothing to do”"),
        ("s/2. Bravo greeting/2. Bravo is done/", "“Bravo is done”"),
    ],
    ids=["task", "title"],
)
def test_other_words_for_an_open_story_are_told_with_the_old_ones(
    bench: Bench, checkpoint: str, edit: str, told: str
) -> None:
    bench.only_stories(1, 2)
    bench.plan({1: [["sh", f"sed -i '{edit}' {TASKS}"], ["say", COMPLETE]]})
    args = ("--checkpoint", checkpoint, "--json", "--agent-cmd", bench.agent)
    done = bench.run("run", "demo", *args).ok()
    warned = said(done.named("warning"))
    assert "Story 2 was reworded during story 1, perhaps by you: “" in warned
    assert told in warned
    assert warned.count("story 1") == 1  # the own words of a story are for its agent to change
    shown = f"git log -p --all -- {TASKS}"
    assert f"`{shown}`" in warned
    removed = [row for row in bench.git(*shown.split()[1:]).splitlines() if row.startswith("-")]
    assert any(edit.split("/")[1] in row for row in removed)


def test_more_words_of_an_open_story_and_its_ticks_are_not_told_as_reworded(bench: Bench) -> None:
    bench.only_stories(1, 2)
    more = f"sed -i 's/^- . . 2.1 .*/&\\n- [ ] 2.3 More of it/' {TASKS}"
    bench.plan({1: [["sh", more], ["say", COMPLETE]]})
    done = bench.run("run", "demo", "--json", "--agent-cmd", bench.agent).ok()
    assert "reworded" not in said(done.named("warning"))
    assert "- [x] 2.3 More of it" in bench.read(TASKS)


@pytest.mark.parametrize("tasks", ["- [ ] 1.1 do uno", "- [ ] 1.7 another\\n- [ ] 1.8 more"])
def test_a_finished_story_that_an_agent_rewrites_stays_finished(bench: Bench, tasks: str) -> None:
    bench.only_stories(1, 2)
    rewrite = f"sed -i '/1\\.2 /d; s/^- .x. 1.1.*/{tasks}/; s/1. Alpha greeting/1. Uno/' {TASKS}"
    bench.plan({2: [["sh", rewrite], ["say", COMPLETE]]})
    done = bench.run("run", "demo", "--json", "--agent-cmd", bench.agent).ok()
    assert [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()] == ["1", "2"]
    assert "Story 1 (Alpha greeting) is finished and stays so" in said(done.named("warning"))
    assert "[ ]" not in bench.read(TASKS)


def test_a_list_of_stories_that_does_not_come_back_ends_the_run(bench: Bench) -> None:
    bench.only_stories(1)
    bench.git("rm", "-q", "--cached", TASKS)
    bench.write(".gitignore", f"{bench.read('.gitignore')}{TASKS}\n")
    bench.commit("the list is ignored")
    bench.plan({1: [["sh", f"rm {TASKS}"], ["say", COMPLETE]]})
    result = bench.run("run", "demo", "--agent-cmd", bench.agent).ok(3)
    assert len(bench.calls()) == 1
    assert "It does not exist" in result.stderr
