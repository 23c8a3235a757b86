"""Running loops: start, resume, finish, done, restore."""

from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path

from untildone.adapters.linked_worktree import user_of
from untildone.adapters.repository import (
    STATE_FILE,
    exclude_own_files,
    head_of,
    move_stale_locks,
    preflight,
)
from untildone.adapters.run_folder import new_run_id
from untildone.adapters.terminal import Person
from untildone.app import views
from untildone.app.bus import Bus, Observer
from untildone.app.orchestrator import Orchestrator
from untildone.app.recovery import missing_facts
from untildone.domain import fact as f
from untildone.domain.errors import Interrupted, UserError
from untildone.domain.event import Event, warning
from untildone.domain.machine import begin
from untildone.domain.run import Choice, Origin, Plan, Run, Status, Stop, StopHow
from untildone.domain.value import dataclass
from untildone.ports import StorySource
from untildone.settings import Settings
from untildone.wiring.build import build_closing, build_ports
from untildone.wiring.containment import settled
from untildone.wiring.flagged import refuse_flagged
from untildone.wiring.leftover_worktrees import sweep
from untildone.wiring.planning import Prepared, Wanted, pick_change, prepare, renewed, source_of
from untildone.wiring.registry import check_agents, droppings
from untildone.wiring.repository import Repository, at
from untildone.wiring.worktrees import holder, move_out, put_away, refuse_ignored, user_place

