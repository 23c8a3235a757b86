"""What the loop relies on when it keeps work and puts it back, in every variant."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.adapters.worktree import made
from tests.fakes.checkpoint import FakeCheckpoint
from tests.fakes.plans import ORIGIN, PLAN
from untildone.adapters.git.repository import exclude_own_files
from untildone.domain.run.run import Choice, Origin
from untildone.ports import Checkpoint
from untildone.wiring.build import build_checkpoint
from untildone.wiring.repository import here
from untildone.wiring.worktrees import move_out

MESSAGE = "checkpoint: 1\n\nUntildone-Run: r1\nUntildone-Story: 1\nUntildone-Attempt: 1\n"


class Scene(Struct):
    """A checkpoint that is not open yet, and an agent's hands: `work` writes a file."""

    checkpoint: Checkpoint
    origin: Origin
    work: Callable[[], object]

    def start(self) -> str:
        """Opened, the agent of story 1 about to start."""
        start = self.checkpoint.open(self.origin, "T0").checkpoint
        self.checkpoint.ensure_at(start, "1")
        return start


def _real(variant: str) -> Callable[[Path], Scene]:
    def build(folder: Path) -> Scene:
        users = made(folder)
        origin, repo = users.origin, here(users.top)
        exclude_own_files(repo.place)
        if variant == "worktree":
            repo = move_out(repo, PLAN.change_id, origin)
        repo.folder(PLAN.run_id).make()
        checkpoint = build_checkpoint(repo, replace(PLAN, checkpoint=variant), origin)
        file = repo.place.top / "made.txt"
        return Scene(checkpoint, origin, lambda: file.write_text("by the agent\n"))

    return build


def _fake(_: Path) -> Scene:
    checkpoint = FakeCheckpoint()
    checkpoint.dirty = False

    def work() -> None:
        checkpoint.dirty, checkpoint.changed = True, ("made.txt",)

    return Scene(checkpoint, ORIGIN, work)


MAKERS = {"fake": _fake, **{name: _real(name) for name in ("branch", "worktree", "stash")}}


@pytest.fixture(params=MAKERS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return MAKERS[request.param](tmp_path)


def test_a_start_is_a_checkpoint_with_a_backup_and_knows_where_it_came_from(scene: Scene) -> None:
    opened = scene.checkpoint.open(scene.origin, "T0")
    assert opened.origin == scene.origin
    assert opened.checkpoint
    assert opened.backup_ref == "refs/ralph/backup/demo/r1"


def test_before_a_start_there_is_nothing_to_reopen(scene: Scene) -> None:
    assert scene.checkpoint.reopened(scene.origin) is None


def test_an_agent_that_does_nothing_leaves_nothing(scene: Scene) -> None:
    start = scene.start()
    assert scene.checkpoint.commits(start) == ()
    assert scene.checkpoint.diverged(start) == ""
    assert scene.checkpoint.pending(start).paths == ()


def test_what_is_pending_is_neither_kept_nor_put_back(scene: Scene) -> None:
    start = scene.start()
    scene.work()
    for _ in range(2):
        assert scene.checkpoint.pending(start).paths == ("made.txt",)


def test_saved_work_is_the_next_checkpoint(scene: Scene) -> None:
    start = scene.start()
    scene.work()
    saved = scene.checkpoint.save(0, start, MESSAGE, only_changes=False)
    assert saved.commit == saved.checkpoint != start
    scene.checkpoint.ensure_at(saved.checkpoint, "2")


def test_a_story_without_work_is_a_commit_too(scene: Scene) -> None:
    start = scene.start()
    saved = scene.checkpoint.save(0, start, MESSAGE, only_changes=False)
    assert saved.commit == saved.checkpoint != start


def test_only_changes_are_saved_on_request(scene: Scene) -> None:
    start = scene.start()
    nothing = scene.checkpoint.save(0, start, MESSAGE, only_changes=True)
    assert (nothing.commit, nothing.checkpoint) == ("", start)
    scene.work()
    assert scene.checkpoint.save(0, start, MESSAGE, only_changes=True).commit


def test_an_attempt_that_is_put_back_is_stored_and_the_next_one_starts_as_it_did(
    scene: Scene,
) -> None:
    start = scene.start()
    for attempt in (1, 2):
        scene.work()
        stored = scene.checkpoint.revert(0, start, "1", attempt)
        assert stored.saved_ref == f"refs/ralph/attempts/demo/1/{attempt}"
        scene.checkpoint.ensure_at(start, "1")


def test_without_edits_by_hand_a_new_process_goes_on_from_the_checkpoint(scene: Scene) -> None:
    start = scene.start()
    assert scene.checkpoint.adopt(start) == (start, ())


def test_before_a_save_there_is_no_commit_of_the_attempt(scene: Scene) -> None:
    assert scene.checkpoint.saved_as(scene.start(), "1", 1) == ""


@pytest.mark.parametrize("choice", Choice)
def test_the_end_is_carried_out_and_what_it_says_are_lines(scene: Scene, choice: Choice) -> None:
    start = scene.start()
    scene.work()
    scene.checkpoint.save(0, start, MESSAGE, only_changes=False)
    remarks = scene.checkpoint.close(choice, scene.origin)
    assert all(remark and "\n" not in remark for remark in remarks)


def test_edits_by_hand_between_two_calls_are_the_next_checkpoint(scene: Scene) -> None:
    start = scene.checkpoint.open(scene.origin, "T0").checkpoint
    assert scene.checkpoint.keep_edits(start) == (start, ())
    scene.work()
    tip, _ = scene.checkpoint.keep_edits(start)
    assert tip != start
    scene.checkpoint.ensure_at(tip, "1")
