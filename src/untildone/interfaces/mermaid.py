"""Stories and what they wait for, as a Mermaid flowchart."""

from untildone.domain.stories.story import Story, StoryBook

_LONGEST = 60


def flowchart(book: StoryBook) -> str:
    """The whole chart; nothing in a title can be taken for a part of it."""
    names = {story.id: f"s{n}" for n, story in enumerate(book.stories, start=1)}
    rows = ["flowchart TD"]
    rows += [f'    {names[story.id]}["{_label(story)}"]' for story in book.stories]
    rows += [
        f"    {names[other]} --> {names[story.id]}"
        for story in book.stories
        for other in dict.fromkeys(story.depends_on)
        if other in names
    ]
    done = [names[story.id] for story in book.stories if story.done]
    if done:
        rows.append("    classDef done fill:#d3f9d8,stroke:#2b8a3e")
        rows.append(f"    class {','.join(done)} done")
    return "\n".join(rows) + "\n"


def _label(story: Story) -> str:
    text = " ".join(f"{story.id}: {story.title}".split())
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 1]}…"
    return "".join(c if c.isalnum() or c in " .,:…-/()" else f"#{ord(c)};" for c in text)
