"""The task graph in newer Kiro files: waves of tasks, or for single tasks what comes first."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from msgspec import Struct

from untildone.adapters.stories.documents.json_text import plain
from untildone.domain.stories.story import Remark

_FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_WAVES = '"waves"'
_NEEDS = "depends_on"
_NAMED = 10  # at most so many are told
_LONGEST = 40


class Row(Struct, frozen=True):
    """Tasks and what they wait for; None is the row before."""

    tasks: tuple[str, ...]
    needs: tuple[str, ...] | None = None


class TaskGraph:
    """What a file's graph says about stories.

    `owners` are the numbers of tasks, each with the story that it belongs to; a number stands for
    all below it as well. `placed` are the stories that the graph speaks of. `passed_over` gives the
    numbers of tasks that are no part of any story.
    """

    def __init__(
        self,
        text: str,
        owners: Sequence[tuple[str, str]],
        passed_over: Callable[[], Collection[str]],
    ) -> None:
        self._owners = owners
        self._passed_over = passed_over
        self.below: dict[str, list[str]] = {}
        for number, story in owners:
            for name in _upwards(number):
                self.below.setdefault(name, []).append(story)
        self.edges: list[tuple[str, list[str]]] = []
        self.placed: set[str] = set()
        self.remarks: list[Remark] = []
        if _WAVES in text or _NEEDS in text:
            for block in _FENCED.finditer(text):
                self._read(block[1], text.count("\n", 0, block.start(1)) + 1)

    def _read(self, block: str, line: int) -> None:
        import json  # noqa: PLC0415 - few files have it

        meant = _WAVES in block
        try:
            rows = list(_rows(json.loads(block, parse_float=str)))  # 1.10 is not 1.1
        except json.JSONDecodeError as error:
            if meant:
                why = f"The task graph is not JSON, so it orders nothing: {error.msg}."
                self.remarks.append(Remark(line + error.lineno - 1, why))
            return
        except (ValueError, RecursionError):
            return
        known = len(self.placed)
        self._follow(rows)
        if meant and len(self.placed) == known:
            why = "The task graph orders nothing: there is no task of this file in its `waves`."
            self.remarks.append(Remark(line, why))
        elif unknown := list(self._unknown(rows)) if len(self.placed) > known else []:
            more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
            named = plain(", ".join(name[:_LONGEST] for name in unknown[:_NAMED]))
            why = f"The task graph names what is no task of this file: {named}{more}"
            self.remarks.append(Remark(line, why))

    def _follow(self, rows: Sequence[Row]) -> None:
        named = {name for row in rows for name in row.tasks}
        members: dict[str, list[str]] = {}
        for number, story in self._owners:
            # What is named by its own number is not moved by that of the task above it.
            name = next((name for name in _upwards(number) if name in named), "")
            members.setdefault(name, []).append(story)
        before: list[str] = []
        for row in rows:
            found = [story for name in row.tasks for story in members.get(name, ())]
            if row.needs is None:
                needs, before = before, found or before
            else:
                needs = [story for name in row.needs for story in self.below.get(name, ())]
            self.edges += [(story, needs) for story in found]
            self.placed.update(found)

    def _unknown(self, rows: Sequence[Row]) -> Iterator[str]:
        names = dict.fromkeys(name for row in rows for name in (*row.tasks, *(row.needs or ())))
        unknown = [name for name in names if name not in self.below]
        others = {up for n in self._passed_over() for up in _upwards(n)} if unknown else set()
        yield from (name for name in unknown if name not in others)


def _upwards(number: str) -> Iterator[str]:
    """The number itself, then those above it: 1.2.3, 1.2, 1."""
    while number:
        yield number
        number = number.rpartition(".")[0]


def _rows(graph: object) -> Iterator[Row]:
    listed = graph.get("waves", graph.get("tasks")) if isinstance(graph, dict) else graph
    waves = listed if isinstance(listed, list) else []
    for wave in sorted(waves, key=_place) if all(_is_numbered(w) for w in waves) else waves:
        single = isinstance(wave, dict) and "tasks" not in wave
        yield Row(tuple(_ids(wave)), tuple(_ids(wave.get(_NEEDS) or [])) if single else None)
    needs = graph.get("dependencies") if isinstance(graph, dict) else None
    for name, first in needs.items() if isinstance(needs, dict) else ():
        yield Row(tuple(_ids([name])), tuple(_ids(first if isinstance(first, list) else [first])))


def _is_numbered(wave: object) -> bool:
    return isinstance(wave, dict) and "tasks" in wave and isinstance(_place(wave), int)


def _place(wave: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever the file has there
    """The number of a wave, which says when its turn is."""
    return wave.get("id", wave.get("wave"))


def _ids(wave: object) -> Iterator[str]:
    """The numbers of tasks in one wave, whatever its shape; what is none, in quotes."""
    if isinstance(wave, dict):
        wave = wave.get("tasks", [wave.get("id", wave.get("task"))])
    for item in wave if isinstance(wave, list) else [None]:
        found = item.get("id", item.get("task")) if isinstance(item, dict) else item
        if isinstance(found, str | int) and not isinstance(found, bool):
            yield str(found).strip().rstrip(".*")
        else:
            yield f"`{item}`"
