"""`make docs`: the site is built without a network, and every link in it leads somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from tests.docs.pages import DOCS, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:|//")
# What a browser loads by itself, in which attribute.
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The anchors of a built page, its links, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if found.get(LOADED.get(tag, "")):
            self.loaded.append(found[LOADED[tag]])


def pages_of(nav: list[Any]) -> Iterator[str]:
    """The files of a table of contents."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values():
                yield from pages_of(inner if isinstance(inner, list) else [inner])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built in a copy by the recipe of the Makefile."""
    clone = tmp_path_factory.mktemp("clone")
    shutil.copytree(DOCS, clone / "docs")
    for name in ("Makefile", "zensical.toml"):
        shutil.copy(ROOT / name, clone / name)
    (clone / ".venv").symlink_to(sys.prefix)
    # Where somebody asks for anything outside, nobody answers.
    nobody = {f"{kind}_proxy": "http://127.0.0.1:9" for kind in ("http", "https", "all")}
    # The options of a `make` around the tests are not for this one.
    around = ("MAKE", "ARGS")
    usual = {name: value for name, value in os.environ.items() if not name.startswith(around)}
    built = subprocess.run(
        ["make", "-s", "-o", ".venv/.dev", "docs"],
        cwd=clone,
        env=usual | nobody | {name.upper(): value for name, value in nobody.items()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return clone / "build" / "docs"


def test_every_page_is_in_the_table_of_contents_once() -> None:
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    listed = sorted(pages_of(config["project"]["nav"]))
    assert listed == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")} == {
        path.relative_to(site).with_suffix("") for path in pages
    }
    broken = []
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            if OUTSIDE.match(link):
                continue
            place, _, anchor = unquote(link).partition("#")
            target = (path.parent / place).resolve() if place else path
            if target.is_dir():
                target /= "index.html"
            known = pages[target].anchors | {"__top"} if target in pages else set()
            if not target.is_file() or (anchor and anchor not in known):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded = {link for path in site.rglob("*.html") for link in Page(path).loaded}
    assert loaded
    assert [link for link in loaded if OUTSIDE.match(link)] == []
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert [re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", text) for text in styles] == [
        [] for _ in styles
    ]
    # The script of the theme fetches a program for each of these, if a page has one.
    text = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.html"))
    assert not re.search(r'class="[^"]*\b(?:mermaid|glightbox|pyodide)\b', text)
