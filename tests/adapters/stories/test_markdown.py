"""Plain Markdown checklists: usual files, any file, examples that are no work."""

from pathlib import Path

import pytest

from untildone.adapters.stories import markdown
from untildone.adapters.stories.markdown import Markdown
from untildone.adapters.stories.source_kind import Found, Options
from untildone.domain.errors import StoriesError, UserError
from untildone.wiring.sources import story_source

TEXT = """\
# Plan

- [ ] one
- [x] two
<!-- - [ ] on one line -->
<!--
- [ ] old
-->
- [ ] three <!-- see
- [ ] below --> x

```
- [ ] an example
```
"""


def put(root: Path, path: str, text: str = TEXT) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_file_without_boxes_is_no_change_but_says_so_when_asked_for(tmp_path: Path) -> None:
    put(tmp_path, "PRD.md", "# Plan\n\n- no box\n")
    assert not markdown.recognises(tmp_path, "prd")
    (problem,) = Markdown(tmp_path, "prd").load().problems
    assert (problem.line, "PRD.md" in problem.why) == (3, True)


def test_other_signs_are_open_and_told(tmp_path: Path) -> None:
    put(tmp_path, "TODO.md", "- [-] dropped\n- [?] which\n- [X] done\n- [] empty\n")
    book = Markdown(tmp_path, "todo").load()
    assert [story.done for story in book.stories] == [False, False, True, False]
    assert [(r.line, r.why) for r in book.ignored] == [(1, "`[-]` counts as open.")]


def test_boxes_in_examples_and_comments_do_not_count(tmp_path: Path) -> None:
    put(tmp_path, "PRD.md")
    book = Markdown(tmp_path, "prd").load()
    assert [(s.title, s.done) for s in book.stories] == [
        ("one", False),
        ("two", True),
        ("three <!-- see", False),
    ]
    assert [remark.line for remark in book.ignored] == [7, 10, 13]


def test_headings_that_only_hold_others_are_no_stories(tmp_path: Path) -> None:
    text = (
        "# Plan\n\n## 7. Task list\n\n### Phase 1\n\n#### Base\n- [x] 1. Pool\n\n"
        "#### Tests\n- [ ] 2. Of the pool\n\n### Phase 2\n- [ ] 3. Glue\n\n"
        "#### Tests\n- [ ] 4. Of the glue\n\n## Sign-off\n- [ ] Reviewed\n"
    )
    put(tmp_path, "PRD.md", text)
    source = Markdown(tmp_path, "prd")
    book = source.load()
    assert [(s.id, s.title, len(s.tasks)) for s in book.stories] == [
        ("base", "Base", 1),
        ("phase-1-tests", "Phase 1: Tests", 1),
        ("phase-2", "Phase 2", 1),
        ("phase-2-tests", "Phase 2: Tests", 1),
        ("sign-off", "Sign-off", 1),
    ]
    assert book.problems == ()
    source.settle(book.stories[3], book)
    assert (tmp_path / "PRD.md").read_text() == text.replace("[ ] 4", "[x] 4")


def test_numbered_headings_are_the_stories(tmp_path: Path) -> None:
    text = "## 1. A\n### Back\n- [ ] a\n### Front\n- [ ] b\n## 2. B\n- [ ] c\n"
    put(tmp_path, "PRD.md", text)
    book = Markdown(tmp_path, "prd").load()
    assert [(s.id, len(s.tasks)) for s in book.stories] == [("1", 2), ("2", 1)]


