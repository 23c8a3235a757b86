"""The pages in a real browser: live, on a phone, without JavaScript, with hostile texts."""

from __future__ import annotations

import json
import signal
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import fails
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.test_lanes import WORK, Lanes
from tests.e2e.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

    from tests.e2e.bench import Bench
    from tests.web.site import Site

PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 900}
ASKS = [["say", "<promise>ASK: blue or green?</promise>"]]
# Counts what a page was kept from, and who had an alert.
WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective));
"""
MEASURE = """() => {
  window.delays = [];
  window.done = 0;
  const options = { childList: true, subtree: true, characterData: true };
  new MutationObserver((all) => {
    for (const node of all.flatMap((one) => [...one.addedNodes]))
      if (node.nodeName === "LI")
        delays.push(Date.now() - Date.parse(node.querySelector("time").dateTime));
  }).observe(document.getElementById("log"), options);
  new MutationObserver(() => {
    done ||= document.querySelector(".story .word").textContent === "running" ? 0 : Date.now();
  }).observe(document.getElementById("part-stories"), options);
}"""
FOCUSED = """() => {
  const node = document.activeElement, style = getComputedStyle(node);
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return [node.outerHTML.slice(0, 90), node === document.body || ring];
}"""
CHECKS = (Path(__file__).parent / "page_checks.js").read_text().partition("\n")[2]


def gated(bench: Bench, name: str) -> list[list[object]]:
    return [["wait", bench.gate(name)], ["say", "<promise>COMPLETE</promise>"]]


class Tabs:
    """Pages of a real browser; each is somebody else's."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._open: list[Any] = []
        self.problems: list[str] = []

    def open(self, site: Site, path: str = "", *, link: bool = True, **options: Any) -> Page:
        """A page of a server, signed in by the link."""
        options.setdefault("viewport", DESKTOP)
        context = self._browser.new_context(**options)
        context.set_default_timeout(PATIENCE * 1000)
        context.add_init_script(WATCH)
        self._open.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(dialog.message))
        if link:
            page.goto(site.link)
            page.wait_for_selector("#part-runs")
        if path:
            page.goto(f"{site.url}{path}")
        return page

    def close(self) -> None:
        for context in self._open:
            context.close()


@pytest.fixture
def tabs(chromium: Browser) -> Iterator[Tabs]:
    made = Tabs(chromium)
    yield made
    made.close()
    assert made.problems == []


def lines(page: Page) -> list[int]:
    script = "[...document.querySelectorAll('#log li')].map((line) => +line.dataset.seq)"
    found: list[int] = page.evaluate(script)
    return found


def spoken(events: list[dict[str, Any]]) -> list[int]:
    """The numbers of events that have words."""
    from untildone.interfaces.web.views import lines as words

    return [line.seq for line in words(events)]


def is_live(page: Page) -> None:
    page.wait_for_selector("#link:text-is('● live')")


def titled(page: Page, text: str) -> None:
    """Wait for a title: scripts that wait are kept out by the policy of the page."""
    end = time.monotonic() + PATIENCE
    while page.title() != text:
        assert time.monotonic() < end, page.title()
        page.wait_for_timeout(20)


# -- live --------------------------------------------------------------------------------------


def test_the_link_opens_the_board_and_leaves_no_token(
    bench: Bench, serve: Callable[..., Site], tabs: Tabs
) -> None:
    bench.loop().ok()
    site = serve()
    page = tabs.open(site)
    assert page.url == f"{site.url}/"
    assert page.locator(".run h2").inner_text().split() == ["✓", "done", "demo"]
    page.click(".run a")
    page.wait_for_selector("h1:text('demo')")
    titled(page, "✓ 3/3 demo")
    assert str(page.get_attribute("#icon", "href")).endswith("icon-done.svg")
    page.goto(f"{site.url}/#token=wrong")  # who is known stays so
    page.wait_for_selector(".run")
    assert page.url == f"{site.url}/"
    stranger = tabs.open(site, "/#token=wrong", link=False)
    stranger.wait_for_selector("h1:text('not the right one')")


