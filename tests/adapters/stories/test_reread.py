"""A file in which only boxes changed is read by looking at these: with the same result."""

import re
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from untildone.adapters.stories import kiro, markdown, speckit
from untildone.adapters.stories.checklists import checklist, grouping
from untildone.adapters.stories.checklists.checklist import DEFAULT_RULES, Rules, Stories
from untildone.domain.stories.story import Remark, StoryBook

TITLES = st.sampled_from(["Log in", "A", "Parts (two), or: three/four.", "x-y z"])
TEXTS = st.sampled_from(
    ["do it", "in `a.py` [see](b)", "- [ ] no box", "Verify: `x`", "*b*", "#", "```", "~~~ a"]
)
MARKS = st.sampled_from([" ", "x", "X"])
BOXES = st.sampled_from(["[ ]", "[x]", "[x]", "[X]", "[]", "[-]", "[?]", "[x](l)"])
NUMBERS = st.integers(1, 30)
GAPS = st.integers(0, 3).map(lambda n: "\n" * n)


@st.composite
def groups(draw: st.DrawFn) -> str:
    number = draw(NUMBERS)
    rows = [f"## {number}. {draw(TITLES)}\n", draw(GAPS)]
    rows += [
        f"- [{draw(MARKS)}] {number}.{draw(NUMBERS)} {draw(TEXTS)}\n"
        for _ in range(draw(st.integers(1, 3)))
    ]
    return "".join([*rows, draw(GAPS)])


USUAL_FILES = st.builds(
    "".join, st.tuples(st.sampled_from(["", "# Tasks\n", "# Tasks\n\n"]), groups(), groups())
)
ODD = """\
text
### 1. Sub
## Notes
## 3. Empty
- [ ] no number
- [ ]
  - [ ] 1.9 nested
  detail
```
~~~
* [ ] 1.8 star
1. [ ] 2.2 one
- [-] 1.6 odd mark
- [?] 1.5 which
- [x](link)
- [ ] 1.4 ü
## 2. Größe
---
Verify: `make`
## 7. C#
## 8. **Bold**
# Second title
"""
SIGNS = (" \n", "\t\n", "- [ ] 1.7 blank \n", "- [ ] 1.3 cr\r\n", "\ufeff", "- [ ] 1.1 last")
ODD_LINES = st.sampled_from([*ODD.splitlines(keepends=True), *SIGNS])


@st.composite
def files(draw: st.DrawFn) -> list[str]:
    """The lines of a file, most of them usual."""
    rows = draw(USUAL_FILES).splitlines(keepends=True)
    for odd in draw(st.lists(ODD_LINES, max_size=3)):
        rows.insert(draw(st.integers(0, len(rows))), odd)
    return rows


@st.composite
def edits(draw: st.DrawFn, rows: list[str]) -> list[str]:
    """The same with some boxes flipped, and now and then another line."""
    rows = list(rows)
    for at in draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=4)):
        rows[at] = re.sub(r"\[.?\]", draw(BOXES), rows[at], count=1)
    if draw(st.integers(0, 3)) == 0:
        rows.insert(draw(st.integers(0, len(rows))), draw(ODD_LINES))
    if draw(st.integers(0, 5)) == 0:
        del rows[draw(st.integers(0, len(rows) - 1))]
    return rows


RULES = {"openspec": DEFAULT_RULES, "markdown": markdown.RULES, "kiro": kiro.RULES}
RULES |= {"speckit": speckit.RULES, "no group": Rules(group=grouping.by_top_task)}


@pytest.mark.parametrize("granularity", ["group", "task", "change"])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@settings(max_examples=60)
@given(files(), st.data())
def test_a_file_that_was_edited_is_read_as_if_it_were_new(
    rules: Rules, granularity: str, rows: list[str], data: st.DataObject
) -> None:
    def read(rows: list[str]) -> StoryBook:
        parse = partial(checklist.parse, change="c", source="s", path="p")
        return parse("".join(rows).encode(), rules=rules, granularity=granularity)

    checklist.forget()
    read(rows).next_story(frozenset())
    for _ in range(2):
        rows = data.draw(edits(rows) if rows else files())
        again = read(rows)
        checklist.forget()
        fresh = read(rows)
        assert again == fresh
        assert again.open_stories(frozenset()) == fresh.open_stories(frozenset())
        assert (again.total, again.complete) == (fresh.total, fresh.complete)


TEXT = b"# T\n\n## 1. A\n- [ ] 1.1 a\n- [ ] 1.2 b\n\n## 2. B\n- [ ] 2.1 c\n\n## 3. C\n- [ ] 3.1 d"


@pytest.mark.parametrize("rules", [DEFAULT_RULES, markdown.RULES])
def test_stories_whose_boxes_stay_are_the_very_same(rules: Rules) -> None:
    def read(data: bytes) -> StoryBook:
        return checklist.parse(data, change="c", source="s", path="p", rules=rules)

    before = read(TEXT)
    assert read(TEXT) is before
    after = read(TEXT.replace(b"[ ] 1.2", b"[x] 1.2").replace(b"[ ] 3.1", b"[X] 3.1"))
    assert after.stories[1] is before.stories[1]
    assert [story.done for story in after.stories] == [False, False, True]
    assert after.stories[0].tasks[0] is before.stories[0].tasks[0]
    back = read(TEXT)
    assert back == before
    assert back.stories[1] is before.stories[1]
    assert read(TEXT.replace(b"1.2 b", b"1.2 B")).stories[1] is not before.stories[1]


def _waits_for_itself(
    lines: Sequence[str], groups: Stories, stories: Stories
) -> tuple[Stories, list[Remark]]:
    return tuple(replace(story, depends_on=(story.id,)) for story in stories), []


@pytest.mark.parametrize(
    ("rules", "text", "problems"),
    [
        (Rules(annotate=_waits_for_itself, plain_ticks=True), "## 1. A\n- [ ] 1.1 a\n", (1, 0)),
        (kiro.RULES, "- [ ] 1. A\n  - [ ] 1.1 a\n- [ ] 2. B\n", (0, 0)),
    ],
)
def test_a_tick_that_changes_more_than_its_task_is_read_anew(
    rules: Rules, text: str, problems: tuple[int, int]
) -> None:
    def read(text: str) -> StoryBook:
        return checklist.parse(text.encode(), change="c", source="s", path="p", rules=rules)

    before, after = read(text), read(text.replace("[ ] 1.1", "[x] 1.1"))
    assert (len(before.problems), len(after.problems)) == problems
    assert (before.stories[0].done, after.stories[0].done) == (False, True)


def test_the_file_that_was_not_read_for_longest_is_forgotten() -> None:
    books = [checklist.parse(TEXT, change=f"c{n}", source="s", path="p") for n in range(9)]
    again = [checklist.parse(TEXT, change=f"c{n}", source="s", path="p") for n in (8, 0)]
    assert (again[0] is books[8], again[1] is books[0], again[1] == books[0]) == (True, False, True)
