"""The other end of `push-run`: the newest run of a change, from a remote to this machine."""

from msgspec import Struct

from untildone.adapters.git.git import Git, RefUpdate
from untildone.adapters.git.push import UsersGit, shown_address
from untildone.adapters.git.repository import exclude_own_files, head_of, preflight
from untildone.adapters.records import carried
from untildone.adapters.records import journal as journals
from untildone.adapters.records.durable import replace_file
from untildone.adapters.records.learnings_file import EXCLUDE_LINE
from untildone.adapters.records.run_folder import USERS_INDEX, make_private
from untildone.app.recovery import replay
from untildone.commands.hand_over.push_run import (
    JOURNAL,
    Carried,
    Say,
    ledger_of,
    listed,
    own_paths,
    refuse_live,
    refused,
    remote_name,
)
from untildone.commands.run import LoopProcess
from untildone.domain.errors import UserError
from untildone.domain.regex import regex
from untildone.domain.run.run import Origin, Run
from untildone.domain.run.run_commands import run_commands
from untildone.plain_files import read_bytes
from untildone.wiring.agents import leftover_files
from untildone.wiring.learnings import store_of
from untildone.wiring.repository import Repository
from untildone.wiring.worktrees import move_out

RUN_ID = regex(r"\d{8}-\d{6}-[0-9a-f]{4}")


class Incoming(Struct, frozen=True):
    """A run whose objects are here: its refs by the names that they have there."""

    change: str
    run_id: str
    remote: str
    refs: dict[str, str]

    @property
    def ledger(self) -> str:
        """The commit that holds the journal."""
        return self.refs[ledger_of(self.change, self.run_id)]

    @property
    def branch(self) -> str:
        return f"refs/heads/ralph/{self.change}"


def pull_run(process: LoopProcess, change: str, remote: str, say: Say) -> Carried:
    """The newest run of a change that a remote has, ready for `resume` here."""
    repo, git = process.repository, process.repository.git()
    refuse_live(repo, change)
    process.take_over(change)
    origin = preflight(git, repo.place, change)
    remote = remote_name(git, origin, remote)
    users = UsersGit(repo.processes, repo.place.top, repo.inbox.signalled)
    say(f"Asking {shown_address(remote)} what it has")
    ledgers = listed(users, remote, (ledger_of(change, "*"),))
    own = ledger_of(change, "")
    there = {n: at for n, at in ledgers.items() if RUN_ID.fullmatch(n.removeprefix(own))}
    if not there:
        raise UserError(
            f"{shown_address(remote)} has no run of `{change}`",
            state="Nothing was changed.",
            hint=f"untildone push-run {change} REMOTE, where the run is",
        )
    ledger = max(there)
    run_id = ledger.rpartition("/")[2]
    _refuse_newer_here(repo, change, run_id, git.resolve(ledger), there[ledger])
    say(f"Fetching the run {run_id}")
    incoming = Incoming(change, run_id, remote, _fetched(git, users, remote, change, run_id))
    return _put_in_place(process, incoming, origin)


def _refuse_newer_here(repo: Repository, change: str, run_id: str, mine: str, theirs: str) -> None:
    git, journal = repo.git(), repo.folder(run_id).journal
    if not journal.exists():
        return
    known = git.do("cat-file", "blob", f"{mine}:{JOURNAL}") if mine else b""
    if read_bytes(journal).count(b'"fact": ') > known.count(b'"fact": '):
        raise UserError(
            f"The run of `{change}` has gone on here since it was last carried",
            state="Nothing was changed.",
            hint=f"untildone push-run {change}; if the other machine went on too, one of the two "
            f"has to be given up: `untildone restore {change}`",
        )
    if mine == theirs:
        raise UserError(
            f"The run of `{change}` is here already, and nothing newer is there",
            state="Nothing was changed.",
            hint=f"untildone resume {change}",
        )


def _fetched(git: Git, users: UsersGit, remote: str, change: str, run_id: str) -> dict[str, str]:
    """The refs of the run with their commits, whose objects are here and held by one ref."""
    ledger = ledger_of(change, run_id)
    patterns = (
        f"refs/heads/ralph/{change}",
        f"refs/ralph/backup/{change}/{run_id}",
        f"refs/ralph/attempts/{change}/*",
        f"refs/ralph/raw/{run_id}",
        ledger,
    )
    there = listed(users, remote, patterns)
    incoming = f"refs/ralph/incoming/{run_id}/"
    answer = users.fetch(remote, [f"+{name}:{incoming}{name}" for name in there])
    if not answer.ok:
        raise refused(answer, remote, "Nothing was changed.")
    return {name.removeprefix(incoming): ref.commit for name, ref in git.refs(incoming).items()}


