"""Everything the report tells of a run: its journal, and what git still has of it."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.git import Git
from untildone.adapters.git.repository import STATE_FILE
from untildone.adapters.records import journal
from untildone.adapters.records.codec import encode
from untildone.adapters.records.run_folder import change_of, run_ids
from untildone.app.recovery import replay
from untildone.domain.errors import UserError
from untildone.domain.plain_text import count_of
from untildone.domain.regex import regex
from untildone.domain.reporting import views
from untildone.domain.reporting.account import Account, Call, account
from untildone.domain.reporting.event import Event
from untildone.domain.run.run import Run
from untildone.domain.secrets import redactor, text_redactor
from untildone.plain_files import opened
from untildone.wiring.repository import Repository, here, no_run, read_state
from untildone.wiring.worktrees import worktree_running

EVENTS = ("stories_loaded", "verify_started", "verify_ended")
LAST_TEXTS, WORDS, DIFF, MOST_DIFFS = 5, 1000, 20_000, 200  # what a page can bear
MARGIN = 64 * 1024
Pair = tuple[str, str]
_STAT = regex(r" (\d+) files? changed(?:, (\d+) insert\w+\(\+\))?(?:, (\d+) delet\w+\(-\))?")


class Size(Struct, frozen=True):
    """Changed files, and lines added and deleted in those that are text."""

    files: int = 0
    added: int = 0
    deleted: int = 0

    def plus(self, other: "Size") -> "Size":
        return Size(
            self.files + other.files, self.added + other.added, self.deleted + other.deleted
        )


class Stored(Struct, frozen=True):
    """What was put somewhere, and the command that gets at it."""

    what: str
    where: str
    command: str


class RunAccount(Struct, frozen=True):
    """A run and its account; `live` says that a loop works on it now.

    `saved` has the commits of the attempts that git still has, by the refs they were saved as.
    """

    run: Run
    account: Account
    live: bool
    saved: dict[str, str]
    sizes: dict[Pair, Size]
    stored: tuple[Stored, ...]
    words: dict[int, str] = {}  # the agent's last, by the number of the call
    diffs: dict[Pair, str] = {}

    def diff(self, call: Call) -> str:
        """What the call changed, as a patch; empty if that is not known."""
        return self.diffs.get(_pair(call, self.saved), "")

    def size(self, call: Call) -> Size | None:
        """How much the call changed; None if git does not have it any more."""
        return self.sizes.get(_pair(call, self.saved))


class Changes:
    """What the calls of one run changed; git is asked about each of them once."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._sizes: dict[Pair, Size | None] = {}  # by what a call began with and left

    def sizes(self, run: Run, calls: Sequence[Call]) -> dict[int, Size]:
        """How much each call changed, by its number; what git does not have is left out."""
        named = {call.n: (call.base, call.tip or call.saved_ref) for call in calls}
        fresh = [c for c in calls if named[c.n][1] and named[c.n] not in self._sizes]
        if fresh:
            pairs = self._pairs(run, fresh)
            found = diff_sizes(self._repository.git(), pairs.values())
            self._sizes |= {named[c.n]: found.get(pairs.get(c.n, ("", ""))) for c in fresh}
        known = ((n, self._sizes.get(name)) for n, name in named.items())
        return {n: size for n, size in known if size}

    def diffs(self, run: Run, calls: Iterable[Call]) -> dict[int, str]:
        """Their patches, secrets redacted."""
        git, wanted = self._repository.git(), self._pairs(run, calls)
        there = diff_sizes(git, wanted.values())
        found = _diffs(git, there)
        return {n: found[pair] for n, pair in wanted.items() if pair in found}

    def patch(self, run: Run, call: Call) -> str:
        """The whole patch of one call; empty if git does not have it."""
        git, wanted = self._repository.git(), self._pairs(run, [call])
        hide = redactor(os.environ)
        return "".join(_patch(git, pair, hide) for pair in diff_sizes(git, wanted.values()))

    def between(self, run: Run, call: Call, earlier: Call) -> str:
        """What is different from the work of an earlier call; empty if git does not have both."""
        git, pairs = self._repository.git(), self._pairs(run, (call, earlier))
        if len(pairs) < 2:
            return ""
        pair = pairs[earlier.n][1], pairs[call.n][1]
        return _diffs(git, diff_sizes(git, [pair])).get(pair, "")

    def _pairs(self, run: Run, calls: Iterable[Call]) -> dict[int, Pair]:
        settled = [call for call in calls if call.tip or call.saved_ref]
        put_back = any(not call.tip for call in settled)
        saved = _saved(self._repository.git(), run, settled) if put_back else {}
        pairs = {call.n: _pair(call, saved) for call in settled}
        return {n: pair for n, pair in pairs.items() if all(pair)}


