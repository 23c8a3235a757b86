"""A run goes from one machine to another through refs of a remote; no engine, no server.

`refs/ralph/carried/CHANGE/RUN` is the ledger of the way: each push is a commit on top of the last
one that this machine knows, so that whoever has not seen the newest is refused.
"""

import os
import socket
from collections.abc import Callable, Sequence

from msgspec import Struct

from untildone.adapters.git.git import Git
from untildone.adapters.git.push import RefPush, UsersGit, remote_of, shown_address
from untildone.adapters.git.repository import head_of
from untildone.adapters.process.process import Captured
from untildone.adapters.records import carried
from untildone.adapters.records.run_folder import USERS_INDEX
from untildone.commands.finish import settled
from untildone.commands.run import LoopProcess
from untildone.commands.start.start_checks import refuse_ended
from untildone.domain.agents.agent import Ending
from untildone.domain.errors import CloseRefused, UntildoneError, UserError
from untildone.domain.plain_text import count_of
from untildone.domain.run.run import Origin, Run
from untildone.domain.secrets import redactor
from untildone.plain_files import read_bytes
from untildone.wiring.repository import Repository

JOURNAL = "journal.jsonl"
Say = Callable[[str], None]


class Carried(Struct, frozen=True):
    """A run that was pushed or pulled; `notes` is what the person should know."""

    change: str
    run_id: str
    remote: str
    commit: str
    refs: tuple[str, ...]
    notes: tuple[str, ...] = ()
    worktree: str = ""


def push_run(process: LoopProcess, change: str, remote: str, say: Say) -> Carried:
    """Journal, attempts, backup and branch to a remote; never over something newer."""
    run = _still(process, change)
    repo, git = process.repository, process.repository.git()
    remote = remote_name(git, run.origin, remote)
    users = UsersGit(repo.processes, repo.place.top, repo.inbox.signalled)
    say(f"Asking {shown_address(remote)} what it has")
    refs = _refs(git, run)
    ledger = ledger_of(run.plan.change_id, run.plan.run_id)
    there = listed(users, remote, (*refs, ledger))
    mine = git.resolve(ledger)
    if there.get(ledger, "") != mine:
        raise _newer(run.plan.change_id, remote, there.get(ledger, ""))
    branch = f"refs/heads/ralph/{run.plan.change_id}"
    _refuse_other_work(git, branch, there.get(branch, ""), refs[branch])
    commit = _ledger_commit(repo, run, mine)
    refs[ledger] = commit
    pushed = [
        RefPush(name, new, there.get(name, ""))
        for name, new in refs.items()
        if there.get(name) != new
    ]
    say(f"Pushing {count_of(len(pushed), 'ref')} to {shown_address(remote)}")
    answer = users.publish(remote, pushed)
    if not answer.ok:
        raise refused(answer, remote, "Nothing was pushed: all of it goes, or nothing.")
    git.update_refs([(ledger, commit, None)], "untildone: push-run")
    names = tuple(sorted(refs))
    address = shown_address(remote)
    return Carried(
        run.plan.change_id, run.plan.run_id, address, commit, names, tuple(_stays_here(run))
    )


def _still(process: LoopProcess, change: str) -> Run:
    """The run, with no loop over it and no attempt half done."""
    refuse_live(process.repository, change)
    run = process.taken_over(process.repository.needed(change))
    refuse_ended(run)
    if run.plan.checkpoint == "stash":
        raise UserError(
            "A run with `--checkpoint stash` has its work in this working tree only",
            state="Nothing was pushed.",
            hint="Commit its work and push it yourself, or run with `--checkpoint branch`.",
        )
    process.go_to_worktree(run)
    run = settled(process, run)
    process.refuse_cut_short(run)
    repo, branch = process.repository, f"ralph/{change}"
    if head_of(repo.place.git_dir)[0] == branch and _edits(repo.git()):
        raise UserError(
            f"There are edits on `{branch}` that are not committed, and they would stay here",
            state="Nothing was pushed.",
            hint=f"git -C {repo.place.top} add -A && git -C {repo.place.top} commit, then again",
        )
    return repo.replay(run.plan.run_id) or run


def refuse_live(repo: Repository, change: str) -> None:
    if repo.alive():
        raise UserError(
            f"A loop is running in this worktree: {repo.place.top}",
            state="Nothing was changed.",
            hint=f"`untildone stop {change}` stops it; then the same command once more",
        )


def _edits(git: Git) -> bool:
    return bool(git.do("status", "--porcelain", "-z", "--untracked-files=normal"))


