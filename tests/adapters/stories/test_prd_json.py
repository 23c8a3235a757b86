"""The dialects of `prd.json`: each is read, and its states are written in its own way."""

import json
from pathlib import Path

import pytest

from untildone.adapters.stories.documents import object_file
from untildone.adapters.stories.documents.json_text import JsonText, Place
from untildone.adapters.stories.documents.object_file import ObjectFile
from untildone.adapters.stories.prd_json import FORMAT
from untildone.adapters.stories.source_kind import Options
from untildone.domain.errors import StoriesError, StoryLost
from untildone.domain.stories.story import StoryBook

SNARKTANK = """\
{
  "project": "Shop",
  "branchName": "ralph/shop",
  "description": "Sell things",
  "userStories": [
    {
      "id": "US-001",
      "title": "Show a price",
      "description": "As a buyer I want to see prices.",
      "acceptanceCriteria": ["The price is shown", "Typecheck passes"],
      "priority": 2,
      "passes": false,
      "notes": ""
    },
    {
      "id": "US-002", "title": "Store a price", "priority": 1, "passes": true
    }
  ]
}
"""


def source(root: Path, text: str | bytes, path: str = "prd.json") -> ObjectFile:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return ObjectFile(FORMAT, root, "prd", path)


def shape(book: StoryBook) -> list[tuple[str, str, bool, tuple[str, ...]]]:
    return [(story.id, story.title, story.done, story.depends_on) for story in book.stories]


def test_the_canonical_file(tmp_path: Path) -> None:
    book = source(tmp_path, SNARKTANK).load()
    assert (book.source, book.path, book.total, book.complete) == ("prd-json", "prd.json", 2, 1)
    first, second = book.stories
    assert (first.id, first.title, first.line, first.priority) == ("US-001", "Show a price", 6, 2)
    assert first.acceptance == ("The price is shown", "Typecheck passes")
    assert first.body == "As a buyer I want to see prices."
    assert (second.done, second.line, second.priority) == (True, 15, 1)
    assert [remark.line for remark in book.ignored] == [3]  # the branch
    assert (book.problems, book.boxes) == ((), False)


@pytest.mark.parametrize(
    ("text", "stories", "after"),
    [
        (  # iannuttall/ralph
            '{"stories": [{"id": "US-001", "title": "a", "status": "done"},'
            '{"id": "US-002", "title": "b", "status": "in_progress", "dependsOn": ["US-001"]}]}',
            [("US-001", "a", True, ()), ("US-002", "b", False, ("US-001",))],
            ('"status": "in_progress"', '"status": "done"'),
        ),
        (  # a list of features without ids
            '[{"category": "ui", "description": "Show a list", "steps": ["open"], "passes": false},'
            '{"category": "ui", "description": "Show a list", "passes": true}]',
            [("show-a-list", "Show a list", False, ()), ("show-a-list.2", "Show a list", True, ())],
            ('"passes": false', '"passes": true'),
        ),
        (
            '{"units": [{"id": 1, "name": "a", "complete": true},'
            '{"id": 2, "name": "b", "complete": false, "blockedBy": [1]}]}',
            [("1", "a", True, ()), ("2", "b", False, ("1",))],
            ('"complete": false', '"complete": true'),
        ),
        (
            '{"phases": [{"id": "P1", "tasks": [{"id": 1, "title": "a", "status": "Completed"}]},'
            '{"name": "second", "tasks": [{"id": 1, "title": "b", "status": "Pending"}]},'
            '{"id": "P3", "title": "c", "status": "Completed"}]}',
            [("P1.1", "a", True, ()), ("2.1", "b", False, ()), ("P3", "c", True, ())],
            ('"status": "Pending"', '"status": "Completed"'),
        ),
        (  # no state anywhere
            '{"userStories": [{"id": "a", "title": "t"}]}',
            [("a", "t", False, ())],
            ('"title": "t"', '"title": "t", "passes": true'),
        ),
        (  # a state where the neighbours have theirs
            '{"stories": [{"id": "a", "title": "t", "status": "DONE"}, {"id":"b","title":"u"}]}',
            [("a", "t", True, ()), ("b", "u", False, ())],
            ('"title":"u"', '"title":"u","status":"DONE"'),
        ),
        (  # both fields say it
            '{"stories": [{"id": "a", "title": "t", "passes": false, "status": "open"}]}',
            [("a", "t", False, ())],
            ('"passes": false, "status": "open"', '"passes": true, "status": "done"'),
        ),
        (  # an object instead of a list, one level down
            '{"prd": {"stories": {"x-1": {"title": "t", "passes": null, "dependencies": []}}}}',
            [("x-1", "t", False, ())],
            ('"passes": null', '"passes": true'),
        ),
        (  # ralphy's JSON
            '{"tasks": [{"title": "Do it", "completed": false, "parallel_group": 1}]}',
            [("do-it", "Do it", False, ())],
            ('"completed": false', '"completed": true'),
        ),
        (  # ids that git would not take, dependencies as text and as objects
            '{"stories": [{"id": "A b/c", "title": "t", "passes": true},'
            '{"id": "d", "title": "u", "passes": false, "depends_on": [{"id": "A b/c"}]}]}',
            [("a-b-c", "t", True, ()), ("d", "u", False, ("a-b-c",))],
            ('"passes": false', '"passes": true'),
        ),
    ],
)
def test_dialects(tmp_path: Path, text: str, stories: list[object], after: tuple[str, str]) -> None:
    prd = source(tmp_path, text)
    before = prd.load()
    assert before.problems == ()
    assert shape(before) == stories
    (story,) = [story for story in before.stories if not story.done]
    assert prd.settle(story, before) == ()
    written = (tmp_path / "prd.json").read_text()
    assert written == text.replace(*after)
    assert all(each.done for each in prd.load().stories)
    prd.take_back(before)
    reopened = prd.load()
    assert [each.done for each in reopened.stories] == [each.done for each in before.stories]
    if after[0] in ('"title": "t"', '"title":"u"'):  # a field that was added stays
        assert json.loads((tmp_path / "prd.json").read_text()) != json.loads(text)
    else:
        assert (tmp_path / "prd.json").read_text() == text


