"""Looks for what would keep a loop from working, and clears away what a dead one left."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.disk_usage import bytes_of_folder, bytes_of_objects
from untildone.adapters.git.environment import FALLBACK_IDENTITY
from untildone.adapters.git.git import Git
from untildone.adapters.git.repository import STATE_FILE, preflight
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.records.operations import OperationLog
from untildone.adapters.records.run_folder import change_of, run_ids
from untildone.adapters.sandbox import trouble
from untildone.adapters.stories.source_kind import Found as FoundChange
from untildone.app.wording import last_sign
from untildone.commands.care import gc, slots
from untildone.commands.care.agents import Found, agents
from untildone.commands.leftovers import (
    end_processes,
    end_processes_in_worktrees,
    leftover_worktrees,
    move_index_lock,
    remove_stash_leftovers,
    remove_worktrees,
    run_of_lock,
    stale_index_lock,
    stash_entries_of,
    stash_leftovers,
    stray_processes,
)
from untildone.commands.start.start_checks import cut_short_closing
from untildone.commands.undo import finish_begun
from untildone.domain.errors import StoriesError, UntildoneError, UserError
from untildone.domain.plain_text import amount, count_of
from untildone.domain.reporting import views
from untildone.domain.reporting.notification import Notification
from untildone.domain.run.run import Run, Status
from untildone.settings.choices import PROGRAMS, SOURCES
from untildone.settings.load import configuration_files, load
from untildone.settings.settings import Settings
from untildone.wiring.agents import agent_options_of, agent_program, installed, known_program
from untildone.wiring.repository import Repository, here, read_state
from untildone.wiring.sandbox import INSTALL
from untildone.wiring.sources import changes, kind, looked_for
from untildone.wiring.worktrees import others, worktree_running

OLDEST_GIT = (2, 38)
MUCH = 1024**3
OK, WARN, BAD = "ok", "warn", "bad"


class Row(Struct, frozen=True):
    """One finding, with the command that mends it; only `bad` keeps a loop from working."""

    check: str
    level: str
    text: str
    fix: str = ""


def examine(
    folder: Path, tell: Callable[[str], None] = lambda text: None, *, send_test: bool = False
) -> list[Row]:
    """Everything worth knowing, changing nothing; `tell` hears what takes its time.

    With `send_test` whoever is told what happens gets a message.
    """
    processes = Processes(WakePipe().fd)
    git = Git(processes, folder)
    rows = [_git_version(git), _identity(git)]
    repository, top, settings = None, None, Settings()
    try:
        repository = here(folder)
        top = repository.place.top
        rows.append(_worktree(repository))
    except UntildoneError as error:
        rows.append(_complaint("repository", error))
    try:
        settings = load(top, os.environ, {})
        files = ", ".join(map(str, configuration_files(top, os.environ)))
        said = f"Every key is known and its value fits: {files}"
        text = said if files else "There is no configuration file; the defaults are used."
        rows.append(Row("configuration", OK, text))
    except UserError as error:
        rows.append(_complaint("configuration", error))
    rows += _agents(settings, top or folder, tell)
    rows.append(_sandbox(processes, settings, top or folder))
    if repository:
        rows += [*_stories(repository.place.top), *_leftovers(repository)]
        rows += [*_stored(repository, settings.keep_days), *_slots(repository)]
        rows += _told(repository, settings, send_test=send_test)
    return rows


def _told(repository: Repository, settings: Settings, *, send_test: bool) -> Iterator[Row]:
    """Who is told what happens, and whether a message arrives there."""
    if not settings.notify:
        return
    from untildone.app.notify import Undelivered
    from untildone.wiring.notifications import deliveries

    try:
        found = deliveries(repository, settings)
    except UserError as error:
        yield _complaint("notify", error)
        return
    about = "This is a test: messages of untildone arrive here."
    message = Notification("untildone: a test", about, "test", "", "")
    for to, send in found:
        try:
            if send_test:
                send(message, {"event": "test"})
            said = "A test message was sent" if send_test else "Told what happens"
            yield Row("notify", OK, f"{said}: {to.shown}")
        except Undelivered as error:
            fix = "Mend the address in `notify`, then `untildone doctor --notify`"
            yield Row("notify", WARN, f"No message arrives at {to.shown}: {error}", fix)


def fix_leftovers(repository: Repository, abandon: str) -> list[str]:
    """Clear away this tool's own leftovers; returns one sentence for each thing that was done."""
    repository.lock.take("doctor")
    said: list[str] = []
    try:
        _finish_cut_short(repository, said.append)
        holding = worktree_running(repository, abandon) if abandon else repository
        run = _to_abandon(holding, abandon) if abandon else None
        said += [
            *_clear(repository),
            *move_index_lock(repository),
            *_rewrite_state(repository),
        ]
        said += end_processes_in_worktrees(repository)
        if run and holding is not repository:
            holding.lock.take("doctor")
        if run:
            said.append(_give_up(holding, run))
        if run and holding is not repository:
            holding.lock.release()
        said += slots.remove_leftovers(repository)
        said += [*remove_stash_leftovers(repository), *remove_worktrees(repository)]
    finally:
        repository.lock.release()
    if abandon and not said:
        raise _ended(abandon)
    return said