def _refs(git: Git, run: Run) -> dict[str, str]:
    """What goes beside the ledger: the branch, the backup, the attempts, bytes git converts."""
    plan, branch = run.plan, f"refs/heads/ralph/{run.plan.change_id}"
    attempts = {it.saved_ref for it in run.iterations if it.saved_ref}
    names = (branch, run.backup_ref, *sorted(attempts), f"refs/ralph/raw/{plan.run_id}")
    found = {name: git.resolve(name) for name in names}
    if not found[branch]:
        raise UserError(
            f"The branch of the run is gone: ralph/{plan.change_id}",
            state="Nothing was pushed.",
            hint=f"git for-each-ref refs/ralph/archive/{plan.change_id}",
        )
    return {name: commit for name, commit in found.items() if commit}


def ledger_of(change: str, run_id: str) -> str:
    return f"refs/ralph/carried/{change}/{run_id}"


def _ledger_commit(repo: Repository, run: Run, before: str) -> str:
    git, folder = repo.git(), repo.folder(run.plan.run_id)
    git.use_fallback_identity_if_none()
    data = carried.packed(
        read_bytes(folder.journal).splitlines(keepends=True),
        own_paths(repo),
        redactor(os.environ),
    )
    files = {JOURNAL: data}
    if (folder.path / USERS_INDEX).exists():
        files[USERS_INDEX] = read_bytes(folder.path / USERS_INDEX)
    rows = b"".join(
        b"100644 blob %s\t%s\n"
        % (git.line("hash-object", "-w", "--stdin", stdin=content).encode(), name.encode())
        for name, content in sorted(files.items())
    )
    tree = git.line("mktree", stdin=rows)
    plan = run.plan
    message = (
        f"carried: {plan.change_id} from {socket.gethostname()}, {run.status}\n\n"
        f"Untildone-Run: {plan.run_id}\n"
    )
    return git.commit_tree(tree, [before] if before else [], message)


def own_paths(repo: Repository) -> dict[str, str]:
    """The paths of this machine that a journal names, and what stands for each on the way."""
    place = repo.place
    found = {
        str(place.common_dir): "@untildone:common@",
        str(place.git_dir): "@untildone:git@",
        str(place.top): "@untildone:top@",
        str(repo.home): "@untildone:home@",
    }
    user = os.environ.get("HOME", "").rstrip("/")
    return found | ({user: "@untildone:user@"} if user else {})


def _refuse_other_work(git: Git, branch: str, there: str, mine: str) -> None:
    if there in ("", mine) or (git.resolve(there) and git.is_ancestor(there, mine)):
        return
    name = branch.removeprefix("refs/heads/")
    raise UserError(
        f"The remote has other commits as `{name}` ({there[:12]}), which are not part of this run",
        state="Nothing was pushed.",
        hint=f"`git fetch REMOTE {name}` and look at them; if nobody needs them, "
        f"`git push REMOTE --delete {name}`, then the same command once more",
    )


def _newer(change: str, remote: str, there: str) -> UserError:
    what = f"goes on from another machine ({there[:12]})" if there else "was removed there"
    return UserError(
        f"The run of `{change}` on {shown_address(remote)} {what}: pushing would lose that",
        state="Nothing was pushed.",
        hint=f"untildone pull-run {change}",
    )


def _stays_here(run: Run) -> list[str]:
    """What of the run is of this machine and does not travel."""
    plan = run.plan
    said = ["The agent's raw logs, its conversations and its login stay on this machine"]
    if plan.learnings:
        said.append("So do the learnings: the first calls there are made without them")
    if plan.sandbox != "off":
        said.append(f"The sandbox ({plan.sandbox}) is looked for anew there")
    if plan.agent_env or plan.notify:
        said.append("Variables for agents and addresses of `notify` are read there anew")
    commands = (plan.agent_cmd, *plan.verify, plan.usage_cmd, plan.lane_setup)
    named = [command for command in commands if "/" in command and command.lstrip().startswith("/")]
    if named:
        said.append(f"These commands name a path of this machine: {', '.join(named)}")
    return said


# -- what `pull-run` does as well -----------------------------------------------------------------


def remote_name(git: Git, origin: Origin | None, wanted: str) -> str:
    """A remote by its name, or an address as it is."""
    if "/" in wanted or ":" in wanted:
        return wanted
    return remote_of(git, origin.branch if origin else "", wanted).name


def listed(users: UsersGit, remote: str, patterns: Sequence[str]) -> dict[str, str]:
    """The refs of a remote; one that does not answer is an error."""
    found = users.refs(remote, patterns)
    if isinstance(found, Captured):
        raise refused(found, remote, "Nothing was changed.")
    return found


def refused(answer: Captured, remote: str, state: str) -> UntildoneError:
    """What git said about a remote, without what looks like a secret."""
    said = redactor(os.environ)(answer.stderr).decode(errors="replace").strip()
    why = "it gave no answer in time" if answer.ending is Ending.TIMEOUT else said
    return CloseRefused(
        f"{shown_address(remote)} did not do it: {why or 'git said nothing'}",
        state=state,
        hint="Mend that, then the same command once more.",
    )
