"""What windows read of a run: the same for whoever comes early, late, or after its end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from untildone.adapters.records import journal
from untildone.app.recovery import replay
from untildone.commands.look.feed import Feed, Followed, recorded, the_run
from untildone.commands.run_account import told_account
from untildone.domain.errors import UserError
from untildone.domain.reporting import views
from untildone.wiring.repository import here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GOLDEN = Path(__file__).parents[1] / "golden"
RUNS = sorted(GOLDEN.glob("*/*/journal.jsonl"))
SECRET = "ghp_" + "a1B2" * 10


def named(path: Path) -> str:
    return f"{path.parents[1].name}-{path.parent.name}"


def run_id_of(path: Path) -> str:
    first = json.loads(path.read_bytes().partition(b"\n")[0])
    return str(first["data"]["plan"]["run_id"])


class Growing:
    """A recorded run that is written once more, piece by piece."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self.feeds: list[Feed] = []
        subprocess.run(["git", "init", "-q", folder], check=True)
        self.repository = here(folder)
        self.source = Followed(self.repository, run_id)
        self.path = self.source.folder.journal
        self.path.parent.mkdir(parents=True)
        self.path.touch()

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def feed(self) -> Feed:
        feed = Feed(self.source)
        self.feeds.append(feed)
        return feed


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[[Path], Growing]]:
    """Makes the stage for a recorded run."""
    made: list[Growing] = []

    def make(path: Path) -> Growing:
        made.append(Growing(tmp_path, run_id_of(path)))
        return made[-1]

    yield make
    for growing in made:
        for feed in growing.feeds:
            feed.close()


@pytest.mark.parametrize("path", RUNS, ids=named)
def test_each_look_is_what_a_replay_of_all_so_far_tells(
    place: Callable[[Path], Growing], path: Path
) -> None:
    growing = place(path)
    feed: Feed = growing.feed()
    seen: list[dict[str, Any]] = []
    for line in path.read_bytes().splitlines(keepends=True):
        growing.write(line)
        seen += feed.look()
        now = replay(journal.replayed(growing.path))
        assert now is not None
        assert feed.run == views.left_behind(now, growing.repository.last_sign(now))
    numbers = [row["seq"] for row in seen]
    assert numbers == sorted(set(numbers))
    late = growing.feed()
    assert late.look() == seen
    run_of = growing.source.run_id
    assert late.account() == feed.account() == told_account(growing.repository, run_of)[1]


def test_a_line_that_is_being_written_waits_for_its_end(place: Callable[[Path], Growing]) -> None:
    growing = place(RUNS[0])
    first, *_, last = RUNS[0].read_bytes().splitlines(keepends=True)
    growing.write(first)
    feed = growing.feed()
    feed.look()
    growing.write(last[:9])
    assert feed.look() == []
    growing.write(last[9:])
    assert [row["seq"] for row in feed.look()] == [json.loads(last)["seq"]]


def test_secrets_are_redacted(place: Callable[[Path], Growing]) -> None:
    growing = place(RUNS[0])
    growing.write(RUNS[0].read_bytes())
    row = {"v": 1, "seq": 9999, "at": "2026-11-01T00:00:00.000+00:00", "event": "agent_text"}
    growing.write(json.dumps(row | {"text": f"the token is {SECRET}"}).encode() + b"\n")
    assert SECRET not in json.dumps(growing.feed().look())


def test_all_runs_of_several_repositories_newest_first(tmp_path: Path) -> None:
    one = Growing(tmp_path / "one", "20261101-000000-0001")
    other = Growing(tmp_path / "other", "20261102-000000-0002")
    again = replace(one.source, run_id="20261103-000000-0003")
    again.folder.journal.parent.mkdir()
    again.folder.journal.touch()
    found = recorded([one.repository, other.repository])
    tops = [(run.run_id[-1], run.repository.place.top.name) for run in found]
    assert tops == [("3", "one"), ("2", "other"), ("1", "one")]


