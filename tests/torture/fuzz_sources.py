"""Spoilt story files: whatever the bytes are, a parser answers, in time, and never with silence.

`make torture` spoils 100,000 files per format with a new seed, which it prints; `make check` 1,000,
always the same. A file that still can be run gets one story settled: the others stay as they are,
and so does every byte that is not a mark.
"""

import argparse
import contextlib
import json
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random, SystemRandom
from unittest.mock import patch

from tests.torture.seeds import BESIDE, PLACES, SEEDS
from untildone.adapters.stories.documents.tracker_program import Program
from untildone.adapters.stories.source_kind import Options
from untildone.domain.errors import StoriesError
from untildone.domain.stories.story import StoryBook
from untildone.ports import StorySource
from untildone.wiring.sources import kind

OUTSIDE = ("beads", "github")
HANGS_AFTER_S = 30.0
# Per input; a parser that is not linear needs minutes for the giants.
SLOW_S, SLOW_PER_BYTE_S = 1.0, 60e-6
_TEXTS = (
    *(
        "- [ ] ",
        "- [x] ",
        "[ ]",
        "[?]",
        "[~]",
        "## 2. B",
        "# ",
        "```\n",
        "<!--",
        "-->",
        "---\n",
    ),
    *("T001 ", "[P] ", "[US1]", "1.1 ", "* ", "1. ", "> ", "| ", "\t", "    ", "_Depends: 2_"),
    *(
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "\\",
        "\\u",
        "\\ud800",
        "null",
        "true",
        "1e999",
        "NaN",
    ),
    *('"id": ', '"passes": true', '"status": "done"', '"tasks": []', '"dependsOn": ["x"]'),
    *(
        "9" * 5000,
        "-0",
        "1.5",
        "'",
        "&a ",
        "*a ",
        "!!x ",
        "|\n",
        ">-\n",
        "<<: ",
        "? ",
        "- ",
        "#",
    ),
    *(
        "id: TASK-1\n",
        "status: Done\n",
        "completed: true\n",
        "Depends on #3",
        "\r",
        "\r\n",
        "\n",
    ),
    *("\u2028", "\u0085", "\ufeff", "\u202e", "é", "🙂", "x" * 300, "\x00", "\x1b[31m"),
)
_BYTES = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x99")
TOKENS = (*(text.encode() for text in _TEXTS), *_BYTES)
DEEP = (b"[", b'{"a":', b"- ", b"> ", b"  ", b"{a: ", b"(", b"#")
# Linear on giant lines: no part is tried again from each of its own characters.
_KEYS = rb"passes|completed|complete|done|[Ss]tatus|(?<![0-9a-z-])[0-9][0-9a-z-]*+|epic-[0-9]++"
_MASKS = (
    re.compile(
        rb'(?<![,\s])[,\s]*+"(?:' + _KEYS + rb')"\s*+:\s*+(?:true|false|null|"(?:[^"\\]|\\.)*")'
    ),
    re.compile(rb"(?m)^[ \t]*+(?:" + _KEYS + rb")[ \t]*+:[^\r\n]*+"),
    re.compile(rb"(?:, )?[\"']?(?:" + _KEYS + rb")[\"']?[ \t]*+:[^,}\r\n]*+"),
    re.compile(rb"(?<!\[)\[[^\]\n]*+\] ?"),
    re.compile(rb"\s+"),
)
# A state in YAML that goes on below its line cannot be told from other text by a pattern.
_FOLDED_STATE = re.compile(
    rb"(?m)^[ \t-]*(?:" + _KEYS + rb")[ \t]*:"
    rb"(?:[^\n]*\n(?:[ \t\r]*\n)*[ \t]+[^\s:]+(?![^\n]*:)|[ \t]*(?:'[^'\n]*|\"[^\"\n]*)\n)"
    rb"|[{,][ \t]*[\"']?(?:" + _KEYS + rb")[\"']?[ \t]*+:[^,}\n]*+\n"
)
_BAD_ID = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[/.]|[/.]$|\.lock$|^$|[\ud800-\udfff]")


class Wrong(AssertionError):
    """What a parser must never do."""


def wrong(name: str, what: str, data: bytes) -> Wrong:
    """It, with the input that made it."""
    shown = repr(data[:3000]) + (" …" if len(data) > 3000 else "")
    return Wrong(f"{name}: {what}\n  input: {shown}")


def spoilt(random: Random, seeds: tuple[bytes, ...]) -> bytes:
    """A realistic file after some accidents."""
    data = random.choice(seeds)
    for _ in range(random.choice((1, 1, 2, 3, 5, 12))):
        data = _accident(random, data, seeds)
    if random.random() < 0.01:
        data = _giant(random, data)
    return data


