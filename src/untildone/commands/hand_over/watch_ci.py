"""`watch-ci`: the checks of a run's pull request; a red one becomes a story, in bounded rounds."""

import os
from collections.abc import Callable, Iterator
from enum import StrEnum

from msgspec import Struct

from untildone.adapters.clock import monotonic
from untildone.adapters.forge import FORGES, ForgeRefused, Program, PullRequest, forge_of
from untildone.adapters.git.push import remote_of
from untildone.adapters.git.repository import head_of
from untildone.adapters.records import journal as journals
from untildone.commands import control
from untildone.commands.control import Said
from untildone.commands.plan import add as adding
from untildone.commands.plan.single_call import Stopped
from untildone.commands.run_ending import Ended
from untildone.commands.start.start_checks import refuse_ended
from untildone.domain.checks.ci import Check, Standing, end_of_log, title_of
from untildone.domain.errors import CloseRefused, UserError
from untildone.domain.run.fact import StopRequested
from untildone.domain.run.run import Choice, Run
from untildone.domain.run.spending import still_over
from untildone.domain.secrets import text_redactor
from untildone.domain.stories.story import NewStory
from untildone.settings.load import load
from untildone.wiring.repository import Repository
from untildone.wiring.sources import source_of

# So many stories come of one round at most: twelve red jobs seldom have twelve causes.
MOST_STORIES = 3
# A network that is away for a while ends nothing.
MOST_TROUBLE = 10
WORKFLOWS = (".github/workflows/**", ".github/actions/**")


class Outcome(StrEnum):
    """How it ended."""

    GREEN = "green"
    RED = "red"
    NO_CI = "no_ci"
    TIMEOUT = "timeout"
    CLOSED = "closed"
    BUDGET = "budget"
    NOT_MENDED = "not_mended"


class Bounds(Struct, frozen=True):
    """How long and how often; times in seconds, `appear` for the first check to show itself."""

    rounds: int = 3
    timeout: float = 3600.0
    every: float = 20.0
    appear: float = 180.0


class Watched(Struct, frozen=True):
    """How it ended; `code` is that of the loop where its end was the reason."""

    outcome: Outcome
    rounds: int
    standing: Standing
    pull_request: PullRequest
    code: int = 0


class Doing(Struct, frozen=True):
    """What only a command line has: a loop with windows, the text of a pull request, a screen."""

    loop: Callable[[Repository, Run, dict[str, object]], Ended]
    hand_over: Callable[[Repository, Run, dict[str, object]], int]
    standing: Callable[[Standing, str], None]
    round: Callable[[int, list[str], list[str]], None]


