"""The hazard matrix, what lies in the tree: nested repositories, odd files, ignore rules."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import DONE, fails
from tests.e2e.change import TASKS
from tests.e2e.hazard_ledger import (
    COMPLETES,
    FAILS,
    assert_nothing_lost,
    digest,
    kept_bytes,
    users_bytes,
    warnings,
)
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json

pytestmark = pytest.mark.e2e

NESTED: dict[str, Actions] = {
    "with a commit": [["nested", "made", True]],
    "without a commit": [["nested", "made", False]],
    "odd name": [["nested", "odd \u00fc 'q'/made", True]],
    "within another": [["nested", "made", True], ["nested", "made/inside", True]],
    "linked worktree": [["git", "worktree", "add", "-q", "-f", "-b", "made-{n}", "made"]],
}


@pytest.mark.parametrize("kind", NESTED)
def test_hazard_08_nested_repository_of_an_agent(bench: Bench, kind: str) -> None:
    bench.only_stories(1, 2)
    users = users_bytes(bench)
    bench.plan({1: [*NESTED[kind], *FAILS], 2: [*NESTED[kind], *COMPLETES], 3: fails()})
    result = bench.loop().ok()
    first, retry, second, again = bench.calls()
    assert retry.files == first.files
    files = {name: value for name, value in second.files.items() if "/.git" not in name}
    assert [name for name in files if "made/" in name]
    assert files.items() <= again.files.items(), "a failed attempt took finished work away"
    assert "nested git repository" in warnings(result)
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("committed", [True, False], ids=["with a commit", "without a commit"])
def test_hazard_08_nested_repository_of_the_user(bench: Bench, *, committed: bool) -> None:
    bench.only_stories(1)
    bench.git("init", "-q", "theirs")
    bench.write("theirs/work.txt", "the user's\n")
    if committed:
        bench.git("add", "-A", cwd=bench.path("theirs"))
        bench.git("commit", "-q", "-m", "theirs", cwd=bench.path("theirs"))
        bench.write("theirs/work.txt", "the user's, not committed\n")
    before = bench.contents(runtime=True)
    bench.plan({1: fails()})
    result = bench.loop("--on-complete", "cleanup").ok()
    assert "left out of the run: theirs" in warnings(result)
    assert bench.read("theirs/work.txt").startswith("the user's")
    assert bench.git("log", "--all", "--format=", "--name-only", "--", "theirs") == ""
    bench.run("restore", "demo").ok()
    assert bench.contents() == {k: v for k, v in before.items() if not k.startswith(".claude")}


@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
@pytest.mark.parametrize("end", ["keep", "cleanup"])
def test_hazard_08_restore_takes_repositories_of_finished_stories_away(
    bench: Bench, checkpoint: str, end: str
) -> None:
    bench.only_stories(1)
    bench.write("README.md", "staged\n")
    bench.git("add", "README.md")
    before = bench.snapshot(runtime=False)
    make = "git init -q app && cd app && echo app > app.txt && git add . && git commit -qm app"
    bench.plan({1: [["sh", f"{make} && echo more > more.txt"], *COMPLETES]})
    bench.loop("--checkpoint", checkpoint, "--on-complete", end).ok()
    bench.run("restore", "demo").ok()
    after = bench.snapshot(runtime=False)
    assert after | {"refs": before["refs"]} == before
    (kept,) = bench.repo.glob(".git/untildone/runs/*/aside/*-app")
    assert bench.git("log", "--format=%s", cwd=kept) == "app"


def test_hazard_07_restore_without_an_index(bench: Bench) -> None:
    bench.only_stories(1)
    before = bench.snapshot(runtime=False)
    bench.plan()
    bench.loop().ok()
    bench.path(".git/index").unlink()
    bench.run("restore", "demo").ok()
    assert bench.snapshot(runtime=False) | {"refs": before["refs"]} == before


def with_submodule(bench: Bench) -> Path:
    """A clean submodule `lib` with one commit."""
    lib = bench.root / "lib"
    bench.git("init", "-q", str(lib))
    (lib / "lib.txt").write_text("lib\n")
    bench.git("add", "-A", cwd=lib)
    bench.git("commit", "-q", "-m", "lib", cwd=lib)
    bench.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(lib), "lib")
    bench.commit("submodule")
    return bench.path("lib")


@pytest.mark.parametrize("name", ["lib.txt", "new.txt"])
def test_hazard_09_submodule_with_changes_at_the_start_is_refused(bench: Bench, name: str) -> None:
    with_submodule(bench)
    bench.write(f"lib/{name}", "dirty\n")
    before = bench.snapshot()
    assert "uncommitted changes, which cannot be saved: lib" in bench.loop().ok(2).stderr
    assert (bench.snapshot(), bench.calls()) == (before, [])


# What an agent does inside a submodule.
INSIDE: dict[str, Actions] = {
    "edit": [["write", "lib/lib.txt", "edit {n}\n"]],
    "new file": [["write", "lib/new.txt", "new {n}\n"]],
    "delete": [["delete", "lib/lib.txt"]],
    "commit": [
        ["write", "lib/lib.txt", "edit {n}\n"],
        ["git", "-C", "lib", "commit", "-qam", "in"],
    ],
    "detach": [
        ["sh", "cd lib && git checkout -q --detach"],
        ["write", "lib/new.txt", "new {n}\n"],
    ],
}


@pytest.mark.parametrize("deed", INSIDE)
def test_hazard_09_submodule_edited_by_an_agent(bench: Bench, deed: str) -> None:
    """FAILED is put back, COMPLETE is kept, and a later failure does not take it away."""
    bench.only_stories(1, 2)
    lib = with_submodule(bench)
    users = users_bytes(bench)
    start = bench.git("rev-parse", "HEAD", cwd=lib)
    bench.plan(
        {1: [*INSIDE[deed], *FAILS], 2: [*INSIDE[deed], *COMPLETES], 3: [*INSIDE[deed], *FAILS]}
    )
    result = bench.loop("--on-complete", "cleanup").ok()
    first, retry, second, again = bench.calls()
    assert (retry.files, retry.status) == (first.files, "")
    assert second.files != retry.files
    assert again.files == second.files
    assert "submodule `lib`" in warnings(result)
    saved = bench.git("for-each-ref", "--format=%(refname)", "refs/ralph/attempts", cwd=lib)
    assert "refs/ralph/attempts/demo/1/1" in saved.splitlines()
    if deed == "edit":
        assert bench.git("show", "refs/ralph/attempts/demo/1/1:lib.txt", cwd=lib) == "edit 1"
    assert_nothing_lost(bench, users, lib)
    bench.git("cat-file", "-e", f"{start}:lib.txt", cwd=lib)


# What git can be told about a submodule, by settings of the user or in `.gitmodules`.
TOLD_OF_SUBMODULES = {
    "ignore": ["config", "submodule.lib.ignore", "all"],
    "ignore in .gitmodules": ["config", "-f", ".gitmodules", "submodule.lib.ignore", "all"],
    "diff.ignoreSubmodules": ["config", "diff.ignoreSubmodules", "all"],
    "update": ["config", "submodule.lib.update", "none"],
    "active": ["config", "submodule.lib.active", "false"],
    "none active": ["config", "submodule.active", ":(exclude)*"],
    "recurse": ["config", "submodule.recurse", "true"],
    "propagateBranches": ["config", "submodule.propagateBranches", "true"],
}


@pytest.mark.parametrize("told", TOLD_OF_SUBMODULES)
def test_hazard_09_submodule_that_git_is_told_to_overlook(bench: Bench, told: str) -> None:
    bench.only_stories(1)
    lib = with_submodule(bench)
    bench.git(*TOLD_OF_SUBMODULES[told])
    if bench.status():
        bench.commit("told")
    bench.write("lib/lib.txt", "dirty\n")
    assert "uncommitted changes, which cannot be saved: lib" in bench.loop().ok(2).stderr
    bench.git("checkout", "-q", ".", cwd=lib)
    start = bench.git("rev-parse", "HEAD", cwd=lib)
    bench.plan({1: [*INSIDE["commit"], *FAILS], 2: [*INSIDE["commit"], *COMPLETES]})
    result = bench.loop().ok()
    assert bench.calls()[1].files == bench.calls()[0].files
    assert bench.git("show", "refs/ralph/attempts/demo/1/1:lib.txt", cwd=lib) == "edit 1"
    now = bench.git("rev-parse", "HEAD", cwd=lib)
    assert now != start
    assert bench.git("rev-parse", "ralph/demo:lib") == now
    assert "submodule `lib`" in warnings(result)


def test_hazard_09_submodule_where_git_knows_no_identity(bench: Bench) -> None:
    """The identity may be a setting of the repository around it, which a submodule does not see."""
    bench.only_stories(1)
    lib = with_submodule(bench)
    (bench.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    bench.git("config", "user.name", "Me")
    bench.git("config", "user.email", "me@here.invalid")
    bench.plan({1: [["write", "lib/lib.txt", "edit\n"], *FAILS]})
    bench.loop().ok()
    assert bench.git("show", "refs/ralph/attempts/demo/1/1:lib.txt", cwd=lib) == "edit"
    assert bench.read("lib/lib.txt") == "lib\n"


ODD = (
    *("-rf", ":(top)", "*", "tab\there", "new\nline", '"quoted"', "back\\slash", " space "),
    *("\u00fcn\u00efc\u00f6de", "#hash", "!bang", "~", "$HOME", "[a]"),
)


def test_hazard_10_odd_names_symlinks_and_modes(bench: Bench) -> None:
    bench.only_stories(1, 2)
    names = [os.fsencode(name) for name in ODD] + [b"invalid-\xff-utf8"]
    top = os.fsencode(bench.repo)
    for name in names:
        with open(os.path.join(top, name), "wb") as file:
            file.write(b"tracked " + name)
    bench.commit("odd names")
    os.mkdir(top + b"/odd\xfe folder")
    with open(top + b"/odd\xfe folder/new\nfile", "wb") as file:
        file.write(b"untracked")
    os.symlink("nowhere", bench.path("dangling"))
    os.symlink("..", bench.path("loop"))
    bench.path("run.sh").chmod(0o755)
    users, before = users_bytes(bench), bench.contents()
    script = bench.program(
        "vandal",
        "#!/usr/bin/env python3\nimport os\n"
        "for n in os.listdir(b'.'):\n"
        "    if os.path.isfile(n) and not os.path.islink(n) and n != b'.env':\n"
        "        open(n, 'ab').write(b'vandal')\n"
        "os.unlink('dangling'); os.symlink('elsewhere', 'dangling')\n"
        "os.unlink('loop'); open('loop', 'w').close()\n"
        "os.chmod('run.sh', 0o644)\n"
        "os.unlink(b'odd\\xfe folder/new\\nfile')\n"
        "open(b'more-\\xfd', 'w').close()\n",
    )
    bench.plan({1: [["sh", str(script)], *FAILS], 3: [["sh", str(script)], *COMPLETES]})
    bench.loop().ok()
    first, retry, *_ = bench.calls()
    assert (retry.place, retry.files) == (("ralph/demo", first.head, ""), first.files)
    bench.run("restore", "demo").ok()
    assert bench.contents() == before
    assert_nothing_lost(bench, users)


def test_hazard_10_fifo(bench: Bench) -> None:
    bench.only_stories(1, 2)
    os.mkfifo(bench.path("users.fifo"))
    users = users_bytes(bench)
    swap: Actions = [["sh", "mkfifo agent.fifo; rm README.md; mkfifo README.md"]]
    bench.plan({1: [*swap, *FAILS]})
    bench.loop().ok()
    assert bench.read("README.md") == "# Bench\n"
    assert bench.path("users.fifo").is_fifo()
    assert_nothing_lost(bench, users)


def test_hazard_10_folder_replaced_by_a_link_to_outside(bench: Bench) -> None:
    bench.only_stories(1, 2)
    outside = bench.root / "outside"
    outside.mkdir()
    (outside / "app.py").write_text("not ours\n")
    (outside / "more.txt").write_text("not ours either\n")
    users = users_bytes(bench)
    swap: Actions = [["sh", f"rm -r src && ln -s {outside} src"]]
    bench.plan({1: [*swap, *FAILS], 3: [*swap, *COMPLETES]})
    bench.loop().ok()
    first, retry, *_ = bench.calls()
    assert retry.files == first.files
    assert (outside / "app.py").read_text() == "not ours\n"
    assert (outside / "more.txt").read_text() == "not ours either\n"
    assert bench.path("src").is_symlink()
    bench.run("restore", "demo").ok()
    assert (outside / "app.py").read_text() == "not ours\n"
    assert bench.read("src/app.py") == "print('hello')\n"
    assert_nothing_lost(bench, users)


EOL = {
    "autocrlf": ("core.autocrlf", "true", ""),
    "autocrlf input": ("core.autocrlf", "input", ""),
    "text=auto": ("core.eol", "native", "* text=auto\n"),
    "eol=crlf": ("core.eol", "native", "*.txt text eol=crlf\n"),
    "ident": ("core.eol", "native", "*.txt ident\n"),
}
LINES = {
    "mixed.txt": b"one\r\ntwo\nthree $Id: user's own $\r\n",
    "crlf.txt": b"one\r\ntwo\r\n",
    "lf.txt": b"one\ntwo $Id$\n",
    "untracked.txt": b"one\r\ntwo\nthree\r\n",
}


@pytest.mark.parametrize("kind", EOL)
@pytest.mark.parametrize("touched", [False, True], ids=["untouched", "put back"])
def test_hazard_11_line_ends_stay_byte_for_byte(bench: Bench, kind: str, *, touched: bool) -> None:
    bench.only_stories(1, 2)
    for name, data in LINES.items():
        if name != "untracked.txt":
            bench.path(name).write_bytes(data)
    bench.commit("lines")
    key, value, attributes = EOL[kind]
    bench.git("config", key, value)
    bench.write(".gitattributes", attributes)
    bench.commit("attributes")
    for name, data in LINES.items():
        bench.path(name).write_bytes(data)
    users = users_bytes(bench)
    spoil: Actions = [["sh", f"for f in {' '.join(LINES)}; do echo spoilt >> $f; done"]]
    to_lf: Actions = [["sh", "sed -i 's/\\r$//' mixed.txt untracked.txt"]]
    bench.plan({1: [*spoil, *FAILS], 2: [*to_lf, *FAILS]} if touched else {1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    found = {name: bench.path(name).read_bytes() for name in LINES}
    assert found == LINES
    bench.run("restore", "demo").ok()
    assert {name: bench.path(name).read_bytes() for name in LINES} == LINES
    assert_nothing_lost(bench, users)


CRLF = "printf 'base $Id$\\r\\n' > base.txt"
CRLF_IN = "printf 'base $Id$\\r\\n' > sub/base.txt"
UTF16 = r"printf '\377\376b\000a\000s\000e\000 \000$\000I\000d\000$\000\n\000' > base.txt"
# Git trusts what it knows of a file only if the file is older than the index.
OLD = "touch -d '1 hour ago' base.txt"
LOOK = f"{OLD}; git status > /dev/null"

# What an agent does so that git takes other bytes for the same content.
CONVERSIONS: dict[str, str] = {
    "text=auto": f"echo '* text=auto' > .gitattributes; {CRLF}",
    "eol=crlf": f"echo '*.txt text eol=crlf' > .gitattributes; {CRLF}",
    "eol=crlf untouched": "echo '*.txt text eol=crlf' > .gitattributes; echo more >> README.md",
    "in a folder": f"echo '*.txt text=auto' > sub/.gitattributes; {CRLF_IN}",
    "encoding": f"echo '*.txt working-tree-encoding=UTF-16LE-BOM' > .gitattributes; {UTF16}",
    "wrong encoding": "echo '*.txt working-tree-encoding=UTF-16LE-BOM' > .gitattributes; "
    "echo more > base.txt; echo more > sub/base.txt; chmod +x base.txt",
    "wrong encoding, no mark": "echo '*.txt working-tree-encoding=UTF-16' > .gitattributes; "
    "echo 'with a $Id$' > base.txt",
    "ident": "echo '*.txt ident' > .gitattributes; echo 'base $Id: mine $' > base.txt",
    "committed": f"echo '* text=auto' > .gitattributes; {CRLF}; git add -A; git commit -qm x",
    "rules gone again": f"echo '* text=auto' > .gitattributes; {CRLF}; {LOOK}; rm .gitattributes",
    "a changed file": (
        "echo '* text=auto' > .gitattributes; printf 'more\\r\\n' > base.txt; "
        f"{OLD}; git add -A; "
        "git rm -qf --cached .gitattributes; rm .gitattributes"
    ),
    "by a flag": f"{CRLF}; {OLD}; git -c core.autocrlf=input add base.txt",
    "by git's own rules": f"echo '* text=auto' > .git/info/attributes; {CRLF}; {LOOK}",
    "a second name": f"echo '* text=auto' > .gitattributes; rm base.txt; {CRLF}; ln base.txt other",
}
# What a finished story hides stays where it is; what a failed one hides is stored with it.
FAILURES = CONVERSIONS | {
    "ignored": (
        "echo '* text=auto' > .gitattributes; echo junk/ >> .gitignore; "
        "mkdir junk; printf 'x\\r\\n' > junk/x.txt"
    ),
}
RULES = {"no rules": "", "text=auto": "* text=auto\n", "eol=crlf": "sub/* text eol=crlf\n"}
VARIANTS = ("branch", "stash", "worktree")


def with_bases(bench: Bench, rules: str = "") -> Json:
    """A clean tree with files that an agent's rules convert; HEAD, status and all bytes."""
    if rules:
        bench.write(".gitattributes", rules)
    bench.path("sub").mkdir()
    bench.write("base.txt", "base $Id$\n")
    bench.path("sub/base.txt").write_bytes(b"base $Id$\r\n" if "crlf" in rules else b"base $Id$\n")
    bench.only_stories(1)
    return everything(bench)


