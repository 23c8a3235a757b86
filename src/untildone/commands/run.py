"""`run` and `resume`: one process drives one run.

The process holds the worktree, repairs what a dead loop left, and steps until the run has ended.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TextIO

from msgspec import Struct, field
from msgspec.structs import replace

from untildone.adapters.checks.clean_checkout import NOTE, remove_noted
from untildone.adapters.git.repository import (
    STATE_FILE,
    exclude_own_files,
    ignore_line,
    move_stale_locks,
    preflight,
)
from untildone.adapters.process.watchdog import Watchdog
from untildone.adapters.records.learnings_file import EXCLUDE_LINE
from untildone.adapters.records.operations import OperationLog
from untildone.adapters.records.run_folder import change_of, make_private, new_run_id
from untildone.adapters.terminal import Person, output_files
from untildone.app.bus import Bus, Observer
from untildone.app.keep_or_revert import looked_at
from untildone.app.orchestrator import drive
from untildone.app.recovery import missing_facts
from untildone.app.run_driver import RunDriver
from untildone.commands import background
from untildone.commands.run_ending import Ended, exit_code
from untildone.commands.start.early_guidance import take_over
from untildone.commands.start.plan import (
    Prepared,
    Wanted,
    given_budgets,
    pick_change,
    with_detected,
)
from untildone.commands.start.start_checks import (
    Asking,
    Ready,
    all_done,
    branch_of_run,
    cut_short_closing,
    goes_on,
    installed_agents,
    nothing_open,
    plan_to_go_on,
    ready,
    refuse_ended,
    refuse_spent,
    refuse_unfinished,
    run_of_branch,
)
from untildone.commands.start.story_checks import not_obeyed
from untildone.domain.errors import Interrupted, UserError
from untildone.domain.plain_text import count_of
from untildone.domain.reporting import views
from untildone.domain.reporting.event import Event, warning
from untildone.domain.run import fact as f
from untildone.domain.run.machine import apply, begin
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Choice, Origin, Run, Status
from untildone.settings.settings import Settings
from untildone.wiring.agents import agent_options_of, leftover_files
from untildone.wiring.build import build_checkpoint, build_lanes, build_ports
from untildone.wiring.repository import Repository, at, this_process
from untildone.wiring.sandbox import settled
from untildone.wiring.worktrees import (
    brought_back,
    move_out,
    remove_worktree,
    user_place,
    worktree_running,
)

MESSAGE_S = 10.5  # a messenger takes 10 s at most
PULL_REQUEST = "pr"
Flags = dict[str, object]


class LoopProcess(Struct):
    """One process driving one run.

    `windows` makes what shows the run, once it is known whether the completion choice is asked for.
    With `detach` the loop leaves the terminal before its first call, and `Detached` is raised in
    the process that stays behind. `log_window` makes what is then written to its log.
    `agent_env` is what the configuration sets for agents, and `settings` say who is told what
    happens: both may hold secrets and are in no plan.
    """

    repository: Repository
    windows: Callable[[bool], Sequence[Observer]] | None = None
    log_window: Callable[[TextIO, bool], Observer] = lambda out, asks: lambda event: None
    detach: bool = False
    at_terminal: bool = False
    warn: Callable[[str], None] = lambda text: None
    caught_up: str = ""
    agent_env: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    _bus: Bus = field(default_factory=Bus)
    _watchdog: Watchdog | None = None

    @contextlib.contextmanager
    def corrects_error_state(self) -> Iterator[None]:
        """An error after an earlier loop's work was finished does not claim that nothing was."""
        try:
            yield
        except UserError as error:
            error.state = self.caught_up or error.state
            raise

    def take_over(self, change: str) -> None:
        """From here on this process is the worktree's loop: nobody else's, and reachable."""
        try:
            self.repository.lock.take(change)
            make_private(self.repository.home)
            self.repository.inbox.listen(change)
        except OSError as error:
            raise UserError(
                f"The git folder cannot be written: {error}",
                state="Nothing was changed.",
                hint="Look at `df .` and `ls -ld .git`, then try again.",
            ) from error
        if OperationLog(self.repository.home).begun():
            from untildone.commands.undo import finish_begun

            finish_begun(self.repository, self.warn)

    def messengers(self, run_id: str) -> Sequence[Observer]:
        """Who is told what happens, far away."""
        if not self.settings.notify:
            return ()
        from untildone.wiring.notifications import messengers

        return messengers(self.repository, self.settings, run_id)

    def use(self, settings: Settings) -> None:
        """What the settings say beside the plan; an address that cannot be used is refused."""
        self.agent_env, self.settings = agent_options_of(settings).env, settings
        if settings.notify:
            from untildone.wiring.notifications import deliveries

            deliveries(self.repository, settings)

    def taken_over(self, run: Run) -> Run:
        """The same for a run that is known: as it is once nobody else can change it."""
        self.take_over(run.plan.change_id)
        return self.repository.replay(run.plan.run_id) or run

    def go_to_worktree(self, run: Run) -> None:
        """If the end of a run was undone: into its own worktree, which had been moved away."""
        users = self.repository
        self.repository = brought_back(users, run)
        if self.repository is not users:
            self.take_over(run.plan.change_id)
            users.lock.release()

    def finish_closing(self, run: Run | None) -> Ended | None:
        """Carry out the rest of a choice whose loop was killed over it."""
        if run is None or not cut_short_closing(run):
            return None
        what = f"{run.choice} of `{run.plan.change_id}` that was cut short"
        self.warn(f"Finishing the {what}")
        ended = self.drive(self.recovered(run))
        self.caught_up = f"The {what} was finished first; nothing else was changed."
        return ended

    def refuse_cut_short(self, run: Run) -> None:
        """A run that never began cannot go on."""
        if run.abandoned:
            self.remove_worktree(run)
            raise UserError(
                f"The start of this run was cut short before anything was changed: "
                f"{run.plan.run_id}",
                state="Your files are as they were before it.",
                hint=f"untildone run {run.plan.change_id}",
            )

    def recovered(self, run: Run) -> RunDriver:
        """The loop of this run with what a dead process could not write down."""
        origin, missing = self.missing(run)
        return self.loop(run, origin, missing=missing)

    def missing(self, run: Run) -> tuple[Origin, tuple[f.Fact, ...]]:
        """The facts that a dead process could not write down; its processes are ended first."""
        self.end_leftovers(run)
        origin = run.origin or self._recorded_origin(run)
        checkpoint = build_checkpoint(self.repository, run.plan, origin)
        beside = build_lanes(self.repository, run)
        try:
            return origin, missing_facts(run, origin, checkpoint, **beside)
        finally:
            if beside:
                beside["lanes"].release()

    def end_leftovers(self, run: Run | None) -> None:
        """End what an earlier loop left running and move its stale locks aside."""
        if not run:
            return
        repo, over = self.repository, run.closed and run.choice is Choice.CLEANUP
        ended = () if over else repo.end_leftovers(run.plan.run_id)
        if ended:
            names = ", ".join(sorted(set(ended)))
            many = count_of(len(ended), "process", "processes")
            self.warn(f"Ended {many} that an earlier loop had left running: {names}")
        folder = repo.folder(run.plan.run_id).path
        if not over:
            remove_noted(folder / NOTE)
        # After a choice that was refused, or keep, a dead git may have left its locks, too.
        for lock in move_stale_locks(repo.place, folder / "aside", index=not over):
            self.warn(f"Moved a lock aside that a killed git command had left: {lock}")

    def guard(self, plan: Plan) -> None:
        """From here on agents may be called.

        Before `loop`, whose windows have threads: a watchdog is forked. A sandbox needs none, it
        ends with this process.
        """
        if self.detach:
            self._leave_terminal(plan)
        elif self._outlives_terminal():
            self._outlive_terminal(plan)
        if not plan.contained:
            self._watchdog = self.repository.start_watchdog()

    def _leave_terminal(self, plan: Plan) -> None:
        self._bus.flush()
        start = background.leave(self.repository, plan)
        self._bus, self.at_terminal, self.detach = Bus(), False, False
        self.windows = lambda asks: [self.log_window(sys.stdout, asks), start]

    def _outlives_terminal(self) -> bool:
        if self.settings.on_hangup != "ask":
            return self.settings.on_hangup == "continue"
        person = Person(self.repository.inbox, "ask", at_terminal=self.at_terminal)
        return self.at_terminal and person.agrees(background.OUTLIVES)

    def _outlive_terminal(self, plan: Plan) -> None:
        log, shown = background.outlive(self.repository, plan), self.windows
        if shown:
            self.windows = lambda asks: [*shown(asks), self.log_window(log, asks)]

    def loop(
        self,
        run: Run,
        origin: Origin,
        plan: Plan | None = None,
        *,
        missing: Sequence[f.Fact] = (),
        remarks: tuple[str, ...] = (),
    ) -> RunDriver:
        """The loop over this run, with ports and windows for its plan, or for the next one."""
        plan = plan or run.plan
        answer = plan.on_complete or ("ask" if self.at_terminal else "keep")
        answer = "keep" if answer == PULL_REQUEST else answer  # what remains is not for the loop
        for window in self.windows(answer == "ask") if self.windows else ():
            self._bus.subscribe(window, getattr(window, "heartbeat", None))
        for messenger in self.messengers(plan.run_id) if self.windows else ():
            self._bus.subscribe(messenger, flush_s=MESSAGE_S)
        self.windows = None
        person = Person(self.repository.inbox, answer, at_terminal=self.at_terminal)
        ports = build_ports(
            self.repository,
            replace(run, plan=plan),
            origin,
            self._bus,
            person,
            self.agent_env,
        )
        loop = RunDriver(ports, run, origin, remarks)
        for fact in missing:
            loop.record(looked_at(loop, fact) if isinstance(fact, f.Saved) else fact)
        return loop

    def drive(self, loop: RunDriver) -> Ended:
        """Drive the loop to its end; the exit code tells how it ended."""
        repo = self.repository
        repo.processes.adopt_orphans()
        try:
            run = drive(loop)
        except Interrupted:
            run = self._cut_short(loop)
        finally:
            self._bus.flush()
            self._tell_undelivered(loop)
            if self._watchdog:
                self._watchdog.stop()
                self._watchdog = None
        make_private(repo.home, run.plan.run_id)
        self._let_go_of_objects(run)
        self.remove_worktree(run)
        run = replace(run, book=run.book or loop.book)  # for whoever tells how it ended
        code = exit_code(run)
        return Ended(code, run, "Nothing was changed." if code == 2 else "")

    def _tell_undelivered(self, loop: RunDriver) -> None:
        """The last messages may fail after the last step."""
        told = [report.told for report in self.repository.inbox.reports() if report.told]
        for event in told:
            loop.tell(event)
        if told:
            self._bus.flush()

    def _let_go_of_objects(self, run: Run) -> None:
        git = self.repository.git()
        git.hold_objects(self.repository.folder(run.plan.run_id).path)
        git.store.let_go(git.do)

    def remove_worktree(self, run: Run) -> None:
        """Remove the worktree that was made for a run which is over."""
        said = remove_worktree(self.repository, run) if run.plan.checkpoint == "worktree" else ""
        if said:
            self.warn(said)

    def _recorded_origin(self, run: Run) -> Origin:
        branch, commit, _ = self.repository.folder(run.plan.run_id).origin().split("\n", 2)
        return Origin(branch, commit)

    def _cut_short(self, loop: RunDriver) -> Run:
        # A git command was ended by a signal: recorded like a crash, repaired at the next start.
        loop.hear()
        now = self.repository.clock.now()
        shown = views.left_behind(loop.run, now)
        state = self.repository.state_file(shown.plan.run_id)
        state.keep_unknown_fields()
        state.write(views.state(shown, *this_process()), shown.iterations)
        if not loop.run.ended:  # between two calls the request itself was the end
            loop.tell(Event("finished", {"choice": None, "status": shown.status, "notes": []}))
        return shown


