"""Budgets: their names, amounts as people write and read them, and one that is used up."""

import math
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

from msgspec import Struct

from untildone.domain.regex import regex
from untildone.domain.stories.story import StoryKey

OF_A_STORY = "story-"
EXAMPLES = {
    "tokens": "2M",
    "cost": "10",
    "time": "8h",
    "iterations": "20",
    "story-tokens": "200k",
    "story-cost": "1.50",
    "story-time": "45m",
    "story-iterations": "3",
}
_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_TOKENS = regex(rf"{_NUMBER}\s*(k|m|)")
_COST = regex(rf"\$?\s*{_NUMBER}\s*(?:usd|\$)?")
_TIME = regex(
    rf"(?:{_NUMBER}\s*w(?:eeks?)?)?\s*(?:{_NUMBER}\s*d(?:ays?)?)?\s*(?:{_NUMBER}\s*h(?:ours?|rs?)?)?"
    rf"\s*(?:{_NUMBER}\s*(?:m(?:in(?:ute)?s?)?|(?=$)))?\s*(?:{_NUMBER}\s*s(?:ec(?:ond)?s?)?)?"
)
_MINUTES = (7 * 24 * 60, 24 * 60, 60, 1, 1 / 60)
_SCALES = {"": 1, "k": 1_000, "m": 1_000_000}


class Budget(Struct, frozen=True):
    """How much a run, or each of its stories, may use: tokens, USD, minutes or iterations.

    A limit of 0 takes an earlier budget of the same name away.
    """

    name: str
    limit: float

    @property
    def written(self) -> str:
        """As it is typed."""
        return f"{self.name}={_typed(self.name, self.limit)}"


class Reserved(Struct, frozen=True):
    """What a call may cost before it is over: kept free of the budgets while it runs."""

    tokens: int = 0
    cost_usd: float = 0.0


class Reached(Struct, frozen=True):
    """A budget that is used up; `story_id` and `story_key` say whose, if it is a story's.

    `unknown`: it may or may not be used up, for nobody knows what a call has cost.
    """

    name: str
    spent: float
    limit: float
    story_id: str = ""
    story_key: StoryKey | None = None
    unknown: bool = False

    @property
    def said(self) -> str:
        """What happened, in a sentence."""
        whose = f"of story {self.story_id} " if self.story_id else ""
        unit = {"tokens": " tokens", "iterations": " iterations"}.get(kind(self.name), "")
        spent, limit = said(self.name, self.spent), said(self.name, self.limit)
        if self.unknown:
            return (
                f"The budget of {limit} {whose}cannot be kept: neither the agent nor the price "
                "table tells what a call has cost"
            )
        return f"The budget {whose}is used up: {spent} of {limit}{unit}"

    @property
    def enough(self) -> str:
        """A budget to go on with: as much again, or none where money cannot be counted."""
        if self.unknown:
            return Budget(self.name, 0.0).written
        return Budget(self.name, _rounded_up(self.spent + self.limit)).written


def kind(name: str) -> str:
    """What is counted: tokens, cost, time or iterations."""
    return name.removeprefix(OF_A_STORY)


def parsed(text: str) -> tuple[Budget, ...]:
    """`NAME=AMOUNT`, or several with commas; ValueError says what is wrong and how to write it."""
    return tuple(_one(part.strip()) for part in text.split(","))


