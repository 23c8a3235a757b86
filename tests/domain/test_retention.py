"""Which runs and refs may go."""

from datetime import UTC, datetime, timedelta

from untildone.domain.run.retention import Recorded, Rule, SavedRef, label_of, old_refs, old_runs

NOW = datetime(2026, 6, 30, 12, tzinfo=UTC)
MONTH = Rule(NOW - timedelta(days=30))
ALL = Rule(datetime.max.replace(tzinfo=UTC), newest_too=True)


def days_ago(count: float) -> datetime:
    return NOW - timedelta(days=count)


def run(age: float, change: str = "demo", *, resumable: bool = False) -> Recorded:
    """A run of one hour that many days ago."""
    started = days_ago(age)
    run_id = f"{started:%Y%m%d-%H%M%S}-00ff"
    return Recorded(run_id, change, started, started + timedelta(hours=1), resumable)


def ref(name: str, age: float = 0.0, run_id: str = "") -> SavedRef:
    return SavedRef(f"refs/ralph/{name}", "c" * 40, days_ago(age), run_id)


def stamp(age: float) -> str:
    return f"{days_ago(age):%Y%m%dT%H%M%S%f}"


def gone(refs: list[SavedRef], runs: list[Recorded], rule: Rule = MONTH) -> list[str]:
    return [r.name.removeprefix("refs/ralph/") for r in old_refs(refs, runs, rule)]


OLD, MIDDLE, NEW = run(60), run(40), run(1)


# runs


def test_old_ended_runs_go_and_the_newest_ended_one_stays() -> None:
    assert old_runs([NEW, OLD, MIDDLE], MONTH) == (OLD, MIDDLE)
    assert old_runs([OLD, MIDDLE], MONTH) == (OLD,)
    assert old_runs([OLD], MONTH) == ()


def test_every_change_has_a_newest_run_of_its_own() -> None:
    other = run(50, "other")
    assert old_runs([OLD, MIDDLE, other], MONTH) == (OLD,)


def test_a_run_that_can_be_resumed_never_goes() -> None:
    assert old_runs([run(60, resumable=True), MIDDLE], ALL) == (MIDDLE,)


def test_the_newest_ended_run_stays_beside_a_newer_one_that_goes_on() -> None:
    assert old_runs([OLD, MIDDLE, run(2, resumable=True)], MONTH) == (OLD,)


def test_all_takes_the_newest_ended_run_too() -> None:
    assert old_runs([OLD, NEW], ALL) == (OLD, NEW)


def test_one_change_only() -> None:
    others = [run(70, "other"), run(50, "other")]
    rule = Rule(MONTH.before, "demo")
    assert old_runs([OLD, MIDDLE, *others], rule) == (OLD,)


def test_the_last_sign_counts_not_the_start() -> None:
    long = Recorded(OLD.run_id, "demo", OLD.started, days_ago(3), resumable=False)
    assert old_runs([long, NEW], MONTH) == ()


# refs


def test_refs_go_with_the_run_that_they_name() -> None:
    refs = [
        ref(f"backup/demo/{OLD.run_id}", 60),
        ref(f"backup/demo/{NEW.run_id}", 60),
        ref("attempts/demo/1/1", 60, OLD.run_id),
        ref("attempts/demo/1/2", 60, NEW.run_id),
        ref("archive/demo/1/1-0123456789ab", 60, OLD.run_id),
        ref("work/demo", 60, OLD.run_id),
    ]
    assert gone(refs, [OLD, NEW]) == [
        f"backup/demo/{OLD.run_id}",
        "attempts/demo/1/1",
        "archive/demo/1/1-0123456789ab",
        "work/demo",
    ]


def test_refs_of_a_run_that_goes_on_stay_however_old() -> None:
    going_on = run(60, resumable=True)
    refs = [
        ref(f"backup/demo/{going_on.run_id}", 60),
        ref("attempts/demo/1/1", 60, going_on.run_id),
        ref(f"archive/demo/{stamp(59.99)}", 400),
        ref("moved/demo/0123456789abcdef", 400),
    ]
    assert gone(refs, [going_on], ALL) == []


def test_an_archive_counts_from_when_it_was_stored() -> None:
    # The branch of the old run, moved out of the way by the new one: its commits are old.
    replaced = ref(f"archive/demo/{stamp(1)}", 60, OLD.run_id)
    brought_back = ref(f"archive/demo/{stamp(39)}-attempt", 39, MIDDLE.run_id)
    own = ref(f"archive/demo/{stamp(59.98)}-feature/x", 300)
    assert gone([replaced, brought_back, own], [OLD, MIDDLE, NEW]) == [
        brought_back.name.removeprefix("refs/ralph/"),
        own.name.removeprefix("refs/ralph/"),
    ]


def test_what_was_stored_later_than_its_run_stays() -> None:
    late = ref(f"archive/demo/{stamp(5)}-attempt", 5, MIDDLE.run_id)
    assert gone([late], [OLD, MIDDLE, run(0.5)]) == []


def test_a_moved_tip_goes_with_the_run_in_which_it_was_made() -> None:
    during_old, during_new = ref("moved/demo/aaaa", 59.99), ref("moved/demo/bbbb", 0.99)
    between, before = ref("moved/demo/cccc", 50), ref("moved/demo/dddd", 900)
    refs = [during_old, during_new, between, before]
    assert gone(refs, [OLD, NEW]) == ["moved/demo/aaaa"]
    assert len(gone(refs, [OLD, NEW], ALL)) == 4


def test_refs_without_a_record_go_by_their_own_age() -> None:
    # The folder of a removed worktree takes its journals along.
    refs = [
        ref(f"backup/lost/{OLD.run_id}", 60),
        ref("attempts/lost/1/1", 60, OLD.run_id),
        ref(f"archive/lost/{stamp(59)}", 60),
        ref("moved/lost/aaaa", 900),
    ]
    assert len(gone(refs, [NEW])) == 4
    young = [*refs, ref(f"backup/lost/{NEW.run_id}", 60)]
    assert gone(young, []) == [r.name.removeprefix("refs/ralph/") for r in refs[:3]]
    assert gone(refs, [NEW], Rule(MONTH.before, "demo")) == []


def test_refs_that_nobody_can_place_stay() -> None:
    refs = [ref("future/demo/x", 900), ref("attempts/demo/1/1", 900), ref("backup/demo/odd", 900)]
    assert gone(refs, [OLD], ALL) == []


def test_a_kind_of_ref_that_names_its_run_goes_with_it() -> None:
    assert gone([ref(f"later/demo/{OLD.run_id}/7")], [OLD, NEW]) == [f"later/demo/{OLD.run_id}/7"]


def test_names_with_slashes_and_digits_that_are_no_time() -> None:
    found = label_of(ref(f"backup/team/demo/{OLD.run_id}"))
    assert found
    assert (found.change, found.run_id, found.stored) == ("team/demo", OLD.run_id, OLD.started)
    assert label_of(ref("backup/demo/99999999-999999-00ff")) is None


def test_what_slots_borrow_is_no_saved_work() -> None:
    """They go with their slot, whoever's commit they hold."""
    pins = [ref(f"slots/0a1b2c3d/{lane}/0123456789abcdef", 90, OLD.run_id) for lane in (0, 1)]
    assert gone(pins, [OLD, NEW], ALL) == []
