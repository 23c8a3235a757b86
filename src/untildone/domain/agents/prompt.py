"""The prompt of one agent call: same input, same bytes."""

import re

from msgspec import Struct

from untildone.domain.agents.learnings import Notes, section
from untildone.domain.agents.promise import neutralise
from untildone.domain.agents.same_failure import ANOTHER_WAY, Tried, repeats
from untildone.domain.checks.checks import Check, Level
from untildone.domain.errors import UserError
from untildone.domain.plain_text import cut
from untildone.domain.stories.story import Story, StoryContext

TASKS_LIMIT = 60_000
CONTEXT_LIMIT = 12_000
GUIDANCE_LIMIT = 12_000
PROTECTED_LIMIT = 4_000
CLEAN_ROOM = (
    "They run in a fresh checkout of what git would commit: files that git ignores are not there."
)
NO_CONTEXT = StoryContext()
NO_NOTES = Notes()

STORY_TEMPLATE = """\
You are working on one story of the change `{{change}}` in this repository.

# Story {{story_id}}: {{story_title}}

{{tasks}}

{{context}}

{{beside}}

# How to work

- Do this story only. Other stories of the change are done by other calls; leave them alone.
- Work in the current folder and on the current branch. Do not switch branches, rewrite history or push.
- The loop commits your work when the story is complete; you need not commit.
- {{marking}}

{{verify}}

{{protected}}

{{guidance}}

{{learnings}}

{{reason}}

# How to end

When every task above is really done and checked, end your last message with the line `<promise>COMPLETE</promise>`.
If you cannot finish, end it with `<promise>FAILED: the reason in a few words</promise>` instead; the reason is given to the next attempt.
If only the person who runs this can decide something, end it with `<promise>ASK: your question</promise>`; the story waits for the answer.
Write exactly one of the three, on a line of its own, without quotes or a code block around it.
"""

PLAIN_TEMPLATE = """\
{{tasks}}

{{context}}

# How to work

- Work in the current folder and on the current branch. Do not switch branches, rewrite history or push.
- Your work is kept and committed after this call; the next call goes on from it.

{{verify}}

{{protected}}

{{guidance}}

{{learnings}}

# How to end

When all of the work above is really done and checked, end your last message with the line `<promise>COMPLETE</promise>`.
If you cannot go on, end it with `<promise>FAILED: the reason in a few words</promise>` instead.
Write exactly one of the two, on a line of its own, without quotes or a code block around it.
"""


class Brief(Struct, frozen=True):
    """All that goes into a prompt. `story` is None in the plain loop, whose `task` is the text.

    Where several stories are worked on at once: those that `landed` since the run began, those at
    work `beside` this one, and as a patch the `earlier_work` on it that could not land.
    """

    change: str
    story: Story | None
    task: str = ""
    context: StoryContext = NO_CONTEXT
    checks: tuple[Check, ...] = ()
    protected: tuple[str, ...] = ()
    clean_room: bool = False
    reason: str = ""
    tried: tuple[Tried, ...] = ()
    notes: Notes = NO_NOTES
    guidance: str = ""
    template: str = ""
    tasks_file: str = ""
    boxes: bool = True
    landed: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    earlier_work: str = ""


