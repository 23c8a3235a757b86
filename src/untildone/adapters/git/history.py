"""Which files changed together in the last commits of people, and in those of our own runs."""

import os
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from untildone.adapters.git.git import Git
from untildone.domain.run.run import Iteration, Outcome
from untildone.domain.stories.predicted_files import FileRecord, with_predictions
from untildone.domain.stories.story import StoryBook

MOST_COMMITS = 500
PATIENCE_S = 30.0
# Where the commits of our runs are, also of those that were cleaned up.
OURS = ("refs/heads/ralph", "refs/ralph/archive")
SUBJECT = "attempt: "  # how an attempt's commit is called, see checkpoints/failed_attempts.py


class FileHistory:
    """Predicts the files of stories from the commits of people and of our runs, read once."""

    def __init__(self, git: Git, change: str) -> None:
        self._git = git
        self._change = change
        self._attempts = f"refs/ralph/attempts/{change}"
        self._record: FileRecord | None = None
        self._seen = 0
        self._landed: list[str] = []

    def predicted(self, book: StoryBook, calls: Sequence[Iteration] = ()) -> StoryBook:
        """The book, with the files that each open story will probably change.

        `calls` are those of this run, oldest first.
        """
        record = self._record or self._read()
        new, self._seen = calls[self._seen :], len(calls)
        self._record = self._with_landed(self._with_attempts(record, new), new)
        return with_predictions(book, self._record)

    def _with_attempts(self, record: FileRecord, calls: Sequence[Iteration]) -> FileRecord:
        saved = [call for call in calls if call.saved_ref]
        if not saved:
            return record
        attempts = {call.story_id: self._changed(call.saved_ref) for call in saved}
        contested = record.contested.union(*(call.contested for call in saved))
        return replace(record, attempts={**record.attempts, **attempts}, contested=contested)

    def _with_landed(self, record: FileRecord, calls: Sequence[Iteration]) -> FileRecord:
        done = (call for call in calls if call.outcome is Outcome.COMPLETE)
        self._landed += (call.commits[-1] for call in done if call.commits)
        if not (record.contested and self._landed):  # nobody asks before
            return record
        landed = (*record.landed, *map(self._changed, self._landed))
        self._landed = []
        return replace(record, landed=landed)

    @property
    def files(self) -> frozenset[str]:
        """The files of the newest commit, once stories were predicted."""
        return self._record.files if self._record else frozenset()

    def _changed(self, ref: str) -> tuple[str, ...]:
        words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", f"{ref}^1", ref)
        return tuple(filter(None, self._asked(*words).split("\0")))

    def _read(self) -> FileRecord:
        names = self._asked("ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD")
        commits, attempts = list[tuple[str, ...]](), dict[str, tuple[str, ...]]()
        for subject, files in self._log():
            commits.append(files)
            if subject.startswith(f"{SUBJECT}{self._change}/"):
                # `setdefault`: the newest comes first.
                story = subject.removeprefix(f"{SUBJECT}{self._change}/").rpartition("/")[0]
                attempts.setdefault(story, files)
        known = frozenset(names.split("\0")) - {""}
        return FileRecord(known, tuple(commits), attempts)

    def _log(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each commit's subject and files; one with several parents counts against the first."""
        refs = ("HEAD", *(f"--glob={folder}/*" for folder in (*OURS, self._attempts)))
        words = ("--name-only", "--no-renames", "--diff-merges=first-parent", "--format=%x01%s")
        for row in self._asked("log", "-z", f"-{MOST_COMMITS}", *words, *refs).split("\1")[1:]:
            subject, _, rest = row.partition("\0")
            files = tuple(filter(None, rest.removeprefix("\n").split("\0")))
            if files:
                yield subject, files

    def _asked(self, *words: str) -> str:
        """What git tells, or a part of it: a guess fetches nothing, and does not take long."""
        answer = self._git.ask(*words, env={"GIT_NO_LAZY_FETCH": "1"}, limit_s=PATIENCE_S)
        return os.fsdecode(answer.stdout)
