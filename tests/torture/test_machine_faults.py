"""The machine fails in mid-run: no room, no right to write, a clock that goes backwards.

Each time the run ends with an honest error, nothing is lost, and `resume` goes on once all is well.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.e2e.bench import Bench
from tests.e2e.test_lanes import WORK, Lanes
from tests.e2e.users_tree import users_own
from tests.torture import checks
from tests.torture.checks import Start
from tests.torture.kill_points import PLAN, STORIES, final_state
from tests.torture.scene import INJECTED, Scene

pytestmark = pytest.mark.e2e

CLEANUP = ("--on-complete", "cleanup")
FILL = 'dd if=/dev/zero of="$top/build/filler" bs=1k > /dev/null 2>&1\n'


def mounted(*args: str | Path) -> bool:
    """Whether the mount was allowed."""
    if os.geteuid() != 0:
        return False
    done = subprocess.run(["mount", *map(str, args)], capture_output=True, check=False)
    return done.returncode == 0


def no_mounts(what: str) -> None:
    """Skip on a person's machine; where the build must be complete, fail."""
    text = f"{what} needs the right to mount"
    if os.environ.get("CI") and os.geteuid() == 0:
        pytest.fail(text)
    pytest.skip(text)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Scene]:
    """A repository on a file system of 4 MiB."""
    root = tmp_path / "s"
    repo = root / "repo"
    repo.mkdir(parents=True)
    if not mounted("-t", "tmpfs", "-o", "size=4m", "tmpfs", repo):
        no_mounts("a small file system")
    try:
        yield Scene.made(root, STORIES)
    finally:
        subprocess.run(["umount", "-l", str(repo)], check=False)


def goes_on(scene: Scene, start: Start) -> None:
    """With the fault gone: nothing is lost, `resume` ends the run, the repository is as it was."""
    assert checks.losses(scene) == []
    assert scene.command("status", "--json") == 0
    code = scene.command("resume", "x", *CLEANUP)
    if code == 2:
        code = scene.command(*scene.run_args("branch", *CLEANUP))
    said = scene.said.read_text()
    assert code == 0, said
    assert final_state(scene, start) == [], said
    checks.expire_and_collect(scene)
    wrong = [*checks.losses(scene), *checks.usable(scene), *checks.state_is_valid(scene)]
    assert wrong == [], said


def honest(scene: Scene, code: int, *words: str) -> None:
    """A failure with the machine's own words and no traceback."""
    said = scene.said.read_text()
    assert code in (1, 2, 3), said
    assert "Traceback" not in said
    assert "went wrong inside" not in said
    assert any(word in said for word in words), said


@pytest.mark.parametrize("story", ["1", "2"], ids=["before a checkpoint", "before a put-back"])
def test_disk_full_in_mid_run(small_disk: Scene, story: str) -> None:
    scene = small_disk
    once = f'[ "$UNTILDONE_STORY_ID" != {story} ] || ! mkdir "$root/filled" || {FILL}'
    scene.plan({"default": PLAN + once})
    start = Start.of(scene)
    code = scene.command(*scene.run_args("branch", *CLEANUP))
    honest(scene, code, "No space left", "no space left")
    assert (scene.root / "filled").exists()
    assert scene.command("status", "--json") == 0
    (scene.repo / "build" / "filler").unlink()
    goes_on(scene, start)


