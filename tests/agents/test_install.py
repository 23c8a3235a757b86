"""The installer of the agent programs, with a stand-in for npm."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.install import EVERY_PUSH, interpreter, pins
from tests.agents.programs import PROGRAMS

ROOT = Path(__file__).parents[2]
NPM = """#!/bin/sh
echo "$@" >> {log}
mkdir -p "$3/node_modules/.bin"
printf '#!/bin/sh\\necho 0.87.1\\n' > "$3/node_modules/.bin/pi"
chmod +x "$3/node_modules/.bin/pi"
"""


class Installer:
    """The installer as a program, with its own cache and its own npm."""

    def __init__(self, folder: Path, npm: str) -> None:
        self.cache, self.log = folder / "cache", folder / "log"
        path = folder / "bin" / "npm"
        path.parent.mkdir()
        path.write_text(npm.replace("{log}", str(self.log)))
        path.chmod(0o755)
        self._env = {
            **os.environ,
            "PATH": f"{path.parent}:{os.environ['PATH']}",
            "UNTILDONE_AGENTS_CACHE": str(self.cache),
        }

    def run(self, *names: str, ci: str = "") -> tuple[int, str]:
        call = [sys.executable, "-m", "tests.agents.install", *names]
        env = self._env | {"CI": ci}
        done = subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr


def test_a_program_is_installed_once(tmp_path: Path) -> None:
    installer = Installer(tmp_path, NPM)
    code, said = installer.run("pi")
    assert (code, "says '0.87.1'" in said) == (0, True)
    assert installer.run("pi") == (0, "")
    asked = installer.log.read_text().splitlines()
    assert len(asked) == 1
    assert "@earendil-works/pi-coding-agent@0.87.1" in asked[0].split()
    assert "--no-package-lock" in asked[0].split()
    assert (installer.cache / "pi-0.87.1" / ".whole").exists()


def test_what_cannot_be_installed_is_a_failure_in_ci_only(tmp_path: Path) -> None:
    installer = Installer(tmp_path, "#!/bin/sh\necho no network >&2\nexit 7\n")
    code, said = installer.run("pi")
    assert (code, "npm exited with 7: no network" in said) == (0, True)
    assert installer.run("pi", ci="true")[0] == 1
    kept = (installer.cache / "pi-0.87.1.failed").read_text()
    assert kept == "npm exited with 7: no network"


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    code, said = Installer(tmp_path, NPM).run("pie")
    assert (code, "pie" in said, "claude" in said) == (2, True, True)


def test_a_python_that_is_new_enough_is_looked_for() -> None:
    assert interpreter("3.11") == interpreter("") == sys.executable
    with pytest.raises(FileNotFoundError, match="needs Python 99"):
        interpreter("99.0")


def test_every_pin_is_exact_and_has_a_row() -> None:
    assert {name: pin.version for name, pin in pins().items() if not exact(pin.version)} == {}
    assert set(pins()) == {*PROGRAMS, "gh", "inspector"} >= set(EVERY_PUSH)


def exact(version: str) -> bool:
    return re.fullmatch(r"\d+\.\d+\.\d+", version) is not None
