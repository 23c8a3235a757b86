"""What can be done now, in one table, of which footer, keys, palette and help are made.

Whatever is not in it does not work now. Each row names the command that does the same.
"""

from collections.abc import Iterator
from typing import NamedTuple

from untildone.domain.reporting.account import StoryAccount
from untildone.domain.stories.parking import Why
from untildone.interfaces.tui.lines import Line, Part, clean
from untildone.interfaces.tui.look import Look

MOVING = {
    "j k, arrows": "move",
    "g G": "to the first, to the last",
    "space b": "a page down, a page up",
    "/ n N": "search, next match, match before",
    "tab": "to the other half of the screen",
}


class Action(NamedTuple):
    """Something that can be done: `call` is the method of the window that does it."""

    key: str
    label: str
    title: str
    call: str
    command: str = ""


def possible(look: Look, view: str, story: StoryAccount | None) -> list[Action]:
    """Everything that works now, the likeliest first."""
    return [
        *_opening(look, view, story),
        *_waiting(look),
        *_steering(look, story),
        *_always(look, view),
    ]


def _opening(look: Look, view: str, story: StoryAccount | None) -> Iterator[Action]:
    """What is looked at next."""
    change = look.change
    logs = f"untildone logs {change} --follow"
    attempt = f"untildone attempts {change} --show {story.id if story else 'STORY'}/K"
    if story and asks(look, story):
        title = f"Answer the question of story {story.id}"
        yield Action("enter", "answer", title, "guide", _answer(change, story.id))
    elif story and view == "stories":
        report = f"untildone report {change}"
        yield Action("enter", "open", f"Open story {story.id}", "go('story')", report)
    if view == "evidence":
        title = "The diff of a checkpoint, or its receipt"
        yield Action("d", "diff", title, "toggle_diff", "git show COMMIT")
    elif view == "story" or (view == "stories" and story and story.calls):
        title = "The diff: from the checkpoint, or from the attempt before"
        yield Action("d", "diff", title, "section('diff')", attempt)
        yield Action("l", "log", "What the agent says", "section('log')", logs)
    if view == "story":
        yield Action("← →", "attempt", "The attempt before, the next one", "attempt(1)")
        checks = "The checks and what they said"
        yield Action("c", "checks", checks, "section('checks')", f"untildone report {change}")
        yield Action("p", "prompt", "What the agent was told", "section('prompt')")
        yield Action("f", "follow", "Follow the end of the log", "follow", logs)


def _waiting(look: Look) -> Iterator[Action]:
    """What the run waits for."""
    change = look.change
    if asking := first_asking(look):
        title = f"Answer the question of story {asking}"
        yield Action("a", "answer", title, "answer", _answer(change, asking))
    match look.phase if look.alive else "":
        case "awaiting_choice":
            command = f"untildone finish {change} cleanup|keep"
            yield Action("e", "choose", "The completion choice", "choose", command)
        case "awaiting_person":
            title = "Say that the run is done"
            yield Action("e", "done", title, "done", f"untildone done {change}")
        case "waiting_budget":
            command = f"untildone resume {change} --budget NAME=AMOUNT"
            yield Action("b", "budget", "Raise the budget", "budget", command)
        case _:
            return


def _steering(look: Look, story: StoryAccount | None) -> Iterator[Action]:
    change = look.change
    if not over(look):
        if story and is_open(look, story):
            yield from _of_story(look, story)
        whom = f" --story {story.id}" if story and is_open(look, story) else ""
        command = f'untildone guide {change}{whom} "TEXT"'
        yield Action("i", "guide", "Tell the agent something", "guide", command)
    if look.alive and not look.run.ended:
        command = f"untildone stop {change} [--after-story]"
        yield Action("x", "stop", f"Stop the run of {change}", "stop", command)
    elif not look.alive:
        title = "Take back the newest change"
        yield Action("u", "undo", title, "undo", f"untildone undo {change}")


def _answer(change: str, story_id: str) -> str:
    return f'untildone guide {change} --story {story_id} "your answer"'


def _of_story(look: Look, story: StoryAccount) -> Iterator[Action]:
    change, parked = look.change, look.parked(story)
    if parked or (story.calls and look.run.ended):
        yield Action(
            "r", "retry", f"Retry story {story.id}", "retry", f"untildone retry {change} {story.id}"
        )
    if not (parked and parked.why is Why.SKIPPED):
        yield Action(
            "s", "skip", f"Skip story {story.id}", "skip", f"untildone skip {change} {story.id}"
        )
    if not look.at_work(story) and not parked:
        yield Action(
            "t",
            "first",
            f"Story {story.id} comes first",
            "first",
            f"untildone reorder {change} {story.id}",
        )


def _always(look: Look, view: str) -> Iterator[Action]:
    if view in ("story", "lanes", "evidence"):
        yield Action(
            "esc", "back", "Back to the stories", "back", f"untildone status {look.change}"
        )
    yield Action("/", "find", "Search", "find")
    yield Action("w", "runs", "Another run of this repository", "runs", "untildone status")
    yield Action(":", "commands", "Everything that can be done", "palette")
    yield Action("q", "leave", "Leave; the run goes on", "quit", f"untildone attach {look.change}")
    yield Action("?", "help", "The keys", "help")


def is_open(look: Look, story: StoryAccount) -> bool:
    """Whether there is something to do for a story, and something to say about it."""
    done = (story.id, story.title) in look.run.finished or story.state == "done before"
    return not (done or look.run.plan.plain)


def asks(look: Look, story: StoryAccount) -> bool:
    """Whether it waits for an answer that can be given."""
    parked = look.parked(story)
    return bool(parked and parked.asks and not over(look))


def first_asking(look: Look) -> str:
    """The story whose question is answered next; empty if none can be."""
    asking = [key[0] for key, parked in look.run.parked.items() if parked.asks]
    return asking[0] if asking and not over(look) else ""


def over(look: Look) -> bool:
    """Whether nothing can be said to this run any more."""
    return look.run.abandoned or (look.run.closed and not look.run.resumable)


# The keys that are worth a place in the footer; the others are in the help.
IN_FOOTER = (
    *("enter", "a", "e", "b", "i", "r", "s", "x", "d", "l", "c", "← →", "p", "f", "u", "esc"),
    *(":", "q", "?"),
)
LAST = ("q", "?")


def footer(actions: list[Action], width: int) -> Line:
    """As many as there is room for; how to leave and how to get help is always there."""
    ranked = {action.key: action for action in reversed(actions) if action.key in IN_FOOTER}
    always = [ranked.pop(key) for key in LAST if key in ranked]
    room = width + 2 - sum(map(_wide, always))
    shown = []
    for action in sorted(ranked.values(), key=lambda action: IN_FOOTER.index(action.key)):
        if _wide(action) > room:
            break
        room -= _wide(action)
        shown.append(action)
    line: Line = [Part(" ")]
    for action in [*shown, *always]:
        call = f"app.{action.call}" + ("" if "(" in action.call else "()")
        line += [Part(action.key, "key", call), Part(f" {action.label}   ", "dim", call)]
    return line


def _wide(action: Action) -> int:
    return len(action.key) + len(action.label) + 4


def explained(actions: list[Action]) -> list[tuple[str, str, str]]:
    """Key, what it does, and the command that does the same."""
    rows = [(key, text, "") for key, text in MOVING.items()]
    views = [("1 2 3 4", "stories, story, lanes and landing queue, evidence", "")]
    return [*views, *rows, *((a.key, clean(a.title), clean(a.command)) for a in actions)]
