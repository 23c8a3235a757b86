"""Events as words, and the windows that show them."""

import io
import json
from collections.abc import Mapping

import pytest

from untildone.interfaces import render
from untildone.interfaces.output import wrapped
from untildone.interfaces.windows import JsonLines, PlainLines, Title

Shown = dict[str, tuple[Mapping[str, object], str]]
RUN = {"change_id": "demo", "agent": "claude", "original_branch": "main", "max_iterations": 9}
STARTED = {"n": 2, "story_id": "1", "title": "Log in", "attempt": 1, "attempts_allowed": 4}
ENDED = {"n": 2, "outcome": "complete", "tokens_used": 12, "reason": ""}
LONG = "x" * 200

LINES: Shown = {
    "run_started": ({**RUN}, "▶ run of demo with claude (from main)"),
    "run_started in a sandbox": (
        {**RUN, "sandbox": "bwrap"},
        "▶ run of demo with claude (from main), sandbox: bwrap",
    ),
    "run_started resumed": (
        {**RUN, "resumed": True},
        "▶ going on with demo with claude (from main)",
    ),
    "run_started with checks": (
        {**RUN, "verify": ["make", "off: lint"], "verify_found": []},
        "▶ run of demo with claude (from main)\n  check: make\n  check: off: lint",
    ),
    "run_started with protected files": (
        {**RUN, "protected": ["tests/**", "check.sh"]},
        "▶ run of demo with claude (from main)\n  protected: tests/**, check.sh",
    ),
    "run_started with checks that nobody asked for": (
        {**RUN, "verify": [], "verify_found": ["make test", "npm test"]},
        "▶ run of demo with claude (from main)\n"
        "  nothing is checked after COMPLETE; `--verify auto` would run: `make test`, `npm test`",
    ),
    "run_started with budgets": (
        {**RUN, "budgets": [{"name": "cost", "spent": 0, "limit": 5.0}]},
        "▶ run of demo with claude (from main)\n  budget: cost $0.00 of $5.00",
    ),
    "budget_set": (
        {"budgets": [{"name": "time", "spent": 1.5, "limit": 90.0}], "paused": False},
        "  budget: time 1m 30s of 1h 30m",
    ),
    "budget_set to none": ({"budgets": [], "paused": False}, "  budget: none"),
    "stories_loaded": ({"total": 3, "complete": 1, "stories": [1]}, "  1 of 3 tasks done"),
    "stories_loaded again": ({"total": 3, "complete": 1}, ""),
    "iteration_started": (STARTED, "▶ iteration 2: story 1 Log in, attempt 1 of 4"),
    "iteration_started plain": ({**STARTED, "story_id": ""}, "▶ iteration 2: plain loop"),
    "agent_text": ({"text": "\n  Hello.\n\nMore."}, "  │ Hello.\n  │ More."),
    "agent_text of many lines": (
        {"text": "\n".join("12345678")},
        "\n".join(f"  │ {k}" for k in ("… 2 more lines: `untildone logs`", *"345678")),
    ),
    "agent_text empty": ({"text": " \n"}, ""),
    "agent_text long": ({"text": LONG}, "  │ " + "x" * 159 + "…"),
    "agent_tool": ({"tool": "Edit", "detail": "a.py"}, "  ⚒ Edit a.py"),
    "agent_tool bare": ({"tool": "Edit"}, "  ⚒ Edit"),
    "checks_tried": ({"commands": ["a", "b"]}, "  trying the checks first: a, b"),
    "verify_started": ({"command": "make"}, "  check: make"),
    "verify_ended": ({"command": "make", "passed": True}, "  check passed: make"),
    "verify_ended of no weight": (
        {"command": "make", "passed": False, "level": "warn"},
        "  check failed (warn): make",
    ),
    "verify_ended before": (
        {"command": "make", "passed": True, "earlier_tests": True},
        "  check passed with the tests as they were: make",
    ),
    "verify_ended red": ({"command": "make", "passed": False}, "  check failed: make"),
    "iteration_ended": (ENDED, "✓ iteration 2: complete, 12 tokens"),
    "iteration_ended failed": (
        {**ENDED, "outcome": "failed", "reason": "no net\nat all"},
        "✗ iteration 2: the agent gave up, 12 tokens: no net",
    ),
    "iteration_ended checks": (
        {**ENDED, "outcome": "verify_failed", "reason": "`make` failed:\n1\n2\n"},
        "✗ iteration 2: not accepted, 12 tokens: `make` failed: 2",
    ),
    "iteration_ended without a count": (
        {**ENDED, "outcome": "no_promise", "tokens_used": 0},
        "✗ iteration 2: ended without a promise, tokens unknown",
    ),
    "stories_loaded with one task": (
        {"total": 1, "complete": 0, "stories": [1]},
        "  0 of 1 task done",
    ),
    "checkpoint_saved": (
        {"commit": "a" * 40, "story_id": "1"},
        f"⚑ checkpoint {'a' * 12} for 1",
    ),
    "reverted": ({"saved_ref": "refs/x"}, "↶ put back; the attempt is saved as refs/x"),
    "reverted nothing": ({"saved_ref": ""}, "↶ put back; there was nothing to save"),
    "retrying": (
        {"story_id": "1", "attempt": 2, "attempts_allowed": 4},
        "↻ story 1: attempt 2 of 4",
    ),
    "complete": ({"reason": "success"}, "● done"),
    "complete stuck": ({"reason": "max_retries"}, "● ended: a story has no retry left"),
    "finished": (
        {"status": "done", "choice": "keep", "notes": ["stored"]},
        "● finished: done, keep\n  stored",
    ),
    "finished alone": ({"status": "stopped", "choice": None}, "● finished: stopped"),
    "unheard_of": ({}, ""),
}


