"""Running loops: start and resume."""

from msgspec.structs import replace

from untildone.adapters.git.repository import (
    STATE_FILE,
    exclude_own_files,
)
from untildone.adapters.records.learnings_file import EXCLUDE_LINE
from untildone.commands.doctor.leftover_worktrees import sweep
from untildone.commands.drive import Driver, Ended
from untildone.commands.flagged_files import Asking
from untildone.commands.plan import Prepared, Wanted, given_budgets, pick_change
from untildone.commands.plan_checks import with_detected
from untildone.commands.raise_budget import refuse_spent
from untildone.commands.start_checks import (
    Ready,
    all_done,
    branch_of_run,
    goes_on,
    nothing_open,
    plan_to_go_on,
    ready,
    refuse_ended,
    refuse_unfinished,
    run_of_branch,
)
from untildone.domain.errors import UserError
from untildone.domain.reporting.event import warning
from untildone.domain.run import fact as f
from untildone.domain.run.machine import begin
from untildone.domain.run.run import Choice, Origin, Run, Status
from untildone.settings.settings import Settings
from untildone.wiring.agents import check_agents, leftover_files
from untildone.wiring.sandbox import settled
from untildone.wiring.worktrees import holder, move_out


class Session(Driver):
    """A process that starts a run or goes on with one."""

    def start(self, settings: Settings, flags: dict[str, object], wanted: Wanted) -> Ended:
        """Start a run, or go on with the one of this branch."""
        change = pick_change(self.repository, wanted)
        self.repository = repo = holder(self.repository, change)
        self.take_over(change)
        self.finish_closing(repo.latest())
        branch = branch_of_run(repo)
        if goes_on(repo, branch, change):
            return self._go_on(run_of_branch(repo, change, wanted.task), settings, flags)
        refuse_unfinished(repo, branch)
        self.end_leftovers(repo.latest())
        asking = Asking(self.at_terminal, repo.inbox.signalled)
        found = ready(repo, settings, wanted, change, asking)
        if found.idle:
            return Ended(0, None, found.idle)
        if stopped := self._signalled_early():
            return stopped
        if found.prepared.plan.checkpoint == "worktree":
            self._move_out(found)
        return self._begin(found.prepared, found.origin)

    def resume(self, settings: Settings, flags: dict[str, object], change: str) -> Ended:
        """Go on with a stopped, stuck, stalled or crashed run."""
        repo = self.repository
        run = repo.needed(change) if change else repo.latest()
        if run is None:
            raise UserError("There is no run in this worktree to resume", hint="untildone run")
        self.take_over(run.plan.change_id)
        ended = self.finish_closing(run)
        if ended and run.choice is Choice.CLEANUP:
            return ended  # nothing is left to go on with
        return self._go_on(repo.needed(run.plan.change_id), settings, flags)

    def _move_out(self, found: Ready) -> None:
        repo, plan = self.repository, found.prepared.plan
        for said in sweep(repo):
            self.warn(said)
        self.repository = move_out(repo, plan.change_id, found.origin)
        self.take_over(plan.change_id)
        repo.lock.release()  # not before: a worktree without a loop would be a leftover

    def _signalled_early(self) -> Ended | None:
        for request in self.repository.inbox.take():
            if isinstance(request, f.StopRequested) and request.stop.signal:
                return Ended(128 + request.stop.signal, None, "Stopped; nothing was changed.")
        self.repository.inbox.recorded()  # wishes for an earlier run are not for this one
        return None

    def _go_on(self, run: Run, settings: Settings, flags: dict[str, object]) -> Ended:
        plan = run.plan
        refuse_ended(self.repository, run)
        top = self.repository.place.top
        waiting_for_choice = run.status is Status.DONE and not run.closed
        if run.status is Status.DONE and run.closed and nothing_open(run, top):
            return Ended(0, run, all_done(plan.change_id))
        settings, unchecked = with_detected(settings, top)
        refuse_spent(run, given_budgets(flags), top)
        self.guard(plan)
        loop = self.recovered(run)
        self.refuse_cut_short(loop.run)
        new_plan = plan_to_go_on(self.repository, loop.run, settings, flags)
        if waiting_for_choice:
            loop.record(f.AskedAgain(replace(new_plan, limits=plan.limits)))
        else:
            check_agents(new_plan, top)
            new_plan, warnings = settled(new_plan, self.repository.processes, top)
            if not any(lane.iteration for lane in loop.run.lanes):
                checkpoint, remarks = loop.adopt()
                loop.record(f.Adopted(0, checkpoint, remarks))
            loop.record(f.Resumed(new_plan))
            for text in (*warnings, *unchecked):
                loop.tell(warning(text))
        assert loop.run.origin is not None
        return self.drive(self.loop(loop.run, loop.run.origin))

    def _begin(self, prepared: Prepared, origin: Origin) -> Ended:
        repo = self.repository
        plan = prepared.plan
        if stopped := self._signalled_early():
            return stopped
        self.guard(plan)
        started = f.Started(plan)
        run = begin(started, repo.clock.now())
        try:
            repo.folder(plan.run_id).make()
            exclude_own_files(repo.place, (*leftover_files(plan), EXCLUDE_LINE))
            loop = self.loop(run, origin, prepared.warnings)
            loop.record(started)
        except OSError as error:
            raise UserError(
                f"The loop's files ({STATE_FILE}, .git/untildone) cannot be written: {error}",
                state="Nothing was changed.",
                hint="Look at `df .` and `ls -ld .claude .git`, make room, then start again.",
            ) from error
        return self.drive(loop)
