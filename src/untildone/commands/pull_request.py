"""Handing a run over: its commits as a branch of a remote, and a pull request with the evidence."""

import os
import shlex
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import asdict, replace

from untildone.adapters.forge import FORGES, ForgeRefused, Program, PullRequest, Wanted, forge_of
from untildone.adapters.git.git import Git
from untildone.adapters.git.push import (
    Remote,
    RemoteBranches,
    UsersGit,
    refspec,
    remote_of,
    without,
)
from untildone.adapters.git.repository import head_of
from untildone.adapters.process.process import Captured
from untildone.adapters.records import journal as journals
from untildone.adapters.records.journal import Journal
from untildone.commands.run_account import RunAccount, run_account
from untildone.domain.agents.agent import Ending
from untildone.domain.checks.protection import MOST_NAMED
from untildone.domain.errors import CloseRefused, StoriesError, UserError
from untildone.domain.plain_text import count_of, plain
from untildone.domain.reporting.event import Event
from untildone.domain.run.fact import Opened
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Origin, Run, Status
from untildone.domain.secrets import text_redactor
from untildone.domain.stories.story import StoryBook
from untildone.plain_files import opened
from untildone.wiring.repository import Repository
from untildone.wiring.sources import source_of

TEXT_FILE = "pull-request.md"
# GitHub takes 65,536 characters, an argument of a program 131,072 bytes.
LONGEST_TEXT = 60_000
PROVEN = ("verified", "done before")

Say = Callable[[str], None]


class Request(Struct, frozen=True):
    """What is asked for; `draft` is None where the evidence decides."""

    draft: bool | None = None
    base: str = ""
    remote: str = ""
    squash: bool = False
    uncommitted: bool = False
    forge: str = ""


class Text(Struct, frozen=True):
    """What the pull request says."""

    title: str
    body: str


class HandedOver(Struct, frozen=True):
    """A pull request that is up to date; `notes` is what the person should know."""

    url: str
    number: int
    branch: str
    base: str
    remote: str
    commit: str
    draft: bool
    created: bool
    notes: tuple[str, ...] = ()
    squash: bool = False
    uncommitted: bool = False


class NotHandedOver(CloseRefused):
    """It could not be done; these commands do it by hand."""

    def __init__(
        self, message: str, *, state: str = "", hint: str = "", commands: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, state=state, hint=hint)
        self.commands = commands


class _Made(Struct, frozen=True):
    """What would be pushed, to where, and for which base."""

    remote: Remote
    branch: str
    base: str
    commit: str
    there: str  # what the remote has as this branch
    notes: tuple[str, ...]