@pytest.mark.parametrize("name", LINES)
def test_line(name: str) -> None:
    data, line = LINES[name]
    assert render.line({"event": name.partition(" ")[0], **data}) == line


def test_waiting_says_until_when() -> None:
    until = "2026-01-02T03:04:05.000+00:00"
    event = {"event": "waiting", "until": until, "why": "usage limit"}
    assert render.line(event) == f"⏳ waiting until {render.clock_time(until)}: usage limit"
    assert render.line(event | {"until": None}) == "⏳ waiting: usage limit"


COMPLAINTS: Shown = {
    "warning": ({"message": "odd"}, "warning: odd"),
    "error": ({"message": "stuck"}, "error: stuck"),
    "error with all": (
        {"message": "stuck", "reason": "no net", "saved_ref": "refs/x", "hint": "resume"},
        "error: stuck\n  reason: no net\n  saved: refs/x\nhint: resume",
    ),
    "error that is its reason": ({"message": "disk", "reason": "disk"}, "error: disk"),
    "finished": ({}, ""),
}


@pytest.mark.parametrize("name", COMPLAINTS)
def test_complaint(name: str) -> None:
    data, text = COMPLAINTS[name]
    assert render.complaint({"event": name.partition(" ")[0], **data}) == text


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.9, "0s"), (59, "59s"), (61, "1m 01s"), (3600, "1h 00m")]
)
def test_duration(seconds: float, words: str) -> None:
    assert render.duration(seconds) == words


@pytest.mark.parametrize(("count", "words"), [(None, "0"), (9999, "9999"), (12_345, "12.3k")])
def test_tokens(count: object, words: str) -> None:
    assert render.tokens(count) == words


AT = "2026-01-02T03:04:05.000+00:00"
EVENTS: list[dict[str, object]] = [
    {"event": "run_started", "at": AT, **RUN},
    {"event": "iteration_started", "at": AT, **STARTED},
    {"event": "warning", "at": AT, "message": "odd"},
    {"event": "finished", "at": AT, "status": "done", "choice": "keep"},
]


def test_json_lines() -> None:
    out, err = io.StringIO(), io.StringIO()
    window = JsonLines(out, err)
    for event in EVENTS:
        window(event)
    assert [json.loads(row) for row in out.getvalue().splitlines()] == EVENTS
    assert err.getvalue() == "warning: odd\n"


def test_plain_lines() -> None:
    out, err, quiet = io.StringIO(), io.StringIO(), io.StringIO()
    for window in (PlainLines(out, err), PlainLines(quiet, io.StringIO(), quiet=True)):
        for event in EVENTS:
            window(event)
    time = render.clock_time(AT)
    assert out.getvalue().splitlines() == [
        f"{time} ▶ run of demo with claude (from main)",
        f"{time} ▶ iteration 2: story 1 Log in, attempt 1 of 4",
        f"{time} ● finished: done, keep",
    ]
    assert (quiet.getvalue(), err.getvalue()) == ("", "warning: odd\n")


def test_plain_lines_of_a_loop_that_waits() -> None:
    out = io.StringIO()
    window = PlainLines(out, io.StringIO(), asks=True)
    window.heartbeat()
    for event in EVENTS[:2]:
        window(event)
    window.heartbeat()
    for reason in ("success", "stopped"):
        window({"event": "complete", "at": AT, "reason": reason})
    time = render.clock_time(AT)
    assert out.getvalue().splitlines()[1:] == [
        f"{time} ▶ iteration 2: story 1 Log in, attempt 1 of 4",
        "  still at it: ▶ iteration 2: story 1 Log in, attempt 1 of 4",
        f"{time} ● done",
        "  next: untildone finish demo cleanup|keep|pr",
        f"{time} ● ended: stopped",
    ]


def test_title() -> None:
    stream = io.StringIO()
    window = Title(stream)
    for event in EVENTS:
        window(event)
    assert stream.getvalue() == "\x1b]0;Ralph: demo [2/9]\x07\x1b]0;Ralph: demo [done]\x07"


REST: dict[str, object] = {"stories_left": 5, "tokens": 1_200_000, "cost_usd": 4.1, "minutes": 80.0}
REST |= {"enough_for": None, "budget": ""}


def test_the_forecast_in_one_line() -> None:
    said = "5 stories left, about 1.2M tokens, $4.10, 1h 20m"
    assert render.forecast(REST) == said
    short = REST | {"enough_for": 3, "budget": "tokens"}
    assert render.forecast(short) == f"{said}; the budget of tokens is enough for about 3 of 5"
    silent = REST | {"stories_left": 1, "tokens": 0, "cost_usd": None}
    assert render.forecast(silent) == "1 story left, about 1h 20m"
    assert render.forecast(None) == ""
    assert render.budgets(None) == []


LONG_LINE = "  reason: " + "some words that go on " * 8 + "refs/ralph/attempts/demo/a-long-name/2"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_are_broken_at_spaces_only(width: int) -> None:
    rows = wrapped(f"{LONG_LINE}\nshort", width).split("\n")
    assert max(map(len, rows)) <= width
    assert " ".join(" ".join(rows).split()) == " ".join(f"{LONG_LINE} short".split())
    assert all(row.startswith("    ") for row in rows[1:-1])


def test_a_long_word_stays_whole() -> None:
    assert wrapped(f"saved as {LONG}", 60).split("\n") == ["saved as", f"  {LONG}"]


def test_a_terminal_of_a_few_columns_breaks_lines_itself() -> None:
    assert wrapped(LONG_LINE, 20) == LONG_LINE
