"""Runs of this release as golden files: what it wrote must be read the same for ever.

`python -m tests.golden.make` is run by hand, once per release, and writes `tests/golden/VERSION`.
What is there is never written again: if a test of it fails, the reader is wrong. A new scenario is
added to a release that is not out yet by running it once more. Every folder holds one run:

- `journal.jsonl`: the journal, byte for byte but for the folder that the run was made in,
- `loop-state.json`: the state file, if it was this run's in the end,
- `run.json`: the run that the journal was replayed to, by the code that wrote it,
- `logs`: what the agent said, for `untildone replay`.

Paths of this machine are replaced by one of the same length: the logs are read by position.
"""

from __future__ import annotations

import json
import platform
import re
import secrets
import sys
import tempfile
from pathlib import Path

from tests.e2e.bench import Bench
from tests.golden import by_hand, plain
from tests.golden.scenarios import SCENARIOS
from untildone import __version__
from untildone.adapters.records.journal import KINDS, events, replayed
from untildone.app.recovery import replay

HERE = Path(__file__).parent
TARGET = HERE / __version__
PLACE = "/home/ada/golden-bench"
STATE = ".claude/loop-state.json"
LARGEST_LOG = 10_000
# There is one lane, and the book is not journalled.
ALWAYS_EMPTY = ("lane", "book")


def main() -> None:
    """Run every scenario that is not there yet, and say what the files cover."""
    for scenario in SCENARIOS:
        name = scenario.__name__.replace("_", "-")
        if (TARGET / name).exists():
            continue
        print(name, flush=True)
        bench = Bench(_root())
        try:
            scenario(bench)
            _store(bench, name)
        finally:
            bench.close()
    if not (TARGET / by_hand.NAME).exists():
        by_hand.write(TARGET / by_hand.NAME)
        _tell_run(TARGET / by_hand.NAME)
    _check_words()
    _check_coverage()


def _root() -> Path:
    """A new folder whose path is as long as the one that is written in its place."""
    top = Path(tempfile.gettempdir()).resolve()
    left = len(PLACE) - len(f"{top}/ud")
    assert left >= 6, f"the path of the temporary folder is too long: {top}; set TMPDIR"
    return top / f"ud{secrets.token_hex(left)[:left]}"


def _store(bench: Bench, name: str) -> None:
    states = [path.read_bytes() for path in sorted(bench.root.glob(f"repo*/{STATE}"))]
    owners = {json.loads(state)["run_id"]: state for state in states}
    journals = sorted(bench.repo.glob(".git/**/journal.jsonl"), key=lambda path: path.parent.name)
    assert journals, "no run was recorded"
    for k, journal in enumerate(reversed(journals)):
        folder = TARGET / (f"{name}-{k + 1}" if k else name)
        (folder / "logs").mkdir(parents=True)
        (folder / "journal.jsonl").write_bytes(_neutral(journal.read_bytes(), bench))
        if state := owners.get(journal.parent.name):
            (folder / "loop-state.json").write_bytes(_neutral(state, bench))
        for log in journal.parent.glob("logs/*.log"):
            if log.stat().st_size < LARGEST_LOG:
                for path in (log, log.with_name(f"{log.name}.times")):
                    (folder / "logs" / path.name).write_bytes(_neutral(path.read_bytes(), bench))
        _tell_run(folder)


def _neutral(data: bytes, bench: Bench) -> bytes:
    data = data.replace(str(bench.root).encode(), PLACE.encode())
    return data.replace(_slug(str(bench.root)), _slug(PLACE))


def _slug(path: str) -> bytes:
    return re.sub(r"[^a-zA-Z0-9]", "-", path).encode()


def _tell_run(folder: Path) -> None:
    run = replay(replayed(folder / "journal.jsonl"))
    (folder / "run.json").write_text(plain.text(run), encoding="utf-8")


def _check_words() -> None:
    """Nothing of this machine is in the files."""
    top, checkout = tempfile.gettempdir(), str(HERE.parents[1])
    words = [top, checkout, str(Path.home()), sys.prefix, platform.node()]
    for path in (path for path in TARGET.rglob("*") if path.is_file()):
        data = path.read_bytes()
        found = [word for word in words if len(word) > 3 and word.encode() in data]
        assert not found, f"{path}: {found}"


def _check_coverage() -> None:
    """Every fact is there, with a value of its own in every field, and every event."""
    told = [fact for path in TARGET.glob("*/journal.jsonl") for fact, _ in replayed(path)]
    kinds = {type(fact).__name__ for fact in told}
    assert kinds == set(KINDS), set(KINDS) - kinds
    seen: dict[str, bool] = {}
    for fact in told:
        _note_fields(plain.dump(fact), seen)
    empty = [name for name, filled in seen.items() if not filled]
    empty = [name for name in empty if name.partition(".")[2] not in ALWAYS_EMPTY]
    assert not empty, f"never filled: {empty}"
    names = {row["event"] for path in TARGET.glob("*/journal.jsonl") for row in events(path)}
    size = sum(path.stat().st_size for path in TARGET.rglob("*") if path.is_file())
    print(f"{len(kinds)} kinds of facts, {len(names)} kinds of events, {size // 1024} KiB")


def _note_fields(data: object, seen: dict[str, bool]) -> None:
    if isinstance(data, dict):
        for name, value in data.items():
            key = f"{data['class']}.{name}"
            seen[key] = seen.get(key, False) or bool(value)
            _note_fields(value, seen)
    elif isinstance(data, list):
        for item in data:
            _note_fields(item, seen)


if __name__ == "__main__":
    main()
