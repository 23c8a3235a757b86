"""A story source that is nothing but a Markdown checklist."""

from untildone.adapters.stories.checklists.checklist_file import ChecklistFile
from untildone.domain.stories.story import Story, StoryBook, StoryContext


class ChecklistSource:
    """Reads, ticks and unticks; what there is to read beside it is for the format to say."""

    def __init__(self, file: ChecklistFile) -> None:
        self._list = file

    @property
    def name(self) -> str:
        """The name that `--source` takes."""
        return self._list.source

    def _file(self) -> ChecklistFile:
        """The checklist where it is now."""
        return self._list

    def load(self) -> StoryBook:
        """Read the stories as they are now."""
        return self._file().load()

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        """Tick the story's boxes; take back boxes of other stories that were open in `before`."""
        return self._file().settle(story, before)

    def take_back(self, before: StoryBook) -> tuple[str, ...]:
        """Untick what was open in `before`."""
        return self._file().take_back(before)

    def context(self, story: Story) -> StoryContext:
        """A plain list has no documents beside it."""
        del story
        return StoryContext()
