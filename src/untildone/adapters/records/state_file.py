"""loop-state.json: valid at every instant, one writer, unknown fields of others kept."""

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from untildone.adapters.records import codec
from untildone.adapters.records.durable import free_name, replace_file
from untildone.domain.reporting.views import KNOWN_FIELDS, entry
from untildone.domain.run.run import Iteration
from untildone.plain_files import read_bytes, read_text

PLACE = "state-place"


class StateFile:
    """Writes the projection of a run; entries of finished iterations are encoded only once."""

    def __init__(self, path: Path, run_folder: Path | None = None) -> None:
        self.path = path
        self._name, self._draft = str(path), f"{path}.{os.getpid()}.tmp"
        self._folder = StateFolder(path, run_folder)
        self._unknown: dict[str, object] = {}
        self._encoded, self._count_encoded = bytearray(), 0
        self._tokens = 0
        self._cost: float | None = None
        self._last: tuple[bytes, int, bytes] | None = None

    def keep_unknown_fields(self) -> None:
        """Keep top-level fields of an existing file that are not ours."""
        with contextlib.suppress(OSError, ValueError):
            data = json.loads(read_text(self.path)) if self.path.is_file() else None
            if isinstance(data, dict):
                self._unknown = {k: v for k, v in data.items() if k not in KNOWN_FIELDS}

    def write(self, head: Mapping[str, object], iterations: Sequence[Iteration]) -> tuple[str, ...]:
        """Replace the file by temp file, fsync and rename; totals are of all calls.

        Says what was in the way.
        """
        start, row = self._rendered(head, iterations)
        content = (start, len(iterations), row)
        if content == self._last:
            return ()
        parts = (start, b', "iterations": [', self._encoded, row, b"]}\n")
        moved = () if self._replaced_at_once(parts) else self._replaced(parts)
        self._last = content
        return moved

    def _rendered(
        self, head: Mapping[str, object], iterations: Sequence[Iteration]
    ) -> tuple[bytes, bytes]:
        """The fields before the iterations, and the last iteration, which may still change."""
        settled = max(len(iterations) - 1, 0)
        if settled < self._count_encoded:
            self._encoded, self._count_encoded, self._tokens, self._cost = bytearray(), 0, 0, None
        for iteration in iterations[self._count_encoded : settled]:
            self._settle(iteration)
        tokens, cost, row = self._tokens, self._cost, b""
        if iterations:
            last = iterations[-1]
            row = _dump(entry(last))
            tokens += last.usage.total if last.usage else 0
            cost = _plus(cost, last)
        cost = _sum(cost, head.get("unattempted_cost_usd"))
        tokens += _number(head.get("unattempted_tokens"))
        totals = {"total_tokens": tokens, "total_cost_usd": cost}
        return _dump(codec.encode({**self._unknown, **head, **totals}))[:-1], row

    def _replaced_at_once(self, parts: Sequence[bytes | bytearray]) -> bool:
        """The usual case, twice a story: nothing is in the way, and four calls are enough."""
        if self._last is None or not self._folder.is_as_at_start():
            return False
        try:
            replace_file(self._name, parts, self._draft, new_draft=True)
        except (FileExistsError, IsADirectoryError, NotADirectoryError, FileNotFoundError):
            return False
        return True

    def _replaced(self, parts: Sequence[bytes | bytearray]) -> tuple[str, ...]:
        moved = self._folder.clear(Path(self._draft))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._last is None:
            self._remove_drafts_of_the_dead()
        replace_file(self._name, parts, self._draft)
        self._folder.note()
        return moved

    def _remove_drafts_of_the_dead(self) -> None:
        for draft in self.path.parent.glob(f"{self.path.name}.*.tmp"):
            pid = draft.suffixes[-2].removeprefix(".")
            if pid.isdecimal() and not _lives(int(pid)):
                draft.unlink(missing_ok=True)

    def _settle(self, iteration: Iteration) -> None:
        # One run of bytes: ten thousand small ones would take longer to write.
        self._encoded += _dump(entry(iteration)) + b",\n"
        self._count_encoded += 1
        self._tokens += iteration.usage.total if iteration.usage else 0
        self._cost = _plus(self._cost, iteration)


class StateFolder:
    """The folder of the state file, as it was when the run began: an attempt may replace it.

    A folder that is a link of the user's is written through; one that an attempt made is not.
    """

    def __init__(self, path: Path, run_folder: Path | None) -> None:
        self._path = path
        self._run_folder = run_folder
        self._link: str | None = None
        if run_folder and (run_folder / PLACE).exists():
            self._link = os.fsdecode(read_bytes(run_folder / PLACE))

    def is_as_at_start(self) -> bool:
        """Whether it was a plain folder when the run began, and still is."""
        if self._link != "":
            return False
        try:
            return stat.S_ISDIR(os.lstat(self._path.parent).st_mode)
        except OSError:
            return False

    def note(self) -> None:
        """After the first write of a run: this is how it should be."""
        if self._link is None and self._run_folder and self._run_folder.is_dir():
            self._link = _link(self._path.parent)
            note = self._run_folder / PLACE
            replace_file(note, [os.fsencode(self._link)], note.with_suffix(".draft"))

    def clear(self, draft: Path) -> tuple[str, ...]:
        """Move aside what an attempt has put there; what was there at the start is the user's."""
        if self._link is None:
            return ()
        folder, moved = self._path.parent, []
        if _link(folder) not in ("", self._link) or (
            os.path.lexists(folder) and not _is_dir(folder)
        ):
            moved.append(self._move(folder))
        if self._link and not os.path.lexists(folder):
            folder.symlink_to(self._link)
        if self._path.is_dir() and not self._path.is_symlink():
            moved.append(self._move(self._path))
        if os.path.lexists(draft):
            moved.append(self._move(draft))
        return tuple(moved)

    def _move(self, path: Path) -> str:
        assert self._run_folder is not None
        aside = self._run_folder / "aside"
        aside.mkdir(exist_ok=True)
        target = free_name(aside, path.name)
        shutil.move(path, target)
        return f"`{path.name}` was in the way of the state file; it was moved to: {target}"


def _link(path: Path) -> str:
    return os.readlink(path) if path.is_symlink() else ""  # noqa: PTH115 - as it is written


def _is_dir(path: Path) -> bool:
    return path.is_dir() or path.is_symlink()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _plus(cost: float | None, iteration: Iteration) -> float | None:
    return _sum(cost, iteration.usage.cost_usd if iteration.usage else None)


def _sum(cost: float | None, more: object) -> float | None:
    return round((cost or 0.0) + more, 6) if isinstance(more, float) else cost


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
