"""All refs of the repository: git is asked again only when their files change."""

import os
from collections.abc import Iterator, Mapping

from untildone.adapters.git.git import Git, Ref
from untildone.adapters.git.object_files import content, stamp
from untildone.adapters.git.place import Place

Fingerprint = dict[str, object]


class RefCache:
    """The refs as they are now. A look at the files costs a tenth of a git process."""

    def __init__(self, git: Git, place: Place) -> None:
        self._git = git
        self._refs: dict[str, Ref] = {}
        self._fingerprint: Fingerprint | None = None
        # Plain text: looked at several times per story, and joining paths costs more than reading.
        self._common = str(place.common_dir)

    def now(self) -> dict[str, Ref]:
        """All refs."""
        seen = self._fingerprint_now()
        if seen != self._fingerprint:
            self._refs = self._git.refs("refs/")
            self._fingerprint = seen
        return self._refs

    def moved(self, refs: Mapping[str, str]) -> None:
        """We moved these refs (empty: deleted): known without asking, if no other moved too."""
        expected, known = dict(self._fingerprint or {}), dict(self._refs)
        for ref, commit in refs.items():
            path = f"{self._common}/{ref}"
            before = known.pop(ref, None)
            expected.pop(path, None)
            if commit:
                expected[path] = f"{commit}\n".encode()
                known[ref] = Ref(commit, before.worktree if before else "")
            if commit and not before and ref.startswith("refs/heads/"):
                return  # some worktree may have this branch checked out: git knows which
        if self._fingerprint_now() == expected:
            self._refs, self._fingerprint = known, expected

    def _fingerprint_now(self) -> Fingerprint:
        single = ("HEAD", "reftable/tables.list")
        found: Fingerprint = {name: content(f"{self._common}/{name}") for name in single}
        found["packed-refs"] = stamp(f"{self._common}/packed-refs")
        found |= _files(f"{self._common}/refs", only="")
        found |= _files(f"{self._common}/worktrees", only="HEAD")
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
