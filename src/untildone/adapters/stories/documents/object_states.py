"""Whether a story that is an object is done: the fields that say so, their words, both ways."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from untildone.adapters.stories.documents import fields
from untildone.adapters.stories.documents.json_text import Json

FLAGS = ("passes", "completed", "complete", "done")
STATUS = "status"
# Asked only where nothing else says it: in other objects the word means other things.
STATE = "state"
FIELDS = (*FLAGS, STATUS, STATE)
_DONE = {"done", "complete", "completed", "closed", "passed", "passes", "passing", "finished"}
_DONE |= {"verified", "merged", "shipped", "resolved"}
_DROPPED = {"cancelled", "canceled", "skipped", "wontfix", "wont_do", "dropped", "obsolete"}
_OPEN = {
    *("open", "todo", "to_do", "pending", "in_progress", "inprogress", "not_started", "new"),
    *("ready", "backlog", "planned", "queued", "next", "active", "started", "doing", "wip"),
    *("draft", "review", "in_review", "testing", "failed", "failing", "incomplete", "reopened"),
}
# Somebody has to say that these may start.
_HELD = {"blocked", "deferred", "on_hold", "waiting", "needs_human"}


class State(Struct, frozen=True):
    """What an object's own fields say about it being done, as they were written."""

    done: bool
    raw: dict[str, Json]
    mark: str
    asks: bool = False
    remarks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def state_of(value: Mapping[str, Json]) -> State:
    said = tuple([(key, value[key]) for key in FIELDS if key in value])
    try:
        return _told_by(said, tuple([type(word) for _, word in said]))
    except TypeError:  # a list or an object, where a word belongs
        return _told_by.__wrapped__(said, ())


@lru_cache(maxsize=64)  # ten thousand stories have a handful of states
def _told_by(said: tuple[tuple[str, Json], ...], _types: tuple[type, ...]) -> State:
    """The types tell `true` from `1`, which are the same to a cache."""
    raw: dict[str, Json] = {}
    says: dict[str, bool] = {}
    remarks: list[str] = []
    problems: list[str] = []
    value = dict(said)
    for key in FLAGS:
        if key in value and (key != "done" or isinstance(value[key], bool)):
            raw[key], says[key] = value[key], value[key] is True
            if not isinstance(value[key], bool | None):
                problems.append(f"`{key}` has to be true or false, without quotes.")
    name = STATUS if STATUS in value or says or not isinstance(value.get(STATE), str) else STATE
    if name in value:
        word = value[name]
        raw[name], says[name] = word, isinstance(word, str) and _bare(word) in _DONE
        if isinstance(word, str) and _bare(word) in _DROPPED:
            says = dict.fromkeys(says, True)
            remarks.append(f"It counts as done, because its status is: {fields.text(word)}")
        elif not isinstance(word, str | None):
            problems.append("`status` has to be a word.")
        elif word and _bare(word) not in (_DONE | _OPEN | _HELD):
            remarks.append(f"It counts as open; its status is not known: {fields.text(word)}")
    if len(set(says.values())) > 1:
        told = ", ".join(f"`{key}`" for key, yes in says.items() if yes)
        remarks.append(f"It counts as open: only {told} says that it is done.")
    done = bool(says) and all(says.values())
    asks = not done and _bare(str(raw.get(name))) in _HELD
    return State(done, raw, json.dumps(raw), asks, tuple(remarks), tuple(problems))


def _bare(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_").replace("'", "")


class States(Struct, frozen=True):
    """The states of a document's stories; `flag` is the field for one where none has any."""

    all: Sequence[State]
    flag: str

    def done(self, state: State, mark: str) -> dict[str, Json]:
        """The fields of a story that is done, or was so before with this mark."""
        if mark:
            before: dict[str, Json] = json.loads(mark)
            return before
        wanted: dict[str, Json] = {}
        for key in state.raw or self._usual():
            wanted[key] = True if key in FLAGS else self._word(state.raw.get(key), done=True)
        return wanted

    def open(self, state: State, mark: str) -> dict[str, Json]:
        """The fields of a story that is open, as it was before with this mark."""
        before: dict[str, Json] = json.loads(mark) if mark else {}
        wanted: dict[str, Json] = {}
        for key in state.raw:
            word = False if key in FLAGS else self._word(state.raw.get(key), done=False)
            wanted[key] = before.get(key, word)
        return wanted

    def _usual(self) -> list[str]:
        """The fields in which this document's other stories have their state."""
        return next((list(state.raw) for state in self.all if state.raw), [self.flag])

    def _word(self, now: Json, *, done: bool) -> str:
        """The word that this document uses for the state, written as its other words are."""
        words = [str(w) for s in self.all for k, w in s.raw.items() if k not in FLAGS and w]
        known = [word for word in words if (_bare(word) in _DONE) is done]
        plain = [word for word in known if _bare(word) not in _DROPPED]
        if plain:
            return plain[0]
        word = "done" if done else "open"
        like = str(now) if now else (words or [""])[0]
        return word.upper() if like.isupper() else word.title() if like[:1].isupper() else word
