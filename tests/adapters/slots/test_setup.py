"""What makes a slot a place to work in: set-up, ignored folders, ports, memory."""

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from tests.adapters.slots.lanes import Lanes, files, shell
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.slots.lane_environment import (
    PORTS,
    free_memory,
    free_ports,
    has_room,
)
from untildone.adapters.slots.setup import (
    SetUp,
    SetUps,
    copy_folder,
    copy_included,
    found_setups,
    included_files,
    reflink,
    set_up_of,
)
from untildone.domain.errors import Interrupted, StepError
from untildone.domain.run.lanes import LANE_MEMORY

INSTALL = SetUp("lane_setup", ("mkdir -p node_modules; echo run >> node_modules/log",))


def runs(top: Path) -> int:
    return len((top / "node_modules" / "log").read_text().splitlines())


def test_set_up_runs_once_per_slot_and_again_when_a_key_file_changes(lanes: Lanes) -> None:
    lanes.repo.write("package-lock.json", "{}\n")
    lanes.repo.sh("add", "-A")
    lanes.repo.sh("commit", "-q", "-m", "lock")
    prepared = lanes.prepare()
    assert lanes.slots.set_up(prepared, INSTALL, {})
    assert not lanes.slots.set_up(prepared, INSTALL, {})
    lanes.restart()
    prepared = lanes.prepare()
    assert not lanes.slots.set_up(prepared, INSTALL, {})
    assert runs(prepared.slot.top) == 1

    lanes.repo.write("package-lock.json", "{2}\n")
    lanes.repo.sh("commit", "-q", "-am", "lock")
    prepared = lanes.prepare()
    assert lanes.slots.set_up(prepared, INSTALL, {})
    assert runs(prepared.slot.top) == 2
    other = SetUp("lane_setup", ("echo other >> node_modules/log",))
    assert lanes.slots.set_up(prepared, other, {})


