"""A checkpoint that only counts: c0 is the start, every commit has the next number."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.fakes.plans import BACKUP
from untildone.domain.run.fact import Opened, Reverted, Saved
from untildone.domain.run.run import Choice, Origin
from untildone.ports import Pending

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeCheckpoint:
    """Remembers every call; `errors` maps a method's name to what it raises, once."""

    def __init__(self, **errors: Exception) -> None:
        self.on_revert: Callable[[], None] = _nothing
        self.calls: list[tuple[object, ...]] = []
        self.messages: list[str] = []
        self.agent_commits: tuple[str, ...] = ()
        self.remarks: tuple[str, ...] = ()
        self.workspace: Opened | None = None
        self.made: str = ""
        self.lost: str = ""
        self.by_hand: str = ""
        self.dirty = True
        self.changed: tuple[str, ...] = ()
        self.known: tuple[str, ...] = ()
        self.written: list[tuple[str, ...]] = []  # that changed until the next `pending`
        self.changed_later: tuple[str, ...] = ()  # once anything was written
        self._trees = 0
        self.between: tuple[str, ...] = ()
        self._errors = errors
        self._count = 0

    def open(self, origin: Origin, stamp: str) -> Opened:
        self._called("open", stamp)
        return Opened(origin, "c0", BACKUP)

    def reopened(self, origin: Origin) -> Opened | None:
        self._called("reopened")
        return self.workspace

    def adopt(self, checkpoint: str) -> tuple[str, tuple[str, ...]]:
        self._called("adopt", checkpoint)
        return checkpoint, self.remarks

    def keep_edits(self, checkpoint: str) -> tuple[str, tuple[str, ...]]:
        self._called("keep_edits", checkpoint)
        if self.by_hand or not self.changed:
            return self.by_hand or checkpoint, self.remarks
        self._count += 1
        return f"c{self._count}", self.remarks

    def ensure_at(self, checkpoint: str, story_id: str) -> None:
        self._called("ensure_at", checkpoint)

    def commits(self, checkpoint: str) -> tuple[str, ...]:
        self._called("commits", checkpoint)
        return self.agent_commits

    def diverged(self, checkpoint: str) -> str:
        self._called("diverged", checkpoint)
        lost, self.lost = self.lost, ""
        return lost

    def pending(self, checkpoint: str) -> Pending:
        self._called("pending", checkpoint)
        if self.written and (paths := self.written.pop(0)):
            self._trees, self.between = self._trees + 1, paths
            self.changed = self.changed_later or self.changed
        return Pending(f"tree{self._trees or ''}", self.changed)

    def had(self, checkpoint: str, paths: Sequence[str]) -> tuple[str, ...]:
        self._called("had", checkpoint, tuple(paths))
        return tuple(path for path in paths if path in self.known)

    def changed_between(self, before: str, after: str) -> tuple[str, ...]:
        self._called("changed_between", before, after)
        return self.between if before != after else ()

    def save(self, lane: int, checkpoint: str, message: str, *, only_changes: bool) -> Saved:
        self._called("save", checkpoint, only_changes)
        self.messages.append(message)
        if only_changes and not self.dirty:
            return Saved(lane, "", checkpoint, self.remarks)
        self._count += 1
        paths = self.changed or (("work.txt",) if self.dirty else ())
        return Saved(lane, f"c{self._count}", f"c{self._count}", self.remarks, paths=paths)

    def saved_as(self, checkpoint: str, story_id: str, attempt: int) -> str:
        self._called("saved_as", checkpoint, story_id, attempt)
        return self.made

    def revert(self, lane: int, checkpoint: str, story_id: str, attempt: int) -> Reverted:
        self._called("revert", checkpoint, story_id, attempt)
        self.on_revert()
        return Reverted(lane, f"refs/ralph/attempts/demo/{story_id}/{attempt}")

    def close(self, choice: Choice, origin: Origin) -> tuple[str, ...]:
        self._called("close", choice, origin)
        return self.remarks

    def _called(self, name: str, *args: object) -> None:
        self.calls.append((name, *args))
        error = self._errors.pop(name, None)
        if error:
            raise error


def _nothing() -> None:
    pass
