"""Tick some stories of a made-up file, read it again: only those are done, no other byte moved."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from untildone.adapters.stories import kiro, markdown, speckit
from untildone.adapters.stories.checklists.checklist import DEFAULT_RULES, Rules
from untildone.adapters.stories.checklists.checklist_source import ChecklistFile
from untildone.domain.stories.story import StoryBook

RULES = {
    "openspec": DEFAULT_RULES,
    "speckit": speckit.RULES,
    "kiro": kiro.RULES,
    "markdown": markdown.RULES,
}
GRANULARITIES = ("group", "task", "change")

WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\u2028\u2029"),
    min_size=1,
    max_size=12,
)
NOISE = st.one_of(
    WORDS,
    st.sampled_from(["", "```", "<!-- x", "-->", "> - [ ] q", "| [ ] |", "- [x](y)", "  text"]),
)


@st.composite
def task(draw: st.DrawFn, number: int) -> str:
    """A line with a box that every format but its own number counts."""
    indent = draw(st.sampled_from(["", "", "", "  ", "\t"]))
    marker = draw(st.sampled_from(["-", "*", "+", "1."]))
    box = draw(st.sampled_from([" ", " ", "x", "X", "", "-", "~"]))
    return f"{indent}{marker} [{box}] T{number:03d} {draw(WORDS)}"


@st.composite
def file(draw: st.DrawFn) -> bytes:
    """Headings, boxes and noise; any line end, maybe a mark at the start and bad bytes."""
    rows: list[str] = []
    for number in range(draw(st.integers(1, 12))):
        if draw(st.integers(0, 3)) == 0:
            rows.append(f"## {number}. {draw(WORDS)}")
        rows += draw(st.lists(NOISE, max_size=2))
        rows.append(draw(task(number)))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    data = end.join(rows).encode() + draw(st.sampled_from([b"", b"\n", b"\r\n", b"\xff\xfe\n"]))
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + data


def states(book: StoryBook) -> dict[tuple[str, str], bool]:
    return {story.key: story.done for story in book.stories}


def boxes_differ_only(before: bytes, after: bytes, lines: set[int]) -> bool:
    """All lines but these are equal, and in these nothing but what stands in the first box."""
    old, new = before.split(b"\n"), after.split(b"\n")
    if len(old) != len(new):
        return False
    for number, (a, b) in enumerate(zip(old, new, strict=True), start=1):
        if number not in lines:
            if a != b:
                return False
        elif (a.partition(b"[")[0], a.partition(b"]")[2]) != (
            b.partition(b"[")[0],
            b.partition(b"]")[2],
        ):
            return False
    return True


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("name", RULES)
@settings(max_examples=25)
@given(data=st.data())
def test_only_what_is_ticked_is_done(name: str, granularity: str, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        _round_trip(Path(folder), RULES[name], granularity, data.draw(file()), data.draw)


def _round_trip(
    root: Path,
    rules: Rules,
    granularity: str,
    content: bytes,
    draw: Callable[[st.SearchStrategy[int]], int],
) -> None:
    path = root / "tasks.md"
    path.write_bytes(content)
    source = ChecklistFile(root, "tasks.md", "demo", "s", rules, granularity)
    book = source.load()
    if book.problems:
        return
    expected = states(book)
    lines: set[int] = set()
    for _ in range(draw(st.integers(0, len(book.stories)))):
        now = source.load()
        story = now.stories[draw(st.integers(0, len(now.stories) - 1))]
        source.settle(story, now)
        expected[story.key] = True
        lines |= {task.line for task in (*story.tasks, *now.parents)}
    assert states(source.load()) == expected
    assert boxes_differ_only(content, path.read_bytes(), lines)
    # What an agent ticks by itself is taken back to the letter.
    before, kept = source.load(), path.read_bytes()
    everything = replace(source, granularity="change")
    whole = everything.load()
    everything.settle(whole.stories[0], whole)
    source.take_back(before)
    assert states(source.load()) == states(before)
    assert boxes_differ_only(kept, path.read_bytes(), {t.line for t in whole.stories[0].tasks})
