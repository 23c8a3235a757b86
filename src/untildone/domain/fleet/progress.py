"""How a change of a fleet goes: folded from results and requests, without engine and clock."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from untildone.domain.fleet.order import LandResult, Stories, StoryResult, StoryRow, Verdict


class State(StrEnum):
    """Where a change is."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"  # for its account: calls at once, or the budget
    PAUSED = "paused"
    STUCK = "stuck"
    QUESTION = "question"
    LANDING = "landing"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


# Nothing happens in these until a person says something.
AT_REST = (State.PAUSED, State.STUCK, State.QUESTION)
OVER = (State.DONE, State.CANCELLED, State.FAILED)
MOST_REASON = 500


class Progress(Struct, frozen=True):
    """A change on its way; `cost_usd` is None as long as no call has said what it cost."""

    status: State = State.QUEUED
    rows: tuple[StoryRow, ...] = ()
    finished: tuple[str, ...] = ()
    story_id: str = ""
    host: str = ""
    reason: str = ""
    calls: int = 0
    cost_usd: float | None = None
    tokens: int = 0
    verified: int = 0
    skipped: int = 0
    kept: tuple[str, ...] = ()
    commit: str = ""
    landed: bool = False

    @property
    def next_story(self) -> str:
        """The story that comes next; empty if none is open."""
        return next((r.id for r in self.rows if not r.done and r.id not in self.finished), "")

    def loaded(self, stories: Stories) -> "Progress":
        done = (row.id for row in stories.rows if row.done)
        finished = tuple(dict.fromkeys((*self.finished, *done)))
        return replace(self, rows=stories.rows, finished=finished, host=stories.host)

    def at(self, status: State, story_id: str = "", reason: str = "") -> "Progress":
        return replace(self, status=status, story_id=story_id, reason=reason)

    def begun(self, host: str) -> "Progress":
        """A worker has taken the story."""
        return replace(self, status=State.RUNNING, host=host, reason="")

    def ended(self, result: StoryResult) -> "Progress":
        """A story is over, well or not."""
        good = result.verdict in (Verdict.DONE, Verdict.SKIPPED)
        finished = (*self.finished, result.story_id) if good else self.finished
        known = [cost for cost in (self.cost_usd, result.cost_usd) if cost is not None]
        status = State.QUEUED if good else State(result.verdict.value)
        return replace(
            self,
            status=status,
            rows=result.rows or self.rows,
            finished=tuple(dict.fromkeys(finished)),
            host=result.host,
            reason="" if good else result.reason[:MOST_REASON],
            calls=self.calls + result.calls,
            cost_usd=sum(known) if known else None,
            tokens=self.tokens + result.tokens,
            verified=self.verified + result.verified,
            skipped=self.skipped + (result.verdict is Verdict.SKIPPED),
            kept=(*self.kept, result.kept) if result.kept else self.kept,
            commit=result.commit or self.commit,
        )

    def after_landing(self, result: LandResult) -> "Progress":
        status = State.DONE if result.landed else State.STUCK
        commit = result.commit or self.commit
        return replace(
            self,
            status=status,
            landed=result.landed,
            commit=commit,
            reason=result.reason[:MOST_REASON],
        )

    def view(self) -> dict[str, object]:
        """What `fleet status` shows."""
        return {
            "status": self.status.value,
            "stories": {"total": len(self.rows), "finished": len(self.finished)},
            "story_id": self.story_id,
            "host": self.host,
            "reason": self.reason,
            "calls": self.calls,
            "cost_usd": self.cost_usd,
            "tokens": self.tokens,
            "verified": self.verified,
            "skipped": self.skipped,
            "kept": list(self.kept),
            "commit": self.commit,
            "landed": self.landed,
        }
