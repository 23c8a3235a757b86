"""Fakes of `gh` and `glab` that keep one pull request in a file and record every call.

`gh` answers as release 2.23 does. `glab` follows its manual pages (1.36 to 1.49): there is no real
one in the tests.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench

PROGRAM = """\
#!{python}
import json, pathlib, sys
root, words = pathlib.Path({root!r}), sys.argv[1:]
with open(root / "forge-calls", "a") as file:
    file.write(json.dumps([pathlib.Path(sys.argv[0]).name, *words]) + "\\n")
broken = root / "forge-broken"
if broken.exists():
    verb, _, said = broken.read_text().partition(" ")
    if words[1] == verb:
        sys.exit(said)
path = root / "forge-pr.json"
pr = json.loads(path.read_text()) if path.exists() else None
def value(*names):
    return next((words[words.index(n) + 1] for n in names if n in words), None)
def text():
    file = value("--body-file")
    return pathlib.Path(file).read_text() if file else value("--description")
verb = words[1]
if verb == "list":
    rows = [pr] if pr and pr["head"] == value("--head", "--source-branch") else []
    names = {{"number": "iid", "url": "web_url", "isDraft": "draft"}}
    names["baseRefName"] = "target_branch"
    gitlab = words[0] == "mr"
    print(json.dumps([{{names.get(k, k) if gitlab else k: v for k, v in r.items()}} for r in rows]))
    sys.exit()
if verb == "create":
    base = value("--base", "--target-branch")
    pr = {{"number": 7, "url": {url!r}, "isDraft": "--draft" in words, "baseRefName": base,
          "head": value("--head", "--source-branch"), "title": value("--title"), "body": text()}}
    print("Creating it\\n" + pr["url"])
elif verb in ("edit", "update"):
    pr["body"] = text() or pr["body"]
    pr["baseRefName"] = value("--base", "--target-branch") or pr["baseRefName"]
    pr["isDraft"] = "--draft" in words or (pr["isDraft"] and "--ready" not in words)
elif verb == "ready":
    pr["isDraft"] = "--undo" in words
path.write_text(json.dumps(pr))
"""
URLS = {
    "gh": "https://github.example/ada/repo/pull/7",
    "glab": "https://gitlab.example/ada/repo/-/merge_requests/7",
}


class FakeForge:
    """One of the two programs on PATH, and what it was told."""

    def __init__(self, bench: Bench, name: str = "gh") -> None:
        self._root = bench.root
        text = PROGRAM.format(python=sys.executable, root=str(bench.root), url=URLS[name])
        self.path: Path = bench.program(name, text)
        self.url = URLS[name]

    @property
    def calls(self) -> list[list[str]]:
        path = self._root / "forge-calls"
        return [json.loads(row) for row in path.read_text().splitlines()] if path.exists() else []

    @property
    def verbs(self) -> list[str]:
        return [call[2] for call in self.calls]

    @property
    def pr(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self._root / "forge-pr.json").read_text())
        return value

    def breaks(self, verb: str, said: str) -> None:
        """From now on this call fails with these words."""
        (self._root / "forge-broken").write_text(f"{verb} {said}")

    def mends(self) -> None:
        (self._root / "forge-broken").unlink()
