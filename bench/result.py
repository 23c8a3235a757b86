"""What one measurement says: a value, its floor, the bar, and whether the bar is held."""

from dataclasses import dataclass
from enum import Enum

from bench.measure import Spent


class Rule(Enum):
    """How a value is compared with its bar."""

    RATIO = "ratio"
    GROWTH = "growth"
    BELOW = "below"
    SHOWN = "shown"


@dataclass(frozen=True)
class Wall:
    """Wall seconds of the measured thing and of its floor, in the unit of the result."""

    measured: float
    floor: float | None


@dataclass(frozen=True)
class Result:
    """One row of the table."""

    name: str
    measured: float
    floor: float | None
    unit: str
    rule: Rule = Rule.SHOWN
    bar: float | None = None
    wall: Wall | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Measured over floor, if there is a floor that can divide."""
        return self.measured / self.floor if self.floor else None

    @property
    def passed(self) -> bool | None:
        """Whether the bar is held; None for a row that is only shown."""
        if self.rule is Rule.SHOWN or self.bar is None:
            return None
        if self.rule is Rule.BELOW:
            return 0 < self.measured < self.bar
        if self.rule is Rule.GROWTH:
            return self.floor is not None and self.measured - self.floor <= self.bar
        # Zero or less is a difference lost in the noise, not a measurement: never a pass.
        return self.ratio is not None and 0 < self.ratio <= self.bar

    @property
    def bar_text(self) -> str:
        """The bar in words for the table."""
        if self.rule is Rule.SHOWN or self.bar is None:
            return "-"
        if self.rule is Rule.BELOW:
            return f"< {self.bar:g} {self.unit}"
        if self.rule is Rule.GROWTH:
            return f"<= floor + {self.bar:g} {self.unit}"
        return f"<= {self.bar:g}x"


def cpu(name: str, measured: Spent, floor: Spent, bar: float | None, note: str) -> Result:
    """A row about CPU of the tree in milliseconds, with the wall time beside it."""
    rule = Rule.SHOWN if bar is None else Rule.RATIO
    wall = Wall(measured.wall * 1000, floor.wall * 1000)
    return Result(name, measured.tree * 1000, floor.tree * 1000, "ms", rule, bar, wall, note)


@dataclass(frozen=True)
class Failure:
    """A benchmark that could not be measured; counts as a missed bar."""

    name: str
    reason: str
