"""What was written into the plan during an attempt that is put back, and how much of it is kept.

Nobody can tell whether the person or the agent wrote it. So that is kept which no agent gains by:
more work, other words. What decides whether a story is done stays as it was.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from untildone.domain.checks.checks import may_be_empty, may_shrink, written_checks
from untildone.domain.stories.same_story import same_story, texts
from untildone.domain.stories.story import Story, StoryBook, StoryKey

# Of a file that was written anew nothing is kept in pieces.
MOST_EDITS = 40


class LineEdit(Struct, frozen=True):
    """These lines in place of those from `start` to `end`."""

    start: int
    end: int
    lines: tuple[bytes, ...]


def line_edits(old: bytes, new: bytes) -> list[LineEdit]:
    """How the one became the other; a single edit where there would be very many."""
    from difflib import SequenceMatcher  # noqa: PLC0415 - the plan is rarely edited

    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    found = [LineEdit(a, b, tuple(after[c:d])) for kind, a, b, c, d in steps if kind != "equal"]
    return found if len(found) <= MOST_EDITS else [LineEdit(0, len(before), tuple(after))]


def edited(old: bytes, edits: Sequence[LineEdit]) -> bytes:
    """The text with these edits, which are in its order."""
    lines = old.splitlines(keepends=True)
    for edit in reversed(edits):
        lines[edit.start : edit.end] = edit.lines
    return b"".join(lines)


def refusal(before: StoryBook, after: StoryBook, key: StoryKey) -> str:
    """Why a plan that was edited is not taken over; empty if it may be. `key` was attempted."""
    for problem in after.problems:
        return problem.why
    for was in before.stories:
        now = same_story(was, before, after)
        if now is None:
            return f"story {was.id} would be gone"
        if was.key == key and not _holds_all_of(was, now):
            return f"it changes story {was.id}, which was attempted"
        if texts(was.tasks, done=True) != texts(now.tasks, done=True) or _open(now) < _open(was):
            return f"tasks of story {was.id} would be gone or in another state"
        if not _judged_alike(was, now):
            return f"it changes what decides about story {was.id}"
    return ""


def changed_stories(before: StoryBook, after: StoryBook) -> list[str]:
    """The stories that an edit is about, in words."""
    found = []
    known = {_content(story) for story in before.stories}
    renamed = {now.key for was in before.stories if (now := same_story(was, before, after))}
    for story in after.stories:
        if _content(story) not in known:
            new = "" if story.key in renamed else "the new "
            found.append(f"{new}story {story.id} ({story.title})")
    return found


def _content(story: Story) -> tuple[object, ...]:
    tasks = tuple((task.text, task.done, task.detail) for task in story.tasks)
    return (*story.key, tasks, story.body, story.acceptance)


def _holds_all_of(was: Story, now: Story) -> bool:
    """It is the same story; it may have more tasks."""
    return (was.key, was.body) == (now.key, now.body) and not _details(was) - _details(now)


def _details(story: Story) -> Counter[tuple[str, str]]:
    return Counter((task.text, task.detail) for task in story.tasks)


def _open(story: Story) -> int:
    return len(story.tasks) - story.complete


def _judged_alike(was: Story, now: Story) -> bool:
    """Its checks, its criteria and what it waits for are the same; it may wait for more."""
    return _rules(was) == _rules(now) and set(was.depends_on) <= set(now.depends_on)


def _rules(story: Story) -> Iterable[object]:
    told = (story.acceptance, story.agent, story.model, story.touches)
    return (*told, written_checks(story), may_be_empty(story), may_shrink(story))
