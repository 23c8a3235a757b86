"""Stories of Beads: its issues, through the program `bd`."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from untildone.adapters.stories.documents import fields
from untildone.adapters.stories.documents.json_text import Json, JsonText
from untildone.adapters.stories.documents.stateful_source import NewState
from untildone.adapters.stories.documents.tracker_program import (
    Listing,
    Program,
    Refused,
    TrackerSource,
)
from untildone.adapters.stories.source_kind import Found, Kind
from untildone.domain.errors import SourceAway, StoriesError
from untildone.domain.stories.story import Remark, Story, StoryBook, Task
from untildone.plain_files import read_bytes

NAME = "beads"
CHANGE = "beads"
HOME = ".beads"
BD = Program("bd", "Install Beads: https://github.com/gastownhall/beads")
_EXPORT = f"{HOME}/issues.jsonl"
_CLOSED = "closed"
_DELETED = "tombstone"
_GOES_ON = ("open", "in_progress")
_BLOCKING = ("blocks", "conditional-blocks", "waits-for")
_PARENT = "parent-child"
_ELSEWHERE = "external:"
_TEXTS = ("description", "design", "notes")
# What `bd ready` never gives out: containers, mail and the identities of its own machinery.
_NO_WORK = frozenset({"merge-request", "gate", "molecule", "message", "agent", "role", "rig"})
# What it writes down beside the work, such as a change of state below the issue it happened to.
_RECORDS = frozenset({"event", "session", "step", "slot", "convoy"})
_CONTAINERS = ("epic", "molecule")

Issue = Mapping[str, Json]


class Beads(TrackerSource):
    """The story source for the issues of a repository, of an epic or with a label."""

    NAME = NAME

    def __init__(self, root: Path, change: str) -> None:
        super().__init__(root, change)
        self._records: dict[str, list[str]] = {}

    def open(self) -> Listing:
        issues = {fields.text(issue.get("id")): issue for issue in self._issues()}
        book = _Book(issues, self._unlisted(issues), self.change)
        self._records = book.open_records()
        return Listing(book.made(), self._write_state)

    def listed(self) -> list[Issue]:
        """All issues, as briefly as a list tells them."""
        return _objects(self._listed())

    def _issues(self) -> list[Issue]:
        issues = self.listed()
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

    def _unlisted(self, issues: Mapping[str, Issue]) -> dict[str, Issue]:
        """What blocks and is not listed, such as a gate."""
        needed = dict.fromkeys(other for i in issues.values() for other in _needed(i, _BLOCKING))
        others = [n for n in needed if n not in issues and not n.startswith(_ELSEWHERE)]
        try:
            told = _objects(BD.ask(self.root, "show", *others, "--json")) if others else []
        except Refused:
            return {}  # it knows none of them any more
        return {fields.text(issue.get("id")): issue for issue in told}

    def _write_state(self, new: NewState) -> None:
        name = new.task.id
        if new.done:
            self._close(name)
            return
        reason = "Not done: closed by an attempt that did not finish it"
        self._change(name, "open", "reopen", "--reason", reason)
        if new.mark not in ("", "open"):
            self._change(name, new.mark, "update", "--status", new.mark)

    def _close(self, name: str) -> None:
        """Close it; versions that refuse an issue above an open record get that closed first."""
        done = (_CLOSED, "close", "--reason", "Done by a run of untildone")
        try:
            self._change(name, *done)
        except (Refused, SourceAway):
            records = self._records.pop(name, ())
            if not records:
                raise
            for record in records:
                reason = "A record of what happened; nothing is left to do"
                self._change(record, _CLOSED, "close", "--reason", reason)
            self._change(name, *done)

    def _change(self, name: str, status: str, verb: str, *args: str) -> None:
        """Change it and look: several versions refuse with words and the exit code 0."""
        BD.call(self.root, verb, name, *args, "--json")
        for issue in _objects(BD.ask(self.root, "show", name, "--json")):
            now = fields.text(issue.get("status"))
            if fields.text(issue.get("id")) == name and now != status:
                raise SourceAway(
                    f"`bd {verb} {name}` changed nothing: the issue is {now}",
                    hint=f"Try `bd {verb} {name}` by hand: it says why.",
                )


class _Book:
    """From issues to stories."""

    def __init__(
        self, issues: Mapping[str, Issue], unlisted: Mapping[str, Issue], change: str
    ) -> None:
        self._issues = issues
        self._known = {**unlisted, **issues}
        self._change = change
        self._ignored: list[Remark] = []
        self._children: dict[str, list[str]] = {}
        for name, issue in issues.items():
            if _kind(issue) not in _RECORDS:  # they are no part of the work they tell of
                self._children.setdefault(self._parent(name), []).append(name)
        mine = self._mine()
        self._records = [name for name in mine if _kind(issues[name]) in _RECORDS]
        self._epics = dict.fromkeys(self._containers(mine))
        work = (name for name in mine if _is_work(issues[name]) and name not in self._epics)
        self._names = dict.fromkeys(work)

    def open_records(self) -> dict[str, list[str]]:
        """The records that are not closed, by the issue they tell of."""
        found: dict[str, list[str]] = {}
        for name in self._records:
            if not self._is_over(name):
                found.setdefault(self._parent(name), []).append(name)
        return found

    def _containers(self, mine: Sequence[str]) -> Iterator[str]:
        """What has issues of this book below it and is not done by itself."""
        parents = {self._parent(name) for name in mine if name not in self._records}
        yield from (n for n in mine if n in parents and _kind(self._issues[n]) in _CONTAINERS)

    def made(self) -> StoryBook:
        for epic in self._epics:
            if not self._is_over(epic):
                kind = _kind(self._issues[epic])
                why = f"The {kind} {epic} is not a story; its issues are."
                self._ignored.append(Remark(1, why))
        stories = [self._story(name) for name in self._names]
        problems = [] if stories else [Remark(1, f"`bd list` has no issue for: {self._change}")]
        return StoryBook(
            change=self._change,
            source=NAME,
            path=HOME,
            stories=tuple(stories),
            ignored=tuple(self._ignored),
            problems=tuple(problems),
            boxes=False,
            records=tuple([self._record(name) for name in self._records]),
        )

    def _mine(self) -> list[str]:
        """All issues, those of an epic, or those with a label."""
        names = [n for n, i in self._issues.items() if n and i.get("status") != _DELETED]
        if self._change == CHANGE:
            return names
        if self._change in self._issues:
            return [name for name in names if self._change in (name, *self._above(name))]
        return [n for n in names if self._change in fields.texts(self._issues[n].get("labels"))]

    def _story(self, name: str) -> Story:
        issue = self._issues[name]
        title = fields.title(fields.text(issue.get("title"))) or name
        word = fields.text(issue.get("status")) or "open"
        done = word == _CLOSED
        inside, outside = ([], []) if done else self._needs(name)
        stays = word not in _GOES_ON or issue.get("pinned") is True
        asks = not done and (stays or bool(outside))
        texts = [fields.text(issue.get(key)) for key in _TEXTS]
        return Story(
            id=fields.story_id(name),
            title=title,
            tasks=(Task(name, title, done, 1, mark=word, asks=asks),),
            depends_on=tuple(map(fields.story_id, inside)),
            line=1,
            body=fields.bounded("\n\n".join(filter(None, texts))),
            acceptance=fields.texts(issue.get("acceptance_criteria")),
            priority=fields.priority(issue.get("priority")),
        )

    def _record(self, name: str) -> Story:
        title = fields.title(fields.text(self._issues[name].get("title"))) or name
        task = Task(name, title, self._is_over(name), 1)
        return Story(id=fields.story_id(name), title=title, tasks=(task,), line=1)

    def _needs(self, name: str) -> tuple[list[str], list[str]]:
        """The stories that it waits for, and the issues that are none of them."""
        waits = dict.fromkeys(self._waits(name))
        outside = [other for other in waits if other not in self._names]
        if outside:
            why = f"Issue {name} waits for issues that are not part of this: {', '.join(outside)}"
            self._ignored.append(Remark(1, why))
        return [other for other in waits if other in self._names], outside

    def _waits(self, name: str) -> Iterator[str]:
        """What is closed before it: what blocks it or what it is part of, and its own parts.

        `bd` refuses an issue with open parts, and one with a blocker of its own.
        """
        parts = [part for part in self._children.get(name, ()) if name not in self._needed(part)]
        for other in (*self._needed(name), *parts):
            yield from self._open(other, name) or ([] if self._is_over(other) else [other])
        for above in self._above(name):
            for other in self._needed(above):
                yield from self._open(other, name)

    def _open(self, name: str, but: str) -> list[str]:
        """The issue if it is open, or the open ones of an epic."""
        names, seen = [name], {name}
        for each in names:  # which grows as epics are found in epics
            if each in self._epics and not self._is_over(each):
                names += [part for part in self._children[each] if part not in seen]
                seen.update(names)
        return [n for n in names if n not in self._epics and n != but and not self._is_over(n)]

    def _needed(self, name: str) -> list[str]:
        return list(_needed(self._issues.get(name, {}), _BLOCKING))

    def _above(self, name: str) -> list[str]:
        found: list[str] = []
        while (name := self._parent(name)) and name not in found:
            found.append(name)
        return found

    def _parent(self, name: str) -> str:
        issue = self._issues.get(name, {})
        linked = next(_needed(issue, (_PARENT,)), "")
        return linked or fields.text(issue.get("parent")) or name.rpartition(".")[0]

    def _is_over(self, name: str) -> bool:
        return self._known.get(name, {}).get("status") in (_CLOSED, _DELETED)


def _kind(issue: Issue) -> str:
    return fields.first(issue, ("issue_type", "type"))


def _is_work(issue: Issue) -> bool:
    """What `bd ready` may give out: no record, no template, nothing that is swept away later."""
    passing = issue.get("is_template") is True or issue.get("ephemeral") is True
    return not passing and _kind(issue) not in _NO_WORK | _RECORDS


def _needed(issue: Issue, kinds: Sequence[str]) -> Iterator[str]:
    """What is depended on; `list` names it by a link, `show` gives the whole issue."""
    found = issue.get("dependencies")
    for link in found if isinstance(found, list) else ():
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
    states = [fields.text(issue.get("status")) for issue in _exported(root) if _is_work(issue)]
    if states and states.count(_CLOSED) == len(states):
        return (Found(CHANGE, len(states), len(states)),)
    if why := BD.missing():
        return (Found(CHANGE, why=f"These stories cannot be read: {why}"),)
    if not states:
        return (Found(CHANGE, why="Only `bd` knows its issues; `untildone stories beads` asks."),)
    return (Found(CHANGE, len(states), states.count(_CLOSED)),)


def _exported(root: Path, holding: bytes = b"") -> Iterator[Issue]:
    """The issues of the last export; of those only the ones whose line holds these bytes."""
    try:
        lines = read_bytes(root / _EXPORT).splitlines()
    except OSError:
        return
    for line in lines:
        if not line or holding not in line:
            continue
        try:
            issue = JsonText(line).root().value
        except StoriesError:
            continue
        if isinstance(issue, dict) and issue.get("id") and issue.get("status") != _DELETED:
            yield issue


def recognises(root: Path, change: str) -> bool:
    """The whole database, or an issue or a label that the export knows; without one, by asking."""
    if not (root / HOME).is_dir():
        return False
    if change == CHANGE:
        return True
    named: Iterable[Issue] = _exported(root, change.encode(errors="surrogateescape"))
    if not (root / _EXPORT).exists() and not BD.missing():
        with contextlib.suppress(StoriesError):  # the next look at the stories says why
            named = Beads(root, change).listed()
    return any(i.get("id") == change or change in fields.texts(i.get("labels")) for i in named)


SOURCE = Kind(
    name=NAME,
    title="Issues of Beads",
    make=lambda root, change, options: Beads(root, change),
    find=find,
    recognises=recognises,
    missing=BD.missing,
)