class Watch:
    """The pull request of one run."""

    def __init__(self, repository: Repository, run: Run, bounds: Bounds, doing: Doing) -> None:
        self._repo, self._run = repository, run
        self._bounds, self._doing = bounds, doing
        self._change = run.plan.change_id
        self._handed = _last_handover(repository, run)
        self._forge = self._chosen_forge()
        self._standing = Standing()
        self._shown: list[tuple[str, str]] | None = None
        self._trouble = 0
        self.refuse_what_cannot_work()

    def refuse_what_cannot_work(self) -> None:
        """Whatever would keep a red check from being mended is told before any waiting."""
        control.refuse_agent(self._run.plan.run_id)
        refuse_ended(self._run)
        if self._repo.alive():
            raise UserError(
                f"The loop over {self._change} is at work",
                state="Nothing was changed.",
                hint=f"`untildone wait {self._change}`, then the same command again",
            )
        branch = f"ralph/{self._change}"
        here = head_of(self._repo.place.git_dir)[0]
        if self._run.plan.checkpoint == "branch" and here != branch and self._bounds.rounds:
            raise UserError(
                f"The work is on `{branch}`, and another branch is checked out: {here or 'none'}",
                state="Nothing was changed.",
                hint=f"`git checkout {branch}`, or `--rounds 0` only looks",
            )

    def until_end(self) -> Watched:
        """Look, mend, push, look again."""
        found = self._pull_request()
        for number in range(self._bounds.rounds + 1):
            outcome = self._waited(found)
            if outcome is not Outcome.RED or number == self._bounds.rounds:
                return Watched(outcome, number, self._standing, found)
            mendable = [check for check in self._standing.red if check.is_mendable]
            if not mendable:
                return Watched(outcome, number, self._standing, found)
            if still_over(self._run):
                return Watched(Outcome.BUDGET, number, self._standing, found)
            code = self._mend(found, mendable[:MOST_STORIES], number + 1)
            if code:
                return Watched(Outcome.NOT_MENDED, number + 1, self._standing, found, code)
        raise AssertionError("the last round returns")

    # -- looking -------------------------------------------------------------------------------

    def _pull_request(self) -> PullRequest:
        found = self._forge.find(f"ralph/{self._change}")
        if found is None:
            raise UserError(
                f"There is no open pull request of `ralph/{self._change}`",
                state="Nothing was changed.",
                hint=f"untildone finish {self._change} pr",
            )
        return found

    def _waited(self, found: PullRequest) -> Outcome:
        """What came of the checks of the commit that was pushed last."""
        began = monotonic()
        while True:
            outcome = self._looked(found, monotonic() - began)
            if outcome:
                return outcome
            if monotonic() - began > self._bounds.timeout:
                return Outcome.TIMEOUT
            self._pause()

    def _looked(self, found: PullRequest, waited: float) -> Outcome | None:
        try:
            head = self._forge.head(found)
            checks = self._forge.checks(found, head) if head else ()
        except ForgeRefused as refused:
            self._trouble += 1
            if self._trouble > MOST_TROUBLE or self._shown is None:
                raise _unanswered(refused) from refused
            return None
        self._trouble = 0
        if not head:
            return Outcome.CLOSED
        if head != self._handed.get("commit"):
            raise CloseRefused(
                f"The pull request has commits that this run has not pushed: {head[:12]}",
                state="Nothing was changed.",
                hint=f"git fetch {self._handed.get('remote')} ralph/{self._change}, and look",
            )
        self._standing = Standing(checks)
        self._tell(found)
        if not checks:
            return Outcome.NO_CI if waited > self._bounds.appear else None
        if self._standing.running:
            return None
        return Outcome.GREEN if self._standing.is_green else Outcome.RED

    def _tell(self, found: PullRequest) -> None:
        seen = [(check.name, check.conclusion) for check in self._standing.checks]
        if self._shown != seen:
            self._shown = seen
            self._doing.standing(self._standing, found.url)

    def _pause(self) -> None:
        self._repo.inbox.wake.wait(self._bounds.every)
        for request in self._repo.inbox.take() if self._repo.inbox.signalled() else ():
            if isinstance(request, StopRequested):
                raise Stopped(request.stop.signal, "What was pushed stays; nothing is at work.")

    # -- mending -------------------------------------------------------------------------------

    def _mend(self, found: PullRequest, checks: list[Check], number: int) -> int:
        """One story for each of them, by `add`; then the loop, then a push. 0 if all went well."""
        ids = [self._added(found, check) for check in checks]
        names = [check.name for check in checks]
        self._doing.round(number, ids, names)
        ended = self._doing.loop(self._repo, self._run, self._flags(ids))
        self._repo.lock.release()
        run = self._repo.latest(self._change)
        done = {key[0] for key in run.finished} if run else set()
        if run is None or not done.issuperset(ids):
            return ended.exit_code or 3
        again = {name: self._handed.get(name) for name in ("remote", "squash", "uncommitted")}
        code = self._doing.hand_over(self._repo, run, again)
        self._repo.lock.release()
        if not code:
            self._run = self._repo.needed(self._change)
            self._handed = _last_handover(self._repo, self._run)
        return code

    def _added(self, found: PullRequest, check: Check) -> str:
        """A story, and the end of the log as guidance: it is for the prompt, not for the file."""
        top = self._repo.place.top
        source = source_of(self._run.plan, top)
        known = [story.title for story in source.load().stories] if source else []
        title = title_of(check, known)
        tasks = (
            "Find out why the check fails: the end of its log is in the guidance of this story",
            f"Mend the cause here, and neither weaken nor skip the check ({check.url})",
        )
        where = {"source": self._run.plan.source, "source_file": self._run.plan.source_file or None}
        settings = load(top, os.environ, where)
        added = adding.add(self._repo, self._change, settings, NewStory(title, tasks))
        log = text_redactor(os.environ)(end_of_log(self._forge.log(found, check)))
        said = f"The check `{check.name}` of the pull request ended as {check.conclusion}."
        ending = f" The end of its log:\n\n{log}" if log else f" It has no log here: {check.url}"
        control.guide(self._repo, self._change, Said(said + ending, (added.story.id,)))
        return added.story.id

    def _flags(self, ids: list[str]) -> dict[str, object]:
        """The run's own, but for what makes this round one: other open stories stay open."""
        plan = self._run.plan
        flags: dict[str, object] = {"protect": tuple(dict.fromkeys((*plan.protect, *WORKFLOWS)))}
        source = source_of(plan, self._repo.place.top)
        book = source.load() if source else None
        others = book and {s.id for s in book.open_stories(self._run.finished)} - {*ids}
        if others or plan.only:
            flags["story"] = tuple(ids)
        return flags if plan.on_complete in ("keep", "pr") else flags | {"on_complete": "keep"}

    def _chosen_forge(self) -> Program:
        origin = self._run.origin
        assert origin is not None
        remote = remote_of(self._repo.git(), origin.branch, str(self._handed.get("remote") or ""))
        told = load(self._repo.place.top, os.environ, {}).forge
        name = forge_of(remote, told)[0]
        if name != "github":
            raise UserError(
                "The checks of GitLab are not read by this release",
                state="Nothing was changed.",
                hint="glab ci status --live",
            )
        top, signalled = self._repo.place.top, self._repo.inbox.signalled
        return FORGES[name](self._repo.processes, top, remote, signalled)


def _last_handover(repository: Repository, run: Run) -> dict[str, object]:
    """What `finish CHANGE pr` noted when it pushed last."""
    path = repository.folder(run.plan.run_id).journal
    notes: Iterator[dict[str, object]] = (
        row for row in journals.events(path) if row["event"] == "pull_request"
    )
    last = list(notes)[-1:]
    if not last or run.choice is not Choice.KEEP:
        change = run.plan.change_id
        raise UserError(
            f"The run of `{change}` has not been handed over yet",
            state="Nothing was changed.",
            hint=f"untildone finish {change} pr",
        )
    return last[0]


def _unanswered(refused: ForgeRefused) -> CloseRefused:
    return CloseRefused(
        refused.message,
        state="What was pushed stays; nothing else was changed.",
        hint=refused.hint or "Look at the network, then the same command again.",
    )
