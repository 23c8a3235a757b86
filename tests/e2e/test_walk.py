"""A newcomer's walk through the README in a real terminal: from the clone to the pull request."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT
from tests.e2e.fake_github import REMOTE, FakeGitHub
from tests.e2e.tmux import Window, needs_tmux
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Open = Callable[..., Window]

pytestmark = [pytest.mark.e2e, pytest.mark.slow, needs_tmux]

needs_gh = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not shutil.which("gh"),
    reason="gh is not installed: `make packages` installs it",
)
LONG = 100  # a whole run, or an installation, on a busy machine
ANSWER = "Two numbers are enough."
# The first attempt at story 1 is wrong, story 2 asks before it works.
AGENT = f"""\
#!/bin/sh
prompt=$(cat)
case "$UNTILDONE_STORY_ID/$UNTILDONE_ATTEMPT" in
plan/*)
    cp "$PLAN" tasks.md
    echo '<promise>COMPLETE</promise>'
    exit ;;
1/1)
    while [ ! -e "$GATE" ]; do sleep 0.1; done
    echo 'def subtract(a, b): return a + b' >> calc.py ;;
1/*)
    echo 'def subtract(a, b): return a - b' >> calc.py ;;
2/*)
    case "$prompt" in *'{ANSWER}'*) ;; *)
        echo '<promise>ASK: How many numbers?</promise>'
        exit ;;
    esac
    echo 'def multiply(a, b): return a * b' >> calc.py ;;
esac
cat > "tests/test_$UNTILDONE_STORY_ID.py" << END
import calc


def test_it():
    assert calc.subtract(3, 1) == 2
END
echo 'It is written and tested.'
echo '<promise>COMPLETE</promise>'
"""
TASKS = """\
# Tasks

## 1. Subtract

- [ ] 1.1 `subtract(a, b)` in calc.py
- [ ] 1.2 Test it

## 2. Multiply

- [ ] 2.1 `multiply(a, b)` in calc.py
- [ ] 2.2 Test it
"""
PYTEST = {
    "calc.py": "def add(a, b): return a + b\n",
    "conftest.py": "",
    "tests/test_add.py": "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n",
}
NPM = {
    "package.json": '{"name": "calc", "scripts": {"test": "node --test"}}\n',
    "calc.js": "exports.add = (a, b) => a + b;\n",
    "calc.test.js": 'require("node:assert").equal(require("./calc").add(1, 2), 3);\n',
}
GO = {
    "go.mod": "module example.org/calc\n\ngo 1.21\n",
    "calc.go": "package calc\n\nfunc Add(a, b int) int { return a + b }\n",
    "calc_test.go": "package calc\n",
}


def sh(folder: Path, *words: object) -> str:
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def project(folder: Path, files: dict[str, str]) -> Path:
    """A repository with a commit."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sh(folder, "git", "init", "-q")
    sh(folder, "git", "add", "-A")
    sh(folder, "git", "commit", "-q", "-m", "start")
    return folder


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the command, installed from a wheel.

    What it needs besides is that of the tests: there is no package index here.
    """
    root = tmp_path_factory.mktemp("installed")
    sh(ROOT, sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", root)
    venv.create(root / "venv", with_pip=True)
    python = root / "venv" / "bin" / "python"
    (wheel,) = root.glob("*.whl")
    sh(root, python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel)
    (packages,) = (root / "venv" / "lib").glob("python*/site-packages")
    (packages / "what-it-needs.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return root / "venv" / "bin"


@pytest.fixture
def open_window(home: Path, tmp_path: Path) -> Iterator[Open]:
    """Opens windows in a folder, with the environment of a newcomer and what is given."""
    opened: list[Window] = []
    names = ("HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "TMPDIR")
    usual = {name: os.environ[name] for name in names if name in os.environ}

    def make(folder: Path, path: str, **env: str) -> Window:
        opened.append(Window(folder, {**usual, "PATH": path, **env}, home / f"{len(opened)}.tmux"))
        return opened[-1]

    yield make
    for window in opened:
        window.close()


def programs(folder: Path, *names: str) -> str:
    """A PATH with these programs, and with those of the system."""
    folder.mkdir()
    for name in names:
        found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert found, name
        (folder / name).symlink_to(found)
    return f"{folder}:/usr/local/bin:/usr/bin:/bin"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the source archive is no clone")
def test_the_demo_in_a_clone(open_window: Open, tmp_path: Path) -> None:
    sh(tmp_path, "git", "clone", "-q", f"file://{ROOT}", "clone")
    clone = tmp_path / "clone"
    (clone / ".venv").symlink_to(sys.prefix)
    window = open_window(clone, os.environ["PATH"], PYTHONPATH=str(clone / "src"))
    window.type("make -o .venv/.run demo ARGS=--fast")
    window.wait_text("cleanup, keep or later?", LONG)
    window.type("keep")
    window.wait_text("finished: done, keep")


def test_three_kinds_of_projects(installed: Path, open_window: Open, tmp_path: Path) -> None:
    agent = programs(tmp_path / "bin", "pytest")
    for name in ("codex", "goose"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\necho 1.0.0\n")
        (tmp_path / "bin" / name).chmod(0o755)
    kinds = (("pytest -q", PYTEST), ("npm test", NPM), ("go test ./...", GO))
    for check, files in kinds:
        folder = project(tmp_path / check.partition(" ")[0], files)
        (folder / "tasks.md").write_text(TASKS)
        window = open_window(folder, f"{installed}:{agent}")
        window.type("untildone init")
        window.wait_text("Which agent")
        window.type("goose")
        window.wait_text("Next: `untildone doctor`")
        assert f"Checks:  `{check}`" in window.text
        assert "Stories: tasks (tasks-md)" in window.text
        configured = (folder / "untildone.toml").read_text()
        assert 'agent = "goose"\n' in configured
        assert "\nstrict = true\n" in configured
        found = shutil.which(check.partition(" ")[0], path=f"{installed}:{agent}")
        assert ("so that this check cannot start" in window.text) == (found is None)
        assert "nothing to mend" in window.run("untildone lint")
        said = window.run("untildone run --dry-run 2>&1 | head -40")
        assert check in said
        assert ("goose" if found else "A check cannot start") in said


@needs_gh
def test_a_night_and_a_morning(installed: Path, open_window: Open, tmp_path: Path) -> None:
    agent, gate, plan = (tmp_path / name for name in ("agent", "gate", "plan.md"))
    agent.write_text(AGENT)
    agent.chmod(0o755)
    plan.write_text(TASKS)
    remote = tmp_path / "remote.git"
    sh(tmp_path, "git", "init", "-q", "--bare", "-b", "main", remote)
    folder = project(tmp_path / "calc", PYTEST)
    sh(folder, "git", "push", "-q", remote, "main")
    sh(folder, "git", "remote", "add", "origin", REMOTE)
    path = f"{installed}:{programs(tmp_path / 'bin', 'pytest', 'gh', 'git')}"
    with FakeGitHub(git_folder=remote) as github:
        env = {name: value for name, value in github.env.items() if value}

        evening = open_window(folder, path, GATE=str(gate), PLAN=str(plan), **env)
        evening.run("untildone init --yes")
        evening.type(f"untildone plan --agent-cmd {agent} 'Subtract and multiply'")
        evening.wait_text("y, n, or what should be different", LONG)
        assert "+## 2. Multiply" in evening.text
        evening.type("y")
        evening.wait_text("untildone run tasks")
        assert (folder / "tasks.md").read_text() == TASKS
        assert "0 of 4 tasks done" in evening.run("untildone stories")
        assert "nothing to mend" in evening.run("untildone lint")
        evening.run("git add -A && git commit -q -m plan && git push -q origin main")
        said = evening.run(f"untildone run --detach --agent-cmd {agent}", LONG)
        assert "goes on without this terminal" in said
        evening.wait_text("$")
        evening.close()

        night = open_window(folder, path, **env)
        until(lambda: "1 Subtract" in night.run("untildone status"), LONG, "the first call")
        gate.touch()
        code, said = night.ended("untildone wait", LONG)
        assert (code, "untildone guide tasks --story 2" in said) == (3, True)

        morning = night.run("untildone status")
        for words in ("1 of 2 stories, 1 verified", "How many numbers?", "next: untildone guide"):
            assert words in morning
        assert len(morning.splitlines()) < 24
        night.run(f'untildone guide --story 2 "{ANSWER}"')
        night.run("untildone resume --detach && untildone wait", LONG)
        assert "2 of 2 stories, 2 verified" in night.run("untildone status")
        night.run("untildone report --md report.md --html report.html")
        assert "2 of 2 stories are done, 2 of them verified" in (folder / "report.md").read_text()
        assert "</html>" in (folder / "report.html").read_text()
        night.run("rm report.*")

        said = night.run("untildone finish pr", LONG)
        (pull,) = github.pulls
        assert pull["url"] in said.replace("\n", "")
        assert (pull["headRefName"], pull["isDraft"]) == ("ralph/tasks", False)
        assert "verified: its checks passed" in pull["body"]
    subjects = sh(remote, "git", "log", "--format=%s", "main..ralph/tasks").splitlines()
    assert subjects == ["checkpoint: 2", "checkpoint: 1"]
