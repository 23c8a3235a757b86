"""A clean checkout without a disk."""


class FakeCleanCheckout:
    """Remembers what was checked out in it."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def make(self, tree: str, parent: str) -> str:
        self.calls.append((tree, parent))
        return "checkout"

    def remove(self) -> None:
        self.calls.append("removed")