def _finish_cut_short(repository: Repository, tell: Callable[[str], None]) -> None:
    """Commands and choices that were killed over their work, here and in worktrees of runs."""
    _finish_one(repository, tell)
    for place in others(repository):
        if place.alive():
            continue
        place.lock.take("doctor")
        try:
            _finish_one(place, tell)
        finally:
            place.lock.release()


def _finish_one(place: Repository, tell: Callable[[str], None]) -> None:
    if place.place.top.exists():
        finish_begun(place, tell)
    run = place.latest()
    if cut_short_closing(run):
        from untildone.commands.run import LoopProcess

        LoopProcess(place, warn=tell).finish_closing(run)


def _git_version(git: Git) -> Row:
    answer = git.ask("version")
    found = re.search(r"(\d+)\.(\d+)[.\d]*", answer.stdout.decode(errors="replace"))
    need = ".".join(map(str, OLDEST_GIT))
    if not answer.ok or not found:
        return Row("git", BAD, "Git was not found.", f"Install git {need} or newer.")
    if (int(found[1]), int(found[2])) < OLDEST_GIT:
        text = f"Git {found[0]} is too old: cleanup needs `git merge-tree --write-tree` of {need}."
        return Row("git", BAD, text, f"Install git {need} or newer.")
    return Row("git", OK, f"Git {found[0]} is installed ({need} or newer is needed).")


def _identity(git: Git) -> Row:
    answer = git.ask("var", "GIT_COMMITTER_IDENT")
    if answer.ok:
        who = answer.stdout.decode(errors="replace").rpartition(">")[0]
        return Row("identity", OK, f"Commits are made as: {who}>")
    name, email = FALLBACK_IDENTITY["GIT_AUTHOR_NAME"], FALLBACK_IDENTITY["GIT_AUTHOR_EMAIL"]
    text = f"Git knows no identity, so the loop will commit as: {name} <{email}>"
    return Row("identity", WARN, text, "git config --global user.name NAME (and user.email)")


def _worktree(repository: Repository) -> Row:
    origin = preflight(repository.git(), repository.place, "untildone-doctor")
    text = f"No merge or rebase is in progress on `{origin.label}` in: {repository.place.top}"
    return Row("repository", OK, text)


def _agents(settings: Settings, top: Path, tell: Callable[[str], None]) -> Iterator[Row]:
    wanted = settings.agent
    names = [name for name in PROGRAMS if known_program(name).path() or name == wanted]
    yield from map(_agent, agents(settings, top, names, tell))
    if wanted not in PROGRAMS:
        try:
            options = agent_options_of(settings)
            agent_program(wanted, settings.agent_cmd, settings.script, top, options).check()
            yield Row(f"agent {wanted}", OK, "The configured agent was found.")
        except UserError as error:
            yield _complaint(f"agent {wanted}", error)


def _agent(found: Found) -> Row:
    check = f"agent {found.name}"
    if not found.path:
        other = next(iter(installed()), "")
        instead = f'agent = "{other}"' if other else "agent_cmd"
        fix = f"{found.install}, or set `{instead}` in untildone.toml"
        return Row(check, WARN, f"The program `{found.name}` was not found on PATH.", fix)
    if not found.version:
        return Row(check, WARN, f"{found.why}.", f"{found.path} --version")
    if found.refused and found.chosen:
        return Row(check, BAD, f"{found.refused}.", "untildone agents")
    text = f"The program {found.path} gives its version as: {found.version}"
    if found.untested and found.chosen:
        text += ". UNTESTED: it is driven as its documentation says, and was never run by us"
    if found.chosen and found.holds:
        text += f". Permissions `{found.permissions}`: {found.holds.rstrip('.')}"
    if found.logged_in is False and found.chosen:
        return Row(check, WARN, f"{text}. No login was found", found.login)
    return Row(check, OK, text)


