"""`completion`: the script of a shell, and what it completes."""

import os

import click

from untildone.domain.errors import UntildoneError
from untildone.interfaces.output import echo
from untildone.settings.choices import AGENTS, SOURCES
from untildone.settings.load import load
from untildone.wiring.repository import here


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
    """The open stories of the change that was typed before, or else of the only one with a run."""
    from untildone.commands import status
    from untildone.wiring.sources import options_of
    from untildone.wiring.worktrees import the_change

    # Behind an option that has no value yet, the arguments before it are not read.
    first = next(iter(ctx.params.get("words") or ctx.args), "")
    try:
        repository = here()
        change = first if first in change_names(ctx, param, first) else the_change(repository)
        settings = load(repository.place.top, os.environ, {})
        book = status.stories(repository, change, settings.source, options_of(settings))
    except UntildoneError:
        return []
    return [s.id for s in book.stories if not s.done and s.id.startswith(typed)]


def changes_and_stories(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """First a change or a story, then stories."""
    stories = open_story_ids(ctx, param, typed)
    return stories if ctx.params.get("words") else [*change_names(ctx, param, typed), *stories]


def setting_words(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """The words that a setting may be, where its help does not list them: agents, story sources."""
    known = {"agent": AGENTS, "agents": AGENTS, "source": ("auto", *SOURCES)}[param.name or ""]
    before, comma, last = typed.rpartition(",")
    return [f"{before}{comma}{word}" for word in known if word.startswith(last)]
