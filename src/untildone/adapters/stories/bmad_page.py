"""The Markdown file of one BMAD story."""

import re
from collections.abc import Sequence

from msgspec import Struct

from untildone.adapters.stories.checklists import labels, task_lines
from untildone.adapters.stories.documents import fields
from untildone.adapters.stories.documents.stateful_source import Flip
from untildone.adapters.stories.story_file import StoryFile
from untildone.domain.stories.story import Task

_TITLE = re.compile(r"#[ \t]+(?:Story[ \t]+[0-9]+[.-][0-9]+[a-z]?[ \t]*[:.-][ \t]*)?(.+)")
# On a line of its own, or below a heading as version 4 has it.
_STATUS = re.compile(
    r"^(?P<head>(?:#{2,3}[ \t]+)?(?:\*\*)?Status(?::(?:\*\*)?|\*\*:)[^\w\r\n]{0,6}"
    r"|#{2,3}[ \t]+Status[ \t]*(?:\r?\n[ \t]*){1,4}[^\w\r\n#]{0,6})(?P<word>[\w -]*\w)",
    re.MULTILINE,
)
_SECTION = re.compile(r"##[ \t]++(.+)")
_CRITERION = re.compile(r"(?:[0-9]+[.)]|[-*])[ \t]+(.+)")


class StoryPage(Struct, frozen=True):
    """One story file: its bytes and what it says."""

    file: StoryFile
    data: bytes
    title: str
    status: str
    boxes: tuple[Task, ...]
    acceptance: tuple[str, ...]
    body: str

    def written(self, flips: Sequence[Flip], word: str) -> None:
        """Tick, untick and set the status, and nothing else."""
        mine = {task.line for task in self.boxes}
        boxes = [flip for flip in flips if flip.task.path and flip.task.line in mine]
        new = task_lines.tick(self.data, [f.task.line for f in boxes if f.done])
        new = task_lines.untick(new, [f.task.line for f in boxes if not f.done])
        if word and self.status:
            text = new.decode("utf-8", "surrogateescape")
            new = _STATUS.sub(lambda m: m["head"] + word, text, count=1).encode(
                "utf-8", "surrogateescape"
            )
        if new != self.data:
            self.file.write(new)


def read(file: StoryFile, data: bytes, name: str) -> StoryPage:
    """What the file says; whatever the bytes are, this never fails."""
    text = data.decode("utf-8", "replace")
    parts: dict[str, list[tuple[int, str]]] = {"": []}
    section = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if heading := _SECTION.match(line.rstrip(" \t\r")):
            section = heading[1].casefold()
        parts.setdefault(section, []).append((number, line))
    title = next((m[1].strip() for _, line in parts[""] if (m := _TITLE.match(line))), "")
    status = _STATUS.search(text)
    works = next((rows for key, rows in parts.items() if key.startswith("tasks")), [])
    lines = [t for number, line in works if (t := task_lines.read(line, number))]
    criteria = (_CRITERION.match(line.strip()) for _, line in parts.get("acceptance criteria", ()))
    return StoryPage(
        file=file,
        data=data,
        title=fields.title(title) or name,
        status=status["word"].strip() if status else "",
        boxes=tuple(
            Task(
                id=labels.split_number(t.text, letters=False)[0] or str(n),
                text=t.text,
                done=t.done,
                line=t.line,
                path=file.path,
                asks=t.mark == "?",
            )
            for n, t in enumerate(lines, start=1)
        ),
        acceptance=tuple(found[1].strip() for found in criteria if found),
        body=fields.bounded("\n".join(line for _, line in parts.get("story", ())[1:]).strip()),
    )
