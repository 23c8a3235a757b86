"""One process driving one run: it holds the worktree, mends what a dead loop left, and steps."""

import contextlib
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from untildone.adapters.checks.clean_checkout import NOTE, remove_noted
from untildone.adapters.git.repository import move_stale_locks
from untildone.adapters.process.watchdog import Watchdog
from untildone.adapters.terminal import Person
from untildone.app import views
from untildone.app.bus import Bus, Observer
from untildone.app.orchestrator import drive
from untildone.app.recovery import missing_facts
from untildone.app.run_driver import RunDriver
from untildone.commands.start_checks import cut_short_closing
from untildone.domain.errors import Interrupted, UserError
from untildone.domain.reporting.event import Event
from untildone.domain.run.run import Choice, Origin, Plan, Run, Status
from untildone.wiring.build import build_ports
from untildone.wiring.repository import Repository, this_process
from untildone.wiring.worktrees import put_away

EXIT_CODES = {Status.DONE: 0, Status.STUCK: 3, Status.STALLED: 4, Status.STOPPED: 6}


class Ended(Struct, frozen=True):
    """How a command that drove a loop ended; `run` is None when there was nothing to do."""

    exit_code: int
    run: Run | None = None
    message: str = ""


class Driver(Struct):
    """One process driving one run."""

    repository: Repository
    windows: list[Observer] = field(default_factory=list)
    at_terminal: bool = False
    warn: Callable[[str], None] = lambda text: None
    caught_up: str = ""
    _bus: Bus = field(default_factory=Bus)
    _watchdog: Watchdog | None = None

    @contextlib.contextmanager
    def honest(self) -> Iterator[None]:
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
            self.repository.inbox.listen(change)
        except OSError as error:
            raise UserError(
                f"The git folder cannot be written: {error}",
                state="Nothing was changed.",
                hint="Look at `df .` and `ls -ld .git`, then try again.",
            ) from error

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
            self.put_away(run)
            raise UserError(
                f"The start of this run was cut short before anything was changed: "
                f"{run.plan.run_id}",
                state="Your files are as they were before it.",
                hint=f"untildone run {run.plan.change_id}",
            )

    def recovered(self, run: Run) -> RunDriver:
        """The loop of this run with what a dead process could not write down."""
        self.end_leftovers(run)
        origin = run.origin or self._recorded_origin(run)
        loop = self.loop(run, origin)
        for fact in missing_facts(run, origin, loop.ports.checkpoint):
            loop.record(fact)
        return loop

    def end_leftovers(self, run: Run | None) -> None:
        """End what an earlier loop left running and move its stale locks aside."""
        if not run:
            return
        repo, over = self.repository, run.closed and run.choice is Choice.CLEANUP
        ended = () if over else repo.end_leftovers(run.plan.run_id)
        if ended:
            names = ", ".join(sorted(set(ended)))
            self.warn(
                f"Ended {len(ended)} processes that an earlier loop had left running: {names}"
            )
        folder = repo.folder(run.plan.run_id).path
        if not over:
            remove_noted(folder / NOTE)
        # After a choice that was refused, or keep, a dead git may have left its locks, too.
        for lock in move_stale_locks(repo.place, folder / "aside", index=not over):
            self.warn(f"Moved a lock aside that a killed git command had left: {lock}")

    def guard(self, plan: Plan) -> None:
        """From here on agents may be called; to be said before `loop`, whose windows have threads.

        A sandbox needs no watchdog: it ends with this process.
        """
        if not plan.contained:
            self._watchdog = self.repository.start_watchdog()

    def loop(self, run: Run, origin: Origin, remarks: tuple[str, ...] = ()) -> RunDriver:
        """The loop over this run, with its ports and windows."""
        for window in self.windows:
            self._bus.subscribe(window, getattr(window, "heartbeat", None))
        self.windows = []
        answer = self._answer(run.plan)
        person = Person(self.repository.inbox, answer, at_terminal=self.at_terminal)
        ports = build_ports(self.repository, run, origin, self._bus, person)
        return RunDriver(ports, run, origin, remarks)

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
            if self._watchdog:
                self._watchdog.stop()
                self._watchdog = None
        self.put_away(run)
        if run.stop and run.stop.signal:
            return Ended(128 + run.stop.signal, run)
        return Ended(5 if run.refused else EXIT_CODES.get(run.status, 1), run)

    def put_away(self, run: Run) -> None:
        """Remove the worktree that was made for a run which is over."""
        said = put_away(self.repository, run) if run.plan.checkpoint == "worktree" else ""
        if said:
            self.warn(said)

    def _recorded_origin(self, run: Run) -> Origin:
        branch, commit, _ = self.repository.folder(run.plan.run_id).origin().split("\n", 2)
        return Origin(branch, commit)

    def _answer(self, plan: Plan) -> str:
        return plan.on_complete or ("ask" if self.at_terminal else "keep")

    def _cut_short(self, loop: RunDriver) -> Run:
        # A git command was ended by a signal: recorded like a crash, repaired at the next start.
        loop.hear()
        now = self.repository.clock.now()
        shown = views.left_behind(loop.run, now)
        state = self.repository.state_file(shown.plan.run_id)
        state.adopt_foreign(views.KNOWN_FIELDS)
        state.write(views.state(shown, *this_process()), shown.iterations)
        if not loop.run.ended:  # between two calls the request itself was the end
            loop.tell(Event("finished", {"choice": None, "status": shown.status, "notes": []}))
        return shown
