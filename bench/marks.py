"""CPU and wall at the start of every iteration: what one story costs, without start and end."""

import json
import time
from itertools import pairwise

from bench.measure import BenchError, Spent, tree_so_far


class Marks:
    """CPU and wall of the loop at the start of every iteration, from its own events."""

    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted
        self.taken: dict[int, tuple[float, float]] = {}

    def hear(self, pid: int, event: bytes) -> None:
        """Take the time at the start of a wanted iteration."""
        if b"iteration_started" not in event:
            return
        told = json.loads(event)
        if told.get("event") == "iteration_started" and told["n"] in self.wanted:
            self.taken[told["n"]] = (tree_so_far(pid), time.perf_counter())

    def windows(self, edges: list[int]) -> list[Spent]:
        """CPU and wall per iteration between each two edges."""
        missing = [edge for edge in edges if edge not in self.taken]
        if missing:
            raise BenchError(f"iterations without an `iteration_started` event: {missing}")
        return [self._between(a, b) for a, b in pairwise(edges)]

    def _between(self, first: int, last: int) -> Spent:
        (cpu, wall), (cpu_after, wall_after) = self.taken[first], self.taken[last]
        count = last - first
        return Spent((cpu_after - cpu) / count, 0.0, (wall_after - wall) / count, 0.0)
