"""What some tests need of the machine; in CI a missing thing is a failure, not a skip."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def _bwrap_works() -> bool:
    call = ["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "true"]
    return bool(shutil.which("bwrap")) and subprocess.run(call, check=False).returncode == 0


needs_bwrap = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not _bwrap_works(),
    reason="bubblewrap is not installed or cannot work here: `make packages` installs it",
)
needs_npm = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not shutil.which("npm"), reason="npm is not installed"
)
