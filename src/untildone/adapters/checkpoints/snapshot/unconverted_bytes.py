"""The bytes of files that git would not give back: conversions and filters of it lose them.

Git stores such a file converted, and a checkout writes it as git would write it, or not at all if
it takes what is there for the same. So the bytes on disk are kept beside a commit, and put back
after a checkout of it.
"""

import filecmp
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.checkpoints.guard import filtered
from untildone.adapters.checkpoints.snapshot.draft_index import DraftDiff
from untildone.adapters.git.git import GITLINK, Change, Git
from untildone.adapters.git.index import (
    blobs_in_index,
    entries,
    files_in_index,
    link_or_copy,
    written_since,
)
from untildone.adapters.git.object_files import file_name, is_plain_file
from untildone.adapters.git.place import Place
from untildone.adapters.records.durable import replace_file
from untildone.domain.errors import StepError
from untildone.domain.regex import regex
from untildone.plain_files import read_bytes, read_text

DiskBlobs = Mapping[str, str]

NAMES = "on-disk.json"
RUN = "Untildone-Run: "
CONVERTS = ("true", "input")
# Its blobs name the bytes by their hash: what it takes comes back, and trying may take hours.
LFS = "lfs"
ATTRIBUTES = regex(rb"[\t/]\.gitattributes\0")


