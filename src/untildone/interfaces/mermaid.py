"""Stories, what they wait for and what may run at once, as a Mermaid flowchart."""

from collections.abc import Iterator

from untildone.domain.plain_text import plain
from untildone.domain.stories.predicted_files import Beside
from untildone.domain.stories.story import Story, StoryBook

_LONGEST = 60


def flowchart(book: StoryBook, beside: Beside) -> str:
    """The whole chart; nothing in a title can be taken for a part of it.

    An arrow is a dependency, a dotted line what keeps two stories from running at once.
    """
    names = {story.id: f"s{n}" for n, story in enumerate(book.stories, start=1)}
    rows = ["flowchart TD"]
    rows += [f'    {names[story.id]}["{_label(story)}"]' for story in book.stories]
    rows += [
        f"    {names[other]} --> {names[story.id]}"
        for story in book.stories
        for other in dict.fromkeys(story.depends_on)
        if other in names
    ]
    rows += [
        f'    {names[pair.one.id]} -.-|"{_escaped(pair.why)}"| {names[pair.other.id]}'
        for pair in beside.apart
    ]
    done = [names[story.id] for story in book.stories if story.done]
    if done:
        rows.append("    classDef done fill:#d3f9d8,stroke:#2b8a3e")
        rows.append(f"    class {','.join(done)} done")
    rows += [f"    %% {plain(said)}" for said in _said(beside)]
    return "\n".join(rows) + "\n"


def _said(beside: Beside) -> Iterator[str]:
    """The same in words, as comments of the chart."""
    for n, stories in enumerate(beside.rounds):
        yield f"{'then' if n else 'at once'}: {_ids(stories)}"
    for pair in beside.apart:
        yield f"not at once: {pair.one.id} and {pair.other.id}: {' '.join(pair.why.split())}"
    if beside.unknown:
        ids = _ids(beside.unknown)
        yield f"one at a time, nobody knows which files they change: {ids}"
        yield "a line `Touches: src/api/**` in a story names its files"


def _ids(stories: tuple[Story, ...]) -> str:
    return ", ".join(story.id for story in stories)


def _label(story: Story) -> str:
    return _escaped(f"{story.id}: {story.title}")


def _escaped(words: str) -> str:
    text = " ".join(words.split())
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 1]}…"
    return "".join(c if c.isalnum() or c in " .,:…-/()" else f"#{ord(c)};" for c in text)
