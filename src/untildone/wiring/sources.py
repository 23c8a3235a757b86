"""Story sources by name: which have stories in a worktree, and which has a change."""

import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.stories.source_kind import NO_OPTIONS, Found, Kind, Options
from untildone.domain.errors import StoriesError, UserError
from untildone.domain.run.plan import Plan
from untildone.ports import StorySource
from untildone.settings.choices import SOURCES
from untildone.settings.settings import Settings

HINTS = tuple(path for paths in SOURCES.values() for path in paths)


def looked_for(paths: Iterable[str] = HINTS) -> str:
    """Where stories would have been found."""
    return f"Looked for: {', '.join(paths)} (in Markdown files for boxes, `- [ ] text`)"


class Listed(Struct, frozen=True):
    """A change that was found, and by which source."""

    source: str
    title: str
    guessed: bool
    found: Found

    @property
    def name(self) -> str:
        return self.found.name


def kind(name: str) -> Kind:
    """The source of this name: its ways are in the module called like it."""
    if name not in SOURCES:
        from difflib import get_close_matches

        near = get_close_matches(name, SOURCES, n=1)
        hint = f"Did you mean `{near[0]}`? " if near else ""
        raise UserError(
            f"Unknown story source: {name}", hint=f"{hint}Known: auto, {', '.join(SOURCES)}"
        )
    module = import_module(f"untildone.adapters.stories.{name.replace('-', '_')}")
    found: Kind = module.SOURCE
    return found


def hinted(top: Path) -> Iterator[Kind]:
    """The sources that may have something here."""
    for name, paths in SOURCES.items():
        if any((top / path).exists() for path in paths):
            yield kind(name)


def story_source(
    name: str, top: Path, change: str, options: Options = NO_OPTIONS
) -> StorySource | None:
    """The source that has this change, or None when none does."""
    if options.file:
        options = replace(options, file=inside(top, options.file))
        name = _of_file(options.file) if name == "auto" else name
    if name != "auto":
        chosen = kind(name)
        if options.file and not chosen.suffixes:
            raise UserError(
                f"The source `{name}` has its own files and takes no `--source-file`",
                state="Nothing was changed.",
                hint="Leave out `--source`: the file's name says how it is read.",
            )
        return chosen.make(top, change, options)
    kinds = list(hinted(top))
    knows = (k for k in kinds if k.recognises(top, change))
    adopts = (k for k in kinds if k.adopts(top, change))
    found = next(knows, None) or next(adopts, None)
    return found.make(top, change, options) if found else None


def source_of(plan: Plan, top: Path) -> StorySource | None:
    """The story source of an existing run."""
    if not plan.source:
        return None
    return story_source(plan.source, top, plan.change_id, options_of(plan))


def options_of(wish: Settings | Plan) -> Options:
    """How the person wants the stories."""
    return Options(wish.granularity, wish.source_file)


def inside(top: Path, file: str) -> str:
    """The file's path in the worktree; one outside could be neither kept nor put back."""
    path = Path(os.path.normpath(top.resolve() / file))
    if not path.is_relative_to(top.resolve()):
        raise UserError(
            f"The story file is not in this worktree: {file}",
            state="Nothing was changed.",
            hint="Copy it into the repository, then name the copy with `--source-file`.",
        )
    return path.relative_to(top.resolve()).as_posix()


def _of_file(file: str) -> str:
    """The source that opens files with this ending."""
    suffix = Path(file).suffix.lower()
    return next((n for n in SOURCES if suffix in kind(n).suffixes), "markdown")


def change_exists(top: Path, change: str) -> bool:
    """Whether the change is known at all, with or without tasks."""
    from untildone.adapters.stories import openspec

    return openspec.exists(top, change)


def changes(top: Path) -> list[Listed]:
    """Every change of every source, finished and broken ones too."""
    return [
        Listed(kind.name, kind.title, kind.guessed, found)
        for kind in hinted(top)
        for found in kind.find(top)
    ]


def open_changes(top: Path, source: str = "auto") -> list[Listed]:
    """Changes with open tasks, broken ones last; files that may be there for other reasons if there
    are no others."""
    if source != "auto":
        kind(source)
    rows = [r for r in changes(top) if r.found.open and source in ("auto", r.source)]
    rows.sort(key=lambda row: bool(row.found.why))
    return [row for row in rows if not row.guessed] or rows


def all_changes(top: Path) -> list[str]:
    """Names of every change, for suggestions."""
    try:
        return list(dict.fromkeys(row.name for row in changes(top)))
    except StoriesError:
        return []
