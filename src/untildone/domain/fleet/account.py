"""Who may call an agent now: so many stories of an account at once, and so many dollars in all."""

from msgspec import Struct, field
from msgspec.structs import replace


class Account(Struct, frozen=True):
    """What the calls of one account count against; 0 is no limit.

    `holders` are the changes that may call now, each with what is reserved for it; `waiting` come
    next, in this order. What a change that is gone has held is given back by whoever looks.
    """

    name: str
    limit: int = 0
    budget_usd: float = 0.0
    spent_usd: float = 0.0
    holders: dict[str, float] = field(default_factory=dict)
    waiting: tuple[tuple[str, float], ...] = ()

    def asked(self, change: str, reserve: float) -> "Account":
        known = change in self.holders or any(change == other for other, _ in self.waiting)
        return self if known else replace(self, waiting=(*self.waiting, (change, reserve)))

    def released(self, change: str, cost: float = 0.0) -> "Account":
        """A change is through with its story, or gone."""
        return replace(
            self,
            spent_usd=self.spent_usd + cost,
            holders={name: held for name, held in self.holders.items() if name != change},
            waiting=tuple(row for row in self.waiting if row[0] != change),
        )

    def limited(self, limit: int, budget_usd: float) -> "Account":
        return replace(self, limit=limit, budget_usd=budget_usd)

    def granted(self) -> "tuple[Account, str]":
        """The account with the next change among its holders, and which that is; or nobody."""
        if not self.waiting:
            return self, ""
        (change, reserve), *rest = self.waiting
        if self.limit and len(self.holders) >= self.limit:
            return self, ""
        reserved = sum(self.holders.values())
        over = self.spent_usd + reserved + reserve > self.budget_usd
        if self.budget_usd and (over or self.spent_usd >= self.budget_usd):
            return self, ""
        return replace(self, holders=self.holders | {change: reserve}, waiting=tuple(rest)), change
