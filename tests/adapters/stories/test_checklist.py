"""Grouping into stories, ids, details, remarks and problems of a Markdown checklist."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untildone.adapters.stories.checklists import (
    checklist,
    grouping,
    task_lines,
)
from untildone.adapters.stories.checklists.changed_tasks import BookChanges
from untildone.domain.stories.story import Remark, Story, StoryBook, Task

REALISTIC = Path(__file__).parents[2] / "corpus" / "openspec" / "realistic"


def parse(text: str | bytes) -> StoryBook:
    data = text.encode() if isinstance(text, str) else text
    return checklist.parse(data, change="demo", source="s", path="tasks.md")


def shape(book: StoryBook) -> list[tuple[str, str, list[str]]]:
    return [(story.id, story.title, [task.id for task in story.tasks]) for story in book.stories]


def test_a_numbered_group_is_a_story() -> None:
    assert parse(
        "# T\n\n## 1. Server\n\nSome prose.\n\n- [x] 1.1 one\n- [ ] two\n## 2. Client\n- [ ] a\n"
    ).stories == (
        Story(
            id="1",
            title="Server",
            tasks=(Task("1.1", "1.1 one", True, 7), Task("2", "two", False, 8)),
            line=3,
            body="Some prose.",
        ),
        Story(id="2", title="Client", tasks=(Task("1", "a", False, 10),), line=9),
    )


@pytest.mark.parametrize(
    ("name", "stories"),
    [
        ("04-phases", {"phase-1-measure": 2, "phase-2-index": 2, "phase-3-clean-up": 1}),
        ("05-numbered-below-phases", {"1": 2, "2": 1, "phase-b": 1, "3": 2}),
        (
            "06-flat",
            {"write-the-parser": 1, "write-the-printer": 1, "write-tests": 3, "release": 1},
        ),
        ("07-flat-numbered", {"1.1": 1, "1.2": 1, "1.3": 1, "2.1": 1}),
        ("08-chinese", {"1": 2, "2": 2, "测试": 2}),
        ("10-fences", {"1": 3, "2": 1}),
        ("11-unclosed-fence", {"1": 1, "2": 1}),
        ("16-kiro-like", {"1": 1, "2": 1, "2.1": 1, "2.2": 1, "3": 1}),
        ("17-ordered", {"1": 5, "2": 2}),
        ("18-heading-colon", {"1": 1, "2": 1, "3.1": 1, "3.2": 1, "10": 1}),
        ("21-preface-tasks", {"rollout": 2, "1": 2, "2": 1, "appendix": 1}),
        ("24-h3-groups", {"back-end": 2, "front-end": 2}),
        ("25-deep-numbers", {"1": 3, "3": 1}),
    ],
)
def test_groups_of_realistic_files(name: str, stories: dict[str, int]) -> None:
    book = parse((REALISTIC / f"{name}.md").read_bytes())
    assert [(story.id, len(story.tasks)) for story in book.stories] == list(stories.items())
    assert book.problems == ()


def test_tasks_before_every_heading_are_general() -> None:
    assert shape(parse("- [ ] a\n\n## 1. B\n- [ ] b\n")) == [
        ("general", "General", ["1"]),
        ("1", "B", ["1"]),
    ]


def test_a_level_one_heading_is_never_a_group() -> None:
    assert shape(parse("# 1. A\n- [ ] a\n- [ ] b\n")) == [("a", "a", ["1"]), ("b", "b", ["1"])]


def test_a_plain_integer_is_no_number() -> None:
    assert shape(parse("## 3 ways\n- [ ] a\n")) == [("3-ways", "3 ways", ["1"])]


def test_closing_signs_are_not_part_of_a_heading() -> None:
    book = parse("## 1. A ##\n- [ ] a\n## 2. C#\n- [ ] b\n## **3. Bold**\n- [ ] c\n")
    assert [(story.id, story.title) for story in book.stories] == [
        ("1", "A"),
        ("2", "C#"),
        ("3", "Bold"),
    ]


def test_what_only_looks_like_a_heading_or_a_fence() -> None:
    text = "## 1. A\n- [ ] a\n##2. B\nUse ```x``` here\n```` `x` ````\n## 2. C\n- [ ] b\n"
    assert shape(parse(text)) == [("1", "A", ["1"]), ("2", "C", ["1"])]


def test_headings_that_make_one_slug_get_different_ids() -> None:
    book = parse("## C\n- [ ] a\n## C++\n- [ ] b\n")
    assert len({story.id for story in book.stories}) == 2
    assert book.problems == ()


def test_equal_texts_of_a_flat_list_are_told_apart() -> None:
    book = parse("- [ ] Add tests\n- [x] Add tests\n- [ ] Add tests 2\n")
    assert [story.id for story in book.stories] == ["add-tests", "add-tests.2", "add-tests-2"]
    assert book.problems == ()


def test_a_fence_that_starts_in_a_list_item_closes_again() -> None:
    text = "## 1. A\n- [ ] a\n- ```sh\n  # no heading\n  ```\n## 2. B\n- [ ] b\n"
    assert shape(parse(text)) == [("1", "A", ["1"]), ("2", "B", ["1"])]


def test_details_stay_with_their_task() -> None:
    book = parse(
        "## 1. A\n"
        "- [ ] 1.1 parent\n"
        "  - a point\n"
        "\n"
        "  more\n"
        "  - [ ] 1.1.1 child\n"
        "    of the child\n"
        "  of the parent again\n"
        "- [ ] 1.2 next\n"
        "prose that is not indented\n"
        "  nor is this a detail\n"
    )
    assert [task.detail for task in book.stories[0].tasks] == [
        "  - a point\n\n  more\n  of the parent again",
        "    of the child",
        "",
    ]


def test_a_check_below_the_tasks_is_part_of_the_story() -> None:
    first, second = parse(
        "# T\n\n## 1. A\n\nWords.\n\n- [ ] 1.1 a\n  more\n\nSome notes: none\nVerify: `one`\r\n"
        "```\nVerify: `example`\n```\n## 2. B\n- [ ] 2.1 b\n\n**Verify:** `two`\n"
    ).stories
    assert first.body == "Words.\n\nVerify: `one`"
    assert second.body == "**Verify:** `two`"


def test_long_details_and_bodies_are_cut() -> None:
    text = "## 1. A\n" + "prose\n" * 2000 + "- [ ] a\n" + "  detail\n" * 2000
    (story,) = parse(text).stories
    left_out = "\n(The rest is left out here; it is in the file.)"
    for cut, limit in (
        (story.body, grouping.BODY_LIMIT),
        (story.tasks[0].detail, grouping.DETAIL_LIMIT),
    ):
        assert len(cut) <= limit + len(left_out)
        assert cut.endswith(left_out)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("> - [ ] a", "quotation"),
        ("> [x] a", "quotation"),
        ("| [ ] a | b |", "table"),
        ("### [ ] 1.1 a", "heading"),
        ("1234567890. [ ] a", "nine digits"),
        ("- - [ ] a", "two list markers"),
        ("1. - [x] a", "two list markers"),
        ("- [x](url)", "link"),
        ("- [🟡] a", "sign in the box"),
        ("- [WIP] a", "more than one character"),
        ("- [xx] a", "more than one character"),
        ("- ☐ a", "checkbox sign"),
        ("[ ] a", "no list marker"),
        ("• [ ] a", "not a list marker"),
        ("– [ ] a", "not a list marker"),
        ("1.1 [ ] a", "not a list marker"),
        ("# T\r- [ ] a", "carriage return"),
    ],
)
def test_lookalikes_are_remarked(line: str, word: str) -> None:
    (remark,) = parse(f"- [ ] real\n{line}\n").ignored
    assert remark.line == 2
    assert word in remark.why


@pytest.mark.parametrize(
    "line",
    [
        "- [guide](docs/guide.md)",
        "- [1](./one)",
        "- [guide]: docs/guide.md",
        "See [x] there, and [ ] here.",
        "- a plain point",
        "- an array[] of things",
        "",
    ],
)
def test_ordinary_lines_are_not_remarked(line: str) -> None:
    assert parse(f"- [ ] real\n{line}\n").ignored == ()


def test_the_second_task_behind_a_bare_carriage_return_is_remarked() -> None:
    book = parse("- [x] a\r- [ ] b\r")
    assert (book.total, book.complete) == (1, 1)
    assert [remark.line for remark in book.ignored] == [1]


def test_no_task_is_a_problem_at_the_first_list_item() -> None:
    why = "No `- [ ]` line was found, so there is nothing to do in: tasks.md"
    assert parse("# T\n\n- work\n").problems == (Remark(3, why),)
    assert parse("").problems == (Remark(1, why),)


def test_equal_story_ids_are_a_problem_and_still_count() -> None:
    book = parse("## 1. A\n- [x] a\n## 1. B\n- [ ] b\n")
    assert book.problems == (Remark(3, "Lines 1 and 3 start stories with the same id: 1"),)
    assert (book.total, book.complete) == (2, 1)


def test_the_same_numbered_task_twice_in_a_story_is_a_problem() -> None:
    book = parse("## 1. A\n- [ ] 1.1 a\n- [x] 1.1  a\n")
    assert book.problems == (Remark(3, "Lines 2 and 3 of story 1 hold the same task: 1.1"),)


@pytest.mark.parametrize(
    "text",
    [
        "## 1. A\n- [ ] 1.1 a\n- [ ] 1.1 b\n",
        "## 1. A\n- [ ] a\n- [ ] a\n",
        "## 1. A\n- [ ] 1.1 a\n## 2. B\n- [ ] 1.1 a\n",
    ],
)
def test_what_is_no_problem(text: str) -> None:
    assert parse(text).problems == ()


def test_a_story_is_found_again_after_edits_above_it() -> None:
    before = parse("## 1. A\n- [ ] a\n## 2.  Long   title\n- [ ] b\n")
    after = parse(
        "# New\n\n## 0. First\n- [ ] z\n\n## 1. A\n- [ ] a\n- [ ] c\n## 2. Long title\n- [x] b\n"
    )
    found = after.find(before.stories[1].key)
    assert found is not None
    assert (found.line, found.done) == (9, True)
    assert after.find(("2", "A")) is None


def test_tasks_are_found_again_by_text_and_occurrence() -> None:
    before = parse("## 1. A\n- [ ] same\n- [ ] other\n- [ ] more\n- [ ] same\n")
    after = parse("## 1. A\n- [ ] new\n- [ ] same\n- [x] same\n- [x] other\n- [ ] more\n")
    found = BookChanges(before, after).ticked()
    assert [(each.task.line, each.was.line) for each in found] == [(4, 5), (5, 3)]


PIECES = st.sampled_from(
    [
        *("- [ ] a", "- [x] b", "  - [ ] c", "- [] d", "- [ ](u)", "1) [~] e", "> - [ ]"),
        *("# T", "## 1. A", "## B", "### 1.1 C", "```", "~~~", "- ```", "<!--", "text"),
        *("\r", "\ufeff", "\t", "\u2028", ""),
    ]
)
MARKDOWN = st.lists(PIECES, max_size=40).map("\n".join).map(str.encode)


@given(st.binary() | MARKDOWN)
def test_parsing_never_fails_and_keeps_every_task_once(data: bytes) -> None:
    book = parse(data)
    lines = task_lines.split(data)
    counted = [n for n, line in enumerate(lines, start=1) if task_lines.read(line, n)]
    assert sorted(task.line for story in book.stories for task in story.tasks) == counted
    assert all(story.tasks and story.id for story in book.stories)
    assert bool(counted) == all("No `- [ ]`" not in problem.why for problem in book.problems)


TASK = st.builds(
    "{}{} [ ]{}".format,
    st.sampled_from(["", "  ", "\t", "\xa0"]),
    st.sampled_from(["-", "*", "+", "1.", "12)"]),
    st.text(alphabet="ab1. é文\r\t\u2028🎉[]x", max_size=12).map(lambda text: f" {text}"),
)
BETWEEN = st.sampled_from([b"", b"prose \xff\xc3", b"  detail\r", b"> - [ ] q", b"\t", b"~~~"])
GROUP = st.lists(st.tuples(TASK, BETWEEN), min_size=1, max_size=5)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    rows = []
    for number, group in enumerate(draw(st.lists(GROUP, min_size=1, max_size=6)), start=1):
        rows.append(f"## {number}. Story {number}".encode())
        for task, between in group:
            rows += [task.encode(), between]
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    return mark + end.join(rows) + draw(st.sampled_from([b"", end]))


@given(files(), st.data())
def test_ticking_some_stories_makes_exactly_those_done(data: bytes, draw: st.DataObject) -> None:
    before = parse(data)
    chosen = draw.draw(st.sets(st.sampled_from(before.stories)))
    lines = [task.line for story in chosen for task in story.tasks]
    ticked = task_lines.tick(data, lines)
    after = parse(ticked)
    assert {story.key for story in after.stories if story.done} == {story.key for story in chosen}
    assert len(ticked) == len(data)
    changed = [at for at, (old, new) in enumerate(zip(data, ticked, strict=True)) if old != new]
    assert len(changed) == len(lines)
    assert {(data[at : at + 1], ticked[at : at + 1]) for at in changed} <= {(b" ", b"x")}
    assert task_lines.untick(ticked, lines) == data


def test_a_heading_is_read_alike_with_and_without_blanks_behind_it() -> None:
    plain, blank = (parse(f"## 1. Log in{end}\n- [ ] a\n").stories[0] for end in ("", "  \t"))
    assert (plain.key, blank.key) == (("1", "Log in"), ("1", "Log in"))
    assert plain.title == blank.title


def test_open_work_that_does_not_count_keeps_the_list_from_being_done() -> None:
    text = "- [x] a\n[ ] b\n```\n[ ] an example\n```\n<!-- [ ] old\n-->\n| [ ] | c |\n"
    book = checklist.parse(text.encode(), change="c", source="s", path="p")
    assert [(r.line, r.unfinished) for r in book.ignored] == [(2, True), (4, False), (8, False)]
    assert "There is no list marker before the box" in book.unfinished
