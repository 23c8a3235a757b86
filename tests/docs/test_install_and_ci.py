"""Installing from a file, and the jobs of `docs/ci.md`."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.docs.pages import DOCS, ROOT
from untildone.interfaces.cli.main import cli
from untildone.settings.settings import SETTINGS

BLOCKS = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "ci.md").read_text(), re.MULTILINE | re.DOTALL)


def texts(value: Any) -> list[str]:
    """Every text in a document."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def calls(block: str) -> list[list[str]]:
    lines = [line for text in texts(yaml.safe_load(block)) for line in text.splitlines()]
    found = [re.split(r" (?:\|\||&&|[;|]) ", line)[0] for line in lines]
    return [shlex.split(line)[1:] for line in found if line.startswith("untildone ")]


def test_both_forges_have_a_job() -> None:
    github, gitlab = map(yaml.safe_load, BLOCKS)
    assert github["jobs"]["run"]["steps"]
    assert gitlab["untildone"]["script"]
    known = {setting.variable for setting in SETTINGS.values()}
    named = {word for block in BLOCKS for word in re.findall(r"^ +(UNTILDONE_\w+):", block, re.M)}
    assert named <= known


@pytest.mark.parametrize("block", BLOCKS, ids=["github", "gitlab"])
def test_commands_of_the_jobs_are_understood(block: str) -> None:
    found = calls(block)
    assert {"run", "finish"} <= {words[0] for words in found}
    for name, *words in found:
        root = click.Context(cli)
        command = cli.get_command(root, name)
        assert command, name
        given = [word.replace("$CHANGE", "demo") for word in words]
        command.make_context(name, given, parent=root)  # an unknown option is an error


@pytest.mark.full
@pytest.mark.timeout(600)
def test_wheel_and_source_archive_work_outside_the_clone(tmp_path: Path) -> None:
    """Built as a person would; needs the package index for the builder and for what is required."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

    def run(*words: str | Path) -> str:
        argv = list(map(str, words))
        done = subprocess.run(
            argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    run(sys.executable, "-m", "venv", "builder")
    run("builder/bin/pip", "install", "-q", "build")
    clean = tmp_path / "clone"
    run("git", "clone", "-q", f"file://{ROOT}", clean)
    # The source archive is made first, and the wheel from it.
    run("builder/bin/python", "-m", "build", "-o", tmp_path / "dist", clean)
    (wheel,) = (tmp_path / "dist").glob("untildone-*.whl")
    (source,) = (tmp_path / "dist").glob("untildone-*.tar.gz")
    for file, name in ((wheel, "a"), (source, "b")):
        run(sys.executable, "-m", "venv", name)
        run(f"{name}/bin/pip", "install", "-q", file)
        command = tmp_path / name / "bin" / "untildone"
        assert run(command, "--version").startswith("untildone ")
        assert "exit-codes" in run(command, "help")
        assert '"properties"' in run(command, "status", "--schema")
        assert '"properties"' in run(command, "init", "--schema")
        run(command, "demo")
