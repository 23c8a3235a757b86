"""What one agent call left in session files: its own session, nobody else's."""

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from untildone.adapters.sessions.session_files import FILES, entries, recorders, size
from untildone.domain.regex import regex
from untildone.plain_files import opened

if TYPE_CHECKING:
    from untildone.domain.costs.call_prices import Spent

HEAD_BYTES = 64 * 1024
_RECORDED = regex(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')


class SessionWatch:
    """Looks at the sizes before a call; reads what has grown only when it is asked to."""

    def __init__(self, top: Path, now: Callable[[], datetime]) -> None:
        self.top = top
        self._agents: tuple[str, ...] = ()
        self._named = True
        self._clock = now
        self._sizes: dict[str, int] = {}
        self._began: datetime | None = None

    def start(self, agent: str) -> None:
        """Note what there is of this agent: the records of others are not of its call."""
        self._agents = recorders(agent)
        self._named = agent in FILES
        self._began = self._clock()
        self._sizes = dict(self._now())

    def entries(self, session_id: str) -> "list[Spent]":
        """The model calls since `start`: of this session, else of sessions that began since then.

        A session that was there before and is not ours is a person's own.
        """
        from untildone.domain.costs.call_prices import once  # noqa: PLC0415 - few come here

        began = self._began
        if began is None:
            return []
        found: dict[str, list[Spent]] = {}
        for entry in self._read():
            found.setdefault(entry.session_id, []).append(entry)
        taken = found.get(session_id, []) if session_id else self._new_here(found.values(), began)
        return once(entry for entry in taken if entry.at >= began)

    def growth(self, session_id: str) -> int:
        """By how many bytes the files of this session have grown, told by name or by folder."""
        grown = {path: now - self._sizes.get(path, 0) for path, now in self._grown()}
        if session_id:
            return sum(more for path, more in grown.items() if _is_named(path, session_id))
        here = [path for path in grown if self._is_of(path)]
        new = [path for path in here if path not in self._sizes]
        # A program whose name says nothing tells no session: it may have gone on with one.
        return sum(grown[path] for path in (new if new or self._named else here))

    def _new_here(self, sessions: "Iterable[list[Spent]]", began: datetime) -> "Iterator[Spent]":
        """The entries of sessions that began since then in this folder."""
        for session in sessions:
            new = min(entry.at for entry in session) >= began
            if new and any(self._here(entry.cwd) for entry in session):
                yield from session

    def _read(self) -> "Iterator[Spent]":
        for agent in self._agents:
            for path in FILES[agent]():
                if _is_database(path) or size(path) > self._sizes.get(path, 0):
                    with contextlib.suppress(OSError):
                        yield from entries(agent, Path(path))

    def _grown(self) -> Iterator[tuple[str, int]]:
        for path, now in self._now():
            if now > self._sizes.get(path, 0):
                yield path, now

    def _now(self) -> Iterator[tuple[str, int]]:
        for agent in self._agents:
            for path in FILES[agent]():
                if not _is_database(path):
                    yield path, size(path)

    def _here(self, folder: str) -> bool:
        tops = {self.top, self.top.resolve()}
        if folder.startswith("sha256:"):
            import hashlib  # noqa: PLC0415 - one agent needs it

            digests = {hashlib.sha256(str(top).encode()).hexdigest() for top in tops}
            return folder.removeprefix("sha256:") in digests
        return bool(folder) and any(Path(folder).is_relative_to(top) for top in tops)

    def _is_of(self, name: str) -> bool:
        """Whether a file is of this folder: as it records, else as its own folder is named."""
        path = Path(name)
        with contextlib.suppress(OSError, ValueError), opened(path) as file:
            if found := _RECORDED.search(file.read(HEAD_BYTES)):
                return self._here(json.loads(found[1]))
        plain = {re.sub("[^A-Za-z0-9]", "-", str(top)) for top in (self.top, self.top.resolve())}
        return any(re.sub("[^A-Za-z0-9]", "-", part) in plain for part in path.parts)


def _is_named(path: str, session_id: str) -> bool:
    return Path(path).stem.endswith(session_id) or f"/{session_id}/" in path


def _is_database(path: str) -> bool:
    return path.endswith(".db")