def _put_in_place(process: LoopProcess, incoming: Incoming, origin: Origin) -> Carried:
    """Refs first, then the record, the files last: what is cut short is done by the next call."""
    users, change = process.repository, incoming.change
    if head_of(users.place.git_dir)[0] != f"ralph/{change}":
        _refuse_edits(users.git())
    _refuse_incomplete(incoming, users)
    run = _run_in(incoming, users)
    if run.plan.checkpoint == "worktree":
        process.repository = move_out(users, change, Origin("", incoming.refs[incoming.branch]))
        process.take_over(change)
        users.lock.release()
    repo = process.repository
    notes = (*_take_refs(repo, incoming), *_executed(run))
    exclude_own_files(repo.place, (*leftover_files(run.plan), EXCLUDE_LINE))
    _write_record(repo, incoming, run)
    _check_out(repo, incoming)
    repo.write_dead(repo.needed(change), repo.clock.now())
    own = run.origin.branch if run.origin else ""
    if own and not repo.git().resolve(f"refs/heads/{own}"):
        notes += (
            f"The run began on `{own}`, which is not here: `finish {change} cleanup` needs it",
        )
    return Carried(
        change,
        incoming.run_id,
        shown_address(incoming.remote),
        incoming.ledger,
        tuple(sorted(incoming.refs)),
        notes,
        str(repo.place.top),
    )


def _refuse_incomplete(incoming: Incoming, repo: Repository) -> None:
    """Before anything is put in place: whoever may push to the remote can have written it."""
    why = f"it has no branch `ralph/{incoming.change}`"
    if incoming.branch in incoming.refs:
        why = carried.refusal(_journal(incoming, repo), incoming.change, incoming.run_id)
    if why:
        passing = repo.git().refs(f"refs/ralph/incoming/{incoming.run_id}/").items()
        repo.git().update_refs([(name, "", ref.commit) for name, ref in passing], "pull-run")
        raise UserError(
            f"What {shown_address(incoming.remote)} has is not the run {incoming.run_id} of "
            f"`{incoming.change}`: {why}",
            state="Nothing was changed.",
            hint=f"untildone push-run {incoming.change} REMOTE, where the run is",
        )


def _executed(run: Run) -> tuple[str, ...]:
    """What `resume` will run here: whoever may push to the remote can have written it."""
    found = dict.fromkeys(f"`{one.command}` ({one.what})" for one in run_commands(run.plan))
    return (f"`resume` will execute here: {', '.join(found)}",) if found else ()


def _refuse_edits(git: Git) -> None:
    if git.do("status", "--porcelain", "-z", "--untracked-files=no"):
        raise UserError(
            "This worktree has changes that are not committed, and the run's branch comes here",
            state="Nothing was changed.",
            hint="git stash, or commit them; then the same command once more",
        )


def _take_refs(repo: Repository, incoming: Incoming) -> tuple[str, ...]:
    """Under their own names; what this repository had there stays under another one."""
    git, updates, notes = repo.git(), list[RefUpdate](), list[str]()
    for name, commit in incoming.refs.items():
        here = git.resolve(name)
        if here == commit:
            continue
        if here and not git.is_ancestor(here, commit):
            kept = f"refs/ralph/archive/{incoming.change}/{repo.stamp()}-{len(notes)}"
            updates.append((kept, here, ""))
            notes.append(f"What was here as {name} is kept as {kept}")
        if name == incoming.branch and head_of(repo.place.git_dir)[0] == f"ralph/{incoming.change}":
            git.detach_head(here, "untildone: pull-run")
        updates.append((name, commit, here))
    passing = git.refs(f"refs/ralph/incoming/{incoming.run_id}/").items()
    updates += [(name, "", ref.commit) for name, ref in passing]
    git.update_refs(updates, "untildone: pull-run")
    return tuple(notes)


def _write_record(repo: Repository, incoming: Incoming, run: Run) -> None:
    folder, git = repo.folder(incoming.run_id), repo.git()
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.make()
    if run.origin:
        folder.note_origin(f"{run.origin.branch}\n{run.origin.commit}\n")
    for name in git.files_at(incoming.ledger):
        if name == USERS_INDEX:
            data = git.content(incoming.ledger, name)
            replace_file(folder.path / name, [data], folder.path / f"{name}.draft", 0o600)
    # The journal last: with it the run is here.
    data = _journal(incoming, repo)
    replace_file(folder.journal, [data], folder.path / "journal.draft", 0o600)
    make_private(repo.home, incoming.run_id)


def _check_out(repo: Repository, incoming: Incoming) -> None:
    git, branch = repo.git(), f"ralph/{incoming.change}"
    if not (repo.place.git_dir / "index").exists():  # a worktree that was made for it
        git.point_head(branch, "untildone: pull-run")
        git.do("read-tree", "-m", "-u", "HEAD")
        return
    git.do("checkout", "-q", branch)


def _journal(incoming: Incoming, repo: Repository) -> bytes:
    data = carried.unpacked(repo.git().content(incoming.ledger, JOURNAL), own_paths(repo))
    return carried.with_learnings(data, store_of("", repo.place, incoming.change))


def _run_in(incoming: Incoming, repo: Repository) -> Run:
    """The run as its journal tells it."""
    path = repo.folder(incoming.run_id).path.parent.parent / "incoming.jsonl"
    replace_file(path, [_journal(incoming, repo)], path.with_suffix(".draft"), 0o600)
    try:
        run = replay(journals.replayed(path))
    finally:
        path.unlink(missing_ok=True)
    if run is None:
        raise UserError(
            f"The journal of the run is empty: {incoming.run_id}", state="Nothing was changed."
        )
    return run