class UnconvertedBytes:
    """Knows, for commits of one run, the blobs of files as they were on disk.

    A commit that is not known was on disk as it is in git. For one that is known, this holds for
    the files that are not listed, as a checkout under the commit's own attributes writes them.
    """

    def __init__(self, git: Git, place: Place, run_folder: Path) -> None:
        self._git = git
        self._place = place
        self._file = run_folder / NAMES
        self._ref = f"refs/ralph/raw/{run_folder.name}"

    def knows(self, commit: str) -> bool:
        """Whether git converts files of this commit, so that their bytes are kept."""
        return self._file.exists() and commit in self._trees()

    def of(self, commit: str) -> dict[str, str]:
        """The blobs of files as they are on disk with this commit."""
        tree = self._trees().get(commit)
        return self._git.blobs_at(tree) if tree else {}

    def keep(self, commit: str, disk_blobs: DiskBlobs | None) -> None:
        """This commit is, on disk, what `disk_blobs` says; None if it is what git has."""
        if disk_blobs is None:
            return
        git, trees = self._git, self._trees()
        tree = self._as_tree(disk_blobs)
        if tree not in trees.values():
            before = git.resolve(self._ref)
            message = f"files as they are on disk\n\nUntildone-Commit: {commit}\n"
            stored = git.commit_tree(tree, [before] if before else [], message)
            git.update_refs([(self._ref, stored, None)], "untildone: keep raw bytes")
        text = json.dumps(trees | {commit: tree})
        replace_file(self._file, [text.encode()], self._file.with_suffix(".draft"))

    def converted_files(self, index: Path | None = None) -> dict[str, str] | None:
        """Of all files those that a checkout would write otherwise; None if git converts none."""
        git = self._git
        if not self._converts(index):
            return None
        writes_crlf = _writes_crlf(git.config("core.autocrlf"), git.config("core.eol"))
        rows = _rows(git.do("ls-files", "--eol", "-z", index=index))
        paths = [
            path
            for info, _, path in (r.partition("\t") for r in rows)
            if not comes_back(info, writes_crlf=writes_crlf)
        ]
        marked = git.do("ls-files", "-z", "--", ":(top,attr:ident)", index=index)
        paths += [*_rows(marked), *self._not_given_back(self._recoded(index), index)]
        return self._stored(list(dict.fromkeys(paths)))

    def _recoded(self, index: Path | None) -> list[str]:
        """Files that go through a filter or another encoding."""
        found: list[str] = []
        for name in ("filter", "working-tree-encoding"):
            specs = (":(top)", f":(top,exclude,attr:!{name})")
            found += _rows(self._git.do("ls-files", "-z", "--", *specs, index=index))
        taken = filtered(self._git, found) if found else {}
        return [path for path in dict.fromkeys(found) if taken.get(path) != LFS]

    def _not_given_back(self, paths: Sequence[str], index: Path | None = None) -> list[str]:
        """Those of which git would write other bytes than are on disk: it is made to, elsewhere.

        A filter may take away what nobody wants to commit, as `nbstripout` does.
        """
        files = [path for path in paths if is_plain_file(self._place.top / path)]
        if not files:
            return []
        trial = self._file.with_name("trial")
        shutil.rmtree(trial, ignore_errors=True)
        listed = "".join(f"{path}\0" for path in files).encode("utf-8", "surrogateescape")
        words = ("--ignore-skip-worktree-bits", f"--prefix={trial}/", "-z", "--stdin")
        answer = self._git.ask("checkout-index", *words, stdin=listed, index=index)
        other = [path for path in files if not _same(trial / path, self._place.top / path)]
        shutil.rmtree(trial, ignore_errors=True)
        return other if answer.ok else files

    def stored_from_disk(self, paths: Sequence[str]) -> dict[str, str]:
        """These files as they are on disk, but for those that a filter takes and gives back.

        What a filter is for (encryption, large files) is not for git's own objects.
        """
        taken = filtered(self._git, paths) if paths else {}
        lossy = self._not_given_back([path for path, name in taken.items() if name != LFS])
        return self._stored([path for path in paths if path not in taken or path in lossy])

    def with_attempt(self, attempt: str, now: str, made: Iterable[Change]) -> DiskBlobs:
        """The bytes on disk now, and over them those that an attempt of some run wrote."""
        lines = self._git.message(attempt).splitlines()
        run_id = next((x.removeprefix(RUN) for x in lines if x.startswith(RUN)), "")
        its = UnconvertedBytes(
            self._git, self._place, self._file.parent.with_name(run_id or "none")
        )
        theirs, base = its.of(attempt), its.of(self._git.resolve(f"{attempt}^1"))
        wrote = {path for path in {*theirs, *base} if theirs.get(path) != base.get(path)}
        wrote |= {change.path for change in made}
        wanted = {path: name for path, name in self.of(now).items() if path not in wrote}
        return wanted | {path: theirs[path] for path in wrote & theirs.keys()}

    def put_back(
        self, tree: str, wanted: DiskBlobs, found: DiskBlobs, index: Path | None = None
    ) -> None:
        """After git has brought the files to a tree: their bytes as they were with it.

        `found` is what was on disk before, and stored. Git may have left it there.
        """
        if not (wanted or found):
            return
        blobs = self._git.blobs_at(tree)
        for path, raw in wanted.items():
            if path in blobs and self._name(path, len(raw)) not in ("", raw):
                self._write(path, self._git.do("cat-file", "blob", raw))
        rest = {path: raw for path, raw in found.items() if path in blobs and path not in wanted}
        self._check_out(self._left_as_found(rest, blobs, index), index)

    def _left_as_found(
        self, found: DiskBlobs, blobs: DiskBlobs, index: Path | None
    ) -> Sequence[str]:
        """Files that git has not written, although it would write other bytes."""
        left = [path for path, raw in found.items() if self._name(path, len(raw)) == raw]
        if any(found[path] == blobs[path] for path in left) and not self._converts(index):
            return [path for path in left if found[path] != blobs[path]]
        return left

    def _check_out(self, paths: Sequence[str], index: Path | None) -> None:
        """Let git write these files, which it takes for unchanged."""
        if not paths:
            return
        for path in paths:
            (self._place.top / path).unlink()
        listed = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
        words = ("checkout-index", "-f", "--ignore-skip-worktree-bits", "-z", "--stdin")
        self._git.do(*words, stdin=listed, index=index)

    def _write(self, path: str, data: bytes) -> None:
        # Anew: an attempt may have made the file a second name of one that is elsewhere.
        target = self._place.top / path
        mode = target.stat().st_mode
        target.unlink()
        target.write_bytes(data)
        target.chmod(mode & 0o7777)

    def may_convert(self) -> bool:
        """Whether git converts files by what is set outside of the files themselves."""
        git = self._git
        config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        own = git.config("core.attributesfile") or f"{config}/git/attributes"
        files = (Path(own).expanduser(), self._place.common_dir / "info" / "attributes")
        if any(file.exists() for file in files) or git.config("core.autocrlf") in CONVERTS:
            return True
        return bool(git.config("attr.tree"))  # attributes of a commit, whatever is on disk

    def _converts(self, index: Path | None) -> bool:
        found = index or self._git.index_of(self._place)
        return self.may_convert() or bool(ATTRIBUTES.search(entries(self._git, found)))

    def _as_tree(self, disk_blobs: DiskBlobs) -> str:
        index = self._file.with_suffix(".index")
        index.unlink(missing_ok=True)
        listed = "".join(f"100644 {raw}\t{path}\0" for path, raw in disk_blobs.items())
        data = listed.encode("utf-8", "surrogateescape")
        self._git.do("update-index", "-z", "--index-info", stdin=data, index=index)
        tree = self._git.write_tree(index=index)
        index.unlink(missing_ok=True)
        return tree

    def _trees(self) -> dict[str, str]:
        text = read_text(self._file) if self._file.exists() else "{}"
        known: dict[str, str] = json.loads(text)
        return known

    def _name(self, path: str, digits: int) -> str:
        file = self._place.top / path
        return file_name(file, digits) if is_plain_file(file) else ""

    def _stored(self, paths: Sequence[str]) -> dict[str, str]:
        """The blobs of these files as they are on disk, all in the repository now."""
        files = [path for path in paths if is_plain_file(self._place.top / path)]
        plain = [path for path in files if "\n" not in path]
        listed = "".join(f"{path}\n" for path in plain).encode("utf-8", "surrogateescape")
        words = ("hash-object", "-w", "--no-filters", "--stdin-paths")
        out = self._git.do(*words, stdin=listed) if plain else b""
        found = dict(zip(plain, os.fsdecode(out).split(), strict=True))
        for path in (path for path in files if "\n" in path):
            data = read_bytes(self._place.top / path)
            found[path] = os.fsdecode(
                self._git.do("hash-object", "-w", "--stdin", stdin=data)
            ).strip()
        return found