def _sandbox(processes: Processes, settings: Settings, folder: Path) -> Row:
    why = trouble(processes, folder)
    if why:
        level = BAD if settings.sandbox == "bwrap" else OK
        return Row("sandbox", level, f"There is no sandbox: {why}", INSTALL)
    if settings.sandbox == "off":
        text = 'Bubblewrap works but is not used; recommended in untildone.toml: sandbox = "auto"'
        return Row("sandbox", OK, text, 'Set sandbox = "auto" in untildone.toml.')
    return Row("sandbox", OK, "Bubblewrap works; agents and checks run inside it.")


def _stories(top: Path) -> Iterator[Row]:
    try:
        rows = changes(top)
    except StoriesError as error:
        yield _complaint("stories", error)
        return
    for title in dict.fromkeys(row.title for row in rows):
        yield from _changes(title, [row.found for row in rows if row.title == title])
    if not rows:
        text = f"No stories were found. {looked_for()}"
        yield Row(
            "stories", WARN, text, 'untildone run --task "what should be done" --done promise'
        )
    for name in SOURCES:
        if why := kind(name).missing():
            text = f"Not needed unless you use the source `{name}`, which cannot be used now: {why}"
            yield Row(f"source {name}", OK, text)


def _changes(title: str, found: list[FoundChange]) -> Iterator[Row]:
    listed = [
        f"{f.name} ({f.complete} of {count_of(f.total, 'task')} done)" for f in found if not f.why
    ]
    if listed:
        yield Row("stories", OK, f"{title}: {', '.join(listed)}")
    for change in (f for f in found if f.why):
        text = f"{title}: `{change.name}` has no usable stories: {change.why}"
        yield Row("stories", WARN, text, f"untildone stories {change.name}")


def _complaint(check: str, error: UntildoneError) -> Row:
    return Row(check, BAD, error.message, error.hint)


def _leftovers(repository: Repository) -> Iterator[Row]:
    if repository.alive():
        state = read_state(repository.place.top / STATE_FILE) or {}
        yield Row("loop", OK, f"A loop is running in this worktree, over: {state.get('change_id')}")
    else:
        yield from _of_dead_loops(repository)


def _stored(repository: Repository, days: int) -> Iterator[Row]:
    folder = repository.home / "runs"
    weighs = f"{amount(bytes_of_folder(folder))} in {folder}"
    yield Row("run folders", OK, f"Recorded runs: {len([*run_ids(repository.home)])} ({weighs})")
    git = repository.git()
    stored = git.refs("refs/ralph/").items()
    refs = {name: ref for name, ref in stored if not name.startswith("refs/ralph/slots/")}
    counts = Counter(name.split("/")[2] for name in refs)
    kinds = ("attempts", "backup", "archive", "moved", *(["work"] if counts["work"] else []))
    listed = ", ".join(f"{kind} {counts[kind]}" for kind in kinds)
    size = bytes_of_objects(git, {ref.commit for ref in refs.values()})
    text = f"Refs below refs/ralph that keep work safe: {listed} ({amount(size)})"
    much = (size or 0) > MUCH
    yield Row("saved work", WARN, text, "untildone gc") if much else Row("saved work", OK, text)
    old = gc.find(repository, gc.rule(repository, days), gc.busy_homes(repository))
    if old:
        count = f"{count_of(len(old.refs), 'ref')}, {count_of(len(old.runs), 'run folder')}"
        text = f"Work of ended runs that is older than {count_of(days, 'day')}: {count}"
        yield Row("old work", WARN, text, "untildone gc")


