"""Stories of GitHub: the issues with a label or of a milestone, through the program `gh`."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from untildone.adapters.stories.checklists import naming
from untildone.adapters.stories.documents import fields
from untildone.adapters.stories.documents.json_text import Json
from untildone.adapters.stories.documents.stateful_source import NewState
from untildone.adapters.stories.documents.tracker_program import (
    Listing,
    Program,
    Refused,
    TrackerSource,
)
from untildone.adapters.stories.source_kind import Kind
from untildone.domain.errors import SourceAway
from untildone.domain.regex import regex
from untildone.domain.stories.story import Remark, Story, StoryBook, Task

NAME = "github"
GH = Program("gh", "Install the GitHub CLI: https://cli.github.com")
LIMIT = 1000
_FIELDS = ("number", "title", "body", "state", "labels", "milestone", "url")
_BLOCKED_BY = "blockedBy"
_NEWER_FIELDS = ("stateReason", _BLOCKED_BY)  # `gh` 2.46 knows neither of them
_MILESTONES = "repos/{owner}/{repo}/milestones?state=all&per_page=100"
_NO_LOGIN = 4
_OVER = ("CLOSED", "MERGED")
_NOT_WANTED = {"NOT_PLANNED": "it is not planned", "DUPLICATE": "it is a duplicate"}
_WAITS = regex(r"^[\s>*-]*(?:depends on|blocked by|requires)\b:?(.*)$", re.I | re.MULTILINE)
_NUMBER = regex(r"(?<![\w/])#([0-9]{1,9})\b")
_ADDRESS = regex(r"[a-z]+://[^/]+/([^/]+/[^/]+)/[^/]+/[0-9]+")
_CRITERIA = regex(r"^#{1,6}\s*acceptance\b[^\n]*\n(.*?)(?=^#{1,6}\s|\Z)", re.I | re.M | re.S)
_BULLET = regex(r"^\s*(?:[-*+]|[0-9]{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(.+)$", re.MULTILINE)

Issue = Mapping[str, Json]


class Choice(Struct, frozen=True):
    """A label or a milestone by its own name."""

    kind: str
    name: str

    @property
    def flags(self) -> tuple[str, str]:
        """How `gh issue list` is told: labels are a row of CSV, digits are a milestone's number."""
        if self.kind == "label":
            quoted = self.name.replace('"', '""')
            return "--label", f'"{quoted}"' if re.search(r'[",]', self.name) else self.name
        if self.name.isdecimal():
            return "--search", f'milestone:"{self.name}"'
        return "--milestone", self.name

    def fits(self, issue: Issue) -> bool:
        """Whether it is so: a search takes a comma for an `or`."""
        if self.kind == "label":
            found = _label_names(issue)
        else:
            milestone = issue.get("milestone")
            found = [fields.text(milestone.get("title"))] if isinstance(milestone, dict) else []
        return self.name.lower() in (name.lower() for name in found)


class GitHub(TrackerSource):
    """The story source for one label or milestone."""

    NAME = NAME

    def __init__(self, root: Path, change: str) -> None:
        super().__init__(root, change)
        self._newer_fields: tuple[str, ...] = _NEWER_FIELDS
        self._chosen: Choice | None = None

    def open(self) -> Listing:
        issues = sorted(self._issues(), key=_number)
        chosen = self._chosen
        path = f"GitHub {chosen.kind} {chosen.name}" if chosen else "GitHub"
        return Listing(_Book(issues, self._state).made(self.change, path), self._write_state)

    def _issues(self) -> list[Issue]:
        """By label, else by milestone, else by one of them that makes the same name."""
        if self._chosen:
            return self._asked(self._chosen)
        for choice in self._choices():
            if found := self._asked(choice):
                self._chosen = choice
                return found
        return []

    def _choices(self) -> Iterator[Choice]:
        yield Choice("label", self.change)
        yield Choice("milestone", self.change)
        listed = self._ask("label", "list", "--limit", "500", "--json=name")
        yield from self._alike("label", listed, "name")
        yield from self._alike("milestone", self._ask("api", _MILESTONES), "title")

    def _alike(self, kind: str, known: Json, key: str) -> Iterator[Choice]:
        for name in (fields.text(each.get(key)) for each in _objects(known)):
            if name != self.change and naming.slug(name) == self.change:
                yield Choice(kind, name)

    def _asked(self, choice: Choice) -> list[Issue]:
        flags = (*choice.flags, "--state", "all", "--limit", str(LIMIT))
        wanted = ",".join((*_FIELDS, *self._newer_fields))
        try:
            found = self._ask("issue", "list", *flags, "--json", wanted)
        except Refused as refused:
            known = tuple(name for name in self._newer_fields if f'"{name}"' not in refused.said)
            if known == self._newer_fields:
                raise
            self._newer_fields = known  # it names one field that it does not know
            return self._asked(choice)
        return [issue for issue in _objects(found) if choice.fits(issue)]

    def _state(self, number: str) -> str:
        """The state of an issue or a pull request that is not in the list."""
        try:
            issue = self._ask("issue", "view", number, "--json", "state")
        except Refused as refused:
            if re.search(r"(?i)could not resolve to|not found", refused.said):
                return ""
            raise
        return fields.text(issue.get("state")) if isinstance(issue, dict) else ""

    def _ask(self, *args: str) -> Json:
        with _login_named():
            return GH.ask(self.root, *args)

    def _write_state(self, new: NewState) -> None:
        verb, why = "reopen", "Open again: it was closed by an attempt that did not finish it."
        if new.done:
            verb, why = "close", "Done by a run of untildone."
        with _login_named():
            GH.call(self.root, "issue", verb, new.task.id, "--comment", why)


