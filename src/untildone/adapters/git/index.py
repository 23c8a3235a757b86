"""What we ask the index and do to it; the half of `git.py` that knows no commits."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from untildone.adapters.git.command import GitDoor

MOST_SPECS = 500


class GitIndex(GitDoor):
    """Git commands on the index of one worktree, or on another one."""

    def files_in_index(self, *paths: str) -> tuple[str, ...]:
        """Which of these paths the index has."""
        return paths_in(self.do("ls-files", "-z", "--", *paths))

    def written_since(self, index: Path) -> tuple[str, ...]:
        """Files that were written or removed since this index was made, whatever they hold now."""
        words = ("diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=all")
        return paths_in(self.do(*words, index=index))

    def blobs_in_index(self, paths: Sequence[str]) -> dict[str, str]:
        """What the index has for these files."""
        parts = (row.partition("\t") for row in self._entries(paths))
        wanted = set(paths)
        return {path: meta.split(" ")[1] for meta, _, path in parts if path in wanted}

    def _entries(self, paths: Sequence[str]) -> tuple[str, ...]:
        few = paths if len(paths) <= MOST_SPECS else ()
        specs = [f":(top,literal){path}" for path in few]
        return paths_in(self.do("ls-files", "-s", "-z", "--", *specs))

    def write_tree(self, index: Path | None = None) -> str:
        """The index as a tree."""
        return self._line("write-tree", index=index)

    def reset_index(self, tree: str) -> None:
        """The index as a tree has it; files stay."""
        self.do("read-tree", "-m", tree)

    def fill_index(self, tree: str) -> None:
        """A new index from a tree, whatever state the old one is in."""
        self.do("read-tree", "--reset", tree)

    def drop_from_index(self, paths: Iterable[str], index: Path | None = None) -> None:
        """Forget paths in the index; files stay."""
        listed = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
        self.do("update-index", "--force-remove", "-z", "--stdin", stdin=listed, index=index)

    def forget_stat(self, paths: Sequence[str]) -> None:
        """Let git look into these files again, even if they seem to be as it last saw them."""
        wanted = set(paths)
        rows = [row for row in self._entries(paths) if row.partition("\t")[2] in wanted]
        listed = "".join(f"{row}\0" for row in rows).encode("utf-8", "surrogateescape")
        self.do("update-index", "-z", "--index-info", stdin=listed)

    def force_into_index(self, paths: Iterable[str]) -> None:
        """Record files in the index, ignored or not."""
        listed = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
        self.do("update-index", "--add", "-z", "--stdin", stdin=listed)

    def add_as_is(self, paths: Iterable[str], top: Path) -> None:
        """Record files in the index without any conversion."""
        rows = []
        for path in paths:
            mode = "100755" if os.access(top / path, os.X_OK) else "100644"
            data = (top / path).read_bytes()
            rows.append(
                f"{mode} {self._line('hash-object', '-w', '--stdin', stdin=data)}\t{path}\0"
            )
        listed = "".join(rows).encode("utf-8", "surrogateescape")
        self.do("update-index", "-z", "--index-info", stdin=listed)

    def graft(self, prefix: str, tree: str) -> None:
        """Put a tree into the index below a folder."""
        self.do("read-tree", f"--prefix={prefix}/", tree)


def paths_in(out: bytes) -> tuple[str, ...]:
    """What git has listed with a NUL after each."""
    return tuple(path for path in os.fsdecode(out).split("\0") if path)
