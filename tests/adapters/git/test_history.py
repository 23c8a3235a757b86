"""What the history of a repository says about the files of a story."""

import pytest

from tests.adapters.worktree import Worktree
from tests.fakes.plans import NOW, book, story
from untildone.adapters.git.history import FileHistory
from untildone.domain.run.run import Iteration, Outcome


def _commit(repo: Worktree, n: int, *names: str) -> None:
    for name in names:
        repo.write(name, f"{n}\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-qm", f"{n}")


def _predicted(repo: Worktree, title: str) -> tuple[str, ...]:
    stories = book(story(1, title=title))
    return FileHistory(repo.git(), "demo").predicted(stories).stories[0].predicted


def test_files_that_changed_together_in_the_history(repo: Worktree) -> None:
    for n in range(3):
        _commit(repo, n, "src/ä b.py", "tests/test_b.py")
    _commit(repo, 3, "src/c.py")
    assert _predicted(repo, "Mend tests/test_b.py") == ("tests/test_b.py", "src/ä b.py")
    assert _predicted(repo, "Mend src/c.py and other") == ("src/c.py",)


def test_files_that_changed_together_in_stories_of_earlier_runs(repo: Worktree) -> None:
    start = repo.sh("rev-parse", "HEAD")
    for n in range(3):
        _commit(repo, n, "src/b.py", "src/registry.py")
    repo.sh("update-ref", "refs/ralph/archive/other/20260101T000000000000", "HEAD")
    repo.sh("reset", "-q", "--hard", start)
    assert _predicted(repo, "Write src/b.py") == ("src/b.py", "src/registry.py")


def test_files_of_an_earlier_attempt_of_the_story(repo: Worktree) -> None:
    start = repo.sh("rev-parse", "HEAD")
    _commit(repo, 1, "login.py")
    tree = repo.sh("rev-parse", "HEAD^{tree}")
    stray = repo.sh("rev-parse", "HEAD")
    # With a second parent, as an attempt has whose agent has committed.
    message = ("-m", "attempt: demo/1/2")
    saved = repo.sh("commit-tree", tree, "-p", start, "-p", stray, *message)
    repo.sh("update-ref", "refs/ralph/attempts/demo/1/2", saved)
    repo.sh("reset", "-q", "--hard", start)
    assert _predicted(repo, "Let people in") == ("login.py",)


def test_what_landed_is_asked_for_once_something_was_contested(repo: Worktree) -> None:
    history, landed = FileHistory(repo.git(), "demo"), list[Iteration]()
    for n in (1, 2):
        _commit(repo, n, "list.py", f"{n}.py")
        commits = (repo.sh("rev-parse", "HEAD"),)
        one = Iteration(n, NOW, str(n), 1, 1, outcome=Outcome.COMPLETE, commits=commits)
        landed.append(one)
    stories = book(story(9, title="Mend 1.py"))
    assert history.predicted(stories, landed).stories[0].predicted == ("1.py",)
    ref = "refs/ralph/attempts/demo/3/1"
    repo.sh("update-ref", ref, "HEAD")
    again = Iteration(3, NOW, "3", 1, 1, saved_ref=ref, requeued=True, contested=("list.py",))
    found = history.predicted(stories, [*landed, again]).stories[0].predicted
    assert found == ("1.py", "list.py")


def test_the_history_is_read_once(repo: Worktree, monkeypatch: pytest.MonkeyPatch) -> None:
    history = FileHistory(repo.git(), "demo")
    first = history.predicted(book(story(1, title="Mend a.txt")))
    monkeypatch.setenv("PATH", "")
    repo.place.git_dir.rename(repo.top / "gone")
    assert history.predicted(first) == first
