"""A plan in rows: what was chosen is shown, whatever field it is in."""

from msgspec import Struct
from msgspec.structs import replace

from tests.fakes.plans import PLAN
from untildone.domain.run.plan import Limits
from untildone.interfaces.plan_rows import plan_rows, text_of


def test_choices_are_shown_by_name_and_what_is_usual_is_not() -> None:
    usual = dict(plan_rows(PLAN))
    assert usual["checks"] == "none: a story counts by the agent's word alone"
    assert usual["limit of a call"] == "45 min"
    assert not {"fallback", "resume session", "limit of a check"} & set(usual)
    plan = replace(
        PLAN,
        fallback="codex:mini",
        resume_session=True,
        verify=("pytest", "warn: ruff check"),
        limits=Limits(verify_timeout_min=2.5),
    )
    chosen = dict(plan_rows(plan))
    assert chosen["fallback"] == "codex:mini"
    assert chosen["resume session"] == "yes"
    assert chosen["checks"] == "pytest\nwarn: ruff check"
    assert chosen["limit of a check"] == "2.5 min"


def test_a_command_is_shown_only_where_it_can_be_called() -> None:
    label, plan = "agent command", replace(PLAN, agent="claude", agent_cmd="x")
    assert label not in dict(plan_rows(plan))
    assert dict(plan_rows(replace(plan, fallback="command")))[label] == "x"


class Anything(Struct, frozen=True):
    name: str
    amount_usd: float | None = None


def test_any_value_has_a_text() -> None:
    assert text_of((Anything("x", 2.0), Anything("y"))) == "name x, amount usd 2\nname y"
    assert text_of({"a": True, "b": None}) == "a: yes\nb: "
