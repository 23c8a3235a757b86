"""Lanes without slots: each has fakes of its own, and a branch that only counts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Barrier

from tests.fakes.agent import COMPLETE, FakeAgent, Reply
from tests.fakes.checkpoint import FakeCheckpoint
from tests.fakes.clean_checkout import FakeCleanCheckout
from tests.fakes.meter import FakeMeter
from tests.fakes.plan_files import FakePlanFiles
from tests.fakes.protected_files import FakeProtectedFiles
from tests.fakes.source import PATH, FakeSource
from tests.fakes.verifier import FakeVerifier
from untildone.domain.agents.agent import AgentReport, Intent
from untildone.domain.run.landing import Conflict, Merged, Standing
from untildone.domain.run.plan import Limits
from untildone.ports import LanePorts, Notify, Regenerate


class StoryAgent(FakeAgent):
    """Answers by the id of the story; COMPLETE where nothing is listed.

    The first calls, as many as it is told, begin before one of them ends.
    """

    def __init__(self, answers: Mapping[str, list[Reply]], together: int) -> None:
        super().__init__()
        self._answers = answers
        self._first = Barrier(together)
        self._left = together

    def run(self, intent: Intent, limits: Limits, log_file: str, notify: Notify) -> AgentReport:
        self.intents.append(intent)
        if len(self.intents) <= self._left:
            self._first.wait(10)
        listed = self._answers.get(intent.story_id)
        reply = listed.pop(0) if listed else COMPLETE
        assert not isinstance(reply, Exception)
        return reply if isinstance(reply, AgentReport) else reply(notify)


@dataclass
class FakeBranch:
    """The run branch: k1, k2 and so on are its commits; `source` has the task list of its tip."""

    source: FakeSource
    now: str = "c0"
    conflicts: list[Conflict | None] = field(default_factory=list)
    moves: list[str] = field(default_factory=list)
    lost: bool = False
    stored: dict[tuple[str, int], str] = field(default_factory=dict)
    landed: list[str] = field(default_factory=list)
    error: Exception | None = None
    history: list[str] = field(default_factory=lambda: ["c0"])
    _texts: dict[str, str] = field(default_factory=dict)

    def tip(self) -> str:
        return self.now

    def tree_of(self, commit: str) -> str:
        return f"tree of {commit}"

    def builds_on(self, commit: str) -> bool:
        return not self.lost and commit in (self.now, *self.history)

    def store_moved(self) -> str:
        return "refs/ralph/moved/demo/1"

    def store_work(self, story_id: str, attempt: int, base: str, work: str) -> str:
        self.stored[story_id, attempt] = work
        return work

    def stored_work(self, story_id: str, attempt: int) -> str:
        return self.stored.get((story_id, attempt), "")

    def diff(self, ref: str) -> str:
        return f"+the patch of {ref}"

    def merge(
        self, tip: str, base: str, story: str, beside: Iterable[str] = ()
    ) -> Merged | Conflict:
        assert list(beside) == [PATH]
        return (self.conflicts.pop(0) if self.conflicts else None) or Merged(f"{tip}+{story}")

    def regenerated(
        self,
        conflict: Conflict,
        sides: tuple[str, str, str],
        commands: Mapping[str, str],
        run: Regenerate,
        beside: Iterable[str] = (),
    ) -> Merged | Conflict:
        assert list(beside) == [PATH]
        if any(path not in commands for path in conflict.files):
            return conflict
        why = "".join(run(commands[path], "/room") for path in conflict.files)
        if why:
            return Conflict(conflict.files, conflict.met, why)
        return Merged(f"{sides[0]}+{sides[2]}", conflict.files)

    def read(self, tree: str, paths: Iterable[str]) -> dict[str, bytes]:
        return {PATH: (self.source.text or "").encode()}

    def candidate(
        self, tip: str, tree: str, message: str, files: Mapping[str, bytes | None] | None = None
    ) -> str:
        name = f"k{len(self._texts) + 1}"
        text = (files or {}).get(PATH)
        self._texts[name] = text.decode() if text else self.source.text or ""
        return name

    def land(self, tip: str, candidate: str, why: str) -> bool:
        if self.error:
            raise self.error
        if self.moves:
            self.now = self.moves.pop(0)
            return False
        self.now = candidate
        self.history.append(candidate)
        self.source.text = self._texts[candidate]
        self.landed.append(why)
        return True

    def stands(self, tip: str, candidate: str) -> Standing:
        self._texts.setdefault(candidate, self.source.text or "")
        if self.now == candidate:
            return Standing.LANDED
        return Standing.BEFORE if self.now == tip else Standing.ELSEWHERE

    def forget_work(self, story_id: str, attempt: int) -> None:
        self.stored.pop((story_id, attempt), None)


@dataclass
class FakeLanes:
    """Slots that stand where they were made ready last; `errors` are raised, each once."""

    branch: FakeBranch
    count: int = 2
    answers: dict[str, list[Reply]] = field(default_factory=dict)
    checks_at_once: int = 1
    room: bool = True
    lost: bool = False
    verifier: FakeVerifier = field(default_factory=FakeVerifier)
    errors: list[Exception] = field(default_factory=list)
    interrupted: set[int] = field(default_factory=set)
    bases: dict[int, str] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)
    released: bool = False
    together: int = 2

    def __post_init__(self) -> None:
        self.agent = StoryAgent(self.answers, self.together)
        self.checkpoints = [FakeCheckpoint() for _ in range(self.count)]
        self.sources = [FakeSource(self.branch.source.text) for _ in range(self.count)]
        self.rooms = FakeCleanCheckout()

    def prepare(self, lane: int, base: str) -> LanePorts:
        return self.ready(lane, base, may_be_cut=True)

    def ready(self, lane: int, base: str, *, may_be_cut: bool = False) -> LanePorts:
        if self.errors:
            raise self.errors.pop(0)
        self.bases[lane] = base
        self.removed.discard(lane)
        return self._ports(lane)

    def as_left(self, lane: int, base: str) -> LanePorts | None:
        away = self.lost or lane in self.removed
        return None if away or self.bases.get(lane) != base else self._ports(lane)

    def is_there(self, lane: int) -> bool:
        return lane not in self.removed

    def is_interrupted(self, lane: int) -> bool:
        return lane in self.interrupted

    def has_room(self) -> bool:
        return self.room

    def interrupt(self, lane: int, *, wanted: bool) -> None:
        self.interrupted |= {lane} if wanted else set()
        self.interrupted -= set() if wanted else {lane}

    def release(self) -> None:
        self.released = True

    def _ports(self, lane: int) -> LanePorts:
        source = self.sources[lane]
        return LanePorts(
            agent=self.agent,
            source=source,
            plan_files=FakePlanFiles(source),
            checkpoint=self.checkpoints[lane],
            verifier=self.verifier,
            protected_files=FakeProtectedFiles(),
            clean_checkout=self.rooms,
            meter=FakeMeter(),
            branch=self.branch,
            cwd=f"/slots/{lane}",
        )