def everything(bench: Bench) -> Json:
    return {"head": bench.sha(), "status": bench.status(), "files": bench.contents()}


def left_by(bench: Bench, deed: str) -> dict[str, bytes]:
    """The bytes of files that this deed writes, in a copy of the repository."""
    copy = bench.root / "copy"
    shutil.copytree(bench.repo, copy)
    before = bench.contents(copy)
    subprocess.run(["sh", "-c", deed], cwd=copy, env=bench.env(), check=True)
    after = bench.contents(copy)
    return {name: (copy / name).read_bytes() for name in after if after[name] != before.get(name)}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", FAILURES)
def test_hazard_11_failed_attempt_that_made_git_convert_files(
    bench: Bench, kind: str, variant: str
) -> None:
    before = with_bases(bench)
    made = left_by(bench, FAILURES[kind])
    bench.plan({1: [["sh", FAILURES[kind]], *FAILS]})
    bench.loop("--checkpoint", variant, "--on-complete", "cleanup").ok()
    first, retry = bench.calls()
    assert retry.files == first.files
    assert bench.status() == [f" M {TASKS}", "?? work-2.txt"]
    kept = kept_bytes(bench)
    assert [name for name, data in made.items() if digest(data) not in kept] == []
    bench.run("restore", "demo").ok()
    assert everything(bench) == before


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("kind", ["text=auto", "rules gone again"])
def test_hazard_11_cleanup_when_the_only_attempt_made_git_convert_files(
    bench: Bench, kind: str, rules: str, variant: str
) -> None:
    before = with_bases(bench, RULES[rules])
    bench.plan(default=[["sh", CONVERSIONS[kind]], *FAILS])
    more = ("--max-retries", "0", "--on-complete", "cleanup")
    bench.loop("--checkpoint", variant, *more)
    bench.run("finish", "demo", "cleanup")
    assert len(bench.calls()) == 1
    assert everything(bench) == before


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", CONVERSIONS)
def test_hazard_11_story_that_made_git_convert_files(bench: Bench, kind: str, variant: str) -> None:
    """The user gets the bytes that the story left; `restore` and `undo` are exact."""
    before = with_bases(bench)
    made = left_by(bench, CONVERSIONS[kind])
    bench.plan({1: [["sh", CONVERSIONS[kind]], *COMPLETES]})
    bench.loop("--checkpoint", variant, "--on-complete", "cleanup").ok()
    assert {name: bench.path(name).read_bytes() for name in made} == made
    after = bench.contents()
    bench.run("restore", "demo").ok()
    assert everything(bench) == before
    if variant != "worktree":
        bench.run("undo").ok()
        assert bench.contents() == after


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("rules", RULES)
def test_hazard_11_failed_attempt_after_a_story_that_made_git_convert_files(
    bench: Bench, rules: str, variant: str
) -> None:
    """The bytes of a checkpoint are exact, too, if only the line ends of a file differ."""
    with_bases(bench, RULES[rules])
    bench.only_stories(1, 2)
    mixed = "printf 'one\\r\\ntwo\\n' > mixed.txt"
    spoil = "sed -i 's/\\r$//' *.txt sub/*.txt; sed -i 's/$/\\r/' README.md"
    bench.plan(
        {
            1: [["sh", f"{CONVERSIONS['text=auto']}; {mixed}"], *COMPLETES],
            2: [["sh", spoil], *FAILS],
            3: [["sh", f"{spoil}; rm .gitattributes; git add -A"], *FAILS],
        },
        default=COMPLETES,
    )
    bench.loop("--checkpoint", variant, "--max-retries", "3", "--on-complete", "cleanup").ok()
    _, second, third, fourth = bench.calls()
    assert second.files == third.files == fourth.files
    assert bench.path("base.txt").read_bytes() == b"base $Id$\r\n"
    assert bench.path("mixed.txt").read_bytes() == b"one\r\ntwo\n"


