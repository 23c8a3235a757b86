"""What a story has cost so far, in calls and attempts."""

from msgspec import Struct
from msgspec.structs import replace

from untildone.domain.agents.same_failure import Tried
from untildone.domain.costs.ledger import Account


class Tally(Struct, frozen=True):
    """Calls made for a story, attempts spent since the last renewal, the reason to pass on.

    `tried` are its last failed attempts, oldest first. `learned` are the learnings as its first
    call was shown them: an attempt without a reason must not change the prompt. `lost` are its
    calls that passing trouble has ended after real work, since the last renewal. `requeues` is how
    often finished work of it could not land.
    """

    calls: int = 0
    spent: int = 0
    reason: str = ""
    tried: tuple[Tried, ...] = ()
    learned: str | None = None
    lost: Account = Account()
    requeues: int = 0

    @property
    def renewed(self) -> "Tally":
        """The same with all retries left."""
        return replace(self, spent=0, lost=Account(), requeues=0)
