"""The plan of a change judged before anybody works on it: what `lint` and the start of a run do."""

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.checks.detect import detect, missing_program
from untildone.adapters.git.git import Git
from untildone.adapters.git.history import FileHistory
from untildone.adapters.stories.story_file import StoryFile
from untildone.commands.start.plan import Wanted, known_change, pick_change
from untildone.domain.checks.check_files import scripts_of
from untildone.domain.checks.checks import AUTO, amounts, in_force, parse
from untildone.domain.costs.budget import parsed
from untildone.domain.errors import StoriesError, UserError
from untildone.domain.run.plan import Plan
from untildone.domain.stories.lint import Finding, Level, Surroundings, counted, lint
from untildone.domain.stories.story import StoryBook
from untildone.plain_files import read_text
from untildone.settings.choices import AGENTS
from untildone.settings.settings import Settings
from untildone.wiring.repository import Repository
from untildone.wiring.sources import all_changes, open_changes, options_of, story_source


class Linted(Struct, frozen=True):
    """What was found in one change, and the lines that were mended."""

    change: str
    findings: tuple[Finding, ...]
    fixed: tuple[Finding, ...] = ()


def lint_change(
    repository: Repository, change: str, settings: Settings, *, fix: bool = False
) -> Linted:
    """Judge one change; with `fix`, mend first what has only one answer."""
    top, git = repository.place.top, repository.git()
    found = judged(git, top, change_book(top, change, settings), settings)
    fixed = _mend(top, change, found) if fix else ()
    if fixed:
        found = judged(git, top, change_book(top, change, settings), settings)
    return Linted(change, found, fixed)


def judged(git: Git, top: Path, book: StoryBook, settings: Settings) -> tuple[Finding, ...]:
    """What is wrong with a book whose files are below `top`; its history is what `git` knows."""
    history = FileHistory(git, book.change)
    detected = tuple(detect(top))
    checks = [check.command for check in in_force(settings.verify)]
    spelled = [c for check in checks for c in (detected if check == AUTO else (check,))]
    around = _surroundings(book, top, spelled, detected, settings.lanes)
    return lint(history.predicted(book), replace(around, files=history.files))


def changes_to_lint(repository: Repository, change: str, settings: Settings) -> list[str]:
    """The named change, or all that are open here."""
    if change or settings.source_file:
        return [pick_change(repository, Wanted(change, source_file=settings.source_file))]
    rows = open_changes(repository.place.top, settings.source)
    if not rows and not all_changes(repository.place.top):
        raise UserError(
            "No open change was found in this repository",
            state="Nothing was changed.",
            hint="`untildone stories` lists what can be run here.",
        )
    return list(dict.fromkeys(row.name for row in rows))


def at_start(plan: Plan, book: StoryBook | None, top: Path, *, strict: bool) -> tuple[str, ...]:
    """How much is wrong with the plan of a run, in a sentence; `strict` refuses what has errors."""
    if not book:
        return ()
    checks = [check.command for check in in_force(plan.verify)]
    around = _surroundings(book, top, checks, plan.verify_found, plan.lanes)
    found = lint(book, around, deep=False)
    errors = [finding for finding in found if finding.level is Level.ERROR]
    if strict and errors:
        first = errors[0]
        raise UserError(
            f"The plan has {counted(errors)}, and `--strict` starts without any: "
            f"{first.path}:{first.line}: {first.message}",
            state="Nothing was changed.",
            hint=f"untildone lint {plan.change_id}",
        )
    said = counted(found)
    return (f"The plan has {said}: `untildone lint {plan.change_id}` shows them",) * bool(said)


def change_book(top: Path, change: str, settings: Settings) -> StoryBook:
    """The stories of a change, as the settings say where they are."""
    source = story_source(settings.source, top, change, options_of(settings))
    if source is None:
        known_change(top, change)
        raise StoriesError(
            f"The change has no stories to look at: {change}",
            state="Nothing was changed.",
            hint=f"`untildone stories {change}` shows what is read of it.",
        )
    return source.load()


def _surroundings(
    book: StoryBook, top: Path, checks: Sequence[str], detected: Sequence[str], lanes: int
) -> Surroundings:
    return Surroundings(
        rows={path: _rows(top / path) for path in book.files},
        checked=bool(checks),
        suggested=next(iter((*checks, *detected)), ""),
        agents=AGENTS,
        trouble=lambda command: _trouble(command, top),
        budget=_no_budget,
        known=lambda word: bool(shutil.which(word, path=_path(top))),
        lanes=lanes,
    )


def _path(top: Path) -> str:
    """Where programs are looked for; the scripts of this folder are programs, too."""
    return f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{top}"


def _rows(path: Path) -> Sequence[str]:
    try:
        return read_text(path, errors="replace").split("\n")
    except OSError:
        return ()


def _trouble(command: str, top: Path) -> tuple[Level, str] | None:
    """Why the command would end with 126 or 127, found out without running it."""
    command = parse(command).command
    if missing := missing_program(command):
        return Level.ERROR, f"there is no program `{missing}`"
    for path in scripts_of([command]):
        script = top / path
        if not script.exists():
            return Level.WARNING, f"`{path}` is not there yet"
        called = any(word in (path, f"./{path}") for word in command.split()[:1])
        if called and not os.access(script, os.X_OK):
            return Level.ERROR, f"`{path}` may not be executed (`chmod +x {path}`)"
    return None


def _no_budget(text: str) -> str:
    """Why a line `Budget:` says nothing; empty if it says something."""
    named = amounts(text)
    try:
        parsed(",".join(named))
    except ValueError as error:
        return str(error) if named else "write for example `Budget: cost=2, time=45m`"
    return ""


def _mend(top: Path, change: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Write the fixes of lines that still are what was judged, each file in one step."""
    files: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.only_fix and finding.fix:
            files.setdefault(finding.path, []).append(finding)
    return tuple(f for path, some in files.items() for f in _mend_file(top, change, path, some))


def _mend_file(top: Path, change: str, path: str, findings: list[Finding]) -> list[Finding]:
    file = StoryFile(top, path, change)
    rows = file.read().split(b"\n")
    fixed = []
    for finding in findings:
        old, new = finding.row.encode(), (finding.fix or "").encode()
        row = rows[finding.line - 1]
        if row.strip() == old:
            rows[finding.line - 1] = row.replace(old, new)
            fixed.append(finding)
    if fixed:
        file.write(b"\n".join(rows))
    return fixed
