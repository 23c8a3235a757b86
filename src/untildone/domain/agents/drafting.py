"""What an agent is told that drafts a plan, or that asks what a plan leaves open."""

from collections.abc import Sequence

from msgspec import Struct

from untildone.domain.agents.promise import neutralise
from untildone.domain.plain_text import cut

IDEA_LIMIT = 60_000
FINDINGS_LIMIT = 12_000
PLAN_LIMIT = 120_000

_DRAFT = """\
# Draft a plan: {change}

You are planning work that others will do. Coding agents will work through your plan without a
person beside them: one call per story, each in a fresh conversation that sees this repository and
its own story, and nothing of this conversation. Write the plan. Do not do any of its work.

# The idea

{idea}

# Look first

Read before you write: the readme, the layout, the code that the idea touches, its tests, and how
tests are run here. Name files, functions and commands that exist. Change nothing but the plan.
{checks}

# What to write

{form}

# What makes a good story

- **Small.** One call finishes it: one outcome, a few files, two to eight tasks. Cut by what can be
  seen to work, not by layer: no story that only "prepares", none that only writes the tests of
  another one. More than ten stories is a sign to plan the first useful part only.
- **Checkable.** A `Verify:` line with a command in code ticks that fails today and passes when
  the story is done: the narrowest test of this project that proves it, such as one test file that
  the story itself adds. The command must be able to start here. No command that only looks whether
  a file exists, no sentence, no "manually".
- **Complete in itself.** Whoever reads only this story knows where to begin, what the outcome is,
  and what happens with wrong input. Write examples: this goes in, that comes out. No `TBD`, no
  "etc.", no "as discussed", no "improve".
- **In order.** What a story needs comes before it, and is named in `Depends:`. Stories that do not
  need each other say nothing: they may be worked on at once. No circles.
- **Told apart.** `Touches:` names the files that it will change, as paths or globs. Two stories
  that wait for nothing should not touch the same file.
- **Safe to stop after.** After each story the project works and its tests pass. Documentation and
  changelog are tasks of the story that makes them necessary.
- Nothing secret: no keys, tokens, passwords, addresses of people.

What the idea leaves open: take the smallest and most careful reading, and write your assumption
into the story that relies on it.
{again}
# How to end

When the plan is written and you have read it once more against the points above, end your last
message with the line `<promise>COMPLETE</promise>`. If no plan can be made of the idea, end it with
`<promise>FAILED: the reason in a few words</promise>`. If only the person can decide something
without which nothing can be planned, end it with `<promise>ASK: your question</promise>`.
"""

_MARKDOWN = """\
```markdown
## 1. Title of the story

One or two sentences: what is different when it is done, and why.

Verify: `COMMAND`
Touches: path/one, path/two/**

- [ ] 1.1 The first task, with its file
- [ ] 1.2 The next one

## 2. Title of the next story

Verify: `COMMAND`
Touches: path/three
Depends: 1

- [ ] 2.1 ...
```

Every story is a heading of the second level with a number; every task is a line `- [ ]` below it.
Boxes are empty: nothing is done yet. No other boxes anywhere in the file."""

_OPENSPEC = """\
An OpenSpec change in the folder `{path}`, and no file outside of it:

- `proposal.md`: `## Why`, `## What Changes`, `## Impact`, short.
- `specs/CAPABILITY/spec.md` for each capability that changes: `## ADDED Requirements` (or
  `MODIFIED`, `REMOVED`), below it `### Requirement: NAME` with a sentence that says SHALL, below
  that `#### Scenario: NAME` with `- **WHEN** ...` and `- **THEN** ...`.
- `design.md` only where something has to be decided that is not obvious.
- `tasks.md`, the stories:

{markdown}"""

_TASKS_MD = """\
One file, `{path}`, and no other:

{markdown}"""

_PRD_JSON = """\
One file, `{path}`, and no other:

```json
{{
  "project": "NAME",
  "description": "what is different when all is done",
  "userStories": [
    {{
      "id": "US-001",
      "title": "Title of the story",
      "description": "What is different when it is done, and why.\\nTouches: path/one, path/two/**",
      "acceptanceCriteria": ["This goes in, that comes out", "..."],
      "notes": "Verify: `COMMAND`",
      "dependsOn": [],
      "priority": 1,
      "passes": false
    }}
  ]
}}
```

`Verify:` and `Touches:` are lines of their own in a text. `dependsOn` holds ids and takes the place
of `Depends:`, `acceptanceCriteria` that of tasks. `passes` is false: nothing is done yet."""

