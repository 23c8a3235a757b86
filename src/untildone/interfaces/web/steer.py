"""What may be sent to a run: the same as with the commands, and by the same way."""

from collections.abc import Callable, Mapping

from untildone.commands import control
from untildone.commands.look.feed import Followed
from untildone.domain.errors import UserError
from untildone.wiring.repository import Repository

Fields = Mapping[str, str]
HOW = ("now", "after-iteration", "after-story")


def _guide(repository: Repository, change: str, fields: Fields) -> str:
    story = fields.get("story_id", "")
    said = control.Said(fields.get("text", ""), (story,) if story else ())
    heard = control.guide(repository, change, said)
    if isinstance(heard, control.Early):
        return f"This run is over; the next one of {change} will be told."
    whom = f"story {story}" if story else "every story"
    return _heard(heard, f"The next prompt of {whom} will say it.")


def _answer(repository: Repository, change: str, fields: Fields) -> str:
    return _guide(repository, change, fields)


def _skip(repository: Repository, change: str, fields: Fields) -> str:
    story = fields.get("story_id", "")
    heard = control.skip(repository, change, story, fields.get("why", ""))
    return _heard(heard, f"Story {story} is skipped.", goes_on=False)


def _retry(repository: Repository, change: str, fields: Fields) -> str:
    story = fields.get("story_id", "")
    heard = control.retry(repository, change, story)
    return _heard(heard, f"Story {story} will be tried with all its retries.")


def _stop(repository: Repository, change: str, fields: Fields) -> str:
    how = fields.get("how", "now")
    if how not in HOW:
        raise UserError(f"There is no way to stop called `{how}`", hint=", ".join(HOW))
    return control.stop(repository, change, how)


def _heard(heard: control.Heard, text: str, *, goes_on: bool = True) -> str:
    if heard.released:
        text += f" Retried: {', '.join(heard.released)}."
    if not heard.live and goes_on:
        text += f" No loop runs now: `untildone resume {heard.change}` goes on."
    return text


Action = Callable[[Repository, str, Fields], str]
ACTIONS: dict[str, Action] = {
    "guide": _guide,
    "answer": _answer,
    "skip": _skip,
    "retry": _retry,
    "stop": _stop,
}


def steered(source: Followed, action: Action, fields: Fields) -> str:
    """What a command does, for this very run and no other of its change."""
    repository = source.home
    control.refuse_agent(source.run_id)
    change = source.run().plan.change_id
    if repository.newest(change) != source.run_id:
        raise UserError(
            f"This is not the newest run of {change}",
            state="Nothing was changed.",
            hint="The newest one is on the board.",
        )
    return action(repository, change, fields)
