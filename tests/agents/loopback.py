"""A network namespace of its own with nothing but loopback, where the machine allows one."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


@contextlib.contextmanager
def only_loopback() -> Iterator[bool]:
    """Move this thread, and so all it starts, out of reach of any network; whether it worked.

    Namespaces are per thread: the rest of the process stays where it is.
    """
    try:
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    except OSError:
        yield False
        return
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            yield False
            return
        try:
            _loopback_up()
            yield True
        finally:
            if libc.setns(before, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "cannot go back to the network of before")
    finally:
        os.close(before)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inlet:
        asked = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack_from("16sh", fcntl.ioctl(inlet, SIOCGIFFLAGS, asked))
        fcntl.ioctl(inlet, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
