"""`completion`: the script of a shell, and what it completes."""

import os

import click

from untildone.domain.errors import UntildoneError
from untildone.interfaces.output import echo
from untildone.settings.load import load
from untildone.settings.settings import AGENTS, SOURCES
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
    """The open stories of the change that was typed before."""
    from untildone.commands import status
    from untildone.wiring.sources import options_of

    # Behind an option that has no value yet, the arguments before it are not read.
    change = ctx.params.get("change") or next(iter(ctx.args), "")
    try:
        repository = here()
        settings = load(repository.place.top, os.environ, {})
        book = status.stories(repository, change, settings.source, options_of(settings))
    except UntildoneError:
        return []
    return [s.id for s in book.stories if not s.done and s.id.startswith(typed)]


def setting_words(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """The words that a setting may be, where its help does not list them: agents, story sources."""
    known = {"agent": AGENTS, "agents": AGENTS, "source": ("auto", *SOURCES)}[param.name or ""]
    before, comma, last = typed.rpartition(",")
    return [f"{before}{comma}{word}" for word in known if word.startswith(last)]
