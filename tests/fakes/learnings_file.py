"""Learnings without a disk."""

from untildone.domain.agents.learnings import Notes


class FakeLearningsFile:
    """Holds a text; tests change it as an agent would."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.kept: list[str] = []

    def open(self) -> Notes:
        return Notes("/somewhere/notes.md", self.text)

    def keep(self) -> None:
        self.kept.append(self.text)
