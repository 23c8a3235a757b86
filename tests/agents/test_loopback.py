"""The network of the agents' tests is loopback and nothing else."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from tests.agents.loopback import only_loopback
from tests.modelserver.script import Script
from tests.modelserver.server import ModelServer

ELSEWHERE = ("192.0.2.1", 80)


def test_nothing_but_loopback_is_in_reach() -> None:
    with only_loopback() as works:
        if not works:
            assert os.geteuid() != 0 or os.environ.get("CI") != "true"
            pytest.skip("this machine allows no network namespace")
        with ModelServer(Script()) as server:
            host, _, port = server.url.removeprefix("http://").partition(":")
            socket.create_connection((host, int(port)), 5).close()
        with socket.socket() as outlet:
            assert outlet.connect_ex(ELSEWHERE) == errno.ENETUNREACH


def test_the_network_of_before_is_back() -> None:
    before = os.readlink("/proc/thread-self/ns/net")
    with only_loopback() as works:
        assert (os.readlink("/proc/thread-self/ns/net") != before) is works
    assert os.readlink("/proc/thread-self/ns/net") == before
