"""Where a running `untildone serve` shows the runs of a repository, so that messages can say it.

The file has no token: it would hand the control over runs to every agent that can read it, and a
message goes through other people's servers. Who has used the link of the server has its cookie.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from untildone.adapters.process.orphans import started_at
from untildone.adapters.records.durable import replace_file
from untildone.plain_files import opened, read_text
from untildone.wiring.repository import Repository, this_process

NAME, PRIVATE = "serve.json", 0o600


@contextlib.contextmanager
def noted(repositories: list[Repository], url: str) -> Iterator[None]:
    """The address is written down for each repository as long as this lasts."""
    pid, started = this_process()
    data = json.dumps({"url": url, "pid": pid, "started": started}).encode()
    paths = [_path(repository) for repository in repositories]
    try:
        for path in paths:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            replace_file(path, [data], path.with_name(f"{NAME}.{pid}"), PRIVATE)
        yield
    finally:
        for path in paths:
            with contextlib.suppress(OSError):
                if read_text(path) == data.decode():  # not that of a server that came later
                    path.unlink()


def run_url(repository: Repository, run_id: str) -> str:
    """The page of a run; empty if no server is there."""
    try:
        told = json.loads(read_text(_path(repository)))
        pid, started, url = int(told["pid"]), told["started"], str(told["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    if started_at(pid) != started:
        return ""
    return f"{url}/runs/{quote(run_id, safe='')}" if run_id else url


@contextlib.contextmanager
def way_in(repository: Repository, link: str) -> Iterator[Path]:
    """A private file that leads a browser to a link, which then is in no list of processes."""
    path = _path(repository).with_name(f"open-{os.getpid()}.html")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    page = (
        f'<!DOCTYPE html><meta http-equiv="refresh" content="0;url={link}"><title>untildone</title>'
    )
    with opened(path, "wb", private=True) as file:
        file.write(page.encode())
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _path(repository: Repository) -> Path:
    return repository.place.common_dir / "untildone" / NAME
