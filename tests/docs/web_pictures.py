"""The pictures of `docs/serve.md`: pages of a real run with two lanes, in Debian's Chromium.

`python -m tests.docs.web_pictures` makes them again.
"""

import contextlib
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.e2e.bench import new_bench
from tests.e2e.change import TASKS
from tests.e2e.test_lanes import Lanes
from tests.web.conftest import CHROMIUM, FLAGS
from tests.web.site import Site

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TITLES = (
    *("Parse the plan", "Checkpoint commits", "Retry with the reason", "State file and schema"),
    *("Web dashboard", "Flaky network test", "Docs for the night"),
)
QUESTION = "Should the board list the newest run first, or the live ones?"
SIZES = {"serve.png": (1280, 1000), "serve-phone.png": (390, 844)}


def work(n: int, seconds: float) -> str:
    """What a story's agent does."""
    return (
        f"echo 'Reading src/m{n}.py and its tests'; sleep {seconds}; mkdir -p src; "
        f"printf 'def m{n}(x):\\n    return x * {n}\\n' > src/m{n}.py; "
        f"echo 'Wrote src/m{n}.py, 14 tests pass'"
    )


SCRIPTS = {
    "1": work(1, 1),
    "2-1": "sleep 1.2; echo '<promise>FAILED: the fixture tests/data is missing</promise>'; exit 0",
    "2": work(2, 1),
    "3": work(3, 2),
    "4": work(4, 1.2),
    "5": f"sleep 1; echo '<promise>ASK: {QUESTION}</promise>'; exit 0",
    "6": "echo 'Running the network test again'; sleep 600",
    "7": f"echo 'Reading docs'; sleep 600; {work(7, 1)}",
}


def main() -> None:
    """Run, look, write."""
    with contextlib.closing(new_bench()) as bench:
        lanes = Lanes(bench, 1)
        rows = (
            f"\n## {n}. {title}\n\nTouches: src/m{n}.py\n\n- [ ] {n}.1 Write it\n"
            for n, title in enumerate(TITLES, 1)
        )
        bench.write(TASKS, "# Tasks\n" + "".join(rows))
        bench.commit("Seven stories")
        for name, script in SCRIPTS.items():
            (bench.root / f"story-{name}").write_text(f"{script}\n")
        live = lanes.begin(2, "--verify", "test -d src && sleep 0.3", "--budget", "time=2h")
        live.wait_event("iteration_started", story_id="7")
        time.sleep(3)
        site = Site(bench, "--control")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            for name, (width, height) in SIZES.items():
                page = browser.new_page(viewport={"width": width, "height": height})
                page.goto(site.link)
                page.click(".run a")
                page.wait_for_selector("#link:text('live')")
                page.wait_for_timeout(1500)
                page.screenshot(path=IMAGES / name)
            browser.close()


if __name__ == "__main__":
    main()