def test_odd_states_count_as_open_or_as_done_and_are_told(tmp_path: Path) -> None:
    stories = [
        {"id": "1", "title": "a", "passes": True, "status": "open"},
        {"id": "2", "title": "b", "status": "cancelled", "passes": False},
        {"id": "3", "title": "c", "status": None},
    ]
    book = source(tmp_path, json.dumps({"stories": [*stories, "just text"]})).load()
    assert [story.done for story in book.stories] == [False, True, False]
    assert [remark.why for remark in book.ignored] == [
        "An entry that is no object cannot hold a state, so it is not a story.",
        "Story 1: It counts as open: only `passes` says that it is done.",
        "Story 2: It counts as done, because its status is: cancelled",
    ]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("{}", 1, "No story was found"),
        ('\n{"userStories": []}', 2, "No story was found"),
        ("[]", 1, "No story was found"),
        ('"text"', 1, "No story was found"),
        ('{"userStories": {}}', 1, "No story was found"),
        ('{"userStories": ["a"]}', 1, "No story was found"),
        ('{"stories": [\n{"id": "a", "passes": "true"}]}', 2, "`passes` has to be true or false"),
        ('{"stories": [\n{"id": "a", "status": 3}]}', 2, "`status` has to be a word"),
        ('{"stories": [{"id": "a"},\n{"id": "a"}]}', 2, "same id: a"),
    ],
)
def test_what_cannot_be_run_is_a_problem(tmp_path: Path, text: str, line: int, why: str) -> None:
    problems = source(tmp_path, text).load().problems
    assert [(remark.line, why in remark.why) for remark in problems] == [(line, True)]


@pytest.mark.parametrize("text", ["", "{", '{"stories": [}', "[" * 5000, '{"a": NaN}'])
def test_what_is_not_json_is_an_error_with_file_and_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(StoriesError, match=r"prd\.json:1: "):
        source(tmp_path, text).load()


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ('{"userStories": [{"id": "a"}],\n"userStories": [{"id": "b"}]}', 2, "userStories"),
        ('{"stories": [{"id": "a",\n"passes": false,\n"passes": true}]}', 3, "passes"),
        ('{"stories": {"x": {"passes": false},\n"x": {"passes": true}}}', 2, "x"),
        ('{"stories": {"x": {"id": 1,\n"id": 2}}}', 2, "id"),
        ('{"prd": {"stories": [{"id": 1}],\n"stories": [{"id": 2}]}}', 2, "stories"),
        ('{"phases": [{"id": 1, "tasks": [{"id": 1}],\n"tasks": [{"id": 2}]}]}', 2, "tasks"),
        ('{"phases": [{"id": 1, "tasks": [{"id": 1,\n"id": 2}]}]}', 2, "id"),
    ],
)
def test_the_same_key_twice_is_an_error(tmp_path: Path, text: str, line: int, key: str) -> None:
    why = rf"prd\.json:{line}: The key `{key}` stands here twice\."
    with pytest.raises(StoriesError, match=why):
        source(tmp_path, text).load()


