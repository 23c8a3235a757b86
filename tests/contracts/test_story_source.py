"""What every story source keeps, whatever it reads."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.source import FakeSource
from untildone.adapters.stories.markdown import Markdown
from untildone.adapters.stories.openspec import OpenSpec
from untildone.adapters.stories.source_kind import Options
from untildone.adapters.stories.tasks_md import TasksMd
from untildone.domain.errors import StoriesError
from untildone.domain.stories.story import StoryContext
from untildone.ports import StorySource

STORIES = "## 1. First\n- [ ] 1.1 a\n- [ ] 1.2 b\n\n## 2. Second\n- [ ] 2.1 c\n"

# Makes a source that holds STORIES, and a function that replaces them by another text.
Rewrite = Callable[[str | None], None]
Make = Callable[[Path], tuple[StorySource, Rewrite]]


def _rewriter(file: Path) -> Rewrite:
    def rewrite(text: str | None) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            file.unlink()
        else:
            file.write_text(text)

    return rewrite


def _openspec(root: Path) -> tuple[StorySource, Rewrite]:
    return OpenSpec(root, "demo"), _rewriter(root / "openspec/changes/demo/tasks.md")


def _tasks_md(root: Path) -> tuple[StorySource, Rewrite]:
    return TasksMd(root, "demo"), _rewriter(root / "tasks.md")


def _fake(root: Path) -> tuple[StorySource, Rewrite]:
    source = FakeSource()

    def rewrite(text: str | None) -> None:
        source.text = text

    return source, rewrite


def _markdown(root: Path) -> tuple[StorySource, Rewrite]:
    return Markdown(root, "demo", Options(file="plan.md")), _rewriter(root / "plan.md")


SOURCES: dict[str, Make] = {
    "openspec": _openspec,
    "tasks-md": _tasks_md,
    "markdown": _markdown,
    "fake": _fake,
}


@pytest.fixture(params=SOURCES)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[StorySource, Rewrite]:
    source, rewrite = SOURCES[request.param](tmp_path)
    assert source.name == request.param
    rewrite(STORIES)
    return source, rewrite


def test_load_gives_the_stories_of_the_change(made: tuple[StorySource, Rewrite]) -> None:
    source, _ = made
    book = source.load()
    assert (book.change, book.source, book.total, book.complete) == ("demo", source.name, 3, 0)
    assert [(story.id, story.title, len(story.tasks)) for story in book.stories] == [
        ("1", "First", 2),
        ("2", "Second", 1),
    ]
    assert book.problems == ()
    assert not Path(book.path).is_absolute()


def test_load_reads_anew_each_time(made: tuple[StorySource, Rewrite]) -> None:
    source, rewrite = made
    source.load()
    rewrite(STORIES + "\n## 3. Third\n- [ ] 3.1 d\n")
    assert [story.id for story in source.load().stories] == ["1", "2", "3"]


def test_load_of_nothing_is_an_error_that_names_the_file(made: tuple[StorySource, Rewrite]) -> None:
    source, rewrite = made
    path = source.load().path
    rewrite(None)
    with pytest.raises(StoriesError, match=path):
        source.load()


def test_no_story_is_a_problem_not_an_error(made: tuple[StorySource, Rewrite]) -> None:
    source, rewrite = made
    rewrite("nothing to do\n")
    book = source.load()
    assert (book.stories, len(book.problems)) == ((), 1)


def test_settle_finishes_exactly_the_story(made: tuple[StorySource, Rewrite]) -> None:
    source, _ = made
    before = source.load()
    source.settle(before.stories[0], before)
    assert [story.done for story in source.load().stories] == [True, False]


def test_settle_twice_is_settle_once(made: tuple[StorySource, Rewrite]) -> None:
    source, _ = made
    before = source.load()
    source.settle(before.stories[0], before)
    once = source.load()
    assert source.settle(before.stories[0], before) == ()
    assert source.load() == once


def test_settle_takes_back_the_boxes_of_other_stories(made: tuple[StorySource, Rewrite]) -> None:
    source, rewrite = made
    before = source.load()
    rewrite(STORIES.replace("[ ]", "[x]"))
    (said,) = source.settle(before.stories[0], before)
    assert "2.1" in said
    assert [story.done for story in source.load().stories] == [True, False]


def test_settle_of_a_lost_story_changes_nothing(made: tuple[StorySource, Rewrite]) -> None:
    source, rewrite = made
    before = source.load()
    rewrite(STORIES.replace("First", "Other").replace("[ ] 2.1", "[x] 2.1"))
    changed = source.load()
    with pytest.raises(StoriesError):
        source.settle(before.stories[0], before)
    assert source.load() == changed


def test_take_back_unticks_only_what_was_open(made: tuple[StorySource, Rewrite]) -> None:
    source, rewrite = made
    rewrite(STORIES.replace("[ ] 1.1", "[x] 1.1"))
    before = source.load()
    rewrite(STORIES.replace("[ ]", "[x]"))
    source.take_back(before)
    assert source.load() == before
    source.take_back(before)
    assert source.load() == before


def test_take_back_leaves_stories_alone_that_it_does_not_know(
    made: tuple[StorySource, Rewrite],
) -> None:
    source, rewrite = made
    before = source.load()
    rewrite(STORIES.replace("First", "Other").replace("[ ]", "[x]"))
    source.take_back(before)
    assert [story.done for story in source.load().stories] == [True, False]


def test_context_of_a_bare_change_is_empty(made: tuple[StorySource, Rewrite]) -> None:
    source, _ = made
    assert source.context(source.load().stories[0]) == StoryContext()
