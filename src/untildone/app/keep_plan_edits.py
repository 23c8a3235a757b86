"""The plan that somebody edits while the loop runs: what was written is kept, or named."""

import contextlib
import shlex
from collections.abc import Iterator

from untildone.app.run_driver import RunDriver
from untildone.domain.errors import StoriesError
from untildone.domain.run.plan_edits import LineEdit, changed_stories, edited, line_edits, refusal
from untildone.domain.run.run import Iteration
from untildone.domain.stories.story import StoryBook, StoryKey
from untildone.ports import PlanFiles, StorySource

Texts = dict[str, bytes]


def plan_as_written(driver: RunDriver, iteration: Iteration) -> Texts:
    """The plan as the attempt leaves it; on disk before it is put back, in case we are killed."""
    source, files, folder = driver.ports.source, driver.ports.plan_files, driver.ports.folder
    if not (source and files and iteration.story_id):
        return {}
    if earlier := folder.kept_plan(iteration.n):
        return earlier
    paths = set(driver.run.book.files) if driver.run.book else set()
    with contextlib.suppress(
        StoriesError
    ):  # of a plan that is broken the known files are looked at
        paths |= source.load().files
    written = files.read(paths)
    folder.keep_plan(iteration.n, written)
    return written


def keep_plan_edits(
    driver: RunDriver, iteration: Iteration, written: Texts, ref: str, before: StoryBook | None
) -> tuple[str, ...]:
    """After the put-back: write again what may be the person's, and name the rest."""
    source, files = driver.ports.source, driver.ports.plan_files
    if not (source and files and written):
        return ()
    back = files.read(written)
    changed = {path: data for path, data in written.items() if back.get(path) != data}
    if not changed:
        return ()
    try:
        base = source.load()
        theirs = _without_ticks(source, files, changed, back, before or base)
    except StoriesError:
        return tuple(_left_out(path, "the plan cannot be read", ref) for path in changed)
    merge = _Merge(source, files, base, iteration.story_key)
    left_out = []
    for path, data in theirs.items():
        merge.file(path, back.get(path), data)
        left_out += [_left_out(path, why, ref) for why in merge.refused]
    driver.edited |= bool(merge.kept)
    return (*_kept(merge, source, iteration.story_id), *left_out)


def _kept(merge: "_Merge", source: StorySource, story_id: str) -> Iterator[str]:
    if merge.kept:
        stories = changed_stories(merge.base, source.load())
        yield (
            f"Written during story {story_id}, perhaps by you, and kept although the attempt was "
            f"put back: {', '.join(stories) or 'text that belongs to no story'}, "
            f"in {', '.join(sorted(merge.kept))}"
        )


def _left_out(path: str, why: str, ref: str) -> str:
    return (
        f"An edit of {path} was put back with the attempt, because {why}; if it was yours, "
        f"`git show {shlex.quote(f'{ref}:{path}')}` has it"
    )


def _without_ticks(
    source: StorySource, files: PlanFiles, changed: Texts, back: Texts, before: StoryBook
) -> Texts:
    """The edits without what the attempt marked as done, which the format knows to take back."""
    try:
        for path, data in changed.items():
            files.write(path, data)
        with contextlib.suppress(StoriesError):
            source.take_back(before)
        return files.read(changed)
    finally:
        for path in changed:
            files.write(path, back.get(path))


class _Merge:
    """Edits are tried one by one: the plan with it is read, and judged by what it says then."""

    def __init__(
        self, source: StorySource, files: PlanFiles, base: StoryBook, key: StoryKey
    ) -> None:
        self.base = base
        self._source, self._files, self._key = source, files, key
        self.kept: set[str] = set()
        self.refused: dict[str, None] = {}

    def file(self, path: str, back: bytes | None, data: bytes) -> None:
        """Bring the edits of one file into it; a file that was not there stays if all of it may."""
        old = back or b""
        taken: list[LineEdit] = []
        self.refused = {}
        for edit in line_edits(old, data):
            self._files.write(path, edited(old, [*taken, edit]))
            if why := self._refusal():
                self.refused[why] = None
            else:
                taken.append(edit)
        self._files.write(path, edited(old, taken) if taken else back)
        self.kept |= {path} if taken else set()

    def _refusal(self) -> str:
        try:
            return refusal(self.base, self._source.load(), self._key)
        except StoriesError as error:
            return error.message
