"""Two hosts in network namespaces, with git over the wire; one is cut off and healed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.waiting import until
from tests.fleet.scene import PATIENCE, Fleet, needs_temporal

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.e2e, needs_temporal]
NET = "10.213.77"


def ip(*words: str, ok: bool = True) -> bool:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert not ok or done.returncode == 0, (words, done.stderr)
    return done.returncode == 0


def _may() -> bool:
    if os.geteuid() != 0 or not shutil.which("ip"):
        return False
    name = f"untry{os.getpid()}"
    made = ip("netns", "add", name, ok=False)
    ip("netns", "del", name, ok=False)
    return made


class Hosts:
    """A bridge with the server and the repositories, and two hosts that only reach it by wire."""

    def __init__(self) -> None:
        self.mark = f"u{os.getpid() % 10000}"
        self.bridge = f"{self.mark}br"
        self.names = [f"{self.mark}h{n}" for n in (1, 2)]
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"{NET}.1/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        for n, name in enumerate(self.names, 2):
            ip("netns", "add", name)
            ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b")
            ip("link", "set", f"{name}a", "master", self.bridge, "up")
            ip("link", "set", f"{name}b", "netns", name)
            inside = ("-n", name)
            ip(*inside, "addr", "add", f"{NET}.{n}/24", "dev", f"{name}b")
            ip(*inside, "link", "set", f"{name}b", "up")
            ip(*inside, "link", "set", "lo", "up")

    def wire(self, n: int, *, up: bool) -> None:
        ip("link", "set", f"{self.names[n]}a", "up" if up else "down")

    def close(self) -> None:
        for name in self.names:
            ip("netns", "del", name, ok=False)
        ip("link", "del", self.bridge, ok=False)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.skipif(not _may(), reason="network namespaces need root and iproute2")
@pytest.mark.parametrize("count", [2, pytest.param(12, marks=pytest.mark.full)])
def test_a_host_that_is_cut_off_ends_its_agents_and_another_takes_over(
    hosts: Hosts, count: int
) -> None:
    changes = [f"c{n}" for n in range(count)]
    fleet = Fleet()
    daemon: subprocess.Popen[bytes] | None = None
    try:
        fleet.server = fleet.ask("up", "--port", "0", "--host", "0.0.0.0")  # noqa: S104
        port = fleet.server["address"].rpartition(":")[2]
        remote = fleet.repository("app", dict.fromkeys(changes, ("One", "Two")))
        words = [
            "git",
            "daemon",
            "--reuseaddr",
            f"--listen={NET}.1",
            "--port=19418",
            "--export-all",
        ]
        words += ["--enable=receive-pack", f"--base-path={fleet.root}"]
        daemon = subprocess.Popen(words, env=fleet.env(), start_new_session=True)
        fleet.script("any", "sleep 30")
        wire = f"git://{NET}.1:19418/app.git"
        fleet.submit(wire, *changes)
        cut = ("ip", "netns", "exec", hosts.names[0])
        whole = ("ip", "netns", "exec", hosts.names[1])
        server = {"UNTILDONE_FLEET_ADDRESS": f"{NET}.1:{port}"}
        fleet.worker(2, prefix=cut, XDG_CACHE_HOME=str(fleet.root / "cache-0"), **server)
        fleet.wait_effects(2)
        first = {pid for _, _, pid in fleet.started()}
        hosts.wire(0, up=False)
        begun = time.monotonic()
        fleet.script("any", "sleep 0.3")
        fleet.worker(2, prefix=whole, XDG_CACHE_HOME=str(fleet.root / "cache-1"), **server)
        fleet.wait_effects(3)  # taken over
        taken = time.monotonic() - begun
        until(lambda: not first & set(fleet.agents_alive()), PATIENCE, "agents that are cut off")
        gone = time.monotonic() - begun
        fleet.wait_done(remote, changes, 2)
        hosts.wire(0, up=True)
        time.sleep(2)
        fleet.checked(remote, changes, 2, repeats=4)
        print({"taken over after s": round(taken, 1), "agents there gone after s": round(gone, 1)})
        assert gone < 30
    finally:
        fleet.close()
        if daemon is not None:
            daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(5)
