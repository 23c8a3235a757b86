"""The checks that the loop itself runs after COMPLETE."""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from untildone.adapters.checks.clean_checkout import remove_folder
from untildone.adapters.git.environment import clean_environment
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.adapters.sandbox import RunEnvironment
from untildone.domain.agents.agent import Ending
from untildone.domain.checks.checks import Checked
from untildone.domain.checks.counted_tests import (
    Counts,
    count,
    count_junit,
    hidden_failures,
    junit_file,
    with_report,
)
from untildone.domain.plain_text import plain
from untildone.plain_files import opened, read_text

TAIL = 4000
KEPT = 2 * 1024 * 1024
LARGEST_REPORT = 32 * 1024 * 1024
OPTIONS = "PYTEST_ADDOPTS"
# Where pytest finds options, beside its variable and the command line.
PYTEST_SETTINGS = (
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini"),
    *("pyproject.toml", "tox.ini", "setup.cfg"),
)
HIDDEN = ": a pipe or `|| true` hides its exit code"
# A shell between the loop and the check: a check that kills its parent ends itself, not the loop.
SHELL = ("/bin/sh", "-c", '/bin/sh -c "$1"; exit $?', "sh")


class _Output:
    """The first and the last part of what a check prints."""

    def __init__(self) -> None:
        self._head, self._tail = bytearray(), bytearray()

    def collect(self, chunk: bytes) -> None:
        room = KEPT - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room > 0 else chunk
        del self._tail[:-KEPT]

    def text(self) -> str:
        return plain((self._head + self._tail).decode(errors="replace"))


class _JUnitFile:
    """A file that a check will write its results to; one of an earlier run is none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._earlier = self._stamp()

    def tests(self) -> Counts | None:
        now = self._stamp()
        if self._path is None or now is None or now == self._earlier:
            return None
        try:
            with opened(self._path) as file:
                text = file.read(LARGEST_REPORT + 1)
        except OSError:
            return None
        # The number of tests in a part of it would be another one each time.
        return count_junit(text.decode(errors="replace")) if len(text) <= LARGEST_REPORT else None

    def _stamp(self) -> tuple[int, int] | None:
        try:
            now = self._path.lstat() if self._path else None
        except OSError:
            return None
        return (now.st_ino, now.st_mtime_ns) if now and stat.S_ISREG(now.st_mode) else None


class _Reports:
    """What runners write about their tests: pytest for us, others where the check says so."""

    def __init__(self, folder: Path, where: Path, command: str) -> None:
        self._said = (command, *_settings(where))
        self._asked_for = folder / "pytest.xml"
        named = junit_file(command)
        self._usable = _emptied(folder)
        self._ours = _JUnitFile(self._asked_for if self._usable else None)
        self._theirs = _JUnitFile(where / named if named else None)

    def wanted(self, options: str) -> str:
        """Options of pytest, by which it writes one."""
        if not self._usable:
            return options
        return with_report(options, str(self._asked_for), *self._said)

    def without_ours(self, output: str) -> str:
        """What was printed, but for where our report is: nobody else needs that."""
        name = str(self._asked_for)
        rows = output.splitlines(keepends=True) if name in output else [output]
        return "".join(row for row in rows if name not in row)

    def counted(self, output: str) -> tuple[Counts | None, Counts | None]:
        """The tests by what was printed or the check's own file, and by a report."""
        named = self._theirs.tests()
        reported = self._ours.tests() or named
        return named or count(output) or reported, reported


class ShellChecks:
    """Runs each check through the shell at the top of the worktree, in the agent's sandbox."""

    def __init__(
        self,
        processes: Processes,
        environment: RunEnvironment,
        top: Path,
        reports: Path,
        stop_now: Callable[[], bool],
    ) -> None:
        self._processes = processes
        self._environment = environment
        self._top = top
        self._reports = reports
        self._stop_now = stop_now

    def run(self, command: str, timeout_s: float, folder: str = "") -> Checked:
        """Run the check; nothing that it started lives on."""
        output = _Output()
        env = clean_environment(os.environ)
        where = Path(folder) if folder else self._top
        reports = _Reports(self._reports, where, command)
        if options := reports.wanted(env.get(OPTIONS, "")):
            env[OPTIONS] = options
        call = Command((*SHELL, command), where, env, timeout_s=timeout_s)
        call = self._environment.applied_to(call, (folder,) if folder else (), str(self._reports))
        collect = output.collect
        ended = self._processes.run(call, collect, self._stop_now, on_error=collect)
        text = reports.without_ours(output.text())
        tests, reported = reports.counted(text)
        exited = ended.ending is Ending.EXITED
        how = f"exit code {ended.exit_code}" if exited else ended.ending.value
        why = ""
        if exited and ended.exit_code == 0:
            failed = hidden_failures(command, tests, reported)
            if not failed:
                return Checked(tests=tests, reported=reported)
            how, why = f"{how}, but its runner counted {failed} failed", HIDDEN
        if folder:  # it is gone when somebody reads this, and its name says nothing
            text = text.replace(f"{folder}/", "").replace(folder, ".")
        printed = text[-TAIL:].strip()
        said = f":\n{printed}" if printed else "; it printed nothing"
        reason = f"The check `{command}` failed ({how}{why}){said}"
        interrupted = ended.ending is Ending.INTERRUPTED
        return Checked(reason, how, text, interrupted=interrupted, tests=tests, reported=reported)


def _emptied(folder: Path) -> bool:
    """Whether the folder is there and empty; a check may have left anything in its place."""
    with contextlib.suppress(OSError):
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        elif folder.exists():
            remove_folder(folder)
        folder.mkdir(mode=0o700)
        return True
    return False


def _settings(folder: Path) -> Iterator[str]:
    """What says how pytest is to run here."""
    for name in PYTEST_SETTINGS:
        with contextlib.suppress(OSError, ValueError):
            yield read_text(folder / name)
