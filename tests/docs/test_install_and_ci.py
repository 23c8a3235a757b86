"""Installing from a file, and the jobs of `docs/ci.md`."""

import os
import re
import shlex
import subprocess
import sys
import tarfile
import zipfile
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


def run(folder: Path, *words: str | Path, **more: str) -> str:
    """What a command says that must succeed, with nothing that points to other Pythons or homes."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(OWN)} | more
    argv = list(map(str, words))
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel and the source archive."""
    run(ROOT, sys.executable, "-m", "hatchling", "build", "-d", folder)
    (wheel,) = folder.glob("untildone-*.whl")
    (source,) = folder.glob("untildone-*.tar.gz")
    return wheel, source


def unpacked(source: Path) -> Path:
    """The folder that is in the source archive."""
    with tarfile.open(source) as archive:
        archive.extractall(source.parent, filter="data")
    return source.with_name(source.name.removesuffix(".tar.gz"))


OWN = ("PYTHON", "XDG_", "PIPX_", "UV_TOOL", "COVERAGE", "MAKE", "ARGS")
# What a machine of the forge or an editor reads, and nothing that is tried.
NOT_IN_THE_ARCHIVE = {".ci/run", ".editorconfig", ".gitignore"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the source archive is no clone")
def test_the_source_archive_has_every_file_and_makes_the_same_wheel(tmp_path: Path) -> None:
    wheel, source = built(tmp_path)
    folder = unpacked(source)
    tracked = set(run(ROOT, "git", "ls-files").splitlines())
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert tracked - there - NOT_IN_THE_ARCHIVE == set()
    again = tmp_path / "again"
    run(folder, sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", again)
    (second,) = again.glob("*.whl")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(second) as two:
        assert {i.filename: i.CRC for i in one.infolist()} == {
            i.filename: i.CRC for i in two.infolist()
        }


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_source_archive_passes_its_tests(tmp_path: Path) -> None:
    folder = unpacked(built(tmp_path)[1])
    (folder / ".venv").symlink_to(sys.prefix)
    quick = ("make", "-o", ".venv/.dev", "quick", "ARGS=tests/docs -p no:cacheprovider")
    assert " passed" in run(folder, *quick, PYTHONPATH=str(folder / "src"))


@pytest.mark.full
@pytest.mark.timeout(600)
def test_built_files_are_installed_by_pip_pipx_and_uv(tmp_path: Path) -> None:
    """As a person would; needs the package index for what is required."""
    wheel, source = built(tmp_path)
    run(tmp_path, sys.executable, "-m", "venv", "tools")
    run(tmp_path, "tools/bin/pip", "install", "-q", "pipx", "uv")
    uv, bin_folder = tmp_path / "tools/bin/uv", tmp_path / "home/.local/bin"
    home = {"HOME": str(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    for file, name in ((wheel, "a"), (source, "b")):
        run(tmp_path, sys.executable, "-m", "venv", name)
        run(tmp_path, f"{name}/bin/pip", "install", "-q", file)
        look_at(tmp_path, tmp_path / name / "bin" / "untildone")
    run(tmp_path, uv, "tool", "install", "-q", wheel, **home)
    look_at(tmp_path, bin_folder / "untildone")
    run(tmp_path, uv, "tool", "uninstall", "-q", "untildone", **home)
    run(tmp_path, "tools/bin/pipx", "install", "-q", wheel, **home)
    look_at(tmp_path, bin_folder / "untildone")
    uvx = (uv, "tool", "run", "-q", "--from", wheel, "untildone")
    assert run(tmp_path, *uvx, "--version", **home).startswith("untildone ")


def look_at(folder: Path, command: Path) -> None:
    """What needs files of the package, and a whole run."""
    assert run(folder, command, "--version").startswith("untildone ")
    assert "exit-codes" in run(folder, command, "help")
    assert '"properties"' in run(folder, command, "status", "--schema")
    assert '"properties"' in run(folder, command, "init", "--schema")
    run(folder, command, "demo", "--fast")
