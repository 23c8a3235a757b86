"""A run's folder without a disk."""


class FakeFolder:
    """Names files and keeps prompts in memory."""

    def __init__(self) -> None:
        self.prompts: dict[int, str] = {}

    def log_file(self, n: int) -> str:
        return f"logs/{n}"

    def scratch(self, n: int) -> str:
        return f"scratch/{n}"

    def keep_prompt(self, n: int, prompt: str) -> None:
        self.prompts[n] = prompt