class Handover:
    """One run on its way to a remote; `say` tells what takes time."""

    def __init__(self, repository: Repository, run: Run, request: Request, say: Say) -> None:
        self._repo = repository
        self._run = run
        self._request = request
        self._say = say
        self._git = repository.git()
        self._interrupted = repository.inbox.signalled
        self._users = UsersGit(repository.processes, repository.place.top, self._interrupted)
        self._branch = f"ralph/{run.plan.change_id}"
        self._kept = f"The work is on `{self._branch}`; nothing is lost."
        self.event: dict[str, object] = {}  # as it was written down

    def check(self) -> None:
        """What is wrong with the request itself, before anything is done."""
        refuse_without_branch(self._run.plan)
        if self._request.base == self._branch:
            raise UserError(
                f"`{self._branch}` is the branch that is handed over: it cannot be its own base",
                hint=f"untildone finish {self._run.plan.change_id} pr --base main",
            )
        remote_of(self._git, self._origin.branch, self._request.remote)

    def carry_out(self, text: Callable[[RunAccount], Text]) -> HandedOver:
        """Push, then open the pull request or bring the open one up to date."""
        account = run_account(self._repo, self._run.plan.run_id)
        made = self._made(account)
        said = text(account)
        wanted = self._wanted(made, said, _is_proven(account))
        forge = self._forge(made, wanted)
        if made.there != made.commit:
            self._push(made)
        try:
            found, created = self._requested(forge, wanted)
        except ForgeRefused as refused:
            raise NotHandedOver(
                self._redacted(refused.message),
                state=f"`{self._branch}` is pushed to {made.remote.name}. {self._kept}",
                hint=refused.hint or "Mend that, then the same command once more.",
                commands=(_typed(forge, wanted),) if " create`" in refused.message else (),
            ) from refused
        over = HandedOver(
            found.url,
            found.number,
            self._branch,
            found.base,
            made.remote.name,
            made.commit,
            found.draft,
            created,
            made.notes,
            self._request.squash,
            self._request.uncommitted,
        )
        self.event = self._note(over)
        return over

    # -- what is pushed ------------------------------------------------------------------------

    @property
    def _origin(self) -> Origin:
        if self._run.origin is None:
            raise UserError(
                "This run never touched anything; there is nothing to hand over",
                hint=f"untildone run {self._run.plan.change_id}",
            )
        return self._run.origin

    def _made(self, account: RunAccount) -> _Made:
        git, origin = self._git, self._origin
        tip = git.resolve(f"refs/heads/{self._branch}")
        if not tip:
            raise UserError(
                f"The branch of the run is gone: {self._branch}",
                hint=f"git for-each-ref refs/ralph/archive/{self._run.plan.change_id}",
            )
        remote = remote_of(git, origin.branch, self._request.remote)
        self._say(f"Asking {remote.name} what it has")
        asked = [self._branch, *filter(None, (self._request.base, origin.branch))]
        has = self._users.branches(remote.name, asked)
        if isinstance(has, Captured):
            raise self._push_refused(has, remote, ("git", "ls-remote", remote.name))
        base = self._base(remote, has)
        commit, notes = self._commit(tip, account)
        there = has.tips.get(self._branch, "")
        if self._request.squash:
            commit = self._squashed(commit, there, account)
        pushed = f"refs/ralph/pushed/{self._run.plan.change_id}/{self._run.plan.run_id}"
        git.update_refs([(pushed, commit, None)], "untildone: what is pushed")
        return _Made(remote, self._branch, base, commit, there, (*notes, *self._left_behind()))

    def _base(self, remote: Remote, has: RemoteBranches) -> str:
        if has.default == self._branch:
            raise NotHandedOver(
                f"`{self._branch}` is the usual branch of {remote.name}, so it is not pushed to",
                state=f"Nothing was pushed. {self._kept}",
                hint="Make another branch the usual one there, then the same command once more.",
            )
        wanted, own = self._request.base, self._origin.branch
        known = {*has.tips, has.default} - {self._branch, ""}
        for name in (wanted,) if wanted else (own, has.default):
            if name in known:
                return name
        raise self._without_base(remote, wanted or own)

    def _without_base(self, remote: Remote, name: str) -> NotHandedOver:
        missing = name or "a branch to merge into"
        return NotHandedOver(
            f"{remote.name} does not have the base of the pull request: {missing}",
            state=f"Nothing was pushed. {self._kept}",
            hint=f"git push {remote.name} {name or 'HEAD:main'}",
        )

    def _commit(self, tip: str, account: RunAccount) -> tuple[str, tuple[str, ...]]:
        """The tip without `initial state`, which is the user's own files as they were."""
        git, origin, plan = self._git, self._origin, self._run.plan
        initial = self._initial()
        before = [change.path for change in git.diff_trees(origin.commit, initial)]
        others = not_of_plan(before, _book(plan, self._repo.place.top))
        if others and not self._request.uncommitted:
            raise NotHandedOver(
                f"The run began with work that you had not committed: {_named(others)}",
                state=f"Nothing was pushed. {self._kept}",
                hint=f"`untildone finish {plan.change_id} pr --with-uncommitted` hands it over, "
                "too, as a commit of its own",
            )
        reworded, notes = "", tuple[str, ...]()
        if before:
            what = "Work before the run" if others else "The plan"
            reworded = f"{what}: {plan.change_id}\n\nUntildone-Run: {plan.run_id}\n"
            notes = (f"What was not committed before the run is a commit: {_named(before)}",)
        commit = without(git, origin.commit, tip, initial, reworded=reworded)
        kept = any(call.kept for call in account.account.calls)
        if commit == origin.commit or (not kept and git.tree_of(commit) == git.tree_of(initial)):
            raise NotHandedOver(
                f"No story of `{plan.change_id}` is finished: there is nothing to hand over",
                state="Nothing was pushed.",
                hint=f"untildone resume {plan.change_id}",
            )
        return commit, notes

    def _initial(self) -> str:
        path = self._repo.folder(self._run.plan.run_id).journal
        opened = (fact for fact, _ in journals.replayed(path) if isinstance(fact, Opened))
        return next(opened).checkpoint

    def _squashed(self, commit: str, there: str, account: RunAccount) -> str:
        """All of it in one commit, on what was pushed before if there is any."""
        git, origin = self._git, self._origin
        known = there and git.resolve(there) and git.is_ancestor(origin.commit, there)
        parent = there if known else origin.commit
        if git.tree_of(parent) == git.tree_of(commit):
            return parent
        rows = [f"- {s.id} {s.title}".rstrip() for s in account.account.stories if s.kept]
        plan = self._run.plan
        message = "\n".join((plan.change_id, "", *rows, "", f"Untildone-Run: {plan.run_id}", ""))
        return git.commit_tree(git.tree_of(commit), [parent], plain(message))

    def _left_behind(self) -> Iterable[str]:
        """What the person may take for part of it."""
        if head_of(self._repo.place.git_dir)[0] != self._branch:
            return
        if self._git.do("status", "--porcelain", "-z", "--untracked-files=normal"):
            yield f"Uncommitted edits on `{self._branch}` are not part of it"

    # -- how it gets there ---------------------------------------------------------------------

    def _push(self, made: _Made) -> None:
        self._say(f"Pushing {self._branch} to {made.remote.name}")
        answer = self._users.push(made.remote.name, made.commit, self._branch)
        if not answer.ok:
            words = ("git", "push", made.remote.name, refspec(made.commit, self._branch))
            raise self._push_refused(answer, made.remote, words)

    def _push_refused(
        self, answer: Captured, remote: Remote, by_hand: tuple[str, ...]
    ) -> CloseRefused:
        said = self._redacted(answer.stderr.decode(errors="replace"))
        why = "it gave no answer in time" if answer.ending is Ending.TIMEOUT else said
        hint = "Mend that, then the same command once more."
        if "non-fast-forward" in said or "fetch first" in said:
            why = f"it has other commits as `{self._branch}`"
            hint = (
                f"`git fetch {remote.name} {self._branch}` and look at them; if nobody needs them, "
                f"`git push {remote.name} --delete {self._branch}`, then the same command once more"
            )
        return NotHandedOver(
            f"{remote.name} did not take the branch: {why or 'git said nothing'}",
            state=f"Nothing was pushed. {self._kept}",
            hint=hint,
            commands=(shlex.join(by_hand),),
        )

    def _forge(self, made: _Made, wanted: Wanted) -> Program:
        remote = made.remote
        names = forge_of(remote, self._request.forge)
        forge = FORGES[names[0]](
            self._repo.processes, self._repo.place.top, remote, self._interrupted
        )
        if len(names) == 1 and shutil.which(forge.name):
            return forge
        push = shlex.join(("git", "push", remote.name, refspec(made.commit, self._branch)))
        if len(names) > 1:
            why = f"Nothing says whether {remote.name} is on GitHub or GitLab"
            hint = 'forge = "github" or "gitlab" in untildone.toml'
        else:
            why = f"The program `{forge.name}` is not on PATH: the pull request cannot be opened"
            hint = f"Install it and try again, or type these; the text is in {wanted.text_file}"
        raise NotHandedOver(
            why,
            state=f"Nothing was pushed. {self._kept}",
            hint=hint,
            commands=(push, _typed(forge, wanted)),
        )

    # -- the pull request ----------------------------------------------------------------------

    def _wanted(self, made: _Made, said: Text, proven: bool) -> Wanted:  # noqa: FBT001
        draft = not proven if self._request.draft is None else self._request.draft
        body = self._redacted(said.body)
        if len(body) > LONGEST_TEXT:
            body = f"{body[:LONGEST_TEXT]}\n\n… cut here; `untildone report` has all of it.\n"
        path = self._repo.folder(self._run.plan.run_id).path / TEXT_FILE
        with opened(path, "wb", private=True) as file:
            file.write(body.encode("utf-8", "replace"))
        title = " ".join(self._redacted(said.title).split())
        return Wanted(self._branch, made.base, title, body, path, draft)

    def _requested(self, forge: Program, wanted: Wanted) -> tuple[PullRequest, bool]:
        self._say(f"Asking {forge.name} for the pull request")
        found = forge.find(wanted.branch)
        if found is None:
            return forge.create(wanted), True
        if found.base and not self._request.base:
            wanted = replace(wanted, base=found.base)  # somebody may have chosen another one there
        forge.update(found, wanted)
        # Nobody's "ready" is taken back unless that is asked for.
        if found.draft != wanted.draft and (found.draft or self._request.draft):
            forge.set_draft(found, draft=wanted.draft)
            found = replace(found, draft=wanted.draft)
        return replace(found, base=wanted.base), False

    def _redacted(self, text: str) -> str:
        return text_redactor(os.environ)(plain(text)).strip()

    def _note(self, over: HandedOver) -> dict[str, object]:
        journal = Journal(self._repo.folder(self._run.plan.run_id).journal)
        written = journal.note(Event("pull_request", asdict(over)), self._repo.clock.now())
        journal.close()
        return written