def render(brief: Brief) -> str:
    """The prompt; empty sections leave no trace, nothing in it can be taken for a promise."""
    story = brief.story
    template = brief.template or (STORY_TEMPLATE if story else PLAIN_TEMPLATE)
    values = {
        "change": brief.change,
        "story_id": story.id if story else "",
        "story_title": story.title if story else "",
        "tasks": _tasks(story) if story else brief.task.strip(),
        "tasks_file": f" in `{brief.tasks_file}`" if brief.tasks_file else "",
        "marking": _marking(brief),
        "context": _context(brief.context),
        "verify": _verify(brief.checks, clean_room=brief.clean_room),
        "protected": _protected(brief.protected),
        "beside": _beside(brief.landed, brief.beside),
        "guidance": _section(
            "Guidance from the person who runs this", cut(brief.guidance, GUIDANCE_LIMIT)
        ),
        "reason": _again(brief)
        if brief.earlier_work
        else earlier_attempts(brief.reason, brief.tried),
        "learnings": section(brief.notes),
    }
    missing = {m for m in re.findall(r"\{\{(\w+)\}\}", template) if m not in values}
    if missing:
        raise UserError(
            f"The prompt template uses unknown names: {', '.join(sorted(missing))}",
            hint=f"Known names: {', '.join(values)}",
        )
    text = re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)
    return neutralise(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


def _tasks(story: Story) -> str:
    lines = [story.body.strip(), ""] if story.body.strip() else []
    for task in story.tasks:
        lines.append(f"- [{'x' if task.done else ' '}] {task.text}")
        if task.detail:
            lines.append(task.detail.rstrip("\n"))
    boxes = "\n".join(task.text for task in story.tasks)
    criteria = [text for text in story.acceptance if text not in boxes]
    if criteria:
        lines += ["", "Acceptance criteria:", "", *(f"- {text}" for text in criteria)]
    return cut("\n".join(lines), TASKS_LIMIT)


def _marking(brief: Brief) -> str:
    where = f" in `{brief.tasks_file}`" if brief.tasks_file else ""
    if brief.boxes:
        return f"Tick the boxes of this story's tasks{where} if you like; the loop ticks what you forget."
    return f"The loop itself marks the story as done{where}; leave the states of the stories alone."


def _context(context: StoryContext) -> str:
    parts = []
    if context.pointers:
        files = "\n".join(f"- `{path}`" for path in context.pointers)
        parts.append(f"# Read first\n\n{files}")
    if context.scenarios:
        parts.append("# Scenarios that must hold\n\n" + "\n\n".join(context.scenarios))
    return cut("\n\n".join(parts), CONTEXT_LIMIT)


def _verify(checks: tuple[Check, ...], *, clean_room: bool) -> str:
    parts = [f"{intro}\n\n{listed}" for level, intro in _CHECKS if (listed := _of(level, checks))]
    if parts and clean_room:
        parts.append(CLEAN_ROOM)
    return "# Checks\n\n" + "\n\n".join(parts) if parts else ""


_CHECKS = (
    (Level.REQUIRED, "The loop runs these itself after your promise; all must pass:"),
    (Level.WARN, "The loop also runs these, and tells the person what fails:"),
)


def _protected(paths: tuple[str, ...]) -> str:
    if not paths:
        return ""
    listed = cut("\n".join(f"- `{path}`" for path in paths), PROTECTED_LIMIT)
    intro = "Leave these files as they are; an attempt that changes, moves or deletes one fails:"
    return f"# Protected files\n\n{intro}\n\n{listed}"


def _of(level: Level, checks: tuple[Check, ...]) -> str:
    return "\n".join(f"- `{check.command}`" for check in checks if check.level is level)


def _beside(landed: tuple[str, ...], beside: tuple[str, ...]) -> str:
    """A few lines about other stories of this run: agents do not talk to each other."""
    parts = []
    if landed:
        parts.append("Finished since the run began, and in the files here:\n\n" + _few(landed))
    if beside:
        text = "Worked on right now by others, in folders of their own; stay out of their way:"
        parts.append(f"{text}\n\n{_few(beside)}")
    return _section("Beside this story", "\n\n".join(parts))


def _few(titles: tuple[str, ...]) -> str:
    more = [f"- and {len(titles) - MOST_TITLES} before"] if len(titles) > MOST_TITLES else []
    return "\n".join([*more, *(f"- {title}" for title in titles[-MOST_TITLES:])])


def _again(brief: Brief) -> str:
    """Work that was right where it began, and has to be done again on what landed since."""
    return AGAIN.format(
        reason=cut(brief.reason, REASON_LIMIT), patch=cut(brief.earlier_work, PATCH_LIMIT)
    )


def _section(title: str, text: str) -> str:
    return f"# {title}\n\n{text.strip()}" if text.strip() else ""


MOST_TITLES = 8
PATCH_LIMIT = 20_000
AGAIN = """\
# Do it again here

This story was finished once, and its work could not be brought together with what others had
finished meanwhile:

{reason}

The patch below was right where it was made. The files here are newer: do the same again on them.

{patch}"""
REASON_LIMIT = 6_000
EARLIER_LIMIT = 3_000
LINE_LIMIT = 300
ANOTHER = """\
# Take another way

The last {count} attempts failed in the same way; the same approach will fail again.{look} Find out
first why it failed, then choose an approach that differs from it: another place in the code, a new
method, smaller steps, or first the check that fails. If the story cannot be done as it is written,
say so with FAILED and what is missing."""


def earlier_attempts(reason: str, tried: tuple[Tried, ...]) -> str:
    """The section about earlier attempts; nothing unless the last one gave a reason."""
    if not reason:
        return ""
    intro = "The previous attempt failed and its changes were put back. Its reason:"
    parts = [f"# The previous attempt\n\n{intro}\n\n{cut(reason, REASON_LIMIT)}"]
    earlier = [_line(attempt) for attempt in tried[:-1] if attempt.reason]
    if earlier:
        intro = "These failed before it and were put back too, the newest last:"
        listed = cut("\n".join(earlier), EARLIER_LIMIT)
        parts.append(f"# Earlier attempts\n\n{intro}\n\n{listed}")
    if (count := repeats(tried)) >= ANOTHER_WAY:
        ref = tried[-1].saved_ref
        look = f" `git show {ref}` shows the last one." if ref else ""
        parts.append(ANOTHER.format(count=count, look=look))
    return "\n\n".join(parts)


_ENDED = {"verify_failed": "not accepted", "agent_error": "crashed"}


def _line(tried: Tried) -> str:
    essence = " ".join(tried.reason.split())
    if len(essence) > LINE_LIMIT:
        half = LINE_LIMIT // 2
        essence = f"{essence[:half]} … {essence[-half:]}"
    what = _ENDED.get(tried.outcome, "gave up")
    where = f" (`git show {tried.saved_ref}`)" if tried.saved_ref else ""
    return f"- Attempt {tried.attempt}, {what}: {essence}{where}"