EXIT_CODES = {Status.DONE: 0, Status.STUCK: 3, Status.STALLED: 4, Status.STOPPED: 6}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command that drove a loop ended; `run` is None when there was nothing to do."""

    exit_code: int
    run: Run | None = None
    message: str = ""


@dataclass(slots=True)
class Session:
    """One process driving one run."""

    repository: Repository
    windows: list[Observer] = field(default_factory=list)
    at_terminal: bool = False
    warn: Callable[[str], None] = lambda text: None
    _bus: Bus = field(default_factory=Bus)

    def start(self, settings: Settings, flags: dict[str, object], wanted: Wanted) -> Ended:
        """Start a run, or go on with the one of this branch."""
        change = pick_change(self.repository, wanted)
        self.repository = repo = holder(self.repository, change)
        self._take_over(change)
        self._finish_closing(repo.latest())
        branch = self._branch_of_run()
        if branch == f"ralph/{change}" or user_of(repo.place):
            return self._go_on(self._run_of_branch(change), settings, flags)
        self._refuse_unfinished(branch)
        self._end_leftovers(repo.latest())
        git = repo.git(repo.inbox.signalled)
        origin = preflight(git, repo.place, change)
        run_id = new_run_id(repo.home, repo.clock.now())
        prepared = prepare(repo.place.top, settings, wanted, change, run_id)
        plan = prepared.plan
        if prepared.open_stories == 0:
            return Ended(0, None, f"All stories of `{change}` are done; nothing was changed.")
        if plan.plain and prepared.source and _all_ticked(prepared.source):
            text = (
                "Every box of tasks.md is ticked; nothing was changed. `--done manual` runs anyway."
            )
            return Ended(0, None, text)
        check_agents(plan, repo.place.top)
        if not wanted.include_flagged:
            refuse_flagged(repo, git, plan.limits.max_file_mb, at_terminal=self.at_terminal)
        if stopped := self._signalled_early():
            return stopped
        plan, remarks = settled(plan, repo.processes, repo.place.top)
        prepared = replace(prepared, plan=plan, warnings=(*prepared.warnings, *remarks))
        if plan.checkpoint == "worktree":
            self._move_out(prepared, origin)
        return self._begin(prepared, origin)

    def resume(self, settings: Settings, flags: dict[str, object], change: str) -> Ended:
        """Go on with a stopped, stuck, stalled or crashed run."""
        repo = self.repository
        run = repo.needed(change) if change else repo.latest()
        if run is None:
            raise UserError("There is no run in this worktree to resume", hint="untildone run")
        self._take_over(run.plan.change_id)
        self._finish_closing(run)
        return self._go_on(repo.needed(run.plan.change_id), settings, flags)

    def finish(self, run: Run, choice: Choice) -> Ended:
        """The completion choice after the fact."""
        self._take_over(run.plan.change_id)
        if run.plan.checkpoint == "worktree" and run.closed and run.choice is choice:
            return Ended(0, run)  # carried out, by us or by one that died before it could say so
        if run.abandoned or (run.closed and run.choice is Choice.CLEANUP):
            raise UserError(
                f"The run of `{run.plan.change_id}` was already ended",
                hint=f"untildone restore {run.plan.change_id}",
            )
        loop = self._recovered(run)
        self._refuse_cut_short(loop.run)
        if not loop.run.ended:
            loop.record(f.StopRequested(Stop(StopHow.NOW)))
            self._drive(loop)
        loop.record(f.ChoiceMade(choice))
        return self._drive(loop)

    def person_done(self, run: Run) -> Ended:
        """The person's word for a run whose process is gone."""
        self._take_over(run.plan.change_id)
        loop = self._recovered(run)
        if run.closed:
            raise UserError(
                f"The run of `{run.plan.change_id}` has already ended", hint="untildone status"
            )
        if not loop.run.ended:
            loop.record(f.StopRequested(Stop(StopHow.NOW)))
            self._drive(loop)
        loop.record(f.PersonDone())
        return self._drive(loop)

    def restore(self, run: Run) -> tuple[str, ...]:
        """Everything back as it was before the run; returns where the present state is stored."""
        from untildone.adapters.checkpoints.linked import LinkedCheckpoint
        from untildone.adapters.checkpoints.stash import forget

        self._take_over(run.plan.change_id)
        if user_of(self.repository.place) and run.choice is Choice.CLEANUP:
            run = self._after_cleanup(run)
        repo = self.repository
        run = self._recovered(run).run
        if run.origin is None:
            raise UserError("This run never touched anything; there is nothing to restore")
        loop = self._loop(run, run.origin)
        workspace = loop.ports.checkpoint
        if isinstance(workspace, LinkedCheckpoint):
            stored = workspace.discard()
        else:
            stored = build_closing(repo, run.plan).restore(run.origin, run.backup_ref)
        if run.plan.checkpoint == "stash":
            forget(repo.git(), run.plan.change_id, run.plan.run_id)
        if not run.abandoned:
            loop.record(f.Abandoned(f"restored; the state before is stored as {stored[0]}"))
        self._put_away(loop.run)
        return stored

    # -----------------------------------------------------------------------------------------

    def _take_over(self, change: str) -> None:
        """From here on this process is the worktree's loop: nobody else's, and reachable."""
        try:
            self.repository.lock.take(change)
            self.repository.inbox.listen()
        except OSError as error:
            raise UserError(
                f"The git folder cannot be written: {error}",
                state="Nothing was changed.",
                hint="Look at `df .` and `ls -ld .git`, then try again.",
            ) from error

    def _move_out(self, prepared: Prepared, origin: Origin) -> None:
        repo, plan = self.repository, prepared.plan
        stories = prepared.source.load().path if prepared.source else ""
        refuse_ignored(repo, (stories, plan.prompt_template, plan.script))
        for said in sweep(repo):
            self.warn(said)
        self.repository = move_out(repo, plan.change_id, origin)
        self._take_over(plan.change_id)
        repo.lock.release()  # not before: a worktree without a loop would be a leftover

    def _finish_closing(self, run: Run | None) -> None:
        # A loop that was killed while it carried out the choice: the rest of it comes first.
        if run and run.origin and run.choice and not run.closed and not run.abandoned:
            self.warn(f"Finishing the {run.choice} of `{run.plan.change_id}` that was cut short")
            self._drive(self._recovered(run))

    def _after_cleanup(self, run: Run) -> Run:
        """A cleanup that was cut short has touched the user's own worktree: on from there."""
        user = user_place(self.repository.place)
        assert user is not None
        self._finish_closing(run)
        self.repository.lock.release()
        self.repository = at(user)
        self._take_over(run.plan.change_id)
        return self.repository.needed(run.plan.change_id)

    def _branch_of_run(self) -> str:
        """The branch that says whose turn it is; a run without one counts until it has ended."""
        run = self.repository.latest()
        if run and run.plan.checkpoint == "stash" and not (run.closed or run.abandoned):
            return f"ralph/{run.plan.change_id}"
        return head_of(self.repository.place.git_dir)[0]

    def _run_of_branch(self, change: str) -> Run:
        run = self.repository.latest(change)
        if run is None:
            raise UserError(
                f"The worktree is on `ralph/{change}`, but no run of it is recorded here",
                state="Nothing was changed.",
                hint="Check out the branch to start from, then `untildone run` again.",
            )
        return run

    def _signalled_early(self) -> Ended | None:
        for request in self.repository.inbox.take():
            if isinstance(request, f.StopRequested) and request.stop.signal:
                return Ended(128 + request.stop.signal, None, "Stopped; nothing was changed.")
        return None

    def _refuse_unfinished(self, branch: str) -> None:
        if not branch.startswith("ralph/"):
            return
        other = branch.removeprefix("ralph/")
        run = self.repository.latest(other)
        if run and not run.closed and not run.abandoned:
            raise UserError(
                f"The run of `{other}` in this worktree has not ended: it comes first",
                state="Nothing was changed.",
                hint=f"`untildone resume {other}`, or `untildone finish {other} cleanup`",
            )

    def _go_on(self, run: Run, settings: Settings, flags: dict[str, object]) -> Ended:
        plan = run.plan
        put_away_before = plan.checkpoint == "worktree" and not user_of(self.repository.place)
        if run.abandoned or put_away_before or (run.closed and run.choice is Choice.CLEANUP):
            back = run.origin.label if run.origin else "your branch"
            raise UserError(
                f"The run of `{plan.change_id}` was ended, it cannot go on",
                state="Nothing was changed.",
                hint=f"`git checkout {back}`, then `untildone run {plan.change_id}`",
            )
        top = self.repository.place.top
        waiting_for_choice = run.status is Status.DONE and not run.closed
        if run.status is Status.DONE and run.closed and _nothing_open(run, top):
            return Ended(
                0, run, f"All stories of `{plan.change_id}` are done; nothing was changed."
            )
        loop = self._recovered(run)
        self._refuse_cut_short(loop.run)
        source = source_of(plan, top)
        book = source.load() if source else None
        new_plan = renewed(plan, settings, flags, loop.run.current_iteration, book)
        if waiting_for_choice:
            loop.record(f.AskedAgain(replace(new_plan, limits=plan.limits)))
        else:
            check_agents(new_plan, top)
            new_plan, warnings = settled(new_plan, self.repository.processes, top)
            if not any(lane.iteration for lane in loop.run.lanes):
                checkpoint, remarks = loop.adopt()
                loop.record(f.Adopted(0, checkpoint, remarks))
            loop.record(f.Resumed(new_plan))
            for text in warnings:
                loop.tell(warning(text))
        assert loop.run.origin is not None
        return self._drive(self._loop(loop.run, loop.run.origin))

    def _refuse_cut_short(self, run: Run) -> None:
        if run.abandoned:
            self._put_away(run)
            raise UserError(
                f"The start of this run was cut short before anything was changed: "
                f"{run.plan.run_id}",
                hint=f"untildone run {run.plan.change_id}",
            )

    def _begin(self, prepared: Prepared, origin: Origin) -> Ended:
        repo = self.repository
        plan = prepared.plan
        if stopped := self._signalled_early():
            return stopped
        started = f.Started(plan)
        run = begin(started, repo.clock.now())
        try:
            repo.folder(plan.run_id).make()
            exclude_own_files(repo.place, droppings(plan))
            loop = self._loop(run, origin, prepared.warnings)
            loop.record(started)
        except OSError as error:
            raise UserError(
                f"The loop's files ({STATE_FILE}, .git/untildone) cannot be written: {error}",
                state="Nothing was changed.",
                hint="Look at `df .` and `ls -ld .claude .git`, make room, then start again.",
            ) from error
        return self._drive(loop)

    def _recovered(self, run: Run) -> Orchestrator:
        self._end_leftovers(run)
        origin = run.origin or self._recorded_origin(run)
        loop = self._loop(run, origin)
        for fact in missing_facts(run, origin, loop.ports.checkpoint):
            loop.record(fact)
        return loop

    def _recorded_origin(self, run: Run) -> Origin:
        branch, commit, _ = self.repository.folder(run.plan.run_id).origin().split("\n", 2)
        return Origin(branch, commit)

    def _end_leftovers(self, run: Run | None) -> None:
        if not run or (run.closed and run.choice is Choice.CLEANUP):
            return  # after a choice that was refused, or keep, a dead git may have left its locks
        repo = self.repository
        ended = repo.end_leftovers(run.plan.run_id)
        if ended:
            names = ", ".join(sorted(set(ended)))
            self.warn(
                f"Ended {len(ended)} processes that an earlier loop had left running: {names}"
            )
        aside = repo.folder(run.plan.run_id).path / "aside"
        for lock in move_stale_locks(repo.place, aside):
            self.warn(f"Moved a lock aside that a killed git command had left: {lock}")

    def _loop(self, run: Run, origin: Origin, remarks: tuple[str, ...] = ()) -> Orchestrator:
        for window in self.windows:
            self._bus.subscribe(window, getattr(window, "heartbeat", None))
        self.windows = []
        answer = self._answer(run.plan)
        person = Person(self.repository.inbox, answer, at_terminal=self.at_terminal)
        ports = build_ports(self.repository, run, origin, self._bus, person)
        return Orchestrator(ports, run, origin, remarks)

    def _answer(self, plan: Plan) -> str:
        return plan.on_complete or ("ask" if self.at_terminal else "keep")

    def _drive(self, loop: Orchestrator) -> Ended:
        repo = self.repository
        repo.processes.adopt_orphans()
        try:
            run = loop.drive()
        except Interrupted:
            run = self._cut_short(loop)
        finally:
            self._bus.flush()
        self._put_away(run)
        if run.stop and run.stop.signal:
            return Ended(128 + run.stop.signal, run)
        return Ended(5 if run.refused else EXIT_CODES.get(run.status, 1), run)

    def _put_away(self, run: Run) -> None:
        said = put_away(self.repository, run) if run.plan.checkpoint == "worktree" else ""
        if said:
            self.warn(said)

    def _cut_short(self, loop: Orchestrator) -> Run:
        # A git command was ended by a signal: recorded like a crash, repaired at the next start.
        for request in self.repository.inbox.take():
            loop.record(request)
        now = self.repository.clock.now()
        shown = views.left_behind(loop.run, now)
        state = self.repository.state_file()
        state.adopt_foreign(views.KNOWN_FIELDS)
        state.write(self.repository.head(shown), shown.iterations)
        loop.tell(Event("finished", {"choice": None, "status": shown.status}))
        return shown


def _all_ticked(source: StorySource) -> bool:
    book = source.load()
    return 0 < book.total == book.complete


def _nothing_open(run: Run, top: Path) -> bool:
    source = source_of(run.plan, top)
    return source is None or not source.load().open_stories(run.finished)
