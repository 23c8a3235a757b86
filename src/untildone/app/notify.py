"""Which events are worth a message to somebody who is not there, each thing once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from untildone.app.bus import EventObject
from untildone.app.wording import reason_words
from untildone.domain.agents.agent import Kind
from untildone.domain.costs.budget import said
from untildone.domain.plain_text import count_of, plain
from untildone.domain.reporting.notification import Notification

STEPS = (50, 80, 100)  # of a budget, in percent
LONGEST = 500
LONG_S = 600
LIMITS = (Kind.RATE_LIMITED, Kind.QUOTA_EXHAUSTED)
Send = Callable[[Notification, EventObject], None]


class Undelivered(Exception):
    """A message that did not arrive; why, without any secret of its address."""


class Messages:
    """Reads all events of a run from its first; what an earlier process told is not told again.

    `hide` redacts: reasons and questions leave this machine.
    """

    def __init__(
        self, earlier: Iterable[EventObject] = (), hide: Callable[[str], str] = str
    ) -> None:
        self._hide = hide
        self._change = ""
        self._stories: Mapping[str, object] = {}
        self._error: EventObject = {}
        self._ended = False
        self._limited = False  # since the last call that got through
        self._waits: set[tuple[object, ...]] = set()
        self._spent: dict[tuple[object, object], int] = {}
        for event in earlier:
            list(self.of(event))

    def of(self, event: EventObject) -> Iterator[Notification]:
        """What this event is worth telling."""
        match event["event"]:
            case "run_started":
                self._change = str(event["change_id"])
            case "iteration_started":
                self._ended = False  # what ends after this is another end
            case "iteration_ended":
                self._limited = False
                yield from self._budgets(event.get("budgets"))
            case "story_parked" if event.get("question"):
                yield self._question(f"Story {event['story_id']} asks: {event['question']}", event)
            case "waiting":
                yield from self._waiting(event)
            case "error":
                self._error = event
                if event.get("budget"):
                    yield from self._budget(event, 100)
            case "complete" if not self._ended:
                self._ended = True
                yield from self._end(event)
            case _:
                return

    def _end(self, event: EventObject) -> Iterator[Notification]:
        change, reason, counts = self._change, event["reason"], event.get("stories")
        checked = counts.get("verified") if isinstance(counts, Mapping) else None
        proof = f"{count_of(checked, 'story', 'stories')} verified by a check. " if checked else ""
        if reason == "success":
            body = f"{proof}Look: untildone status, untildone report {change}"
            yield self._told("done", f"{change} is done", body, "done")
        elif reason != "stopped":
            why, hint = self._error.get("message"), self._error.get("hint")
            rows = (f"{why or reason_words(reason)}.", str(self._error.get("reason") or ""))
            told = dict.fromkeys(row for row in (*rows, f"Next: {hint}" if hint else "") if row)
            status = "stalled" if reason == "stalled" else "stuck"
            yield self._told("stuck", f"{change} is {status}", "\n".join(told), status)

    def _waiting(self, event: EventObject) -> Iterator[Notification]:
        kind, until = event.get("class"), event.get("until")
        if kind == "budget":
            yield from self._budget(event, 100)
        elif (wait := (kind, until, event["why"])) in self._waits:
            return
        elif not until:
            self._waits.add(wait)
            yield self._question(f"It waits for {event['why']}", event)
        elif self._is_worth_it(event):
            self._waits.add(wait)
            at = f"{datetime.fromisoformat(str(until)).astimezone():%b %d %H:%M}"
            yield self._told("limit", f"{self._change} waits until {at}", str(event["why"]))

    def _is_worth_it(self, event: EventObject) -> bool:
        """A long wait is; of short ones, which may be many, the first at a limit."""
        until, at = (datetime.fromisoformat(str(event[key])) for key in ("until", "at"))
        short = (until - at).total_seconds() < LONG_S
        if short and (self._limited or event.get("class") not in LIMITS):
            return False
        self._limited = True
        return True

    def _question(self, text: str, event: EventObject) -> Notification:
        story = event.get("story_id")
        answer = f'untildone guide {self._change} --story {story} "your answer"'
        body = f"{text}\nAnswer: {answer}" if story else text
        return self._told("question", f"{self._change} has a question", body)

    def _budgets(self, rows: object) -> Iterator[Notification]:
        for row in rows if isinstance(rows, list | tuple) else ():
            spent = 100 * row["spent"] / row["limit"]
            step = max((step for step in STEPS if step <= spent), default=0)
            if step and not row["name"].startswith("story-"):
                yield from self._budget({**row, "budget": row["name"]}, step)

    def _budget(self, event: EventObject, step: int) -> Iterator[Notification]:
        key = event["budget"], event["limit"]
        if self._spent.get(key, 0) >= step:
            return
        self._spent[key] = step
        title = f"{self._change}: {step} % of the budget of {event['budget']} is used"
        hint = event.get("hint") or ("It waits for a higher one." if "why" in event else "")
        name = str(event["budget"])
        spent, limit = (said(name, float(str(event[key]))) for key in ("spent", "limit"))
        body = f"{spent} of {limit}. {hint}".strip()
        yield self._told("budget", title, body, "stopped" if "hint" in event else "running")

    def _told(self, event: str, title: str, body: str, status: str = "running") -> Notification:
        text = self._hide(plain(body))
        text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        title = self._hide(plain(f"untildone: {title}"))
        return Notification(title, text, event, self._change, status)


class Messenger:
    """A window that sends what is worth telling to one address."""

    def __init__(
        self,
        messages: Messages,
        wanted: Iterable[str],
        send: Send,
        failed: Callable[[str, str], None],
    ) -> None:
        self._messages = messages
        self._wanted = frozenset(wanted)
        self._send = send
        self._failed = failed

    def __call__(self, event: EventObject) -> None:
        for message in self._messages.of(event):
            if message.event in self._wanted:
                try:
                    self._send(message, event)
                except Undelivered as error:
                    self._failed(message.event, str(error))
