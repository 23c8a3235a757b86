"""`finish CHANGE pr` and `--on-complete pr`: real remotes on disk, and fakes of `gh` and `glab`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, fails
from tests.e2e.change import TASKS
from tests.e2e.fake_forge import FakeForge
from tests.e2e.test_lanes import Lanes
from tests.e2e.users_tree import users_own

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench
    from tests.e2e.command import Result

pytestmark = pytest.mark.e2e

BRANCH = "ralph/demo"
STORIES = ["checkpoint: 1", "checkpoint: 2", "checkpoint: 3"]
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
# The last word is the command for the other side.
SSH = """\
#!/bin/sh
shift $(($# - 1))
exec sh -c "$(echo "$1" | sed "s#'team/repo.git'#{remote}#")"
"""


class Scene:
    """A repository whose branch `feature/x` and `main` are on a bare remote on disk."""

    def __init__(self, bench: Bench, forge: str = "gh") -> None:
        self.bench = bench
        self.remote = bench.root / "remote.git"
        bench.git("init", "-q", "--bare", "-b", "main", str(self.remote), cwd=bench.root)
        bench.git("remote", "add", "origin", f"file://{self.remote}")
        bench.git("push", "-q", "origin", "HEAD:main", "feature/x")
        bench.plan()
        # Programs that are installed on this machine must not be found.
        self.env = {"PATH": f"{bench.bin}:{self._few_programs(bench)}"}
        self.forge = FakeForge(bench, forge) if forge else None

    @staticmethod
    def _few_programs(bench: Bench) -> Path:
        few = bench.root / "few"
        few.mkdir()
        for name in ("git", "sh", "cat", "python3", "sed", "env", "test", "grep", "true", "false"):
            found = shutil.which(name)
            if found:
                (few / name).symlink_to(found)
        return few

    def loop(self, *more: str) -> Result:
        return self.bench.loop(*more, env=self.env)

    def finish(self, *more: str, code: int = 0) -> Result:
        return self.bench.run("finish", "demo", "pr", *more, env=self.env).ok(code)

    def there(self, branch: str = BRANCH, since: str = "feature/x") -> list[str]:
        """The subjects of a branch of the remote, oldest first."""
        log = ("log", "--reverse", "--format=%s", f"{since}..{branch}")
        return self.bench.git(*log, cwd=self.remote).splitlines()

    def has(self, branch: str = BRANCH) -> str:
        return self.bench.git("rev-parse", "-q", "--verify", branch, cwd=self.remote, ok=False)

    def hook(self, name: str, script: str, where: Path | None = None) -> None:
        path = (where or self.remote) / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


def test_a_finished_run_becomes_a_draft_pull_request(bench: Bench) -> None:
    scene = Scene(bench)
    assert scene.forge
    scene.loop().ok()
    before = bench.snapshot()
    said = scene.finish().stdout
    assert scene.forge.url in said
    assert scene.there() == STORIES
    assert bench.git("rev-parse", f"{BRANCH}^{{tree}}", cwd=scene.remote) == bench.tree_of(BRANCH)
    after = bench.snapshot()
    gone = {"refs/remotes/origin/ralph/demo", *after["refs"]} - before["refs"].keys()
    assert all(ref.startswith(("refs/remotes/", "refs/ralph/pushed/demo/")) for ref in gone)
    assert {**after, "refs": before["refs"]} == before
    pr = scene.forge.pr
    assert (pr["isDraft"], pr["baseRefName"], pr["head"], pr["title"]) == (
        *(True, "feature/x", BRANCH, "demo"),
    )
    for words in ("Alpha greeting", "the agent's word alone", "No check ran", "How to look"):
        assert words in pr["body"]
    assert str(bench.root) not in pr["body"]
    body = bench.git("log", "-1", "--format=%b", BRANCH, cwd=scene.remote)
    assert "Untildone-Story: 3" in body


def test_a_run_whose_stories_are_verified_is_ready(bench: Bench) -> None:
    scene = Scene(bench)
    assert scene.forge
    scene.loop("--verify", "true", "--verify", "test -f work-1.txt", "--on-complete", "pr").ok()
    assert scene.there() == STORIES
    assert scene.forge.pr["isDraft"] is False
    assert "verified: its checks passed" in scene.forge.pr["body"]
    assert "test -f work-1.txt" in scene.forge.pr["body"]


def test_called_again_the_pull_request_is_brought_up_to_date(bench: Bench) -> None:
    scene = Scene(bench)
    assert scene.forge
    bench.plan({1: DONE}, default=fails("no idea"))
    ended = scene.loop(
        "--max-retries", "0", "--verify", "test -f work-1.txt", "--on-complete", "pr"
    )
    assert ended.ok(3).one("finished")["status"] == "stuck"
    first = scene.has()
    assert (scene.there(), scene.forge.pr["isDraft"]) == (["checkpoint: 1"], True)
    assert "NOT DONE" in scene.forge.pr["body"]
    bench.plan()
    bench.run("resume", "demo", "--json", env=scene.env).ok()
    assert bench.git("merge-base", first, BRANCH, cwd=scene.remote) == first
    assert (scene.there(), scene.forge.pr["isDraft"]) == (STORIES, False)
    assert "NOT DONE" not in scene.forge.pr["body"]
    assert scene.forge.verbs.count("create") == 1
    scene.finish()
    assert scene.there() == STORIES


def test_a_ready_pull_request_is_made_a_draft_only_on_request(bench: Bench) -> None:
    scene = Scene(bench)
    assert scene.forge
    scene.loop().ok()
    scene.finish("--ready")
    assert scene.forge.pr["isDraft"] is False
    scene.finish()
    assert scene.forge.pr["isDraft"] is False
    scene.finish("--draft")
    assert scene.forge.pr["isDraft"] is True


def test_base_and_remote_are_taken_as_told(bench: Bench) -> None:
    scene = Scene(bench)
    assert scene.forge
    bench.git("remote", "rename", "origin", "mine")
    bench.git("remote", "add", "other", "file:///nowhere")
    scene.loop().ok()
    assert "Several remotes" in scene.finish(code=2).stderr
    scene.finish("--remote", "mine", "--base", "main")
    assert scene.forge.pr["baseRefName"] == "main"
    assert "There is no remote called `lost`" in scene.finish("--remote", "lost", code=2).stderr
    assert "`ralph/demo`" in scene.finish("--remote", "mine", "--base", BRANCH, code=2).stderr
    missing = scene.finish("--remote", "mine", "--base", "nowhere", code=5)
    assert "nowhere" in missing.stderr


def test_a_base_that_somebody_chose_there_stays_until_another_is_named(bench: Bench) -> None:
    scene = Scene(bench)
    assert scene.forge
    scene.loop().ok()
    scene.finish("--base", "main")
    assert scene.finish("--json").one("pull_request")["base"] == "main"
    assert scene.forge.pr["baseRefName"] == "main"
    assert scene.finish("--base", "feature/x", "--json").one("pull_request")["base"] == "feature/x"
    assert scene.forge.pr["baseRefName"] == "feature/x"


def test_the_usual_branch_of_the_remote_is_never_pushed_to(bench: Bench) -> None:
    scene = Scene(bench)
    bench.git("push", "-q", "origin", f"HEAD:{BRANCH}")
    bench.git("symbolic-ref", "HEAD", f"refs/heads/{BRANCH}", cwd=scene.remote)
    before = scene.has()
    scene.loop().ok()
    assert "usual branch of origin" in scene.finish("--base", "main", code=5).stderr
    assert scene.has() == before


def test_a_branch_that_the_remote_does_not_have_is_no_base(bench: Bench) -> None:
    scene = Scene(bench)
    assert scene.forge
    bench.git("checkout", "-q", "-b", "only-here")
    scene.loop().ok()
    scene.finish()
    assert scene.forge.pr["baseRefName"] == "main"


def test_squashed_it_is_one_commit_and_later_one_more(bench: Bench) -> None:
    scene = Scene(bench)
    bench.plan({1: DONE}, default=fails())
    scene.loop("--max-retries", "0").ok(3)
    scene.finish("--squash")
    assert scene.there() == ["demo"]
    bench.plan()
    bench.run("resume", "demo", "--json", env=scene.env).ok()
    scene.finish("--squash")
    assert scene.there() == ["demo", "demo"]
    assert bench.git("rev-parse", f"{BRANCH}^{{tree}}", cwd=scene.remote) == bench.tree_of(BRANCH)
    scene.finish("--squash")
    assert scene.there() == ["demo", "demo"]
    assert "it has other commits" in scene.finish(code=5).stderr


def test_without_gh_the_text_and_the_commands_are_there(bench: Bench) -> None:
    scene = Scene(bench, "")
    scene.loop().ok()
    refused = scene.finish(code=5)
    push, create = refused.stdout.splitlines()
    assert not scene.has()
    assert bench.branch() == BRANCH
    assert "`gh` is not on PATH" in refused.stderr
    assert "The work is on `ralph/demo`" in refused.stderr
    text = create.rpartition("--body-file ")[2]
    assert text in refused.stderr
    assert create.startswith("gh pr create --head ralph/demo --base feature/x --draft --title demo")
    bench.git(*push.split()[1:])
    assert scene.there() == STORIES
    FakeForge(bench)
    scene.finish()


def test_at_the_end_of_a_run_without_gh_the_exit_code_says_so(bench: Bench) -> None:
    scene = Scene(bench, "")
    ended = scene.loop("--on-complete", "pr").ok(5)
    assert ended.one("finished")["status"] == "done"
    assert "gh pr create" in ended.stderr
    warned = [e["message"] for e in ended.named("warning")]
    assert any("`gh` is not on PATH" in text for text in warned)


def test_no_remote_is_said_before_anything_is_done(bench: Bench) -> None:
    bench.plan()
    before = bench.snapshot()
    refused = bench.loop("--on-complete", "pr").ok(2)
    assert "There is no remote to push to" in refused.stderr
    assert bench.snapshot() == before
    bench.loop().ok()
    assert "git remote add origin" in bench.run("finish", "demo", "pr").ok(2).stderr


def test_uncommitted_work_is_handed_over_only_on_request(bench: Bench) -> None:
    scene = Scene(bench)
    bench.write("notes.txt", "my own\n")
    assert "notes.txt" in scene.loop("--on-complete", "pr").ok(2).stderr
    scene.loop().ok()
    assert "notes.txt" in scene.finish(code=5).stderr
    assert not scene.has()
    scene.finish("--with-uncommitted")
    assert scene.there() == ["Work before the run: demo", *STORIES]
    assert bench.git("show", f"{BRANCH}~3:notes.txt", cwd=scene.remote) == "my own"


def test_a_plan_that_was_not_committed_is_a_commit_of_its_own(bench: Bench) -> None:
    scene = Scene(bench)
    bench.write(TASKS, bench.read(TASKS) + "\n")
    bench.write("openspec/changes/demo/design.md", "why\n")
    scene.loop("--on-complete", "pr").ok()
    assert scene.there() == ["The plan: demo", *STORIES]


@pytest.mark.parametrize("why", ["protected", "other commits", "gone", "pre-push"])
def test_a_push_that_is_refused_loses_nothing(bench: Bench, why: str) -> None:
    scene = Scene(bench)
    assert scene.forge
    scene.loop().ok()
    if why == "protected":
        scene.hook("update", 'echo "this branch is protected"; exit 1')
    elif why == "other commits":
        bench.git("push", "-q", "origin", f"feature/x:refs/heads/{BRANCH}")
        other = bench.root / "other"
        bench.git("clone", "-q", "-b", BRANCH, str(scene.remote), str(other), cwd=bench.root)
        bench.git("commit", "-q", "--allow-empty", "-m", "somebody else's", cwd=other)
        bench.git("push", "-q", "origin", BRANCH, cwd=other)
    elif why == "gone":
        scene.remote.rename(bench.root / "moved.git")
    else:
        scene.hook("pre-push", 'echo "not on a Friday" >&2; exit 1', bench.repo / ".git")
    before = bench.snapshot()["refs"], bench.status()
    theirs = scene.has() if why != "gone" else ""
    refused = scene.finish(code=5)
    said = {"protected": "protected", "other commits": "other commits", "gone": "does not"}
    assert said.get(why, "not on a Friday") in refused.stderr
    assert "nothing is lost" in refused.stderr
    assert "hint:" in refused.stderr
    refs = {k: v for k, v in bench.refs().items() if not k.startswith("refs/ralph/pushed/")}
    assert (refs, bench.status()) == before
    assert (scene.has() if why != "gone" else "") == theirs
    assert scene.forge.verbs == []


def test_hooks_and_settings_of_the_user_are_obeyed_by_the_push(bench: Bench) -> None:
    scene = Scene(bench)
    scene.hook("pre-push", f'cat > "{bench.root}/pushed"', bench.repo / ".git")
    scene.loop().ok()
    scene.finish()
    assert f"refs/heads/{BRANCH}" in (bench.root / "pushed").read_text()


def test_when_the_forge_refuses_the_branch_is_there_and_the_next_call_goes_on(
    bench: Bench,
) -> None:
    scene = Scene(bench)
    assert scene.forge
    scene.loop().ok()
    scene.forge.breaks("create", f"HTTP 401: Bad credentials {TOKEN}")
    refused = scene.finish(code=5)
    assert "gh auth login" in refused.stderr
    assert TOKEN not in refused.stderr
    assert "gh pr create" in refused.stdout
    assert scene.there() == STORIES
    scene.forge.mends()
    scene.finish()
    assert scene.forge.pr["number"] == 7


def test_secrets_stay_out_of_the_text(bench: Bench) -> None:
    scene = Scene(bench)
    assert scene.forge
    bench.plan({2: [["say", f"<promise>FAILED: the token {TOKEN} is wrong</promise>"]]})
    env = scene.env | {"MY_API_KEY": "hunter2hunter2"}
    args = bench.loop_args("--max-retries", "0", "--verify", "true hunter2hunter2")
    bench.run(*args, "--on-fail", "skip", env=env)
    bench.run("finish", "demo", "pr", env=env).ok()
    assert "true" in scene.forge.pr["body"]
    for secret in (TOKEN, "hunter2hunter2"):
        assert secret not in scene.forge.pr["body"]


def test_gitlab_gets_a_merge_request(bench: Bench) -> None:
    scene = Scene(bench, "glab")
    assert scene.forge
    bench.write("untildone.toml", 'forge = "gitlab"\n')
    bench.commit("settings")
    bench.git("push", "-q", "origin", "feature/x")
    scene.loop("--verify", "true").ok()
    scene.finish("--draft")
    assert scene.forge.url in scene.finish("--json").stdout
    assert scene.forge.pr["isDraft"] is False
    assert scene.forge.verbs == ["list", "create", "list", "update", "update"]


def test_the_host_of_the_remote_says_which_forge_it_is(bench: Bench) -> None:
    scene = Scene(bench)
    glab = FakeForge(bench, "glab")
    for host, name in (("gitlab.example", "glab"), ("github.example", "gh")):
        url = f"git@{host}:team/repo.git"
        bench.git("config", f"url.file://{scene.remote}.insteadOf", url)
        bench.git("remote", "set-url", "origin", url)
        if not bench.has(BRANCH):
            scene.loop().ok()
        # The address that git really uses has no host; this one has.
        bench.git("config", "--unset-all", f"url.file://{scene.remote}.insteadOf")
        ssh = bench.program("fake-ssh", SSH.format(remote=scene.remote))
        env = scene.env | {"GIT_SSH_COMMAND": str(ssh)}
        bench.run("finish", "demo", "pr", env=env).ok()
        last = glab.calls[-1]
        project = f"https://{host}/team/repo" if name == "glab" else f"{host}/team/repo"
        assert (last[0], last[last.index("--repo") + 1]) == (name, project)
        (bench.root / "forge-pr.json").unlink()


def test_where_nobody_knows_the_forge_it_is_asked_for(bench: Bench) -> None:
    scene = Scene(bench)
    FakeForge(bench, "glab")
    scene.loop().ok()
    assert 'forge = "github"' in scene.finish(code=5).stderr


def test_what_is_finished_when_the_budget_is_used_up_is_handed_over(bench: Bench) -> None:
    scene = Scene(bench)
    assert scene.forge
    scene.loop("--budget", "iterations=1").ok(6)
    scene.finish()
    assert (scene.there(), scene.forge.pr["isDraft"]) == (["checkpoint: 1"], True)


def test_nothing_finished_is_nothing_to_hand_over(bench: Bench) -> None:
    scene = Scene(bench)
    bench.plan(default=fails())
    scene.loop("--max-retries", "0", "--on-complete", "pr").ok(3)
    assert not scene.has()
    assert "nothing to hand over" in scene.finish(code=5).stderr


def test_commits_of_the_agent_and_of_the_person_are_part_of_it(bench: Bench) -> None:
    scene = Scene(bench)
    own = [["write", "a.txt", "a\n"], ["git", "add", "-A"], ["git", "commit", "-q", "-m", "own"]]
    bench.plan({1: [*own, ["say", COMPLETE]]})
    scene.loop().ok()
    bench.write("by-hand.txt", "mine\n")
    bench.commit("by hand")
    bench.write("not-yet.txt", "mine\n")
    said = scene.finish().stderr
    assert scene.there() == ["own", *STORIES, "by hand"]
    assert "Uncommitted edits" in said


@pytest.mark.parametrize("how", ["worktree", "lanes"])
def test_the_users_own_tree_stays_as_it_is(bench: Bench, how: str) -> None:
    scene = Scene(bench)
    more: tuple[str, ...] = ("--checkpoint", "worktree")
    if how == "lanes":
        more = Lanes(bench, 3).args(3)
        bench.git("push", "-q", "origin", "feature/x")
    before = users_own(bench)
    scene.loop(*more, "--on-complete", "pr").ok()
    assert sorted(scene.there()) == STORIES
    after = users_own(bench)
    after["refs"].pop("refs/remotes/origin/ralph/demo")
    assert after == before


def test_a_loop_that_waits_for_its_choice_is_told_to_keep(bench: Bench) -> None:
    scene = Scene(bench)
    live = bench.begin("--on-complete", "ask", env=scene.env)
    live.wait_event("complete")
    scene.finish()
    assert live.wait().one("finished")["choice"] == "keep"
    assert scene.there() == STORIES


def test_a_run_in_the_stash_has_nothing_to_push(bench: Bench) -> None:
    scene = Scene(bench)
    said = scene.loop("--checkpoint", "stash", "--on-complete", "pr").ok(2).stderr
    assert "has no branch" in said


def test_options_of_pr_are_for_pr_only(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    for option in (("--draft",), ("--ready",), ("--base", "main"), ("--squash",)):
        assert "for `pr`" in bench.run("finish", "demo", "keep", *option).ok(2).stderr


def test_after_a_pull_request_cleanup_still_brings_the_work_home(bench: Bench) -> None:
    scene = Scene(bench)
    scene.loop("--on-complete", "pr").ok()
    bench.run("finish", "demo", "cleanup").ok()
    assert (bench.branch(), bench.read("work-1.txt") != "") == ("feature/x", True)
    assert scene.there() == STORIES
    assert "already ended" in scene.finish(code=2).stderr