def test_what_no_story_is_read_from_may_have_a_key_twice(tmp_path: Path) -> None:
    text = '{"metadata": {"a": 1, "a": 2}, "stories": [{"id": "a", "x": {"b": 1, "b": 2}}]}'
    assert source(tmp_path, text).load().problems == ()


def test_claims_for_other_stories_get_the_word_they_had(tmp_path: Path) -> None:
    text = '{"stories": [{"id": "1", "title": "a", "status": "todo"},\r\n'
    text += '{"id": "2", "title": "b", "status": "in_progress"}]}'
    prd = source(tmp_path, text)
    before = prd.load()
    (tmp_path / "prd.json").write_bytes(text.replace("in_progress", "done").encode())
    (said,) = prd.settle(before.stories[0], before)
    assert said.startswith("Unticked in story 2")
    assert (tmp_path / "prd.json").read_bytes() == text.replace("todo", "done").encode()


PHASED: dict[str, tuple[list[dict[str, object]], list[tuple[str, tuple[str, ...]]]]] = {
    "a number beside it": (
        [{"id": "p", "tasks": [{"id": 1}, {"id": 2, "dependsOn": [1, 1]}]}],
        [("p.1", ()), ("p.2", ("p.1",))],
    ),
    "a phase waits": (
        [
            {"id": "q", "dependsOn": ["p"], "tasks": [{"id": "b"}]},
            {"id": "p", "tasks": [{"id": "a"}]},
        ],
        [("b", ("a",)), ("a", ())],
    ),
    "a story waits for a phase": (
        [
            {"id": 1, "tasks": [{"id": "a"}, {"id": "b"}]},
            {"tasks": [{"id": "c", "blockedBy": [1]}]},
        ],
        [("a", ()), ("b", ()), ("c", ("a", "b"))],
    ),
    "a number that a phase waits for is that of a phase": (
        [
            {"id": 1, "tasks": [{"id": 1}, {"id": 2}]},
            {"id": 2, "dependsOn": [1], "tasks": [{"id": 1}, {"id": 2, "dependsOn": [1]}]},
        ],
        [
            ("1.1", ()),
            ("1.2", ()),
            ("2.1", ("1.1", "1.2")),
            ("2.2", ("1.1", "1.2", "2.1")),
        ],
    ),
    "what a phase lists is no object": (
        [{"id": "p", "tasks": ["one", "two"]}, {"id": "q", "tasks": [], "dependsOn": "p"}],
        [("p", ()), ("q", ("p",))],
    ),
}


@pytest.mark.parametrize("name", PHASED)
def test_dependencies_in_phases(tmp_path: Path, name: str) -> None:
    phases, stories = PHASED[name]
    book = source(tmp_path, json.dumps({"phases": phases})).load()
    assert ([(s.id, s.depends_on) for s in book.stories], book.problems) == (stories, ())


def test_priorities_between_whole_numbers_keep_their_order(tmp_path: Path) -> None:
    told: list[object] = [1.9, 1.1, 2.0, "P1.5", "0", 1e300, True, "1.x"]
    stories = [{"id": f"s{n}", "priority": each} for n, each in enumerate(told)]
    book = source(tmp_path, json.dumps(stories)).load()
    found = [story.priority for story in book.stories]
    assert found == [1.9, 1.1, 2, 1.5, 0, None, None, None]
    assert [json.dumps(priority) for priority in found[2:5]] == ["2", "1.5", "0"]
    order = [story.id for story in book.open_stories(frozenset())]
    assert order == ["s4", "s1", "s3", "s0", "s2", "s5", "s6", "s7"]


def test_a_status_that_is_not_known_is_open_and_told(tmp_path: Path) -> None:
    text = (
        '[{"id": "1", "status": "odd"}, {"id": "2", "status": "To-Do"}, {"id": "3", "status": ""}]'
    )
    book = source(tmp_path, text).load()
    assert [story.done for story in book.stories] == [False, False, False]
    (told,) = book.ignored
    assert told.why == "Story 1: It counts as open; its status is not known: odd"


@pytest.mark.parametrize("mark", ["open", "in_progress"])
def test_what_was_done_in_other_stories_stays_done(tmp_path: Path, mark: str) -> None:
    text = '{"stories": [{"id": "1", "title": "a", "status": "todo"},\r\n'
    text += '{"id": "2", "title": "b", "status": "complete"},{"id": "3", "status": "done"}]}'
    prd = source(tmp_path, text)
    before = prd.load()
    (tmp_path / "prd.json").write_bytes(text.replace("complete", mark).encode())
    (said,) = prd.settle(before.stories[0], before)
    assert said == "Ticked again in story 2, where it was unticked during story 1: “b”"
    assert (tmp_path / "prd.json").read_bytes() == text.replace("todo", "done").encode()


