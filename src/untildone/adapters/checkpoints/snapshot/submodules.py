"""Submodules: git records only their commit, so what an attempt does inside is kept here."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from untildone.adapters.git.environment import FALLBACK_IDENTITY
from untildone.adapters.git.git import Git, git_failed
from untildone.adapters.git.object_files import head_text
from untildone.adapters.git.place import Place
from untildone.adapters.process.process import Captured
from untildone.adapters.records.durable import replace_file
from untildone.plain_files import read_text

Note = dict[str, str]


class Submodules:
    """Notes every submodule before an attempt, and puts it back after one that failed."""

    def __init__(self, git: Git, place: Place, folder: Path) -> None:
        self._git = git
        self._top = place.top
        self._folder = folder
        self._file = folder / "submodules.json"
        self._index = folder / "submodule.index"

    def note(self) -> None:
        """Remember HEAD, index and files of each submodule; uncommitted work gets a ref."""
        paths = self._paths()
        if not paths and not self._file.exists():
            return
        notes = {path: self._look(path) for path in paths}
        for number, (path, seen) in enumerate(notes.items()):
            seen["index"] = str(self._folder / f"submodule-{number}.index")
            shutil.copy2(Path(seen["git_dir"]) / "index", seen["index"])
            if seen["tree"] != self._line(path, "rev-parse", f"{seen['commit']}^{{tree}}"):
                self._store(path, f"refs/ralph/checkpoints/{self._folder.name}", seen)
        replace_file(self._file, [json.dumps(notes).encode()], self._file.with_suffix(".draft"))

    def changed(self) -> tuple[str, ...]:
        """The submodules that are not as they were noted."""
        return tuple(path for path, before in self._notes().items() if self._now(path) != before)

    def put_back(self, ref: str) -> None:
        """Store what an attempt did in each submodule under the attempt's ref there, undo it."""
        for path in self.changed():
            before, now = self._notes()[path], self._look(path)
            self._store(path, ref, now)
            answer = self._ask(path, "read-tree", "-m", "-u", before["tree"])
            if not answer.ok:
                raise git_failed(("read-tree",), answer)
            branch = before["head"].removeprefix("ref: ")
            if branch != before["head"]:
                self._do(path, "symbolic-ref", "HEAD", branch)
                self._do(path, "update-ref", branch, before["commit"])
            else:
                self._do(path, "update-ref", "--no-deref", "HEAD", before["commit"])
            index = Path(before["git_dir"]) / "index"
            mode = index.stat().st_mode
            shutil.copy2(before["index"], index)
            index.chmod(mode)  # that of the copy is private

    def _paths(self) -> list[str]:
        if not (self._top / ".gitmodules").exists():
            return []
        found = self._git.ask(
            *("config", "-z", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$")
        )
        rows = os.fsdecode(found.stdout).split("\0")
        paths = [row.partition("\n")[2] for row in rows if row]
        # One that is not checked out is an empty folder: git would answer for ours instead.
        own = [path for path in paths if (self._top / path / ".git").exists()]
        return [p for p in own if self._ask(p, "rev-parse", "--verify", "--quiet", "HEAD").ok]

    def _now(self, path: str) -> Note:
        return self._look(path) | {"index": self._notes()[path]["index"]}

    def _look(self, path: str) -> Note:
        git_dir = self._line(path, "rev-parse", "--absolute-git-dir")
        shutil.copy2(Path(git_dir) / "index", self._index)
        self._do(path, "add", "-A", "--sparse", "--", ":/")
        return {
            "git_dir": git_dir,
            "head": os.fsdecode(head_text(Path(git_dir))).strip(),
            "commit": self._line(path, "rev-parse", "--verify", "HEAD"),
            "tree": self._line(path, "write-tree"),
        }

    def _store(self, path: str, ref: str, seen: Note) -> None:
        earlier = self._ask(path, "rev-parse", "--verify", "--quiet", ref)
        parents = [seen["commit"], *os.fsdecode(earlier.stdout).split()]
        flags = [part for parent in dict.fromkeys(parents) for part in ("-p", parent)]
        # Its settings are its own: the identity of the repository around it is not known there.
        who = {} if self._ask(path, "var", "GIT_COMMITTER_IDENT").ok else FALLBACK_IDENTITY
        commit = self._line(path, "commit-tree", "-m", "submodule", *flags, seen["tree"], env=who)
        self._do(path, "update-ref", ref, commit)

    def _notes(self) -> dict[str, Note]:
        notes: dict[str, Note] = json.loads(read_text(self._file)) if self._file.exists() else {}
        return notes

    def _ask(self, path: str, *args: str, env: Mapping[str, str] | None = None) -> Captured:
        # The run's ignore rules are made for the paths of the repository around it.
        words = ("-C", path, "-c", "core.excludesFile=", *args)
        return self._git.ask(*words, index=self._index, env=env)

    def _do(self, path: str, *args: str, env: Mapping[str, str] | None = None) -> bytes:
        answer = self._ask(path, *args, env=env)
        if not answer.ok:
            raise git_failed(args, answer)
        return answer.stdout

    def _line(self, path: str, *args: str, env: Mapping[str, str] | None = None) -> str:
        return os.fsdecode(self._do(path, *args, env=env)).strip()
