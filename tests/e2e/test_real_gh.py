"""GitHub issues with the real `gh`, the installed one and a newer one, and a fake GitHub."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.install import pins
from tests.agents.loopback import only_loopback
from tests.e2e.agent_calls import COMPLETE, failed, fails
from tests.e2e.fake_github import REMOTE, FakeGitHub, Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.bench import Bench
    from tests.e2e.command import Result

    Start = Callable[..., "Scene"]

pytestmark = pytest.mark.e2e


class Scene:
    """A repository with a remote on the fake GitHub, and one `gh` on PATH."""

    def __init__(self, bench: Bench, gh: str, tickets: tuple[Ticket, ...]) -> None:
        self.bench = bench
        self.github = FakeGitHub(tickets)
        (bench.bin / "gh").symlink_to(gh)
        bench.git("remote", "add", "origin", REMOTE)
        asked = subprocess.run(
            [gh, "issue", "list", "--json"],
            env=bench.env(self.github.env),
            cwd=bench.repo,
            capture_output=True,
            text=True,
            check=False,
        )
        self.fields = asked.stderr.split()

    def call(self, *args: str, **env: str | None) -> Result:
        return self.bench.run(*args, "--source", "github", "--json", env=self.github.env | env)

    def stories(self, change: str) -> Any:
        return self.call("stories", change).ok().json()

    def run(self, change: str, *more: str, **env: str | None) -> Result:
        return self.call("run", change, "--agent-cmd", self.bench.agent, *more, **env)


def installed() -> tuple[str, str]:
    """The one on PATH: in CI it is Debian's, which tells no links and no reasons."""
    found = shutil.which("gh")
    return found or "", "" if found else "gh is not installed: `make packages` installs it"


def newer() -> tuple[str, str]:
    """One in a version that tells both."""
    pin = pins()["gh"]
    return str(pin.path), pin.missing()


@pytest.fixture(params=[installed, pytest.param(newer, marks=pytest.mark.agent)])
def start(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Start]:
    """Builds the scene, out of reach of any network where the machine allows it."""
    path, why = request.param()
    if why:
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)
    made: list[Scene] = []

    def make(*tickets: Ticket) -> Scene:
        made.append(Scene(bench, path, tickets))
        made[-1].github.__enter__()
        return made[-1]

    bench.installed = True  # a process that was there before is not enclosed
    with only_loopback():
        yield make
        for scene in made:
            scene.github.__exit__()


def test_issues_with_a_label_are_stories(start: Start) -> None:
    scene = start(
        Ticket(3, "First", ("night", "priority: high"), body="## Acceptance\r\n- [ ] one\r\n"),
        Ticket(4, "Not wanted", ("Night",), state="CLOSED", reason="NOT_PLANNED"),
        Ticket(5, "A pull request", ("night",), pull=True),
        Ticket(6, "By text", ("night",), body="Depends on #3, #5\nBlocked by #7"),
        Ticket(7, "A merged one", pull=True, state="MERGED"),
        Ticket(8, "By link", ("night",), blocked_by=("#3", "#9")),
        Ticket(9, "Closed elsewhere", ("day",), state="CLOSED"),
        Ticket(10, "By a link to elsewhere", ("night",), blocked_by=("ada/day#3",)),
    )
    told = scene.stories("night")
    rows = [(s["id"], s["state"], s["depends_on"], s["priority"]) for s in told["stories"]]
    linked, reasoned = "blockedBy" in scene.fields, "stateReason" in scene.fields
    assert rows == [
        ("3", "open", [], 1),
        ("4", "done", [], None),
        ("6", "open", ["3"], None),
        ("8", "open", ["3"] if linked else [], None),
        ("10", "open", [], None),
    ]
    assert told["stories"][0]["acceptance"] == ["one"]
    said = {remark["line"]: remark["why"].rpartition(": ")[2] for remark in told["ignored"]}
    expected = {6: "#5"} | ({4: "it is not planned."} if reasoned else {})
    assert said == expected | ({10: "ada/day#3"} if linked else {})


def test_milestones_and_names_that_are_alike(start: Start) -> None:
    scene = start(
        Ticket(3, "In a version", milestone="v1"),
        Ticket(4, "In a year", milestone="2026"),
        Ticket(5, "With blanks", ("good first issue",)),
        Ticket(6, "In a half", milestone="Second half"),
        Ticket(7, "A pull request", milestone="v1", pull=True),
        Ticket(8, "With a sign", ('say"hi"',)),
    )
    names = ("v1", "2026", "good-first-issue", "second-half", 'say"hi"')
    told = [scene.stories(name) for name in names]
    assert [([story["id"] for story in each["stories"]], each["path"]) for each in told] == [
        (["3"], "GitHub milestone v1"),
        (["4"], "GitHub milestone 2026"),
        (["5"], "GitHub label good first issue"),
        (["6"], "GitHub milestone Second half"),
        (["8"], 'GitHub label say"hi"'),
    ]
    refused = scene.call("stories", "nothing").ok(2)
    assert "No issue has this label or milestone: nothing" in refused.stderr


def test_a_long_list_comes_in_pages(start: Start) -> None:
    scene = start(*(Ticket(n, f"Number {n}", ("night",)) for n in range(1, 231)))
    told = scene.stories("night")
    assert [story["id"] for story in told["stories"]] == [str(n) for n in range(1, 231)]
    assert len(scene.github.asked("IssueSearch")) == 3


