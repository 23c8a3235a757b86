"""Stories of GitHub: the issues with a label or of a milestone, through the program `gh`."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from untildone.adapters.stories import fields, labels
from untildone.adapters.stories.json_text import Json
from untildone.adapters.stories.kind import Kind
from untildone.adapters.stories.marked import Flip
from untildone.adapters.stories.outside import Listing, OutsideSource, Program, Refused
from untildone.domain.errors import StoriesError
from untildone.domain.story import Remark, Story, StoryBook, Task

NAME = "github"
GH = Program("gh", "Install the GitHub CLI: https://cli.github.com")
LIMIT = 1000
_FIELDS = "number,title,body,state,stateReason,labels,url"
_BLOCKED_BY = "blockedBy"
_NO_LOGIN = 4
_WAITS = re.compile(r"^[\s>*-]*(?:depends on|blocked by|requires)\b:?(.*)$", re.I | re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w/])#([0-9]{1,9})\b")
_CRITERIA = re.compile(r"^#{1,6}\s*acceptance\b[^\n]*\n(.*?)(?=^#{1,6}\s|\Z)", re.I | re.M | re.S)
_BULLET = re.compile(r"^\s*(?:[-*+]|[0-9]{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(.+)$", re.MULTILINE)

Issue = Mapping[str, Json]


class GitHub(OutsideSource):
    """The story source for one label or milestone."""

    NAME = NAME

    def __init__(self, root: Path, change: str) -> None:
        super().__init__(root, change)
        self._more = f",{_BLOCKED_BY}"
        self._chosen: tuple[str, str] | None = None

    def open(self) -> Listing:
        """Ask for the issues as they are now."""
        issues = sorted(self._issues(), key=_number)
        path = f"GitHub {' '.join(self._chosen)}" if self._chosen else "GitHub"
        return Listing(_book(issues, self.change, path.replace("--", ""), self._state), self._tell)

    def _issues(self) -> list[Issue]:
        """By label, else by milestone, else by a label that makes the same name."""
        if self._chosen:
            return self._asked(*self._chosen)
        for choice in self._choices():
            try:
                found = self._asked(*choice)
            except Refused as refused:
                if choice[0] == "--milestone" and refused.code == 1:
                    continue  # `gh` fails where no milestone has this name
                raise
            if found:
                self._chosen = choice
                return found
        return []

    def _choices(self) -> Iterator[tuple[str, str]]:
        yield "--label", self.change
        yield "--milestone", self.change
        for known in _objects(GH.ask(self.root, "label", "list", "--limit", "500", "--json=name")):
            name = fields.text(known.get("name"))
            if name != self.change and labels.slug(name) == self.change:
                yield "--label", name

    def _asked(self, flag: str, name: str) -> list[Issue]:
        limit = ("--state", "all", "--limit", str(LIMIT))
        try:
            found = GH.ask(
                self.root, "issue", "list", flag, name, *limit, "--json", _FIELDS + self._more
            )
        except Refused as refused:
            if refused.code == _NO_LOGIN:
                raise StoriesError(refused.message, hint="gh auth login") from refused
            if not self._more or _BLOCKED_BY not in refused.said:
                raise
            self._more = ""  # an older `gh` does not know the field
            return self._asked(flag, name)
        return _objects(found)

    def _state(self, number: str) -> str:
        """The state of an issue that is not in the list."""
        try:
            issue = GH.ask(self.root, "issue", "view", number, "--json", "state")
        except Refused:
            return ""
        return fields.text(issue.get("state")) if isinstance(issue, dict) else ""

    def _tell(self, flip: Flip) -> None:
        number = flip.task.id
        if flip.done:
            GH.call(
                self.root, "issue", "close", number, "--comment", "Done and checked by untildone."
            )
        else:
            why = "Open again: it was closed by an attempt that did not finish it."
            GH.call(self.root, "issue", "reopen", number, "--comment", why)


def _book(
    issues: Sequence[Issue], change: str, path: str, state: Callable[[str], str]
) -> StoryBook:
    mine = {str(_number(issue)): issue for issue in issues}
    ignored: list[Remark] = []
    problems = [] if mine else [Remark(1, f"No issue has this label or milestone: {change}")]
    if len(mine) >= LIMIT:
        problems.append(Remark(1, f"There are {LIMIT} issues or more; the list may be cut short."))
    stories = []
    for number, issue in mine.items():
        line = int(number)
        title = fields.title(fields.text(issue.get("title"))) or f"#{number}"
        done = fields.text(issue.get("state")).upper() == "CLOSED"
        if done and fields.text(issue.get("stateReason")).upper() == "NOT_PLANNED":
            ignored.append(Remark(line, f"Issue #{number} counts as done: it is not planned."))
        waits = [] if done else list(dict.fromkeys(_needed(issue)))
        others = [other for other in waits if other not in mine and state(other) != "CLOSED"]
        if others:
            named = ", ".join(f"#{other}" for other in others)
            ignored.append(Remark(line, f"Issue #{number} waits for others than these: {named}"))
        body = fields.text(issue.get("body")).replace("\r\n", "\n")
        stories.append(
            Story(
                id=number,
                title=title,
                tasks=(Task(number, title, done, line, asks=bool(others)),),
                depends_on=tuple(other for other in waits if other in mine and other != number),
                line=line,
                body=fields.bounded(body),
                acceptance=_criteria(body),
                priority=_priority(issue),
            )
        )
    return StoryBook(
        change=change,
        source=NAME,
        path=path,
        stories=tuple(stories),
        ignored=tuple(ignored),
        problems=tuple(problems),
        boxes=False,
    )


def _needed(issue: Issue) -> Iterator[str]:
    """GitHub's own links, and lines of the text that begin with `Depends on` or `Blocked by`."""
    linked = issue.get(_BLOCKED_BY)
    nodes = linked.get("nodes") if isinstance(linked, dict) else linked
    for node in nodes if isinstance(nodes, list) else ():
        if isinstance(node, dict) and fields.text(node.get("number")):
            yield fields.text(node["number"])
    for line in _WAITS.findall(fields.text(issue.get("body"))):
        yield from _NUMBER.findall(line)


def _criteria(body: str) -> tuple[str, ...]:
    section = _CRITERIA.search(body)
    return tuple(text.strip() for text in _BULLET.findall(section[1])) if section else ()


def _priority(issue: Issue) -> int | None:
    named = (
        fields.priority(re.sub(r"(?i)^prio(?:rity)?[\s:/_-]*", "", name))
        for name in fields.texts(issue.get("labels"))
        if re.match(r"(?i)prio(?:rity)?[\s:/_-]|p[0-9]$", name)
    )
    return next((found for found in named if found is not None), None)


def _number(issue: Issue) -> int:
    number = issue.get("number")
    return number if isinstance(number, int) else 0


def _objects(value: Json) -> list[Issue]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


SOURCE = Kind(
    name=NAME,
    title="Issues on GitHub",
    make=lambda root, change, options: GitHub(root, change),
    find=lambda root: (),  # asking costs a call over the network: only when it is named
    recognises=lambda root, change: False,
    missing=GH.missing,
)
