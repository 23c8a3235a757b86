"""The bytes of files that git would not give back: its line-end and `ident` conversions lose them.

Git stores such a file converted, and a checkout writes it as git would write it. So the bytes on
disk are stored as they are beside it, and put back after a checkout of the same content.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from untildone.adapters.git import Change, Git
from untildone.adapters.git_door import Place

NAMES = "raw.json"
CONVERTS = ("true", "input")


class RawBytes:
    """Knows the raw bytes of one run: by path, then by the blob that git made of them."""

    def __init__(self, git: Git, place: Place, run_folder: Path) -> None:
        self._git = git
        self._place = place
        self._file = run_folder / NAMES
        self._ref = f"refs/ralph/raw/{run_folder.name}"

    @property
    def kept(self) -> bool:
        """Whether the repository converts files, so that their bytes are kept."""
        return self._file.exists()

    def note_all(self, index: Path) -> None:
        """At the start: all files of this index, if the repository converts files at all."""
        if self._converts(index):
            self._file.write_text("{}")
            self._note((), index)

    def note(self, changes: Iterable[Change]) -> None:
        """After a story: the files that it made or changed."""
        paths = [change.path for change in changes if change.status != "D"]
        if any(path.rpartition("/")[2] == ".gitattributes" for path in paths):
            self._file.touch()
        if paths and self.kept:
            self._note(tuple(f":(top,literal){path}" for path in paths), None)

    def put_back(self, tree: str) -> None:
        """The raw bytes again for every file that git has just written from this tree."""
        known = self._known()
        if not known:
            return
        wanted = {}
        for row in _rows(self._git.do("ls-tree", "-r", "-z", "--full-tree", tree)):
            meta, _, path = row.partition("\t")
            if raw := known.get(path, {}).get(meta.split(" ")[2]):
                wanted[path] = raw
        now = self._hashes([path for path in wanted if self._is_file(path)], write=False)
        for path, found in now.items():
            if found != wanted[path]:
                data = self._git.do("cat-file", "blob", wanted[path])
                (self._place.top / path).write_bytes(data)

    def _converts(self, index: Path) -> bool:
        git = self._git
        own = git.config("core.attributesfile") or "~/.config/git/attributes"
        files = (Path(own).expanduser(), self._place.common_dir / "info" / "attributes")
        if any(file.exists() for file in files) or git.config("core.autocrlf") in CONVERTS:
            return True
        listed = git.do("ls-files", "-z", "--", ":(top,glob)**/.gitattributes", index=index)
        return bool(listed)

    def _note(self, specs: tuple[str, ...], index: Path | None) -> None:
        git = self._git
        writes_crlf = _writes_crlf(git.config("core.autocrlf"), git.config("core.eol"))
        rows = _rows(git.do("ls-files", "--eol", "-z", "--", *specs, index=index))
        paths = [
            path
            for info, _, path in (r.partition("\t") for r in rows)
            if not comes_back(info, writes_crlf=writes_crlf)
        ]
        marked = git.do("ls-files", "-z", "--", ":(top,attr:ident)", index=index)
        paths = [p for p in dict.fromkeys([*paths, *_rows(marked)]) if self._is_file(p)]
        if not paths:
            return
        staged = _rows(git.do("ls-files", "-s", "-z", "--", *specs, index=index))
        blobs = {path: meta.split(" ")[1] for meta, _, path in (r.partition("\t") for r in staged)}
        known = self._known()
        for path, raw in self._hashes(paths, write=True).items():
            if path in blobs:
                known.setdefault(path, {})[blobs[path]] = raw
        self._keep(known)

    def _keep(self, known: dict[str, dict[str, str]]) -> None:
        git = self._git
        blobs = sorted({raw for raws in known.values() for raw in raws.values()})
        listed = "".join(f"100644 blob {blob}\t{blob}\0" for blob in blobs).encode()
        tree = os.fsdecode(git.do("mktree", "-z", stdin=listed)).strip()
        commit = git.commit_tree(tree, [], "files as they are on disk\n")
        git.update_refs([(self._ref, commit, None)], "untildone: keep raw bytes")
        self._file.write_text(json.dumps(known))

    def _known(self) -> dict[str, dict[str, str]]:
        text = self._file.read_text() if self._file.exists() else ""
        known: dict[str, dict[str, str]] = json.loads(text or "{}")
        return known

    def _hashes(self, paths: list[str], *, write: bool) -> dict[str, str]:
        """The blob of each file as it is on disk; names with a line break are left out."""
        plain = [path for path in paths if "\n" not in path]
        if not plain:
            return {}
        flags = ("-w",) if write else ()
        listed = "".join(f"{path}\n" for path in plain).encode("utf-8", "surrogateescape")
        out = self._git.do("hash-object", *flags, "--no-filters", "--stdin-paths", stdin=listed)
        return dict(zip(plain, os.fsdecode(out).split(), strict=True))

    def _is_file(self, path: str) -> bool:
        file = self._place.top / path
        return file.is_file() and not file.is_symlink()


def comes_back(info: str, *, writes_crlf: bool) -> bool:
    """Whether a checkout writes the line ends that are on disk, by `git ls-files --eol`."""
    stored, on_disk, attributes = (part.partition("/")[2] for part in info.split(None, 2))
    if stored in ("", "-text", "none") or not on_disk:
        return True
    words = attributes.split()
    crlf = "eol=crlf" in words or (writes_crlf and "eol=lf" not in words and "-text" not in words)
    return on_disk == ("crlf" if stored == "lf" and crlf else stored)


def _writes_crlf(autocrlf: str, eol: str) -> bool:
    return autocrlf == "true" or (autocrlf != "input" and eol == "crlf")


def _rows(out: bytes) -> list[str]:
    return [row for row in os.fsdecode(out).split("\0") if row]
