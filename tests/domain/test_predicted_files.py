"""Which stories may be worked on at once, by the files that they will change."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import story
from untildone.domain.stories.predicted_files import overlap, paths_in_text, together
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


def test_paths_in_the_words_of_a_story() -> None:
    task = Task("1.1", "Write `src/new_page.ts`, mend app.py.", done=False, line=1, detail="e.g. x")
    words = replace(story(1), tasks=(task,), body="All of src/api/ and of lib/ is meant, 3.5 too.")
    known = frozenset({"app.py", "src/api/a.ts"})
    assert paths_in_text(words, known) == ("src/new_page.ts", "app.py", "src/api/")
