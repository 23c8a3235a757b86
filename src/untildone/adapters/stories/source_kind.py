"""What the loop has to know of a story source before it has one of its changes open."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from untildone.domain.errors import StoriesError
from untildone.ports import StorySource


class Found(Struct, frozen=True):
    """A change and its task counts; `why` says what keeps it from being run."""

    name: str
    total: int = 0
    complete: int = 0
    why: str = ""

    @property
    def open(self) -> bool:
        """Something is left to do; one with a problem counts: better loud than passed over."""
        return self.total > self.complete or bool(self.why)


class Options(Struct, frozen=True):
    """How big the person wants a story to be, and the file that holds them if it was named."""

    granularity: str = "group"
    file: str = ""


NO_OPTIONS = Options()


def no(root: Path, change: str) -> bool:
    """Never; for a source that takes no name but its own."""
    del root, change
    return False


class Kind(Struct, frozen=True):
    """One format of stories; the constant `SOURCE` of the module called like it.

    `find` lists the changes of a worktree, also finished and broken ones; it runs no program and
    never fails because of one bad change. `recognises` says whether a name is one of them. `make`
    opens a change. `adopts`: takes a name that no source knows. `guessed`: the files may be there
    for other reasons, so they are only run when nothing else is open. `suffixes`: of files that
    `--source-file` opens with it. `missing` says which program it needs and does not find.
    """

    name: str
    title: str
    make: Callable[[Path, str, Options], StorySource]
    find: Callable[[Path], Sequence[Found]]
    recognises: Callable[[Path, str], bool]
    adopts: Callable[[Path, str], bool] = no
    guessed: bool = False
    suffixes: tuple[str, ...] = ()
    missing: Callable[[], str] = lambda: ""


def counted(name: str, opened: Callable[[], StorySource]) -> Found:
    """A change with its counts; whatever is wrong with it is told, never raised."""
    try:
        book = opened().load()
    except StoriesError as error:
        return Found(name, why=error.message)
    why = "; ".join(p.why for p in book.problems)
    if not why and book.total == book.complete:
        why = book.unfinished
    return Found(name, book.total, book.complete, why)