def as_data(value: object) -> object:
    """A value as the journal writes it: what JSON can hold."""
    return encode(value)


def newest(change: str) -> tuple[Repository, str]:
    """Where the newest run of a change is and its id; a run's own id is fine too."""
    around = here()
    if change and around.folder(change).journal.exists():
        return around, change
    repository = worktree_running(around, change)
    for run_id in run_ids(repository.home):
        if not change or change_of(repository.home, run_id) == change:
            return repository, run_id
    raise no_run(repository, change)


def run_account(repository: Repository, run_id: str, *, with_diffs: bool = False) -> RunAccount:
    """The account of a run, with what git still has of it."""
    run, found, live = told_account(repository, run_id)
    git = repository.git()
    saved = _saved(git, run, found.calls)
    sizes = diff_sizes(git, (_pair(call, saved) for call in found.calls))
    stored = _stored(repository, git, run, found, len(saved))
    words = last_words(journal.events(repository.folder(run_id).journal))
    diffs: dict[Pair, str] = {}
    if with_diffs:
        last = (call for story in found.stories[:MOST_DIFFS] if (call := story.last_call))
        diffs = _diffs(git, (pair for call in last if (pair := _pair(call, saved)) in sizes))
    return RunAccount(run, found, live, saved, sizes, stored, words, diffs)


def last_words(events: Iterable[Mapping[str, object]]) -> dict[int, str]:
    """What the agent said last in each call, secrets redacted."""
    current: dict[object, deque[str]] = {}
    calls: dict[int, deque[str]] = {}
    for event in events:
        lane, text = event.get("lane", 0), str(event.get("text", "")).strip()
        if event["event"] == "iteration_started":
            calls[int(str(event["n"]))] = current[lane] = deque(maxlen=LAST_TEXTS)
        elif event["event"] == "agent_text" and text and lane in current:
            current[lane].append(text)
    hide = text_redactor(os.environ)
    shown = ((n, hide("\n".join(texts))) for n, texts in calls.items() if texts)
    return {n: text if len(text) <= WORDS else f"… {text[-WORDS:]}" for n, text in shown}


def _diffs(git: Git, pairs: Iterable[Pair]) -> dict[Pair, str]:
    hide = redactor(os.environ)
    found = {}
    for old, new in dict.fromkeys(pairs):
        patch = _patch(git, (old, new), hide)
        left = len(patch) - DIFF
        more = f"\n… {left} more characters: git diff {old[:12]} {new[:12]}" if left > 0 else ""
        found[old, new] = patch[:DIFF] + more
    return found


def log_part(path: Path, before: int, most: int) -> tuple[str, int]:
    """The part of a call's raw output that ends there, and where it begins; 0 is the end.

    A secret that begins before it is known as one.
    """
    with opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        end = min(before or size, size)
        begin = max(end - most, 0)
        file.seek(max(begin - MARGIN, 0))
        data = redactor(os.environ)(file.read(end - file.tell()))
    return data[-(end - begin) :].decode(errors="replace") if end else "", begin


