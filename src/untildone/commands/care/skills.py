"""Skills for agents: what they are told about this program, put where they look for it."""

import hashlib
import os
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

from msgspec import Struct

from untildone.adapters.records.durable import replace_file
from untildone.domain.errors import UserError
from untildone.plain_files import read_bytes, read_text

# Where each agent looks, in the home folder or at the top of a project; most share one folder.
FOLDERS = {
    "claude": ".claude/skills",
    **dict.fromkeys(("codex", "gemini", "goose", "opencode", "pi", "others"), ".agents/skills"),
}
FILE = "SKILL.md"
MARK = ".untildone"  # what was written there, so that a person's edits are known


class Skill(Struct, frozen=True):
    """A skill in the folder of an agent: `state` is missing, current, older or edited."""

    name: str
    path: Path
    state: str


def names() -> list[str]:
    return sorted(entry.name for entry in _shipped().iterdir() if entry.joinpath(FILE).is_file())


def text_of(name: str) -> bytes:
    return _shipped().joinpath(name, FILE).read_bytes()


def places(agents: tuple[str, ...], top: Path | None) -> list[Path]:
    """The folders of these agents, in a project or in the person's home."""
    base = top or Path.home()
    return list(dict.fromkeys(base / FOLDERS[agent] for agent in agents))


def skills_in(place: Path) -> list[Skill]:
    """How each of our skills stands there."""
    return [Skill(name, place / name / FILE, _state(name, place / name)) for name in names()]


def install(found: list[Skill], may_replace: Callable[[Path], bool]) -> Iterator[Path]:
    """Write what is missing or older; what was edited is only replaced if the person agrees."""
    wanted = [skill for skill in found if skill.state != "current"]
    wanted = [s for s in wanted if s.state != "edited" or may_replace(s.path)]
    for skill in wanted:
        text = text_of(skill.name)
        try:
            skill.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(skill.path, [text], skill.path.with_suffix(".draft"))
            mark = skill.path.with_name(MARK)
            replace_file(mark, [_digest(text).encode()], mark.with_suffix(".draft"))
        except OSError as error:
            raise UserError(
                f"The skill cannot be written: {skill.path}: {error.strerror}",
                state="Skills that were named before this one are written.",
                hint="Look at the permissions of that folder, then try again.",
            ) from error
        yield skill.path


def remove(found: list[Skill], may_remove: Callable[[Path], bool]) -> Iterator[Path]:
    """Remove what we wrote; a file of the person beside it, and its folder, stay."""
    for skill in found:
        if skill.state == "missing" or (skill.state == "edited" and not may_remove(skill.path)):
            continue
        skill.path.unlink()
        skill.path.with_name(MARK).unlink(missing_ok=True)
        if not any(skill.path.parent.iterdir()):
            skill.path.parent.rmdir()
        yield skill.path


def _shipped() -> resources.abc.Traversable:
    return resources.files("untildone").joinpath("skills")


def _state(name: str, folder: Path) -> str:
    path, mark = folder / FILE, folder / MARK
    if not os.path.lexists(path):
        return "missing"
    there = read_bytes(path)
    if there == text_of(name):
        return "current"
    written = read_text(mark).strip() if mark.is_file() else ""
    return "older" if written == _digest(there) else "edited"


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