def is_attributes_file(path: str) -> bool:
    """Whether a file says what git converts."""
    return path.rpartition("/")[2] == ".gitattributes"


def comes_back(info: str, *, writes_crlf: bool) -> bool:
    """Whether a checkout writes the line ends that are on disk, by `git ls-files --eol`."""
    stored, on_disk, attributes = (part.partition("/")[2] for part in info.split(None, 2))
    if stored in ("", "-text", "none") or not on_disk:
        return True
    words = attributes.split()
    crlf = "eol=crlf" in words or (writes_crlf and "eol=lf" not in words and "-text" not in words)
    return on_disk == ("crlf" if stored == "lf" and crlf else stored)


def _same(one: Path, other: Path) -> bool:
    return is_plain_file(one) and filecmp.cmp(one, other, shallow=False)


def _writes_crlf(autocrlf: str, eol: str) -> bool:
    return autocrlf == "true" or (autocrlf != "input" and eol == "crlf")


def _rows(out: bytes) -> list[str]:
    return [row for row in os.fsdecode(out).split("\0") if row]


class Written(Struct, frozen=True):
    """What was written since a commit: changes as git sees them, and all files that were touched.

    The bytes of `converted` ones are not those that git has for them: it converts them, or an index
    is wrong about them. If nobody knows which files were touched, all are.
    """

    since: str
    changes: tuple[Change, ...]
    touched: tuple[str, ...]
    converted: tuple[str, ...]
    refreshed: int

    @property
    def paths(self) -> set[str]:
        """All files that are not as they were."""
        return {change.path for change in self.changes} | set(self.touched)

    @property
    def removed(self) -> set[str]:
        """Files that the tree does not have any more."""
        return {change.path for change in self.changes if change.status == "D"}


