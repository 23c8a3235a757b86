"""Checklists that consist of the most usual lines only, read in one go.

Numbered groups of numbered tasks in plain ASCII, and nothing else: what most generated files look
like. Everything a line can mean beyond that is `grouping`'s business; a test wants the same stories
of both.
"""

import re
from itertools import accumulate, chain

from untildone.domain.story import Story, Task

_TITLE = r"[A-Za-z](?:[\w ,.:()/-]*[\w.)])?"
_HEAD = re.compile(rf"(?:# {_TITLE}\n+)?")
_GROUP = re.compile(rf"## ([0-9]{{1,9}})\. ({_TITLE})\n(\n*)((?:- \[[^\n]*\n)+)(\n*)")
_SIGNS = len("## " + ". " + "\n")
_TASK = re.compile(
    r"^- \[([ xX])\] (([0-9]{1,9}(?:\.[0-9]{1,9}){1,7}) [!-~][ -~]*)(?<! )\n", re.MULTILINE
)
_FENCES = (b"```", b"~~~")


def stories(data: bytes) -> tuple[Story, ...] | None:
    """The stories of a file of this kind; None if it has anything else in it."""
    if not data.startswith(b"#") or not data.isascii() or any(mark in data for mark in _FENCES):
        return None
    text = data.decode("ascii")
    text = text if text.endswith("\n") else f"{text}\n"
    head = _HEAD.match(text)
    start = head.end() if head else 0
    groups = _GROUP.findall(text, start)
    length = start + sum(map(len, chain.from_iterable(groups))) + _SIGNS * len(groups)
    tasks = _TASK.findall(text, start)
    counts = [block.count("\n") for _, _, _, block, _ in groups]
    if length != len(text) or len(tasks) != sum(counts):
        return None
    return tuple(_made(groups, counts, tasks, text.count("\n", 0, start) + 1))


def _made(
    groups: list[tuple[str, ...]], counts: list[int], tasks: list[tuple[str, ...]], line: int
) -> list[Story]:
    headings = []
    lines: list[int] = []
    for (_, _, gap, _, tail), count in zip(groups, counts, strict=True):
        headings.append(line)
        line += 1 + len(gap)
        lines += range(line, line + count)
        line += count + len(tail)
    boxes = [
        Task(name, text, mark != " ", at)
        for (mark, text, name), at in zip(tasks, lines, strict=True)
    ]
    ends = accumulate(counts)
    return [
        Story(number, title, tuple(boxes[end - count : end]), (), at)
        for (number, title, _, _, _), count, end, at in zip(
            groups, counts, ends, headings, strict=True
        )
    ]
