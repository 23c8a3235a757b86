"""One story more in the plan of a change, also while a loop works on it."""

import os
import shlex

from msgspec import Struct

from untildone.adapters.git.repository import STATE_FILE
from untildone.adapters.records.inbox import wish
from untildone.adapters.records.lock import plan_lock
from untildone.adapters.stories.story_file import StoryFile
from untildone.commands.control import post, refuse_agent
from untildone.commands.start.plan import known_change
from untildone.commands.start.start_checks import story_of
from untildone.domain.errors import StoriesError, UserError
from untildone.domain.run.fact import StoryAdded
from untildone.domain.run.plan_edits import refusal
from untildone.domain.run.run import Run
from untildone.domain.stories.story import NewStory, Story, StoryBook, StoryKey
from untildone.ports import GrowingSource, Grown, StorySource
from untildone.settings.settings import Settings
from untildone.wiring.repository import PLAN_LOCK, Repository, read_state
from untildone.wiring.sources import options_of, source_of, story_source

# A loop that puts an attempt back holds the plan as long as git takes.
WAIT_S = 60.0
# How the program of a format makes a story; `{}` is the title.
OWN_COMMANDS = {
    "backlog-md": "backlog task create {}",
    "beads": "bd create {}",
    "github": "gh issue create --title {}",
    "taskmaster": "task-master add-task --prompt={}",
}


class Added(Struct, frozen=True):
    """The new story, where it stands, and who will work on it."""

    change: str
    story: Story
    path: str
    live: bool
    ended: bool


def add(repository: Repository, change: str, settings: Settings, new: NewStory) -> Added:
    """Write the story into the plan: into the run's own worktree, if it works in one."""
    new = _cleaned(new)
    run = repository.latest(change)
    refuse_agent(os.environ.get("UNTILDONE_RUN_ID"))
    source = _source(repository, run, change, settings)
    if not isinstance(source, GrowingSource):
        raise _not_here(source.name, change, new.title)
    with plan_lock(repository.home / PLAN_LOCK, WAIT_S) as held:
        if not held:
            raise UserError(
                "The plan is being written by another command",
                state="Nothing was changed.",
                hint="Try again; `untildone status` shows what runs here.",
            )
        before = source.load()
        new = _with_keys(before, new)
        try:
            grown = source.grown(new)
            story = _new_story(before, grown, new)
        except StoriesError as refused:
            raise _by_hand(before, change, refused.message) from refused
        StoryFile(repository.place.top, grown.path, change).write(grown.data)
    state = read_state(repository.place.top / STATE_FILE) or {}
    live = repository.alive() and state.get("change_id") == change
    if live:
        post(repository, state, wish(change, StoryAdded(story.key)))
    ended = live and state.get("phase") == "awaiting_choice"
    return Added(change, story, grown.path, live, ended)


def _source(
    repository: Repository, run: Run | None, change: str, settings: Settings
) -> StorySource:
    top = repository.place.top
    going = run is not None and not run.closed and not run.abandoned
    source = source_of(run.plan, top) if run and going else None
    source = source or story_source(settings.source, top, change, options_of(settings))
    if source is None:
        known_change(top, change)
        raise StoriesError(
            f"The change has no list of stories yet: {change}",
            state="Nothing was changed.",
            hint=f"Write `- [ ]` lines into openspec/changes/{change}/tasks.md",
        )
    return source


def _cleaned(new: NewStory) -> NewStory:
    """Each text in one line; an empty one would be no story."""
    title, tasks = " ".join(new.title.split()), tuple(" ".join(t.split()) for t in new.tasks)
    if not title or not all(tasks):
        raise UserError(
            "A story has a title, and a task has a text",
            state="Nothing was changed.",
            hint='untildone add CHANGE "what is to be done" --task "one step of it"',
        )
    return NewStory(title, tasks, new.depends, new.after)


def _with_keys(book: StoryBook, new: NewStory) -> NewStory:
    """The stories that were named are there."""
    for story_id in new.depends:
        story_of(book, story_id)
    after = story_of(book, new.after[0]).key if new.after else None
    return NewStory(new.title, new.tasks, new.depends, after)


def _new_story(before: StoryBook, grown: Grown, new: NewStory) -> Story:
    """The story as it will be read; anything else that would be different is a refusal."""
    none: StoryKey = ("", "")
    if before.stories and (why := refusal(before, grown.book, none)):
        raise StoriesError(why)
    known = {story.key for story in before.stories}
    found = [story for story in grown.book.stories if story.key not in known]
    if len(found) != 1 or not " ".join(found[0].title.split()).endswith(new.title):
        raise StoriesError("the file would not be read as one story more with this title")
    (story,) = found
    if story.question or story.done or not set(new.depends) <= set(story.depends_on):
        raise StoriesError("the story would not be read as it was meant")
    return story


def _by_hand(book: StoryBook, change: str, why: str) -> StoriesError:
    return StoriesError(
        f"The story cannot be written into {book.path} by this command: {why}",
        state="Nothing was changed.",
        hint=f"Write it there with an editor, then `untildone stories {change}`; "
        "a loop that runs takes it over.",
    )


def _not_here(source: str, change: str, title: str) -> StoriesError:
    own = OWN_COMMANDS.get(source)
    hint = (
        f"{own.format(shlex.quote(title))}, then `untildone stories {change}`"
        if own
        else f"Add it where the others are, then `untildone stories {change}`"
    )
    return StoriesError(
        f"Stories of `{source}` are made by its own program, not by this command",
        state="Nothing was changed.",
        hint=hint,
    )