def test_events_are_seen_at_once(bench: Bench, serve: Callable[..., Site], tabs: Tabs) -> None:
    talk = [part for n in range(12) for part in (["say", f"tick {n}"], ["sleep", 0.25])]
    bench.plan({1: [["wait", bench.gate("go")], *talk, ["say", "<promise>COMPLETE</promise>"]]})
    live = bench.begin()
    bench.wait_call(1)
    site = serve()
    page = tabs.open(site, f"/runs/{site.run_id()}")
    is_live(page)
    page.evaluate(MEASURE)
    bench.open_gate("go")
    events = live.wait().ok().events
    page.wait_for_selector("#log li:has-text('finished: done')")
    delays = page.evaluate("delays")
    assert len(delays) >= 12
    assert statistics.median(delays) < 300, delays
    titled(page, "✓ 3/3 demo")
    saved = next(event for event in events if event["event"] == "checkpoint_saved")
    shown = page.evaluate(f"done - Date.parse('{saved['at']}')")
    print(f"lines after {statistics.median(delays):.0f} ms, a story after {shown} ms")
    assert 0 <= shown < 2000
    assert str(page.get_attribute("#icon", "href")).endswith("icon-done.svg")
    assert lines(page) == spoken(events)


def test_no_gap_after_the_server_was_killed(
    bench: Bench, serve: Callable[..., Site], tabs: Tabs
) -> None:
    bench.plan({1: gated(bench, "1"), 2: gated(bench, "2"), 3: gated(bench, "3")})
    live = bench.begin()
    bench.wait_call(1)
    keep = ("--token-file", str(bench.root / "token"))
    site = serve(*keep)
    page = tabs.open(site, f"/runs/{site.run_id()}")
    board = tabs.open(site)
    for n in (1, 2, 3):
        is_live(page)
        bench.open_gate(str(n))
        if n == 3:
            break
        site.live.signal(signal.SIGKILL)
        site.live.wait()
        page.wait_for_selector("#link:text('not connected')")
        bench.wait_call(n + 1)  # while nobody looks
        site = serve(*keep, "--port", str(site.port))
    events = live.wait().ok().events
    page.wait_for_selector("#log li:has-text('finished: done')")
    assert lines(page) == spoken(events)
    late = tabs.open(site, f"/runs/{site.run_id()}")
    assert late.inner_text("#log") == page.inner_text("#log")
    for part in ("head", "stories", "checkpoints"):
        assert late.inner_text(f"#part-{part}") == page.inner_text(f"#part-{part}")
    board.wait_for_selector(".badge:text('done')")


def test_a_new_token_is_told(bench: Bench, serve: Callable[..., Site], tabs: Tabs) -> None:
    bench.plan({1: gated(bench, "go")})
    bench.begin()
    bench.wait_call(1)
    site = serve()
    page = tabs.open(site, f"/runs/{site.run_id()}")
    is_live(page)
    site.live.signal(signal.SIGTERM)
    site.live.wait()
    serve("--port", str(site.port))
    page.wait_for_selector("#link:text('new token')")


def test_the_board_is_live(bench: Bench, serve: Callable[..., Site], tabs: Tabs) -> None:
    site = serve()
    page = tabs.open(site)
    assert "no run yet" in page.inner_text("main")
    bench.plan({1: gated(bench, "go")}, default=fails())
    live = bench.begin("--max-retries", "0")
    page.wait_for_selector(".badge:text('running')")
    titled(page, "▶ 1 · untildone")
    bench.open_gate("go")
    page.wait_for_selector(".badge:text('failed')")
    live.wait().ok(3)


# -- a phone, and no JavaScript ------------------------------------------------------------------


def test_a_question_is_answered_on_a_phone(
    bench: Bench, serve: Callable[..., Site], tabs: Tabs
) -> None:
    bench.only_stories(1, 2)
    bench.plan({1: ASKS, 2: gated(bench, "go")})
    live = bench.begin()
    bench.wait_call(2)
    site = serve("--control")
    page = tabs.open(site, viewport=PHONE, has_touch=True, is_mobile=True)
    page.wait_for_selector(".ask:text('1 question waits for you')")
    assert page.title().startswith("? 1")
    page.tap(".run a")
    box = page.get_by_label("Your answer")
    box.tap()
    box.fill("green, please")
    page.tap("button:text('Answer')")
    page.wait_for_selector("output:text('The next prompt of story 1 will say it')")
    bench.open_gate("go")
    page.wait_for_selector(".asks", state="detached")
    live.wait().ok()
    assert "green, please" in bench.calls()[2].prompt
    titled(page, "✓ 3/3 demo")


