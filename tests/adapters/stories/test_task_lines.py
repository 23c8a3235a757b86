"""Flipping one box changes one character and nothing else."""

import pytest

from untildone.adapters.stories.checklists import task_lines


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"- [ ] a", b"- [x] a"),
        (b"\xef\xbb\xbf- [ ] a\r\n", b"\xef\xbb\xbf- [x] a\r\n"),
        (b"- [~] a", b"- [x] a"),
        (b"- [  ] a", b"- [x ] a"),
        (b"- [ ~ ] a", b"- [ x ] a"),
        (b"- [\t] a", b"- [x] a"),
        (b"- [\xe2\x9c\x85] a", b"- [x] a"),
        (b"- [\xff] a\xff", b"- [x] a\xff"),
        (b"- [\xe2\x9c] a", b"- [x] a"),
        (b"- [\xc2\xa0] a", b"- [x] a"),
        (b"\xc2\xa0- [ ] \xff", b"\xc2\xa0- [x] \xff"),
        (b"12) [ ] [ ] a [ ]", b"12) [x] [ ] a [ ]"),
        (b"- [X] a", b"- [X] a"),
        (b"- [x] a", b"- [x] a"),
        # The two that need one byte more.
        (b"- [] a", b"- [x] a"),
        (b"- [ ](url)", b"- [x] (url)"),
        (b"- [ ][ref]", b"- [x] [ref]"),
    ],
)
def test_tick(before: bytes, after: bytes) -> None:
    assert task_lines.tick(before, [1]) == after
    task = task_lines.read(task_lines.split(after)[0], 1)
    assert task is not None
    assert task.done


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"- [x] a", b"- [ ] a"),
        (b"- [X] a\r", b"- [ ] a\r"),
        (b"- [ x ] a", b"- [   ] a"),
        (b"- [x\xc2\xa0] \xff", b"- [ \xc2\xa0] \xff"),
        (b"- [~] a", b"- [~] a"),
        (b"- [ ] a", b"- [ ] a"),
    ],
)
def test_untick(before: bytes, after: bytes) -> None:
    assert task_lines.untick(before, [1]) == after


def test_only_the_named_lines_change() -> None:
    data = b"\xef\xbb\xbf- [ ] a\r\n\r\n- [ ] b\n- [ ] c\xff"
    assert task_lines.tick(data, [3]) == b"\xef\xbb\xbf- [ ] a\r\n\r\n- [x] b\n- [ ] c\xff"


def test_a_line_that_is_no_task_is_refused() -> None:
    with pytest.raises(ValueError, match="not a task line"):
        task_lines.tick(b"- a", [1])


@pytest.mark.parametrize(
    ("line", "column"),
    [("- a", 0), ("  - a", 2), ("\t- a", 4), (" \t- a", 4), ("\ufeff- a", 0), ("", 0)],
)
def test_indent(line: str, column: int) -> None:
    assert task_lines.indent_of(line) == column


@pytest.mark.parametrize(
    ("line", "work"),
    [
        *((line, True) for line in ("[ ] text", "- ☐ text", "## [ ] text", "a) [ ] text")),
        *((line, True) for line in ("- - [ ] text", "• [] text", "⬜ text", "1.1 [ ] text")),
        *((line, False) for line in ("[x] text", "- ☑ text", "| [ ] | text |", "> - [ ] text")),
        *((line, False) for line in ("[ ] = open", "- ☐ - open", "All `[ ]` are open", "[ ]")),
    ],
)
def test_what_is_not_counted_and_still_to_do(line: str, work: bool) -> None:
    assert task_lines.is_open_work(line) is work
