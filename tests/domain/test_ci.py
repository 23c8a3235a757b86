"""What the checks of a pull request say together, and the end of a log."""

from __future__ import annotations

import pytest

from untildone.domain.checks.ci import MOST_SIGNS, Check, Standing, end_of_log, title_of


@pytest.mark.parametrize(
    ("conclusions", "green", "red", "running"),
    [
        ((), False, 0, 0),
        (("success", "neutral", "skipped"), True, 0, 0),
        (("success", ""), False, 0, 1),
        (("success", "failure", "timed_out"), False, 2, 0),
        (("cancelled",), False, 1, 0),
    ],
)
def test_all_checks_together(
    conclusions: tuple[str, ...], green: bool, red: int, running: int
) -> None:
    standing = Standing(tuple(Check("x", word) for word in conclusions))
    assert (standing.is_green, len(standing.red), len(standing.running)) == (green, red, running)


def test_only_failures_are_for_code_to_mend() -> None:
    words = ("failure", "timed_out", "error", "cancelled", "action_required", "stale", "")
    assert [Check("x", word).is_mendable for word in words] == [True] * 3 + [False] * 4


def test_a_log_ends_with_its_error_and_without_stamps() -> None:
    rows = ["2026-11-18T01:02:03.1234567Z ##[group]Run", "2026-11-18T01:02:03.1Z \x1b[31mone"]
    rows += ["##[error]Process completed", "after", "", "clean-up", "more", "last"]
    assert end_of_log("\n".join(rows)) == "one\nerror: Process completed\nafter"
    assert end_of_log("no error\nhere\n") == "no error\nhere"
    assert end_of_log("") == ""


def test_of_a_long_log_the_end_is_kept() -> None:
    assert end_of_log("\n".join(f"row {n}" for n in range(1000))).endswith("row 999")
    assert len(end_of_log("\n".join("x" * 500 for _ in range(100)))) <= MOST_SIGNS


def test_the_title_of_a_second_story_has_a_number() -> None:
    check = Check("docs `x` ## #3: *all*")
    first = title_of(check, [])
    assert first == "Make the CI check docs x ## #3: all pass"
    second = title_of(check, [first])
    assert second == f"{first}, attempt 2"
    assert title_of(check, [first, second]) == f"{first}, attempt 3"
    assert title_of(Check("***"), []) == "Make the CI check of the CI pass"