def refuse_without_branch(plan: Plan) -> None:
    if plan.checkpoint == "stash":
        raise UserError(
            "A run with `--checkpoint stash` has no branch that could be handed over",
            state="Nothing was changed.",
            hint="Commit its work and push it yourself, or run with `--checkpoint branch`.",
        )


def ready_to_hand_over(
    git: Git, origin: Origin, plan: Plan, book: StoryBook | None, forge: str
) -> tuple[str, ...]:
    """For a run that is to end with a pull request: what would be in the way then is told now."""
    refuse_without_branch(plan)
    remote = remote_of(git, origin.branch)
    rows = os.fsdecode(git.do("status", "--porcelain", "-z", "-uall", "--no-renames")).split("\0")
    others = not_of_plan([row[3:] for row in rows if row], book)
    if others:
        raise UserError(
            f"This is not committed, and would be part of the pull request: {_named(others)}",
            state="Nothing was changed.",
            hint="Commit it first; or `--on-complete keep`, and `untildone finish "
            f"{plan.change_id} pr --with-uncommitted` afterwards",
        )
    names = forge_of(remote, forge)
    missing = [FORGES[name].name for name in names if not shutil.which(FORGES[name].name)]
    if len(names) > 1:
        return (f"Nothing says whether {remote.name} is on GitHub or GitLab: set `forge`",)
    return tuple(
        f"`{name}` is not on PATH: at the end only the commands for a pull request are printed"
        for name in missing
    )