def _patch(git: Git, pair: Pair, hide: Callable[[bytes], bytes]) -> str:
    form = ("-p", "-r", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
    return hide(git.do("diff-tree", *form, *pair)).decode(errors="replace")


def told_account(repository: Repository, run_id: str) -> tuple[Run, Account, bool]:
    """What the journal tells of a run, secrets redacted, and whether a loop works on it now."""
    path = repository.folder(run_id).journal
    recorded = list(journal.facts_and_events(path, EVENTS, redactor(os.environ)))
    run = replay((fact, at) for fact, at in recorded if not isinstance(fact, Event))
    if run is None:
        raise UserError(f"The journal of the run is empty: {path}", hint="untildone status")
    shown = read_state(repository.place.top / STATE_FILE) or {}
    live = repository.alive() and shown.get("run_id") == run_id
    if not live:
        run = views.left_behind(run, repository.last_sign(run))
    return run, account(run, recorded), live


def _pair(call: Call, saved: Mapping[str, str]) -> Pair:
    return call.base, call.tip or saved.get(call.saved_ref, "")


def _saved(git: Git, run: Run, calls: Iterable[Call]) -> dict[str, str]:
    """The attempts of this very run: a later one may have taken their names."""
    change = run.plan.change_id
    form = "--format=%(refname) %(objectname) %(parent)"
    folders = [f"refs/ralph/{kind}/{change}/" for kind in ("attempts", "archive")]
    rows = os.fsdecode(git.do("for-each-ref", form, *folders)).splitlines()
    known = {name: tuple(rest) for name, *rest in (row.split(" ") for row in rows)}
    found: dict[str, str] = {}
    for call in calls:
        older = call.saved_ref.replace("/attempts/", "/archive/", 1) + "-"
        names = [call.saved_ref] if call.saved_ref in known else []
        names += [] if not call.saved_ref else [name for name in known if name.startswith(older)]
        for name in names:
            if known[name][1:2] == (call.base,):
                found.setdefault(call.saved_ref, known[name][0])
    return found


def _stored(
    repo: Repository, git: Git, run: Run, found: Account, attempts: int
) -> tuple[Stored, ...]:
    change = run.plan.change_id
    refs = git.refs(f"refs/heads/ralph/{change}", "refs/ralph/")
    commits = {call.tip for call in found.calls if call.tip}
    tips = [name for name, ref in refs.items() if ref.commit in commits]
    named = [
        ("your state before the run", run.backup_ref, f"untildone restore {change}"),
        ("an earlier branch", found.archived_ref, f"git log {found.archived_ref}"),
        *(("the run's commits", name, f"git log {name}") for name in tips),
    ]
    rows = [Stored(*row) for row in named if row[1] in refs]
    if attempts:
        last = next(call for call in reversed(found.calls) if call.saved_ref)
        shown = last.saved_ref.removeprefix(f"refs/ralph/attempts/{change}/")
        where = f"refs/ralph/attempts/{change}/… ({count_of(attempts, 'attempt')})"
        command = f"untildone attempts {change} --show {shown}"
        rows.append(Stored("attempts that were put back", where, command))
    folder, top = repo.folder(run.plan.run_id).path, repo.place.top
    where = os.fspath(folder.relative_to(top) if folder.is_relative_to(top) else folder)
    rows.append(Stored("journal, raw output, prompts", where, f"untildone logs {change}"))
    return tuple(rows)


def diff_sizes(git: Git, pairs: Iterable[Pair]) -> dict[Pair, Size]:
    """From the first commit of each pair to the second; those that are gone are left out."""
    wanted = [pair for pair in dict.fromkeys(pairs) if all(pair)]
    there = _existing(git, {name for pair in wanted for name in pair})
    wanted = [(old, new) for old, new in wanted if old in there and new in there]
    if not wanted:
        return {}
    # A commit is compared with what follows it on its line, as if that were its parent.
    lines = "".join(f"{there[new]} {there[old]}\n" for old, new in wanted)
    form = ("--stdin", "-r", "--shortstat", "--no-renames", "--always", "--no-ext-diff")
    out = os.fsdecode(git.do("diff-tree", *form, stdin=lines.encode()))
    return dict(zip(wanted, _sizes(out), strict=True))


def _sizes(shortstat: str) -> list[Size]:
    """A size for each commit that is named; one without a line of numbers changed nothing."""
    found: list[Size] = []
    for row in shortstat.splitlines():
        stat = _STAT.match(row)
        if stat:
            found[-1] = Size(*(int(number or 0) for number in stat.groups()))
        elif row:
            found.append(Size())
    return found


def _existing(git: Git, names: set[str]) -> dict[str, str]:
    """Names of commits with their hashes; names that stand for nothing are left out."""
    listed = sorted(names)
    asked = "".join(f"{name}^{{commit}}\n" for name in listed)
    out = os.fsdecode(git.do("cat-file", "--batch-check=%(objectname)", stdin=asked.encode()))
    answers = zip(listed, out.splitlines(), strict=True)
    return {name: said for name, said in answers if " " not in said}
