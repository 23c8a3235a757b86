"""Real checks through the shell."""

import threading
from pathlib import Path

import pytest

from untildone.adapters.checks.shell import KEPT, LARGEST_REPORT, TAIL, ShellChecks
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.sandbox import RunEnvironment
from untildone.domain.checks.checks import Checked
from untildone.domain.checks.counted_tests import Counts


def checks(processes: Processes, top: Path, *, stop: bool = False) -> ShellChecks:
    environment = RunEnvironment({"MARK": "r1"})
    return ShellChecks(processes, environment, top, top / "reports", lambda: stop)


def test_a_check_that_passes(processes: Processes, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    assert checks(processes, tmp_path).run("echo noise; test -f x", 5) == Checked()


def test_a_check_that_fails_says_why(processes: Processes, tmp_path: Path) -> None:
    command = r"printf 'one\033[31mred\033[0m\n'; sleep 0.02; echo two >&2; exit 3"
    assert checks(processes, tmp_path).run(command, 5).reason == (
        f"The check `{command}` failed (exit code 3):\nonered\ntwo"
    )


def test_only_the_tail_is_kept(processes: Processes, tmp_path: Path) -> None:
    command = "yes | head -c 100000; echo end; exit 1"
    reason = checks(processes, tmp_path).run(command, 5).reason
    assert reason.endswith("y\nend")
    assert len(reason) < TAIL + 100


def test_time_out(processes: Processes, tmp_path: Path) -> None:
    reason = checks(processes, tmp_path).run("echo started; exec sleep 60", 0.1).reason
    assert reason == "The check `echo started; exec sleep 60` failed (timeout):\nstarted"


def test_stopped(processes: Processes, wake: WakePipe, tmp_path: Path) -> None:
    threading.Timer(0.05, wake.set).start()
    checked = checks(processes, tmp_path, stop=True).run("exec sleep 60", 60)
    assert checked.interrupted
    assert checked.reason == "The check `exec sleep 60` failed (interrupted); it printed nothing"


def test_a_check_carries_the_marks_of_its_run(processes: Processes, tmp_path: Path) -> None:
    assert checks(processes, tmp_path).run('test "$MARK" = r1', 5) == Checked()


def test_what_is_kept_of_a_flood_is_its_head_and_its_tail(
    processes: Processes, tmp_path: Path
) -> None:
    command = f"echo begin; yes | head -c {3 * KEPT}; echo end; exit 1"
    output = checks(processes, tmp_path).run(command, 30).output
    assert (output[:6], output[-5:], len(output)) == ("begin\n", "\nend\n", 2 * KEPT)


def test_a_check_that_kills_its_parent_fails(processes: Processes, tmp_path: Path) -> None:
    checked = checks(processes, tmp_path).run("kill -9 $PPID; sleep 60", 30)
    assert checked.how == "exit code -9"


def test_a4_the_tests_are_counted_by_output_or_by_the_junit_file(
    processes: Processes, tmp_path: Path
) -> None:
    run = checks(processes, tmp_path).run
    assert run("echo '3 passed in 0.1s'", 5).tests == Counts(3)
    assert run("echo '1 failed, 3 passed in 0.1s'; exit 1", 5).tests == Counts(3, 1)
    writes = "echo '<testcase/><testcase><skipped/></testcase>' > junit.xml"
    assert run(writes, 5).tests == Counts(1, 0, 1)
    assert run("test -f junit.xml", 5).tests is None  # of an earlier run


REPORT = 'eval set -- "$PYTEST_ADDOPTS"; report="${*##*=}"'
TWICE = '<testcase name="a" time="1"/><testcase name="a" time="2"/>'


def test_a4_pytest_is_asked_for_a_report_of_its_own(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "a b'c"
    top.mkdir()
    run = checks(processes, top).run
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x")
    writes = f"{REPORT}; test $1 = -x; echo '<testcase/>{TWICE}' > \"$report\""
    told = run(f"{writes}; echo '9 passed in 0.1s'; echo made: $report", 5)
    assert (told.tests, told.reported) == (Counts(9), Counts(2))
    assert run(f"{writes}; echo in $report; echo why; exit 1", 5).output == "why\n"
    assert run(writes, 5).tests == Counts(2)  # nothing is printed
    assert run("true", 5).reported is None  # of an earlier run
    for bars in ("rm -r reports; echo > reports", "rm -r reports; ln -s . reports"):
        run(bars, 5)
        assert run(writes, 5).reported == Counts(2)
    assert run(f'{REPORT}; head -c {LARGEST_REPORT + 1} /dev/zero > "$report"', 9).reported is None


def test_a4_pytest_is_not_asked_where_its_report_is_spoken_for(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = checks(processes, tmp_path).run
    unasked = 'test "$PYTEST_ADDOPTS" = '
    assert run(f'{unasked}"" || : --junit-xml=own.xml && {unasked}""', 5) == Checked()
    (tmp_path / "setup.cfg").write_text("[tool:pytest]\naddopts = -p no:junitxml\n")
    assert run(f'{unasked}""', 5) == Checked()
    (tmp_path / "setup.cfg").unlink()
    monkeypatch.setenv("PYTEST_ADDOPTS", "--junitxml=mine.xml")
    assert run(f"{unasked}--junitxml=mine.xml", 5) == Checked()
