"""What `help TOPIC` prints and the documents repeat: each fact is written down here once."""

from collections.abc import Callable

from msgspec import Struct

from untildone.settings.settings import SETTINGS

Rows = tuple[tuple[str, str], ...]


class Topic(Struct, frozen=True):
    """A page of help: some words, rows under two heads, some more words."""

    summary: str
    heads: tuple[str, str]
    rows: Rows
    before: str = ""
    after: str = ""


def _exit_codes() -> Topic:
    return Topic(
        "What the exit code of a command means.",
        ("code", "meaning"),
        (
            ("0", "done"),
            (
                "1",
                "an error inside untildone, a report file is named; `doctor` and `replay`: "
                "something is wrong",
            ),
            ("2", "wrong usage, or a check before the start failed; nothing was changed"),
            (
                "3",
                "stuck: the retries or the cap are used up, only parked stories are left, the "
                "agent is not logged in, or a step failed",
            ),
            ("4", "stalled: the plain loop made no commit for some iterations"),
            (
                "5",
                "cleanup or the pull request was refused; nothing was lost and the branch is kept",
            ),
            ("6", "stopped on request, or a budget is used up"),
            ("129, 130, 143", "ended by SIGHUP, SIGINT, SIGTERM; `untildone resume` goes on"),
        ),
    )


def _environment() -> Topic:
    names = ", ".join(setting.variable for setting in SETTINGS.values())
    return Topic(
        "Variables that untildone reads, and those that it sets for agents and checks.",
        ("variable", "meaning"),
        (
            ("UNTILDONE_SETTING", "read: a setting; stronger than files, weaker than flags"),
            ("NO_COLOR", "read: if it is set, nothing has colours"),
            ("XDG_CONFIG_HOME", "read: where untildone/config.toml is; usually ~/.config"),
            ("UNTILDONE_STORY_ID", "set for the agent: the story of this call"),
            ("UNTILDONE_ATTEMPT", "set for the agent: which attempt at the story it is, from 1 on"),
            ("UNTILDONE_RUN_ID", "set for agents and checks: the run"),
            ("UNTILDONE_STATE_FILE", "set for agents and checks: the state file of the run"),
            ("UNTILDONE_LANE", "set in lanes: the lane, from 0 on"),
            ("UNTILDONE_PORTS", "set in lanes: ports that no other lane uses, such as 20000-20019"),
            ("PORT", "set in lanes: the first of these ports"),
            ("COMPOSE_PROJECT_NAME", "set in lanes: a name of its own for containers"),
            ("TMPDIR", "set in lanes: a folder of its own for temporary files"),
        ),
        before="Every setting has a variable: UNTILDONE_ and its name, as UNTILDONE_MAX_RETRIES=1.",
        after=f"The variables of settings: {names}. `untildone init --stdout` explains them.",
    )


def _promise() -> Topic:
    return Topic(
        "How an agent says that a story is done, that it failed, or that it has a question.",
        ("last line of the agent", "what follows"),
        (
            (
                "<promise>COMPLETE</promise>",
                "the checks run; if all pass, the story is committed and its boxes are ticked",
            ),
            (
                "<promise>FAILED: reason</promise>",
                "the work is saved and put back; the next attempt is told the reason",
            ),
            (
                "<promise>ASK: question</promise>",
                "the work is saved and put back, the story is parked; `untildone guide` answers",
            ),
            ("none of them", "a failed attempt, also if the agent ended without an error"),
        ),
        before="The prompt asks the agent to end its last message with one of these lines.",
        after="A line that is quoted or in a block of code does not count, and the last one wins. "
        "A promise is a claim: an agent that promised COMPLETE and ended with an error has failed.",
    )


def _state_file() -> Topic:
    return Topic(
        "The file that says where a loop stands, for other tools.",
        ("status", "meaning"),
        (
            ("starting", "nothing is touched yet"),
            ("running", "at work, or waiting; `phase` says for what"),
            ("done", "every story is finished"),
            ("stuck", "retries or cap used up, only parked stories left, or a step failed"),
            ("stalled", "the plain loop makes no commits"),
            ("stopped", "on request, by a signal, or the process died"),
        ),
        before="It is .claude/loop-state.json in the top folder of the worktree: valid JSON at "
        "every instant, written by the loop alone. Fields are added, never renamed or removed. "
        "Better than to read it is to ask `untildone status --json`, which also knows whether the "
        "loop lives.",
        after="`untildone status --schema` prints the JSON Schema with every field.",
    )


def _formats() -> Topic:
    return Topic(
        "Where stories come from: the formats that are read, and their files.",
        ("source", "file, and what CHANGE is"),
        (
            ("openspec", "openspec/changes/CHANGE/tasks.md: the name of the folder"),
            ("tasks-md", "tasks.md in the top folder: any name; `tasks` when you give none"),
            ("speckit", "specs/CHANGE/tasks.md: the name of the folder"),
            ("kiro", ".kiro/specs/CHANGE/tasks.md: the name of the folder"),
            ("prd-json", "prd.json, feature_list.json, prd-*.json: the name of the file"),
            ("taskmaster", ".taskmaster/tasks/tasks.json: a tag, such as `master`"),
            ("backlog-md", "backlog/tasks/*.md: `backlog`"),
            ("beads", "asked for with `bd`: `beads`, the id of an epic, or a label"),
            ("ralphy", "tasks.yaml, prd.yaml: the name of the file"),
            ("bmad", "sprint-status.yaml and its story files: `sprint`, or one epic"),
            ("markdown", "PRD.md, TODO.md, IMPLEMENTATION_PLAN.md, fix_plan.md: the file's name"),
            ("github", "asked for with `gh`, only with --source github: a label or a milestone"),
        ),
        before="`untildone stories` lists what is found here, and how each story is read.",
        after="--source-file FILE takes any list, whatever its name.",
    )


# Made when they are asked for: the list of settings is long.
TOPICS: dict[str, Callable[[], Topic]] = {
    "environment": _environment,
    "exit-codes": _exit_codes,
    "formats": _formats,
    "promise": _promise,
    "state-file": _state_file,
}
