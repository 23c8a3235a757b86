"""Installs the pinned agent programs into a cache folder: `python -m tests.agents.install NAME…`.

Runs outside of pytest, with the settings of the person who calls it (their npm and pip). What could
not be installed leaves its reason beside the cache: in CI that is a failure, elsewhere the tests of
that program are skipped and say why.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("UNTILDONE_AGENTS_CACHE") or HERE.parents[1] / ".agents").resolve()
EVERY_PUSH = ("claude", "codex", "goose", "gemini", "pi", "gh", "inspector")
PATIENCE_S = 900


@dataclass(frozen=True)
class Pin:
    """One program in one version and where its cache folder is."""

    name: str
    version: str
    program: str
    npm: str = ""
    pip: str = ""
    node: str = ""
    python: str = ""

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        return CACHE / f"{self.name}-{self.version}"

    @property
    def path(self) -> Path:
        """The program itself."""
        return self.folder / self.program

    @property
    def stamp(self) -> Path:
        """Stands when the installation is whole."""
        return self.folder / ".whole"

    @property
    def reason(self) -> Path:
        """Holds why the last installation failed."""
        return CACHE / f"{self.name}-{self.version}.failed"

    def missing(self) -> str:
        """Why it cannot be used, or nothing."""
        if self.stamp.exists():
            return ""
        with contextlib.suppress(OSError):
            return f"{self.name} {self.version} could not be installed: {self.reason.read_text()}"
        return f"{self.name} {self.version} is not installed: `make agents AGENTS={self.name}` does"


def pins() -> dict[str, Pin]:
    """All programs by name."""
    table = tomllib.loads((HERE / "pins.toml").read_text(encoding="utf-8"))
    return {name: Pin(name, **fields) for name, fields in table.items()}


def install(pin: Pin) -> str:
    """Make sure that the program is there; why not, or nothing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with _alone(pin):
        if pin.stamp.exists():
            return ""
        shutil.rmtree(pin.folder, ignore_errors=True)
        pin.reason.unlink(missing_ok=True)
        pin.folder.mkdir()
        began = time.monotonic()
        _say(f"{pin.name} {pin.version}: installing")
        try:
            for call in _calls(pin):
                _run(call)
            version = _run([str(pin.path), "--version"], _path_with(pin)).strip()
        except (OSError, subprocess.SubprocessError) as error:
            why = _told(error)
            pin.reason.write_text(why)
            _say(f"{pin.name} {pin.version}: FAILED: {why}")
            return why
        pin.stamp.touch()
        _say(f"{pin.name} {pin.version}: {time.monotonic() - began:.0f} s, says {version[:60]!r}")
        return ""


def _calls(pin: Pin) -> Iterator[list[str]]:
    if pin.npm:
        wanted = [f"{pin.npm}@{pin.version}", *([f"node@{pin.node}"] if pin.node else [])]
        quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        yield ["npm", "install", "--prefix", str(pin.folder), *quiet, *wanted]
    else:
        wanted = [f"{pin.pip}=={pin.version}"]
        python = str(pin.folder / "bin" / "python")
        base = interpreter(pin.python)
        if shutil.which("uv"):
            yield ["uv", "venv", "--quiet", "--python", base, str(pin.folder)]
            yield ["uv", "pip", "install", "--quiet", "--python", python, *wanted]
        else:
            yield [base, "-m", "venv", str(pin.folder)]
            yield [python, "-m", "pip", "install", "-qq", *wanted]


def interpreter(oldest: str) -> str:
    """A Python of at least this version: our own, one on PATH, one that pyenv keeps."""
    on_path = filter(None, map(shutil.which, ("python3", *(f"python3.{n}" for n in range(12, 20)))))
    kept = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    for python in (sys.executable, *on_path, *sorted(map(str, kept.glob("*/bin/python3")))):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            _run([python, "-c", f"import sys; sys.exit(sys.version_info < {_numbers(oldest)})"])
            return python
    raise FileNotFoundError(f"it needs Python {oldest} or newer, and none was found")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, filter(None, version.split("."))))


def _path_with(pin: Pin) -> dict[str, str]:
    own = pin.folder / "node_modules" / ".bin"
    return {**os.environ, "PATH": f"{own}{os.pathsep}{os.environ['PATH']}"}


def _run(call: list[str], env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        call,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout or done.stderr


def _told(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said = " ".join(f"{error.stdout}\n{error.stderr}".split())
        return f"{error.cmd[0]} exited with {error.returncode}: {said[-400:]}"
    return str(error)


@contextlib.contextmanager
def _alone(pin: Pin) -> Iterator[None]:
    """Two installers at once would step on each other."""
    with (CACHE / f".{pin.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(names: list[str]) -> int:
    """Install the named programs, or those of every push; a failure counts in CI only."""
    known = pins()
    wanted = list(known) if names == ["all"] else names or list(EVERY_PUSH)
    if unknown := [name for name in wanted if name not in known]:
        _say(f"error: not in pins.toml: {', '.join(unknown)} (known: {', '.join(known)}, all)")
        return 2
    with ThreadPoolExecutor(3) as pool:
        failed = [why for why in pool.map(install, [known[name] for name in wanted]) if why]
    return 1 if failed and os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