def _accident(random: Random, data: bytes, seeds: tuple[bytes, ...]) -> bytes:
    at = random.randrange(len(data) + 1)
    to = min(len(data), at + random.choice((1, 1, 4, 30, 300)))
    match random.randrange(12):
        case 0 if data[at:to]:
            return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[to:]
        case 3:
            return data[:to] + data[at:]
        case 4:
            return data.replace(b"\n", random.choice((b"\r\n", b"\r", b"\n\n", b" ")), 9**9)
        case 5:
            other = random.choice(seeds)
            return data[:at] + other[random.randrange(len(other)) :]
        case 6:
            lines = data.split(b"\n")
            random.shuffle(lines)
            return b"\n".join(lines)
        case 7:
            lines = data.split(b"\n")
            lines.insert(random.randrange(len(lines)), random.choice(lines))
            return b"\n".join(lines)
        case _:
            return data[:at] + random.choice(TOKENS) + data[random.choice((at, to)) :]


def _giant(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    times = random.choice((200, 2000, 20_000))
    piece = random.choice((*DEEP, b" ", b"a", b"[ ] ", data[at : at + 20], b"- [ ] x\n"))
    return data[:at] + piece * times + data[at:]


class Fuzz:
    """One format in a folder of its own."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.change, path = PLACES[name]
        self.file = root / path
        self.file.parent.mkdir(parents=True, exist_ok=True)
        named = path if name == "markdown" else ""
        self._root, self._options = root, Options(file=named)

    def one(self, data: bytes, random: Random) -> str:
        """One input; what became of it."""
        self.file.write_bytes(data)
        for path, other in BESIDE.get(self.name, {}).items():
            (self._root / path).write_bytes(other)
        source = kind(self.name.split("/")[0]).make(self._root, self.change, self._options)
        book = self._loaded(source, data)
        if book is None:
            return "error"
        self._look(book, data)
        if book.problems or not book.stories or self.name in OUTSIDE:
            return "problem" if book.problems else "read"
        self._settle(source, book, data, random)
        return "settled"

    def _loaded(self, source: StorySource, data: bytes) -> StoryBook | None:
        began = time.process_time()
        try:
            with _watched():
                book = source.load()
        except StoriesError as error:
            if not error.message.strip():
                raise wrong(self.name, "an error without a message", data) from error
            book = None
        except TimeoutError as error:
            raise wrong(self.name, "it hangs", data) from error
        except Exception as error:
            raise wrong(self.name, f"it crashes: {error!r}", data) from error
        took = time.process_time() - began
        if took > SLOW_S + SLOW_PER_BYTE_S * len(data):
            raise wrong(self.name, f"{took:.1f} s for {len(data)} bytes", data)
        return book

    def _look(self, book: StoryBook, data: bytes) -> None:
        over = book.ignored and all("counts as done" in remark.why for remark in book.ignored)
        if not book.stories and not book.problems and not over:
            raise wrong(self.name, "no story and not a word about it", data)
        for story in book.stories:
            if _BAD_ID.search(story.id):
                raise wrong(self.name, f"an id that is no part of a ref: {story.id!r}", data)
            try:
                texts = [story.title, story.body, story.acceptance, story.depends_on]
                tasks = [[task.text, task.detail, task.mark] for task in story.tasks]
                json.dumps([texts, tasks], ensure_ascii=False).encode()
            except UnicodeEncodeError as error:
                raise wrong(self.name, "text that cannot be printed", data) from error
        for remark in (*book.problems, *book.ignored):
            try:
                remark.why.encode()
            except UnicodeEncodeError as error:
                raise wrong(
                    self.name, f"a remark that cannot be printed: {remark}", data
                ) from error

    def _settle(self, source: StorySource, book: StoryBook, data: bytes, random: Random) -> None:
        story = random.choice(book.stories)
        try:
            source.settle(story, book)
            after = source.load()
        except Exception as error:
            raise wrong(self.name, f"settling {story.key} fails: {error!r}", data) from error
        done = [each.key for each in after.stories if each.done]
        wanted = [each.key for each in book.stories if each.done or each.key == story.key]
        if done != wanted:
            raise wrong(self.name, f"settling {story.key} gives {done}", data)
        if not _FOLDED_STATE.search(data) and _masked(self.file.read_bytes()) != _masked(data):
            raise wrong(self.name, f"settling {story.key} changes other bytes", data)


def _masked(data: bytes) -> bytes:
    for mask in _MASKS:
        data = mask.sub(b"", data)
    return data


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    def late(number: int, frame: object) -> None:
        raise TimeoutError

    old = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, HANGS_AFTER_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def explore(name: str, cases: int, seed: int) -> dict[str, int]:
    """Spoil files of one format; how many were what. The first bad one raises Wrong."""
    random = Random(f"{name} {seed}")
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None)
    counts: dict[str, int] = {}
    try:
        fuzz = Fuzz(name, Path(folder))

        def answer(self: Program, root: Path, *args: str) -> bytes:
            return fuzz.file.read_bytes()

        with patch.object(Program, "call", answer):
            for _ in range(cases):
                what = fuzz.one(spoilt(random, SEEDS[name]), random)
                counts[what] = counts.get(what, 0) + 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return counts


def main() -> int:
    """Many files with a new seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    parser.add_argument("--only", choices=PLACES, action="append")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print(f"spoilt story files with seed {options.seed}", flush=True)
    bad = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        names = options.only or list(PLACES)
        work = {n: pool.submit(explore, n, options.cases, options.seed) for n in names}
        for name, future in work.items():
            error = future.exception()
            bad += error is not None
            print(f"{name}: {error or future.result()}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