def test_what_is_typed_survives_what_happens(
    bench: Bench, serve: Callable[..., Site], tabs: Tabs
) -> None:
    bench.plan({1: ASKS, 2: gated(bench, "2"), 3: gated(bench, "3")})
    live = bench.begin()
    bench.wait_call(2)
    site = serve("--control")
    page = tabs.open(site, f"/runs/{site.run_id()}", viewport=PHONE)
    is_live(page)
    page.click("summary:text('Tell the agent')")
    page.get_by_label("Your answer").type("half an ans")
    bench.open_gate("2")
    page.wait_for_selector(".story:has-text('2 Bravo') .word:text('done')")
    assert page.evaluate("document.activeElement.value") == "half an ans"
    assert page.locator("#guide-all").is_visible()
    bench.open_gate("3")
    live.wait().ok(3)


def test_without_javascript(bench: Bench, serve: Callable[..., Site], tabs: Tabs) -> None:
    bench.plan({1: fails("the fixture is missing"), 3: ASKS})
    bench.loop().ok(3)
    site = serve("--control")
    page = tabs.open(site, "/", link=False, java_script_enabled=False, viewport=PHONE)
    page.get_by_label("Token", exact=True).fill(site.token)
    page.click("button:text('Open')")
    page.click(".run a")
    assert "2 of 3" in page.inner_text("main")
    assert "iteration 2" in page.inner_text("#log")
    page.click(".story a >> nth=0")
    assert "the fixture is missing" in page.inner_text("main")
    page.click("nav a:text('demo')")
    page.click("a:text('The report')")
    assert "What was saved where" in page.inner_text("main")
    page.go_back()
    page.get_by_label("Your answer").fill("green")
    page.click("button:text('Answer')")
    assert "Retried: 2." in page.inner_text("main") or "Retried: 3." in page.inner_text("main")


def test_story_page_tells_what_happened(
    bench: Bench, serve: Callable[..., Site], tabs: Tabs
) -> None:
    bench.plan({1: [["write", "mess.txt", "mess\n"], *fails("the fixture is missing")]})
    bench.loop("--verify", "test -f README.md").ok()
    site = serve()
    page = tabs.open(site, f"/runs/{site.run_id()}/stories/1")
    first, second = page.locator(".attempt").all()
    assert "Attempt 2: complete" in first.inner_text()
    assert "test -f README.md" in first.inner_text()
    assert "+work 2" in first.inner_text()
    assert "the agent gave up" in second.inner_text()
    assert "the fixture is missing" in second.inner_text()
    second.locator("summary:text('put back')").click()
    assert "+mess" in second.inner_text()
    page.goto(f"{site.url}/runs/{site.run_id()}")
    shares = page.locator(".legend li").all_inner_texts()
    assert [text.split()[0] for text in shares] == ["agent", "checks", "waiting", "idle"]
    assert "per verified story" in page.inner_text("#part-cost")
    assert page.locator(".points li").count() == 3
    page.click(".points a >> nth=0")
    page.wait_for_selector("h1:text('Charlie')")


def test_lanes_and_their_queue(bench: Bench, serve: Callable[..., Site], tabs: Tabs) -> None:
    waits = f"while [ ! -f {bench.gate('go')} ]; do sleep 0.05; done; {WORK}"
    lanes = Lanes(bench, 3, {"any": waits})
    live = lanes.begin(2)
    live.wait_event("iteration_started", n=2)
    site = serve()
    page = tabs.open(site, f"/runs/{site.run_id()}")
    page.wait_for_selector(".lanes li:has-text('lane 1'):has-text('attempt 1')")
    assert "Nothing waits to land" in page.inner_text("#part-lanes")
    bench.open_gate("go")
    live.wait().ok()
    titled(page, "✓ 3/3 demo")
    assert page.locator(".points li").count() == 3


# -- hostile texts -------------------------------------------------------------------------------

EVIL = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}</span></li>"
IN_A_NAME = "a'\"><b>&lt;{{7}}"


