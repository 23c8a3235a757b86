"""Folders that many tests start with are made once for each process and then copied."""

import atexit
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path


def copy_of(fill: Callable[[Path], None], target: Path) -> None:
    """A new folder as `fill` fills it. Git takes copied files for changed until it is asked."""
    subprocess.run(["cp", "-Rp", str(_filled(fill)), str(target)], check=True)


@functools.cache
def _filled(fill: Callable[[Path], None]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    fill(folder)
    for sample in folder.glob("**/.git/hooks/*.sample"):
        sample.unlink()
    return folder
