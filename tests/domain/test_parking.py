"""Parked stories: passed over, said, and taken up again."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import (
    BOTH,
    LIMITS,
    ONE,
    OPENED,
    PLAN,
    TWO,
    at,
    began,
    book,
    ended,
    loaded,
    lost,
    measured,
    put_back,
    story,
    told,
    tried,
    won,
)
from untildone.app.announce import announce
from untildone.app.wording import next_command
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.apply_fact import taken_back
from untildone.domain.run.machine import apply, next_steps
from untildone.domain.run.plan import Done
from untildone.domain.run.run import Choice, Outcome, Reason, Run, Status, Stop, StopHow
from untildone.domain.run.tally import Tally
from untildone.domain.run.user_requests import unattended
from untildone.domain.stories.parking import NAMED, Aside, Parked, Why, blocked, ordered, words
from untildone.domain.stories.story import Story, StoryKey, Task

SKIP_ONE = f.StoryParked(ONE.key, Why.SKIPPED)
RETRY_ONE = f.StoryRetried(ONE.key)
ASKED = (began(), replace(ended(Outcome.NO_PROMISE), question="Which?"), measured(), put_back())
SKIPS = replace(PLAN, on_fail="skip", limits=replace(LIMITS, max_retries=0))
HELD = replace(loaded(), held=True)
CHAIN = book(ONE, story(2, after=("1",)), story(3, after=("2",)), story(4, after=("1", "3")))


def marked(*numbers: int) -> Story:
    tasks = tuple(Task(f"1.{n}", f"which {n}?", done=False, line=n, asks=True) for n in numbers)
    return Story("1", "Story 1", tasks)


def events(run: Run, fact: f.Fact) -> list[dict[str, object]]:
    said = announce(run, fact, apply(run, fact, at(90)))
    return [{"event": event.name, **event.data} for event in said]


# -- passed over -------------------------------------------------------------------------------


def test_a_parked_story_is_passed_over() -> None:
    run = told(OPENED, SKIP_ONE, loaded())
    assert next_steps(run) == (s.RunAttempt(0, 1, TWO, 1, 3, ""),)
    assert run.parked == {ONE.key: Parked(Why.SKIPPED, "", at(2))}


def test_what_depends_on_a_parked_story_does_not_start() -> None:
    stories = book(ONE, story(2, after=("1",)), story(3))
    run = told(OPENED, SKIP_ONE, loaded(stories))
    assert next_steps(run) == (s.RunAttempt(0, 1, story(3), 1, 3, ""),)


def test_a_story_parked_after_the_last_look_means_another_look() -> None:
    only = loaded(book(ONE))
    run = told(OPENED, SKIP_ONE, only)  # read before the wish came, recorded after it
    assert next_steps(run) == (s.LoadStories(),)


def test_a_wish_means_another_look() -> None:
    assert told(OPENED, loaded(), SKIP_ONE).book is None
    assert told(OPENED, loaded(), SKIP_ONE, loaded(), RETRY_ONE).book is None


def test_but_not_while_an_iteration_needs_the_book() -> None:
    run = told(OPENED, loaded(), began(), SKIP_ONE)
    assert run.book == BOTH


def test_a_finished_story_is_not_parked() -> None:
    run = told(OPENED, loaded(), *won())
    assert apply(run, SKIP_ONE, at(9)) == run
    assert apply(run, RETRY_ONE, at(9)) == run


def test_a_story_that_gets_finished_is_parked_no_more() -> None:
    run = told(OPENED, loaded(), began(), SKIP_ONE, ended(), measured(), f.Saved(0, "c1", "c1"))
    assert run.parked == {}
    assert run.finished == {ONE.key}


# -- a question --------------------------------------------------------------------------------


def test_a_question_parks_the_story_and_burns_no_retry() -> None:
    run = told(OPENED, loaded(), *ASKED)
    ref = "refs/ralph/attempts/demo/1/1"
    assert run.parked == {ONE.key: Parked(Why.QUESTION, "Which?", at(4), ref)}
    assert run.tallies == {ONE.key: Tally(calls=1)}
    assert run.iterations[0].outcome_class == "question"
    assert next_steps(apply(run, loaded(), at(9))) == (s.RunAttempt(0, 2, TWO, 1, 3, ""),)


def test_events_of_a_question() -> None:
    stories = loaded(book(ONE, story(2, after=("1",))))
    run = told(OPENED, stories, *ASKED[:-1])
    assert events(run, ASKED[-1]) == [
        {"event": "reverted", "story_id": "1", "saved_ref": "refs/ralph/attempts/demo/1/1"},
        {
            "event": "story_parked",
            "story_id": "1",
            "title": "Story 1",
            "why": Why.QUESTION,
            "question": "Which?",
            "reason": "",
            "saved_ref": "refs/ralph/attempts/demo/1/1",
            "blocks": ("2",),
        },
    ]


# -- retries used up ---------------------------------------------------------------------------


def test_on_fail_skip_parks_the_story() -> None:
    run = told(OPENED, loaded(), *lost(), plan=SKIPS)
    assert (run.status, run.reason) == (Status.RUNNING, None)
    parked = Parked(Why.FAILED, "why", at(4), "refs/ralph/attempts/demo/1/1")
    assert run.parked == {ONE.key: parked}


def test_on_fail_skip_waits_for_the_last_retry() -> None:
    more = replace(SKIPS, limits=replace(LIMITS, max_retries=1))
    assert told(OPENED, loaded(), *lost(), plan=more).parked == {}


def test_events_of_a_story_that_failed() -> None:
    run = told(OPENED, loaded(), *lost()[:-1], plan=SKIPS)
    said = events(run, put_back())
    assert [event["event"] for event in said] == ["reverted", "story_parked"]
    assert (said[1]["why"], said[1]["reason"], said[1]["question"]) == (Why.FAILED, "why", "")


# -- the end -----------------------------------------------------------------------------------


def test_only_parked_stories_left() -> None:
    run = told(OPENED, loaded(), *lost(), HELD, plan=SKIPS)
    assert (run.status, run.reason) == (Status.STUCK, Reason.PARKED)
    assert next_steps(run) == (s.AskChoice(),)


def test_a_stop_comes_first() -> None:
    run = told(OPENED, f.StopRequested(Stop(StopHow.AFTER_ITERATION)), HELD)
    assert run.reason is Reason.STOPPED


def test_parked_says_more_than_the_cap() -> None:
    plan = replace(SKIPS, limits=replace(SKIPS.limits, max_iterations=1))
    assert told(OPENED, loaded(), *lost(), HELD, plan=plan).reason is Reason.PARKED


def test_the_end_names_every_story_and_the_command() -> None:
    stories = book(ONE, TWO, story(3, after=("2",)))
    run = told(OPENED, loaded(stories), *ASKED, f.StoryParked(TWO.key, Why.SKIPPED, "later"))
    said = events(run, replace(loaded(stories), held=True))
    assert said[1:] == [
        {
            "event": "error",
            "message": "Story 1 waits for an answer",
            "story_id": "1",
            "reason": "Which?",
            "saved_ref": "refs/ralph/attempts/demo/1/1",
            "hint": '`untildone guide demo --story 1 "your answer"`, then `untildone resume demo`',
        },
        {
            "event": "warning",
            "message": "Story 2 was skipped on request; not started because of it: 3. To take it "
            "up again: `untildone retry demo 2`, then `untildone resume demo`",
        },
        {
            "event": "complete",
            "reason": Reason.PARKED,
            "options": ["cleanup", "keep"],
            "checked": False,
            "stories": {},
        },
    ]


@pytest.mark.parametrize("why", Why)
def test_there_is_always_a_next_command(why: Why) -> None:
    assert "`untildone resume demo`" in next_command("demo", "1", why)


# -- taken up again ----------------------------------------------------------------------------


def test_retry_takes_the_story_up_with_all_its_retries() -> None:
    run = told(OPENED, loaded(), *lost(), *lost(2), SKIP_ONE, RETRY_ONE)
    assert run.parked == {}
    assert run.tallies == {ONE.key: Tally(calls=2, reason="why", tried=(tried(1), tried(2)))}
    before = told(OPENED, loaded(), *lost(), *lost(2), SKIP_ONE)
    assert events(before, RETRY_ONE) == [
        {"event": "story_released", "story_id": "1", "title": "Story 1"}
    ]


@pytest.mark.parametrize("wish", [SKIP_ONE, RETRY_ONE])
def test_a_stuck_loop_that_waits_for_the_choice_goes_on(wish: f.Fact) -> None:
    run = told(OPENED, loaded(), *lost(), *lost(2), *lost(3), wish)
    assert (run.status, run.reason) == (Status.RUNNING, None)
    assert next_steps(run) == (s.LoadStories(),)


def test_an_ended_run_stays_ended() -> None:
    facts = (OPENED, loaded(), *ASKED, HELD, f.ChoiceMade(Choice.KEEP), f.Closed(Choice.KEEP))
    run = told(*facts, RETRY_ONE)
    assert (run.status, run.reason, run.parked) == (Status.STUCK, Reason.PARKED, {})


def test_skipping_what_is_parked_does_not_wake_the_loop() -> None:
    run = told(OPENED, loaded(), *ASKED, HELD, SKIP_ONE)
    assert run.reason is Reason.PARKED
    assert run.parked[ONE.key].why is Why.SKIPPED


@pytest.mark.parametrize("why", Why)
def test_resume_tries_again_what_the_loop_gave_up(why: Why) -> None:
    run = told(OPENED, f.StoryParked(ONE.key, why), f.Resumed(PLAN))
    assert set(run.parked) == (set() if why in (Why.FAILED, Why.STUCK) else {ONE.key})


def test_an_undo_leaves_the_persons_wishes() -> None:
    then = told(OPENED, loaded())
    now = told(OPENED, loaded(), *won(), f.StoryParked(TWO.key, Why.SKIPPED), RETRY_ONE)
    after = taken_back(now, then)
    assert (after.parked, after.finished) == (now.parked, frozenset())


# -- marked by the person ----------------------------------------------------------------------


def test_a_marked_story_is_parked_and_its_mark_can_go() -> None:
    mark = ((ONE.key, "which?"),)
    run = told(OPENED, replace(loaded(), marked=mark))
    assert run.parked == {ONE.key: Parked(Why.MARKED, "which?", at(2))}
    again = apply(run, replace(loaded(), marked=mark), at(9))
    assert again.parked == run.parked
    assert apply(run, loaded(), at(9)).parked == {}


def test_what_was_parked_otherwise_stays_so() -> None:
    run = told(OPENED, SKIP_ONE, replace(loaded(), marked=((ONE.key, "which?"),)))
    assert run.parked[ONE.key].why is Why.SKIPPED


def test_a_parked_story_that_is_open_no_more_is_forgotten() -> None:
    gone = replace(loaded(), settled=(ONE.key, TWO.key))
    assert told(OPENED, SKIP_ONE, gone).parked == {}


def test_what_a_look_sets_aside() -> None:
    skipped = Parked(Why.SKIPPED, "", at(0))
    old_mark = Parked(Why.MARKED, "", at(0))
    asks = marked(1, 2)
    both, none = book(asks, TWO), frozenset[StoryKey]()
    assert Aside.of(both, none, {}, ()) == Aside(
        frozenset({ONE.key}), ((ONE.key, "which 1?\nwhich 2?"),), ()
    )
    assert Aside.of(both, none, {}, {ONE.key}) == Aside(frozenset(), (), ())
    assert Aside.of(both, {ONE.key}, {}, ()) == Aside(frozenset(), (), ())
    assert Aside.of(both, none, {TWO.key: skipped, ("9", "Gone"): skipped}, {ONE.key}) == Aside(
        frozenset({TWO.key}), (), (("9", "Gone"),)
    )
    assert Aside.of(both, {TWO.key}, {TWO.key: skipped}, {ONE.key}) == Aside(
        frozenset(), (), (TWO.key,)
    )
    assert Aside.of(book(TWO), none, {ONE.key: old_mark}, ()) == Aside(frozenset(), (), ())


def test_a_ticked_task_asks_nothing() -> None:
    task = Task("1.1", "which?", done=True, line=1, asks=True)
    assert Story("1", "Story 1", (task,)).question == ""


# -- who waits ---------------------------------------------------------------------------------


def test_who_waits_for_a_parked_story() -> None:
    none: frozenset[StoryKey] = frozenset()
    keys = [s.key for s in CHAIN.stories]
    assert blocked(CHAIN, none, keys) == dict(
        zip(keys, [("2", "3", "4"), ("3", "4"), ("4",), ()], strict=True)
    )
    assert blocked(None, none, keys) == {}
    assert blocked(CHAIN, frozenset(keys[1:]), keys[:1]) == {keys[0]: ()}


def test_not_all_of_many_are_named() -> None:
    chain = book(ONE, *(story(n, after=(str(n - 1),)) for n in range(2, 1000)))
    said = blocked(chain, frozenset(), [s.key for s in chain.stories])
    assert len(said) == len(said[ONE.key]) == NAMED


# -- guidance and order ------------------------------------------------------------------------


def guided(text: str = "Tabs.", of: Story | None = None, name: str = "") -> f.Guided:
    return f.Guided(text, of.key if of else None, name)


def test_guidance_is_for_all_stories_or_for_one() -> None:
    run = told(OPENED, guided(), guided("Two only.", TWO))
    assert words(run.guidance, ONE.key) == "Tabs."
    assert words(run.guidance, TWO.key) == "Tabs.\n\nTwo only."
    assert words(run.guidance, None) == "Tabs."
    assert words((), ONE.key) == ""


def test_guidance_of_a_story_ends_with_it() -> None:
    run = told(OPENED, guided(), guided("One only.", ONE), loaded(), *won())
    assert [piece.text for piece in run.guidance] == ["Tabs."]
    assert apply(run, guided("Too late.", ONE), at(9)) == run


def test_guidance_of_a_plain_loop_stays() -> None:
    plan = replace(PLAN, plain=True, done=Done.MANUAL)
    run = told(OPENED, guided(), *won(1, None), plan=plan)
    assert [piece.text for piece in run.guidance] == ["Tabs."]


def test_a_message_that_comes_twice_is_heard_once() -> None:
    run = told(OPENED, guided(name="7"), guided(name="7"), guided(), guided())
    assert [piece.id for piece in run.guidance] == ["7", "", ""]


def test_guidance_can_be_taken_back() -> None:
    run = told(OPENED, guided(), guided("Two only.", TWO))
    assert apply(run, f.GuidanceCleared(), at(9)).guidance == ()
    left = apply(run, f.GuidanceCleared(TWO.key), at(9)).guidance
    assert [piece.text for piece in left] == ["Tabs."]


@pytest.mark.parametrize("of", [ONE, None])
def test_guidance_answers_a_question(of: Story | None) -> None:
    run = told(OPENED, loaded(), *ASKED, HELD, guided("That one.", of))
    assert (run.parked, run.status, run.reason) == ({}, Status.RUNNING, None)
    said = "An earlier attempt asked: Which?\nThe answer: That one."
    assert words(run.guidance, ONE.key) == said
    assert next_steps(run) == (s.LoadStories(),)


def test_guidance_for_all_answers_no_one_of_two_questions() -> None:
    mark = replace(loaded(), marked=((TWO.key, "where?"),))
    run = told(OPENED, loaded(), *ASKED, mark, guided())
    assert set(run.parked) == {ONE.key, TWO.key}
    assert words(run.guidance, ONE.key) == "Tabs."


def test_an_answered_mark_does_not_ask_again() -> None:
    run = told(OPENED, replace(loaded(), marked=((ONE.key, "which?"),)), guided("That.", ONE))
    assert (run.parked, run.answered) == ({}, frozenset({ONE.key}))
    assert words(run.guidance, ONE.key) == "That."


def test_guidance_takes_up_what_failed_but_not_what_was_skipped() -> None:
    run = told(OPENED, loaded(), *lost(), guided("Try this.", ONE), plan=SKIPS)
    assert run.parked == {}
    assert set(told(OPENED, SKIP_ONE, guided("Later.", ONE)).parked) == {ONE.key}


@pytest.mark.parametrize(("configured", "cap"), [(0, LIMITS.max_iterations + 3), (5, 9)])
def test_renewed_retries_have_room(configured: int, cap: int) -> None:
    plan = replace(PLAN, configured_max=configured)
    run = told(OPENED, loaded(), *lost(), SKIP_ONE, RETRY_ONE, plan=plan)
    assert run.plan.limits.max_iterations == cap
    fresh = told(OPENED, SKIP_ONE, RETRY_ONE, plan=plan)
    assert fresh.plan.limits.max_iterations == LIMITS.max_iterations


def test_events_of_guidance_and_order() -> None:
    run = told(OPENED, loaded())
    assert events(run, guided("Two only.", TWO)) == [
        {"event": "guided", "story_id": "2", "text": "Two only."}
    ]
    assert events(run, guided())[0]["story_id"] == ""
    reordered = f.StoriesReordered((TWO.key, ONE.key))
    assert events(run, reordered) == [{"event": "reordered", "story_ids": ["2", "1"]}]
    added = f.StoryAdded(("3", "C"))
    assert events(run, added) == [{"event": "added", "story_id": "3", "title": "C"}]
    assert events(run, f.GuidanceCleared()) == []


def test_the_newest_order_comes_first() -> None:
    three = story(3).key
    first, second = f.StoriesReordered((ONE.key, TWO.key)), f.StoriesReordered((three, ONE.key))
    run = told(OPENED, loaded(), first, second)
    assert (run.order, run.book) == ((three, ONE.key, TWO.key), None)


def test_the_order_that_the_person_wants() -> None:
    stories = book(*(story(n) for n in (1, 2, 3, 4)))
    assert ordered(stories, ()) is stories
    wanted = (story(3).key, ("9", "Gone"), story(1).key)
    assert [s.id for s in ordered(stories, wanted).open_stories(set())] == ["3", "1", "2", "4"]


def test_an_order_comes_before_priorities() -> None:
    stories = book(replace(ONE, priority=-7, rank=-7), TWO)
    assert [s.id for s in ordered(stories, (TWO.key,)).open_stories(set())] == ["2", "1"]


def test_dependencies_still_count() -> None:
    stories = ordered(CHAIN, (story(4).key, story(2).key))
    assert stories.next_story(frozenset()) == ONE
    assert stories.next_story(frozenset({ONE.key})).id == "2"  # type: ignore[union-attr]  # it is open


# -- asked at a terminal -----------------------------------------------------------------------

ASKS = replace(SKIPS, on_fail="ask")
FAILED_ONE = (OPENED, loaded(), *lost())


def test_on_fail_ask_wants_a_decision_before_anything_else() -> None:
    run = told(*FAILED_ONE, plan=ASKS)
    assert next_steps(run) == (s.AskAboutStory(ONE.key),)
    said = events(told(OPENED, loaded(), *lost()[:-1], plan=ASKS), put_back())
    assert [event["event"] for event in said] == ["reverted", "story_parked", "waiting"]
    assert said[-1]["class"] == "decision"
    asked = told(OPENED, loaded(), *ASKED, plan=ASKS)
    assert next_steps(asked) == (s.AskAboutStory(ONE.key),)


@pytest.mark.parametrize(
    ("wish", "parked"),
    [
        (RETRY_ONE, None),
        (f.Guided("Tabs.", ONE.key), None),
        (SKIP_ONE, Why.SKIPPED),
    ],
)
def test_what_the_person_may_decide(wish: f.Fact, parked: Why | None) -> None:
    run = told(*FAILED_ONE, wish, plan=ASKS)
    assert (run.undecided, run.ended) == (None, False)
    assert {key: entry.why for key, entry in run.parked.items()} == (
        {ONE.key: parked} if parked else {}
    )
    assert next_steps(run) == (s.LoadStories(),)


def test_a_wish_about_another_story_decides_nothing() -> None:
    run = told(*FAILED_ONE, f.StoryParked(TWO.key, Why.SKIPPED), guided("Tabs."), plan=ASKS)
    assert run.undecided == ONE.key


def test_to_give_up_a_failed_story_ends_the_run() -> None:
    given_up = f.GivenUp(ONE.key)
    run = told(*FAILED_ONE, given_up, plan=ASKS)
    assert (run.status, run.reason, run.parked) == (Status.STUCK, Reason.MAX_RETRIES, {})
    said = events(told(*FAILED_ONE, plan=ASKS), given_up)
    assert [event["event"] for event in said[:1]] == ["error"]
    assert (said[0]["reason"], said[0]["saved_ref"]) == ("why", "refs/ralph/attempts/demo/1/1")
    assert said[-1]["event"] == "complete"
    assert apply(run, given_up, at(99)) == run
    assert events(run, given_up) == []


def test_to_give_up_a_question_ends_the_run_with_it() -> None:
    run = told(OPENED, loaded(), *ASKED, f.GivenUp(ONE.key), plan=ASKS)
    assert (run.status, run.reason, set(run.parked)) == (*(Status.STUCK, Reason.PARKED, {ONE.key}),)


def test_what_is_done_when_nobody_is_there() -> None:
    failed = told(*FAILED_ONE, plan=ASKS).parked[ONE.key]
    assert unattended(ONE.key, failed) == f.GivenUp(ONE.key)
    asked = told(OPENED, loaded(), *ASKED, plan=ASKS)
    kept = unattended(ONE.key, asked.parked[ONE.key])
    run = apply(asked, kept, at(9))
    assert (run.undecided, run.parked[ONE.key].text) == (None, "Which?")


def test_a_soft_stop_does_not_wait_for_the_decision() -> None:
    run = told(*FAILED_ONE, f.StopRequested(Stop(StopHow.AFTER_ITERATION)), plan=ASKS)
    assert run.status is Status.STOPPED
    again = apply(run, f.Resumed(ASKS), at(9))
    assert (again.undecided, again.parked) == (None, {})


def test_guidance_for_all_answers_all_who_ask_the_same() -> None:
    mark = replace(loaded(), marked=((TWO.key, " WHICH? "),))
    run = told(OPENED, loaded(), *ASKED, mark, guided("That one."))
    assert (run.parked, run.answered) == ({}, frozenset({ONE.key, TWO.key}))
    said = "An earlier attempt asked: Which?\nThe answer: That one."
    assert (words(run.guidance, ONE.key), words(run.guidance, TWO.key)) == (said, said)