def not_of_plan(paths: Iterable[str], book: StoryBook | None) -> list[str]:
    """Those that are neither files of the stories nor beside them in a folder of their own."""
    files = [PurePosixPath(name) for name in (book.files if book else ())]
    folders = {file.parent for file in files} - {PurePosixPath(".")}
    found = (PurePosixPath(path) for path in paths)
    return [
        str(p) for p in found if p not in files and not any(f in (p, *p.parents) for f in folders)
    ]


def _book(plan: Plan, top: Path) -> StoryBook | None:
    with suppress(StoriesError):
        source = None if plan.plain else source_of(plan, top)
        return source.load() if source else None
    return None


def _is_proven(account: RunAccount) -> bool:
    stories = account.account.stories
    done = account.run.status is Status.DONE and bool(stories)
    return done and len(account.account.of_state(*PROVEN)) == len(stories)


def _named(paths: list[str]) -> str:
    more = len(paths) - MOST_NAMED
    return ", ".join(paths[:MOST_NAMED]) + (
        f" and {count_of(more, 'more', 'more')}" if more > 0 else ""
    )


def _typed(forge: Program, wanted: Wanted) -> str:
    """The call that opens the pull request, as a person would type it."""
    words = [*forge.creating(wanted), *forge.project]
    if wanted.text in words:  # too long for a line: from the file
        at = words.index(wanted.text)
        text = f'"$(cat {shlex.quote(str(wanted.text_file))})"'
        return (
            f"{shlex.join((forge.name, *words[:at]))} {text} {shlex.join(words[at + 1 :])}".rstrip()
        )
    return shlex.join((forge.name, *words))
