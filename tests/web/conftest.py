"""Fixtures of the tests that look at pages."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import bench
from tests.web.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

    from tests.e2e.bench import Bench

__all__ = ["bench"]

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]


@pytest.fixture
def serve(bench: Bench) -> Iterator[Callable[..., Site]]:
    """Start servers of pages for the bench."""
    sites: list[Site] = []

    def start(*flags: str, **options: dict[str, str | None] | None) -> Site:
        sites.append(Site(bench, *flags, **options))
        return sites[-1]

    yield start
    for site in sites:
        site.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A real browser; without one its tests are skipped, but not in CI."""
    if not shutil.which(CHROMIUM) and os.environ.get("CI") != "true":
        pytest.skip("chromium is not installed: `make packages` installs it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
