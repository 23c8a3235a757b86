"""A person who answers from a list and whose waiting moves the clock."""

from collections.abc import Callable

from tests.fakes.clock import FakeClock
from untildone.domain.run.fact import BudgetSet, StopRequested, UserRequest
from untildone.domain.run.run import Choice
from untildone.domain.stories.story import StoryKey


class FakeHuman:
    """Gives its answers in order; `on_wait` is what happens while it is waited for."""

    def __init__(
        self,
        clock: FakeClock,
        *answers: Choice | None,
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._answers = list(answers)
        self._on_wait = on_wait
        self.waits: list[float] = []
        self.budgets: list[BudgetSet | StopRequested | None] = []
        self.asked_for: list[str] = []
        self.decisions: list[UserRequest | None] = []
        self.at_terminal = False

    def choose(self) -> Choice | None:
        answer = self._answers.pop(0)
        if answer is None:
            self._on_wait()
        return answer

    def present(self) -> bool:
        return self.at_terminal

    def new_budget(self, name: str) -> BudgetSet | StopRequested | None:
        self.asked_for.append(name)
        self._on_wait()
        return self.budgets.pop(0)

    def decide(self, key: StoryKey) -> UserRequest | None:
        self.asked_for.append(key[0])
        self._on_wait()
        return self.decisions.pop(0)

    def wait_for_word(self) -> None:
        self._on_wait()

    def wait_until(self, seconds: float) -> None:
        self.waits.append(seconds)
        self._clock.advance(seconds)
        self._on_wait()
