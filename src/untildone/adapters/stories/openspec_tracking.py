"""Which files hold the tasks of an OpenSpec change: the schema of the project may say so."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

TASKS = "tasks.md"
_USUAL = "spec-driven"
_SCHEMA = re.compile(rb"^schema[ \t]*:[ \t]*[\"']?([\w.-]+)[\"']?[ \t]*(?:#.*)?\r?$", re.MULTILINE)
_BRACES = re.compile(r"\{([^{},]*(?:,[^{},]*)+)\}")


def pattern(root: Path, home: str) -> str:
    """What the tracked files of this change are called; without a schema of its own `tasks.md`.

    Schemas that come with the program or are kept in the person's own folder are not looked at:
    those of the program track `tasks.md`.
    """
    name = _named(root / home / ".openspec.yaml")
    if not name:
        configs = (root / "openspec" / file for file in ("config.yaml", "config.yml"))
        name = _named(next((path for path in configs if path.is_file()), Path(os.devnull)))
    if not name or name == _USUAL:
        return TASKS
    return _tracked(root / "openspec/schemas" / name / "schema.yaml") or TASKS


def is_glob(root: Path, home: str) -> bool:
    """Whether the tasks may stand in several files."""
    return any(sign in pattern(root, home) for sign in "*?[{")


def files(root: Path, home: str) -> Sequence[str]:
    """The tracked files that exist, sorted; `tasks.md` when the schema's pattern fits none."""
    wanted = pattern(root, home)
    if wanted == TASKS:
        return [f"{home}/{TASKS}"]
    top = (root / home).resolve()
    found: set[str] = set()
    for one in _expanded(wanted):
        for path in (root / home).glob(one):
            hidden = any(part.startswith(".") for part in path.relative_to(root / home).parts)
            if path.is_file() and not hidden and path.resolve().is_relative_to(top):
                found.add(path.relative_to(root).as_posix())
    return sorted(found) or [f"{home}/{TASKS}"]


def _named(path: Path) -> str:
    try:
        match = _SCHEMA.search(path.read_bytes())
    except OSError:
        return ""
    return match[1].decode(errors="replace") if match else ""


def _tracked(path: Path) -> str:
    """What the apply phase tracks; if it does not say, what the artifact called `tasks` makes."""
    from untildone.adapters.stories.documents.json_text import NotJson  # noqa: PLC0415 - few projects
    from untildone.adapters.stories.documents.yaml_text import YamlText  # noqa: PLC0415 - have a schema

    try:
        schema = YamlText(path.read_bytes()).root().value
    except (OSError, NotJson):
        return ""
    if not isinstance(schema, dict):
        return ""
    apply, listed = schema.get("apply"), schema.get("artifacts")
    artifacts = [a for a in listed if isinstance(a, dict)] if isinstance(listed, list) else []
    tracks = apply.get("tracks") if isinstance(apply, dict) else None
    made = next((a.get("generates") for a in artifacts if a.get("id") == "tasks"), "")
    found = made if tracks is None else tracks
    inside = isinstance(found, str) and not found.startswith("/") and ".." not in found.split("/")
    return str(found) if inside else ""


def _expanded(wanted: str) -> list[str]:
    """The pattern with each `{a,b}` written out, which Python's patterns do not know."""
    match = _BRACES.search(wanted)
    if match is None:
        return [wanted]
    before, after = wanted[: match.start()], wanted[match.end() :]
    return [p for word in match[1].split(",") for p in _expanded(f"{before}{word}{after}")]