def _slots(repository: Repository) -> Iterator[Row]:
    found = slots.slots(repository)
    if found:
        size = sum(row.bytes for row in found)
        text = f"Slots of lanes: {len(found)} ({amount(size)}) in {found[0].folder.parent}"
        yield Row("slots", WARN if size > MUCH else OK, text, "untildone slots")
    for row in found:
        if row.state == slots.ONLY_COPY:
            text = f"{' '.join(row.reasons)} So this stays: {row.named}"
            yield Row("slot", WARN, text, row.look)
    if pins := slots.leftover_pins(repository):
        text = f"Refs of slots that are gone, below refs/ralph/slots: {len(pins)}"
        yield Row("slot refs", WARN, text, "untildone doctor --fix")


def _of_dead_loops(repository: Repository) -> Iterator[Row]:
    fix = "untildone doctor --fix"
    for run_id, count in stray_processes(repository).items():
        text = f"Processes that a killed loop left running ({run_id}): {count}"
        yield Row("processes", WARN, text, fix)
    if not _state_is_right(repository):
        text = f"The state file does not say that its loop has ended: {STATE_FILE}"
        yield Row("state file", WARN, text, fix if repository.latest() else f"rm {STATE_FILE}")
    if begun := OperationLog(repository.home).begun():
        text = f"The {begun.operation.name} of `{begun.operation.change}` was cut short."
        yield Row("unfinished command", WARN, text, fix)
    drafts = _drafts(repository)
    if drafts:
        text = f"Temporary files and messages that nobody will read: {len(drafts)}"
        yield Row("temporary files", WARN, text, fix)
    for left in stash_leftovers(repository):
        yield Row("stash", WARN, f"Left by a run that has ended, {left}", fix)
    lock = stale_index_lock(repository)
    if lock:
        by_hand = f"Make sure that no git command is at work, then: rm {lock}"
        text = f"An old lock keeps git from working: {lock}"
        yield Row("index.lock", BAD, text, fix if run_of_lock(repository, lock) else by_hand)
    yield from _unfinished_runs(repository)
    for text, fix in leftover_worktrees(repository):
        yield Row("worktree of a run", WARN, text, fix)


def _unfinished_runs(repository: Repository) -> Iterator[Row]:
    changes = {change_of(repository.home, run_id) for run_id in run_ids(repository.home)}
    for change in sorted(changes - {""}):
        run = repository.latest(change)
        if run and run.resumable:
            shown = views.left_behind(run, repository.last_sign(run))
            how = f"died ({last_sign(shown.died)})" if shown.died else f"is {shown.status}"
            text = f"The run of `{change}` {how}; it can be resumed and is left alone."
            if run.plan.checkpoint == "stash" and (held := stash_entries_of(repository, change)):
                text += f" The state before its story is in the stash list: {', '.join(held)}"
            yield Row("unfinished run", WARN, text, f"untildone resume {change}")


def _drafts(repository: Repository) -> list[Path]:
    inbox, drafts = repository.inbox.folder, repository.place.top.glob(f"{STATE_FILE}.*.tmp")
    return sorted([*drafts, *inbox.glob("*.json"), *inbox.glob("*.draft")])


def _clear(repository: Repository) -> Iterator[str]:
    yield from end_processes(repository)
    for path in _drafts(repository):
        path.unlink(missing_ok=True)
        yield f"A file that nobody will read was removed: {path}"


def _state_is_right(repository: Repository) -> bool:
    path = repository.place.top / STATE_FILE
    state = read_state(path)
    if state is None:
        return not path.exists()
    return state.get("status") not in (Status.STARTING, Status.RUNNING)


def _rewrite_state(repository: Repository) -> Iterator[str]:
    run = repository.latest()
    if run and not _state_is_right(repository):
        repository.write_dead(run)
        yield f"The state file was written again from the journal: {STATE_FILE}"


def _to_abandon(repository: Repository, change: str) -> Run | None:
    """The run to end; none if it was ended so before, perhaps by a doctor that was killed."""
    run = repository.needed(change)
    if run.resumable:
        return run
    if run.abandoned:
        return None
    raise _ended(change)


def _ended(change: str) -> UserError:
    return UserError(f"The run of `{change}` has already ended", hint="untildone status")


def _give_up(repository: Repository, run: Run) -> str:
    repository.abandon(run, "abandoned with `untildone doctor --abandon`")
    change = run.plan.change_id
    back = f"`untildone restore {change}` goes back to before it"
    return f"The run of `{change}` was abandoned; files, branch and saved work stay; {back}."