def known(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The same texts, if all are budgets."""
    read(texts)
    return texts


def read(texts: Iterable[str]) -> tuple[Budget, ...]:
    return tuple(budget for text in texts for budget in parsed(text))


@cache
def own(texts: tuple[str, ...]) -> tuple[Budget, ...]:
    """Budgets of a story's own text; what is none says nothing, as `lint` tells."""
    found: list[Budget] = []
    for text in texts:
        with suppress(ValueError):
            found += parsed(text)
    return tuple(budget for budget in found if budget.limit)


def merged(old: Iterable[Budget], new: Iterable[Budget]) -> tuple[Budget, ...]:
    """The later one of each name, without those that were taken away, in the usual order."""
    last = {budget.name: budget for budget in (*old, *new)}
    return tuple(last[name] for name in EXAMPLES if name in last and last[name].limit)


def said(name: str, amount: float) -> str:
    """An amount, short, for people."""
    match kind(name):
        case "tokens":
            return _short(amount)
        case "cost":
            return f"${amount:.2f}" if amount >= 0.01 or not amount else f"${amount:.4f}"
        case "time":
            return _duration(amount)
        case _:
            return f"{amount:.0f}"


def minutes(text: str) -> float | None:
    """A duration as people write it: `90s`, `30m`, `1h30m`, `2 days`; a mere number is minutes."""
    found = _TIME.fullmatch(text.strip().lower())
    parts = found.groups() if found else ()
    known = [float(n) * m for n, m in zip(parts, _MINUTES, strict=False) if n]
    return sum(known) if known else None


# ---------------------------------------------------------------------------------------------


def _one(text: str) -> Budget:
    name, sign, amount = (part.strip().lower() for part in text.partition("="))
    name = name.replace("_", "-").replace("calls", "iterations")
    if name not in EXAMPLES:
        raise ValueError(_unknown(name, amount))
    if amount in ("off", "none"):
        return Budget(name, 0.0)
    limit = _amount(kind(name), amount.replace("_", ""))
    if not sign or limit is None or not 0 < limit < math.inf:
        raise ValueError(
            f"`{text}` is no budget of {kind(name)}: write for example `{name}={EXAMPLES[name]}`"
        )
    return Budget(name, limit)


def _unknown(name: str, amount: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - costs start-up time

    near = get_close_matches(name, list(EXAMPLES), n=1, cutoff=0.5)
    names = ", ".join(EXAMPLES)
    meant = near[0] if near else "tokens"
    fits = near and _amount(kind(meant), amount.replace("_", ""))
    written = amount if fits else EXAMPLES[meant]
    asked = "did you mean" if near else "write for example"
    return f"`{name}` is no budget ({names}); {asked} `{meant}={written}`?"


def _amount(what: str, text: str) -> float | None:
    match what:
        case "tokens":
            found = _TOKENS.fullmatch(text)
            return float(round(float(found[1]) * _SCALES[found[2]])) if found else None
        case "cost":
            found = _COST.fullmatch(text)
            return float(found[1]) if found else None
        case "time":
            return minutes(text)
        case _:
            return float(text) if text.isdecimal() else None


def _typed(name: str, amount: float) -> str:
    if not amount:
        return "off"
    match kind(name):
        case "tokens":
            for unit, scale in (("M", 1_000_000), ("k", 1_000)):
                if amount >= scale and amount % (scale // 100) == 0:
                    return _trimmed(amount / scale, 2) + unit
            return f"{amount:.0f}"
        case "time":
            hours = amount >= 60 and amount % 30 == 0
            return f"{_trimmed(amount / 60, 1)}h" if hours else f"{_trimmed(amount, 6)}m"
        case _:
            return _trimmed(amount, 6)


def _rounded_up(amount: float) -> float:
    step = 10.0 ** (math.floor(math.log10(amount)) - 1)
    return float(f"{math.ceil(amount / step - 1e-9) * step:.6g}")


def _short(count: float) -> str:
    for unit, scale, digits in (("M", 1_000_000, 2), ("k", 1_000, 1)):
        if count >= 10 * scale or (count >= scale and (scale > 1_000 or count % 100 == 0)):
            return _trimmed(count / scale, digits) + unit
    return f"{count:.0f}"


def _trimmed(number: float, digits: int) -> str:
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")


def _duration(minutes: float) -> str:
    seconds = round(minutes * 60)
    hours, rest = divmod(seconds, 3600)
    if hours:
        return f"{hours}h {rest // 60:02d}m" if rest // 60 else f"{hours}h"
    return f"{rest // 60}m {rest % 60:02d}s" if rest >= 60 else f"{rest}s"
