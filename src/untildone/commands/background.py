"""A run without its terminal: it leaves before the first call, or lives on when that is closed."""

import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from untildone.adapters.process.background import Left, Start, go_to_background, leave_terminal
from untildone.adapters.process.child import Command
from untildone.domain.errors import UntildoneError
from untildone.domain.reporting.event import warning
from untildone.domain.run.plan import Plan
from untildone.plain_files import opened, tail
from untildone.ports import Report
from untildone.wiring.repository import Repository, this_process

OUTLIVES = "If this terminal is closed, should the run go on without it? (y or n) "


class Detached(Exception):
    """In the process that was typed: the loop lives on in one of its own.

    `exit_code` and `said` are those of a start that failed.
    """

    def __init__(self, plan: Plan, pid: int, log: Path, exit_code: int, said: str) -> None:
        super().__init__(plan.run_id)
        self.run_id, self.change_id = plan.run_id, plan.change_id
        self.pid, self.log = pid, log
        self.exit_code, self.said = exit_code, said


def leave(repository: Repository, plan: Plan) -> Start:
    """Returns in the loop's new process, with the window that tells the old one when it is up.

    All that could be asked was asked, all that could be refused was refused.
    """
    folder = repository.folder(plan.run_id)
    folder.make()
    before = folder.output.stat().st_size if folder.output.exists() else 0
    start = go_to_background(folder.output)
    if isinstance(start, Left):
        said = tail(folder.output, before) if start.exit_code else ""
        raise Detached(plan, start.pid, folder.output, start.exit_code or 0, said)
    this_process.cache_clear()
    repository.lock.sign(plan.change_id)
    repository.inbox.survive_hang_up()
    return start


def outlive(repository: Repository, plan: Plan) -> TextIO:
    """From here on the run goes on when its terminal is closed; the log for what is then unseen."""
    folder, inbox = repository.folder(plan.run_id), repository.inbox
    folder.make()
    text = f"The terminal is gone, the run goes on: `untildone attach {plan.change_id}`"

    def hung_up() -> None:
        leave_terminal()
        inbox.report(Report(0, warning(text)))

    inbox.survive_hang_up(hung_up)
    return io.TextIOWrapper(opened(folder.output, "ab", private=True), "utf-8", "replace")


def start_beside(repository: Repository, words: Sequence[str]) -> tuple[dict[str, str], str]:
    """`run` or `resume` from a process that lives on: what the start prints, and what it says.

    That has threads, so the loop cannot leave it by a fork. Nothing in the repository can take the
    place of our own modules.
    """
    argv = (sys.executable, "-P", "-m", "untildone", *words[:1], "--detach", "--json", *words[1:])
    command = Command(argv, repository.place.top, dict(os.environ))
    ended = repository.processes.capture(command, lambda: False)
    said = ended.stderr.decode(errors="replace").strip()
    if not ended.ok:
        raise UntildoneError(said.removeprefix("error: "))
    return (json.loads(ended.stdout) if ended.stdout.strip() else {}), said
