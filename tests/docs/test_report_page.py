"""The example in docs/report.md has the sections, tables and words of a real report."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.docs.pages import DOCS
from untildone.interfaces.cli.main import cli

HEADS = re.compile(r"^(#+ .*|\| (?:figure|story|iteration|check|what|setting) .*)$", re.MULTILINE)


def test_the_example_is_what_the_demo_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "demo"
    played = CliRunner().invoke(cli, ["demo", "--fast", "--keep", str(folder)])
    assert f"cd {folder} && untildone report" in played.output
    monkeypatch.chdir(folder)
    said = CliRunner().invoke(cli, ["report"]).output
    page = (DOCS / "report.md").read_text(encoding="utf-8")
    example = page.partition("````text\n")[2].partition("````")[0]
    assert HEADS.findall(example) == HEADS.findall(said)
    stories = [row for row in example.splitlines() if row.startswith("| 4 | Greet loudly")]
    assert [row.split(" | ")[2] for row in stories] == ["verified"]
