"""The resources: what a tool's answer has no room for, in parts that a client can bear."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct, to_builtins

from untildone.commands.look.feed import Feed, Followed
from untildone.commands.run_account import Changes, RunAccount, log_part, run_account
from untildone.domain.errors import UserError
from untildone.domain.plain_text import cut
from untildone.interfaces.mcp.answers import story_states
from untildone.interfaces.mcp.served import Served, looked_at
from untildone.interfaces.render import safe
from untildone.interfaces.report.markdown import markdown
from untildone.interfaces.report.page import page

SCHEME = "untildone"
MOST, MOST_EVENTS, MOST_WORDS = 16_000, 100, 2_000  # characters, events, characters of one text
LISTED = 3
JSON, TEXT, MARKDOWN, DIFF = "application/json", "text/plain", "text/markdown", "text/x-diff"


class Part(Struct, frozen=True):
    """`rest` is the address of what did not fit; of a log that is what came before."""

    text: str
    mime: str
    rest: str = ""


class Kind(Struct, frozen=True):
    """What there is of a run, or of one of its calls."""

    about: str
    mime: str
    of_call: bool = False
    options: str = ""


KINDS = {
    "state": Kind("The run as `untildone status --json` shows it.", JSON),
    "stories": Kind("All stories with their state and number of calls.", JSON, options="{?from}"),
    "events": Kind("What happened, event by event, oldest first.", JSON, options="{?after}"),
    "report": Kind("The report of the run.", MARKDOWN, options="{?from}"),
    "log": Kind(
        "The end of what the agent printed in a call.", TEXT, of_call=True, options="{?before}"
    ),
    "diff": Kind("What a call has changed, as a patch.", DIFF, of_call=True, options="{?from}"),
}


def run_uri(run_id: str) -> str:
    return f"{SCHEME}://{run_id}"


def call_uri(run: Followed, n: int) -> str:
    return f"{run_uri(run.run_id)}/calls/{n}"


def template(name: str, kind: Kind) -> str:
    call = "/calls/{call}" if kind.of_call else ""
    return f"{SCHEME}://{{run}}{call}/{name}{kind.options}"


def page_of(found: RunAccount) -> str:
    return markdown(page(found))


def read(served: Served, uri: str) -> Part:
    """A part of a resource; an address that is none of ours is a UserError."""
    name, call, run_id, given = _parsed(uri)
    run = next((run for run in served.runs() if run.run_id == run_id), None)
    if run is None:
        raise UserError(f"There is no such run: {run_id}", hint="The tool `status` lists them.")
    base = call_uri(run, call) if KINDS[name].of_call else run_uri(run_id)
    return _READERS[name](run, f"{base}/{name}", call, given)


def _parsed(uri: str) -> tuple[str, int, str, dict[str, int]]:
    """What is asked for: its kind, the call and the run that it is of, and from where on."""
    try:
        split = urlsplit(uri)
        given = {name: int(values[-1]) for name, values in parse_qs(split.query).items()}
        *call, name = split.path.strip("/").split("/")
        n = int(call[1]) if call else 0
        if split.scheme != SCHEME or min(given.values(), default=0) < 0:
            raise _unknown(uri)
        if call[:1] != (["calls"] if KINDS[name].of_call else []) or len(call) not in (0, 2):
            raise _unknown(uri)
    except (ValueError, LookupError):
        raise _unknown(uri) from None
    return name, n, split.netloc, given


def _unknown(uri: str) -> UserError:
    return UserError(
        f"There is no such resource: {uri}",
        hint="They are: " + ", ".join(template(name, kind) for name, kind in KINDS.items()),
    )


Given = dict[str, int]


def _state(run: Followed, base: str, n: int, given: Given) -> Part:
    with looked_at(run) as feed:
        shown = safe(feed.state())
    text = _json(shown)
    if len(text) > MOST:  # a long night: the calls are in the report
        left = dict(shown) | {"iterations": [], "rest": f"{run_uri(run.run_id)}/report"}
        text = cut(_json(left), MOST)
    return Part(text, JSON)


def _stories(run: Followed, base: str, n: int, given: Given) -> Part:
    with looked_at(run) as feed:
        rows = to_builtins(story_states(feed))
    skip = given.get("from", 0)
    fits = _fitting(rows[skip:])
    end = skip + len(fits)
    rest = f"{base}?from={end}" if end < len(rows) else ""
    return Part(_json({"stories": [safe(row) for row in fits], "rest": rest}), JSON, rest)


def _events(run: Followed, base: str, n: int, given: Given) -> Part:
    after = given.get("after", 0)
    with contextlib.closing(Feed(run)) as feed:
        rows = [row for row in feed.look() if _number(row) > after]
    fits = _fitting([_short(row) for row in rows[:MOST_EVENTS]])
    rest = f"{base}?after={_number(fits[-1])}" if fits and len(fits) < len(rows) else ""
    return Part(_json({"events": fits, "rest": rest}), JSON, rest)


def _report(run: Followed, base: str, n: int, given: Given) -> Part:
    return _from(page_of(run_account(run.home, run.run_id)), MARKDOWN, base, given)


def _log(run: Followed, base: str, n: int, given: Given) -> Part:
    path = Path(run.folder.log_file(n))
    try:
        text, begin = log_part(path, given.get("before", 0), MOST)
    except FileNotFoundError:
        raise UserError(
            f"There is no output of call {n} of this run", hint="The tool `story` links to those."
        ) from None
    rest = f"{base}?before={begin}" if begin else ""
    return Part(f"[before this: {rest}]\n{text}" if rest else text, TEXT, rest)


def _diff(run: Followed, base: str, n: int, given: Given) -> Part:
    with looked_at(run) as feed:
        call = next((call for call in feed.account().calls if call.n == n), None)
        patch = Changes(run.home).patch(feed.run, call) if call else ""
    if not patch:
        raise UserError(
            f"What call {n} has changed is not known", hint="The tool `story` links to what is."
        )
    return _from(patch, DIFF, base, given)


_READERS: dict[str, Callable[[Followed, str, int, Given], Part]] = {
    "state": _state,
    "stories": _stories,
    "events": _events,
    "report": _report,
    "log": _log,
    "diff": _diff,
}


def _from(text: str, mime: str, base: str, given: Given) -> Part:
    start = given.get("from", 0)
    part = text[start : start + MOST]
    end = start + len(part)
    rest = f"{base}?from={end}" if end < len(text) else ""
    return Part(f"{part}\n[goes on: {rest}]" if rest else part, mime, rest)


def _fitting(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """As many as fit, one at least."""
    size = 0
    for k, row in enumerate(rows):
        size += len(_json(row))
        if size > MOST and k:
            return rows[:k]
    return rows


def _short(row: dict[str, object]) -> dict[str, object]:
    shown = safe(row).items()
    return {name: cut(v, MOST_WORDS) if isinstance(v, str) else v for name, v in shown}


def _number(row: dict[str, object]) -> int:
    found = row.get("seq")
    return found if isinstance(found, int) else 0


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
