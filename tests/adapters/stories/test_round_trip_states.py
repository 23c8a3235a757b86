"""Write some stories of a made-up file as done: only those are, and no other byte has moved."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from untildone.adapters.stories.source_kind import Options
from untildone.domain.stories.story import StoryBook
from untildone.wiring.sources import kind

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=15).filter(
    lambda text: bool(text.strip())
)
BLANKS = st.text(" \t\n", max_size=3)


def _json(draw: st.DrawFn, value: object) -> str:
    """The value with blanks wherever JSON allows them."""
    if isinstance(value, dict):
        pairs = [f"{draw(BLANKS)}{json.dumps(k)}:{_json(draw, v)}" for k, v in value.items()]
        return draw(BLANKS) + "{" + ",".join(pairs) + "}" + draw(BLANKS)
    if isinstance(value, list):
        return "[" + ",".join(_json(draw, v) for v in value) + draw(BLANKS) + "]"
    return draw(BLANKS) + json.dumps(value, ensure_ascii=draw(st.booleans())) + draw(BLANKS)


@st.composite
def prd(draw: st.DrawFn) -> str:
    flag = draw(st.sampled_from(("passes", "complete", "completed")))
    listed = draw(st.sampled_from(("userStories", "stories", "units")))
    stories = [
        {"id": f"S-{n}", "title": draw(TEXT), flag: draw(st.booleans()), "notes": draw(TEXT)}
        for n in range(draw(st.integers(1, 6)))
    ]
    return _json(draw, draw(st.sampled_from((stories, {"name": draw(TEXT), listed: stories}))))


@st.composite
def tasks(draw: st.DrawFn) -> str:
    words = st.sampled_from(("pending", "in-progress", "done"))
    made = [
        {
            "id": draw(st.sampled_from((n, str(n)))),
            "title": draw(TEXT),
            "status": draw(words),
            "subtasks": [
                {"id": k, "title": f"{k} {draw(TEXT)}", "status": draw(words)}
                for k in range(draw(st.integers(0, 2)))
            ],
        }
        for n in range(draw(st.integers(1, 5)))
    ]
    return _json(draw, {"master": {"tasks": made, "metadata": {draw(TEXT): draw(TEXT)}}})


@st.composite
def yaml(draw: st.DrawFn) -> str:
    rows = ["# tasks", "tasks:"]
    for n in range(draw(st.integers(1, 6))):
        title = draw(
            st.sampled_from((json.dumps, lambda text: "'" + text.replace("'", "''") + "'"))
        )
        rows += [f"  - title: {title(draw(TEXT))}  # {draw(TEXT)}", f"    id: t{n}"]
        rows += draw(st.sampled_from(([], ["    description: |", "      text", ""], ["# note"])))
        rows.append(f"    completed: {draw(st.sampled_from(('true', 'false')))} # {draw(TEXT)}")
    return "\n".join(rows) + draw(st.sampled_from(("", "\n")))


@st.composite
def page(draw: st.DrawFn) -> str:
    status = draw(st.sampled_from(("To Do", "'In Progress'", '"Done"')))
    boxes = [f"- [{draw(st.sampled_from(' x'))}] #{n} {draw(TEXT)}" for n in range(1, 4)]
    head = ["---", "id: TASK-1", f"title: {json.dumps(draw(TEXT))}", f"status: {status} # now"]
    head += draw(st.sampled_from(([], ["labels:", "  - a"], ["ordinal: 3"])))
    return "\n".join([*head, "---", draw(TEXT), "<!-- AC:BEGIN -->", *boxes, "<!-- AC:END -->", ""])


FORMATS: dict[str, tuple[str, str, st.SearchStrategy[str], str]] = {
    "prd-json": ("prd", "prd.json", prd(), r'"(?:passes|completed?)":\s*(?:true|false)'),
    "taskmaster": ("master", ".taskmaster/tasks/tasks.json", tasks(), r'"status":\s*"[a-z-]+"'),
    "ralphy": ("tasks", "tasks.yaml", yaml(), r"(?m)^    completed: (?:true|false) #"),
    "backlog-md": (
        "backlog",
        "backlog/tasks/a.md",
        page(),
        r"(?m)^status: ['\"]?[A-Z][A-Za-z ]+?['\"]? # now|^- \[[ x]\] #",
    ),
}


def states(book: StoryBook) -> dict[tuple[str, str], bool]:
    return {story.key: story.done for story in book.stories}


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=60)
@given(data=st.data())
def test_only_what_is_settled_is_done(name: str, data: st.DataObject) -> None:
    change, path, text, marks = FORMATS[name]
    content = data.draw(text)
    if data.draw(st.booleans()):
        content = content.replace("\n", "\r\n")
    raw = data.draw(st.sampled_from((b"", b"\xef\xbb\xbf"))) + content.encode()
    with TemporaryDirectory() as folder:
        (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
        (Path(folder) / path).write_bytes(raw)
        _round_trip(Path(folder), name, change, path, re.compile(marks), data.draw)


def _round_trip(
    root: Path,
    name: str,
    change: str,
    path: str,
    marks: re.Pattern[str],
    draw: Callable[[st.SearchStrategy[int]], int],
) -> None:
    raw = (root / path).read_bytes()
    source = kind(name).make(root, change, Options())
    first = source.load()
    assert first.problems == ()
    expected = states(first)
    for _ in range(draw(st.integers(0, len(first.stories)))):
        now = source.load()
        story = now.stories[draw(st.integers(0, len(now.stories) - 1))]
        assert source.settle(story, now) == ()
        expected[story.key] = True
    assert states(source.load()) == expected
    after = (root / path).read_bytes()
    assert marks.split(after.decode()) == marks.split(raw.decode())
    # What an agent marks by itself is taken back to the letter.
    source.take_back(first)
    assert (root / path).read_bytes() == raw
