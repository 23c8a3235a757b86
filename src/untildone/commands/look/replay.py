"""A recorded run: played once more without its agent, or put into one file for a question.

Played once more are our reading and our decisions, on the same bytes.
"""

import io
import json
import os
import platform
import tarfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from untildone import __version__
from untildone.adapters.agents.recording import OUT, Recorded, recorded
from untildone.adapters.process.child import TAIL
from untildone.adapters.records.journal import replayed
from untildone.app.recovery import replay
from untildone.domain.agents.agent import AgentReport, Ending, Intent
from untildone.domain.errors import UserError
from untildone.domain.plain_text import amount
from untildone.domain.run import fact as f
from untildone.domain.run.judging import judge
from untildone.domain.run.machine import apply, begin
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Outcome, Run
from untildone.domain.secrets import redactor
from untildone.plain_files import read_bytes
from untildone.settings.settings import FILE_NAME
from untildone.wiring.agents import agent_program
from untildone.wiring.repository import Repository

RecordedFact = tuple[f.Fact, datetime]
# What the loop found out by itself after the agent's end, or about a call that a crash cut short.
NOT_FROM_THE_STREAM = (Outcome.VERIFY_FAILED, Outcome.INTERRUPTED)


class Replayed(Struct, frozen=True):
    """One call as it was judged then and as it is judged now."""

    n: int
    story_id: str
    then: f.AttemptEnded
    now: f.AttemptEnded
    note: str = ""

    @property
    def same(self) -> bool:
        return self.then == self.now


class Again(Struct, frozen=True):
    """All calls of a run, and the run that the facts of today tell of."""

    calls: tuple[Replayed, ...]
    then: Run
    now: Run

    @property
    def same(self) -> bool:
        """Whether the same state was reached by the same decisions."""
        return self.then == self.now and all(call.same for call in self.calls)


def play(folder: Path) -> Again:
    """Replay the run in this folder: its journal and its logs."""
    told = list(replayed(folder / "journal.jsonl"))
    then = replay(told)
    if then is None:
        raise UserError(f"There is no journal of a run here: {folder}", hint="untildone status")
    calls: list[Replayed] = []
    facts = list(_judged_again(told, folder / "logs", calls))
    now = replay(facts)
    assert now is not None
    return Again(tuple(calls), then, now)


def _judged_again(
    told: list[RecordedFact], logs: Path, calls: list[Replayed]
) -> Iterator[RecordedFact]:
    run: Run | None = None
    started: dict[int, tuple[f.AttemptStarted, int]] = {}
    seen: dict[str, int] = {}
    for fact, at in told:
        if isinstance(fact, f.AttemptStarted):
            name = Path(fact.log_file).name
            started[fact.lane] = fact, seen.get(name, 0)
            seen[name] = seen.get(name, 0) + 1
        if isinstance(fact, f.AttemptEnded) and fact.lane in started and run:
            calls.append(_once_more(run, *started[fact.lane], fact, logs))
            fact = calls[-1].now
        if isinstance(fact, f.Started):
            run = begin(fact, at)
        elif run and not isinstance(fact, f.TakenBack):
            run = apply(run, fact, at)
        yield fact, at


def _once_more(
    run: Run, started: f.AttemptStarted, which: int, then: f.AttemptEnded, logs: Path
) -> Replayed:
    def kept(note: str) -> Replayed:
        return Replayed(started.n, started.story_id, then, then, note)

    if then.outcome in NOT_FROM_THE_STREAM or then.ending is Ending.NOT_STARTED:
        return kept("decided by the loop itself")
    found = recorded(logs / Path(started.log_file).name)
    if which >= len(found):
        return kept("not recorded")
    if not found[which].whole:
        return kept("the recording is cut")
    report = _read(run.plan, started, then, found[which])
    verdict = judge(report, run.lanes[then.lane].limit_hits)
    now = replace(
        then,
        outcome=verdict.outcome,
        reason=verdict.reason,
        usage=report.reading.usage,
        trouble=verdict.trouble,
        session=report.reading.session,
        spoke=report.spoke,
        question=verdict.question,
    )
    return Replayed(started.n, started.story_id, then, now)


