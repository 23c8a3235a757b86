"""The run's memory: journal first, then the state file, then every window."""

from datetime import datetime

from msgspec import Struct

from untildone.app.bus import Bus
from untildone.domain.reporting import views
from untildone.domain.reporting.event import Event, warning
from untildone.domain.run.fact import AttemptEnded, Fact, StoriesLoaded, UsageMeasured
from untildone.domain.run.run import Run
from untildone.ports import JournalStore, StateStore


class RunRecord(Struct, frozen=True):
    """Writes down what happened, in the order that a crash at any point can be repaired from."""

    journal: JournalStore
    state: StateStore
    bus: Bus
    process: tuple[int, float | None]

    def fact(self, fact: Fact, published: tuple[Event, ...], run: Run, at: datetime) -> None:
        objects = self.journal.record(fact, published, at)
        remarks = () if _is_passing(fact, run) else self._show(run, at)
        for event in objects:
            self.bus.publish(event)
        for text in remarks:
            self.notice(warning(text), at)

    def show(self, run: Run, at: datetime) -> None:
        """Bring the state file up to date."""
        for text in self._show(run, at):
            self.notice(warning(text), at)

    def _show(self, run: Run, at: datetime) -> tuple[str, ...]:
        shown = views.left_behind(run, at) if run.ended else run
        return self.state.write(views.state(shown, *self.process), shown.iterations)

    def notice(self, event: Event, at: datetime) -> None:
        """An event that changes nothing."""
        self.bus.publish(self.journal.note(event, at))


def _is_passing(fact: Fact, run: Run) -> bool:
    # Milliseconds later the next fact follows; the journal has this one already.
    may_pass = isinstance(fact, StoriesLoaded | AttemptEnded | UsageMeasured)
    return may_pass and views.phase(run) in ("choosing_story", "measuring", "settling")
