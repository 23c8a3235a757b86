"""The report's pages: true numbers, nothing hostile, bounded."""

import re
import time
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from tests.fakes.plans import NOW, PLAIN, PLAN, at
from untildone.commands.run_account import RunAccount, Size, Stored
from untildone.domain.agents.agent import Usage
from untildone.domain.reporting.account import Account, Call, CheckRun, Pause, StoryAccount
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Run, Status
from untildone.domain.stories.parking import Parked, Why
from untildone.interfaces.report import svg
from untildone.interfaces.report.blocks import MOST_BARS, MOST_ROWS
from untildone.interfaces.report.data import data
from untildone.interfaces.report.html import html
from untildone.interfaces.report.markdown import inline, markdown
from untildone.interfaces.report.page import page

HOSTILE = (
    "<script>alert(1)</script> \u202egnp.exe\u202c \x1b[31mred\x1b[0m \x00 ](javascript:x) "
    "`| a | b |` --> </svg> \"quoted\" 'so' &amp; ![i](http://evil.example/x.png)\n# heading\n```"
)
VOID = {"meta", "rect", "line"}


class Well(HTMLParser):
    """Tags must close in order; what they carry is collected."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID or tag == "rect":
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def parsed(text: str) -> Well:
    """The page, which must be well-formed, self-contained and without a script."""
    found = Well()
    found.feed(text)
    found.close()
    assert found.stack == []
    for tag, attrs in found.tags:
        assert tag not in {"script", "link", "img", "iframe", "object", "embed", "a", "base"}
        assert not any(name.startswith("on") or name in ("src", "href") for name in attrs), attrs
    assert "url(" not in text
    assert "@import" not in text
    return found


def call(n: int, story: str = "1", *, seconds: float = 60, **changes: object) -> Call:
    """A call that was kept, if nothing else is said."""
    made = Call(
        n,
        (story, f"Story {story}"),
        "claude",
        at(n * 100),
        "base",
        1,
        ended=at(n * 100 + seconds),
        outcome="complete",
        usage=Usage(1000 * n, 10, 5, 5, 0.01 * n),
        tip=f"tip{n}",
        commit=f"{n:040x}",
        settled=True,
    )
    return replace(made, **changes)


def summary(*calls: Call, plan: Plan = PLAN, **changes: object) -> RunAccount:
    """A run with these calls, a story for each key."""
    groups: dict[tuple[str, str], list[Call]] = {}
    for each in calls:
        groups.setdefault(each.key, []).append(each)
    stories = tuple(
        StoryAccount(*key, "verified" if any(c.verified for c in own) else "not done", tuple(own))
        for key, own in groups.items()
    )
    last = max((each.ended or each.started for each in calls), default=NOW)
    found = Account(calls, stories, (), NOW, last)
    run = Run(plan, NOW, Status.DONE)
    sizes = {("base", each.tip): Size(1, each.n, 2) for each in calls}
    stored = (Stored("journal", ".git/untildone/runs/r1", "untildone logs demo"),)
    return replace(RunAccount(run, found, False, {}, sizes, stored), **changes)


def proven(*, passed: bool = True) -> tuple[CheckRun, ...]:
    return (CheckRun("pytest -q", "required", at(50), at(60), passed, "" if passed else "no"),)


def widths(text: str, title: str) -> list[tuple[str, float]]:
    """Kind and width of every rectangle of one plot."""
    drawing = re.search(rf'<svg [^>]*aria-label="{re.escape(title)}.*?</svg>', text, re.DOTALL)
    assert drawing
    tree = ElementTree.fromstring(drawing[0])  # noqa: S314 - our own
    return [(r.attrib["class"], float(r.attrib["width"])) for r in tree.iter("rect")]


def test_bars_are_as_long_as_what_they_stand_for() -> None:
    lost = call(2, "2", saved_ref="ref", tip="", seconds=30, outcome="failed")
    text = html(page(summary(call(1), lost, call(3, "2", seconds=15), call(4, "3", settled=False))))
    parsed(text)
    time_bars = widths(text, "Time of the agent")
    assert [kind for kind, _ in time_bars] == ["kept", "failed", "kept", "open"]
    longest = svg.LENGTH / 60
    assert [width for _, width in time_bars] == pytest.approx(
        [60 * longest, 30 * longest, 15 * longest, 60 * longest], abs=0.01
    )
    tokens = [width for _, width in widths(text, "Tokens per story")]
    assert [w / tokens[0] for w in tokens] == pytest.approx(
        [1, 2010 / 1010, 3010 / 1010, 4010 / 1010], abs=0.01
    )
    cost = [width for _, width in widths(text, "Cost per story")]
    assert [w / cost[0] for w in cost] == pytest.approx([1, 2, 3, 4], abs=0.01)


def test_the_check_plot_is_on_the_time_of_the_run() -> None:
    good = call(1, checks=proven(), proven=True)
    bad = call(2, "2", checks=(replace(proven(passed=False)[0], started=at(250), ended=at(260)),))
    text = html(page(summary(good, bad)))
    marks = widths(text, "Checks over the time")
    assert [kind for kind, _ in marks] == ["kept", "failed"]
    assert marks[0][1] == pytest.approx(svg.LENGTH * 10 / 260, abs=0.01)


def test_figures_are_per_verified_story_and_name_what_is_not_verified() -> None:
    good = call(1, checks=proven(), proven=True)
    lost = call(2, saved_ref="ref", tip="", outcome="failed", reason="why not")
    found = summary(good, lost)
    text = markdown(page(found))
    assert "| per verified story | 3020 tokens, $0.0300, 2m 00s of the agent |" in text
    assert "| wasted | 1 of 2 calls were put back or ended at a limit |" in text
    unproven = StoryAccount("9", "By word", "done, not verified")
    more = replace(found.account, stories=(*found.account.stories, unproven))
    text = markdown(page(replace(found, account=more)))
    assert "| done without a check | 1: by the agent's word alone, not counted above |" in text
    none = markdown(page(summary(lost)))
    assert "| per verified story | no story was verified by a check |" in none
    assert "No check ran" in none


def test_what_git_does_not_have_any_more_is_unknown() -> None:
    text = markdown(page(summary(call(1), sizes={})))
    assert "| kept changes | unknown |" in text


@pytest.mark.parametrize("plan", [PLAN, PLAIN], ids=["stories", "plain"])
def test_hostile_text_is_text(plan: Plan) -> None:
    check = CheckRun(HOSTILE, HOSTILE, at(1), at(2), passed=False, reason=HOSTILE)
    bad = call(1, reason=HOSTILE, agent=HOSTILE, checks=(check,), key=(HOSTILE, HOSTILE))
    bad = replace(bad, saved_ref=HOSTILE, outcome=HOSTILE)
    found = summary(bad, plan=replace(plan, change_id=HOSTILE, verify=(HOSTILE,)))
    run = replace(found.run, error=HOSTILE, parked={("1", "x"): Parked(Why.FAILED, HOSTILE, NOW)})
    pauses = (Pause(NOW, at(1), HOSTILE),)
    found = replace(found, run=run, account=replace(found.account, pauses=pauses))
    text = html(page(found))
    seen = parsed(text)
    assert any("<script>alert(1)</script>" in data for data in seen.texts)
    shown = markdown(page(found))
    for output in (text, shown):
        assert not set("\x00\x1b\u202e\u202c") & set(output)
    outside = re.sub(r"(`+).*?\1", "", shown.replace("\\`", ""), flags=re.DOTALL)
    assert "<script" not in outside
    assert not re.search(r"(?<!\\)\]\(", outside)
    assert len([row for row in shown.splitlines() if row.startswith("# ")]) == 1


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("a|b", "a\\|b"),
        ("*a* _b_ `c`", "\\*a\\* \\_b\\_ `c`"),
        ("one ` alone", "one \\` alone"),
        ("``two`` `a|b` \\`c`", "\\`\\`two\\`\\` `a\\|b` \\\\`c`"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("two\nlines", "two lines"),
    ],
)
def test_markdown_is_quoted(cell: str, shown: str) -> None:
    assert inline(cell) == shown


def test_what_is_not_done_and_why_comes_first() -> None:
    text = markdown(
        page(summary(call(1, outcome="failed", reason="no luck", commit="", saved_ref="refs/x")))
    )
    first = text.partition("## ")[2]
    row = "| 1 | not done | no luck | `untildone attempts demo --show 1/1` |"
    assert (first.startswith("Not done, and why"), row in first) == (True, True)
    assert "Not done" not in markdown(page(summary(call(1, checks=proven()))))


def test_code_within_a_text_is_code() -> None:
    failed = call(1, outcome="failed", reason="`a<b> & c` is gone, see `x`", saved_ref="refs/x")
    text = html(page(summary(failed)))
    assert "<span><code>a&lt;b&gt; &amp; c</code> is gone, see <code>x</code></span></td>" in text
    parsed(text)


def test_a_report_is_readable_on_a_phone_and_without_colours() -> None:
    lost = replace(call(1, outcome="failed"), saved_ref="refs/x", tip="")
    found = summary(lost, call(2))
    text = html(page(found))
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    for wide in ("<table>", "<svg "):  # what is too wide for a phone scrolls by itself
        assert text.count(wide) == len(re.findall(rf'<div class="wide">{wide}', text)) > 0
    assert {"■", "▨"} <= set(text)
    shown = markdown(page(found))
    assert "█ kept, ░ put back" in shown
    assert re.search(r"░+█+ ", shown)


def test_what_nobody_told_is_unknown_and_not_0() -> None:
    text = markdown(page(summary(replace(call(1), usage=None), replace(call(2), usage=Usage()))))
    assert "| tokens | unknown |" in text
    assert "| cost | unknown |" in text
    assert not re.search(r"\| 0 \||\b0 (tokens|input)|\$0", text.partition("## Checks")[0])


def test_five_thousand_iterations_fit_on_a_page_in_seconds() -> None:
    checks = proven()
    calls = [
        call(n, str(n // 2), checks=checks, proven=True)
        if n % 2
        else call(n, str(n // 2), saved_ref=f"ref/{n}", tip="", outcome="failed", reason="x" * 900)
        for n in range(5000)
    ]
    began = time.process_time()
    made = page(summary(*calls))
    text, shown = html(made), markdown(made)
    assert time.process_time() - began < 5
    assert len(text) < 400_000
    assert len(shown) < 200_000
    parsed(text)
    assert f"{5000 - MOST_ROWS} of 5000 rows are left out" in text
    drawn = widths(text, "Time of the agent")
    assert len(drawn) <= 2 * MOST_BARS  # kept and put back, per bar
    assert "Each bar is 42 in a row." in text
    assert "Not every run of a check is drawn" in text


def test_stories_that_eased_their_tests_or_changed_nothing_are_named() -> None:
    eased = replace(call(1, checks=proven(), proven=True), own_tests=("tests/test_a.py",))
    found = summary(eased)
    empty = StoryAccount("9", "Empty", "done, nothing changed")
    states = [replace(story, state="done, not verified") for story in found.account.stories]
    text = markdown(page(replace(found, account=replace(found.account, stories=(*states, empty)))))
    assert "| done, with tests changed | 1: tests that were there, not counted above |" in text
    assert "| done, nothing changed | 1: not counted above |" in text
    assert "wrote what it is judged by: tests/test\\_a.py" in text
    assert "0 of them verified by a check, 1 changed nothing" in text


def test_a_run_in_lanes_has_a_row_for_each_and_says_whether_they_paid() -> None:
    one = call(1, closed=at(170), checks=proven())
    two = call(2, "2", started=at(100), ended=at(160), closed=at(240), lane=1)
    lost = call(3, "2", started=at(100), closed=at(165), lane=2, requeued=True, tip="")
    found = summary(one, two, lost)
    text = html(page(found))
    parsed(text)
    assert "they did not pay" in text
    drawn = [kind for kind, _ in widths(text, "Lanes over the time of the run")]
    assert drawn == ["kept", "kept", "kept", "failed"]
    paid = summary(one, replace(two, closed=at(170)))
    said = markdown(page(paid))
    assert "they paid: 1m 10s in 2 lanes, 2m 10s in one, 1.9 times as fast" in said
    # 160 seconds in 40 signs: a check from 50 on, calls from 100 on.
    calls = "█" * 15
    assert f"lane 0{' ' * 14}███{' ' * 10}{calls}\nlane 1{' ' * 27}{calls}\n" in said
    told = data(paid)["lanes"]
    assert isinstance(told, dict)
    assert (told["paid"], told["requeues"]) == (True, 0)
    assert "Lanes" not in html(page(summary(one)))
    assert data(summary(one))["lanes"] is None


@pytest.mark.parametrize(
    "text",
    [
        "@octocat",
        "Fixes #1",
        "gh-7",
        "closes team/repo#5",
        "see !3",
        "&4",
        "https://x.y/a/b/issues/9",
    ],
)
def test_nobody_is_called_and_no_issue_is_closed(text: str) -> None:
    """As a forge reads it, and git: neither the text itself nor what it is quoted as."""
    known = re.compile(r"(?i)@\w|[#!&]\d|gh-\d|/issues/\d")
    assert known.search(text)
    found = call(1, outcome="failed", reason=text, saved_ref="refs/x")
    shown = markdown(page(summary(found)))
    assert "\u200b" in shown
    assert not known.search(shown)
    assert shown.replace("\u200b", "").count(text.replace("&", "&amp;")) > 0


def test_addresses_and_numbers_stay_as_they_are() -> None:
    for text in ("me@example.org", "a # 1", "1 & 2", "$0.05", "issues/9"):
        assert "\u200b" not in inline(text)
