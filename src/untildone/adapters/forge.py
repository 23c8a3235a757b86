"""Pull requests of GitHub and merge requests of GitLab, through `gh` and `glab`."""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from untildone.adapters.git.environment import clean_environment
from untildone.adapters.git.push import Remote
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.domain.agents.agent import Ending
from untildone.domain.checks.ci import Check
from untildone.domain.errors import UntildoneError
from untildone.domain.plain_text import plain
from untildone.domain.regex import regex

TIMEOUT_S = 60.0
MOST_CHECKS = 100
ACTIONS = "github-actions"
QUIET = {
    "NO_COLOR": "1",
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_TELEMETRY": "false",
    "DO_NOT_TRACK": "1",
    "NO_PROMPT": "1",
    "GLAB_CHECK_UPDATE": "false",
}
_ADDRESS = regex(r"https?://\S+?/(?:pull|merge_requests)/(\d+)")
# Older releases of `gh` ask for something that GitHub does not have any more.
_TOO_OLD_TO_EDIT = "Projects (classic)"


class ForgeRefused(UntildoneError):
    """The program of the forge said no, or nothing in time."""


class PullRequest(Struct, frozen=True):
    """One that is open."""

    number: int
    url: str
    draft: bool
    base: str = ""


class Wanted(Struct, frozen=True):
    """What the pull request of a branch is to be; the text is in a file, too."""

    branch: str
    base: str
    title: str
    text: str
    text_file: Path
    draft: bool


class Program:
    """One of the two programs, told which project is meant where the remote's address says it."""

    name = ""
    login = ""

    def __init__(
        self, processes: Processes, top: Path, remote: Remote, interrupted: Callable[[], bool]
    ) -> None:
        self._processes = processes
        self._top = top
        self._interrupted = interrupted
        # A host without a dot is a name of this machine's ssh: the program asks that itself.
        self.project = self._project_flags(remote) if "." in remote.host else ()

    def find(self, branch: str) -> PullRequest | None:
        raise NotImplementedError

    def create(self, wanted: Wanted) -> PullRequest:
        """A new one; what was opened meanwhile is found."""
        said = self._call(*self.creating(wanted), *self.project)
        return self._opened(said, wanted) or self.find(wanted.branch) or _untold(self.name, said)

    def update(self, found: PullRequest, wanted: Wanted) -> None:
        raise NotImplementedError

    def set_draft(self, found: PullRequest, *, draft: bool) -> None:
        raise NotImplementedError

    def head(self, found: PullRequest) -> str:
        """The commit that its checks are about; empty once it is not open any more."""
        raise NotImplementedError

    def checks(self, found: PullRequest, commit: str) -> tuple[Check, ...]:
        raise NotImplementedError

    def log(self, found: PullRequest, check: Check) -> str:
        """What a check has printed, as far as the forge has it."""
        raise NotImplementedError

    def creating(self, wanted: Wanted) -> tuple[str, ...]:
        """The words of the call that opens one."""
        raise NotImplementedError

    def _project_flags(self, remote: Remote) -> tuple[str, ...]:
        return ("--repo", f"{remote.host}/{remote.path}")

    def _opened(self, said: str, wanted: Wanted) -> PullRequest | None:
        address = _ADDRESS.search(said)
        if address is None:
            return None
        return PullRequest(int(address[1]), address[0], wanted.draft, wanted.base)

    def _listed(self, *words: str) -> list[Mapping[str, Any]]:
        said = self._call(*words, *self.project)
        try:
            rows = json.loads(said or "[]")
        except ValueError:
            return []  # `create` says what is wrong
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    def _call(self, *words: str) -> str:
        environment = clean_environment(os.environ) | QUIET
        command = Command((self.name, *words), self._top, environment, timeout_s=TIMEOUT_S)
        answer = self._processes.capture(command, self._interrupted)
        if answer.ok:
            return answer.stdout.decode(errors="replace").strip()
        said = plain((answer.stderr or answer.stdout).decode(errors="replace")).strip()[-2000:]
        if answer.ending is Ending.TIMEOUT:
            said = f"no answer within {TIMEOUT_S:.0f} s"
        raise ForgeRefused(
            f"`{self.name} {' '.join(words[:2])}` failed: {said or 'it said nothing'}",
            hint=self.login if re.search(r"(?i)auth|log ?in|401|token", said) else "",
        )


