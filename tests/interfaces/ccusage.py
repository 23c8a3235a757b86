"""The real ccusage, in one version, to compare with: installed once into the cache of agents."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

VERSION = "20.0.24"
HERE = Path(__file__).parents[2]
CACHE = Path(os.environ.get("UNTILDONE_AGENTS_CACHE") or HERE / ".agents").resolve()
FOLDER = CACHE / f"ccusage-{VERSION}"
PROGRAM = FOLDER / "node_modules" / ".bin" / "ccusage"
# As it is before a test takes the person's home away: npm's settings may be there.
ENVIRONMENT = dict(os.environ)
QUIET = ("--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error", "--fetch-retries=1")
PATIENCE_S = 100


def missing() -> str:
    """Why it cannot be used, or nothing; installs it if it is not there."""
    if not shutil.which("npm"):
        return "ccusage needs npm"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".ccusage.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (FOLDER / ".whole").exists():
            return ""
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir()
        try:
            _call("npm", "install", "--prefix", str(FOLDER), *QUIET, f"ccusage@{VERSION}")
            _call(str(PROGRAM), "--version")
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", "") or str(error)
            return f"ccusage {VERSION} could not be installed: {' '.join(str(said).split())[:200]}"
        (FOLDER / ".whole").touch()
    return ""


def ask(*words: str) -> Any:
    """What it says as JSON, by the prices that it brings along."""
    call = [str(PROGRAM), *words, "--json", "--offline"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def _call(*words: str) -> None:
    subprocess.run(
        words, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
