"""What a call cost: every source, in its order."""

import json
import os
import re
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fakes.plans import NOW
from untildone.adapters.process.process import Processes
from untildone.adapters.sessions.meter import UsageMeter
from untildone.adapters.sessions.watch import SessionWatch
from untildone.domain.agents.agent import Usage
from untildone.domain.errors import UserError

REPORTED = Usage(100, 50, 7, 8, 0.5)
EMPTY = Usage(0, 0, cost_usd=0.25)


def meter(processes: Processes, top: Path, command: str = "") -> UsageMeter:
    sessions = SessionWatch(top, lambda: NOW)
    return UsageMeter(processes, sessions, command, lambda: NOW, lambda: False)


def program(folder: Path, name: str, *answers: str) -> str:
    """A usage command that gives these answers in turn and notes how it was called."""
    for n, answer in enumerate(answers):
        (folder / f"answer-{n}").write_text(answer)
    path = folder / name
    path.write_text(
        f'#!/bin/sh\ncd {folder}\necho "$@" >> calls\n'
        "n=$(($(wc -l < calls) - 1))\ntest -f answer-$n || exit 1\ncat answer-$n\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def session_file(home: Path, top: Path, name: str = "s1") -> Path:
    folder = home / ".claude" / "projects" / re.sub("[^A-Za-z0-9]", "-", str(top))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.jsonl"


def message(number: str, request: str = "r", model: str = "", **usage: int) -> str:
    data = {
        "timestamp": NOW.isoformat(),
        "requestId": request,
        "message": {
            "id": number,
            "usage": {"input_tokens": 0, "output_tokens": 0, **usage},
            **({"model": model} if model else {}),
        },
    }
    return json.dumps(data) + "\n"


# Two readings, what the agent reported; the usage and the warnings.
Case = tuple[tuple[str, ...], Usage | None, Usage | None, list[str]]
NO_NUMBER = ["`usage` gave no number, tokens are taken from elsewhere"]
EXTERNAL: dict[str, Case] = {
    "input and output": (
        ('{"input_tokens": 10, "output_tokens": 5}', '{"input_tokens": 20, "output_tokens": 25}'),
        REPORTED,
        Usage(10, 20, cost_usd=0.5),
        [],
    ),
    "one part goes back": (
        ('{"input_tokens": 10, "output_tokens": 5}', '{"input_tokens": 5, "output_tokens": 25}'),
        None,
        Usage(15),
        [],
    ),
    "the parts once, then a total": (
        ('{"input_tokens": 10, "output_tokens": 5}', '{"total_tokens": 18}'),
        None,
        Usage(3),
        [],
    ),
    "one of them": (('{"input_tokens": 10}', '{"output_tokens": 12.0}'), None, Usage(2), []),
    "total": (('{"total_tokens": 1}', '{"total_tokens": 4}'), None, Usage(3), []),
    "a bare number": (("1", "4"), None, Usage(3), []),
    "the agent says the same": (("0", "150"), REPORTED, REPORTED, []),
    "zero": (("4", "4"), REPORTED, REPORTED, ["`usage` counted 0 tokens for this iteration"]),
    "negative": (("4", "1"), None, None, ["`usage` counted -3 tokens for this iteration"]),
    "no number": (('{"cost": 1}', "5"), REPORTED, REPORTED, NO_NUMBER),
    "not JSON": (("1", "lots"), REPORTED, REPORTED, NO_NUMBER),
    "true is no number": (("true", "5"), None, None, NO_NUMBER),
    "a list is no number": (("[1]", "5"), None, None, NO_NUMBER),
    "NaN": (("1", "NaN"), REPORTED, REPORTED, NO_NUMBER),
    "infinite": (("1", "Infinity"), None, None, NO_NUMBER),
    "too large": (("1e999", "5"), None, None, NO_NUMBER),
    "NaN in a part": (("1", '{"input_tokens": NaN, "output_tokens": 1}'), None, None, NO_NUMBER),
    "NaN in a part, but a total": (
        ("1", '{"input_tokens": NaN, "total_tokens": 3}'),
        *(None, Usage(2), []),
    ),
    "it fails the second time": (("1",), REPORTED, REPORTED, NO_NUMBER),
}


@pytest.mark.parametrize("name", EXTERNAL)
def test_usage_command(name: str, processes: Processes, tmp_path: Path) -> None:
    answers, reported, usage, warnings = EXTERNAL[name]
    ours = meter(processes, tmp_path, program(tmp_path, "usage", *answers))
    ours.start("claude")
    assert ours.measure(reported, "") == (usage, warnings)


def test_a_command_of_blanks_is_none(processes: Processes, tmp_path: Path) -> None:
    ours = meter(processes, tmp_path, " ")
    ours.start("claude")
    assert ours.measure(REPORTED, "") == (REPORTED, [])


def test_a_command_that_cannot_be_read(processes: Processes, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        meter(processes, tmp_path, "it's")
    assert caught.value.message == ("The usage command cannot be read (No closing quotation): it's")


def test_how_it_is_called(processes: Processes, tmp_path: Path) -> None:
    ours = meter(processes, tmp_path, program(tmp_path, "usage", "1", "2") + " 'my project'")
    ours.start("claude")
    ours.measure(None, "")
    call = "my project --since 2026-01-02T03:04:05+00:00 --format json\n"
    assert (tmp_path / "calls").read_text() == call * 2


def test_wt_usage_on_the_path(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "wt-usage", "1", "2")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    ours = meter(processes, tmp_path)
    ours.start("claude")
    assert ours.measure(None, "") == (Usage(1), [])


def test_the_agents_own_numbers(processes: Processes, tmp_path: Path) -> None:
    ours = meter(processes, tmp_path)
    ours.start("claude")
    assert ours.measure(REPORTED, "") == (REPORTED, [])
    assert ours.measure(None, "") == (None, [])
    assert ours.measure(EMPTY, "") == (EMPTY, [])


def test_a_cost_that_the_agent_does_not_tell(processes: Processes, tmp_path: Path) -> None:
    ours = meter(processes, tmp_path)
    ours.start("claude")
    known = Usage(1_000_000, model="claude-haiku-4-5")
    assert ours.measure(known, "") == (replace(known, cost_usd=1.0), [])
    unknown = Usage(1_000_000, model="claude-unheard-of")
    assert ours.measure(unknown, "") == (unknown, [])


def test_session_files_count_each_message_once(
    processes: Processes, home: Path, tmp_path: Path
) -> None:
    path = session_file(home, tmp_path)
    earlier = message("m0", input_tokens=999).replace(NOW.isoformat(), "2026-01-01T00:00:00Z")
    path.write_text(earlier)
    ours = meter(processes, tmp_path)
    ours.start("claude")
    with path.open("a") as file:
        file.write(message("m1", input_tokens=10, output_tokens=1))
        file.write(message("m1", input_tokens=10, output_tokens=5, cache_read_input_tokens=3))
        file.write(message("m2", input_tokens=2, cache_creation_input_tokens=4))
        file.write("torn {\n[]\n" + json.dumps({"message": {"usage": {"input_tokens": "x"}}}))
    session_file(home, tmp_path, "other").write_text(message("m9", input_tokens=500))
    assert ours.measure(None, "s1") == (Usage(12, 5, 3, 4), [])
    assert ours.measure(EMPTY, "s1") == (Usage(12, 5, 3, 4), [])
    assert ours.measure(None, "unheard") == (None, [])


def test_recorded_calls_have_a_price(processes: Processes, home: Path, tmp_path: Path) -> None:
    ours = meter(processes, tmp_path)
    ours.start("claude")
    path = session_file(home, tmp_path)
    large = message("m1", model="claude-haiku-4-5", input_tokens=1_000_000)
    path.write_text(large + message("m2", model="claude-opus-4-5", output_tokens=1_000_000))
    both = Usage(1_000_000, 1_000_000, cost_usd=26.0, model="claude-haiku-4-5")
    assert ours.measure(None, "s1") == (both, [])
    path.write_text(large + message("m3", model="unheard", output_tokens=1))
    half = Usage(1_000_000, 1, model="claude-haiku-4-5")
    assert ours.measure(None, "s1") == (half, [])


def test_growth_is_an_estimate(processes: Processes, home: Path, tmp_path: Path) -> None:
    path = session_file(home, tmp_path)
    path.write_text("x" * 100)
    ours = meter(processes, tmp_path)
    ours.start("claude")
    assert ours.measure(None, "s1") == (None, [])
    path.write_text("x" * 500)
    assert ours.measure(None, "s1") == (Usage(100, estimated=True), [])


def test_another_home_of_the_agent(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    ours = meter(processes, tmp_path)
    ours.start("claude")
    folder = tmp_path / "claude" / "projects" / str(tmp_path).replace("/", "-")
    folder.mkdir(parents=True)
    (folder / "s1.jsonl").write_text(message("m1", output_tokens=4))
    assert ours.measure(None, "s1") == (Usage(0, 4), [])