_THERE = """
The file is there already. Every story in it stays as it is, to the letter: add yours behind them,
with numbers that are free."""


class PlanForm(Struct, frozen=True):
    """A format that plans are drafted in: its file or folder, and how that is explained."""

    path: str
    explained: str
    is_folder: bool = False

    def owns(self, path: str) -> bool:
        """Whether a file is part of the plan."""
        return path.startswith(f"{self.path}/") if self.is_folder else path == self.path


def form_of(source: str, change: str) -> PlanForm:
    """Where the plan of a change stands in a format."""
    match source:
        case "openspec":
            return PlanForm(f"openspec/changes/{change}", _OPENSPEC, is_folder=True)
        case "prd-json":
            own = f"tasks/{change}.json" if change.startswith("prd-") else "prd.json"
            return PlanForm(own, _PRD_JSON)
        case _:
            return PlanForm("tasks.md", _TASKS_MD)


SOURCES = ("openspec", "tasks-md", "prd-json")


class Wish(Struct, frozen=True):
    """What is to be planned: `idea` in words, for which change, in which form.

    `there`: the plan has stories already. `checks` are commands that test this project.
    """

    change: str
    idea: str
    form: PlanForm
    checks: tuple[str, ...] = ()
    there: bool = False


def draft_prompt(wish: Wish, findings: Sequence[str] = (), said: str = "") -> str:
    """The prompt of one round; `findings` and what the person `said` are about the one before."""
    form = wish.form.explained.format(path=wish.form.path, markdown=_MARKDOWN)
    ticked = ", ".join(f"`{command}`" for command in wish.checks)
    text = _DRAFT.format(
        change=wish.change,
        idea=cut(wish.idea.strip(), IDEA_LIMIT),
        checks=f"\nTests of this project seem to be run with: {ticked}.\n" if ticked else "",
        form=form + (_THERE if wish.there else ""),
        again=_again(wish.form.path, findings, said),
    )
    return neutralise(text)


def _again(path: str, findings: Sequence[str], said: str) -> str:
    if not (findings or said):
        return ""
    listed = cut("\n".join(f"- {text}" for text in findings), FINDINGS_LIMIT)
    parts = [f"\n# There is a draft\n\nYour draft is in `{path}`. Read it, then mend it."]
    if said:
        parts.append(f"The person who will run it has read it and says:\n\n{said.strip()}")
    if listed:
        parts.append(
            f"It was read by a program, which found this. All of it has to go:\n\n{listed}"
        )
    return "\n\n".join(parts) + "\n"


_INTERVIEW = """\
# What does this plan leave open? {change}

Coding agents will work through the plan below tonight, one call per story, with nobody to ask. You
are the last one who may ask. Find every question that one of them would have to ask, or would have
to guess the answer of, and that this repository does not answer.

Only ask. Write no code and change no file of the project. Read the repository first: what it
answers is no question.

# What is worth a question

- The story can be done in two ways that the person would not find equally good.
- Something outside is needed: a name, a limit, an address, an account, a decision of taste.
- Two stories, or a story and the code, contradict each other.
- It could destroy or publish something: ask for permission.

What has one sensible answer is not worth a question. At most {most} questions, the ones with the
highest price of a wrong guess first. None at all is a good result.

# The plan

{plan}

# How to answer

Write one file, `{file}`, in the top folder, with JSON of exactly this form:

```json
{{
  "questions": [
    {{
      "group": "Login",
      "stories": ["1", "3"],
      "question": "May a session outlive the browser?",
      "why": "Decides between a cookie and a token",
      "choices": ["No, a session cookie", "Yes, for 30 days"],
      "default": "No, a session cookie"
    }}
  ]
}}
```

`stories` are the ids of the stories that need the answer; an empty list means all. `choices` are
two to four short answers, `default` is the one that you would take; leave both out where the answer
is free text. Without any question, write `{{"questions": []}}`.

Then end your last message with the line `<promise>COMPLETE</promise>`.
"""


def interview_prompt(change: str, plan: str, file: str, most: int) -> str:
    """The prompt of the one call that may only ask."""
    text = _INTERVIEW.format(change=change, plan=cut(plan, PLAN_LIMIT), file=file, most=most)
    return neutralise(text)
