"""A run's folder without a disk."""

from collections.abc import Mapping

from untildone.domain.stories.story import OpenTasks


class FakeFolder:
    """Names files and keeps prompts in memory."""

    def __init__(self) -> None:
        self.open: OpenTasks = []
        self.prompts: dict[int, str] = {}
        self.plans: dict[int, dict[str, bytes]] = {}

    def keep_open(self, tasks: OpenTasks) -> None:
        self.open = tasks

    def kept_open(self) -> OpenTasks:
        return self.open

    def keep_plan(self, n: int, texts: Mapping[str, bytes]) -> None:
        self.plans[n] = dict(texts)

    def kept_plan(self, n: int) -> dict[str, bytes]:
        return self.plans.get(n, {})

    def log_file(self, n: int) -> str:
        return f"logs/{n}"

    def scratch(self, lane: int) -> str:
        return f"scratch/{lane}"

    def keep_prompt(self, n: int, prompt: str) -> None:
        self.prompts[n] = prompt