def hostile_rows(seq: int) -> Iterator[dict[str, Any]]:
    """Every event that has words, with the same text in every field that can hold one."""
    names = (
        *("message", "reason", "hint", "story_id", "title", "text", "tool", "detail", "command"),
        *("path", "change_id", "saved_ref", "commit", "agent", "question", "url", "status"),
        *("outcome", "original_branch", "sandbox", "permissions", "level", "choice", "why"),
    )
    texts: dict[str, Any] = dict.fromkeys(names, EVIL)
    more: dict[str, Any] = {
        "n": 1,
        "attempt": 1,
        "attempts_allowed": 3,
        "tokens_used": 5,
        "passed": False,
    }
    more |= {"notes": [EVIL], "blocks": [EVIL], "commands": [], "verify": [EVIL], "budgets": None}
    more |= {"story_ids": [EVIL], "until": None, "stories": None, "complete": 0, "total": 1}
    for name in (
        *("run_started", "agent_text", "agent_tool", "verify_started", "verify_ended"),
        *("iteration_started", "iteration_ended", "slot_ready", "requeued", "checkpoint_saved"),
        *("archived", "reverted", "retrying", "story_parked", "guided", "added", "reordered"),
        *("story_released", "waiting", "complete", "finished", "pull_request", "warning", "error"),
    ):
        seq += 1
        yield (
            {"v": 1, "seq": seq, "at": "2026-11-01T00:00:00.000+00:00", "event": name}
            | texts
            | more
        )


@pytest.fixture
def hostile(bench: Bench) -> str:
    """A run in which everybody says what they can to be obeyed; its id."""
    stories = (f"Alpha {EVIL}", f"Bravo {EVIL}", "Charlie")
    bench.write(TASKS, tasks_text((), stories))
    bench.write(f"src/{IN_A_NAME}.txt", f"{EVIL}\n")
    bench.git("checkout", "-q", "-b", IN_A_NAME)
    bench.commit(EVIL)
    say = [["say", EVIL], ["write", f"{IN_A_NAME}-{{n}}.txt", f"{EVIL}\n"]]
    bench.plan(
        {
            1: [*say, ["say", f"<promise>FAILED: {EVIL}</promise>"]],
            2: [*say, ["say", f"{EVIL}<promise>COMPLETE</promise>"]],
            3: [*say, ["say", f"<promise>ASK: {EVIL}?</promise>"]],
            4: [*say, ["say", "<promise>COMPLETE</promise>"]],
        }
    )
    bench.loop("--verify", f"true '{EVIL.replace(chr(39), '')}'").ok(3)
    run_id = str(bench.state()["run_id"])
    journal = bench.path(f".git/untildone/runs/{run_id}/journal.jsonl")
    last = json.loads(journal.read_bytes().splitlines()[-1])["seq"]
    with journal.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in hostile_rows(last))
    return run_id


def test_no_text_is_obeyed(
    bench: Bench, serve: Callable[..., Site], tabs: Tabs, hostile: str
) -> None:
    site = serve("--control")
    row = site.runs()[0]
    page = tabs.open(site)
    story = str(row["parked"][0]["story_id"])
    paths = ["/", *(f"/runs/{hostile}{more}" for more in ("", "/log", "/report"))]
    paths += [f"/runs/{hostile}/stories/{story_id}" for story_id in ("1", story)]
    for path in paths:
        page.goto(f"{site.url}{path}")
        if path in paths[:2]:
            is_live(page)
        assert page.locator("img, b b, main script, iframe, [onerror], [style]").count() == 0, path
        assert page.evaluate("violations") == [], path
        assert page.locator("script").count() == 1
        if path != "/":
            assert "{{7*7}}" in page.inner_text("main"), path
            assert "onerror=alert(1)" in page.inner_text("main"), path
    page.goto(f"{site.url}/runs/{hostile}")
    is_live(page)
    with journal_of(bench, hostile).open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in hostile_rows(row["seq"]))
    page.wait_for_selector(f"#log li[data-seq='{row['seq'] + 24}']")  # those that come live
    assert page.locator("img, main script, [onerror], [style]").count() == 0


def journal_of(bench: Bench, run_id: str) -> Path:
    return bench.path(f".git/untildone/runs/{run_id}/journal.jsonl")


def test_a_hostile_name_of_a_change(bench: Bench, serve: Callable[..., Site], tabs: Tabs) -> None:
    bench.plan({}, default=[["write", "x.txt", "x\n"], ["say", "<promise>COMPLETE</promise>"]])
    args = ("--task", EVIL, "--done", "promise", "--agent-cmd", bench.agent)
    bench.run("run", IN_A_NAME, *args).ok()
    site = serve("--control")
    page = tabs.open(site)
    assert page.locator(".run a").inner_text() == IN_A_NAME
    page.click(".run a")
    page.wait_for_selector("h1")
    assert page.inner_text("h1") == IN_A_NAME
    assert page.title() == f"✓ {IN_A_NAME}"
    page.click("summary:text('Stop the run')")
    assert IN_A_NAME in page.inner_text("button.danger")


