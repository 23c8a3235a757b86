"""The commands in one table, and `untildone --help` made of it: nothing else is loaded for it."""

# The groups of `--help`, in the order in which people need them: name, module, short help.
GROUPS = {
    "Plan and run": {
        "init": ("plan.init", "Write a commented configuration file."),
        "plan": ("plan.plan", "Let the agent draft the stories of an idea; you say yes."),
        "stories": ("plan.stories", "The stories of a change as the loop sees them."),
        "lint": ("plan.lint", "What is wrong with a plan, before it costs anything."),
        "interview": (
            "plan.interview",
            "Let the agent ask before the run what it could ask in the night.",
        ),
        "add": ("plan.add", "Add a story to a change, also while its loop runs."),
        "run": ("run", "Start the loop over a change, or go on with it after a crash."),
        "resume": ("run", "Go on with a stopped, stuck, stalled or crashed run."),
        "finish": ("control", "The completion choice: cleanup, keep or a pull request."),
        "watch-ci": ("watch_ci", "Follow the checks of the pull request, and mend red ones."),
        "demo": ("demo", "A complete run in a throw-away repository: no key, no network."),
    },
    "Look": {
        "status": ("look.status", "Where every loop of this repository stands."),
        "serve": ("look.serve", "All runs in a browser, also on a phone, live."),
        "attach": ("look.follow", "The live view on a run; leaving it does not stop the run."),
        "ui": ("look.full_screen", "The full screen: stories, diffs, the agent's words, steering."),
        "wait": ("look.follow", "Wait for the end of a run, or for the next thing worth knowing."),
        "logs": ("look.status", "What the agent said and did."),
        "attempts": (
            "look.attempts",
            "Failed attempts that were saved: list, show, compare, bring back.",
        ),
        "report": ("look.report", "What happened in a run, on one page; or all of it in a file."),
        "usage": ("look.usage", "Tokens and cost by day, change, agent or model."),
        "replay": ("look.report", "Replay a recorded run and compare every decision."),
    },
    "Steer": {
        "guide": ("steer", "Tell the agent something, or answer its question."),
        "skip": ("steer", "Skip a story."),
        "retry": ("steer", "Retry a story, with its retries renewed."),
        "reorder": ("steer", "Say which stories come first."),
        "stop": ("control", "Ask a live loop to stop."),
        "done": ("control", "Say that a manual run is done."),
    },
    "Undo": {
        "undo": ("undo", "Take back the newest change that untildone made here."),
        "restore": ("undo", "Put everything back exactly as it was before the run."),
    },
    "Fleet": {
        "fleet": ("fleet", "Changes of many repositories on many machines."),
        "push-run": ("carry", "Push a stopped run, so that another machine can go on with it."),
        "pull-run": ("carry", "Fetch a run that another machine has pushed."),
    },
    "Care": {
        "doctor": ("care.doctor", "Check git, agents, story sources and leftovers."),
        "agents": ("care.doctor", "Which agents are installed, with a login or without."),
        "slots": (
            "care.slots",
            "The checkouts of lanes: what they weigh and hold, and who uses them.",
        ),
        "gc": ("care.gc", "Remove what ended runs have stored, once it is old."),
        "skills": ("skills", "Skills for agents: start, follow, plan and answer runs."),
        "mcp": ("mcp", "Serve runs to other agents over the Model Context Protocol."),
        "completion": ("completion", "Print a shell completion script."),
        "help": ("help", "Explain exit codes, variables, promises, formats, the state file."),
    },
}
COMMANDS = {name: row for group in GROUPS.values() for name, row in group.items()}

ABOUT = """\
Usage: untildone [OPTIONS] COMMAND [ARGS]...

  Drive coding agents through the stories of a change until every story is
  truly done.

  One agent call per story, a git checkpoint after each, put-back and retry on
  failure, and nothing is ever lost on the way.

Options:
  -V, --version  Show the version and exit.
  -h, --help     Show this message and exit.

"""
START = "  Start with `untildone demo`, then `untildone run` in your repository."


def overview() -> str:
    """What `untildone --help` prints."""
    width = max(map(len, COMMANDS)) + 2
    groups = (
        "".join((f"{title}:\n", *(f"  {name:<{width}}{row[1]}\n" for name, row in group.items())))
        for title, group in GROUPS.items()
    )
    return f"{ABOUT}{chr(10).join(groups)}\n{START}\n"
