"""Tips held during an attempt, so that an agent which deletes refs and prunes takes none along.

What git itself never prunes, and no list of refs shows, is HEAD of a linked worktree. So there is
one without files, locked, whose HEAD is a commit with all tips as parents.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from untildone.adapters.durable import replace_file
from untildone.adapters.git import Git, Ref
from untildone.adapters.git_door import Place
from untildone.adapters.git_files import commit_body, content, store_commit, store_object

PREFIX = "untildone-holds-"
WHO = "untildone <untildone@localhost>"
WHY = "untildone holds all tips while an agent is at work; it goes away by itself"
# These move with every story; all others hardly ever.
OWN = ("refs/heads/ralph/", "refs/ralph/work/")
COMMITS = ("refs/heads/", "refs/remotes/", "refs/ralph/", "refs/stash", "refs/notes/")
ANYTHING = "refs/ralph/moved/"
MODES = {"blob": b"100644", "tree": b"40000"}


class Holder:
    """The holding worktree of one run."""

    def __init__(self, git: Git, place: Place, run_folder: Path) -> None:
        self._git = git
        self._place = place
        self._run_folder = run_folder
        self._folder = _folder(place, run_folder.name)
        self._tags = run_folder / "tags.json"
        self._others: frozenset[str] = frozenset()
        self._octopus = ""
        self._held: tuple[str, ...] = ()
        self._commit = b""

    def hold(self, refs: Mapping[str, Ref], more: Iterable[str]) -> None:
        """Hold these refs and commits; costs a look if they are the same as before."""
        if (self._place.common_dir / "reftable").exists():
            return  # there HEAD of a worktree is no file
        own = [ref.commit for name, ref in refs.items() if name.startswith(OWN)]
        others = {name: ref.commit for name, ref in refs.items() if not name.startswith(OWN)}
        tips = frozenset((*others.values(), *more))
        if tips != self._others or not self._octopus:
            self._octopus = self._of_all(others, tips)
            self._others = tips
        held = (self._octopus, *dict.fromkeys(own))
        if held != self._held or content(self._folder / "HEAD") != self._commit:
            commit = self._join(held) if own else self._octopus
            self._commit, self._held = f"{commit}\n".encode(), held
            self._write()

    def bring_back(self, names: Iterable[str]) -> None:
        """Write tags anew whose objects were pruned: they are no commits, so nothing held them."""
        known = json.loads(self._tags.read_text()) if self._tags.exists() else {}
        for name in names:
            while body := bytes.fromhex(known.get(name, "")):
                self._git.do("hash-object", "-t", "tag", "-w", "--literally", "--stdin", stdin=body)
                name = _target(body)[0]  # a tag of a tag

    def _of_all(self, named: Mapping[str, str], tips: frozenset[str]) -> str:
        """A commit of all tips; the bytes of tags are noted, since no commit can lead to them."""
        odd = {tip for name, tip in named.items() if not _is_commit(name)}
        kinds, bodies = self._kinds(odd), dict[str, bytes]()
        while tags := [tip for tip, kind in kinds.items() if kind == "tag" and tip not in bodies]:
            read = self._git.bodies(tags)
            bodies |= read or dict.fromkeys(tags, b"")
            kinds |= dict(_target(body) for body in read.values())
        if bodies or self._tags.exists():
            noted = json.dumps({name: body.hex() for name, body in bodies.items()})
            replace_file(self._tags, [noted.encode()], self._tags.with_suffix(".draft"))
        commits = {tip for tip, kind in kinds.items() if kind == "commit"}
        files = {tip: MODES[kind] for tip, kind in kinds.items() if kind in MODES}
        return self._join(sorted(commits | (tips - odd)), files)

    def _kinds(self, tips: Iterable[str]) -> dict[str, str]:
        asked = "".join(f"{tip}\n" for tip in tips).encode()
        out = self._git.do("cat-file", "--batch-check", stdin=asked) if asked else b""
        rows = (line.split(" ") for line in out.decode().splitlines())
        return {row[0]: row[1] for row in rows}

    def _join(self, parents: Iterable[str], files: Mapping[str, bytes] | None = None) -> str:
        known, named = list(parents), sorted((files or {}).items())
        rows = (b"%s %s\0%s" % (mode, tip.encode(), bytes.fromhex(tip)) for tip, mode in named)
        objects, digits = self._place.common_dir / "objects", len(known[0])
        tree = store_object(objects, "tree", b"".join(rows), digits)
        return store_commit(objects, commit_body(tree, known, WHO, f"{WHY}\n"))

    def _write(self) -> None:
        folder = self._folder
        if not (folder / "gitdir").is_file():
            draft = self._run_folder / "holds.draft"
            for old in (draft, folder):
                shutil.rmtree(old, ignore_errors=True)
            draft.mkdir()
            (draft / "commondir").write_text("../..\n")
            (draft / "gitdir").write_bytes(os.fsencode(self._run_folder / "holds/.git") + b"\n")
            (draft / "locked").write_text(f"{WHY}\n")
            (draft / "HEAD").write_bytes(self._commit)
            folder.parent.mkdir(exist_ok=True)
            draft.rename(folder)  # as a whole: git fails over a worktree without HEAD
        replace_file(folder / "HEAD", [self._commit], folder / "HEAD.draft")


def release(place: Place, run_id: str) -> None:
    """Let go what a run held; its refs hold all that is needed."""
    folder = _folder(place, run_id)
    with contextlib.suppress(OSError):
        (folder / "gitdir").unlink()  # first: without it git takes the rest for no worktree
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()  # if it was the last worktree


def hand_over(git: Git, place: Place, run_id: str, change: str) -> None:
    """Nobody will put back what the last attempt deleted: what was held gets a ref, then let go."""
    commit = content(_folder(place, run_id) / "HEAD").decode(errors="replace").strip()
    if commit:
        ref = f"refs/ralph/moved/{change}/{commit[:16]}"
        git.update_refs([(ref, commit, None)], "untildone: keep what was held")
    release(place, run_id)


def holding(place: Place) -> Iterator[str]:
    """The runs that hold something."""
    for folder in sorted((place.common_dir / "worktrees").glob(f"{PREFIX}*")):
        yield folder.name.removeprefix(PREFIX)


def _folder(place: Place, run_id: str) -> Path:
    return place.common_dir / "worktrees" / f"{PREFIX}{run_id}"


def _is_commit(ref: str) -> bool:
    return ref.startswith(COMMITS) and not ref.startswith(ANYTHING)


def _target(tag: bytes) -> tuple[str, str]:
    """What a tag names, and of what kind that is."""
    first, second = tag.split(b"\n", 2)[:2]
    return first.removeprefix(b"object ").decode(), second.removeprefix(b"type ").decode()
