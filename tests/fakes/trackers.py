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
            listed = [listed_of(i, state) for i in issues.values() if i["issue_type"] != "gate"]
            return {"schema_version": 1, "data": listed} if state.get("envelope") else listed
        case "show":
            if not named:
                fail(1, "Error: no issues found matching the provided IDs")
            return [shown_of(issues[n], issues) for n in named]
        case "close":
            why = refusal(named[0], issues)
            if why:
                fail(0 if state.get("old") else 1, "cannot close " + named[0] + ": " + why)
            issues[named[0]]["status"] = "closed"
        case "reopen":
            if state.pop("stubborn", None):
                save(state)
                fail(1, "Error: database is locked")
            if state.get("silent"):
                fail(0, "Error reopening " + named[0])
            issues[named[0]]["status"] = "open"
        case "update":
            issues[named[0]]["status"] = args[args.index("--status") + 1]
    return [issues[n] for n in named]
def links(issue, *kinds):
    return [d["depends_on_id"] for d in issue["dependencies"] if d["type"] in kinds]
def listed_of(issue, state):
    listed = {**issue, "dependency_count": len(links(issue, "blocks")), "dependent_count": 0}
    listed |= {"comment_count": 0} | {"parent": name for name in links(issue, "parent-child")}
    if state.get("brief") or not issue["dependencies"]:
        listed.pop("dependencies")
    return listed
def shown_of(issue, issues):
    links = [(d["depends_on_id"], d["type"]) for d in issue["dependencies"]]
    return {**issue, "dependencies": [
        {**issues[name], "dependency_type": kind} for name, kind in links if name in issues
    ]}
def refusal(name, issues):
    if issues[name].get("pinned"):
        return "it is pinned"
    parts = [i for i in issues.values() if name in links(i, "parent-child")]
    if any(i["status"] != "closed" for i in parts):
        return "open child issue(s); close children first or use --force to override"
    before = [issues.get(n, {}) for n in links(issues[name], "blocks")]
    return "blocked by open issues" if any(i.get("status") == "open" for i in before) else ""
"""
GH = """
import csv, re
NEWER = ["stateReason", "blockedBy"]
def run(args, state):
    issues = state["issues"]
    if state.get("logged_out"):
        fail(4, "To get started with GitHub CLI, please run:  gh auth login")
    if state.get("expired"):
        fail(1, "non-200 OK status code: 401 Unauthorized body: Bad credentials")
    if state.get("offline"):
        fail(1, "error connecting to api.github.com")
    match args[:2]:
        case ["issue", "list"]:
            asked = args[args.index("--json") + 1].split(",")
            unknown = [name for name in NEWER if name in asked and state.get("old")]
            if unknown:
                fail(1, f'Unknown JSON field: "{unknown[0]}"\\nAvailable fields:\\n  body\\n  url')
            assert args[args.index("--limit") + 1] == "1000"
            found = [i for i in issues.values() if not i["pull"] and wanted(i, args)]
            return [{name: i[name] for name in asked} for i in found]
        case ["label", "list"]:
            names = sorted({l["name"] for i in issues.values() for l in i["labels"]})
            return [{"name": name} for name in names]
        case ["api", "repos/{owner}/{repo}/milestones?state=all&per_page=100"]:
            return [i["milestone"] for i in issues.values() if i["milestone"]]
        case ["issue", "view"]:
            if args[2] not in issues:
                fail(1, "GraphQL: Could not resolve to an issue or pull request")
            return {"state": issues[args[2]]["state"]}
        case ["issue", "close"]:
            issues[args[2]]["state"] = "CLOSED"
        case ["issue", "reopen"]:
            issues[args[2]]["state"] = "OPEN"
    return None
def wanted(issue, args):
    title = (issue["milestone"] or {}).get("title")
    if "--milestone" in args:
        name = args[args.index("--milestone") + 1]
        if name.isdecimal():
            fail(1, "GraphQL: Could not resolve to a Milestone with the number of " + name)
        return title == name
    if "--search" in args:
        return title == re.fullmatch('milestone:"(.*)"', args[args.index("--search") + 1])[1]
    (row,) = csv.reader([args[args.index("--label") + 1]], strict=True)
    parts = [part for name in row for part in [name, *name.split(",")]]
    return any(l["name"] in parts for l in issue["labels"])
"""
_FRAME = """#!{python} -IS
import fcntl, json, os, sys
def fail(code, text):
    print(text, file=sys.stderr)
    sys.exit(code)
def save(state):
    with open({file!r} + ".new", "w") as f:
        json.dump(state, f)
    os.replace({file!r} + ".new", {file!r})
lock = open({file!r} + ".lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
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


def bead(name: str, title: str, *needs: str, parent: str = "", **more: Any) -> dict[str, Any]:
    """An issue of Beads."""
    kinds = [(other, "blocks") for other in needs] + ([(parent, "parent-child")] if parent else [])
    links = [{"issue_id": name, "depends_on_id": other, "type": kind} for other, kind in kinds]
    issue = {"id": name, "title": title, "status": "open", "priority": 2, "issue_type": "task"}
    return issue | {"dependencies": links} | more


def issue(number: int, title: str, *names: str, milestone: str = "", **more: Any) -> dict[str, Any]:
    """An issue of GitHub, as `gh` 2.102 tells it; `pull` is what it does not tell."""
    labels = [
        {"id": f"L{n}", "name": name, "description": f"About {name}", "color": "ededed"}
        for n, name in enumerate(names)
    ]
    made = {"number": number, "title": title, "body": "", "state": "OPEN", "stateReason": ""}
    made |= {"labels": labels, "url": f"https://example.invalid/ada/night/issues/{number}"}
    made["milestone"] = {"number": 1, "title": milestone, "description": ""} if milestone else None
    return made | {"blockedBy": blocked_by(), "pull": False} | more


def blocked_by(*numbers: int, state: str = "OPEN", where: str = "ada/night") -> dict[str, Any]:
    """GitHub's own links to what blocks an issue."""
    nodes = [
        {
            "id": f"I{number}",
            "number": number,
            "title": "Before",
            "url": f"https://example.invalid/{where}/issues/{number}",
            "state": state,
        }
        for number in numbers
    ]
    return {"nodes": nodes, "totalCount": len(nodes)}
