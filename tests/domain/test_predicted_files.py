"""Which stories may be worked on at once, by the files that they will change."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.fakes.plans import book, story
from untildone.domain.stories.predicted_files import (
    MOST_COMPANIONS,
    MOST_FILES,
    Cause,
    FileRecord,
    beside,
    overlap,
    paths_in_text,
    together,
    with_predictions,
)
from untildone.domain.stories.story import Task


@pytest.mark.parametrize(
    ("mine", "theirs", "shared"),
    [
        (("a.py",), ("b.py",), ""),
        (("a.py",), ("b.py", "a.py"), "a.py"),
        (("src/*.py",), ("src/a.py",), "src/*.py and src/a.py"),
        (("src/*.py",), ("src/deep/a.py",), ""),
        (("src/**",), ("src/deep/a.py",), "src/** and src/deep/a.py"),
        (("src/",), ("src/deep/a.py",), "src/ and src/deep/a.py"),
        (("src",), ("src/a.py",), "src and src/a.py"),
        (("src/**/a.py",), ("src/a.py",), "src/**/a.py and src/a.py"),
        (("src/*.py",), ("src/*.js",), "src/*.py and src/*.js"),
        (("src/*.py",), ("docs/*.md",), ""),
        (("a?.py",), ("ab.py",), "a?.py and ab.py"),
        (("package.json",), ("web/yarn.lock",), "package.json and web/yarn.lock"),
        (("CHANGELOG.md",), ("CHANGELOG.md",), "CHANGELOG.md"),
    ],
)
def test_overlap(mine: tuple[str, ...], theirs: tuple[str, ...], shared: str) -> None:
    assert overlap(mine, theirs) == shared


def test_together() -> None:
    one, two = story(1), story(2)
    a, b = replace(one, touches=("a.py",)), replace(two, predicted=("b.py",))
    assert together(a, b).why == ""
    assert together(a, replace(two, predicted=("a.py",))).why == "both change a.py"
    assert together(a, two).why == ""
    assert together(one, two).why == "nobody knows which files either changes"
    assert together(one, two, optimistic=True).why == ""
    marked = replace(one, parallel=True), replace(two, parallel=True)
    assert together(*marked).why == ""
    first, later = (replace(mark, group=n) for n, mark in enumerate(marked, 1))
    assert together(first, later).why == "nobody knows which files either changes"


def test_paths_in_the_words_of_a_story() -> None:
    task = Task("1.1", "Write `src/new_page.ts`, mend app.py.", done=False, line=1, detail="e.g. x")
    words = replace(story(1), tasks=(task,), body="All of src/api/ and of lib/ is meant, 3.5 too.")
    found = paths_in_text(words, {"app.py", "src/api/a.ts"}, {"src/api/"})
    assert found == ("src/new_page.ts", "app.py", "src/api/")


def _predicted(words: str, *commits: tuple[str, ...], **attempts: tuple[str, ...]) -> object:
    files = frozenset(path for commit in commits for path in commit)
    record = FileRecord(files, commits, {"1": attempts["own"]} if attempts else {})
    return with_predictions(book(story(1, title=words)), record).stories[0].predicted


def test_files_that_changed_together_are_predicted_together() -> None:
    pair, alone = ("a.py", "test_a.py"), ("a.py",)
    assert _predicted("Mend a.py", pair, pair, pair) == ("a.py", "test_a.py")
    # Not by two commits only, and not where most commits of the file do without it.
    assert _predicted("Mend a.py", pair, pair) == ("a.py",)
    assert _predicted("Mend a.py", *[pair] * 3, *[alone] * 4) == ("a.py",)
    assert _predicted("Mend something", pair, pair, pair) == ()


def test_a_commit_all_over_the_place_says_nothing() -> None:
    everything = tuple(f"f{k}.py" for k in range(MOST_FILES + 1))
    assert _predicted("Mend f1.py", *[everything] * 9) == ("f1.py",)
    many = everything[: MOST_FILES - 1]
    found = _predicted("Mend f1.py", *[many] * 9)
    assert isinstance(found, tuple)
    assert len(found) == 1 + MOST_COMPANIONS


def test_what_an_earlier_attempt_changed_is_predicted() -> None:
    pair = ("a.py", "test_a.py")
    assert _predicted("Mend something", *[pair] * 3, own=("a.py",)) == pair


def test_what_most_stories_get_in_each_others_way_with_is_predicted_for_all() -> None:
    landed = (("list.py", "a.py"), ("list.py", "b.py"), ("c.py", "odd.py"))
    contested = frozenset({"list.py", "odd.py"})
    record = FileRecord(frozenset({"new.py"}), landed=landed, contested=contested)
    other = story(9, title="Write new.py")
    found = with_predictions(book(other), record).stories[0].predicted
    assert found == ("new.py", "list.py")
    quiet = replace(record, contested=frozenset[str]())
    assert with_predictions(book(other), quiet).stories[0].predicted == ("new.py",)
    early = replace(record, landed=landed[:1])
    assert with_predictions(book(other), early).stories[0].predicted == ("new.py",)


def test_the_file_of_the_stories_is_no_storys_work() -> None:
    assert _predicted("Mend a.py", *[("a.py", "tasks")] * 3) == ("a.py",)


def test_the_persons_own_word_is_not_added_to() -> None:
    told = replace(story(1, title="Mend a.py"), touches=("b.py",))
    done = story(2, title="Mend a.py", done=True)
    record = FileRecord(frozenset({"a.py"}))
    assert with_predictions(book(told, done), record).stories == (told, done)


def test_what_may_run_at_once() -> None:
    one, two = (replace(story(n), touches=("package.json", f"{n}.py")) for n in (1, 2))
    three = replace(story(3), touches=("2.py",))
    stories = book(one, two, three, story(4), story(5, after=("4", "9")), story(6, after=("5",)))
    found = beside(stories, lanes=2)
    assert [[s.id for s in row] for row in found.rounds] == [["1", "3"], ["2", "4"]]
    assert [(p.one.id, p.other.id, p.cause) for p in found.apart] == [
        ("1", "2", Cause.HOT),
        ("2", "3", Cause.FILES),
    ]
    # 4, 5 and 6 wait for each other anyway; 5 waits for what is not there.
    assert found.unknown == ()
    assert [len(row) for row in beside(book(story(1), story(2)), 2).rounds] == [1, 1]
    assert [len(row) for row in beside(book(story(1), story(2)), 2, optimistic=True).rounds] == [2]


@given(
    st.lists(
        st.tuples(
            st.sets(st.sampled_from(["a.py", "b.py", "src/", "src/c.py", "uv.lock"]), max_size=2),
            st.sets(st.integers(1, 8), max_size=2),
        ),
        max_size=8,
    ),
    st.integers(1, 4),
    st.booleans(),
)
def test_rounds_keep_every_rule(
    rows: list[tuple[set[str], set[int]]], lanes: int, optimistic: bool
) -> None:
    stories = [
        replace(
            story(n, after=tuple(str(k) for k in sorted(after) if k < n)),
            touches=tuple(sorted(files)),
        )
        for n, (files, after) in enumerate(rows, 1)
    ]
    found = beside(book(*stories), lanes, optimistic=optimistic)
    finished: set[str] = set()
    for row in found.rounds:
        assert 0 < len(row) <= lanes
        assert all(finished.issuperset(one.depends_on) for one in row)
        pairs = combinations(row, 2)
        assert not any(together(*pair, optimistic=optimistic).why for pair in pairs)
        finished |= {one.id for one in row}
    assert sum(map(len, found.rounds)) == len(stories) == len(finished)
    assert not optimistic or found.unknown == ()
