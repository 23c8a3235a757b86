"""A clean checkout without a disk."""

from collections.abc import Sequence


class FakeCleanCheckout:
    """Remembers what was checked out in it."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def make(self, tree: str, parent: str, as_in_parent: Sequence[str] = ()) -> str:
        self.calls.append((tree, parent, *as_in_parent))
        return "checkout"

    def put_back(self) -> None:
        self.calls.append("put back")

    def remove(self) -> None:
        self.calls.append("removed")