def test_the_state_is_that_of_its_file(place: Callable[[Path], Growing]) -> None:
    growing = place(RUNS[0])
    growing.write(RUNS[0].read_bytes())
    feed = growing.feed()
    feed.look()
    shown = feed.state()
    assert shown["change_id"] == feed.run.plan.change_id
    assert shown["alive"] is False
    assert len(shown["iterations"]) == len(feed.run.iterations)  # type: ignore[arg-type]
    json.dumps(shown)


def test_a_record_that_is_removed_while_it_is_looked_at_is_shown_to_its_last_row(
    place: Callable[[Path], Growing],
) -> None:
    path = GOLDEN / "0.1.0" / "crashed" / "journal.jsonl"
    growing = place(path)
    growing.write(path.read_bytes())
    feed = growing.feed()
    feed.look()
    shutil.rmtree(growing.path.parent)
    assert feed.look() == []
    last = json.loads(path.read_bytes().splitlines()[-1])["at"]
    assert feed.run.died == datetime.fromisoformat(last)
    assert feed.state()["last_sign"] == feed.run.died.isoformat(timespec="milliseconds")
    with pytest.raises(UserError, match="removed"):
        growing.feed()


def test_a_record_that_is_moved_while_it_is_looked_at_is_shown_as_before(
    tmp_path: Path,
) -> None:
    linked, user = (Growing(tmp_path / name, run_id_of(RUNS[0])) for name in ("linked", "user"))
    shutil.rmtree(user.path.parent)
    first, second, *rest = RUNS[0].read_bytes().splitlines(keepends=True)
    linked.write(first + second)
    source = replace(linked.source, user=user.repository)
    with contextlib.closing(Feed(source)) as feed, contextlib.closing(Feed(source)) as late:
        feed.look()
        linked.write(b"".join(rest))
        linked.path.parent.rename(user.path.parent)
        feed.look()
        assert source.home == user.repository
        late.look()
        assert feed.run == late.run == source.run()
        assert feed.state() == late.state()


def test_lines_of_others_are_passed_over(place: Callable[[Path], Growing]) -> None:
    growing = place(RUNS[0])
    first, *rest = RUNS[0].read_bytes().splitlines(keepends=True)
    growing.write(first)
    growing.write(b'{}\n[1]\nno json\n{"event": "x"}\n{"event": "x", "at": "never", "seq": 1}\n')
    growing.write(b"".join(rest))
    feed, late = growing.feed(), growing.feed()
    assert feed.look() == [row for line in rest if "event" in (row := json.loads(line))]
    late.look()
    assert feed.run.plan.run_id == growing.source.run_id


def test_an_undo_brings_no_secret_back(place: Callable[[Path], Growing]) -> None:
    path = next(path for path in RUNS if b'"fact": "TakenBack"' in path.read_bytes())
    growing = place(path)
    data = path.read_bytes()
    growing.write(data.replace(b'"agent": "', b'"agent": "' + SECRET.encode() + b" "))
    feed = growing.feed()
    feed.look()
    assert feed.run.undone
    assert SECRET not in repr(feed.run)


def test_to_look_for_runs_leaves_nothing_open(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "one", "20261101-000000-0001")
    linked = growing.repository.place.git_dir / "worktrees" / "gone" / "untildone"
    (linked / "runs" / "20261102-000000-0002").mkdir(parents=True)
    (linked / "runs" / "20261102-000000-0002" / "journal.jsonl").touch()
    (linked / "made_for").write_text(str(tmp_path / "nowhere"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert [run.run_id[-1] for run in recorded([growing.repository])] == ["2", "1"]
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_run_is_found_by_its_id_or_its_change(place: Callable[[Path], Growing]) -> None:
    growing = place(RUNS[0])
    growing.write(RUNS[0].read_bytes())
    runs = recorded([growing.repository])
    assert the_run(runs, "") == the_run(runs, growing.source.run_id) == runs[0]
    assert the_run(runs, runs[0].change) == runs[0]
    with pytest.raises(UserError, match="There is no run of this change: other"):
        the_run(runs, "other")
    with pytest.raises(UserError, match="There is no run yet"):
        the_run([], "")