def test_a_story_that_is_gone_is_lost_and_nothing_is_written(tmp_path: Path) -> None:
    prd = source(tmp_path, SNARKTANK)
    before = prd.load()
    changed = SNARKTANK.replace("US-001", "US-009").replace("Show a price", "Paint it")
    (tmp_path / "prd.json").write_text(changed)
    with pytest.raises(StoryLost, match=r"prd\.json"):
        prd.settle(before.stories[0], before)
    assert (tmp_path / "prd.json").read_text() == changed


def test_a_story_with_another_title_is_the_same_one(tmp_path: Path) -> None:
    prd = source(tmp_path, SNARKTANK)
    before = prd.load()
    changed = SNARKTANK.replace("Show a price", "Prices for everybody")
    (tmp_path / "prd.json").write_text(changed)
    (said,) = prd.settle(before.stories[0], before)
    assert said == "Story US-001 is called “US-001: Prices for everybody” now"
    assert (tmp_path / "prd.json").read_text() == changed.replace("false", "true")


def test_files_are_found_by_name(tmp_path: Path) -> None:
    source(tmp_path, SNARKTANK, "scripts/ralph/prd.json")
    source(tmp_path, SNARKTANK.replace("false", "true"), ".agents/tasks/prd-login.json")
    source(tmp_path, '{"features": no}', "feature_list.json")
    kind = FORMAT.kind()
    rows = [(found.name, found.total, found.complete, found.open) for found in kind.find(tmp_path)]
    assert rows == [
        ("prd", 2, 1, True),
        ("feature_list", 0, 0, True),
        ("prd-login", 2, 2, False),
    ]
    assert kind.recognises(tmp_path, "prd-login")
    assert not kind.recognises(tmp_path, "login")
    paths = [
        kind.make(tmp_path, "prd-login", Options()).load().path,
        kind.make(tmp_path, "other", Options()).load().path,
        kind.make(tmp_path, "other", Options(file=".agents/tasks/prd-login.json")).load().path,
    ]
    named = ".agents/tasks/prd-login.json"
    assert paths == [named, "scripts/ralph/prd.json", named]
    with pytest.raises(StoriesError, match=r"feature_list\.json:1"):
        kind.make(tmp_path, "feature_list", Options()).load()


def test_a_file_that_only_shares_the_name_is_not_listed(tmp_path: Path) -> None:
    file = tmp_path / "feature_list.json"
    for text in ("[true, false, true]", '["age", "size"]', '{"age": 0.25}'):
        file.write_text(text)
        assert FORMAT.find(tmp_path) == ()
    named = FORMAT.make(tmp_path, "feature_list", Options())
    assert "No story was found" in named.load().problems[0].why
    file.write_text('{"features": []}')
    assert [row.name for row in FORMAT.find(tmp_path)] == ["feature_list"]


def test_two_files_of_the_same_name_are_told_apart_by_their_folder(tmp_path: Path) -> None:
    source(tmp_path, '[{"id": "A", "passes": true}]')
    source(tmp_path, '[{"id": "B", "passes": false}]', "scripts/ralph/prd.json")
    assert [(row.name, row.open) for row in FORMAT.find(tmp_path)] == [
        ("prd", False),
        ("ralph-prd", True),
    ]
    (story,) = FORMAT.make(tmp_path, "ralph-prd", Options()).load().stories
    assert story.id == "B"


def test_a_state_in_a_field_called_so(tmp_path: Path) -> None:
    text = """{"features": [
  {"id": "a", "title": "A", "state": "passing"},
  {"id": "b", "title": "B", "state": "not_started", "evidence": []},
  {"id": "c", "title": "C", "state": "blocked"},
  {"id": "d", "title": "D", "passes": false, "state": "Texas"}
]}"""
    file = source(tmp_path, text, "feature_list.json")
    book = file.load()
    assert [(s.id, s.done, bool(s.question)) for s in book.stories] == [
        ("a", True, False),
        ("b", False, False),
        ("c", False, True),
        ("d", False, False),
    ]
    file.settle(book.stories[1], book)
    wanted = text.replace("not_started", "passing")
    assert (tmp_path / "feature_list.json").read_text() == wanted
    file.take_back(book)
    assert (tmp_path / "feature_list.json").read_text() == text
    file.settle(book.stories[3], book)
    wanted = text.replace('"passes": false', '"passes": true')
    assert (tmp_path / "feature_list.json").read_text() == wanted


