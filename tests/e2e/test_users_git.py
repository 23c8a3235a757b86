"""What is the user's in git stays the user's: hooks, identity, variables, remotes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, failed, fails
from tests.e2e.change import TASKS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_no_hooks_run_and_nothing_is_signed(bench: Bench) -> None:
    hooks = bench.path(".git/hooks")
    hooks.mkdir(exist_ok=True)
    mark = bench.root / "hook-ran"
    for name in (
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "post-merge",
        "post-index-change",
        "reference-transaction",
    ):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {mark}\nexit 1\n")
        (hooks / name).chmod(0o755)
    bench.git("config", "commit.gpgsign", "true")
    bench.git("config", "gpg.program", "/nonexistent/gpg")
    before = {p.name: p.read_bytes() for p in hooks.iterdir()}
    config = bench.read(".git/config")
    # The fake agent's own questions run no hook.
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    assert not mark.exists(), mark.read_text()
    assert {p.name: p.read_bytes() for p in hooks.iterdir()} == before
    assert bench.read(".git/config") == config


def test_commits_carry_the_users_identity(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    form = "%an <%ae> %cn <%ce>"
    who = set(bench.git("log", f"--format={form}", "feature/x..ralph/demo").splitlines())
    assert who == {"Ada Bench <ada@bench.invalid> Ada Bench <ada@bench.invalid>"}


def test_identity_and_places_of_settings_come_from_the_environment(bench: Bench) -> None:
    bench.only_stories(1)
    start, form = bench.sha(), "%an <%ae> %cn <%ce>"
    (bench.home / ".gitconfig").unlink()
    env = {
        "GIT_AUTHOR_NAME": "Grace",
        "GIT_AUTHOR_EMAIL": "grace@x.invalid",
        "GIT_COMMITTER_NAME": "Bot",
        "EMAIL": "bot@x.invalid",
    }
    bench.plan()
    bench.loop("--on-complete", "keep", env=env).ok()
    who = set(bench.git("log", f"--format={form}", f"{start}..ralph/demo").splitlines())
    assert who == {"Grace <grace@x.invalid> Bot <bot@x.invalid>"}
    bench.run("restore", "demo", env=env).ok()
    mine = bench.root / "mine.cfg"
    mine.write_text("[user]\n\tname = Else\n\temail = else@x.invalid\n")
    bench.loop("--on-complete", "keep", env={"GIT_CONFIG_GLOBAL": str(mine)}).ok()
    who = set(bench.git("log", f"--format={form}", f"{start}..ralph/demo").splitlines())
    assert who == {"Else <else@x.invalid> Else <else@x.invalid>"}


def test_no_identity_is_no_obstacle(bench: Bench) -> None:
    (bench.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    bench.plan()
    bench.loop("--on-complete", "cleanup").ok()
    assert bench.branch() == "feature/x"


def test_inherited_git_variables_are_ignored(bench: Bench) -> None:
    alien = bench.root / "alien"
    bench.git("init", "-q", str(alien))
    start = bench.sha()
    bench.plan()
    env = {
        "GIT_DIR": str(alien / ".git"),
        "GIT_WORK_TREE": str(alien),
        "GIT_INDEX_FILE": str(bench.root / "alien-index"),
    }
    bench.loop(env=env).ok()
    assert len(bench.subjects(f"{start}..ralph/demo")) == 4
    assert bench.git("for-each-ref", cwd=alien) == ""
    assert not (bench.root / "alien-index").exists()
    assert {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"} & set(bench.calls()[0].env) == set()


@pytest.mark.parametrize("text", ["\n", "!.env\n", "other\n"])
def test_ignored_files_survive_a_rewritten_ignore_file(bench: Bench, text: str) -> None:
    start = bench.sha()
    bench.plan(
        {
            1: [["write", ".gitignore", text], ["say", failed("x")]],
            2: [["write", ".gitignore", text], *DONE],
        }
    )
    bench.loop("--on-complete", "keep").ok()
    assert (bench.read(".env"), bench.read("build/cache.bin")) == ("SECRET=1\n", "cache\n")
    names = bench.git("log", "--all", "--format=", "--name-only", f"^{start}").split()
    assert not {".env", "build/cache.bin"} & set(names)


def test_remotes_tags_and_other_branches_stay(bench: Bench) -> None:
    bench.git("tag", "v1")
    bench.git("branch", "other")
    bench.git("update-ref", "refs/remotes/origin/main", "HEAD")
    before = bench.refs()
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    after = {name: sha for name, sha in bench.refs().items() if not name.startswith("refs/ralph/")}
    assert after == before


SETTINGS = {
    "core.ignoreCase": "true",
    "core.fileMode": "false",
    "core.symlinks": "false",
    "core.trustctime": "false",
    "core.checkStat": "minimal",
    "core.ignoreStat": "true",
    "core.preferSymlinkRefs": "true",
    "core.splitIndex": "true",
    "splitIndex.sharedIndexExpire": "now",
}
SAME_SIZE_AND_TIME = (
    "touch -r foo.txt mark && printf FOO > foo.txt && touch -r mark foo.txt && rm mark"
)


@pytest.mark.parametrize(
    "checkpoint",
    ["branch", *(pytest.param(name, marks=pytest.mark.full) for name in ("stash", "worktree"))],
)
def test_settings_that_describe_another_disk_lose_nothing(bench: Bench, checkpoint: str) -> None:
    bench.only_stories(1, 2)
    bench.write("foo.txt", "foo")
    bench.path("link").symlink_to("foo.txt")
    bench.commit("theirs")
    for name, value in SETTINGS.items():
        bench.git("config", name, value)
    bench.git("checkout", "-q", "-b", "feature/under-it")
    bench.write("readme.md", "untracked, beside README.md\n")
    bench.write("run.sh", "untracked\n")
    bench.path("run.sh").chmod(0o755)
    before, status = bench.contents(), bench.status()
    mess: Actions = [
        ["sh", f"{SAME_SIZE_AND_TIME}; echo mess | tee readme.md Foo.txt; rm link run.sh"],
        ["sh", "echo mess > run.sh; echo mess > link"],
        ["say", failed("no luck")],
    ]
    work: Actions = [
        ["sh", "echo beside > Foo.txt; echo new > new.sh; chmod +x new.sh; ln -s Foo.txt to-foo"],
        *DONE,
    ]
    bench.plan({1: mess, 2: work, 3: mess})
    bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    first, retry, third, again = bench.calls()
    assert retry.files == first.files
    assert again.files == third.files
    assert {"Foo.txt", "new.sh", "to-foo"} <= third.files.keys()
    made = bench.contents()
    assert made["new.sh"].startswith("exec:")
    assert made["to-foo"] == "link:Foo.txt"
    assert {name: made[name] for name in before if name != TASKS} == {
        name: value for name, value in before.items() if name != TASKS
    }
    bench.run("restore", "demo").ok()
    assert (bench.contents(), bench.status()) == (before, status)
    assert bench.branch() == "feature/under-it"


# -- a bare repository with worktrees --------------------------------------------------------------


def _in_bare_layout(bench: Bench, layout: str) -> Path:
    """The repository of the bench as a bare clone with a worktree in the old place."""
    first, bare = bench.root / "first", bench.root / "all" / ".bare"
    bench.repo.rename(first)
    bare.parent.mkdir()
    bench.git("clone", "-q", "--bare", str(first), str(bare), cwd=bench.root)
    if layout == "hidden":
        (bare.parent / ".git").write_text("gitdir: ./.bare\n")
    if layout == "settings of each":
        bench.git("config", "extensions.worktreeConfig", "true", cwd=bare)
        bench.git("config", "--unset", "core.bare", cwd=bare)
        bench.git("config", "--worktree", "core.bare", "true", cwd=bare)
    bench.git("worktree", "add", "-q", str(bench.repo), "feature/x", cwd=bare)
    bench.git("config", "--global", "safe.bareRepository", "explicit")
    return bare


@pytest.mark.parametrize("layout", ["plain", "hidden", "settings of each"])
@pytest.mark.parametrize("variant", ["branch", "worktree", "stash"])
def test_a_worktree_of_a_bare_repository(bench: Bench, variant: str, layout: str) -> None:
    bare = _in_bare_layout(bench, layout)
    bench.write("README.md", "edited\n")
    start, before = bench.sha(), bench.contents()
    bench.plan({1: fails()})
    bench.loop("--checkpoint", variant).ok()
    bench.run("finish", "demo", "cleanup").ok()
    after = bench.contents()
    assert {"work-2.txt", "work-3.txt", "work-4.txt"} <= after.keys()
    assert (bench.branch(), bench.sha()) == ("feature/x", start)
    bench.run("undo").ok()
    bench.run("finish", "demo", "cleanup").ok()
    assert bench.contents() == after
    bench.run("restore", "demo").ok()
    assert (bench.branch(), bench.sha(), bench.contents()) == ("feature/x", start, before)
    assert bench.git(f"--git-dir={bare}", "rev-parse", "--is-bare-repository") == "true"


def test_keep_and_restore_in_a_worktree_of_a_bare_repository(bench: Bench) -> None:
    _in_bare_layout(bench, "plain")
    before = bench.contents()
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    assert bench.branch() == "ralph/demo"
    bench.run("restore", "demo").ok()
    assert (bench.branch(), bench.contents()) == ("feature/x", before)


def test_a_branch_that_a_bare_repository_stands_on_comes_back(bench: Bench) -> None:
    bare = _in_bare_layout(bench, "plain")
    bench.git("branch", "main")
    bench.git(f"--git-dir={bare}", "symbolic-ref", "HEAD", "refs/heads/main")
    there = bench.sha("main")
    bench.plan({1: [["commit", "own"], ["git", "update-ref", "refs/heads/main", "HEAD"], *fails()]})
    bench.loop().ok()
    assert bench.sha("main") == there


def test_a_branch_of_another_worktree_is_in_the_way_of_cleanup(bench: Bench) -> None:
    _in_bare_layout(bench, "plain")
    bench.plan()
    bench.loop().ok()
    bench.git("worktree", "add", "-q", str(bench.root / "other"), "feature/x")
    assert str(bench.root / "other") in bench.run("finish", "demo", "cleanup").ok(5).stderr