@pytest.mark.parametrize("kind", FAILURES)
def test_hazard_11_attempt_that_made_git_convert_files_is_brought_back(
    bench: Bench, kind: str
) -> None:
    with_bases(bench)
    made = left_by(bench, FAILURES[kind])
    bench.plan({1: [["sh", FAILURES[kind]], *FAILS]})
    bench.loop("--on-complete", "cleanup").ok()
    before = bench.contents()
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert {name: bench.path(name).read_bytes() for name in made} == made
    bench.run("undo").ok()
    assert bench.contents() == before


@pytest.mark.parametrize("variant", VARIANTS)
def test_hazard_11_loop_killed_when_git_converts_files(bench: Bench, variant: str) -> None:
    before = with_bases(bench)
    deed = f"{CONVERSIONS['text=auto']}; {LOOK}"
    bench.plan({1: [["sh", deed], ["wait", bench.gate("never")]]})
    live = bench.begin("--checkpoint", variant)
    bench.wait_call(1)
    until(lambda: any(p.name == ".gitattributes" for p in bench.root.glob("*/.gitattributes")))
    live.signal(signal.SIGKILL)
    live.wait()
    bench.run("resume", "demo", "--on-complete", "cleanup").ok()
    first, retry = bench.calls()
    assert retry.files == first.files
    bench.run("restore", "demo").ok()
    assert everything(bench) == before


