"""What the agent will do in each call of each story, drawn by a seed, and what that costs at least.

A story has a list of bad calls and is done honestly after them, whoever calls. So the least number
of calls is the same for every loop: one for each bad call and one honest call for each story.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.outcomes.functions import FUNCTIONS, Function

HONEST = "honest"
FLOOD = "flood"
LINGER = "linger"
ASK = "ask"
NOTHING = "nothing"
NEXT_CHECK = "next-check"
LIMIT = "rate-limit"
BAD = (
    "lie",
    "break-earlier",
    NOTHING,
    "exit-1",
    "crash",
    "hang",
    "wrong-branch",
    "delete-test",
    "skip-test",
    "test-settings",
    NEXT_CHECK,
    "echo",
    LIMIT,
)
MOST_BAD = 2


@dataclass(frozen=True)
class Story:
    """One story: a function to write, the calls that go wrong first, and how the good one goes."""

    key: str
    function: Function
    bad: tuple[str, ...] = ()
    good: str = HONEST

    @property
    def title(self) -> str:
        """The title, the same in every format; the key in it is how the agent knows the story."""
        return f"{self.key} write {self.function.full_name}"

    @property
    def check(self) -> str:
        """The command that proves this story."""
        return f"python3 -m tests {self.function.full_name}"

    @property
    def question(self) -> str:
        """What the agent asks when it is in the mood to."""
        return f"May I call it {self.function.name}, or do you want another name for {self.key}?"

    @property
    def answer(self) -> str:
        """The person's answer; only a prompt that holds it ends the asking."""
        return f"Answer to {self.key}: yes, call it {self.function.name}."

    @property
    def asks(self) -> bool:
        """Whether this story cannot be done without an answer."""
        return ASK in self.bad

    @property
    def least_calls(self) -> int:
        """Every bad call happens, whoever calls; then one good one."""
        return len(self.bad) + 1


def draw(seed: int, count: int = len(FUNCTIONS)) -> tuple[Story, ...]:
    """The stories of a seed: every bad behaviour, two or three of them in one story at most.

    The questions come last: a loop that cannot answer one, and cannot go round it, has had its
    chance with all the others by then.
    """
    chance = random.Random(seed)
    rounds = max(1, count * 3 // len(FUNCTIONS))
    asking = max(1, count // 20)
    deck = [*BAD] * rounds
    chance.shuffle(deck)
    odd = chance.sample(range(count), 2 * rounds)
    good = dict.fromkeys(odd[:rounds], FLOOD) | dict.fromkeys(odd[rounds:], LINGER)
    hands: list[list[str]] = [[] for _ in range(count)]
    places = range(1, count - asking)  # the first story is spared: nothing is there to be broken
    wanted = min(len(places), max(len(deck) * 2 // 3, -(-len(deck) // MOST_BAD)))
    chosen = chance.sample(places, wanted)
    for number, card in enumerate(deck):
        hands[chosen[number % wanted]].append(card)
    for hand, following in pairwise(hands[: count - asking]):
        if NEXT_CHECK in hand and NOTHING not in following:
            following.insert(0, NOTHING)  # the one that a check made harmless would let pass
    for hand in hands[count - asking :]:
        hand.append(ASK)
    return tuple(
        Story(f"S{n:02d}", FUNCTIONS[n - 1], tuple(hand), good.get(n - 1, HONEST))
        for n, hand in enumerate(hands, 1)
    )


def least_calls(stories: Sequence[Story]) -> int:
    """The fewest calls with which these stories can be done."""
    return sum(story.least_calls for story in stories)


def script(stories: Sequence[Story]) -> list[Mapping[str, object]]:
    """The plan as the agent reads it."""
    return [
        {
            "key": story.key,
            "title": story.title,
            "module": story.function.module,
            "name": story.function.name,
            "source": story.function.source,
            "bad": list(story.bad),
            "good": story.good,
            "question": story.question,
            "answer": story.answer,
        }
        for story in stories
    ]
