"""Plain Markdown checklists: usual files, any file, examples that are no work."""

from pathlib import Path

import pytest

from untildone.adapters.stories import markdown
from untildone.adapters.stories.kind import Found, Options
from untildone.adapters.stories.markdown import Markdown
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


def test_boxes_in_examples_and_comments_do_not_count(tmp_path: Path) -> None:
    put(tmp_path, "PRD.md")
    book = Markdown(tmp_path, "prd").load()
    assert [(s.title, s.done) for s in book.stories] == [
        ("one", False),
        ("two", True),
        ("three <!-- see", False),
    ]
    assert [remark.line for remark in book.ignored] == [7, 10, 13]


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
    with pytest.raises(StoriesError, match="prd"):
        Markdown(tmp_path, "prd")


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
    put(tmp_path, "plan.unknown")
    source = story_source("auto", tmp_path, "x", Options(file="plan.unknown"))
    assert source is not None
    assert source.name == "markdown"