@contextmanager
def _login_named() -> Iterator[None]:
    """Who is not logged in, or no longer, is told how."""
    try:
        yield
    except Refused as refused:
        if refused.code != _NO_LOGIN and not re.search("HTTP 401|401 Unauthorized", refused.said):
            raise
        raise SourceAway(refused.message, hint="gh auth login") from refused


class _Book:
    """From issues to stories; `state` asks for that of an issue that is not among them."""

    def __init__(self, issues: Sequence[Issue], state: Callable[[str], str]) -> None:
        self._issues = {str(_number(issue)): issue for issue in issues}
        self._state = state
        self._ignored: list[Remark] = []

    def made(self, change: str, path: str) -> StoryBook:
        count = len(self._issues)
        problems = [] if count else [Remark(1, f"No issue has this label or milestone: {change}")]
        if count >= LIMIT:
            why = f"There are {LIMIT} issues or more; the list may be cut short."
            problems.append(Remark(1, why))
        return StoryBook(
            change=change,
            source=NAME,
            path=path,
            stories=tuple([self._story(*each) for each in self._issues.items()]),
            ignored=tuple(self._ignored),
            problems=tuple(problems),
            boxes=False,
        )

    def _story(self, number: str, issue: Issue) -> Story:
        line = int(number)
        title = fields.title(fields.text(issue.get("title"))) or f"#{number}"
        done = fields.text(issue.get("state")).upper() == "CLOSED"
        if done and (why := _NOT_WANTED.get(fields.text(issue.get("stateReason")).upper())):
            self._ignored.append(Remark(line, f"Issue #{number} counts as done: {why}."))
        needed = {} if done else _needed(issue)
        body = fields.text(issue.get("body")).replace("\r\n", "\n")
        return Story(
            id=number,
            title=title,
            tasks=(Task(number, title, done, line, asks=self._waits_for_others(number, needed)),),
            depends_on=tuple(n for n in needed if n in self._issues and n != number),
            line=line,
            body=fields.bounded(body),
            acceptance=_criteria(body),
            priority=_priority(issue),
        )

    def _waits_for_others(self, number: str, needed: Mapping[str, str]) -> bool:
        """Whether it waits for open issues that are no stories of this book."""
        outside = ((name, known) for name, known in needed.items() if name not in self._issues)
        others = [name for name, known in outside if (known or self._state(name)) not in _OVER]
        if others:
            named = ", ".join(other if "#" in other else f"#{other}" for other in others)
            why = f"Issue #{number} waits for others than these: {named}"
            self._ignored.append(Remark(int(number), why))
        return bool(others)


def issue_text(root: Path, which: str) -> tuple[str, str]:
    """Title and text of one issue, by its number or address."""
    number = which.removeprefix("#")
    answer = GH.ask(root, "issue", "view", number, "--json", "title,body")
    found = answer if isinstance(answer, dict) else {}
    return fields.text(found.get("title")), fields.text(found.get("body"))


def _needed(issue: Issue) -> dict[str, str]:
    """What it waits for, with the state where it is told: a number, or `owner/name#number`.

    These are GitHub's own links, and lines of the text that begin with `Depends on` or such.
    """
    linked = issue.get(_BLOCKED_BY)
    nodes = _objects(linked.get("nodes") if isinstance(linked, dict) else linked)
    needed = {_name(n, issue): fields.text(n.get("state")) for n in nodes if _number(n)}
    for line in _WAITS.findall(fields.text(issue.get("body"))):
        for number in _NUMBER.findall(line):
            needed.setdefault(number, "")
    return needed


def _name(node: Issue, issue: Issue) -> str:
    """Its number in the repository of the issue, with the repository when it is another."""
    number = str(_number(node))
    there, here = (_ADDRESS.match(fields.text(each.get("url"))) for each in (node, issue))
    if there and here and there[1].lower() != here[1].lower():
        return f"{there[1]}#{number}"
    return number


def _criteria(body: str) -> tuple[str, ...]:
    section = _CRITERIA.search(body)
    return tuple(text.strip() for text in _BULLET.findall(section[1])) if section else ()


def _priority(issue: Issue) -> float | None:
    named = (
        fields.priority(re.sub(r"(?i)^prio(?:rity)?[\s:/_-]*", "", name))
        for name in _label_names(issue)
        if re.match(r"(?i)prio(?:rity)?[\s:/_-]|p[0-9]$", name)
    )
    return next((found for found in named if found is not None), None)


def _label_names(issue: Issue) -> list[str]:
    return [fields.text(label.get("name")) for label in _objects(issue.get("labels"))]


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