LOSSY: dict[str, tuple[str, ...]] = {
    "clean": ("clean",),
    "clean and smudge": ("clean", "smudge"),
    "required": ("clean", "smudge", "required"),
}
# What a notebook filter does: results are not for git.
STRIP = {"clean": "sed /OUTPUT/d", "smudge": "sed s/two/two/", "required": "true"}


@pytest.mark.parametrize(
    ("kind", "variant"),
    [
        ("clean", "branch"),
        *(
            pytest.param(kind, variant, marks=pytest.mark.full)
            for kind in LOSSY
            for variant in VARIANTS
            if (kind, variant) != ("clean", "branch")
        ),
    ],
)
def test_hazard_11_filter_that_does_not_give_the_bytes_back(
    bench: Bench, kind: str, variant: str
) -> None:
    bench.only_stories(1, 2)
    for key in LOSSY[kind]:
        bench.git("config", f"filter.strip.{key}", STRIP[key])
    bench.write(".gitattributes", "*.nb filter=strip\n")
    for name in ("results.nb", "edited.nb", "plain.nb"):
        bench.write(name, f"{name}\n")
    bench.commit("notebooks")
    bench.write("results.nb", "results.nb\nOUTPUT of the user\n")
    bench.write("edited.nb", "edited\nOUTPUT of the user, too\n")
    bench.write("new.nb", "new\nOUTPUT untracked\n")
    users, before = users_bytes(bench), bench.contents()
    mess = "echo OUTPUT mess | tee -a results.nb plain.nb >> edited.nb; rm new.nb"
    more = "; echo OUTPUT made > made.nb; echo more >> edited.nb"
    work = "echo OUTPUT of a story | tee -a results.nb plain.nb > made.nb; echo more >> edited.nb"
    bench.plan(
        {
            1: [["sh", mess], *FAILS],
            2: [["sh", mess + more], *FAILS],
            3: [["sh", work], *COMPLETES],
            4: [["sh", f"{mess}{more}; rm made.nb"], *FAILS],
        }
    )
    bench.loop("--checkpoint", variant, "--max-retries", "3", "--on-complete", "cleanup").ok()
    first, second, third, fourth, last = bench.calls()
    assert first.files == second.files == third.files
    assert fourth.files == last.files
    done = bench.contents()
    made = {name: fourth.files[name] for name in fourth.files if name.endswith(".nb")}
    assert made == {name: last.files[name] for name in made}
    assert bench.read("results.nb").endswith("OUTPUT of the user\nOUTPUT of a story\n")
    assert bench.read("plain.nb") == "plain.nb\nOUTPUT of a story\n"
    if variant != "worktree":
        bench.run("attempts", "demo", "--restore", "1/2").ok()
        assert bench.read("made.nb") == "OUTPUT made\n"
        assert bench.read("edited.nb").endswith("too\nOUTPUT mess\nmore\n")
        bench.run("undo").ok()
        assert bench.contents() == done
    bench.run("restore", "demo").ok()
    assert bench.contents() == before
    bench.run("undo").ok()
    assert bench.contents() == done
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("state", ["clean", "dirty"])
def test_hazard_11_missing_required_filter_is_refused(bench: Bench, state: str) -> None:
    bench.git("config", "filter.lfs.clean", "cat")
    bench.git("config", "filter.lfs.smudge", "cat")
    bench.git("config", "filter.lfs.required", "true")
    bench.write(".gitattributes", "*.bin filter=lfs\n")
    bench.write("big.bin", "pointer\n")
    bench.commit("large files")
    bench.git("config", "filter.lfs.clean", "git-lfs-that-is-missing clean -- %f")
    bench.git("config", "filter.lfs.smudge", "git-lfs-that-is-missing smudge -- %f")
    os.utime(bench.path("big.bin"), (1, 1))
    bench.git("update-index", "--refresh", ok=False)
    bench.git("-c", "filter.lfs.clean=cat", "update-index", "--refresh")
    if state == "dirty":
        bench.write("big.bin", "changed\n")
    head, index = bench.sha(), bench.path(".git/index").read_bytes()
    result = bench.loop().ok(2)
    assert "lfs" in result.stderr
    assert "Nothing was changed." in result.stderr
    assert (bench.branch(), bench.sha()) == ("feature/x", head)
    assert (bench.path(".git/index").read_bytes(), bench.calls()) == (index, [])
    assert not bench.has("refs/heads/ralph/demo")


