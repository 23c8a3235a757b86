"""A GitHub on loopback for the real `gh`: it is its http proxy, and answers in GitHub's place."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import traceback
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

# `gh` speaks plain http with this host and with no other.
HOST = "github.localhost"
REPOSITORY = "ada/night"
REMOTE = f"http://{HOST}/{REPOSITORY}.git"
TOKEN = "scripted"
PAGE = 100
_NAME = re.compile(r"\b(?:query|mutation)\s+(\w+)")
_WORD = re.compile(r'(\w+):(?:"((?:[^"\\]|\\.)*)"|(\S+))')
_PROXY = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")

Json = dict[str, Any]
# What GitHub says to older releases of `gh` that want to edit.
_NO_CARDS = "Projects (classic) is being deprecated in favor of the new Projects experience."
_EMPTY = ("reviewRequests", "labels", "assignees", "projectCards", "projectItems")
_REPOSITORY_TOLD: Json = {
    "id": "R_1",
    "name": REPOSITORY.partition("/")[2],
    "owner": {"login": "ada"},
    "viewerPermission": "WRITE",
    "hasIssuesEnabled": True,
    "hasWikiEnabled": False,
    "description": "",
    "defaultBranchRef": {"name": "main"},
    "isPrivate": False,
    "mergeCommitAllowed": True,
    "rebaseMergeAllowed": True,
    "squashMergeAllowed": True,
    "parent": None,
}


@dataclass(frozen=True)
class Ticket:
    """An issue or a pull request; `blocked_by` holds `#number` or `owner/name#number`."""

    number: int
    title: str
    labels: tuple[str, ...] = ()
    body: str = ""
    state: str = "OPEN"
    reason: str | None = None
    milestone: str = ""
    blocked_by: tuple[str, ...] = ()
    pull: bool = False
    comments: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """What mutations call it."""
        return f"T_{self.number}"


@dataclass(frozen=True)
class Checked:
    """A check of a commit: by Actions if it has a log, else by another app, or an old status."""

    name: str
    conclusion: str = ""
    log: str = ""
    said: str = ""
    is_status: bool = False


class FakeGitHub:
    """A context manager around the server, with one repository in it."""

    def __init__(self, tickets: Iterable[Ticket] = (), git_folder: Path | None = None) -> None:
        self.faults: list[str] = []
        self.pulls: list[Json] = []
        self.git_folder = git_folder  # a bare repository that is pushed to
        # What CI says: of the n-th commit that was pushed, when it is asked for the k-th time.
        self.ci: Callable[[int, int], Iterable[Checked]] = lambda commit, time: ()
        self._commits: dict[str, int] = {}  # how often each was asked for
        self._checked: dict[int, Checked] = {}
        self._tickets = {ticket.number: ticket for ticket in tickets}
        self._asked: list[str] = []
        self._down = 0
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> FakeGitHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join(10)
        self._http.server_close()
        assert self.faults == [], f"the server was asked what it does not know: {self.faults}"

    @property
    def env(self) -> dict[str, str | None]:
        """What makes `gh` talk to this server, and to nothing else."""
        url = f"http://127.0.0.1:{self._http.server_address[1]}"
        return {"GH_HOST": HOST, "GH_TOKEN": TOKEN, **dict.fromkeys(_PROXY, url)}

    def ticket(self, number: int) -> Ticket:
        """It as it is now."""
        with self._lock:
            return self._tickets[number]

    def asked(self, name: str = "") -> list[str]:
        """The names of the questions so far, or how often one was asked."""
        with self._lock:
            return [each for each in self._asked if name in ("", each)]

    def refuse(self, times: int) -> None:
        """Answer so many changes of an issue with a bad gateway."""
        with self._lock:
            self._down = times

    def answer(self, query: str, variables: Json) -> tuple[int, Json]:
        """The answer to one question; what is not known is a fault."""
        found = _NAME.search(query)
        name = found[1] if found else query
        with self._lock:
            self._asked.append(name)
            if query.startswith("mutation") and self._down:
                self._down -= 1
                return 502, {"message": "Bad Gateway"}
            if "projectCards" in query:
                return 200, {"errors": [{"message": _NO_CARDS}]}
            if name not in _ANSWERS:
                self.faults.append(query)
                return 200, {"errors": [{"message": f"unknown: {name}"}]}
            return 200, _ANSWERS[name](self, variables)

    def milestones(self) -> list[Json]:
        """What the repository has."""
        with self._lock:
            titles = {ticket.milestone for ticket in self._tickets.values() if ticket.milestone}
        return [{"number": n, "title": title} for n, title in enumerate(sorted(titles), 1)]

    # the questions

    def _search_types(self, variables: Json) -> Json:
        names = ("ISSUE", "ISSUE_ADVANCED", "REPOSITORY", "USER", "DISCUSSION")
        return {"data": {"SearchType": {"enumValues": [{"name": name} for name in names]}}}

    def _search(self, variables: Json) -> Json:
        words = [
            (m[1], (m[2] or m[3]).replace('\\"', '"')) for m in _WORD.finditer(variables["query"])
        ]
        assert ("repo", REPOSITORY) in words, variables
        found = [t for t in self._tickets.values() if all(_fits(t, *word) for word in words)]
        told = [self._told(t) for t in sorted(found, key=lambda t: -t.number)]
        page = _page(told, variables.get("after"), variables["limit"])
        search = {"issueCount": len(found), **page}
        return {"data": {"repository": {"hasIssuesEnabled": True}, "search": search}}

    def _by_number(self, variables: Json) -> Json:
        number = variables["number"]
        found = self._tickets.get(number)
        told = self._told(found) if found else None
        answer: Json = {"data": {"repository": {"hasIssuesEnabled": True, "issue": told}}}
        if not found:
            said = f"Could not resolve to an issue or pull request with the number of {number}."
            error = {"type": "NOT_FOUND", "path": ["repository", "issue"], "message": said}
            answer["errors"] = [error]
        return answer

    def _labels(self, variables: Json) -> Json:
        names = sorted({name for ticket in self._tickets.values() for name in ticket.labels})
        rows = [{"name": name} for name in names]
        page = _page(rows, variables.get("endCursor"), variables["limit"])
        return {"data": {"repository": {"labels": {"totalCount": len(names), **page}}}}

    def _comment(self, variables: Json) -> Json:
        ticket = self._of(variables["input"]["subjectId"])
        text = variables["input"]["body"]
        self._tickets[ticket.number] = replace(ticket, comments=(*ticket.comments, text))
        node = {"url": f"http://{HOST}/{REPOSITORY}/issues/{ticket.number}#issuecomment-1"}
        return {"data": {"addComment": {"commentEdge": {"node": node}}}}

    def _close(self, variables: Json) -> Json:
        ticket = self._of(variables["input"]["issueId"])
        self._tickets[ticket.number] = replace(ticket, state="CLOSED", reason="COMPLETED")
        return {"data": {"closeIssue": {"issue": {"id": ticket.id}}}}

    def _reopen(self, variables: Json) -> Json:
        ticket = self._of(variables["input"]["issueId"])
        self._tickets[ticket.number] = replace(ticket, state="OPEN", reason="REOPENED")
        return {"data": {"reopenIssue": {"issue": {"id": ticket.id}}}}

    # pull requests

    def _repository(self, variables: Json) -> Json:
        return {"data": {"repository": _REPOSITORY_TOLD, "viewer": {"login": "ada"}}}

    def _network(self, variables: Json) -> Json:
        return {"data": {"repo_000": _REPOSITORY_TOLD, "viewer": {"login": "ada"}}}

    def _pull_list(self, variables: Json) -> Json:
        branch = variables.get("headBranch") or variables.get("headRefName")
        states = variables.get("state") or variables.get("states") or ["OPEN"]
        found = [p for p in self.pulls if p["headRefName"] == branch and p["state"] in states]
        more = {"hasNextPage": False, "endCursor": ""}
        listed = {"totalCount": len(found), "nodes": found, "pageInfo": more}
        return {"data": {"repository": {**_REPOSITORY_TOLD, "pullRequests": listed}}}

    def _pull_create(self, variables: Json) -> Json:
        told = variables["input"]
        number = len(self.pulls) + 1
        pull = {
            "__typename": "PullRequest",
            "id": f"P_{number}",
            "number": number,
            "url": f"http://{HOST}/{REPOSITORY}/pull/{number}",
            "state": "OPEN",
            "isDraft": bool(told.get("draft")),
            "isCrossRepository": False,
            "headRepositoryOwner": {"id": "U_1", "login": "ada"},
            **{name: told[name] for name in ("title", "body", "baseRefName", "headRefName")},
            **{name: {"nodes": [], "totalCount": 0} for name in _EMPTY},
            "milestone": None,
        }
        self.pulls.append(pull)
        return {"data": {"createPullRequest": {"pullRequest": pull}}}

    def _pull_by_number(self, variables: Json) -> Json:
        number = variables.get("pr_number") or variables.get("number")
        found = next(p for p in self.pulls if p["number"] == number)
        return {"data": {"repository": {"pullRequest": found}}}

    def _project_items(self, variables: Json) -> Json:
        page = {"nodes": [], "pageInfo": {"hasNextPage": False, "endCursor": ""}}
        return {"data": {"repository": {"pullRequest": {"projectItems": page}}}}

    def patch(self, number: int, told: Json) -> Json:
        """As the other interface of GitHub changes a pull request."""
        with self._lock:
            self._asked.append("PATCH")
            pull = next(p for p in self.pulls if p["number"] == number)
            pull.update(body=told["body"], baseRefName=told["base"])
            return {"number": number}

    def told(self, path: str) -> Json | bytes | None:
        """What the other interface of GitHub says about a path below the repository."""
        kind, name, *rest = path.split("/")
        with self._lock:
            self._asked.append(kind)
            if self._down:
                self._down -= 1
                return None
            match kind, rest:
                case "pulls", []:
                    return self._pull(int(name))
                case "commits", ["check-runs"]:
                    self._commits[name] = self._commits.get(name, 0) + 1
                    runs = [self._run(c) for c in self._checks(name) if not c.is_status]
                    return {"total_count": len(runs), "check_runs": runs}
                case "commits", ["status"]:
                    found = [c for c in self._checks(name) if c.is_status]
                    rows = [{"context": c.name, "state": c.conclusion or "pending"} for c in found]
                    more = {"target_url": "http://ci.localhost/1", "description": "by hand"}
                    return {"state": "pending", "statuses": [row | more for row in rows]}
                case "actions", [number, "logs"]:
                    return self._checked[int(number)].log.encode()
                case _:
                    self.faults.append(path)
                    return None

    def _pull(self, number: int) -> Json:
        pull = next(p for p in self.pulls if p["number"] == number)
        ref = f"refs/heads/{pull['headRefName']}"
        assert self.git_folder is not None
        words = ["git", "rev-parse", ref]
        done = subprocess.run(words, cwd=self.git_folder, capture_output=True, check=True)
        head = {"sha": done.stdout.decode().strip(), "ref": pull["headRefName"]}
        return {"number": number, "state": pull["state"].lower(), "head": head}

    def _checks(self, commit: str) -> list[Checked]:
        nth = list(self._commits).index(commit) + 1
        return list(self.ci(nth, self._commits[commit]))

    def _run(self, check: Checked) -> Json:
        number = len(self._checked) + 100
        self._checked[number] = check
        return {
            "id": number,
            "name": check.name,
            "status": "completed" if check.conclusion else "in_progress",
            "conclusion": check.conclusion or None,
            "details_url": f"http://{HOST}/{REPOSITORY}/actions/runs/1/job/{number}",
            "app": {"slug": "github-actions" if check.log else "other-ci"},
            "output": {"title": check.said or None, "summary": None, "text": None},
        }

    def _pull_update(self, variables: Json) -> Json:
        told = dict(variables["input"])
        pull = next(p for p in self.pulls if p["id"] == told.pop("pullRequestId"))
        pull.update({name: value for name, value in told.items() if name in pull and value})
        return {"data": {"updatePullRequest": {"__typename": ""}}}

    def _pull_ready(self, variables: Json) -> Json:
        return self._pull_draft(variables, draft=False)

    def _pull_undo(self, variables: Json) -> Json:
        return self._pull_draft(variables, draft=True)

    def _pull_draft(self, variables: Json, *, draft: bool) -> Json:
        wanted = variables["input"]["pullRequestId"]
        pull = next(p for p in self.pulls if p["id"] == wanted)
        pull["isDraft"] = draft
        name = "convertPullRequestToDraft" if draft else "markPullRequestReadyForReview"
        return {"data": {name: {"pullRequest": {"id": pull["id"]}}}}

    def _of(self, name: str) -> Ticket:
        return next(ticket for ticket in self._tickets.values() if ticket.id == name)

    def _told(self, ticket: Ticket) -> Json:
        labels = [
            {"id": f"L_{name}", "name": name, "description": f"All of {name}", "color": "ededed"}
            for name in ticket.labels
        ]
        links = [self._link(name) for name in ticket.blocked_by]
        milestone = {"number": 1, "title": ticket.milestone, "description": "", "dueOn": None}
        return {
            "__typename": "PullRequest" if ticket.pull else "Issue",
            "id": ticket.id,
            "number": ticket.number,
            "title": ticket.title,
            "body": ticket.body,
            "state": ticket.state,
            "stateReason": ticket.reason,
            "url": f"http://{HOST}/{REPOSITORY}/issues/{ticket.number}",
            "labels": {"nodes": labels, "totalCount": len(labels)},
            "milestone": milestone if ticket.milestone else None,
            "blockedBy": {"nodes": links, "totalCount": len(links)},
        }

    def _link(self, name: str) -> Json:
        where, _, number = name.partition("#")
        known = None if where else self._tickets.get(int(number))
        return {
            "id": f"T_{number}",
            "number": int(number),
            "title": known.title if known else "Elsewhere",
            "url": f"http://{HOST}/{where or REPOSITORY}/issues/{number}",
            "state": known.state if known else "OPEN",
            "repository": {"nameWithOwner": where or REPOSITORY},
        }


_ANSWERS: dict[str, Callable[[FakeGitHub, Json], Json]] = {
    "SearchType_enumValues": FakeGitHub._search_types,
    "IssueSearch": FakeGitHub._search,
    "IssueByNumber": FakeGitHub._by_number,
    "LabelList": FakeGitHub._labels,
    "CommentCreate": FakeGitHub._comment,
    "IssueClose": FakeGitHub._close,
    "IssueReopen": FakeGitHub._reopen,
    "RepositoryInfo": FakeGitHub._repository,
    "RepositoryNetwork": FakeGitHub._network,
    "PullRequestList": FakeGitHub._pull_list,
    "PullRequestForBranch": FakeGitHub._pull_list,
    "PullRequestCreate": FakeGitHub._pull_create,
    "PullRequestByNumber": FakeGitHub._pull_by_number,
    "PullRequestProjectItems": FakeGitHub._project_items,
    "PullRequestUpdate": FakeGitHub._pull_update,
    "PullRequestReadyForReview": FakeGitHub._pull_ready,
    "ConvertPullRequestToDraft": FakeGitHub._pull_undo,
}


def _fits(ticket: Ticket, key: str, value: str) -> bool:
    match key:
        case "label":
            wanted = {name.lower() for name in (value, *value.split(","))}
            return bool(wanted & {name.lower() for name in ticket.labels})
        case "milestone":
            return ticket.milestone.lower() == value.lower()
        case "type":
            return ticket.pull == (value == "pr")
        case _:
            return True


def _page(rows: list[Json], after: str | None, limit: int) -> Json:
    begin = int(after or 0)
    end = begin + min(limit, PAGE)
    more = {"hasNextPage": end < len(rows), "endCursor": str(end)}
    return {"nodes": rows[begin:end], "pageInfo": more}


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: FakeGitHub

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may go away; anything else is a fault of the server, for its end."""
        if not isinstance(sys.exception(), ConnectionError):
            self.owner.faults.append(traceback.format_exc())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    server: _Http

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""

    def do_POST(self) -> None:
        if self.path.startswith(f"{REMOTE}/"):
            return self._git()
        body: Json = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        if self.path != f"http://api.{HOST}/graphql":
            return self._lost()
        if not self._is_known():
            return self._send(401, {"message": "Bad credentials"})
        return self._send(*self.server.owner.answer(body["query"], body.get("variables") or {}))

    def do_GET(self) -> None:
        if self.path.startswith(f"{REMOTE}/"):
            return self._git()
        ours, path = f"http://api.{HOST}/repos/{REPOSITORY}/", self.path.partition("?")[0]
        if not path.startswith(ours):
            return self._lost()
        if not self._is_known():
            return self._send(401, {"message": "Bad credentials"})
        if path == f"{ours}milestones":
            return self._send(200, self.server.owner.milestones())
        told = self.server.owner.told(path.removeprefix(ours))
        if told is None:
            return self._send(502, {"message": "Bad Gateway"})
        return self._text(told) if isinstance(told, bytes) else self._send(200, told)

    def do_PATCH(self) -> None:
        body: Json = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        where, _, number = self.path.rpartition("/")
        if where != f"http://api.{HOST}/repos/{REPOSITORY}/pulls" or not self._is_known():
            return self._lost()
        return self._send(200, self.server.owner.patch(int(number), body))

    def do_CONNECT(self) -> None:
        self._lost()

    def _git(self) -> None:
        """What git itself answers to a fetch or a push."""
        folder, (path, _, query) = self.server.owner.git_folder, self.path.partition("?")
        assert folder is not None, self.path
        answer = subprocess.run(
            ["git", "http-backend"],
            input=self.rfile.read(int(self.headers.get("content-length", 0))),
            env={
                "PATH": os.environ["PATH"],
                "GIT_HTTP_EXPORT_ALL": "1",
                "REMOTE_USER": "ada",
                "GIT_PROJECT_ROOT": str(folder),
                "PATH_INFO": path.removeprefix(REMOTE),
                "REQUEST_METHOD": self.command,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("content-type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
                "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            },
            capture_output=True,
            check=True,
        )
        head, _, body = answer.stdout.partition(b"\r\n\r\n")
        headers = dict(row.split(": ", 1) for row in head.decode().split("\r\n"))
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _is_known(self) -> bool:
        return self.headers.get("authorization") == f"token {TOKEN}"

    def _lost(self) -> None:
        self.server.owner.faults.append(f"{self.command} {self.path}")
        self._send(404, {"message": "Not Found"})

    def _send(self, status: int, value: object) -> None:
        self._text(json.dumps(value).encode(), status, "application/json")

    def _text(self, data: bytes, status: int = 200, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("content-type", f"{kind}; charset=utf-8")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
