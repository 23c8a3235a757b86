"""Checklists that consist of the most usual lines only, read in one go.

Numbered groups of numbered tasks in plain ASCII, and nothing else: what most generated files look
like. Everything a line can mean beyond that is `grouping`'s business; a test wants the same stories
of both.
"""

import re

from untildone.domain.stories.story import Story, Task, Unread

_TITLE = r"[A-Za-z][\w ,.:()/-]*+(?<=[\w.)])"
_HEAD = re.compile(rf"(?:# {_TITLE}\n+)?")
_BOX = r"- \[[ xX]\] [0-9]{1,9}(?:\.[0-9]{1,9}){1,7}+ [!-~][ -~]*+(?<! )\n"
_GROUP = re.compile(rf"^## ([0-9]{{1,9}})\. ({_TITLE})(\n++(?:{_BOX})++\n*+)", re.MULTILINE)
_MARK = len("- [")
_TEXT = len("- [ ] ")
_WIDE = re.compile("  ")  # two texts that are equal but for their blanks are the same task


def stories(data: bytes) -> tuple[Story, ...] | None:
    """The stories of a file of this kind; None if it has anything else in it."""
    if not data.startswith(b"#") or not data.isascii():
        return None
    text = data.decode("ascii")
    if _WIDE.search(text):
        return None
    text = text if text.endswith("\n") else f"{text}\n"
    head = _HEAD.match(text)
    start = head.end() if head else 0
    line = text.count("\n", 0, start) + 1
    found = []
    for number, title, block in _GROUP.findall(text, start):
        rows = block.split("\n")
        total = len(rows) - rows.count("")
        complete = total - block.count("\n- [ ]")
        if len(set(_open(block) if complete else rows)) <= total:
            return None
        found.append(Story(number, title, Unread(_tasks, block, line, total, complete), (), line))
        line += len(rows) - 1
    return tuple(found) if line == text.count("\n") + 1 else None


def _tasks(block: str, line: int) -> tuple[Task, ...]:
    rows = [(at, row) for at, row in enumerate(block.split("\n"), start=line) if row]
    return tuple(
        [
            Task(row[_TEXT : row.index(" ", _TEXT)], row[_TEXT:], row[_MARK] != " ", at)
            for at, row in rows
        ]
    )


def _open(block: str) -> list[str]:
    """The lines of a block with no box ticked: equal tasks are equal whatever their state."""
    return block.replace("- [x]", "- [ ]").replace("- [X]", "- [ ]").split("\n")