IGNORES: dict[str, Actions] = {
    "emptied": [["write", ".gitignore", "\n"]],
    "deleted": [["delete", ".gitignore"]],
    "negated": [["append", ".gitignore", "!.env\n!build/\n!build/**\n"]],
    "negated_and_committed": [
        ["append", ".gitignore", "!.env\n!build/\n"],
        ["commit", "un-ignore"],
    ],
    "emptied_and_committed": [["write", ".gitignore", "x\n"], ["git", "commit", "-qam", "less"]],
    "new_rules": [["append", ".gitignore", "junk/\n"], ["write", "junk/j.txt", "junk\n"]],
    "new_ignore_file": [["write", "out/.gitignore", "*\n"], ["write", "out/j.txt", "junk\n"]],
    "info_exclude": [["append", ".git/info/exclude", "junk/\n"], ["write", "junk/j.txt", "junk\n"]],
    "forced": [["git", "add", "-f", ".env"]],
}


@pytest.mark.parametrize("deed", IGNORES)
def test_hazard_15_agent_edits_ignore_rules(bench: Bench, deed: str) -> None:
    bench.only_stories(1, 2)
    start, users = bench.sha(), users_bytes(bench)
    bench.plan({1: [*IGNORES[deed], *FAILS], 3: [*IGNORES[deed], *COMPLETES]})
    bench.loop().ok()
    first, retry, *_ = bench.calls()
    assert (retry.place, retry.files) == (("ralph/demo", first.head, ""), first.files)
    assert (bench.read(".env"), bench.read("build/cache.bin")) == ("SECRET=1\n", "cache\n")
    ours = ("ralph/demo", "refs/ralph/attempts/demo/1/1")
    if "committed" not in deed:
        names = bench.git("log", *ours, "--format=", "--name-only", f"^{start}").split()
        assert not {".env", "build/cache.bin"} & set(names)
    if any("j.txt" in str(action) for action in IGNORES[deed]):
        saved = bench.git("ls-tree", "-r", "--name-only", ours[1]).split()
        assert [name for name in saved if name.endswith("j.txt")]
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("deed", ["rm -r .claude", "echo '{}' > .claude/loop-state.json"])
@pytest.mark.parametrize("tracked", [False, True], ids=["ignored", "tracked"])
def test_hazard_17_state_file_is_not_committed_nor_rolled_back(
    bench: Bench, deed: str, *, tracked: bool
) -> None:
    bench.only_stories(1, 2)
    if tracked:
        bench.write(".claude/loop-state.json", "{}\n")
        bench.git("add", "-f", ".claude")
        bench.git("commit", "-q", "-m", "somebody committed the state")
    start = bench.sha()
    bench.plan({1: [["sh", deed], *FAILS], 2: [["sh", deed], *DONE]})
    bench.loop().ok()
    state = json.loads(bench.read(".claude/loop-state.json"))
    assert [entry["outcome"] for entry in state["iterations"]] == ["failed", "complete", "complete"]
    names = bench.git("log", f"{start}..ralph/demo", "--format=", "--name-only").split()
    assert sorted(set(names)) == [TASKS, "work-2.txt", "work-3.txt"]


