"""Stories of a Spec Kit feature: the phases of `specs/NNN-name/tasks.md`."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.stories.checklists import grouping, spec_folders
from untildone.adapters.stories.checklists.checklist import Rules, Stories
from untildone.adapters.stories.checklists.checklist_source import ChecklistFile, ChecklistSource
from untildone.adapters.stories.checklists.task_lines import TaskLine
from untildone.adapters.stories.source_kind import NO_OPTIONS, Found, Kind, Options
from untildone.domain.regex import regex
from untildone.domain.stories.schedule import wrong
from untildone.domain.stories.story import Remark, Story, StoryContext

NAME = "speckit"
HOME = "specs"
CONSTITUTION = ".specify/memory/constitution.md"
_DOCUMENTS = ("spec.md", "plan.md", "research.md", "data-model.md", "quickstart.md", "contracts")
# T012, T012a for one that was put in later, and T012-A or T012.1 for a part of one.
_PART = r"(?:[A-Za-z]|[-.][0-9A-Za-z]{1,2})?(?![0-9A-Za-z])"
_ID = regex(rf"[*_`~]{{0,3}}(T[0-9]{{3,}}{_PART})")
# A number behind tags (`[P] T012`) or signs (`✅ T009`), or in brackets (`[T003]`).
_BEHIND = regex(
    r"(?P<tags>(?:\[(?!T[0-9]{3})[^\[\]]{1,20}\]\s*|[^\x00-\x7f\w\s]{1,4}\s*){0,4})"
    rf"(?P<wrap>[*_`~]{{0,3}})(?:\[(?P<boxed>T[0-9]{{3,}}{_PART})\]|(?P<bare>T[0-9]{{3,}}{_PART}))"
    r"(?P<close>[.:)]?[*_`~]{0,3}[.:)]?)\s*"
)
_UNBOXED = regex(rf"\s*(?:[-*+]\s+)?[*_`~]{{0,3}}T[0-9]{{3,}}{_PART}")
_PHASE = regex(r"Phase\s+([0-9]+(?:\.[0-9]+)*[a-z]?)\b", re.IGNORECASE)
_PRIORITY = regex(r"\bPriority:\s*P([0-9]{1,3})\b", re.IGNORECASE)
_PARALLEL = regex(r"[^\[]{0,12}\[P\]")
_OF_STORY = regex(r"\[US[0-9]+\]")
_NUMBER = rf"[0-9]{{3,}}{_PART}"
_TO = rf"(?:(?: ?[-\u2013\u2014] ?| (?:to|thru|through) )T|[-\u2013])({_NUMBER})"
_DEPENDS = regex(
    rf"depends on ((?:T{_NUMBER}(?:{_TO})?(?:,? and |, ?|/| ?[&+] ?)?)+)", re.IGNORECASE
)
_NAMED = regex(rf"T({_NUMBER})(?:{_TO})?", re.IGNORECASE)
_MUST_HOLD = regex(
    r"\*\*(Independent Test|Checkpoint)(?:[ \t]*\([^()]*\))?(?:\*\*:?|:[ \t]*\*\*)[ \t]*(.+)",
    re.IGNORECASE,
)
_ENDS_IT = regex(r"$|[-*+>|#]|```|---|[0-9]+[.)]\s")
_MOST_EDGES = 50_000


def _select(lines: Sequence[str], boxes: Sequence[TaskLine]) -> tuple[list[TaskLine], list[Remark]]:
    """The boxes with a number; in a file that has no such number at all, every box."""
    boxes = [box if _has_id(box) else _numbered(box) for box in boxes]
    if any(map(_has_id, boxes)) or any(map(_UNBOXED.match, lines)):
        is_task, why = _has_id, "A box without a number like T001 is a note and not counted."
    else:
        is_task, why = _is_no_legend, "A letter in the box is no state."
    refused = [Remark(box.line, why) for box in boxes if not is_task(box)]
    return [box for box in boxes if is_task(box)], refused


def _has_id(box: TaskLine) -> bool:
    return bool(_ID.match(box.text))


def _numbered(box: TaskLine) -> TaskLine:
    """The box with its number at the start of its text, as the format has it."""
    found = _BEHIND.match(box.text)
    if found is None:
        return box
    wrap = "" if found["wrap"] in found["close"] else found["wrap"]
    number = found["boxed"] or found["bare"]
    words = (number, found["tags"].strip(), wrap + box.text[found.end() :])
    return replace(box, text=" ".join(filter(None, words)))


def _is_no_legend(box: TaskLine) -> bool:
    return not box.mark.isalnum() or box.mark in "xX"


def _group(lines: Sequence[str], tasks: Sequence[TaskLine]) -> Stories:
    """The phases, called by their number where it is unique."""
    found = grouping.stories(lines, tasks)
    names = [match[1] if (match := _PHASE.match(s.title)) else "" for s in found]
    count = Counter(names)
    return tuple(
        replace(story, id=f"phase-{name}") if name and count[name] == 1 else story
        for story, name in zip(found, names, strict=True)
    )


def _annotate(
    lines: Sequence[str], groups: Stories, stories: Stories
) -> tuple[Stories, list[Remark]]:
    waits = _waits(groups)
    told = stories
    remarks: list[Remark] = []
    if len(groups) == 1 or len(stories) != 1:
        told, remarks = _dependent(groups, stories, waits)
    edges = [*(group.line for group in groups), len(lines) + 1]
    must = {start: tuple(_must_hold(lines[start : end - 1])) for start, end in pairwise(edges)}
    unboxed = [
        Remark(number, "A task without a box is not counted; write `- [ ] T001 …`.")
        for number, line in enumerate(lines, start=1)
        if "T" in line and _UNBOXED.match(line)
    ]
    told = tuple(_with_words(story, must.get(story.line, ())) for story in told)
    return told, [*unboxed, *remarks]


def _must_hold(lines: Sequence[str]) -> Iterator[str]:
    for at, line in enumerate(lines):
        if match := _MUST_HOLD.match(line.strip()):
            rest = takewhile(lambda more: not _ENDS_IT.match(more.strip()), lines[at + 1 :])
            yield f"{match[1]}: {' '.join([match[2], *map(str.strip, rest)]).strip()}"


def _with_words(story: Story, must: tuple[str, ...]) -> Story:
    priority = _PRIORITY.search(story.title)
    return replace(
        story,
        acceptance=must,
        priority=int(priority[1]) if priority else None,
        parallel=all(_PARALLEL.match(task.text) for task in story.tasks),
    )


def _waits(groups: Stories) -> list[range]:
    """For each phase the phases that come first.

    A phase of user stories waits for the last one that is not; any other waits for all before it,
    back to the one like it.
    """
    found = []
    barrier = 0
    for at, group in enumerate(groups):
        of_story = any(_OF_STORY.search(task.text) for task in group.tasks)
        if of_story:
            found.append(range(max(barrier - 1, 0), barrier))
        else:
            found.append(range(max(barrier - 1, 0), at))
            barrier = at + 1
    return found


def _dependent(
    groups: Stories, stories: Stories, waits: Sequence[range]
) -> tuple[Stories, list[Remark]]:
    """What each story waits for: the phases before its own, and what its text names.

    Texts order single tasks; whole phases cannot always be put in such an order.
    """
    before = _stories_of_earlier_phases(groups, stories, waits)
    owner = _story_by_task(stories)
    phased, told = [], []
    for story in stories:
        names = before[story.id]
        phased.append(_waiting(story, names))
        named = [name for task in story.tasks for name in _named(task.text, owner)]
        told.append(_waiting(story, [*names, *(owner.get(name, name) for name in named)]))
    circle = next((why for _, why in wrong(told) if "wait for each other" in why), "")
    if circle and len(stories) < sum(len(story.tasks) for story in stories):
        why = (
            f"What the tasks depend on does not hold for whole phases ({circle}); the file's does."
        )
        return tuple(phased), [Remark(1, why)]
    return tuple(told), []


def _story_by_task(stories: Stories) -> dict[str, str]:
    """The ids of stories by the numbers of their tasks."""
    tasks = ((task, story.id) for story in stories for task in story.tasks)
    return {match[1]: name for task, name in tasks if (match := _ID.match(task.text))}


def _stories_of_earlier_phases(
    groups: Stories, stories: Stories, waits: Sequence[range]
) -> dict[str, list[str]]:
    """For each story those of the phases that its own waits for; none where it would be too many.

    A whole phase that waits for another makes as many pairs as the product of their tasks.
    """
    lines = {task.line: at for at, group in enumerate(groups) for task in group.tasks}
    phase_of = {story.id: lines[story.tasks[-1].line] for story in stories}
    members: list[list[str]] = [[] for _ in groups]
    for name, phase in phase_of.items():
        members[phase].append(name)
    before = [[name for at in first for name in members[at]] for first in waits]
    edges = sum(len(before[phase]) for phase in phase_of.values())
    return {name: before[at] if edges <= _MOST_EDGES else [] for name, at in phase_of.items()}


def _named(text: str, known: Collection[str]) -> Iterator[str]:
    """The tasks that the text says it depends on; of `T001-T003` all that are there."""
    for listed in _DEPENDS.finditer(text):
        written = {name.casefold(): name for name in known}
        for first, last in _NAMED.findall(listed[1].casefold()):
            edges = sorted((_place(first), _place(last or first)))
            between = [n for n in known if edges[0] <= _place(n[1:]) <= edges[1]] if last else []
            ends = [f"t{first}", *([f"t{last}"] if last else [])]
            yield from between or [written.get(name, name.replace("t", "T", 1)) for name in ends]


def _place(number: str) -> tuple[int, str]:
    """What orders numbers of any length: 012, 012a, 013, 1000."""
    plain = number.lstrip("0").casefold()
    return len(plain) - len(plain.lstrip("0123456789")), plain


def _waiting(story: Story, names: Sequence[str]) -> Story:
    first = tuple(name for name in dict.fromkeys(names) if name != story.id)
    return replace(story, depends_on=first)


RULES = Rules(select=_select, group=_group, annotate=_annotate)


def recognises(root: Path, change: str) -> bool:
    """There is a feature of this name, with tasks."""
    return spec_folders.has_tasks(root, HOME, change)


def find(root: Path) -> tuple[Found, ...]:
    """The features that have tasks."""
    return spec_folders.find(root, HOME, lambda name: SpecKit(root, name))


class SpecKit(ChecklistSource):
    """The story source for one feature; checklists beside it are gates, not tasks."""

    def __init__(self, root: Path, change: str, options: Options = NO_OPTIONS) -> None:
        self._root = root
        self._home = f"{HOME}/{spec_folders.checked_name(change, HOME, 'Spec Kit feature')}"
        path = f"{self._home}/{spec_folders.TASKS}"
        super().__init__(ChecklistFile(root, path, change, NAME, RULES, options.granularity))

    def context(self, story: Story) -> StoryContext:
        """The documents of the feature, and the constitution of the project."""
        del story
        pointers = [*spec_folders.documents(self._root, self._home, _DOCUMENTS)]
        if (self._root / CONSTITUTION).is_file():
            pointers.append(CONSTITUTION)
        return StoryContext(pointers=tuple(pointers))


SOURCE = Kind(
    name=NAME,
    title="Spec Kit features",
    make=SpecKit,
    find=find,
    recognises=recognises,
)
