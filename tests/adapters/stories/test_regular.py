"""A file of usual lines, read in one go, has the stories that a look at every line finds."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from untildone.adapters.stories.checklists import fast_reader, grouping
from untildone.adapters.stories.checklists.checklist import DEFAULT_RULES, _scanned
from untildone.adapters.stories.checklists.task_lines import split
from untildone.domain.stories.story import Story

TITLES = st.sampled_from(["Log in", "A", "Parts (two), or: three/four.", "x-y z"])
TEXTS = st.sampled_from(
    ["do it", "in `a.py` [see](b)", "- [ ] no box", "Verify: `x`", "*b*", "#", "```", "~~~ a"]
)
MARKS = st.sampled_from([" ", "x", "X"])
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


def at_length(data: bytes) -> tuple[Story, ...]:
    lines = split(data)
    return grouping.stories(lines, _scanned(lines, DEFAULT_RULES)[0])


@given(USUAL_FILES)
@example("## 1. A\n- [ ] 1.1 no line end")
def test_usual_files_are_read_in_one_go(text: str) -> None:
    data = text.encode()
    found = fast_reader.stories(data)
    if found is None:
        assert any(equal_texts(story) for story in at_length(data))
    else:
        assert found == at_length(data)
        assert [s.done for s in found] == [s.done for s in at_length(data)]
        assert not any(equal_texts(story) for story in found)


def equal_texts(story: Story) -> bool:
    return len({task.text for task in story.tasks}) < len(story.tasks)


@pytest.mark.parametrize("second", ["- [x] 1.1 a b", "- [X] 1.1 a b", "- [ ] 1.1 a  b"])
@pytest.mark.parametrize("first", ["- [x] 1.1 a b", "- [ ] 1.1 a b"])
def test_equal_tasks_are_left_to_the_long_way_round(first: str, second: str) -> None:
    assert fast_reader.stories(f"## 1. A\n{first}\n{second}\n".encode()) is None


@given(USUAL_FILES, ODD_LINES, st.data())
def test_whatever_else_is_in_it_makes_no_difference(
    text: str, odd: str, data: st.DataObject
) -> None:
    rows = text.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(rows)))
    spoilt = "".join([*rows[:at], odd, *rows[at:]]).encode()
    found = fast_reader.stories(spoilt)
    if found is not None:
        assert found == at_length(spoilt)
        assert _scanned(split(spoilt), DEFAULT_RULES)[1] == []
