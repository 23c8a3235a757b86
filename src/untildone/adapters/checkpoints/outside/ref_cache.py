"""All refs of the repository: git is asked again only when their files change."""

import os
from collections.abc import Iterator

from untildone.adapters.git.git import Git, Ref
from untildone.adapters.git.object_files import content, stamp
from untildone.adapters.git.place import Place

Fingerprint = dict[str, object]


class RefCache:
    """The refs as they are now. A look at the files costs a tenth of a git process."""

    def __init__(self, git: Git, place: Place) -> None:
        self._git = git
        self._place = place
        self._refs: dict[str, Ref] = {}
        self._fingerprint: Fingerprint | None = None

    def now(self) -> dict[str, Ref]:
        """All refs."""
        seen = self._fingerprint_now()
        if seen != self._fingerprint:
            self._refs = self._git.refs("refs/")
            self._fingerprint = seen
        return self._refs

    def moved(self, ref: str, commit: str) -> None:
        """We moved one ref: known without asking, if nothing else moved with it."""
        name = str(self._place.common_dir / ref)
        expected = (self._fingerprint or {}) | {name: f"{commit}\n".encode()}
        if ref in self._refs and self._fingerprint_now() == expected:
            self._refs = self._refs | {ref: Ref(commit, self._refs[ref].worktree)}
            self._fingerprint = expected

    def _fingerprint_now(self) -> Fingerprint:
        common = self._place.common_dir
        single = ("HEAD", "reftable/tables.list")
        found: Fingerprint = {name: content(common / name) for name in single}
        found["packed-refs"] = stamp(common / "packed-refs")
        found |= _files(str(common / "refs"), only="")
        found |= _files(str(common / "worktrees"), only="HEAD")
        return found


def _files(folder: str, only: str) -> Iterator[tuple[str, bytes]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path, only)
        elif not only or entry.name == only:
            yield entry.path, content(entry.path)