# -- run ---------------------------------------------------------------------------------------


def start(process: LoopProcess, settings: Settings, flags: Flags, wanted: Wanted) -> Ended:
    """Start a run, or go on with the one of this branch."""
    process.use(settings)
    change = pick_change(process.repository, wanted)
    process.repository = repo = worktree_running(process.repository, change)
    process.take_over(change)
    newest = repo.latest()
    if process.finish_closing(newest):
        newest = repo.latest()
    branch = branch_of_run(repo, newest)
    if goes_on(repo, newest, branch, change):
        return _go_on(process, run_of_branch(repo, newest, change, wanted.task), settings, flags)
    refuse_unfinished(repo, newest, branch)
    process.end_leftovers(newest)
    asking = Asking(process.at_terminal, repo.inbox.signalled)
    found = ready(repo, settings, wanted, change, asking)
    if found.idle:
        return Ended(0, None, found.idle)
    if stopped := _signalled_early(process):
        return stopped
    if found.prepared.plan.checkpoint == "worktree":
        _move_out(process, found)
    return _begin(process, found.prepared, found.origin)


def _move_out(process: LoopProcess, found: Ready) -> None:
    from untildone.commands.leftovers import remove_worktrees

    repo, plan = process.repository, found.prepared.plan
    for said in remove_worktrees(repo):
        process.warn(said)
    process.repository = move_out(repo, plan.change_id, found.origin)
    process.take_over(plan.change_id)
    repo.lock.release()  # not before: a worktree without a loop would be a leftover


