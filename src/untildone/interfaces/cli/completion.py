"""`completion`: the script of a shell, and what it completes."""

import click

from untildone.domain.errors import UntildoneError
from untildone.interfaces.output import echo
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

    try:
        names = [row.name for row in open_changes(here().place.top)]
    except UntildoneError:
        return []
    return [name for name in names if name.startswith(typed)]
