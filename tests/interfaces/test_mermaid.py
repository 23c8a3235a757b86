"""The chart of stories: valid whatever the titles are."""

import re

from msgspec.structs import replace

from tests.fakes.plans import book, story
from untildone.interfaces.mermaid import flowchart

NODE = re.compile(r'    s[0-9]+\["[^"\[\]{}<>|`;#]*(?:#[0-9]+;[^"\[\]{}<>|`;#]*)*"\]')
EDGE = re.compile(r"    s[0-9]+ --> s[0-9]+")


def test_stories_and_what_they_wait_for() -> None:
    chart = flowchart(book(story(1, done=True), story(2, after=("1", "1"), title="Log in")))
    assert chart == (
        'flowchart TD\n    s1["1: Story 1"]\n    s2["2: Log in"]\n    s1 --> s2\n'
        "    classDef done fill:#d3f9d8,stroke:#2b8a3e\n    class s1 done\n"
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
    chart = flowchart(book(*stories, replace(story(9), id='9"', depends_on=("1", "99"))))
    first, *rows = chart.splitlines()
    assert first == "flowchart TD"
    assert [row for row in rows if not (NODE.fullmatch(row) or EDGE.fullmatch(row))] == []
    assert rows[-1] == "    s1 --> s9"
    assert 's8["8: ü漢"]' in chart


def test_a_long_title_is_cut() -> None:
    assert len(flowchart(book(story(1, title="long " * 100)))) < 120
