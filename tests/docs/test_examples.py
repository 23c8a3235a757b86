"""Commands, configurations and other files that a document shows are understood by the program."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import click
import pytest

from tests.docs.pages import ROOT
from tests.docs.test_docs import FENCED, INLINE, NAMES, text_of
from untildone.adapters.stories.checklists import checklist
from untildone.interfaces.cli.main import cli
from untildone.settings.load import load

if TYPE_CHECKING:
    from pathlib import Path

# A call with all its words, up to what belongs to the shell again.
CALL = re.compile(
    r"(?:^|[$|;&(] *|\b(?:do|then|exec) )untildone +([a-z][a-z-]*)"
    r"((?:[^|&;<>)\"'\n]|\"[^\"\n]*\"|'[^'\n]*'|(?<=[a-z])\|(?=[a-z]))*)",
    re.MULTILINE,
)


def blocks(name: str, *languages: str) -> list[str]:
    return [body for _, lang, body in FENCED.findall(text_of(ROOT / name)) if lang in languages]


def mistake(command: str, words: str, *, whole: bool) -> str:
    """What is wrong with a call; in a sentence the arguments may be left out."""
    root = click.Context(cli, **cli.context_settings)  # a command keeps what it sees first
    found = cli.get_command(root, command)
    assert found, command
    if isinstance(found, click.Group):
        inner, _, rest = words.strip().partition(" ")
        below = found.get_command(root, inner)
        if below is None:
            return f"no such command: {inner}" if inner or whole else ""
        found, command, words = below, inner, rest
    try:
        found.make_context(command, shlex.split(words, comments=True), parent=root)
    except click.exceptions.Exit:
        return ""  # --help
    except click.MissingParameter as error:
        return error.format_message() if whole else ""
    except click.BadOptionUsage as error:
        return "" if not whole and words.rstrip().endswith(error.option_name) else str(error)
    except click.ClickException as error:
        return error.format_message()
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_commands_of_documents_are_understood(name: str) -> None:
    shown = [
        (call, True) for block in blocks(name, "console", "sh") for call in CALL.findall(block)
    ]
    inline = INLINE.findall(FENCED.sub("", text_of(ROOT / name)))
    told = [(call, False) for code in inline for call in CALL.findall(code)]
    wrong = {
        f"untildone {command}{words}": said
        for (command, words), whole in [*shown, *told]
        if (said := mistake(command, words, whole=whole))
    }
    assert wrong == {}


def test_a_wrong_command_would_be_noticed() -> None:
    text = "$ untildone run add-login --speed 3 && untildone stop --soon | cat\n"
    assert [bool(mistake(*call, whole=True)) for call in CALL.findall(text)] == [True, True]
    assert mistake("finish", " add-login throw", whole=True) == ""  # the command itself says no
    assert mistake("run", " --budget", whole=True)
    assert mistake("run", " --budget", whole=False) == ""


# The scripts of the scripted agent are tried where it is.
CONFIGURED = [name for name in NAMES if blocks(name, "toml") and "scripted-agent" not in name]


@pytest.mark.parametrize("name", CONFIGURED)
def test_configurations_of_documents_are_valid(name: str, tmp_path: Path) -> None:
    for block in blocks(name, "toml"):
        (tmp_path / "untildone.toml").write_text(block)
        load(tmp_path, {}, {})


def test_objects_of_documents_are_json() -> None:
    found = [block for name in NAMES for block in blocks(name, "json")]
    assert len(found) > 20
    for block in found:
        for text in block.splitlines() if re.match(r".+\}\n\{", block) else [block]:
            json.loads(text)


def test_the_plan_of_the_quick_start_is_read_as_it_says() -> None:
    (plan,) = blocks("docs/quick-start.md", "markdown")
    book = checklist.parse(plan.encode(), change="tasks", source="tasks-md", path="tasks.md")
    assert [(story.id, story.title, len(story.tasks)) for story in book.stories] == [
        ("1", "Greeting", 2),
        ("2", "Farewell", 2),
    ]