@pytest.fixture
def caseless(bench: Bench) -> Iterator[Path]:
    """A mounted file system that takes `A` and `a` for the same name."""
    mount = shutil.which("lowntfs-3g")
    if not (mount and shutil.which("mkntfs") and os.geteuid() == 0):
        assert os.environ.get("CI") != "true", (
            "ntfs-3g is not installed: `make packages` installs it"
        )
        pytest.skip("needs root and the package ntfs-3g for a file system without case")
    image, folder = bench.root / "image", bench.root / "caseless"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(32 * 1024 * 1024)
    subprocess.run(["mkntfs", "-q", "-F", str(image)], check=True, capture_output=True)
    made = subprocess.run(
        [mount, "-o", "ignore_case,permissions", str(image), str(folder)],
        check=False,
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("this machine does not allow the mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_hazard_28_names_without_case(bench: Bench, caseless: Path) -> None:
    bench.only_stories(1, 2)
    work = caseless / "work"
    bench.git("clone", "-q", str(bench.repo), str(work))
    assert bench.git("config", "core.ignorecase", cwd=work) == "true"
    (work / "lower.txt").write_text("lower\n")
    bench.git("add", "-A", cwd=work)
    bench.git("commit", "-q", "-m", "lower", cwd=work)
    (work / "loose.txt").write_text("loose\n")
    rename: Actions = [["sh", "mv lower.txt x && mv x LOWER.txt && echo more >> LOWER.txt"]]
    bench.plan({1: [*rename, *FAILS], 3: [["git", "mv", "lower.txt", "Upper.txt"], *DONE]})
    bench.loop("--on-complete", "cleanup", cwd=work).ok()
    first, retry, *_ = bench.calls()
    assert retry.files == first.files
    assert (work / "upper.txt").read_text() == "lower\n"
    assert (work / "loose.txt").read_text() == "loose\n"
    assert bench.branch(work) == "feature/x"


@pytest.mark.parametrize("times", [1, 2])
def test_hazard_33_file_changes_between_snapshot_and_put_back(bench: Bench, times: int) -> None:
    bench.only_stories(1)
    users, count = users_bytes(bench), bench.root / "count"
    real = bench.git("--exec-path") + "/git"
    bench.program(
        "git",
        f'#!/bin/sh\ncase " $* " in *" read-tree -m -u "*)\n'
        f"  echo x >> {count}; n=$(wc -l < {count})\n"
        f'  [ "$n" -le {times} ] && echo "late $n" > README.md ;;\nesac\n'
        f'exec {real} "$@"\n',
    )
    bench.plan({1: [["write", "README.md", "attempt\n"], *FAILS]})
    bench.loop().ok()
    first, retry = bench.calls()
    assert retry.files == first.files
    saved = bench.git("log", "-p", "-m", "--format=", "refs/ralph/attempts/demo/1/1")
    for text in ("attempt", *(f"late {n}" for n in range(1, times + 1))):
        assert f"+{text}" in saved
    assert_nothing_lost(bench, users)


# -- paths that no program can name ----------------------------------------------------------------

STEPS = {
    "far beyond": "for _ in range(3000):\n  os.mkdir('a'); os.chdir('a')",
    "long names": "for _ in range(40):\n  os.mkdir('a' * 200); os.chdir('a' * 200)",
    "just beyond": (
        "for _ in range(19):\n  os.mkdir('a' * 200); os.chdir('a' * 200)\n"
        "os.mkdir('b' * 150); os.chdir('b' * 150); open('c' * 200, 'w').write('just')"
    ),
}


def _deep(steps: str) -> list[Any]:
    text = f"import os\nos.mkdir('x'); os.chdir('x')\n{steps}\nopen('deep', 'w').write('deep')"
    return ["sh", f"{sys.executable} -c {shlex.quote(text)}"]


@pytest.mark.parametrize("variant", ["branch", "worktree", "stash"])
@pytest.mark.parametrize("steps", STEPS)
def test_paths_that_are_too_long_go_with_the_attempt(
    bench: Bench, steps: str, variant: str
) -> None:
    bench.only_stories(1)
    before = bench.contents()
    bench.plan({1: [_deep(STEPS[steps]), *fails()]})
    result = bench.loop("--checkpoint", variant).ok()
    assert "paths that are too long" in result.stderr
    assert "x" not in bench.calls()[1].files
    assert "deep" in bench.run("attempts", "demo", "--show", "1/1").ok().stdout
    bench.run("finish", "demo", "cleanup").ok()
    assert not bench.path("x").exists()
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert [path.read_text() for path in bench.path("x").glob("**/deep")] == ["deep"]
    bench.run("restore", "demo").ok()
    assert bench.contents() == before
    bench.run("gc", "--all", "--yes").ok()


@pytest.mark.parametrize("steps", ["long names", "just beyond"])
def test_paths_that_are_too_long_are_named_when_a_story_is_done(bench: Bench, steps: str) -> None:
    bench.only_stories(1)
    bench.plan({1: [_deep(STEPS[steps]), *DONE]})
    result = bench.loop("--on-complete", "cleanup").ok()
    assert "paths that are too long" in result.stderr
    assert bench.path("x").is_dir()


def test_a_thousand_empty_folders_in_each_other_go_with_the_attempt(bench: Bench) -> None:
    bench.only_stories(1)
    steps = "for _ in range(1500):\n  os.mkdir('a'); os.chdir('a')\nos.chdir(os.environ['TMPDIR'])"
    bench.plan({1: [_deep(steps), *fails()]})
    bench.loop("--on-complete", "cleanup").ok()
    assert not bench.path("x").exists()
