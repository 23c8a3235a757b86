"""Values compare, hash and show like those of the standard library."""

import dataclasses

from untildone.domain.value import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True, slots=True)
class Named:
    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(slots=True)
class Counter:
    count: int = 0


def test_values() -> None:
    assert Point(1) == Point(1, 0)
    assert Point(1) != Point(2)
    other: object = Named("1")
    assert Point(1) != other
    assert len({Point(1), Point(1, 0), Point(0, 1)}) == 2
    assert repr(Point(1)) == "Point(x=1, y=0)"
    assert dataclasses.replace(Point(1), y=2) == Point(1, 2)
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 0}


def test_a_class_keeps_what_it_says_itself() -> None:
    assert repr(Named("n")) == "n"
    assert Named("n") == Named("n")


def test_what_is_not_frozen_is_of_the_standard_kind() -> None:
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
