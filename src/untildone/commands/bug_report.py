"""A recorded run in one file, to be sent with a question: secrets are redacted."""

import io
import json
import os
import platform
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from untildone import __version__
from untildone.commands.redaction import redactor
from untildone.domain.errors import UserError
from untildone.domain.plain_text import amount
from untildone.domain.run.run import Run
from untildone.plain_files import read_bytes
from untildone.settings.settings import FILE_NAME
from untildone.wiring.repository import Repository

MOST_BYTES = 50 * 1024 * 1024
FOLDERS = ("", "logs")


def bundle(repository: Repository, run_id: str, target: Path) -> list[str]:
    """Write the bundle; returns what it holds and what was left out, a line each."""
    run, hide = repository.replay(run_id), redactor(os.environ)
    if run is None:
        raise UserError(f"The journal of the run is empty: {run_id}", hint="untildone status")
    rows: list[str] = []
    try:
        # Private, and never over something that is there.
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UserError(
            f"The bundle cannot be written: {target}: {error.strerror}",
            hint="Name another file: `untildone report --bundle FILE`",
        ) from error
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, path in _files(repository, run):
            size = path.stat().st_size
            if size > MOST_BYTES:
                rows.append(f"left out: {name} ({amount(size)})")
                continue
            _add(tar, name, hide(read_bytes(path)))
            rows.append(f"{name} ({amount(size)})")
        _add(tar, "about.json", hide(json.dumps(_about(repository, run), indent=2).encode()))
    return rows


def unpacked(source: Path, folder: Path) -> Path:
    """The run of a bundle, in a folder; only plain files with names of ours are taken."""
    try:
        with tarfile.open(source) as tar:
            for member in tar:
                path = PurePosixPath(member.name)
                expected = path.parts[:1] == ("run",) and path.parent.name in ("run", "logs")
                if not (member.isfile() and expected and len(path.parts) <= 3):
                    continue
                data = tar.extractfile(member)
                into = folder.joinpath(*path.parts)
                into.parent.mkdir(parents=True, exist_ok=True)
                into.write_bytes(data.read() if data else b"")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(
            f"This is not a bundle of untildone: {source}: {error}",
            hint="`untildone report --bundle FILE` writes one",
        ) from error
    return folder / "run"


def _files(repository: Repository, run: Run) -> Iterator[tuple[str, Path]]:
    folder = repository.folder(run.plan.run_id).path
    for below in FOLDERS:
        suffixes = (".jsonl",) if not below else (".log", ".times", ".md")
        for path in sorted((folder / below).iterdir() if (folder / below).is_dir() else ()):
            if path.is_file() and path.suffix in suffixes:
                yield f"run/{path.relative_to(folder)}", path
    state = repository.state_file().path
    for name, path in (("state.json", state), (FILE_NAME, repository.place.top / FILE_NAME)):
        if path.is_file():
            yield name, path


def _about(repository: Repository, run: Run) -> dict[str, object]:
    version = repository.git().ask("version").stdout
    return {
        "untildone": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "git": os.fsdecode(version).strip(),
        "run_id": run.plan.run_id,
        "status": run.status,
        "agent": run.plan.agent,
        "model": run.plan.model,
    }


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    tar.addfile(info, io.BytesIO(data))