def test_work_that_is_no_story_keeps_the_file_from_being_done(tmp_path: Path) -> None:
    done = '{"id": "1", "title": "A", "passes": true}'
    for more, left in (
        (f'{{"stories": [{done}, "and more"]}}', True),
        (f'{{"stories": [{done}], "tasks": [{{"title": "B", "done": false}}]}}', True),
        (f'{{"stories": [{done}], "tasks": [{{"title": "B", "done": true}}]}}', False),
        (f'{{"stories": [{done}], "features": ["fast", {{"name": "cheap"}}]}}', False),
    ):
        book = source(tmp_path, more).load()
        assert (book.complete, book.total, bool(book.unfinished)) == (1, 1, left)


def long_list(*, indent: int | None, words: bool, waits: bool) -> str:
    """Stories in two orders of fields, with signs of several bytes before and after the state."""
    rows = []
    for n in range(1, 13):
        state = {"status": "open" if n % 3 else "done"} if words else {"passes": n % 3 == 0}
        needs = {"dependsOn": [f"US-{n - 1}"]} if waits and n > 1 else {}
        head = {"id": f"US-{n}", "title": f"Größe {n} – 價格"}
        rows.append({**head, **state, **needs, "notes": "äöü\n"} if n % 2 else {**state, **head})
    return json.dumps({"project": "many", "userStories": rows}, indent=indent, ensure_ascii=False)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("waits", [False, True])
def test_after_its_own_writes_a_book_is_what_the_file_says(
    tmp_path: Path, indent: int | None, words: bool, waits: bool
) -> None:
    stories = source(tmp_path, long_list(indent=indent, words=words, waits=waits))
    first = stories.load()
    for number in (4, 1, 11, 2, 5, 0, 8):
        before = stories.load()
        stories.settle(before.stories[number], before)
        known = stories.load()
        object_file.forget()
        assert known == stories.load()
        assert known.stories[number].done
        assert known.next_story(frozenset()) == stories.load().next_story(frozenset())
    known = stories.load()
    assert stories.take_back(first)
    back = stories.load()
    object_file.forget()
    assert back == stories.load() != known
    assert [story.done for story in back.stories] == [story.done for story in first.stories]


def test_a_long_list_is_not_parsed_again_for_each_of_its_stories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stories = source(tmp_path, long_list(indent=2, words=False, waits=False))
    object_file.forget()
    parsed: list[JsonText] = []
    whole = JsonText.root

    def root(text: JsonText) -> Place:
        parsed.append(text)
        return whole(text)

    monkeypatch.setattr(JsonText, "root", root)
    for number in (0, 3, 6, 1):
        before = stories.load()
        stories.settle(before.stories[number], before)
    assert stories.load().complete == 8
    assert len(parsed) == 1


def test_a_file_that_somebody_else_has_written_is_parsed_anew(tmp_path: Path) -> None:
    stories = source(tmp_path, SNARKTANK)
    before = stories.load()
    stories.settle(before.stories[0], before)
    path = tmp_path / "prd.json"
    path.write_text(path.read_text().replace("Store a price", "Keep a price"))
    assert [story.title for story in stories.load().stories] == ["Show a price", "Keep a price"]


def test_the_branch_that_a_file_names_is_told_with_the_command_for_it(tmp_path: Path) -> None:
    text = '{\n"branchName": "ralph/prices",\n"userStories": [{"id": "a", "passes": false}]}'
    (remark,) = source(tmp_path, text).load().ignored
    assert remark.line == 2
    assert "`git branch -m ralph/prd ralph/prices`" in remark.why
    for other in ("prd", "x; ls", ""):
        assert source(tmp_path, text.replace("prices", other)).load().ignored == ()


def test_a_story_that_is_marked_as_blocked_asks(tmp_path: Path) -> None:
    text = '{"stories": [{"id": "a", "blocked": true, "passes": %s}]}'
    assert source(tmp_path, text % "false").load().stories[0].question == "a"
    assert source(tmp_path, text % "true").load().stories[0].question == ""


def test_stories_of_epics_are_stories(tmp_path: Path) -> None:
    text = '{"epics": [{"id": "E1", "stories": [{"id": 1, "title": "x", "status": "todo"}]}]}'
    assert [story.id for story in source(tmp_path, text).load().stories] == ["E1.1"]