def _read(
    plan: Plan, started: f.AttemptStarted, then: f.AttemptEnded, call: Recorded
) -> AgentReport:
    intent = Intent(
        prompt="",
        cwd="",
        scratch="",
        story_id=started.story_id,
        model=started.model,
        permissions=plan.permissions,
        resume=started.resumes,
        asked=call.asked,
        agent=started.agent,
    )
    agent = agent_program(started.agent, plan.agent_cmd, plan.script, Path())
    reader = agent.reader(intent)
    begun, spoke = not agent.prints_before_model, False
    errors = b""
    for piece, data in call.played():
        if piece.stream == OUT:
            begun, spoke = True, bool(reader.feed(data)) or spoke
        else:
            errors = (errors + data)[-TAIL:]
    code = then.exit_code if then.ending is Ending.EXITED else None
    return AgentReport(then.ending, then.exit_code, reader.finish(code, errors), begun, spoke)


MOST_BYTES = 50 * 1024 * 1024
FOLDERS = ("", "logs")


def bundle(repository: Repository, run_id: str, target: Path) -> list[str]:
    """Write a run into one file, secrets redacted; returns what it holds and lacks, a line each."""
    run, hide = repository.replay(run_id), redactor(os.environ)
    if run is None:
        raise UserError(f"The journal of the run is empty: {run_id}", hint="untildone status")
    rows: list[str] = []
    try:
        # Private, and never over something that is there.
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UserError(
            f"The bundle cannot be written: {target}: {error.strerror}",
            hint="Name another file: `untildone report --bundle FILE`",
        ) from error
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, path in _files(repository, run):
            size = path.stat().st_size
            if size > MOST_BYTES:
                rows.append(f"left out: {name} ({amount(size)})")
                continue
            _add(tar, name, hide(read_bytes(path)))
            rows.append(f"{name} ({amount(size)})")
        _add(tar, "about.json", hide(json.dumps(_about(repository, run), indent=2).encode()))
    return rows


def unpacked(source: Path, folder: Path) -> Path:
    """The run of a bundle, in a folder; only plain files with names of ours are taken."""
    try:
        with tarfile.open(source) as tar:
            for member in tar:
                path = PurePosixPath(member.name)
                expected = path.parts[:1] == ("run",) and path.parent.name in ("run", "logs")
                if not (member.isfile() and expected and len(path.parts) <= 3):
                    continue
                data = tar.extractfile(member)
                into = folder.joinpath(*path.parts)
                into.parent.mkdir(parents=True, exist_ok=True)
                into.write_bytes(data.read() if data else b"")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(
            f"This is not a bundle of untildone: {source}: {error}",
            hint="`untildone report --bundle FILE` writes one",
        ) from error
    return folder / "run"


def _files(repository: Repository, run: Run) -> Iterator[tuple[str, Path]]:
    folder = repository.folder(run.plan.run_id).path
    for below in FOLDERS:
        suffixes = (".jsonl",) if not below else (".log", ".times", ".md")
        for path in sorted((folder / below).iterdir() if (folder / below).is_dir() else ()):
            if path.is_file() and path.suffix in suffixes:
                yield f"run/{path.relative_to(folder)}", path
    state = repository.state_file().path
    for name, path in (("state.json", state), (FILE_NAME, repository.place.top / FILE_NAME)):
        if path.is_file():
            yield name, path


def _about(repository: Repository, run: Run) -> dict[str, object]:
    version = repository.git().ask("version").stdout
    return {
        "untildone": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "git": os.fsdecode(version).strip(),
        "run_id": run.plan.run_id,
        "status": run.status,
        "agent": run.plan.agent,
        "model": run.plan.model,
    }


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    tar.addfile(info, io.BytesIO(data))