def test_what_a_set_up_makes_is_no_work_of_a_story(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    script = "mkdir node_modules; echo m > node_modules/m; echo edited >> a.txt; echo log > npm.log"
    lanes.slots.set_up(prepared, SetUp("x", (script,)), {})
    assert files(prepared.slot.top).keys() - files(lanes.repo.top).keys() == {"node_modules/m"}
    lanes.attempt(prepared, "echo '!node_modules/' >> .gitignore; echo 1 > one")
    assert lanes.repo.tree(lanes.save(prepared)).keys() == {
        ".gitignore",
        "a.txt",
        "one",
        "src/b.txt",
    }


def test_a_failed_set_up_says_why_and_is_tried_again(lanes: Lanes) -> None:
    prepared = lanes.prepare()
    failing = SetUp("conductor.json", ("true", "echo no network >&2; exit 3", "touch never"))
    with pytest.raises(StepError, match="no network"):
        lanes.slots.set_up(prepared, failing, {})
    with pytest.raises(StepError, match="no network") as failed:
        lanes.slots.set_up(prepared, failing, {})
    assert "conductor.json" in failed.value.message
    assert str(prepared.slot.top) in failed.value.state
    assert not (prepared.slot.top / "never").exists()


def test_a_stop_request_ends_a_set_up(processes: Processes, wake: WakePipe, tmp_path: Path) -> None:
    wake.set()
    with pytest.raises(Interrupted):
        SetUps(processes, lambda: True).run(SetUp("x", ("sleep 60",)), tmp_path, os.environ)


def test_a_set_up_knows_where_the_users_files_are(lanes: Lanes) -> None:
    lanes.repo.write(".env", "secret\n")
    prepared = lanes.prepare()
    variables = lanes.slots.environment(prepared.slot)
    command = 'cp "$CONDUCTOR_ROOT_PATH/.env" .env; mkdir node_modules; env > node_modules/env'
    lanes.slots.set_up(prepared, SetUp("conductor.json", (command,)), variables)
    assert (prepared.slot.top / ".env").read_text() == "secret\n"
    said = (prepared.slot.top / "node_modules/env").read_text().splitlines()
    for name, value in variables.items():
        assert f"{name}={value}" in said
    assert f"CODEX_WORKTREE_PATH={prepared.slot.top}" in said


FOUND = {
    ".cursor/worktrees.json": ('{"setup-worktree": ["npm ci", "cp a b"]}', ("npm ci", "cp a b")),
    ".codex/environments/environment.toml": (
        'version = 1\n[setup]\nscript = """\nnpm ci\nnpm run build\n"""\n',
        ("npm ci\nnpm run build",),
    ),
    "conductor.json": ('{"scripts": {"setup": "./setup.sh", "run": "x"}}', ("./setup.sh",)),
    "paseo.json": ('{"worktree": {"setup": ["npm ci"]}}', ("npm ci",)),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_a_project_has_for_other_tools_is_found_and_not_run(tmp_path: Path, name: str) -> None:
    text, commands = FOUND[name]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    assert found_setups(tmp_path) == (SetUp(name, commands),)
    for broken in ("{", "[]", '{"scripts": 1, "worktree": [], "setup-worktree": {}}', "= ="):
        (tmp_path / name).write_text(broken)
        assert found_setups(tmp_path) == ()


def test_cursors_commands_for_unix_come_first(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    both = {"setup-worktree": ["any"], "setup-worktree-unix": "./unix.sh"}
    (tmp_path / ".cursor/worktrees.json").write_text(json.dumps(both))
    assert found_setups(tmp_path)[0].commands == ("./unix.sh",)


def test_ignored_files_that_the_project_names_are_copied(lanes: Lanes) -> None:
    repo = lanes.repo
    repo.write(".worktreeinclude", ".env\n*.key\na.txt\n")
    repo.write(".env", "secret\n")
    repo.write("node_modules/x.key", "key\n")
    repo.write("untracked.key", "not ignored\n")
    found = included_files(repo.git(), repo.top)
    assert found == (".env", "node_modules/x.key")
    top = lanes.prepare().slot.top
    assert copy_included(repo.top, found, top) == found
    assert (top / ".env").read_text() == "secret\n"
    assert not (top / ".env").is_symlink()
    (top / ".env").write_text("the lane's own\n")
    assert copy_included(repo.top, found, top) == ()
    assert repo.top.joinpath(".env").read_text() == "secret\n"


def test_a_slot_gets_what_was_asked_for_and_nothing_without_a_word(lanes: Lanes) -> None:
    repo = lanes.repo
    repo.write(".worktreeinclude", ".env\n")
    repo.write(".env", "secret\n")
    repo.write("web/node_modules/m.js", "m\n")
    repo.write("build/out", "not ignored\n")
    nothing = set_up_of(repo.git(), repo.top, "")
    ready = lanes.slots.ready(0, "demo", "r1", lanes.head, nothing)
    assert files(ready.prepared.slot.top) == lanes_files(lanes)
    assert ready.variables["UNTILDONE_LANE"] == "0"

    command = set_up_of(repo.git(), repo.top, "cat .env > node_modules; echo edited > a.txt")
    assert (command.files, command.folders) == ((".env",), ())
    top = lanes.slots.ready(0, "demo", "r1", lanes.head, command).prepared.slot.top
    assert (top / ".env").read_text() == "secret\n"
    assert (top / "a.txt").read_text() == "a\n"

    auto = set_up_of(repo.git(), repo.top, "auto")
    assert (auto.commands, auto.folders) == ((), ("web/node_modules",))
    prepared = lanes.slots.ready(1, "demo", "r1", lanes.head, auto).prepared
    assert (prepared.slot.top / ".env").read_text() == "secret\n"
    # The files of a set-up are ignored ones, whatever a story makes of the rules.
    lanes.attempt(prepared, "echo > .gitignore; echo 1 > one")
    assert ".env" not in repo.tree(lanes.save(prepared))


def lanes_files(lanes: Lanes) -> dict[str, bytes]:
    return {
        name: lanes.file("HEAD", name).encode() + b"\n"
        for name in (".gitignore", "a.txt", "src/b.txt")
    }


def test_several_commands_stop_at_the_first_that_fails(lanes: Lanes) -> None:
    assert SetUp("x", ("npm ci",)).script == "npm ci"
    script = SetUp("x", ("exit 7", "touch never")).script
    with pytest.raises(StepError, match="exit code 7"):
        lanes.slots.set_up(lanes.prepare(), SetUp("x", (script,)), {})


def test_a_disk_that_cannot_share_blocks_gets_no_copy(tmp_path: Path) -> None:
    shell(tmp_path, "mkdir -p a/node_modules b; echo x > a/node_modules/x")
    try:
        reflink(str(tmp_path / "a/node_modules/x"), str(tmp_path / "probe"))
        can = True
    except OSError:
        can = False
    made = copy_folder(tmp_path / "a/node_modules", tmp_path / "b/node_modules")
    assert made is can is (tmp_path / "b/node_modules/x").exists()
    assert [p.name for p in (tmp_path / "b").iterdir()] == (["node_modules"] if can else [])


def copies(source: str, target: str) -> None:
    shutil.copy2(source, target)


def test_a_folder_is_copied_as_a_whole_with_links_as_links(tmp_path: Path) -> None:
    shell(
        tmp_path,
        "mkdir -p a/nm/.bin a/nm/x b; echo x > a/nm/x/run; chmod +x a/nm/x/run; "
        "ln -s ../x/run a/nm/.bin/run",
    )
    assert copy_folder(tmp_path / "a/nm", tmp_path / "b/nm", copies)
    assert (tmp_path / "b/nm/.bin/run").readlink() == Path("../x/run")
    assert (tmp_path / "b/nm/x/run").stat().st_mode & 0o100
    assert not copy_folder(tmp_path / "a/nm", tmp_path / "b/nm", copies)


def test_a_copy_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    shell(tmp_path, "mkdir -p a/nm b; echo 1 > a/nm/1; echo 2 > a/nm/2; echo 3 > a/nm/3")
    done: list[str] = []

    def breaks(source: str, target: str) -> None:
        done.append(source)
        if len(done) > 2:
            raise OSError(28, "No space left on device")
        shutil.copy2(source, target)

    assert not copy_folder(tmp_path / "a/nm", tmp_path / "b/nm", breaks)
    assert list((tmp_path / "b").iterdir()) == []


@pytest.mark.parametrize("folder", [".venv", "envs/py311"])
def test_a_python_environment_is_never_copied(tmp_path: Path, folder: str) -> None:
    """Its programs name their first folder: an install in the lane would change the user's."""
    (tmp_path / "a" / folder).mkdir(parents=True)
    (tmp_path / "a" / folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    name = folder.partition("/")[0]
    (tmp_path / "b").mkdir()
    assert not copy_folder(tmp_path / "a" / name, tmp_path / "b" / name, copies)


def test_every_lane_has_ports_and_folders_of_its_own(lanes: Lanes) -> None:
    one, two = lanes.prepare(0), lanes.prepare(1)
    first, second = (lanes.slots.environment(p.slot) for p in (one, two))
    assert (first["UNTILDONE_LANE"], second["UNTILDONE_LANE"]) == ("0", "1")
    ports = [range(int(e["PORT"]), int(e["PORT"]) + PORTS) for e in (first, second)]
    assert not set(ports[0]) & set(ports[1])
    assert first["UNTILDONE_PORTS"] == f"{ports[0][0]}-{ports[0][-1]}"
    for name in ("COMPOSE_PROJECT_NAME", "TMPDIR"):
        assert first[name] != second[name]
    assert first["COMPOSE_PROJECT_NAME"].islower()
    assert os.stat(first["TMPDIR"]).st_mode & 0o777 == 0o700
    Path(first["TMPDIR"], "left").touch()
    lanes.restart()
    again = lanes.prepare(0)
    assert lanes.slots.environment(again.slot) == first
    assert os.listdir(first["TMPDIR"]) == []


def test_a_port_in_use_moves_the_block() -> None:
    first = free_ports(0, ())
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", first + 7))
        busy.listen()
        assert free_ports(first, ()) != first
    assert free_ports(first, ()) == first
    assert free_ports(first, [first]) != first


def test_no_lane_starts_below_two_gigabytes(tmp_path: Path) -> None:
    assert has_room(free_memory(tmp_path))
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   3145728 kB\n")
    assert free_memory(tmp_path) == 3 * 1024**3
    assert has_room(free_memory(tmp_path))
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("5\n")
    assert free_memory(tmp_path) == 3 * 1024**3
    (group / "memory.max").write_text(f"{LANE_MEMORY}\n")
    assert free_memory(tmp_path) == LANE_MEMORY - 5
    assert not has_room(free_memory(tmp_path))