@pytest.fixture
def small_cache(bench: Bench) -> Iterator[Path]:
    """A cache folder, where slots are, on a file system of 4 MiB."""
    folder = bench.home / ".cache"
    folder.mkdir()
    if not mounted("-t", "tmpfs", "-o", "size=4m", "tmpfs", folder):
        no_mounts("a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_disk_of_the_slots_full_in_mid_run(bench: Bench, small_cache: Path) -> None:
    filler = small_cache / "filler"
    fill = f"mkdir {bench.root}/filled 2> /dev/null && head -c 9M /dev/zero > {filler}"
    lanes = Lanes(bench, 4, {"2": f"{WORK}; {fill}", "any": f"sleep 0.3; {WORK}"})
    before = users_own(bench)
    ended = lanes.run(2, "--max-retries", "0")
    said = ended.stdout + ended.stderr
    assert ended.code in (1, 2, 3), said
    assert "o space left" in said
    assert "Traceback" not in said
    assert users_own(bench) == before
    bench.run("status", "--json").ok()
    filler.unlink()
    bench.run("resume", "demo", "--json").ok()
    lanes.assert_whole(4)
    assert [lanes.shown(f"work-{n}.txt") for n in (1, 2, 3, 4)] == ["1", "2", "3", "4"]
    assert users_own(bench) == before
    assert bench.git("fsck", "--no-dangling") == ""


@pytest.mark.parametrize("blocks", [6, 10, 16])
def test_file_size_limit_in_mid_run(tmp_path: Path, blocks: int) -> None:
    """Writes that end in the middle, where nobody may mount: the journal outgrows a limit."""
    scene = Scene.made(tmp_path / "s", STORIES)
    scene.plan({"default": PLAN})
    start = Start.of(scene)
    limited = ("sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh")
    code = scene.command(*scene.run_args("branch", *CLEANUP), prefix=limited)
    honest(scene, code, "File too large", "failed")
    goes_on(scene, start)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that cannot be written to; permissions do not bind root, a mount does."""
    if os.geteuid() != 0:
        paths = [folder, *folder.rglob("*")]
        modes = {path: path.stat().st_mode for path in paths}
        for path in paths:
            path.chmod(modes[path] & 0o555)
        try:
            yield
        finally:
            for path in paths:
                path.chmod(modes[path])
        return
    if not mounted("--bind", folder, folder):
        no_mounts("a read-only folder")
    try:
        assert mounted("-o", "remount,ro,bind", folder)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_read_only_git_folder_at_the_start(tmp_path: Path) -> None:
    scene = Scene.made(tmp_path / "s", STORIES)
    start = Start.of(scene)
    with read_only(scene.repo / ".git"):
        assert scene.command("status", "--json") == 0
        code = scene.command(*scene.run_args("branch", *CLEANUP))
    assert code == 2
    honest(scene, code, "ead-only file system", "ermission denied")
    assert checks.untouched(scene, start) == []
    assert scene.calls() == []


def test_read_only_git_folder_in_mid_run(tmp_path: Path) -> None:
    scene = Scene.made(tmp_path / "s", STORIES)
    # The agent waits at this gate, in which the folder becomes read-only.
    gate = 'touch "$root/at-gate"; until [ -e "$root/gate" ]; do sleep 0.02; done\n'
    scene.plan({"default": PLAN, "1": PLAN + gate})
    start = Start.of(scene)
    live = scene.begin(*scene.run_args("branch", *CLEANUP))
    scene.wait_for(scene.root / "at-gate")
    with read_only(scene.repo / ".git"):
        (scene.root / "gate").touch()
        code = scene.end(live)
        honest(scene, code, "ead-only file system", "ermission denied")
        assert scene.command("status", "--json") == 0
        assert checks.losses(scene) == []
    goes_on(scene, start)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """The bench of the black-box tests."""
    made = Bench(tmp_path / "bench")
    yield made
    made.close()


BACKWARDS = {"PYTHONPATH": INJECTED, "FAULT_CLOCK_S": "90"}


def stamps(events: list[dict[str, object]]) -> list[datetime]:
    """When each event was written."""
    return [datetime.fromisoformat(str(event["at"])) for event in events]


def test_clock_goes_backwards_in_a_run(bench: Bench) -> None:
    bench.plan({2: [["say", "<promise>FAILED: no luck</promise>"]]})
    result = bench.loop(env=BACKWARDS).ok()
    assert stamps(result.events) == sorted(stamps(result.events))
    entries = bench.state()["iterations"]
    times = [time for entry in entries for time in (entry["started"], entry["ended"])]
    assert len(entries) == 4
    assert times == sorted(times)


def test_wait_for_a_limit_ends_with_a_clock_that_goes_backwards(bench: Bench) -> None:
    bench.install_claude()
    bench.plan({1: [["limit", 1]]})
    result = bench.run("run", "demo", "--json", env=BACKWARDS, timeout=60).ok()
    assert len(result.named("waiting")) == 1
    assert len(bench.calls()) == 4


def test_clock_set_back_between_two_runs(bench: Bench) -> None:
    bench.only_stories(1)
    bench.loop("--on-complete", "cleanup").ok()
    bench.git("checkout", "-q", "-f", "feature/x")
    yesterday = {"PYTHONPATH": INJECTED, "FAULT_CLOCK_OFF_S": "86400"}
    bench.loop("--on-complete", "keep", env=yesterday).ok()
    assert bench.branch() == "ralph/demo"
    bench.run("finish", "demo", "cleanup").ok()
    assert bench.branch() == "feature/x"


def test_clock_set_back_before_a_resume(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["sleep", 600]]})
    killed = bench.begin()
    bench.wait_call(1)
    killed.signal(signal.SIGKILL)
    killed.wait()
    yesterday = {"PYTHONPATH": INJECTED, "FAULT_CLOCK_OFF_S": "86400"}
    bench.run("resume", "demo", env=yesterday).ok()
    entries = bench.state()["iterations"]
    assert [entry["outcome"] for entry in entries] == ["interrupted", "complete"]
    assert all(entry["started"] <= entry["ended"] for entry in entries)
