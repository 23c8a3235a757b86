"""Archiving an OpenSpec change: moved by us, merged by the real program, refused while open."""

import os
from pathlib import Path

import pytest

from untildone.adapters.stories.openspec_archive import archive, check, place
from untildone.domain.errors import StoriesError

TODAY = "2026-11-16"
CHANGE = "openspec/changes/demo"
TARGET = f"openspec/changes/archive/{TODAY}-demo"
# What the real program does, in few words: it moves the change and says so.
PROGRAM = f"""#!/bin/sh
test "$*" = "archive demo --yes --json" || exit 9
mkdir -p openspec/changes/archive openspec/specs
mv {CHANGE} openspec/changes/archive/2026-11-17-demo
echo '{{"archive": {{"change": "demo"}}}}'
"""


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, f"{CHANGE}/tasks.md", "- [x] a\n")
    put(tmp_path, f"{CHANGE}/proposal.md", "why\n")
    return tmp_path


def program(root: Path, monkeypatch: pytest.MonkeyPatch, text: str = PROGRAM) -> None:
    put(root, "bin/openspec", text)
    (root / "bin/openspec").chmod(0o755)
    monkeypatch.setenv("PATH", f"{root / 'bin'}:{os.environ['PATH']}")


def test_a_change_without_deltas_is_moved(root: Path) -> None:
    check(root, "demo")
    assert archive(root, "demo", TODAY) == TARGET
    assert (root / TARGET / "proposal.md").read_text() == "why\n"
    assert not (root / CHANGE).exists()
    # A process that died after the move says so at the next start.
    assert archive(root, "demo", TODAY) == TARGET


def test_a_name_with_a_date_keeps_it() -> None:
    assert place("2026-01-02-demo", TODAY) == "openspec/changes/archive/2026-01-02-demo"


@pytest.mark.parametrize("tasks", ["- [x] a\n- [ ] b\n", "no boxes\n"])
def test_an_open_box_refuses(root: Path, tasks: str) -> None:
    put(root, f"{CHANGE}/tasks.md", tasks)
    with pytest.raises(StoriesError, match="boxes are open"):
        archive(root, "demo", TODAY)
    assert (root / CHANGE).is_dir()


def test_a_name_that_is_taken_refuses(root: Path) -> None:
    (root / TARGET).mkdir(parents=True)
    with pytest.raises(StoriesError, match="already"):
        archive(root, "demo", TODAY)


def test_deltas_need_the_program(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, f"{CHANGE}/specs/login/spec.md", "## ADDED Requirements\n")
    monkeypatch.setenv("PATH", str(root / "nothing"))
    for refused in (lambda: check(root, "demo"), lambda: archive(root, "demo", TODAY)):
        with pytest.raises(StoriesError, match="npm install"):
            refused()
    assert (root / CHANGE).is_dir()
    put(root, f"{CHANGE}/.openspec.yaml", "skip_specs: true\n")
    assert archive(root, "demo", TODAY) == TARGET


def test_deltas_are_merged_by_the_program(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, f"{CHANGE}/specs/login/spec.md", "## ADDED Requirements\n")
    program(root, monkeypatch)
    assert archive(root, "demo", TODAY) == "openspec/changes/archive/2026-11-17-demo"


def test_what_the_program_refuses_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, f"{CHANGE}/specs/login/spec.md", "## ADDED Requirements\n")
    program(root, monkeypatch, "#!/bin/sh\necho 'no such requirement' >&2\nexit 1\n")
    with pytest.raises(StoriesError, match="no such requirement"):
        archive(root, "demo", TODAY)
    assert (root / CHANGE).is_dir()


def test_a_file_in_the_place_of_the_archive_is_a_refusal(root: Path) -> None:
    put(root, "openspec/changes/archive", "not a folder\n")
    with pytest.raises(StoriesError, match="It cannot be moved"):
        archive(root, "demo", TODAY)
    assert (root / CHANGE).is_dir()
