"""Stories of a plain `tasks.md` in the root of the worktree."""

from pathlib import Path

from untildone.adapters.stories import openspec
from untildone.adapters.stories.checklists.checklist_source import ChecklistFile, ChecklistSource
from untildone.adapters.stories.source_kind import NO_OPTIONS, Found, Kind, Options, counted

NAME = "tasks-md"
FILE = "tasks.md"
_OWN_CHANGE = "tasks"


def recognises(root: Path, change: str) -> bool:
    """The name that the file has when nobody gives it another."""
    return change == _OWN_CHANGE and (root / FILE).exists()


def adopts(root: Path, change: str) -> bool:
    """There is a `tasks.md` in the root, and no OpenSpec change has the name.

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


class TasksMd(ChecklistSource):
    """The story source for the `tasks.md` of the worktree root."""

    def __init__(self, root: Path, change: str, options: Options = NO_OPTIONS) -> None:
        granularity = options.granularity
        super().__init__(ChecklistFile(root, FILE, change, NAME, granularity=granularity))


SOURCE = Kind(
    name=NAME,
    title="The file tasks.md",
    make=TasksMd,
    find=find,
    recognises=recognises,
    adopts=adopts,
    guessed=True,
)
