"""`completion`: the script of a shell, and what it completes."""

import os

import click

from untildone.domain.costs import budget
from untildone.domain.errors import UntildoneError
from untildone.domain.reporting import notification
from untildone.interfaces.output import echo
from untildone.settings.choices import AGENTS, SOURCES
from untildone.settings.load import load
from untildone.wiring.repository import Repository, here

WORDS = {
    "agent": AGENTS,
    "agents": AGENTS,
    "budget": tuple(f"{name}={amount}" for name, amount in budget.EXAMPLES.items()),
    "notify_on": notification.EVENTS,
    "source": ("auto", *SOURCES),
}


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash  untildone completion bash \\
            > ~/.local/share/bash-completion/completions/untildone
    zsh   untildone completion zsh > "${fpath[1]}/_untildone"
    fish  untildone completion fish > ~/.config/fish/completions/untildone.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    script = found(ctx.find_root().command, {}, "untildone", "_UNTILDONE_COMPLETE")
    # Not the bash class's own `source`: it starts bash to look at its version.
    echo(ShellComplete.source(script))
    return 0


def change_names(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Open changes of the repository, and those that have a run."""
    from untildone.wiring.sources import open_changes
    from untildone.wiring.worktrees import changes_with_runs

    try:
        repository = here()
        names = [row.name for row in open_changes(repository.place.top)]
        names += [name for name in changes_with_runs(repository) if name not in names]
    except UntildoneError:
        return []
    return [name for name in names if name.startswith(typed)]


def open_story_ids(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """The open stories of the change that was typed before, or else of the only one."""
    from untildone.commands.look import status
    from untildone.wiring.sources import options_of

    try:
        repository = here()
        change = _change(ctx, param, repository)
        settings = load(repository.place.top, os.environ, {})
        book = status.stories(repository, change, settings.source, options_of(settings))
    except UntildoneError:
        return []
    return [s.id for s in book.stories if not s.done and s.id.startswith(typed)]


def saved_attempts(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """The failed attempts of the change, as STORY/K, newest first."""
    from untildone.commands.look.attempts import attempts

    try:
        repository = here()
        rows = attempts(repository, _change(ctx, param, repository))
    except UntildoneError:
        return []
    names = dict.fromkeys(str(row["attempt"]) for row in reversed(rows))
    return [name for name in names if name.startswith(typed)]


def _change(ctx: click.Context, param: click.Parameter, repository: Repository) -> str:
    """The change that was typed, else the only one with a run, else the only open one."""
    from untildone.wiring.sources import open_changes
    from untildone.wiring.worktrees import the_change

    # Behind an option that has no value yet, the arguments before it are not read.
    typed = next(iter(ctx.params.get("words") or [*ctx.args, ctx.params.get("change")]), None)
    if typed in change_names(ctx, param, typed or ""):
        return str(typed)
    try:
        return the_change(repository)
    except UntildoneError:
        listed = open_changes(repository.place.top)
        if typed or len(listed) != 1:
            raise
        return listed[0].name


def changes_and_stories(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """First a change or a story, then stories."""
    stories = open_story_ids(ctx, param, typed)
    return stories if ctx.params.get("words") else [*change_names(ctx, param, typed), *stories]


def setting_words(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """The words that a setting may be, where click does not know them from its type."""
    known = WORDS[param.name or ""]
    before, comma, last = typed.rpartition(",")
    return [f"{before}{comma}{word}" for word in known if word.startswith(last)]
