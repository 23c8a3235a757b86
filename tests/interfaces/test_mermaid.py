"""The chart of stories: valid whatever the titles are."""

import re

from msgspec.structs import replace

from tests.fakes.plans import book, story
from untildone.domain.stories.predicted_files import beside
from untildone.domain.stories.story import StoryBook
from untildone.interfaces.mermaid import flowchart

NODE = re.compile(r'    s[0-9]+\["[^"\[\]{}<>|`;#]*(?:#[0-9]+;[^"\[\]{}<>|`;#]*)*"\]')
EDGE = re.compile(r"    s[0-9]+ --> s[0-9]+|    %% .*")


def _chart(stories: StoryBook) -> str:
    return flowchart(stories, beside(stories, lanes=9))


def test_stories_and_what_they_wait_for() -> None:
    chart = _chart(book(story(1, done=True), story(2, after=("1", "1"), title="Log in")))
    assert chart == (
        'flowchart TD\n    s1["1: Story 1"]\n    s2["2: Log in"]\n    s1 --> s2\n'
        "    classDef done fill:#d3f9d8,stroke:#2b8a3e\n    class s1 done\n"
        "    %% at once: 2\n"
    )


def test_hostile_titles_stay_inside_their_quotes() -> None:
    titles = [
        'a"]; end',
        "x --> y",
        "`sh`\n%% c",
        "#quot;",
        "<script>",
        "click s1 {}",
        "|x|",
        "ü漢",
    ]
    stories = [story(n, title=title) for n, title in enumerate(titles, 1)]
    chart = _chart(book(*stories, replace(story(9), id='9"', depends_on=("1", "99"))))
    first, *rows = chart.splitlines()
    assert first == "flowchart TD"
    assert [row for row in rows if not (NODE.fullmatch(row) or EDGE.fullmatch(row))] == []
    assert "    s1 --> s9" in rows
    assert 's8["8: ü漢"]' in chart


def test_a_long_title_is_cut() -> None:
    assert len(_chart(book(story(1, title="long " * 100)))) < 140


def test_what_may_run_at_once_and_why_not() -> None:
    one, two = (replace(story(n), touches=('"a]".py', f"{n}.py")) for n in (1, 2))
    chart = _chart(book(one, two, story(3), story(4), story(5, after=("3",))))
    assert '    s1 -.-|"both change #34;a#93;#34;.py"| s2\n' in chart
    assert [row.removeprefix("    %% ") for row in chart.splitlines() if "%%" in row] == [
        "at once: 1, 3",
        "then: 2, 4",
        "then: 5",
        'not at once: 1 and 2: both change "a]".py',
        "one at a time, nobody knows which files they change: 3, 4, 5",
        "a line `Touches: src/api/**` in a story names its files",
    ]
