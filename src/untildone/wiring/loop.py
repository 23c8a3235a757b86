"""Running loops: start and resume."""

from dataclasses import replace
from pathlib import Path

from untildone.adapters.linked_worktree import user_of
from untildone.adapters.repository import (
    STATE_FILE,
    exclude_own_files,
    head_of,
    preflight,
)
from untildone.adapters.run_folder import new_run_id
from untildone.domain import fact as f
from untildone.domain.errors import UserError
from untildone.domain.event import warning
from untildone.domain.machine import begin
from untildone.domain.run import Choice, Origin, Run, Status
from untildone.ports import StorySource
from untildone.settings import Settings
from untildone.wiring.containment import settled
from untildone.wiring.driving import Driver, Ended
from untildone.wiring.flagged import refuse_flagged
from untildone.wiring.leftover_worktrees import sweep
from untildone.wiring.planning import Prepared, Wanted, pick_change, prepare, renewed, source_of
from untildone.wiring.registry import check_agents, droppings
from untildone.wiring.worktrees import holder, move_out, refuse_ignored


class Session(Driver):
    """A process that starts a run or goes on with one."""

    def start(self, settings: Settings, flags: dict[str, object], wanted: Wanted) -> Ended:
        """Start a run, or go on with the one of this branch."""
        change = pick_change(self.repository, wanted)
        self.repository = repo = holder(self.repository, change)
        self.take_over(change)
        self.finish_closing(repo.latest())
        branch = self._branch_of_run()
        if branch == f"ralph/{change}" or user_of(repo.place):
            return self._go_on(self._run_of_branch(change), settings, flags)
        self._refuse_unfinished(branch)
        self.end_leftovers(repo.latest())
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
        self.take_over(run.plan.change_id)
        self.finish_closing(run)
        return self._go_on(repo.needed(run.plan.change_id), settings, flags)

    def _move_out(self, prepared: Prepared, origin: Origin) -> None:
        repo, plan = self.repository, prepared.plan
        stories = prepared.source.load().path if prepared.source else ""
        refuse_ignored(repo, (stories, plan.prompt_template, plan.script))
        for said in sweep(repo):
            self.warn(said)
        self.repository = move_out(repo, plan.change_id, origin)
        self.take_over(plan.change_id)
        repo.lock.release()  # not before: a worktree without a loop would be a leftover

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
        loop = self.recovered(run)
        self.refuse_cut_short(loop.run)
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
        return self.drive(self.loop(loop.run, loop.run.origin))

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
            loop = self.loop(run, origin, prepared.warnings)
            loop.record(started)
        except OSError as error:
            raise UserError(
                f"The loop's files ({STATE_FILE}, .git/untildone) cannot be written: {error}",
                state="Nothing was changed.",
                hint="Look at `df .` and `ls -ld .claude .git`, make room, then start again.",
            ) from error
        return self.drive(loop)


def _all_ticked(source: StorySource) -> bool:
    book = source.load()
    return 0 < book.total == book.complete


def _nothing_open(run: Run, top: Path) -> bool:
    source = source_of(run.plan, top)
    return source is None or not source.load().open_stories(run.finished)
