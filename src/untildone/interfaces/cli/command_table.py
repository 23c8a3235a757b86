"""The commands in one table, and `untildone --help` made of it: nothing else is loaded for it."""

# Name, module, short help.
COMMANDS = {
    "run": ("run", "Start the loop over a change, or go on with it after a crash."),
    "resume": ("run", "Go on with a stopped, stuck, stalled or crashed run."),
    "status": ("status", "Where every loop of this repository stands."),
    "stories": ("stories", "The stories of a change as the loop sees them."),
    "logs": ("status", "What the agent said and did."),
    "attempts": ("attempts", "Failed attempts that were saved: list, show, compare, bring back."),
    "stop": ("control", "Ask a live loop to stop."),
    "finish": ("control", "The completion choice: cleanup or keep."),
    "done": ("control", "Your word that a manual run is done."),
    "guide": ("steer", "Tell the agent something, or answer its question."),
    "skip": ("steer", "Skip a story."),
    "retry": ("steer", "Retry a story with all its retries."),
    "reorder": ("steer", "Say which stories come first."),
    "restore": ("undo", "Put everything back exactly as it was before the run."),
    "undo": ("undo", "Take back the newest change that untildone made here."),
    "gc": ("gc", "Remove what ended runs have stored, once it is old."),
    "slots": ("slots", "The checkouts of lanes: what they weigh and hold, and who uses them."),
    "usage": ("usage", "Tokens and cost by day, change, agent or model."),
    "replay": ("report", "Read a recorded run once more and compare every decision."),
    "report": ("report", "What happened in a run, on one page; or all of it in a file."),
    "agents": ("doctor", "Which agents are installed, with a login or without."),
    "init": ("init", "Write a commented configuration file."),
    "doctor": ("doctor", "Check git, agents, story sources and leftovers."),
    "demo": ("demo", "A complete run in a throw-away repository: no key, no network."),
    "completion": ("completion", "Print a shell completion script."),
}

ABOUT = """\
Usage: untildone [OPTIONS] COMMAND [ARGS]...

  Drive coding agents through the stories of a change until every story is
  truly done.

  One agent call per story, a git checkpoint after each, put-back and retry on
  failure, and nothing is ever lost on the way.

Options:
  -V, --version  Show the version and exit.
  -h, --help     Show this message and exit.

Commands:
"""
START = "  Start with `untildone demo`, then `untildone run` in your repository."


def overview() -> str:
    """What `untildone --help` prints."""
    width = max(map(len, COMMANDS)) + 2
    rows = (f"  {name:<{width}}{text}\n" for name, (_, text) in COMMANDS.items())
    return f"{ABOUT}{''.join(rows)}\n{START}\n"
