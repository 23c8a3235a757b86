"""What a checkpoint ignores, whatever an attempt does to ignore files after it."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from untildone.adapters.git.git import Change, Git
from untildone.adapters.git.index import ignored_entries, ignored_files, ignored_under
from untildone.adapters.git.object_files import content
from untildone.adapters.git.place import Place
from untildone.adapters.records.durable import replace_file


class IgnoredAtStart:
    """Paths that stay ignored for the whole run: a list, and the same as an excludes file for git.

    The file spares git most of the work. The list decides: it holds against `!` rules of an
    attempt, and for names that an excludes file cannot say.
    """

    def __init__(self, folder: Path) -> None:
        self._list = folder / "frozen"
        self.excludes = folder / "excludes"
        self._paths: set[str] | None = None

    def begin(self, rules: bytes, entries: Sequence[str]) -> None:
        """The user's own rules, and what is ignored when the run begins."""
        self._list.write_bytes(os.fsencode("\0".join(entries)))
        self.excludes.write_bytes(b"\n".join([rules.rstrip(b"\n"), *_patterns(entries)]) + b"\n")
        self._paths = None

    def add(self, paths: Sequence[str]) -> None:
        """Files that are left alone from now on."""
        known = content(self._list)
        entries = [known] if known else []
        entries += [os.fsencode(path) for path in paths]
        self._replace(self._list, b"\0".join(entries))
        rules = b"\n".join([*_patterns(paths), b""])
        self._replace(self.excludes, content(self.excludes) + rules)
        self._paths = None

    def covers(self, path: str) -> bool:
        """Whether the path, or a folder above it, is left alone."""
        if self._paths is None:
            text = os.fsdecode(content(self._list))
            self._paths = {entry.rstrip("/") for entry in text.split("\0") if entry}
        parts = path.split("/")
        return any("/".join(parts[:k]) in self._paths for k in range(1, len(parts) + 1))

    def _replace(self, path: Path, data: bytes) -> None:
        replace_file(path, [data], path.with_suffix(".draft"))


class IgnoreRules:
    """The `.gitignore` files of a checkpoint, and what was ignored when the run began."""

    def __init__(self, git: Git, place: Place, run_folder: Path) -> None:
        self._git = git
        self._git_dir = place.git_dir
        self._copies = run_folder / "rules"
        self.at_start = IgnoredAtStart(run_folder)

    def freeze(self, nested: Sequence[str] = (), *, none_ignored: bool = False) -> None:
        """What is ignored now, and these repositories, stay so, whatever an attempt does.

        `none_ignored` spares the look of who knows that there is nothing.
        """
        own = self._git.config("core.excludesfile")
        xdg = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
        text = content(Path(own).expanduser() if own else Path(xdg) / "git" / "ignore")
        found = () if none_ignored else ignored_entries(self._git)
        frozen = [*found, *(f"{path}/" for path in nested)]
        self.at_start.begin(text, frozen)
        self._git.use_excludes(self.at_start.excludes)

    def ignored_changes(self, base: str, changes: Sequence[Change]) -> tuple[str, ...]:
        """New files that the base ignores: an attempt may have edited an ignore file."""
        added = [change.path for change in changes if change.status == "A"]
        if any(change.path.rpartition("/")[2] == ".gitignore" for change in changes):
            return self.ignored(base, added)
        return tuple(path for path in added if self.at_start.covers(path))

    def ignored(self, base: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Which of these new files the base's rules ignore."""
        known = [path for path in paths if self.at_start.covers(path)]
        return *known, *self._matched(base, [path for path in paths if path not in known])

    def hidden_by_attempt(self, draft: Git, base: str) -> tuple[str, ...]:
        """Files that are ignored now, by rules which the base does not have."""
        entries = [p for p in ignored_entries(draft) if not self.at_start.covers(p.rstrip("/"))]
        allowed = set(self._matched(base, entries))
        suspects = [path for path in entries if path not in allowed]
        if not suspects:
            return ()
        files = ignored_files(draft, suspects)
        kept = set(self._matched(base, files))
        return tuple(path for path in files if path not in kept and not self.at_start.covers(path))

    def _matched(self, base: str, paths: Sequence[str]) -> tuple[str, ...]:
        if not paths:
            return ()
        shutil.rmtree(self._copies, ignore_errors=True)
        self._copies.mkdir()
        for path in self._git.files_at(base):
            if path.rpartition("/")[2] != ".gitignore":
                continue
            target = self._copies / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self._git.content(base, path))
        for path in paths:
            if path.endswith("/"):  # rules for folders need one
                (self._copies / path).mkdir(parents=True, exist_ok=True)
        return ignored_under(self._git, self._copies, self._git_dir, paths)


def _patterns(paths: Sequence[str]) -> list[bytes]:
    return [os.fsencode(_as_pattern(path)) for path in paths if "\n" not in path]


def _as_pattern(path: str) -> str:
    escaped = "".join(f"\\{c}" if c in "\\*?[]!# " else c for c in path)
    return f"/{escaped}"