def test_a_run_closes_the_issues_and_nobody_else_does(start: Start) -> None:
    scene = start(
        Ticket(3, "Second", ("night",), body="Depends on #4"), Ticket(4, "First", ("night",))
    )
    scene.bench.plan(
        {
            1: [["sh", "gh issue close 4"], ["say", failed("no luck")]],
            2: [["sh", "gh issue close 3"], ["write", "a.txt", "a\n"], ["say", COMPLETE]],
        }
    )
    ended = scene.run("night").ok()
    assert ended.outcomes() == ["failed", "complete", "complete"]
    assert [c.env["UNTILDONE_STORY_ID"] for c in scene.bench.calls()] == ["4", "4", "3"]
    again = "Open again: it was closed by an attempt that did not finish it."
    done = "Done by a run of untildone."
    for number in (3, 4):
        ticket = scene.github.ticket(number)
        assert (ticket.state, ticket.comments) == ("CLOSED", (again, done))


def test_lanes_close_each_issue_once_its_work_has_landed(start: Start) -> None:
    scene = start(
        *(Ticket(n, f"Story {n}", ("night",), body=f"Touches: own-{n}.txt") for n in (3, 4, 5)),
        Ticket(6, "Last", ("night",), body="Depends on #3, #4, #5"),
    )
    closes = [["sh", "gh issue close 6 -R ada/night"], ["say", failed("no luck")]]
    work = [["write", "work-{n}.txt", "work\n"], ["say", COMPLETE]]
    scene.bench.plan({1: closes}, default=work)
    ended = scene.run("night", "--lanes", "2").ok()
    assert [event["story_id"] for event in ended.named("landed")][-1] == "6"
    done = "Done by a run of untildone."
    for number in (3, 4, 5, 6):
        ticket = scene.github.ticket(number)
        assert (ticket.state, ticket.comments[-1]) == ("CLOSED", done)
        assert len(ticket.comments) == 1 + (number == 6)


def test_who_is_not_logged_in_is_told_how(start: Start) -> None:
    scene = start(Ticket(3, "First", ("night",)))
    nobody = scene.run("night", GH_TOKEN=None, GH_HOST=None).ok(2)
    assert "failed (exit code 4): To get started with GitHub CLI" in nobody.stderr
    expired = scene.run("night", GH_TOKEN="old").ok(2)
    assert "Bad credentials" in expired.stderr
    for refused in (nobody, expired):
        assert refused.stderr.splitlines()[-1] == "hint: gh auth login"
    assert (scene.bench.calls(), scene.github.asked()) == ([], [])


def test_an_issue_that_cannot_be_closed_now_is_closed_by_resume(start: Start) -> None:
    scene = start(Ticket(3, "First", ("night",)))
    scene.github.refuse(1)
    stuck = scene.run("night").ok(3)
    assert "`gh issue close 3` failed (exit code 1)" in stuck.stderr
    assert scene.github.ticket(3).state == "OPEN"
    scene.bench.run("resume", "night", "--json", env=scene.github.env).ok()
    assert (scene.github.ticket(3).state, len(scene.bench.calls())) == ("CLOSED", 1)


def test_a_run_becomes_a_pull_request_and_is_brought_up_to_date(start: Start) -> None:
    scene = start()
    bench, github = scene.bench, scene.github
    remote = bench.root / "remote.git"
    bench.git("init", "-q", "--bare", "-b", "main", str(remote), cwd=bench.root)
    bench.git("push", "-q", str(remote), "HEAD:main", "feature/x")
    github.git_folder = remote  # from here on `origin` answers, as GitHub does
    bench.plan({2: fails("no idea")})
    args = bench.loop_args("--max-retries", "0", "--verify", "test -f work-1.txt")
    bench.run(*args, "--on-complete", "pr", env=github.env).ok(3)
    (pull,) = github.pulls
    told = (pull["isDraft"], pull["baseRefName"], pull["headRefName"], pull["title"])
    assert told == (True, "feature/x", "ralph/demo", "demo")
    assert "NOT DONE" in pull["body"]
    bench.plan()
    bench.run("resume", "demo", "--json", env=github.env).ok()
    assert len(github.pulls) == 1
    assert (pull["isDraft"], "NOT DONE" in pull["body"]) == (False, False)
    log = ("log", "--reverse", "--format=%s", "main..ralph/demo")
    assert bench.git(*log, cwd=remote).splitlines() == [f"checkpoint: {n}" for n in (1, 2, 3)]
    bench.run("finish", "demo", "pr", "--draft", env=github.env).ok()
    assert pull["isDraft"] is True


def test_who_is_not_logged_in_has_the_branch_and_is_told(start: Start) -> None:
    scene = start()
    bench, github = scene.bench, scene.github
    remote = bench.root / "remote.git"
    bench.git("init", "-q", "--bare", "-b", "main", str(remote), cwd=bench.root)
    bench.git("push", "-q", str(remote), "HEAD:main")
    github.git_folder = remote
    bench.plan()
    bench.loop().ok()
    env = github.env | {"GH_TOKEN": "wrong"}
    refused = bench.run("finish", "demo", "pr", env=env).ok(5)
    assert "gh auth login" in refused.stderr
    assert "`ralph/demo` is pushed to origin" in refused.stderr
