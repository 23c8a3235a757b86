"""`interview`: what a plan leaves open is asked once, before the night; answers become guidance."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from untildone.adapters.records.durable import replace_file
from untildone.commands import control
from untildone.commands.control import Early, Heard, Said
from untildone.commands.plan.drafting import LARGEST
from untildone.commands.plan.single_call import CallFailed, Spent, failure, single_calls
from untildone.commands.start.early_guidance import book_of, is_early, waiting
from untildone.domain.agents.agent import Notice
from untildone.domain.agents.drafting import interview_prompt
from untildone.domain.errors import CloseRefused, UserError
from untildone.domain.plain_text import plain
from untildone.domain.stories.story import Story
from untildone.plain_files import read_bytes
from untildone.settings.settings import Settings
from untildone.wiring.repository import Repository

STORY = "interview"  # what the agent is told that it works on
FILE = "untildone-questions.json"
FOLDER = "interviews"
SECRETIVE = 0o600


class Question(Struct, frozen=True):
    """One question; no `stories` means all, no `choices` a free text."""

    question: str
    group: str = ""
    stories: tuple[str, ...] = ()
    why: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""


class NotAnswered(CloseRefused):
    """The questions are kept, and the command that answers them is known."""

    def __init__(self, message: str, change: str) -> None:
        super().__init__(
            message,
            state="Nothing was changed; what was asked is kept.",
            hint=f"untildone interview {change} --json, then --answers FILE",
        )


class _Answered(Struct, frozen=True):
    """What the agent writes."""

    questions: tuple[Question, ...]


class Interview(Struct, frozen=True):
    """The questions about a plan; `plan` tells whether it is still the same."""

    change: str
    plan: str
    questions: tuple[Question, ...]

    @property
    def numbered(self) -> Iterator[tuple[str, Question]]:
        """With the id that an answer names, groups together."""
        groups = list(dict.fromkeys(question.group for question in self.questions))
        together = sorted(self.questions, key=lambda question: groups.index(question.group))
        return ((f"q{number}", question) for number, question in enumerate(together, 1))


def known(repository: Repository, change: str) -> Interview | None:
    """The questions of an earlier call, if the plan is still the same."""
    text = plan_text(repository, change)
    try:
        found = msgspec.json.decode(read_bytes(_path(repository, change)), type=Interview)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.plan == _hash(text) else None


def ask(
    repository: Repository,
    settings: Settings,
    change: str,
    most: int,
    on_notice: Callable[[Notice], None],
) -> tuple[Interview, Spent]:
    """One call over the whole plan, in a copy that is thrown away; it may only ask."""
    text, book = plan_text(repository, change), book_of(repository, change)
    with single_calls(repository, settings, change, book.files) as calls:
        report = calls.call(interview_prompt(change, text, FILE, most), STORY, on_notice)
        data = _written(calls.top / FILE)
        if data is None and (trouble := failure(report, calls.agent)):
            raise trouble
        questions = _read(data, calls.agent, {story.id for story in book.stories})
        found = Interview(change, _hash(text), questions[:most])
        path = _path(repository, change)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, [msgspec.json.encode(found)], path.with_suffix(".draft"), SECRETIVE)
        return found, calls.spent


def plan_text(repository: Repository, change: str) -> str:
    """The open stories as agents will get them, and what is answered already."""
    book = book_of(repository, change)
    open_stories = book.open_stories(frozenset())
    if not open_stories:
        raise UserError(
            f"Every story of `{change}` is done: there is nothing to ask about",
            state="Nothing was changed.",
            hint=f"untildone stories {change}",
        )
    known = [f"- {text}" for text in _guidance(repository, change)]
    answered = ["## What the person has said already", *known] if known else []
    return "\n\n".join([*map(_told, open_stories), "\n".join(answered)]).strip()


def read_answers(data: bytes, interview: Interview) -> dict[str, str]:
    """Answers of a script, by the ids of the questions; one that names none is an error."""
    try:
        found = msgspec.json.decode(data)
        told = found.get("answers", found) if isinstance(found, dict) else None
        answers = msgspec.convert(told, dict[str, str])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UserError(
            f"The answers cannot be read: {error}",
            state="Nothing was changed.",
            hint='Write JSON like {"answers": {"q1": "text of the answer"}}',
        ) from error
    unknown = answers.keys() - dict(interview.numbered).keys()
    if unknown:
        raise UserError(
            f"There is no question {', '.join(sorted(unknown))}",
            state="Nothing was changed.",
            hint=f"`untildone interview {interview.change} --json` lists them",
        )
    return answers


def take(
    repository: Repository, interview: Interview, answers: Mapping[str, str]
) -> Heard | Early | None:
    """The answers as guidance of their stories; None if there is none."""
    questions = dict(interview.numbered)
    said = [_said(questions[name], text) for name, text in answers.items() if text.strip()]
    if not said:
        return None
    heard = control.guide(repository, interview.change, *said)
    _path(repository, interview.change).unlink(missing_ok=True)
    return heard


def defaults(interview: Interview) -> dict[str, str]:
    """What the agent would have taken."""
    return {name: question.default for name, question in interview.numbered if question.default}


def _said(question: Question, answer: str) -> Said:
    return Said(f"Question: {question.question}\nAnswer: {answer.strip()}", question.stories)


def _told(story: Story) -> str:
    rows = [f"## Story {story.id}: {story.title}"]
    if story.depends_on:
        rows.append(f"Comes after: {', '.join(story.depends_on)}")
    rows += [story.body.strip()] if story.body.strip() else []
    for task in story.tasks:
        rows.append(f"- [{'x' if task.done else ' '}] {task.text}")
        rows += [task.detail.rstrip("\n")] if task.detail else []
    return "\n".join([*rows, *(f"- must hold: {text}" for text in story.acceptance)])


def _guidance(repository: Repository, change: str) -> list[str]:
    run = repository.latest(change)
    if run is None or is_early(run):
        return [piece.text for piece in waiting(repository, change)]
    return [piece.text for piece in run.guidance]


def _written(path: Path) -> bytes | None:
    """What the agent wrote; a link or a pipe is no answer."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
        return None
    return read_bytes(path)


def _read(data: bytes | None, agent: str, ids: Iterable[str]) -> tuple[Question, ...]:
    if data is None:
        raise CallFailed(
            f"The agent `{agent}` has written no questions into {FILE}",
            state="Nothing was changed.",
            hint="Try again, or name another agent with `--agent`.",
        )
    try:
        found = msgspec.json.decode(data, type=_Answered).questions
    except (msgspec.DecodeError, RecursionError) as error:
        raise CallFailed(
            f"What the agent `{agent}` wrote is not in the form that was asked for: {error}",
            state="Nothing was changed.",
            hint="Try again, or name another agent with `--agent`.",
        ) from error
    return tuple(_cleaned(question, set(ids)) for question in found if question.question.strip())


def _cleaned(question: Question, ids: set[str]) -> Question:
    """In plain text; stories that are not there are left out."""
    line = " ".join
    return Question(
        line(plain(question.question).split()),
        line(plain(question.group).split()),
        tuple(name for name in question.stories if name in ids),
        line(plain(question.why).split()),
        tuple(line(plain(choice).split()) for choice in question.choices if choice.strip()),
        line(plain(question.default).split()),
    )


def _path(repository: Repository, change: str) -> Path:
    return repository.home / FOLDER / f"{change.replace('/', '%')}.json"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
