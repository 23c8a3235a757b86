"""A run on a stage: told fact by fact into a real journal, with real commits, at fixed times.

What looks at it cannot know it from a run that a loop drives.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tests.fakes.plans import NOW, PLAN, at
from untildone.adapters.clock import SystemClock
from untildone.adapters.records.journal import Journal
from untildone.app.announce import announce
from untildone.commands.look.feed import Followed
from untildone.domain.agents.agent import Usage
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as f
from untildone.domain.run.machine import apply, begin
from untildone.domain.run.run import Choice, Origin, Outcome, Run
from untildone.domain.stories.parking import Why
from untildone.domain.stories.story import Story, StoryBook, Task
from untildone.wiring.repository import here

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from untildone.domain.run.plan import Plan

CHANGE = "add-login"
TITLES = (
    "Keep accounts in a file",
    "Hash passwords before they are written",
    "Sign in over HTTP, with a session that ends after an hour",
    "Sign out",
    "Tell what went wrong in words that people without a manual understand",
)
WHY = (
    "The check `pytest -q` failed (exit code 1):\n"
    "FAILED tests/test_hash.py::test_two_salts - AssertionError: both hashes are the same\n"
    "1 failed, 11 passed in 0.42s"
)
ASKS = "Which port should the server use in tests? 8080 is taken by another service."
SETTINGS = replace(
    PLAN, change_id=CHANGE, run_id="20260102-030405-a1b2", agent="claude", verify=("pytest -q",)
)


class Clock(SystemClock):
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def now(self) -> datetime:
        return at(self.seconds)


class Stage:
    """A repository with one run; `close` lets go of everything."""

    def __init__(self, folder: Path, titles: tuple[str, ...] = TITLES, plan: Plan = SETTINGS):
        self.folder = folder
        self._git("init", "-q", "-b", "main", str(folder))
        self.clock = Clock()
        self.repository = replace(here(folder), clock=self.clock)
        self.source = Followed(self.repository, plan.run_id)
        self.stories = [
            Story(str(k), title, (Task(f"{k}.1", title, done=False, line=k),))
            for k, title in enumerate(titles, 1)
        ]
        self.source.folder.make()
        self.journal = Journal(self.source.folder.journal)
        self.live = False
        base = self.commit({"README.md": "# Accounts\n"})
        self.run: Run = begin(f.Started(plan), NOW)
        self.journal.record(f.Started(plan), (), NOW)
        self.tell(f.Opened(Origin("main", base), base, f"refs/ralph/backup/{CHANGE}/r1"))
        self.load()

    def tell(self, *facts: f.Fact, after: float = 1.0) -> None:
        """The next facts, each so many seconds after the one before."""
        for fact in facts:
            self.clock.seconds += after
            before, self.run = self.run, apply(self.run, fact, self.clock.now())
            events = announce(before, fact, self.run)
            self.journal.record(fact, events, self.clock.now())

    def says(self, *texts: str, lane: int | None = None) -> None:
        """What the agent says; a line with `Tool: ` in front is a call of a tool."""
        for text in texts:
            self.clock.seconds += 1
            tool, _, detail = text.partition(": ")
            event = Event("agent_text", {"text": text})
            if tool in ("Read", "Edit", "Bash"):
                event = Event("agent_tool", {"tool": tool, "detail": detail})
            told = event.data if lane is None else {**event.data, "lane": lane}
            self.journal.note(Event(event.name, told), self.clock.now())

    def load(self) -> None:
        book = StoryBook(CHANGE, "openspec", "tasks.md", tuple(self.stories))
        done, count = len(self.run.finished), len(self.stories)
        self.tell(f.StoriesLoaded(count, done, done == count, book, count, done))

    def begins(self, number: int, lane: int = 0, *said: str) -> None:
        """A call for a story, and what the agent says in it."""
        story, n = self.stories[number - 1], self.run.current_iteration + 1
        base = self.run.lanes[lane].checkpoint or self.run.tip
        log = self.source.folder.log_file(n)
        self.source.folder.keep_prompt(n, f"# Story {story.id}: {story.title}\n\nDo it.\n")
        self.tell(f.AttemptStarted(lane, n, story.id, story.key, log, "claude", base=base))
        self.says(*said, lane=lane if len(self.run.lanes) > 1 else None)

    def checked(self, *, passed: bool, reason: str = "") -> None:
        said = {"command": "pytest -q", "level": "required"}
        self.journal.note(Event("verify_started", said), self.clock.now())
        self.clock.seconds += 4
        ended = Event("verify_ended", said | {"passed": passed, "reason": reason})
        self.journal.note(ended, self.clock.now())
        self.tell(f.Verified(0, passed=passed, reason=reason, checked=passed))

    def ends(self, outcome: Outcome = Outcome.COMPLETE, reason: str = "") -> None:
        usage = Usage(41_000, 3_000, 210_000, 0, 0.31)
        ended = f.AttemptEnded(0, outcome, reason, (), usage, spoke=True)
        self.tell(ended, f.UsageMeasured(0, usage), after=20)

    def keeps(self, files: dict[str, str]) -> None:
        """The work is a checkpoint."""
        commit = self.commit(files)
        self.tell(f.Saved(0, commit, commit))
        self.load()

    def puts_back(self, files: dict[str, str]) -> None:
        """The attempt is saved and put back."""
        before = self._git("rev-parse", "HEAD")
        iteration = self.run.open_iteration(0)
        ref = f"refs/ralph/attempts/{CHANGE}/{iteration.story_id}/{iteration.attempt}"
        self._git("update-ref", ref, self.commit(files))
        self._git("reset", "-q", "--hard", before)
        self.tell(f.Reverted(0, ref))
        self.load()

    def asks(self, number: int, text: str = ASKS) -> None:
        key = self.stories[number - 1].key
        self.tell(f.StoryParked(key, Why.QUESTION, text))

    def lives(self) -> None:
        """As if a loop drove it."""
        self.live = True
        path = self.folder / ".claude/loop-state.json"
        path.parent.mkdir(exist_ok=True)
        state = {"run_id": self.source.run_id, "change_id": CHANGE, "pid": os.getpid()}
        path.write_text(json.dumps(state))
        self.repository.lock.take(CHANGE)

    def dies(self) -> None:
        """The loop is gone; its last sign of life was now."""
        self.live = False
        self.repository.lock.release()
        moment = self.clock.now().timestamp()
        os.utime(self.source.folder.journal, (moment, moment))

    def finishes(self) -> None:
        self.tell(f.ChoiceMade(Choice.KEEP), f.Closed(Choice.KEEP))

    def close(self) -> None:
        if self.live:
            self.dies()
        self.journal.close()

    def commit(self, files: dict[str, str]) -> str:
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self._git("add", "-A", "--", *files)
        self._git("commit", "-q", "--allow-empty", "-m", "checkpoint")
        return self._git("rev-parse", "HEAD")

    def _git(self, *args: str) -> str:
        env = os.environ | {"GIT_AUTHOR_DATE": "@1767322000 +0000"}
        env["GIT_COMMITTER_DATE"] = env["GIT_AUTHOR_DATE"]
        folder = self.folder if self.folder.exists() else self.folder.parent
        done = subprocess.run(
            ["git", *args], cwd=folder, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()


def night(folder: Path, titles: tuple[str, ...] = TITLES) -> Stage:
    """One story done, one done at the second attempt, one that asks, one at work, one open."""
    stage = Stage(folder, titles)
    stage.begins(1, 0, "I keep one account per line.", "Edit: accounts.py", "Bash: pytest -q")
    stage.ends()
    stage.checked(passed=True)
    stage.keeps({"accounts.py": "def accounts():\n    return open('accounts').readlines()\n"})
    stage.begins(2, 0, "A hash with a fixed salt is enough.", "Edit: hash.py")
    stage.ends()
    stage.checked(passed=False, reason=WHY)
    stage.puts_back({"hash.py": "def hashed(word):\n    return sha256('salt' + word)\n"})
    stage.begins(2, 0, "The salt must differ for every account.", "Edit: hash.py")
    stage.ends()
    stage.checked(passed=True)
    stage.keeps({"hash.py": "def hashed(word, salt):\n    return scrypt(word, salt=salt)\n"})
    stage.begins(3, 0, "Read: server.py", "<promise>FAILED: which port?</promise>")
    stage.ends(Outcome.FAILED, "which port?")
    stage.puts_back({"server.py": "PORT = 8080\n"})
    stage.asks(3)
    stage.begins(4, 0, "I look for what ends a session.", "Read: sessions.py")
    stage.clock.seconds += 7
    return stage


def lanes(folder: Path) -> Stage:
    """Two stories at work, one that waits to land."""
    stage = Stage(folder, plan=replace(SETTINGS, lanes=3))
    for lane in range(3):
        stage.tell(f.SlotReady(lane, f"/slots/{lane}"))
    stage.begins(1, 0, "I keep one account per line.")
    stage.begins(2, 1, "The salt must differ for every account.")
    stage.begins(4, 2, "I look for what ends a session.")
    usage = Usage(41_000, 3_000, 210_000, 0, 0.31)
    stage.tell(f.AttemptEnded(1, Outcome.COMPLETE, "", (), usage), f.UsageMeasured(1, usage))
    stage.tell(f.Verified(1, passed=True, checked=True))
    stage.clock.seconds += 7
    return stage
