"""Stand-ins for `bd` and `gh`: they keep issues in a file and write down how they were called."""

import json
import sys
from pathlib import Path
from typing import Any

BD = """
def run(args, state):
    issues = state["issues"]
    named = [a for a in args[1:] if a in issues]
    match args[0]:
        case "list":
            if "--all" in args and state.get("old"):
                fail(1, "Error: unknown flag: --all")
            listed = [dict(i) for i in issues.values()]
            for issue in listed:
                issue["dependency_count"] = len(issue.get("dependencies", []))
                if state.get("brief"):
                    issue.pop("dependencies", None)
            return {"schema_version": 1, "data": listed} if state.get("envelope") else listed
        case "show":
            return [
                {**issues[n], "dependencies": [
                    {"id": d["depends_on_id"], "dependency_type": d["type"]}
                    for d in issues[n].get("dependencies", [])
                ]}
                for n in named
            ]
        case "close":
            issues[named[0]]["status"] = "closed"
        case "reopen":
            if state.pop("stubborn", None):
                save(state)
                fail(1, "Error: database is locked")
            issues[named[0]]["status"] = "open"
        case "update":
            issues[named[0]]["status"] = args[args.index("--status") + 1]
    return [issues[n] for n in named]
"""
GH = """
def run(args, state):
    issues = state["issues"]
    if state.get("logged_out"):
        fail(4, "To get started with GitHub CLI, please run:  gh auth login")
    match args[:2]:
        case ["issue", "list"]:
            if "blockedBy" in args[-1] and state.get("old"):
                fail(1, 'Unknown JSON field: "blockedBy"')
            assert args[args.index("--limit") + 1] == "1000"
            if "--milestone" in args:
                name = args[args.index("--milestone") + 1]
                if not any(i.get("milestone") == name for i in issues.values()):
                    fail(1, "no milestone found with title " + name)
                return [i for i in issues.values() if i.get("milestone") == name]
            name = args[args.index("--label") + 1]
            return [i for i in issues.values() if any(l["name"] == name for l in i["labels"])]
        case ["label", "list"]:
            names = sorted({l["name"] for i in issues.values() for l in i["labels"]})
            return [{"name": name} for name in names]
        case ["issue", "view"]:
            if args[2] not in issues:
                fail(1, "not found")
            return {"state": issues[args[2]]["state"]}
        case ["issue", "close"]:
            issues[args[2]]["state"] = "CLOSED"
        case ["issue", "reopen"]:
            issues[args[2]]["state"] = "OPEN"
    return None
"""
_FRAME = """#!{python} -IS
import json, sys
def fail(code, text):
    print(text, file=sys.stderr)
    sys.exit(code)
def save(state):
    with open({file!r}, "w") as f:
        json.dump(state, f)
{run}
with open({file!r}) as f:
    state = json.load(f)
state.setdefault("calls", []).append(sys.argv[1:])
save(state)
answer = run(sys.argv[1:], state)
save(state)
if answer is not None:
    print(json.dumps(answer))
"""


class Tracker:
    """A program on PATH with its issues in a file."""

    def __init__(self, folder: Path, name: str, run: str, issues: dict[str, Any]) -> None:
        self._file = folder / f"{name}.json"
        self._file.write_text(json.dumps({"issues": issues}))
        program = folder / name
        program.write_text(_FRAME.format(python=sys.executable, file=str(self._file), run=run))
        program.chmod(0o755)

    @property
    def state(self) -> dict[str, Any]:
        """Issues and calls as they are now."""
        found: dict[str, Any] = json.loads(self._file.read_text())
        return found

    def set(self, **values: Any) -> None:
        """Another state."""
        self._file.write_text(json.dumps(self.state | values))

    def change(self, name: str, **values: Any) -> None:
        """Other values of one issue, as somebody else writes them."""
        state = self.state
        state["issues"][name] |= values
        self._file.write_text(json.dumps(state))

    def calls(self, *words: str) -> list[list[str]]:
        """The calls that begin with these words."""
        return [call for call in self.state.get("calls", []) if call[: len(words)] == [*words]]


def bead(name: str, title: str, *needs: str, **more: Any) -> dict[str, Any]:
    """An issue of Beads."""
    links = [{"issue_id": name, "depends_on_id": other, "type": "blocks"} for other in needs]
    issue = {"id": name, "title": title, "status": "open", "priority": 2, "issue_type": "task"}
    return issue | {"dependencies": links} | more


def issue(number: int, title: str, *names: str, **more: Any) -> dict[str, Any]:
    """An issue of GitHub."""
    labels = [{"name": name} for name in names]
    made = {"number": number, "title": title, "body": "", "state": "OPEN", "stateReason": ""}
    return made | {"labels": labels, "url": f"https://example.invalid/{number}"} | more
