"""What every story source keeps, whatever it reads: the fake, the files, the trackers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from tests.fakes.source import FakeSource
from tests.fakes.story_files import NOTE, SAMPLES, Row, Rows
from tests.fakes.trackers import BD, GH, Tracker, bead, issue
from untildone.adapters.stories.source_kind import Options
from untildone.domain.errors import StoriesError, StoryLost
from untildone.domain.stories.story import StoryBook, checked
from untildone.ports import StorySource
from untildone.settings.choices import SOURCES
from untildone.wiring.sources import kind

OPEN = (Row("Log in"), Row("Log out"), Row("Pay by card"))
TRACKERS = ("beads", "github")


class World(Protocol):
    """Where the stories of one source are."""

    @property
    def source(self) -> StorySource: ...

    def put(self, rows: Rows) -> None:
        """Replace them, as an agent or a person might."""

    def kept(self) -> object:
        """All that is there, byte for byte."""

    def would_be(self, rows: Rows) -> object:
        """The same, had somebody put these rows."""

    def spoil(self) -> None:
        """Make them unreadable."""


class Files:
    """A worktree with the files of a sample."""

    def __init__(self, root: Path, name: str) -> None:
        self._root, self._sample = root, SAMPLES[name]
        self.encode: Callable[[str], bytes] = str.encode
        self.put(OPEN)
        self.source = kind(name).make(root, self._sample.change, Options())

    def put(self, rows: Rows) -> None:
        wanted = self.would_be(rows)
        for path in self.kept().keys() - wanted.keys():
            (self._root / path).unlink()
        for path, data in wanted.items():
            (self._root / path).parent.mkdir(parents=True, exist_ok=True)
            (self._root / path).write_bytes(data)

    def kept(self) -> Mapping[str, bytes]:
        found = (path for path in self._root.rglob("*") if path.is_file())
        return {path.relative_to(self._root).as_posix(): path.read_bytes() for path in found}

    def would_be(self, rows: Rows) -> Mapping[str, bytes]:
        return {path: self.encode(text) for path, text in self._sample.files(rows).items()}

    def spoil(self) -> None:
        for path in self.kept():
            (self._root / path).write_bytes("- [ ] a\n".encode("utf-16"))


class Memory:
    """The fake."""

    def __init__(self) -> None:
        self.source = FakeSource()
        self.put(OPEN)

    def put(self, rows: Rows) -> None:
        self.source.text = self.would_be(rows)

    def kept(self) -> str | None:
        return self.source.text

    def would_be(self, rows: Rows) -> str:
        boxes = [(n, row, "x" if row.done else " ") for n, row in enumerate(rows, start=1)]
        return "".join(f"## {n}. {row.title}\n- [{x}] {n}.1 Do it\n" for n, row, x in boxes)

    def spoil(self) -> None:
        self.source.text = None


class Issues:
    """A tracker: the issues of a program on PATH."""

    def __init__(self, root: Path, name: str) -> None:
        self._is_beads = name == "beads"
        self._folder = root / "bin"
        self._folder.mkdir()
        (root / ".beads").mkdir()
        self._program, code = ("bd", BD) if self._is_beads else ("gh", GH)
        self._tracker = Tracker(self._folder, self._program, code, {})
        self.put(OPEN)
        self.source = kind(name).make(root, name, Options())

    def put(self, rows: Rows) -> None:
        self._tracker.set(issues=self.would_be(rows))

    def kept(self) -> object:
        return self._tracker.state["issues"]

    def would_be(self, rows: Rows) -> Mapping[str, object]:
        if self._is_beads:
            states = {True: "closed", False: "open"}
            made = [bead(f"x-{n}", r.title, status=states[r.done]) for n, r in enumerate(rows)]
            return {each["id"]: each for each in made}
        states = {True: "CLOSED", False: "OPEN"}
        issues = [
            issue(n, row.title, "github", state=states[row.done])
            for n, row in enumerate(rows, start=1)
        ]
        return {str(each["number"]): each for each in issues}

    def spoil(self) -> None:
        (self._folder / self._program).write_text("#!/bin/sh\necho spoilt; exit 1\n")


def made(name: str, root: Path) -> World:
    if name == "fake":
        return Memory()
    return Issues(root, name) if name in TRACKERS else Files(root, name)


@pytest.fixture
def bin_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")


@pytest.fixture(params=["fake", *SOURCES])
def world(request: pytest.FixtureRequest, tmp_path: Path, bin_on_path: None) -> World:
    found = made(request.param, tmp_path)
    assert found.source.name == request.param
    return found


@pytest.fixture(params=["fake", *SAMPLES])
def owned(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """One that only the agent writes during a call; issues may be opened or deleted by a person."""
    return made(request.param, tmp_path)


def rows(*done: bool) -> tuple[Row, ...]:
    return tuple(replace(row, done=is_done) for row, is_done in zip(OPEN, done, strict=True))


def states(book: StoryBook) -> list[bool]:
    return [story.done for story in book.stories]


def test_load_gives_the_stories_in_their_order(world: World) -> None:
    world.put(rows(True, False, False))
    book = world.source.load()
    assert [row.title in story.title for story, row in zip(book.stories, OPEN, strict=True)]
    assert len({story.id for story in book.stories}) == len(OPEN)
    assert (book.source, states(book)) == (world.source.name, [True, False, False])
    assert all(story.tasks for story in book.stories)
    assert book.problems == ()
    assert not Path(book.path).is_absolute()


def test_load_reads_anew_each_time(world: World) -> None:
    world.source.load()
    world.put((*OPEN, Row("Print a bill")))
    assert len(world.source.load().stories) == len(OPEN) + 1
    world.put(rows(False, True, False))
    assert states(world.source.load()) == [False, True, False]


def test_load_changes_nothing(world: World) -> None:
    before = world.kept()
    world.source.load()
    world.source.context(world.source.load().stories[0])
    assert world.kept() == before


def test_what_cannot_be_read_is_an_error_and_stays_as_it_is(world: World) -> None:
    before = world.source.load()
    world.spoil()
    spoilt = world.kept()
    with pytest.raises(StoriesError):
        checked(world.source.load())
    with pytest.raises(StoriesError):
        world.source.settle(before.stories[0], before)
    assert world.kept() == spoilt


def test_no_story_is_a_problem(world: World) -> None:
    world.put(())
    book = world.source.load()
    assert book.stories == ()
    assert book.problems


def test_settle_finishes_exactly_the_story(world: World) -> None:
    before = world.source.load()
    assert world.source.settle(before.stories[1], before) == ()
    assert world.kept() == world.would_be(rows(False, True, False))
    assert states(world.source.load()) == [False, True, False]


def test_settle_twice_is_settle_once(world: World) -> None:
    before = world.source.load()
    world.source.settle(before.stories[0], before)
    once = world.kept()
    assert world.source.settle(before.stories[0], before) == ()
    assert world.kept() == once


def test_settle_after_settle_ends_with_all_done(world: World) -> None:
    for n in range(len(OPEN)):
        before = world.source.load()
        world.source.settle(before.stories[n], before)
    book = world.source.load()
    assert world.kept() == world.would_be(rows(True, True, True))
    assert 0 < book.total == book.complete


def test_what_the_agent_ticks_in_its_own_story_needs_no_word(world: World) -> None:
    before = world.source.load()
    world.put(rows(True, False, False))
    assert world.source.settle(before.stories[0], before) == ()
    assert world.kept() == world.would_be(rows(True, False, False))


def test_settle_takes_back_what_was_ticked_in_others(world: World) -> None:
    before = world.source.load()
    world.put(rows(True, False, True))
    (said,) = world.source.settle(before.stories[0], before)
    assert before.stories[2].id in said
    assert world.kept() == world.would_be(rows(True, False, False))


def test_settle_ticks_again_what_was_unticked_in_others(owned: World) -> None:
    owned.put(rows(False, True, False))
    before = owned.source.load()
    owned.put(rows(False, False, False))
    (said,) = owned.source.settle(before.stories[0], before)
    assert before.stories[1].id in said
    assert owned.kept() == owned.would_be(rows(True, True, False))


def test_settle_of_a_lost_story_writes_nothing(world: World) -> None:
    before = world.source.load()
    _, second, third = OPEN
    world.put((second, replace(third, done=True)))
    changed = world.kept()
    with pytest.raises(StoryLost):
        world.source.settle(before.stories[0], before)
    assert world.kept() == changed


def test_open_work_of_others_that_is_gone_writes_nothing(owned: World) -> None:
    before = owned.source.load()
    owned.put(OPEN[:2])
    changed = owned.kept()
    with pytest.raises(StoryLost, match=before.stories[2].id):
        owned.source.settle(before.stories[0], before)
    assert owned.kept() == changed


def test_take_back_opens_only_what_was_open(world: World) -> None:
    world.put(rows(True, False, False))
    before = world.source.load()
    world.put(rows(True, True, True))
    assert len(world.source.take_back(before)) >= 1
    assert world.kept() == world.would_be(rows(True, False, False))
    assert world.source.take_back(before) == ()
    assert world.kept() == world.would_be(rows(True, False, False))


def test_take_back_leaves_stories_alone_that_it_does_not_know(world: World) -> None:
    before = world.source.load()
    _, second, third = OPEN
    other = Row("Something quite different", done=True)
    world.put((other, replace(second, done=True), third))
    world.source.take_back(before)
    assert world.kept() == world.would_be((other, second, third))


def test_context_names_files_of_the_worktree(world: World, tmp_path: Path) -> None:
    for story in world.source.load().stories:
        found = world.source.context(story)
        assert all((tmp_path / path).is_file() for path in found.pointers)
        assert all(text.strip() for text in found.scenarios)


def _odd(text: str) -> bytes:
    """Other line ends, and bytes that are no text."""
    return text.replace("\n", "\r\n").encode().replace(NOTE.encode(), b"caf\xe9 \xff\xc3( \xe2\x82")


@pytest.mark.parametrize("name", SAMPLES)
def test_odd_bytes_beside_the_stories_stay(tmp_path: Path, name: str) -> None:
    files = Files(tmp_path, name)
    files.encode = _odd
    files.put(OPEN)
    before = files.source.load()
    files.put(rows(False, False, True))
    files.source.settle(before.stories[1], before)
    assert files.kept() == files.would_be(rows(False, True, False))
    files.source.take_back(before)
    assert files.kept() == files.would_be(OPEN)


def test_every_source_has_a_sample() -> None:
    assert {*SAMPLES, *TRACKERS} == set(SOURCES)
