"""The example in docs/report.md has the sections, tables and words of a real report."""

import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import DOCS

HEADS = re.compile(r"^(#+ .*|\| (?:figure|story|iteration|check|what|setting) .*)$", re.MULTILINE)


def said(folder: Path, *args: str) -> str:
    """What the command prints in a folder."""
    command = [str(Path(sys.executable).parent / "untildone"), *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_example_is_what_the_demo_reports(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    assert f"cd {folder} && untildone report" in said(
        tmp_path, "demo", "--fast", "--keep", str(folder)
    )
    page = (DOCS / "report.md").read_text(encoding="utf-8")
    example = page.partition("````text\n")[2].partition("````")[0]
    assert HEADS.findall(example) == HEADS.findall(said(folder, "report"))
    stories = [row for row in example.splitlines() if row.startswith("| 4 | Greet loudly")]
    assert [row.split(" | ")[2] for row in stories] == ["verified"]
