"""What windows read of a run: the same for whoever comes early, late, or after its end."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from untildone.adapters.records import journal
from untildone.app.recovery import replay
from untildone.commands.feed import Feed, Followed, recorded
from untildone.commands.run_account import told_account
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
