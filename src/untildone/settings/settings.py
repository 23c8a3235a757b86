"""Every setting, in one place.

A field of `Settings` with its `Setting` is all there is to write: the flags of `run` and `resume`,
the variable, the file of `init`, its JSON Schema, the table of docs/configuration.md and the part
of the plan are made of it. `load.py` reads the values.
"""

from typing import Annotated

from msgspec import Struct

from untildone.domain.agents.agent import Permissions
from untildone.domain.costs.budget import known
from untildone.domain.reporting import notification
from untildone.domain.run.commit_message import DEFAULT as COMMIT_MESSAGE
from untildone.settings.checked_values import commit_template, known_options, rungs
from untildone.settings.choices import AGENTS, SOURCES
from untildone.settings.setting import Setting, described

FILE_NAME = "untildone.toml"
AGENTS_HINT = "`untildone agents` lists what is installed here"
BUDGETS_HINT = 'Budgets are written like --budget tokens=2M or budget = ["cost=10", "time=8h"]'

# What passing trouble may cost a story if nothing else is said.
TROUBLE_BUDGET = ("calls=5", "time=2h", "cost=10")


class Settings(Struct, frozen=True):
    """Everything that can be configured, in the order of `run --help`."""

    source: Annotated[
        str, Setting(f"Story source: auto, {', '.join(SOURCES)}.", metavar="NAME", plan="")
    ] = "auto"
    source_file: Annotated[
        str,
        Setting(
            "The file that holds the stories, whatever its name.",
            metavar="FILE",
            from_cwd=True,
            path=True,
            fixed=True,
        ),
    ] = ""
    granularity: Annotated[
        str, Setting("Checklists: what one story is.", choices=("group", "task", "change"))
    ] = "group"
    archive: Annotated[
        bool, Setting("OpenSpec: archive the change when all its stories are done.", fixed=True)
    ] = False
    agent: Annotated[
        str,
        Setting(
            "Agent: `untildone agents` lists them.",
            choices=AGENTS,
            metavar="NAME",
            hint=AGENTS_HINT,
            tables="agent_options",
        ),
    ] = "claude"
    agent_arg: Annotated[
        tuple[str, ...],
        Setting(
            "One more argument for the agent that is chosen.",
            metavar="ARG",
            plan="",
            hint=AGENTS_HINT,
        ),
    ] = ()
    agent_options: Annotated[
        tuple[str, ...],
        Setting(
            "Arguments and variables of single agents; better written as a table [agent.NAME] with "
            "args = [...] and env = {...}.",
            metavar="NAME.args=ARG or NAME.env.VARIABLE=VALUE",
            flag=False,
            adds=True,
            checked=known_options,
            hint=AGENTS_HINT,
            plan="",
        ),
    ] = ()
    agents: Annotated[
        tuple[str, ...],
        Setting(
            "Ladder that a story climbs when it fails the same way again and again.",
            metavar="NAME[:MODEL]",
            checked=rungs,
            hint=AGENTS_HINT,
            plan="ladder",
        ),
    ] = ()
    agent_cmd: Annotated[
        str, Setting("Any program: prompt on its stdin, plain text on its stdout.", command=True)
    ] = ""
    model: Annotated[str, Setting("Model, passed on to the agent.")] = ""
    permissions: Annotated[
        str,
        Setting(
            "What the agent may do unasked: everything, or edit files.",
            choices=("full", "edits"),
            in_plan=Permissions,
        ),
    ] = "full"
    fallback: Annotated[
        str,
        Setting(
            "Another agent that steps in while this one is at a limit, instead of waiting.",
            metavar="AGENT[:MODEL]",
        ),
    ] = ""
    resume_session: Annotated[
        bool,
        Setting(
            "A retry goes on with the agent's own conversation.",
            unset="fresh",
            spelling="--resume-session/--fresh-session",
        ),
    ] = False
    script: Annotated[str, Setting("Script file of the scripted agent.", path=True)] = ""
    max_retries: Annotated[
        int,
        Setting(
            "Retries after the first attempt of a story; 0 means one call.",
            least=0,
            limit="max_retries",
        ),
    ] = 3
    on_stuck: Annotated[
        str,
        Setting(
            "After the third identical failure: go on with the retries, or skip the story.",
            choices=("retry", "park"),
        ),
    ] = "retry"
    on_fail: Annotated[
        str,
        Setting(
            "When a story has used up its retries: end the run, go on with the others, or ask you.",
            choices=("stop", "skip", "ask"),
        ),
    ] = "stop"
    max_iterations: Annotated[
        int,
        Setting(
            "Cap over the whole run.",
            unset="open stories x (1 + max-retries), plain loop 10",
            least=0,
            plan="",
        ),
    ] = 0
    done: Annotated[
        str,
        Setting(
            "Done criterion.",
            unset="tasks if there is a tasks.md, else manual",
            choices=("", "tasks", "manual", "promise"),
            plan="",
        ),
    ] = ""
    stall_threshold: Annotated[
        int,
        Setting(
            "Plain loop: iterations in a row without a commit.", least=1, limit="stall_threshold"
        ),
    ] = 2
    timeout: Annotated[
        float,
        Setting(
            "Hard limit of an iteration: 30m, 1h30m; a number alone is minutes.",
            metavar="DURATION",
            amount="minutes",
            above=0,
            limit="timeout_min",
        ),
    ] = 45.0
    idle_timeout: Annotated[
        float,
        Setting(
            "Idle timeout of an iteration.",
            metavar="DURATION",
            amount="minutes",
            above=0,
            limit="idle_timeout_min",
        ),
    ] = 15.0
    strict: Annotated[
        bool,
        Setting(
            "Believe nothing: --evidence, --protect-tests, --clean-room and --verify auto, each "
            "unless you say otherwise.",
            plan="",
        ),
    ] = False
    verify: Annotated[
        tuple[str, ...],
        Setting(
            "Check to run after COMPLETE. `warn: CMD` blocks nothing, `off: CMD` is not run, "
            "`auto`: what the project has.",
            metavar="CMD",
            command=True,
        ),
    ] = ()
    story_verify: Annotated[
        tuple[str, ...],
        Setting(
            "Check of one story only. So is a line Verify: `CMD` in its text.",
            metavar="ID=CMD",
            command=True,
            table=True,
        ),
    ] = ()
    trust_story_checks: Annotated[
        bool,
        Setting(
            "Obey checks and permissions in story text even if it is not committed here.",
            plan="",
        ),
    ] = False
    protect: Annotated[
        tuple[str, ...],
        Setting("Files that no attempt may change, move or delete.", metavar="GLOB"),
    ] = ()
    protect_checks: Annotated[
        bool, Setting("Protect the files that the checks run and the settings of their runners.")
    ] = True
    protect_tests: Annotated[
        bool,
        Setting(
            "Tests that are there must pass as they were; without --clean-room: stay as they are."
        ),
    ] = False
    clean_room: Annotated[
        bool, Setting("Run the checks in a fresh checkout of what would be committed.")
    ] = False
    evidence: Annotated[
        bool, Setting("COMPLETE without a change outside the task list is a failed attempt.")
    ] = False
    allow_empty_story: Annotated[
        tuple[str, ...],
        Setting(
            "With --evidence: a story that may change nothing; * or no ID: every story.",
            metavar="ID",
            bare="*",
        ),
    ] = ()
    verify_start: Annotated[
        bool, Setting("Try the checks before the first story and say which already fail.")
    ] = True
    baseline: Annotated[
        bool, Setting("Ignore failures that were there before the run; new ones block.")
    ] = False
    verify_timeout: Annotated[
        float,
        Setting(
            "Limit of a check.",
            unset="--timeout",
            metavar="DURATION",
            amount="minutes",
            least=0,
            limit="verify_timeout_min",
        ),
    ] = 0.0
    budget: Annotated[
        tuple[str, ...],
        Setting(
            "Pause when it is used up: tokens=2M, cost=10, time=8h, iterations=20; "
            "story-tokens=200k and so on for each story.",
            metavar="NAME=AMOUNT",
            adds=True,
            checked=known,
            hint=BUDGETS_HINT,
            plan="",
        ),
    ] = ()
    trouble_budget: Annotated[
        tuple[str, ...],
        Setting(
            "How much work of a story passing trouble (limits, outages) may cost before it is a "
            "failed attempt: calls, time, cost, tokens; NAME=off: no limit.",
            unset=", ".join(TROUBLE_BUDGET),
            metavar="NAME=AMOUNT",
            adds=True,
            checked=known,
            hint=BUDGETS_HINT,
            plan="",
        ),
    ] = ()
    checkpoint: Annotated[
        str,
        Setting(
            "Where the work happens and how it is put back.",
            choices=("branch", "stash", "worktree"),
            fixed=True,
        ),
    ] = "branch"
    lanes: Annotated[
        int,
        Setting(
            "How many stories at once, each in its own checkout; auto: as many as pay off here.",
            metavar="NUMBER|auto",
            amount="lanes",
            least=0,
            most=16,
            plan="",
        ),
    ] = 1
    story: Annotated[
        tuple[str, ...], Setting("Only this story; all: every one.", metavar="ID", plan="only")
    ] = ()
    with_deps: Annotated[bool, Setting("With --story: also what it depends on.")] = False
    optimistic: Annotated[
        bool,
        Setting("Lanes: stories may run together although nobody knows which files they change."),
    ] = False
    slots: Annotated[
        str,
        Setting(
            "Lanes: kind of checkout; worktree is for submodules and Git LFS.",
            choices=("clone", "worktree"),
            fixed=True,
        ),
    ] = "clone"
    lane_setup: Annotated[
        str,
        Setting(
            "Lanes: command that makes a fresh checkout work; auto: what the project has for "
            "other tools.",
            unset="off",
            metavar="CMD|auto|off",
        ),
    ] = ""
    regenerate: Annotated[
        tuple[str, ...],
        Setting(
            "Lanes: command that makes a generated file anew where two stories changed it.",
            metavar="GLOB=CMD",
            command=True,
            table=True,
        ),
    ] = ()
    check_slots: Annotated[
        int,
        Setting("Lanes: checks at once.", unset="half of the processors", least=0),
    ] = 0
    on_complete: Annotated[
        str,
        Setting(
            "Completion choice; pr: keep, and open a pull request.",
            unset="ask on a terminal, otherwise keep",
            choices=("", "ask", "cleanup", "keep", "pr"),
        ),
    ] = ""
    forge: Annotated[
        str,
        Setting(
            "Where pull requests are opened: with gh or with glab.",
            unset="by the address of the remote",
            choices=("", "github", "gitlab"),
            flag=False,
            plan="",
        ),
    ] = ""
    commit_message: Annotated[
        str,
        Setting(
            "Subject of a story's commit, made of {id}, {title}, {change} and {attempt}.",
            metavar="TEMPLATE",
            checked=commit_template,
            hint='Write it like "{title} ({id})"',
        ),
    ] = COMMIT_MESSAGE
    notify: Annotated[
        tuple[str, ...],
        Setting(
            "Where to send notifications: a webhook's URL, cmd:COMMAND, ntfy:URL, terminal …",
            metavar="ADDRESS",
            adds=True,
            checked=notification.addresses,
            in_plan=notification.shown,
        ),
    ] = ()
    notify_on: Annotated[
        tuple[str, ...],
        Setting(
            "Which events to send.",
            unset=" ".join(notification.EVENTS),
            metavar="EVENT",
            checked=notification.events,
            plan="",
        ),
    ] = ()
    on_hangup: Annotated[
        str,
        Setting(
            "When the terminal is closed: stop, go on without it, or ask at the start.",
            choices=("stop", "continue", "ask"),
            plan="",
        ),
    ] = "stop"
    sandbox: Annotated[
        str,
        Setting(
            "Bubblewrap around agents and checks; auto: if it works here.",
            choices=("auto", "bwrap", "off"),
        ),
    ] = "off"
    sandbox_network: Annotated[bool, Setting("Network inside the sandbox.")] = True
    sandbox_writable: Annotated[
        tuple[str, ...],
        Setting("One more path that may be written inside the sandbox.", metavar="PATH", path=True),
    ] = ()
    max_file_mb: Annotated[
        float,
        Setting(
            "Largest new file that git takes: 200M, 1G; a number alone is MiB.",
            metavar="SIZE",
            amount="MiB",
            above=0,
            limit="max_file_mb",
        ),
    ] = 50.0
    usage_cmd: Annotated[str, Setting("Command that prints the tokens used since a time.")] = ""
    prompt_template: Annotated[
        str, Setting("File with your own prompt template.", path=True, fixed=True)
    ] = ""
    repeat_limit: Annotated[
        int,
        Setting(
            "Times of one line in a row that end a call; 0: never.",
            least=0,
            flag=False,
            limit="repeat_limit",
        ),
    ] = 500
    learnings: Annotated[
        str,
        Setting(
            "Where the learnings of the calls are kept; off: nowhere.",
            unset="in the git folder",
            metavar="FILE",
            path=True,
            off="Keep no learnings.",
            plan="",
        ),
    ] = ""
    keep_days: Annotated[
        int,
        Setting(
            "How long `gc` keeps what ended runs have stored: days, or 4 weeks.",
            amount="days",
            least=0,
            flag=False,
            plan="",
        ),
    ] = 30


# What `strict` stands for where nothing else is said.
STRICT: dict[str, object] = {
    "evidence": True,
    "protect_tests": True,
    "clean_room": True,
    "verify": ("auto",),
}
# The settings that are command lines, or may hold one.
COMMANDS = (
    "agent_cmd",
    "verify",
    "story_verify",
    "usage_cmd",
    "lane_setup",
    "regenerate",
    "notify",
)


SETTINGS = described(Settings)