def test_equal_headings_beside_numbered_ones_are_told_apart(tmp_path: Path) -> None:
    text = (
        "# Plan\n\n## Phase 1\n### 1.1 Model\n- [ ] a\n### 1.2 API\n- [ ] b\n### Tests\n- [ ] c\n"
        "## Phase 2\n### 2.1 UI\n- [ ] d\n### Tests\n- [ ] e\n### Tests\n- [ ] f\n"
        "## Notes\n- [ ] g\n## Notes\n- [ ] h\n"
    )
    put(tmp_path, "IMPLEMENTATION_PLAN.md", text)
    source = Markdown(tmp_path, "implementation_plan")
    book = source.load()
    assert [(s.id, s.title) for s in book.stories] == [
        ("1.1", "Model"),
        ("1.2", "API"),
        ("phase-1-tests", "Phase 1: Tests"),
        ("2.1", "UI"),
        ("phase-2-tests", "Phase 2: Tests"),
        ("phase-2-tests.2", "Phase 2: Tests"),
        ("notes", "Notes"),
        ("notes.2", "Notes"),
    ]
    assert book.problems == ()
    source.settle(book.stories[4], book)
    assert source.load().complete == 1
    assert (tmp_path / "IMPLEMENTATION_PLAN.md").read_text() == text.replace("[ ] e", "[x] e")


def test_equal_numbers_are_for_the_person_to_tell_apart(tmp_path: Path) -> None:
    put(tmp_path, "PRD.md", "## 1. A\n- [ ] a\n## 1. A\n- [ ] b\n## 2. B\n- [ ] c\n")
    (problem,) = Markdown(tmp_path, "prd").load().problems
    assert problem.why == "Lines 1 and 3 start stories with the same id: 1"


def test_a_comment_that_never_ends_hides_nothing(tmp_path: Path) -> None:
    put(tmp_path, "PRD.md", "<!-- oops\n- [ ] one\n")
    assert Markdown(tmp_path, "prd").load().total == 1


def test_the_usual_files_are_found_if_they_have_boxes(tmp_path: Path) -> None:
    assert markdown.find(tmp_path) == ()
    put(tmp_path, "TODO.md", "Nothing to do.\n")
    assert markdown.find(tmp_path) == ()
    put(tmp_path, "TODO.md")
    put(tmp_path, "PRD.md", "words\n")
    put(tmp_path, ".ralph/@fix_plan.md", "- [x] a\n")
    assert markdown.find(tmp_path) == (Found("todo", 3, 1), Found("fix_plan", 1, 1))
    assert Markdown(tmp_path, "fix_plan").load().path == ".ralph/@fix_plan.md"
    assert not markdown.recognises(tmp_path, "prd")
    with pytest.raises(StoriesError, match="implementation_plan"):
        Markdown(tmp_path, "implementation_plan")


@pytest.mark.parametrize(
    ("file", "change"), [("PRD.md", "prd"), ("IMPLEMENTATION_PLAN.md", "implementation_plan")]
)
def test_a_plan_in_the_folder_of_ralph_is_found_by_its_name(
    tmp_path: Path, file: str, change: str
) -> None:
    put(tmp_path, f".ralph/{file}")
    put(tmp_path, file, "a plan without a box\n")
    assert markdown.find(tmp_path) == (Found(change, 3, 1),)
    assert Markdown(tmp_path, change).load().path == f".ralph/{file}"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "PRD.md").mkdir()
    (found,) = markdown.find(tmp_path)
    assert "directory" in found.why


def test_any_file_by_its_name(tmp_path: Path) -> None:
    put(tmp_path, "notes/plan.md")
    for given in ("notes/plan.md", str(tmp_path / "notes/../notes/plan.md")):
        source = story_source("auto", tmp_path, "anything", Options("task", given))
        assert source is not None
        book = source.load()
        assert (source.name, book.path, book.total) == ("markdown", "notes/plan.md", 3)
    with pytest.raises(UserError, match="not in this worktree"):
        story_source("auto", tmp_path, "x", Options(file="../plan.md"))
    with pytest.raises(UserError, match="takes no `--source-file`"):
        story_source("speckit", tmp_path, "x", Options(file="notes/plan.md"))
    put(tmp_path, "plan.unknown")
    source = story_source("auto", tmp_path, "x", Options(file="plan.unknown"))
    assert source is not None
    assert source.name == "markdown"