def test_secrets_are_hidden(bench: Bench, serve: Callable[..., Site], tabs: Tabs) -> None:
    secret = "ghp_" + "a1B2" * 10
    bench.only_stories(1)
    say = ["say", f"token {secret}"]
    work = [say, ["write", "conf.txt", f"key = {secret}\n"]]
    bench.plan({1: [*work, *fails(f"no {secret}")]})
    bench.loop(env={"MY_TOKEN": secret}).ok()
    site = serve(env={"MY_TOKEN": secret})
    run = f"/runs/{site.run_id()}"
    for path in (run, f"{run}/stories/1", f"{run}/report", f"{run}/log", f"/api{run}"):
        assert secret not in site.ask(path).ok().text, path
    stream = site.events(site.run_id())
    assert secret not in str([next(stream) for _ in range(12)])


# -- for everybody -------------------------------------------------------------------------------


@pytest.fixture
def eventful(bench: Bench) -> None:
    """A run with a failure, a question and a log."""
    asks = [["say", "The mock-up has both.\n<promise>ASK: blue or green?</promise>"]]
    bench.plan({1: fails("the fixture is missing"), 4: asks})
    bench.loop("--verify", "test -f README.md").ok(3)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.usefixtures("eventful")
def test_names_contrast_and_width(
    serve: Callable[..., Site], tabs: Tabs, scheme: Any, viewport: Any
) -> None:
    site = serve("--control")
    page = tabs.open(site, color_scheme=scheme, viewport=viewport)
    run = f"/runs/{site.run_id()}"
    more = ("", "/stories/1", "/stories/3", "/report", "/log")
    for path in ("/", "/no", *(f"{run}{end}" for end in more)):
        page.goto(f"{site.url}{path}")
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert page.evaluate(CHECKS) == [], path
    stranger = tabs.open(site, "/", link=False, color_scheme=scheme, viewport=viewport)
    assert stranger.evaluate(CHECKS) == []


@pytest.mark.usefixtures("eventful")
def test_everything_is_reached_with_the_keyboard(serve: Callable[..., Site], tabs: Tabs) -> None:
    site = serve("--control")
    page = tabs.open(site, f"/runs/{site.run_id()}")
    wanted = page.locator("a, button:visible, summary, textarea:visible, #log").count()
    seen: dict[str, bool] = {}
    for _ in range(wanted + 3):
        page.keyboard.press("Tab")
        here, ring = page.evaluate(FOCUSED)
        seen[here] = ring
    assert all(seen.values()), seen
    for part in ('class="skip"', "<textarea", '<button type="submit"', 'id="log"', "<summary"):
        assert any(part in text for text in seen), part
    page.keyboard.press("Home")
    page.goto(f"{site.url}/runs/{site.run_id()}")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
    while page.evaluate("document.activeElement.nodeName") != "TEXTAREA":
        page.keyboard.press("Tab")
    page.keyboard.type("green")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("output:text('Retried: 3.')")


@pytest.mark.usefixtures("eventful")
def test_on_paper(serve: Callable[..., Site], tabs: Tabs) -> None:
    site = serve("--control")
    page = tabs.open(site, f"/runs/{site.run_id()}")
    page.emulate_media(media="print")
    assert not page.locator("form").first.is_visible()
    assert page.locator("#part-stories").is_visible()
    hidden = "(log) => log.scrollHeight - log.clientHeight"
    assert page.locator("#log").evaluate(hidden) <= 1


def test_a_wide_run_is_not_too_wide(bench: Bench, serve: Callable[..., Site], tabs: Tabs) -> None:
    bench.write(TASKS, tasks_text((), [f"Story {'w' * 300}", "Bravo " * 40, "Charlie"]))
    bench.commit("wide")
    bench.plan({1: [["say", "x" * 2000], ["say", "<promise>COMPLETE</promise>"]]})
    bench.loop().ok()
    site = serve()
    page = tabs.open(site, viewport=PHONE)
    for path in ("/", f"/runs/{site.run_id()}", f"/runs/{site.run_id()}/stories/1"):
        page.goto(f"{site.url}{path}")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
