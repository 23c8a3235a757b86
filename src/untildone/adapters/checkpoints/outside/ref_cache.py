"""All refs of the repository: git is asked again only when their files change."""

from collections.abc import Mapping

from untildone.adapters.git.git import Git, Ref
from untildone.adapters.git.object_files import files_below, stamp
from untildone.adapters.git.place import Place
from untildone.plain_files import contents

Fingerprint = dict[str, object]


class RefCache:
    """The refs as they are now. A look at the files costs a fraction of a git process."""

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

    def last(self) -> dict[str, Ref]:
        """All refs by the last look, for a question that follows it at once."""
        return self.now() if self._fingerprint is None else self._refs

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
        self._refs, self._fingerprint = known, expected  # the next look compares it

    def _fingerprint_now(self) -> Fingerprint:
        common = self._common
        paths = [f"{common}/HEAD", f"{common}/reftable/tables.list"]
        paths += files_below(f"{common}/refs")
        paths += (p for p in files_below(f"{common}/worktrees") if p.endswith("/HEAD"))
        return {"packed-refs": stamp(f"{common}/packed-refs"), **contents(paths)}
