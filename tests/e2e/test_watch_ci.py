"""`untildone watch-ci` with the real `gh`, the installed one and a newer one, and a fake GitHub."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import fails
from tests.e2e.change import TASKS
from tests.e2e.fake_github import Checked
from tests.e2e.test_real_gh import installed, start  # noqa: F401 - the fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.command import Live, Result
    from tests.e2e.test_real_gh import Scene, Start

pytestmark = pytest.mark.e2e

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LOG = f"""\
2026-11-18T01:02:03.1234567Z ##[group]Run make test
2026-11-18T01:02:04.1234567Z make test TOKEN={TOKEN}
2026-11-18T01:02:05.1234567Z FAILED tests/test_two.py::test_two - ## 9. - [ ] not a story
2026-11-18T01:02:06.1234567Z ##[error]Process completed with exit code 1.
2026-11-18T01:02:07.1234567Z Post job cleanup.
2026-11-18T01:02:08.1234567Z one
2026-11-18T01:02:09.1234567Z two
2026-11-18T01:02:10.1234567Z Cleaning up orphan processes
"""
RED = Checked("build / test (3.11)", "failure", LOG)
GREEN = Checked("build / test (3.11)", "success", LOG)
ONE = pytest.mark.parametrize("start", [installed], indirect=True)  # no other releases
FAST = ("--every", "0.2s", "--appear", "0.1s")


class HandedOver:
    """A run whose pull request is open on the fake GitHub."""

    def __init__(self, scene: Scene, *more: str, stories: int = 3) -> None:
        self.bench, self.github = scene.bench, scene.github
        self.remote = self.bench.root / "remote.git"
        bench = self.bench
        bench.git("init", "-q", "--bare", "-b", "main", str(self.remote), cwd=bench.root)
        bench.git("push", "-q", str(self.remote), "HEAD:main", "feature/x")
        self.github.git_folder = self.remote
        bench.plan()
        self.env = self.github.env
        bench.run(*bench.loop_args(*more, "--on-complete", "pr"), env=self.env)
        assert len(bench.calls()) == stories
        if not self.github.pulls:
            bench.run("finish", "demo", "pr", env=self.env).ok()
        assert len(self.github.pulls) == 1

    def begin(self, *more: str) -> Live:
        return self.bench.start("watch-ci", "demo", "--json", *FAST, *more, env=self.env)

    def watch(self, *more: str, code: int = 0) -> Result:
        return self.begin(*more).wait().ok(code)

    def there(self) -> str:
        return self.bench.git("rev-parse", "ralph/demo", cwd=self.remote)


def rounds(result: Result) -> list[dict[str, Any]]:
    return result.named("ci_round")


def after(n: int, then: Checked, before: Checked = RED) -> Callable[[int, int], list[Checked]]:
    """Red until the n-th commit was pushed."""
    return lambda commit, time: [then if commit >= n else before]


def test_green_is_waited_for(start: Start) -> None:  # noqa: F811
    pull = HandedOver(start())
    running = Checked("old", "", is_status=True)
    ended = Checked("old", "success", is_status=True)
    pull.github.ci = lambda commit, time: [GREEN, ended] if time > 2 else [GREEN, running]
    before = pull.bench.snapshot()
    result = pull.watch()
    assert [event["running"] for event in result.named("ci_checks")] == [["old"], []]
    assert result.one("ci_ended")["outcome"] == "green"
    assert pull.bench.snapshot() == before


def test_a_red_check_is_mended_as_a_story_and_pushed(start: Start) -> None:  # noqa: F811
    pull = HandedOver(start())
    first, others = pull.there(), pull.bench.refs("refs/heads/")
    pull.github.ci = after(2, GREEN)
    result = pull.watch()
    assert result.one("ci_ended")["outcome"] == "green"
    assert [event["story_ids"] for event in rounds(result)] == [["4"]]
    call = pull.bench.calls()[3]
    assert call.env["UNTILDONE_STORY_ID"] == "4"
    assert "Make the CI check build / test (3.11) pass" in call.prompt
    _, _, log = call.prompt.partition("The end of its log:")
    assert "FAILED tests/test_two.py::test_two - ## 9. - [ ] not a story" in log
    assert "error: Process completed with exit code 1." in log
    assert "2026-11-18" not in log
    assert "orphan" not in log
    assert TOKEN not in call.prompt
    assert ".github/workflows/**" in call.prompt
    text = pull.bench.read(TASKS)
    assert text.count("- [ ]") == 0
    assert "FAILED tests" not in text
    # Pushed on top of what was there, to that branch only, and the text is brought up to date.
    remote, tip = pull.remote, pull.there()
    assert pull.bench.git("merge-base", first, tip, cwd=remote) == first
    assert tip != first
    assert "Make the CI check" in pull.github.pulls[0]["body"]
    assert pull.bench.refs("refs/heads/").keys() == others.keys()
    heads = pull.bench.git("for-each-ref", "--format=%(refname)", "refs/heads", cwd=remote)
    assert set(heads.split()) == {f"refs/heads/{n}" for n in ("main", "feature/x", "ralph/demo")}


@ONE
def test_red_after_the_last_round(start: Start) -> None:  # noqa: F811
    pull = HandedOver(start())
    pull.github.ci = after(99, GREEN)
    result = pull.watch("--rounds", "2", code=3)
    ended = result.one("ci_ended")
    assert (ended["outcome"], ended["rounds"], ended["red"]) == ("red", 2, [RED.name])
    assert len(pull.bench.calls()) == 5
    titles = [row for row in pull.bench.read(TASKS).splitlines() if "CI check" in row]
    assert [row.endswith("attempt 2") for row in titles] == [False, True]
    assert pull.watch("--rounds", "0", code=3).one("ci_ended")["rounds"] == 0
    assert len(pull.bench.calls()) == 5


def test_several_red_checks_are_several_stories_of_one_round(start: Start) -> None:  # noqa: F811
    pull = HandedOver(start())
    names = ("lint", "docs `x` #3", "win / 3.11", "mac / 3.11")
    red = [Checked(name, "failure", LOG) for name in names]
    other = Checked("by hand", "failure", said="Needs a label")
    pull.github.ci = lambda commit, time: [other, *red] if commit == 1 else [GREEN]
    result = pull.watch()
    (first,) = rounds(result)
    assert len(first["story_ids"]) == 3
    assert len(pull.bench.calls()) == 6
    assert "Needs a label" in pull.bench.calls()[3].prompt


@ONE
def test_what_no_code_can_mend_is_left_to_the_person(start: Start) -> None:  # noqa: F811
    pull = HandedOver(start())
    pull.github.ci = lambda commit, time: [Checked("deploy", "action_required")]
    assert pull.watch(code=3).one("ci_ended")["red"] == ["deploy"]
    assert len(pull.bench.calls()) == 3


@ONE
def test_no_ci_and_a_time_that_is_over(start: Start) -> None:  # noqa: F811
    pull = HandedOver(start())
    assert pull.watch(code=4).one("ci_ended")["outcome"] == "no_ci"
    pull.github.ci = lambda commit, time: [Checked("slow")]
    assert pull.watch("--timeout", "0.5s", code=124).one("ci_ended")["outcome"] == "timeout"
    live = pull.begin()
    live.wait_event("ci_checks")
    live.signal(signal.SIGINT)
    assert live.wait().code == 130


@ONE
def test_a_closed_pull_request_and_one_with_commits_of_others(start: Start) -> None:  # noqa: F811
    pull = HandedOver(start())
    pull.github.ci = lambda commit, time: [Checked("slow")]
    live = pull.begin()
    live.wait_event("ci_checks")
    pull.github.pulls[0]["state"] = "CLOSED"
    assert live.wait().ok(5).one("ci_ended")["outcome"] == "closed"
    assert "untildone finish demo pr" in pull.watch(code=2).stderr
    pull.github.pulls[0]["state"] = "OPEN"
    pull.bench.git("update-ref", "refs/heads/ralph/demo", "main", cwd=pull.remote)
    assert "commits that this run has not pushed" in pull.watch(code=5).stderr
    assert len(pull.bench.calls()) == 3


@ONE
def test_a_story_that_is_not_mended_ends_it_and_pushes_nothing(start: Start) -> None:  # noqa: F811
    pull = HandedOver(start(), "--max-retries", "0")
    first = pull.there()
    pull.github.ci = after(2, GREEN)
    pull.bench.plan(default=fails("no idea"))
    result = pull.watch(code=3)
    assert result.one("ci_ended")["outcome"] == "not_mended"
    assert pull.there() == first
    pull.bench.plan()
    pull.bench.run("resume", "demo", "--json", env=pull.env).ok()


@ONE
def test_an_agent_that_changes_the_workflow_has_not_mended_it(start: Start) -> None:  # noqa: F811
    scene = start()
    scene.bench.write(".github/workflows/ci.yml", "on: push\n")
    scene.bench.commit("ci")
    pull = HandedOver(scene, "--max-retries", "0")
    pull.github.ci = after(2, GREEN)
    cheat = [["write", ".github/workflows/ci.yml", "off\n"], ["say", "<promise>COMPLETE</promise>"]]
    pull.bench.plan(default=cheat)
    assert pull.watch(code=3).one("ci_ended")["outcome"] == "not_mended"


@ONE
def test_the_budget_of_the_run_bounds_it(start: Start) -> None:  # noqa: F811
    pull = HandedOver(start(), "--budget", "iterations=3")
    pull.github.ci = after(2, GREEN)
    before = pull.bench.snapshot()
    assert pull.watch(code=6).one("ci_ended")["outcome"] == "budget"
    assert pull.bench.snapshot() == before


def test_github_that_is_away_for_a_moment_ends_nothing(start: Start) -> None:  # noqa: F811
    pull = HandedOver(start())
    pull.github.ci = lambda commit, time: [GREEN if time > 3 else Checked("slow")]
    live = pull.begin()
    live.wait_event("ci_checks")
    pull.github.refuse(2)
    assert live.wait().ok().one("ci_ended")["outcome"] == "green"


@ONE
def test_other_open_stories_are_left_alone(start: Start) -> None:  # noqa: F811
    scene = start()
    pull = HandedOver(scene, "--story", "1", stories=1)
    pull.github.ci = after(2, GREEN)
    assert pull.watch().one("ci_ended")["outcome"] == "green"
    assert [call.env["UNTILDONE_STORY_ID"] for call in pull.bench.calls()] == ["1", "4"]


@ONE
def test_in_a_worktree_the_users_files_stay(start: Start) -> None:  # noqa: F811
    pull = HandedOver(start(), "--checkpoint", "worktree")
    before = pull.bench.contents()
    pull.github.ci = after(2, GREEN)
    assert pull.watch().one("ci_ended")["outcome"] == "green"
    assert pull.bench.contents() == before
    assert pull.bench.branch() == "feature/x"


@ONE
def test_what_is_refused(start: Start) -> None:  # noqa: F811
    scene = start()
    bench = scene.bench
    bench.plan()
    bench.only_stories(1)
    bench.loop("--on-complete", "keep").ok()
    assert "has not been handed over" in bench.run("watch-ci", "demo").ok(2).stderr
    pull = HandedOver(scene, stories=1)
    bench.git("checkout", "-q", "feature/x")
    assert "git checkout ralph/demo" in pull.watch(code=2).stderr
    pull.github.ci = lambda commit, time: [GREEN]
    said = bench.run("watch-ci", "--rounds", "0", *FAST, env=pull.env).ok().stdout
    assert "1 check: 1 green" in said
    assert json.loads(pull.watch("--rounds", "0").stdout.splitlines()[-1])["outcome"] == "green"
