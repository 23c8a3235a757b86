"""Stories of a plain `tasks.md` in the root of the worktree."""

from pathlib import Path

from untildone.adapters.stories import openspec
from untildone.adapters.stories.checklist_file import ChecklistFile
from untildone.adapters.stories.kind import Found, Kind, counted
from untildone.domain.story import Story, StoryBook, StoryContext

NAME = "tasks-md"
FILE = "tasks.md"
_OWN_CHANGE = "tasks"


def recognises(root: Path, change: str) -> bool:
    """The name that the file has when nobody gives it another."""
    return change == _OWN_CHANGE and (root / FILE).exists()


def adopts(root: Path, change: str) -> bool:
    """There is a `tasks.md` in the root, and no OpenSpec change claims the name.

    Where OpenSpec changes live, a name that is none of them is more likely a typing error.
    """
    if not (root / FILE).exists():
        return False
    known = openspec.exists(root, change) and not openspec.recognises(root, change)
    return known or not (root / openspec.CHANGES).is_dir()


def find(root: Path) -> tuple[Found, ...]:
    """The file, if it is there."""
    there = (root / FILE).exists()
    return (counted(_OWN_CHANGE, lambda: TasksMd(root, _OWN_CHANGE)),) if there else ()


class TasksMd:
    """The story source for the `tasks.md` of the worktree root."""

    def __init__(self, root: Path, change: str) -> None:
        self._file = ChecklistFile(root, FILE, change, NAME)

    @property
    def name(self) -> str:
        """The name that `--source` takes."""
        return NAME

    def load(self) -> StoryBook:
        """Read the stories as they are now."""
        return self._file.load()

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        """Tick the story's boxes; take back boxes of other stories that were open in `before`."""
        return self._file.settle(story, before)

    def take_back(self, before: StoryBook) -> None:
        """Untick what was open in `before`."""
        self._file.take_back(before)

    def context(self, story: Story) -> StoryContext:
        """A plain list has no documents beside it."""
        return StoryContext()


SOURCE = Kind(
    name=NAME,
    title="The file tasks.md",
    make=lambda root, change, options: TasksMd(root, change),
    find=find,
    recognises=recognises,
    adopts=adopts,
    guessed=True,
)
