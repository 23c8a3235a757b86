"""What a run has cost so far, kept up to date call by call: sums, never a walk over the history."""

from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from untildone.domain.agents.agent import Usage
from untildone.domain.stories.story import StoryKey


class Account(Struct, frozen=True):
    """What calls have cost, of the run or of one story.

    `uncounted` are calls whose tokens nobody told, `unpriced` those whose cost nobody knows.
    """

    tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    iterations: int = 0
    uncounted: int = 0
    unpriced: int = 0

    def with_call(self, usage: Usage | None, *, iteration: bool, told: bool) -> "Account":
        """One more call; only one that was `told` of by its agent can leave out its tokens."""
        used = usage or Usage()
        silent = told and not used.told
        cost = self.cost_usd
        if used.cost_usd is not None:
            cost = (cost or 0.0) + used.cost_usd
        return replace(
            self,
            tokens=self.tokens + used.total,
            cost_usd=cost,
            iterations=self.iterations + iteration,
            uncounted=self.uncounted + silent,
            unpriced=self.unpriced + (told and used.cost_usd is None),
        )

    def amount(self, what: str) -> float:
        """What counts against a budget of tokens, cost, time (in minutes) or iterations."""
        match what:
            case "tokens":
                return float(self.tokens)
            case "cost":
                return self.cost_usd or 0.0
            case "time":
                return self.seconds / 60
            case _:
                return float(self.iterations)


class Ledger(Struct, frozen=True):
    """The accounts of a run and of its unfinished stories; `since` is when the clock was read last.

    Without `since` nobody works on the run: what passes until then is nobody's time. `lanes` is the
    same for each of several lanes: an hour in two of them is one of the run and one of each story.
    """

    total: Account = Account()
    stories: dict[StoryKey, Account] = field(default_factory=dict)
    since: datetime | None = None
    lanes: dict[int, datetime] = field(default_factory=dict)

    def story(self, key: StoryKey) -> Account:
        return self.stories.get(key, Account())

    def passed(self, at: datetime) -> float:
        """The seconds since the clock was read last."""
        return max(0.0, (at - self.since).total_seconds()) if self.since else 0.0

    def read(self, at: datetime | None) -> "Ledger":
        """The clock is read without counting, or stops."""
        return replace(self, since=at, lanes={})

    def begun(self, at: datetime, lane: int, *, alone: bool) -> "Ledger":
        """A call begins; beside others the time until then was worked on the run."""
        after = self.read(at) if alone else self.worked(at)
        return replace(after, lanes=after.lanes | {lane: at})

    def worked(self, at: datetime) -> "Ledger":
        """The time since then was worked on the run."""
        total = replace(self.total, seconds=self.total.seconds + self.passed(at))
        return replace(self, total=total, since=at)

    def worked_on(self, at: datetime, lane: int, key: StoryKey) -> "Ledger":
        """The time since then was worked on the run, and in this lane on this story."""
        since = self.lanes.get(lane, self.since)
        seconds = max(0.0, (at - since).total_seconds()) if since else 0.0
        story = self.story(key)
        after = self.worked(at).with_story(key, replace(story, seconds=story.seconds + seconds))
        return replace(after, lanes=self.lanes | {lane: at})

    def called(
        self, key: StoryKey, usage: Usage | None, *, iteration: bool, told: bool
    ) -> "Ledger":
        """A call for this story is over."""
        total = self.total.with_call(usage, iteration=iteration, told=told)
        story = self.story(key).with_call(usage, iteration=iteration, told=told)
        return replace(self, total=total).with_story(key, story)

    def with_story(self, key: StoryKey, account: Account) -> "Ledger":
        return replace(self, stories=self.stories | {key: account})

    def without_story(self, key: StoryKey) -> "Ledger":
        """A finished story needs no account of its own."""
        return replace(self, stories={k: v for k, v in self.stories.items() if k != key})