def _signalled_early(process: LoopProcess) -> Ended | None:
    for request in process.repository.inbox.take():
        if isinstance(request, f.StopRequested) and request.stop.signal:
            return Ended(128 + request.stop.signal, None, "Stopped; nothing was changed.")
    process.repository.inbox.recorded()  # requests to an earlier run are not for this one
    return None


def _begin(process: LoopProcess, prepared: Prepared, origin: Origin) -> Ended:
    repo = process.repository
    plan = prepared.plan
    if stopped := _signalled_early(process):
        return stopped
    started = f.Started(plan)
    run = begin(started, repo.clock.now())
    try:
        process.guard(plan)
        repo.folder(plan.run_id).make()
        own = output_files(repo.place.top)
        ignored = (*leftover_files(plan), EXCLUDE_LINE, *map(ignore_line, own))
        exclude_own_files(repo.place, ignored)
        loop = process.loop(run, origin, remarks=(*prepared.warnings, *map(_own_output, own)))
        loop.record(started)
        take_over(repo, loop, prepared.book)
    except OSError as error:
        raise UserError(
            f"The loop's files ({STATE_FILE}, .git/untildone) cannot be written: {error}",
            state="Nothing was changed.",
            hint="Look at `df .` and `ls -ld .claude .git`, make room, then start again.",
        ) from error
    return process.drive(loop)


