"""Whether anybody changed what decides about a story while the loop was at work."""

from msgspec.structs import replace

from untildone.app.run_driver import RunDriver
from untildone.domain.checks import terms
from untildone.domain.stories.story import Story, StoryBook, StoryKey

LEAVE = "What decides about other stories was changed. Leave the lines of other stories as they are"


def look(driver: RunDriver, book: StoryBook) -> None:
    """Say which terms of the stories are not those that the run keeps to."""
    plan = driver.run.plan
    for story in terms.differing(driver.stories, book) if plan.terms is not None else ():
        kept = terms.in_force(story, plan.terms)
        told = terms.changes(kept, terms.written(story, book))
        if told and story.key not in driver.run.finished:
            driver.warn_once(
                f"Story {story.id} says other things than when the run began ({'; '.join(told)}): "
                "the run keeps to what you wrote before it. "
                f"`untildone resume {plan.change_id} --trust-story-checks` takes the new words"
            )
    driver.stories = book


def changed_for_others(driver: RunDriver, now: StoryBook, key: StoryKey) -> str:
    """Why an attempt is not kept that changed what decides about another story."""
    before = driver.stories
    if before is None or driver.run.plan.terms is None:
        return ""  # after a crash: the run keeps to the terms of its start all the same
    rows = []
    for story in terms.differing(now, before):
        if story.key == key or story.key in driver.run.finished:
            continue
        was = terms.written(story, before)
        here = now.find(story.key) or _like(now, story.key)
        if here:
            told = terms.changes(was, _open_again(terms.written(here, now), was, here))
            rows += [f"- story {story.id}: {text}" for text in told]
        elif was.checks:
            rows.append(f"- story {story.id}: it is gone, and with it `{was.checks[0]}`")
    return "\n".join([f"{LEAVE}:", *rows]) if rows else ""


def _open_again(now: terms.Terms, was: terms.Terms, story: Story) -> terms.Terms:
    """Some formats say less of a story that is done; the tick is taken back elsewhere."""
    if not story.done:
        return now
    return replace(now, depends_on=was.depends_on, acceptance=was.acceptance)


def _like(book: StoryBook, key: StoryKey) -> Story | None:
    """A story that was renamed, or has got another number."""
    return next((s for s in book.stories if s.id == key[0] or s.key[1] == key[1]), None)
