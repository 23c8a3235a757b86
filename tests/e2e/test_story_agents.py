"""Stories that name the agent or the model that is to work on them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, fails
from tests.e2e.change import TASKS, tasks_text

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

EVENTS = (
    {"type": "thread.started", "thread_id": "t1"},
    {"type": "item.completed", "item": {"id": "i1", "type": "agent_message", "text": COMPLETE}},
    {
        "type": "turn.completed",
        "usage": {"input_tokens": 1200, "cached_input_tokens": 300, "output_tokens": 45},
    },
)
CODEX = '#!/bin/sh\ncat > /dev/null\necho "$*" >> codex.args\n' + "".join(
    f"echo '{json.dumps(event)}'\n" for event in EVENTS
)


def named(*lines: tuple[int, str]) -> str:
    """The stories, with these lines below their headings."""
    text = tasks_text()
    for number, line in lines:
        at = text.index("\n\n", text.index(f"## {number}. "))
        text = f"{text[:at]}\n\n{line}{text[at:]}"
    return text


def models(bench: Bench) -> list[str]:
    """Which model every call of the fake agent was asked for."""
    calls = [call.argv for call in bench.calls()]
    return [argv[argv.index("--model") + 1] if "--model" in argv else "" for argv in calls]


@pytest.fixture
def claude(bench: Bench) -> Bench:
    bench.install_claude()
    bench.program("codex", CODEX)
    return bench


def test_a_story_is_worked_on_by_the_agent_and_the_model_that_it_names(claude: Bench) -> None:
    claude.write(TASKS, named((1, "Model: opus"), (2, "Agent: codex:small")))
    claude.commit("agents of stories")
    claude.plan()
    done = claude.loop("--agent", "claude").ok()
    started = [
        (e["agent"], e["model"], e.get("instead_of")) for e in done.named("iteration_started")
    ]
    assert started == [
        ("claude", "opus", "claude"),
        ("codex", "small", "claude"),
        ("claude", "", None),
    ]
    assert models(claude) == ["opus", ""]
    assert "-m small" in claude.read("codex.args")
    entries = claude.state()["iterations"]
    assert [(e["agent"], e["tokens_used"]) for e in entries] == [
        *(("claude", 2490), ("codex", 945), ("claude", 2490)),
    ]
    claude.run("replay").ok()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Agent: codexx", "Unknown agent: codexx"),
        ("Agent: goose", "The agent's program was not found: goose"),
        ("Agent: command", "The agent command is empty"),
        ("Model: --yolo", "`--yolo` is no model but an option"),
    ],
)
def test_a_story_that_names_an_agent_that_cannot_be_called_is_refused_with_its_place(
    claude: Bench, line: str, said: str
) -> None:
    claude.write(TASKS, named((2, line)))
    before = claude.snapshot()
    refused = claude.run("run", "demo", "--agent", "claude").ok(2)
    assert f"Story 2 ({TASKS}:8) names its agent: {said}" in refused.stderr
    assert (claude.snapshot(), claude.calls()) == (before, [])


def test_permissions_and_a_money_budget_hold_for_the_agent_of_a_story(claude: Bench) -> None:
    claude.write(TASKS, named((2, "Agent: goose")))
    claude.program("goose", "#!/bin/sh\n")
    refused = claude.run("run", "demo", "--permissions", "edits").ok(2)
    assert "names its agent: The agent goose cannot be held to `--perm" in refused.stderr
    claude.write(TASKS, named((3, "Model: my-own-model"), (1, "Agent: codex")))
    refused = claude.run("run", "demo", "--agent", "codex", "--budget", "cost=5").ok(2)
    assert f"Story 3 ({TASKS}:15) names its agent: What a call of codex:my-own" in refused.stderr


def test_a_dry_run_shows_who_is_to_work_on_each_story(claude: Bench) -> None:
    claude.write(TASKS, named((1, "Agent: codex"), (2, "Model: opus")))
    found = claude.run("run", "demo", "--dry-run", "--json").ok().json()
    assert [row.get("agent") for row in found["stories"]] == ["codex", "claude:opus", None]
    assert (found["agent"]["name"], found["agent"]["argv"][0]) == ("codex", "codex")
    shown = claude.run("run", "demo", "--dry-run").ok().stdout
    assert "Bravo greeting  (by claude:opus)" in shown
    listed = claude.run("stories", "demo").ok().stdout
    assert "Alpha greeting  (by codex)" in listed
    assert "Bravo greeting  (model opus)" in listed


def test_an_attempt_cannot_choose_the_agent_of_another_story(claude: Bench) -> None:
    """Nor does what came later: a story that was not there names nobody."""
    claude.write(TASKS, named((2, "Model: small")))
    claude.commit("models of stories")
    swap = ["sh", f"sed -i 's/Model: small/Model: large/' {TASKS}"]
    late = f"printf '\\n## 4. Late\\n\\nModel: huge\\n\\n- [ ] 4.1 More\\n' >> {TASKS}"
    claude.plan({1: [swap, *DONE], 2: [["sh", late], *DONE]})
    done = claude.loop("--agent", "claude").ok()
    assert done.outcomes() == ["verify_failed", *["complete"] * 4]
    assert "Model: large, was small" in done.named("iteration_ended")[0]["reason"]
    assert models(claude) == ["", "", "small", "", ""]
    assert any("Model: huge, was nothing" in e["message"] for e in done.named("warning"))


def test_a_resumed_run_keeps_the_agents_of_its_stories(claude: Bench) -> None:
    claude.write(TASKS, named((1, "Model: opus")))
    claude.commit("models of stories")
    claude.plan({1: fails("no luck")})
    claude.loop("--agent", "claude", "--max-retries", "0").ok(3)
    claude.run("resume", "demo", "--model", "haiku").ok()
    assert models(claude) == ["opus", "opus", "haiku", "haiku"]


def test_a_story_that_is_stuck_climbs_from_the_rung_that_it_names(claude: Bench) -> None:
    claude.write(TASKS, named((1, "Model: opus"), (2, "Agent: codex")))
    claude.commit("agents of stories")
    claude.plan({n: fails("no port") for n in range(1, 4)})
    ladder = ("--agents", "claude:haiku,claude:opus,claude:max", "--max-retries", "5")
    done = claude.run("run", "demo", "--json", *ladder).ok()
    assert models(claude) == ["opus", "opus", "opus", "max", "haiku"]
    assert [e["agent"] for e in done.named("iteration_started")][-2:] == ["codex", "claude"]


def test_a_dry_run_needs_no_agent_and_says_so(bench: Bench) -> None:
    shown = bench.run("run", "demo", "--dry-run", "--agent", "goose").ok().stdout
    assert "The agent's program was not found: goose" in shown
    assert "Install it with `brew install block-goose-cli`" in shown
    assert "goose run -q" in shown
    data = bench.run("run", "demo", "--dry-run", "--json", "--agent", "goose").ok().json()
    assert any("was not found: goose" in text for text in data["warnings"])
    bench.run("run", "demo", "--agent", "goose").ok(2)