class WrittenFiles:
    """Which files somebody wrote to since a call began, whatever git takes for unchanged.

    It keeps the index of the checkpoint that a call starts from, as it is then. Git forgets what
    the files of a checkpoint looked like as soon as somebody calls it while other attributes are in
    force: it takes what is there for unchanged. This index does not.
    """

    def __init__(self, git: Git, place: Place, run_folder: Path, raw: UnconvertedBytes) -> None:
        self._git = git
        self._place = place
        self._folder = run_folder / "standing"
        self._unconverted = raw
        self._commit: str | None = None

    def note(self, commit: str, index: Path) -> None:
        """A call starts from this commit, and the index is of it."""
        self._folder.mkdir(exist_ok=True)
        draft, target = self._folder / "draft", self._folder / commit
        draft.unlink(missing_ok=True)
        link_or_copy(index, draft)
        draft.replace(target)
        draft.unlink(missing_ok=True)  # both were the same file already
        if self._commit is None or self._commit != commit:
            for other in self._folder.iterdir():
                if other != target:
                    other.unlink()
        self._commit = commit

    @property
    def commit(self) -> str:
        """What the last call started from, or nothing."""
        if self._commit is None:
            names = sorted(self._folder.iterdir()) if self._folder.is_dir() else []
            self._commit = next((path.name for path in names if path.name != "draft"), "")
        return self._commit

    def converts(self, base: str) -> bool:
        """Whether bytes are kept for what the next snapshot grows from."""
        return self._unconverted.knows(base) or self._unconverted.knows(self.commit)

    def written(self, draft: Git, now: DraftDiff) -> Written:
        """What was written until now, as the draft has it."""
        since, changes, touched = self.commit or now.base, now.changes, None
        try:
            changes = self._changes(since, now)
            if self.commit:
                touched = written_since(self._git, self._folder / self.commit)
        except StepError:  # broken by an attempt, or the commit is gone
            since = now.base
        if touched is None:
            touched = files_in_index(draft)
        return Written(
            since, changes, touched, self._converted(draft, changes, touched), now.refreshed
        )

    def _changes(self, since: str, now: DraftDiff) -> tuple[Change, ...]:
        return now.changes if since == now.base else self._git.diff_trees(since, now.tree)

    def disk_blobs(self, written: Written, now: DraftDiff) -> dict[str, str] | None:
        """The bytes on disk where git would not give them back; None if it does for all files.

        Of what is in the tree now: the guard may have left out a secret since the look.
        """
        if now.refreshed > written.refreshed:
            written = replace(written, changes=self._changes(written.since, now))
        rules = any(is_attributes_file(change.path) for change in written.changes)
        if not (rules or written.converted or self._unconverted.knows(written.since)):
            return None
        before, paths = self._unconverted.of(written.since), written.paths
        disk_blobs = {path: raw for path, raw in before.items() if path not in paths}
        if rules:
            disk_blobs |= self._unconverted.converted_files() or {}
        return disk_blobs | self._unconverted.stored_from_disk(sorted(paths - written.removed))

    def _converted(
        self, draft: Git, changes: tuple[Change, ...], touched: tuple[str, ...]
    ) -> tuple[str, ...]:
        blobs = {c.path: c.blob for c in changes if c.status != "D" and c.new_mode != GITLINK}
        known = {change.path for change in changes}
        rest = [p for p in touched if p not in known and is_plain_file(self._place.top / p)]
        if rest:
            blobs |= blobs_in_index(draft, rest)
        return tuple(path for path, blob in blobs.items() if self._is_other(path, blob))

    def _is_other(self, path: str, blob: str) -> bool:
        """Whether a file on disk has other bytes than the blob."""
        file = self._place.top / path
        return is_plain_file(file) and file_name(file, len(blob)) != blob
