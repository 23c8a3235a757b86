"""Stories of Beads: its issues, through the program `bd`."""

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path

from untildone.adapters.stories import fields
from untildone.adapters.stories.json_text import Json, JsonText
from untildone.adapters.stories.kind import Found, Kind
from untildone.adapters.stories.marked import Flip
from untildone.adapters.stories.outside import Listing, OutsideSource, Program, Refused
from untildone.domain.errors import StoriesError
from untildone.domain.story import Remark, Story, StoryBook, Task

NAME = "beads"
CHANGE = "beads"
HOME = ".beads"
BD = Program("bd", "Install Beads: https://github.com/gastownhall/beads")
_EXPORT = f"{HOME}/issues.jsonl"
_CLOSED = "closed"
_GOES_ON = ("open", "in_progress")
_BLOCKING = ("blocks", "conditional-blocks", "waits-for")
_PARENT = "parent-child"
_TEXTS = ("description", "design", "notes")

Issue = Mapping[str, Json]


class Beads(OutsideSource):
    """The story source for the issues of a repository, of an epic or with a label."""

    NAME = NAME

    def open(self) -> Listing:
        """Ask for all issues as they are now."""
        issues = {fields.text(issue.get("id")): issue for issue in self._issues()}
        return Listing(_Book(issues, self.change).made(), self._tell)

    def _issues(self) -> list[Issue]:
        issues = _objects(self._listed())
        lacking = [
            fields.text(issue.get("id"))
            for issue in issues
            if issue.get("dependency_count") and not issue.get("dependencies")
        ]
        told = _objects(BD.ask(self.root, "show", *lacking, "--json")) if lacking else []
        by_id = {fields.text(issue.get("id")): issue for issue in told}
        return [by_id.get(fields.text(issue.get("id")), issue) for issue in issues]

    def _listed(self) -> Json:
        """Closed issues too; older versions list them anyway and do not know the flag."""
        for flags in (("--all", "--limit", "0"), ("--limit", "0")):
            try:
                return BD.ask(self.root, "list", "--json", *flags)
            except Refused as refused:
                if "unknown flag" not in refused.said:
                    raise
        return BD.ask(self.root, "list", "--json")

    def _tell(self, flip: Flip) -> None:
        name = flip.task.id
        if flip.done:
            BD.call(self.root, "close", name, "--reason", "Done and checked by untildone", "--json")
            return
        reason = "Not done: closed by an attempt that did not finish it"
        BD.call(self.root, "reopen", name, "--reason", reason, "--json")
        if flip.mark not in ("", "open"):
            BD.call(self.root, "update", name, "--status", flip.mark, "--json")


