"""A run's commits without our bookkeeping, and their way to a remote: never by force."""

import os
import shutil
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.environment import clean_environment
from untildone.adapters.git.git import Git
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Captured, Processes
from untildone.domain.errors import UserError
from untildone.domain.regex import regex
from untildone.domain.secrets import redactor

LOOK_S = 60.0
PUSH_S = 1800.0
# How the user reaches a remote; everything else of `GIT_*` would lead to another repository.
ACCESS = ("GIT_SSH", "GIT_ASKPASS", "GIT_SSL_", "GIT_HTTP_", "GIT_PROXY_", "GIT_ALLOW_PROTOCOL")
_SCP = regex(r"(?:[^@/:]+@)?(?P<host>[^/:@]{2,}):(?!//)(?P<path>.+)")
_URL = regex(r"(?:https?|ssh|git)://(?:[^@/]*@)?(?P<host>[^/:]+)(?::\d+)?/(?P<path>.+)")


class Remote(Struct, frozen=True):
    """A remote by its name; `host` and `path` are empty where its address names none."""

    name: str
    host: str = ""
    path: str = ""


class RemoteBranches(Struct, frozen=True):
    """What a remote has: the commits of the branches that were asked for, and its usual branch."""

    tips: dict[str, str]
    default: str = ""


class RefPush(Struct, frozen=True):
    """One ref of a remote: the commit that it is to have, and the one that it has (empty: none)."""

    name: str
    commit: str
    there: str = ""


class UsersGit:
    """Git as the user would start it: with hooks, credentials and settings, but without a prompt.

    Without the `pre-push` hook large files of Git LFS would stay here.
    """

    def __init__(
        self, processes: Processes, folder: Path, interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        self._processes = processes
        self._folder = folder
        self._interrupted = interrupted

    def branches(self, remote: str, names: Sequence[str]) -> RemoteBranches | Captured:
        """Those of the remote among these, or what git said instead."""
        refs = [f"refs/heads/{name}" for name in names]
        answer = self._run("ls-remote", "--symref", "--", remote, "HEAD", *refs, limit_s=LOOK_S)
        if not answer.ok:
            return answer
        tips, default = dict[str, str](), ""
        for row in os.fsdecode(answer.stdout).splitlines():
            value, _, name = row.partition("\t")
            if name == "HEAD" and value.startswith("ref: refs/heads/"):
                default = value.removeprefix("ref: refs/heads/")
            elif name in refs:  # a pattern also fits the end of longer names
                tips[name.removeprefix("refs/heads/")] = value
        return RemoteBranches(tips, default)

    def push(self, remote: str, commit: str, branch: str) -> Captured:
        """The commit as that branch of the remote, if what is there is part of it."""
        return self._run("push", "--", remote, refspec(commit, branch), limit_s=PUSH_S)

    def refs(self, remote: str, patterns: Sequence[str]) -> dict[str, str] | Captured:
        """The refs of the remote of these full names or patterns, or what git said instead."""
        answer = self._run("ls-remote", "--refs", "--", remote, *patterns, limit_s=LOOK_S)
        if not answer.ok:
            return answer
        rows = (row.partition("\t") for row in os.fsdecode(answer.stdout).splitlines())
        # A pattern also fits the end of longer names.
        return {name: commit for commit, _, name in rows if _fits(name, patterns)}

    def publish(self, remote: str, pushed: Sequence[RefPush]) -> Captured:
        """All of them or none, and only if the remote has what was seen there."""
        leases = (f"--force-with-lease={ref.name}:{ref.there}" for ref in pushed)
        specs = (f"{ref.commit}:{ref.name}" for ref in pushed)
        return self._run("push", "-q", "--atomic", *leases, "--", remote, *specs, limit_s=PUSH_S)

    def fetch(self, remote: str, specs: Sequence[str]) -> Captured:
        """Refs of the remote under these names here; nothing else is fetched or noted."""
        words = ("fetch", "-q", "--no-tags", "--no-write-fetch-head", "--refmap=")
        return self._run(*words, "--", remote, *specs, limit_s=PUSH_S)

    def _run(self, *words: str, limit_s: float) -> Captured:
        users = {name: value for name, value in os.environ.items() if name.startswith(ACCESS)}
        environment = clean_environment(os.environ) | users
        argv = (shutil.which("git") or "git", *words)
        command = Command(argv, self._folder, environment, timeout_s=limit_s)
        return self._processes.capture(command, self._interrupted)


def refspec(commit: str, branch: str) -> str:
    return f"{commit}:refs/heads/{branch}"


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def shown_address(remote: str) -> str:
    """A remote's name or address as it may be printed: without the password in it."""
    return redactor({})(remote.encode()).decode()


def remote_of(git: Git, branch: str, wanted: str = "") -> Remote:
    """The remote that is named, the one that the user pushes to, `origin`, or the only one."""
    name = _remote_name(git, branch, wanted)
    address = git.line("remote", "get-url", "--push", "--", name)
    found = _URL.fullmatch(address) or _SCP.fullmatch(address)
    if not found:
        return Remote(name)
    return Remote(name, found["host"].lower(), found["path"].strip("/").removesuffix(".git"))


def _remote_name(git: Git, branch: str, wanted: str) -> str:
    known = os.fsdecode(git.do("remote")).split()
    if wanted:
        if wanted in known:
            return wanted
        problem, hint = f"There is no remote called `{wanted}`", f"Remotes here: {', '.join(known)}"
        raise UserError(problem, state="Nothing was changed.", hint=hint)
    keys = (f"branch.{branch}.pushremote", "remote.pushdefault", f"branch.{branch}.remote")
    usual = [*map(git.config, keys), "origin", *(known if len(known) == 1 else ())]
    name = next((name for name in usual if name in known), "")
    if name:
        return name
    problem, hint = "There is no remote to push to", "git remote add origin URL"
    if known:
        problem = f"Several remotes could be meant: {', '.join(known)}"
        hint = f"--remote {known[0]}"
    raise UserError(problem, state="Nothing was changed.", hint=hint)


def without(git: Git, origin: str, tip: str, left_out: str, *, reworded: str = "") -> str:
    """The commits from the origin to the tip without one of them, as a new tip.

    What remains has the same files, authors, times and messages: made once more, it has the same
    names, so that a later push builds on an earlier one. Signatures do not fit any more and go.
    With a text the commit stays, and this is its message.
    """
    names = git.commits_since(origin, [tip])
    if left_out not in names:
        return tip
    bodies = git.objects([name.encode() for name in names])
    made = {} if reworded else {left_out: origin}
    for name in names:
        if name in made:
            continue
        body = _rewritten(bodies[name], made, reworded if name == left_out else "")
        made[name] = name if body == bodies[name] else _stored(git, body)
    return made[tip]


def _rewritten(body: bytes, made: dict[str, str], message: str) -> bytes:
    head, _, said = body.partition(b"\n\n")
    rows: list[bytes] = []
    signature = changed = False
    for row in head.split(b"\n"):
        key, _, value = row.partition(b" ")
        signature = key.startswith(b"gpgsig") or (signature and not key)
        new = made.get(value.decode()) if key == b"parent" else None
        changed |= bool(new and new != value.decode())
        if not signature:
            rows.append(b"parent " + new.encode() if new else row)
    if not (changed or message):
        return body
    return b"\n".join(rows) + b"\n\n" + (message.encode() if message else said)


def _stored(git: Git, body: bytes) -> str:
    return git.line("hash-object", "-t", "commit", "-w", "--stdin", stdin=body)
