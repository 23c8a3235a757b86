"""The ledger of the hazard tests: what must never be lost, and the check that it is not."""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import TYPE_CHECKING

from tests.e2e.agent_calls import DONE, fails

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json, Result

Treasure = set[tuple[str, str]]

COMPLETES: Actions = DONE[1:]
FAILS: Actions = fails()[1:]


def digest(data: bytes) -> str:
    """The hash of a content, as the fake agent writes it into its record."""
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def users_bytes(bench: Bench, cwd: Path | None = None) -> Treasure:
    """Every file of the user, ignored ones too, and every content that is staged."""
    top = cwd or bench.repo
    found: Treasure = set()
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if name not in (".git", ".claude")]
        for name in files:
            path = os.path.join(folder, name)
            if name == ".git":
                continue  # the pointer of a linked worktree
            if os.path.islink(path):
                found.add((os.path.relpath(path, top), digest(os.fsencode(os.readlink(path)))))
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found.add((os.path.relpath(path, top), digest(file.read())))
    staged = _git(bench, "ls-files", "-s", "-z", cwd=top).split(b"\0")
    for row in filter(None, staged):
        meta, _, name_ = row.partition(b"\t")
        mode, blob, _ = meta.split()
        if mode != b"160000":
            found.add((os.fsdecode(name_), digest(_git(bench, "cat-file", "blob", blob, cwd=top))))
    return found


def finished_bytes(bench: Bench) -> Treasure:
    """What stood in the tree when an agent started: the work of all finished stories."""
    found: Treasure = set()
    for call in bench.calls():
        for name, value in call.files.items():
            kind, _, text = value.partition(":")
            if "/.git/" in f"/{name}/" or kind in ("dir", "special"):
                continue
            found.add((name, text if kind != "link" else digest(os.fsencode(text))))
    return found


def kept_bytes(bench: Bench, cwd: Path | None = None) -> set[str]:
    """Contents that are reachable from a ref, after all reflogs are gone and git has tidied up."""
    _git(bench, "reflog", "expire", "--expire=now", "--all", cwd=cwd)
    _git(bench, "gc", "--prune=now", "-q", cwd=cwd)
    listed = _git(bench, "rev-list", "--objects", "--all", cwd=cwd).splitlines()
    names = b"".join(line.split(b" ")[0] + b"\n" for line in listed)
    out = _git(bench, "cat-file", "--batch", stdin=names, cwd=cwd)
    found = set()
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        _, kind, size = out[at:end].split(b" ")
        data = out[end + 1 : end + 1 + int(size)]
        if kind == b"blob":
            found.add(digest(data))
        at = end + 2 + int(size)
    return found


def assert_nothing_lost(bench: Bench, users: Treasure, *submodules: Path) -> None:
    """All that the user had and that finished stories made is under its name or behind a ref."""
    wanted = users | finished_bytes(bench)
    missing = wanted - users_bytes(bench)
    kept = kept_bytes(bench) if missing else set()
    for folder in submodules:
        kept |= kept_bytes(bench, folder)
    lost = sorted(name for name, value in missing if value not in kept)
    assert not lost, f"lost: {lost}"
    _git(bench, "fsck", "--connectivity-only", "--no-dangling")


def index_of(bench: Bench) -> Json:
    """The index as the user sees it: entries with all flags, staged and unstaged changes."""
    debug = bench.git("ls-files", "--debug").splitlines()
    return {
        "entries": bench.git("ls-files", "-s", "-v", "-z"),
        "flags": [line.partition("flags")[2] for line in debug if "flags" in line],
        "staged": bench.git("diff", "--cached", "--raw", "-p"),
        "unstaged": bench.git("diff", "--raw", "-p"),
        "status": bench.git("status", "--porcelain=v2", "-uall", "-z"),
    }


def warnings(result: Result) -> str:
    """All warnings of a run in one text."""
    return "\n".join(event["message"] for event in result.named("warning"))


def _git(bench: Bench, *args: str | bytes, cwd: Path | None = None, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        ["git", *args],
        cwd=cwd or bench.repo,
        env=bench.env(),
        input=stdin,
        capture_output=True,
        check=True,
    )
    return done.stdout
