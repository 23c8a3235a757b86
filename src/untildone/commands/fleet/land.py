"""A finished change onto its base branch: its stories as lanes land theirs, checked, pushed."""

import os

from untildone.adapters.checks.shell import ShellChecks
from untildone.adapters.git.push import RefPush, UsersGit
from untildone.adapters.records.run_folder import RunFolder
from untildone.adapters.sandbox import RunEnvironment
from untildone.adapters.slots.landing import Landing
from untildone.commands.fleet.checkout import Checkout, Task, as_flags
from untildone.commands.start.plan import with_detected
from untildone.domain.checks.checks import Level, parse
from untildone.domain.errors import Interrupted
from untildone.domain.fleet.order import LandResult
from untildone.domain.run.landing import Conflict
from untildone.settings.load import load
from untildone.wiring.repository import Repository

NAMED = 5
TAIL = 300


def land(checkout: Checkout, host: str, task: Task) -> LandResult:
    """All of it or nothing; a conflict or a red check is a result."""
    tips, git = checkout.tips, checkout.mirror.git
    if not tips.branch:
        return LandResult(landed=False, host=host, reason="its branch is not on the remote")
    if git.is_ancestor(tips.branch, tips.base):
        return LandResult(landed=True, host=host, commit=tips.base)
    base = git.merge_base(tips.base, tips.branch)
    if not base:
        return LandResult(landed=False, host=host, reason="branch and base have nothing in common")
    repository, variables = checkout.at(tips.base)
    found = _united(repository, checkout, base)
    if isinstance(found, Conflict):
        files = ", ".join(found.files[:NAMED])
        return LandResult(landed=False, host=host, reason=f"it conflicts with the base in: {files}")
    repository.git().do("checkout", "-q", "--detach", found)
    if red := _red_check(checkout, repository, variables, task):
        return LandResult(landed=False, host=host, reason=red)
    name = f"refs/heads/{tips.base_name}"
    users = UsersGit(checkout.processes, repository.place.top)
    answer = users.publish(checkout.order.repository, [RefPush(name, found, tips.base)])
    if not answer.ok:  # somebody else has pushed to the base: the engine asks for another try
        raise checkout.mirror.refused("did not take the landing", answer)
    return LandResult(landed=True, host=host, commit=found)


def _united(repository: Repository, checkout: Checkout, base: str) -> str | Conflict:
    """The base branch with every commit of the change on top; its own commits if it can be so."""
    tips, git = checkout.tips, repository.git()
    if base == tips.base:
        return tips.branch
    git.use_fallback_identity_if_none()
    folder = RunFolder(repository.home, f"fleet-{tips.base[:12]}").path
    landing = Landing(git, repository.place, checkout.order.change_id, folder)
    tip, parent = tips.base, base
    for commit in git.commits_since(base, [tips.branch]):
        merged = landing.merge(tip, parent, commit)
        if isinstance(merged, Conflict):
            return merged
        tip = landing.candidate(tip, merged.tree, git.message(commit))
        parent = commit
    return tip


def _red_check(
    checkout: Checkout, repository: Repository, variables: dict[str, str], task: Task
) -> str:
    top = repository.place.top
    settings = load(top, os.environ, as_flags(checkout.order))
    reports = repository.home / "reports"
    environment = RunEnvironment(variables)
    checks = ShellChecks(checkout.processes, environment, top, reports, task.is_stopped)
    limit = 60 * (settings.verify_timeout or settings.timeout)
    for check in map(parse, with_detected(settings, top)[0].verify):
        if check.level is not Level.REQUIRED:
            continue
        found = checks.run(check.command, limit)
        if task.is_stopped():
            raise Interrupted("The checks of a landing were cut short")
        if found.reason:
            return f"`{check.command}` fails on top of the base: {found.output[-TAIL:].strip()}"
    return ""
