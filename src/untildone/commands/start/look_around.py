"""What a repository and this machine have for a first run, found out without starting anything."""

from msgspec import Struct

from untildone.adapters.checks.detect import detect, missing_program
from untildone.domain.checks.protection import tests_among
from untildone.domain.errors import StoriesError
from untildone.settings.choices import PROGRAMS
from untildone.wiring.agents import known_program
from untildone.wiring.repository import Repository
from untildone.wiring.sources import open_changes


class Around(Struct, frozen=True):
    """Agents that are installed, checks by the file that tells of them, open changes, tests.

    `missing` are programs that a check needs and that are not here.
    """

    agents: tuple[str, ...]
    checks: dict[str, str]
    missing: tuple[str, ...]
    changes: tuple[tuple[str, str], ...]
    tests: int


def look_around(repository: Repository) -> Around:
    top = repository.place.top
    checks = detect(top)
    try:
        changes = tuple((row.name, row.source) for row in open_changes(top))
    except StoriesError:
        changes = ()  # `untildone stories` says what is wrong with them
    answer = repository.git().ask("ls-files", "-z")
    files = answer.stdout.decode(errors="replace").split("\0")
    return Around(
        agents=tuple(name for name in PROGRAMS if known_program(name).path()),
        checks=checks,
        missing=tuple(filter(None, map(missing_program, checks))),
        changes=changes,
        tests=len(tests_among(files)),
    )
