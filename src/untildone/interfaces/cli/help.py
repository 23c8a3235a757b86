"""`help`: what is no matter of one command alone."""

from difflib import get_close_matches

import click

from untildone.domain.errors import UserError
from untildone.interfaces.cli.command_table import COMMANDS
from untildone.interfaces.output import echo
from untildone.interfaces.topics import TOPICS, Topic


def topic_names(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """What a shell completes: topics, then commands."""
    return [name for name in (*TOPICS, *COMMANDS) if name.startswith(typed)]


@click.command()
@click.argument("topic", required=False, default="", shell_complete=topic_names)
@click.pass_context
def help(ctx: click.Context, topic: str) -> int:
    """Explain TOPIC, or list the topics; of a command: its options."""
    formatter = ctx.make_formatter()
    if topic in TOPICS:
        _write(formatter, TOPICS[topic]())
    elif topic in COMMANDS:
        return _help_of(ctx, topic)
    elif topic:
        near = get_close_matches(topic, (*TOPICS, *COMMANDS), 1)
        hint = f"untildone help {near[0]}" if near else "`untildone help` lists the topics"
        raise UserError(f"There is no topic of this name: {topic}", hint=hint)
    else:
        _write_list(formatter)
    echo(formatter.getvalue().rstrip("\n"))
    return 0


def _help_of(ctx: click.Context, name: str) -> int:
    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, name)
    assert command is not None
    with command.make_context(name, ["--help"], parent=root):
        return 0


def _write(formatter: click.HelpFormatter, topic: Topic) -> None:
    formatter.write_text(topic.before or topic.summary)
    formatter.write_paragraph()
    formatter.write_dl(topic.rows)
    if topic.after:
        formatter.write_paragraph()
        formatter.write_text(topic.after)


def _write_list(formatter: click.HelpFormatter) -> None:
    formatter.write_text("`untildone help TOPIC` explains:")
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_dl([(name, topic().summary) for name, topic in TOPICS.items()])
    formatter.write_paragraph()
    formatter.write_text(
        "`untildone --help` lists the commands, `untildone COMMAND --help` their options."
    )