class _Book:
    """From issues to stories."""

    def __init__(self, issues: Mapping[str, Issue], change: str) -> None:
        self._issues = issues
        self._change = change
        self._ignored: list[Remark] = []

    def made(self) -> StoryBook:
        mine = dict.fromkeys(self._mine())
        parents = {parent for name in mine for parent in self._needed(name, (_PARENT,))}
        parents |= {name.rpartition(".")[0] for name in mine}
        found = [name for name in mine if not self._is_container(name, parents)]
        stories = [self._story(name, mine) for name in found]
        problems = [] if stories else [Remark(1, f"`bd list` has no issue for: {self._change}")]
        return StoryBook(
            change=self._change,
            source=NAME,
            path=HOME,
            stories=tuple(stories),
            ignored=tuple(self._ignored),
            problems=tuple(problems),
            boxes=False,
        )

    def _mine(self) -> list[str]:
        """All issues, those of an epic, or those with a label."""
        names = [n for n, i in self._issues.items() if n and i.get("status") != "tombstone"]
        if self._change == CHANGE:
            return names
        if self._change in self._issues:
            return [name for name in names if self._is_below(name)]
        return [n for n in names if self._change in fields.texts(self._issues[n].get("labels"))]

    def _is_below(self, name: str) -> bool:
        seen: set[str] = set()
        while name and name not in seen:
            seen.add(name)
            if name == self._change:
                return True
            above = self._needed(name, (_PARENT,))
            name = above[0] if above else name.rpartition(".")[0]
        return False

    def _is_container(self, name: str, parents: set[str]) -> bool:
        epic = self._issues[name].get("issue_type") == "epic"
        if not epic or name not in parents:
            return False
        if self._issues[name].get("status") != _CLOSED:
            self._ignored.append(Remark(1, f"The epic {name} is not a story; its issues are."))
        return True

    def _story(self, name: str, mine: Container[str]) -> Story:
        issue = self._issues[name]
        title = fields.title(fields.text(issue.get("title"))) or name
        word = fields.text(issue.get("status")) or "open"
        done = word == _CLOSED
        above = self._needed(name, (_PARENT,))
        needed = [*self._needed(name, _BLOCKING)]
        needed += [other for parent in above for other in self._needed(parent, _BLOCKING)]
        waits = [other for other in dict.fromkeys(needed) if not self._is_closed(other)]
        outside = [other for other in waits if other not in mine]
        asks = not done and (word not in _GOES_ON or bool(outside))
        if outside and not done:
            why = f"Issue {name} waits for issues that are not part of this: {', '.join(outside)}"
            self._ignored.append(Remark(1, why))
        texts = [fields.text(issue.get(key)) for key in _TEXTS]
        return Story(
            id=fields.story_id(name),
            title=title,
            tasks=(Task(name, title, done, 1, mark=word, asks=asks),),
            depends_on=tuple(fields.story_id(other) for other in waits if other in mine),
            line=1,
            body=fields.bounded("\n\n".join(filter(None, texts))),
            acceptance=fields.texts(issue.get("acceptance_criteria")),
            priority=fields.priority(issue.get("priority")),
        )

    def _is_closed(self, name: str) -> bool:
        return self._issues.get(name, {}).get("status") == _CLOSED

    def _needed(self, name: str, kinds: Sequence[str]) -> list[str]:
        found = self._issues.get(name, {}).get("dependencies")
        return list(_links(found, kinds)) if isinstance(found, list) else []


def _links(found: Sequence[Json], kinds: Sequence[str]) -> Iterator[str]:
    """What is depended on; `list` names it by a link, `show` gives the whole issue."""
    for link in found:
        if isinstance(link, dict):
            kind = fields.first(link, ("type", "dependency_type")) or "blocks"
            if kind in kinds:
                yield fields.first(link, ("depends_on_id", "id"))


def _objects(value: Json) -> list[Issue]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict) and fields.text(item.get("id"))]


def find(root: Path) -> tuple[Found, ...]:
    """The issues as they were exported last; how they stand now only `bd` knows."""
    if not (root / HOME).is_dir():
        return ()
    if why := BD.missing():
        return (Found(CHANGE, why=f"These stories cannot be read: {why}"),)
    states = list(_exported(root))
    if not states:
        return (Found(CHANGE, why="Only `bd` knows its issues; `untildone stories beads` asks."),)
    return (Found(CHANGE, len(states), states.count(_CLOSED)),)


def _exported(root: Path) -> Iterator[str]:
    try:
        lines = (root / _EXPORT).read_bytes().splitlines()
    except OSError:
        return
    for line in filter(None, lines):
        try:
            issue = JsonText(line).root().value
        except StoriesError:
            continue
        if isinstance(issue, dict) and issue.get("status") != "tombstone":
            yield fields.text(issue.get("status"))


def recognises(root: Path, change: str) -> bool:
    """The whole database, or an issue or a label that the export knows."""
    if not (root / HOME).is_dir():
        return False
    if change == CHANGE:
        return True
    try:
        return f'"{change}"'.encode() in (root / _EXPORT).read_bytes()
    except OSError:
        return False


SOURCE = Kind(
    name=NAME,
    title="Issues of Beads",
    make=lambda root, change, options: Beads(root, change),
    find=find,
    recognises=recognises,
    missing=BD.missing,
)