def _own_output(path: str) -> str:
    return (
        f"The output of this command goes to {path} in the repository: git ignores it from now on "
        "(.git/info/exclude), or a put-back would empty it"
    )


# -- resume ------------------------------------------------------------------------------------


def resume(process: LoopProcess, settings: Settings, flags: Flags, change: str) -> Ended:
    """Go on with a stopped, stuck, stalled or crashed run."""
    process.use(settings)
    repo = process.repository
    newest = repo.newest(change)
    if newest:  # locked first, so that the journal is read once
        process.take_over(change_of(repo.home, newest))
    run = repo.needed(change) if change else repo.latest()
    if run is None:
        raise UserError("There is no run in this worktree to resume", hint="untildone run")
    ended = process.finish_closing(run)
    if ended and run.choice is Choice.CLEANUP:
        return ended  # nothing is left to go on with
    return _go_on(process, repo.needed(run.plan.change_id) if ended else run, settings, flags)


def _go_on(process: LoopProcess, run: Run, settings: Settings, flags: Flags) -> Ended:
    """What can be refused is refused before anything is built or written."""
    refuse_ended(run)
    process.go_to_worktree(run)
    repo, top = process.repository, process.repository.place.top
    if run.status is Status.DONE and run.closed and nothing_open(run, top):
        return Ended(0, run, all_done(run.plan.change_id))
    settings, unchecked, detected = with_detected(settings, top)
    refuse_spent(run, given_budgets(flags), top)
    origin, missing = process.missing(run)
    known = _with_facts(run, missing, repo.clock.now())
    if known.abandoned:
        for fact in missing:
            run = repo.note(run, fact)
        return _start_again(process, run, settings, flags, detected)
    plan = plan_to_go_on(repo, known, settings, flags, detected)
    if run.status is Status.DONE and not run.closed:  # only the choice is missing
        process.guard(plan)
        loop = process.loop(run, origin, plan, missing=missing)
        loop.record(f.AskedAgain(replace(plan, limits=run.plan.limits)))
        return process.drive(loop)
    installed_agents(plan, top, settings, known.finished)
    plan, warnings = settled(plan, repo.processes, top)
    process.guard(plan)
    loop = process.loop(run, origin, plan, missing=missing)
    if not any(lane.iteration for lane in loop.run.lanes):
        checkpoint, remarks = loop.adopt()
        loop.record(f.Adopted(0, checkpoint, remarks))
    loop.record(f.Resumed(plan))
    take_over(repo, loop, loop.run.book)
    for text in (*warnings, *unchecked, *not_obeyed(plan, known.finished)):
        loop.tell(warning(text))
    return process.drive(loop)


def _start_again(
    process: LoopProcess, run: Run, settings: Settings, flags: Flags, detected: Mapping[str, str]
) -> Ended:
    """The start was cut short before anything was changed: once more, with the same flags."""
    repo, change = process.repository, run.plan.change_id
    user = user_place(repo.place)
    process.remove_worktree(run)
    if user:  # the worktree that was made for the run is gone
        repo.lock.release()
        process.repository = repo = at(user)
        process.take_over(change)
    process.warn(f"The start of `{change}` was cut short before anything was changed; once more")
    origin = preflight(repo.git(), repo.place, change)
    fresh = begin(f.Started(run.plan), repo.clock.now())
    plan = plan_to_go_on(repo, fresh, settings, flags, detected)
    plan = replace(plan, run_id=new_run_id(repo.home, repo.clock.now()))
    installed_agents(plan, repo.place.top, settings)
    plan, warnings = settled(plan, repo.processes, repo.place.top)
    prepared = Prepared(plan, None, None, warnings)
    if plan.checkpoint == "worktree":
        _move_out(process, Ready(prepared, origin))
    return _begin(process, prepared, origin)


def _with_facts(run: Run, facts: Sequence[f.Fact], at: datetime) -> Run:
    for fact in facts:
        run = apply(run, fact, at)
    return run
