"""`lint`: what is wrong with a plan, before anybody works on it."""

import os
from collections.abc import Iterable

import click

from untildone.commands.start.lint import Linted, changes_to_lint, lint_change
from untildone.domain.errors import UserError
from untildone.domain.plain_text import count_of
from untildone.domain.stories.lint import Finding, Level, counted
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.cli.setting_flags import given, setting_flags
from untildone.interfaces.output import echo, echo_json
from untildone.settings.load import load
from untildone.wiring.repository import here

FOUND = 3
COLORS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.INFO: ""}


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option("--fix", is_flag=True, help="Mend what has only one answer, then look again.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@setting_flags("source", "source_file", "granularity", "verify", "lanes")
def lint(
    change: str,
    fix: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
    **flags: object,
) -> int:
    """What is wrong with the plan of CHANGE: no agent is called and no check is run.

    Without CHANGE: every open one. Exit code 0 without errors and warnings, 3 with some, 2 if a
    plan cannot be read.
    """
    repository = here()
    settings = load(repository.place.top, os.environ, given(flags))
    done: list[Linted] = []
    unread: list[UserError] = []
    for name in changes_to_lint(repository, change, settings):
        try:
            done.append(lint_change(repository, name, settings, fix=fix))
        except UserError as error:
            unread.append(error)
    _show(done, as_json=as_json, fix=fix)
    if unread:
        raise unread[0]
    return FOUND if any(counted(linted.findings) for linted in done) else 0


def finding_json(finding: Finding) -> dict[str, object]:
    """A finding as scripts get it."""
    keys = ("level", "rule", "path", "line", "story_id", "message", "fix")
    return {key: getattr(finding, key) for key in keys}


def _show(done: list[Linted], *, as_json: bool, fix: bool) -> None:
    findings = [finding for linted in done for finding in linted.findings]
    fixed = [finding for linted in done for finding in linted.fixed]
    if as_json:
        mended = {"fixed": list(map(finding_json, fixed))} if fix else {}
        echo_json({"findings": list(map(finding_json, findings))} | mended)
        return
    for finding in fixed:
        echo(f"{_place(finding)}: fixed ({finding.rule}): {finding.fix}")
    show_findings(findings)
    if not done:
        echo("No change is open here.")
    for linted in done:
        echo(f"{linted.change}: {_told(linted.findings)}.")
    if left := sum(finding.only_fix for finding in findings):
        echo(f"`untildone lint --fix` mends {left} of them.")


def show_findings(findings: Iterable[Finding]) -> None:
    """Each finding with its place, and what to write instead."""
    color = not os.environ.get("NO_COLOR")
    for finding in findings:
        said = f"{finding.level}: {finding.message} ({finding.rule})"
        echo(f"{_place(finding)}: {said}", color=COLORS[finding.level] * color, wrap=True)
        if finding.fix:
            echo(f"    write: {finding.fix}")


def _told(findings: tuple[Finding, ...]) -> str:
    infos = [finding for finding in findings if finding.level is Level.INFO]
    more = f", and {count_of(len(infos), 'remark')}" if infos else ""
    return f"{counted(findings) or 'nothing to mend'}{more}"


def _place(finding: Finding) -> str:
    return f"{finding.path}:{finding.line}"
