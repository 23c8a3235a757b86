"""What is served: the runs of some repositories, and whether they may be steered."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from untildone.commands.control import refuse_agent
from untildone.commands.look.feed import Feed, Followed, recorded, the_run
from untildone.domain.errors import UserError
from untildone.wiring.repository import Repository, here


class Served:
    """Each call looks again: what a client knows may be old, and repositories come and go."""

    def __init__(self, folders: tuple[Path, ...], *, control: bool) -> None:
        self.control = control
        # Two that steer at once would take each other for a live loop.
        self.steering = threading.Lock()
        self._folders = folders
        self._known: dict[Path, Repository] = {}

    def repositories(self) -> list[Repository]:
        """Those around the folders; one that is none is a UserError."""
        for folder in self._folders:
            if folder not in self._known:
                self._known[folder] = here(folder)
        return [self._known[folder] for folder in self._folders]

    def repository(self, name: str) -> Repository:
        """The one that is meant, by its path or the name of its folder."""
        known = self.repositories()
        if not name and len(known) == 1:
            return known[0]
        tops = [repository.place.top for repository in known]
        meant = [known[k] for k, top in enumerate(tops) if name in (os.fspath(top), top.name)]
        if len(meant) == 1:
            return meant[0]
        raise UserError(
            f"Which repository is meant? There is no single one called `{name}`",
            hint=f"Name one of: {', '.join(map(os.fspath, tops))}",
        )

    def runs(self) -> list[Followed]:
        return recorded(self.repositories())

    def run(self, name: str) -> Followed:
        return the_run(self.runs(), name)

    def steered(self, name: str) -> Followed:
        """The run that is to be steered, which is never that of the agent who asks."""
        found = self.run(name)
        refuse_agent(found.run_id)
        return found


@contextlib.contextmanager
def looked_at(run: Followed) -> Iterator[Feed]:
    """The run as it is now."""
    with contextlib.closing(Feed(run)) as feed:
        feed.look()
        yield feed