class GitHub(Program):
    """Through `gh`."""

    name = "gh"
    login = "gh auth login"

    def find(self, branch: str) -> PullRequest | None:
        """The open pull request of a branch of this very repository."""
        fields = "number,url,isDraft,baseRefName,isCrossRepository"
        rows = self._listed("pr", "list", "--head", branch, "--state", "open", "--json", fields)
        for row in rows:
            if row.get("number") and row.get("url") and not row.get("isCrossRepository"):
                draft, base = bool(row.get("isDraft")), str(row.get("baseRefName") or "")
                return PullRequest(int(row["number"]), str(row["url"]), draft, base)
        return None

    def creating(self, wanted: Wanted) -> tuple[str, ...]:
        draft = ("--draft",) if wanted.draft else ()
        words = ("pr", "create", "--head", wanted.branch, "--base", wanted.base, *draft)
        return (*words, "--title", wanted.title, "--body-file", str(wanted.text_file))

    def update(self, found: PullRequest, wanted: Wanted) -> None:
        base = ("--base", wanted.base) if wanted.base != found.base else ()
        words = ("pr", "edit", str(found.number), "--body-file", str(wanted.text_file), *base)
        try:
            self._call(*words, *self.project)
        except ForgeRefused as refused:
            if _TOO_OLD_TO_EDIT not in refused.message:
                raise
            self._update_by_hand(found, wanted)

    def _update_by_hand(self, found: PullRequest, wanted: Wanted) -> None:
        fields = ("-F", f"body=@{wanted.text_file}", "-f", f"base={wanted.base}")
        self._api(found, f"pulls/{found.number}", "--method", "PATCH", *fields)

    def head(self, found: PullRequest) -> str:
        told = self._told(found, f"pulls/{found.number}")
        return str(_row(told, "head").get("sha") or "") if told.get("state") == "open" else ""

    def checks(self, found: PullRequest, commit: str) -> tuple[Check, ...]:
        """Those of apps (Actions and others), and the older statuses; 100 of each at most."""
        runs = self._told(found, f"commits/{commit}/check-runs?per_page={MOST_CHECKS}")
        status = self._told(found, f"commits/{commit}/status?per_page={MOST_CHECKS}")
        checks = [_check_run(row) for row in _rows(runs, "check_runs")]
        return (*checks, *(_status(row) for row in _rows(status, "statuses")))

    def log(self, found: PullRequest, check: Check) -> str:
        if check.log:
            with suppress(ForgeRefused):  # old logs are deleted there
                return self._api(found, f"actions/jobs/{check.log}/logs")
        return check.said

    def _told(self, found: PullRequest, what: str) -> Mapping[str, Any]:
        said = self._api(found, what)
        try:
            told = json.loads(said)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise ForgeRefused(f"`gh api` did not answer with JSON: {plain(said)[:300]}")
        return told

    def _api(self, found: PullRequest, what: str, *words: str) -> str:
        """The other interface, which all releases of `gh` know in the same way."""
        project = re.search(r"//([^/]+)/([^/]+/[^/]+)/pull/", found.url)
        where = f"repos/{project[2] if project else '{owner}/{repo}'}/{what}"
        host = ("--hostname", project[1]) if project else ()
        return self._call("api", *host, where, *words)

    def set_draft(self, found: PullRequest, *, draft: bool) -> None:
        undo = ("--undo",) if draft else ()
        self._call("pr", "ready", str(found.number), *undo, *self.project)


def _rows(told: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    rows = told.get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _row(told: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    row = told.get(key)
    return row if isinstance(row, dict) else {}


def _check_run(row: Mapping[str, Any]) -> Check:
    ended = row.get("status") == "completed"
    output, app = _row(row, "output"), _row(row, "app")
    said = (str(output.get(key) or "") for key in ("title", "summary", "text"))
    return Check(
        str(row.get("name") or ""),
        str(row.get("conclusion") or "failure") if ended else "",
        str(row.get("details_url") or row.get("html_url") or ""),
        str(row.get("id") or "") if app.get("slug") == ACTIONS else "",
        "\n".join(filter(None, said)),
    )


def _status(row: Mapping[str, Any]) -> Check:
    state = str(row.get("state") or "")
    return Check(
        str(row.get("context") or ""),
        "" if state == "pending" else state,
        str(row.get("target_url") or ""),
        said=str(row.get("description") or ""),
    )


class GitLab(Program):
    """Through `glab`, which takes the text as an argument."""

    name = "glab"
    login = "glab auth login"

    def find(self, branch: str) -> PullRequest | None:
        """The open merge request of a branch."""
        for row in self._listed("mr", "list", "--source-branch", branch, "--output", "json"):
            if row.get("iid") and row.get("web_url"):
                draft, base = bool(row.get("draft")), str(row.get("target_branch") or "")
                return PullRequest(int(row["iid"]), str(row["web_url"]), draft, base)
        return None

    def creating(self, wanted: Wanted) -> tuple[str, ...]:
        draft = ("--draft",) if wanted.draft else ()
        words = ("--source-branch", wanted.branch, "--target-branch", wanted.base, *draft, "--yes")
        text = ("--title", wanted.title, "--description", wanted.text)
        return ("mr", "create", *words, *text)

    def update(self, found: PullRequest, wanted: Wanted) -> None:
        base = ("--target-branch", wanted.base) if wanted.base != found.base else ()
        words = ("mr", "update", str(found.number), "--description", wanted.text, *base)
        self._call(*words, *self.project)

    def set_draft(self, found: PullRequest, *, draft: bool) -> None:
        word = "--draft" if draft else "--ready"
        self._call("mr", "update", str(found.number), word, *self.project)

    def _project_flags(self, remote: Remote) -> tuple[str, ...]:
        return ("--repo", f"https://{remote.host}/{remote.path}")


FORGES: dict[str, type[Program]] = {"github": GitHub, "gitlab": GitLab}


def forge_of(remote: Remote, told: str) -> tuple[str, ...]:
    """Which forge it is: as told, by the host, or by what is installed; both: nobody knows."""
    by_host = [name for name in FORGES if name in remote.host]
    if told or by_host:
        return (told or by_host[0],)
    return tuple(name for name, forge in FORGES.items() if shutil.which(forge.name)) or ("github",)


def _untold(name: str, said: str) -> PullRequest:
    raise ForgeRefused(f"`{name}` opened something and did not say what: {plain(said)[:500]}")
