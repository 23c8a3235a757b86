"""The tools: what each is asked, and how it answers. At most seven: each costs tokens."""

import contextlib
import os
from collections.abc import Callable
from typing import Annotated, Literal

from anyio.from_thread import check_cancelled
from msgspec import Meta, Struct

from untildone.commands import control
from untildone.commands.background import start_beside
from untildone.commands.look.feed import Feed
from untildone.commands.look.wait import wait
from untildone.commands.run_account import Changes, last_words, run_account
from untildone.domain.errors import UserError
from untildone.domain.reporting.account import StoryAccount
from untildone.interfaces.mcp import answers
from untildone.interfaces.mcp.resources import call_uri, page_of, run_uri
from untildone.interfaces.mcp.served import Served, looked_at
from untildone.interfaces.report.formatting import size as size_words
from untildone.wiring.repository import Repository

MOST_RUNS, LONGEST_WAIT_S, STOP_S = 5, 50, 5.0
PAGE = 6_000

Change = Annotated[
    str, Meta(description="Name of a change, or a run's id. Default: the live run, or the newest.")
]
StoryIds = Annotated[list[str], Meta(description="Ids of stories.")]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S, description="At most 50.")]


class OfRun(Struct, forbid_unknown_fields=True):
    """Of which run."""

    change: Change = ""


class OfStory(Struct, forbid_unknown_fields=True):
    """Of which story."""

    story_id: Annotated[str, Meta(description="Id of the story, as `status` has it.")]
    change: Change = ""


class Waiting(Struct, forbid_unknown_fields=True):
    """For news of which run."""

    change: Change = ""
    after: Annotated[
        int, Meta(ge=-1, description="`seq` of the last answer, so that nothing is missed.")
    ] = -1
    seconds: Seconds = LONGEST_WAIT_S


class Starting(Struct, forbid_unknown_fields=True):
    """What is to run."""

    change: Annotated[
        str, Meta(description="The change, such as the name of an OpenSpec change.")
    ] = ""
    task: Annotated[
        str, Meta(description="Instead of stories: this text again and again until it is done.")
    ] = ""
    resume: Annotated[
        bool, Meta(description="Go on with a run that was stopped, is stuck, or has died.")
    ] = False
    stories: StoryIds = []
    agent: Annotated[str, Meta(description="Default: what the repository's settings say.")] = ""
    model: str = ""
    lanes: Annotated[int, Meta(ge=0, description="Stories at once; 0: as the settings say.")] = 0
    budget: Annotated[list[str], Meta(description="Such as cost=5, time=2h, tokens=2M.")] = []
    repository: Annotated[str, Meta(description="Path or folder name, if several are served.")] = ""


class Guiding(Struct, forbid_unknown_fields=True):
    """What is to be known, and by whom."""

    text: Annotated[str, Meta(description="For the next prompts; answers a story's question.")]
    stories: StoryIds = []
    change: Change = ""


class Stopping(Struct, forbid_unknown_fields=True):
    """Which run, and when."""

    change: Change = ""
    how: Literal["now", "after-iteration", "after-story"] = "now"


class Tool(Struct, frozen=True):
    """`asked` and `answer` are the types of what goes in and comes out."""

    title: str
    about: str
    asked: type[Struct]
    answer: type[Struct]
    call: Callable[..., Struct]
    steers: bool = False
    destructive: bool = False
    idempotent: bool = True


def status(served: Served, asked: OfRun) -> answers.Status:
    runs = served.runs()
    if not asked.change:
        newest = {run.change: run for run in reversed(runs)}
        runs = sorted(newest.values(), key=lambda run: (run.alive(), run.run_id), reverse=True)
    else:
        runs = [served.run(asked.change)]
    shown, stories = [], []
    for run in runs[:MOST_RUNS]:
        with contextlib.suppress(UserError), looked_at(run) as feed:  # removed since, or empty
            shown.append(answers.run_state(feed))
            if len(runs) == 1:
                stories = answers.story_states(feed)
    more = f"{len(runs) - MOST_RUNS} older changes are left out" if len(runs) > MOST_RUNS else ""
    if len(stories) > answers.MOST_STORIES:
        more = f"All stories: {run_uri(runs[0].run_id)}/stories"
    return answers.Status(shown, stories[: answers.MOST_STORIES], more)


def story(served: Served, asked: OfStory) -> answers.Story:
    run = served.run(asked.change)
    with contextlib.closing(Feed(run)) as feed:
        words = last_words(feed.look())
        found = _named(feed.account().stories, asked.story_id)
        calls = found.calls[-answers.MOST_CALLS :]
        sizes = Changes(run.home).sizes(feed.run, calls)
        attempts = []
        for call in calls:
            changed = size_words(sizes[call.n]) if call.n in sizes else ""
            said, uri = words.get(call.n, ""), call_uri(run, call.n)
            attempts.append(answers.attempt(call, said, changed, uri))
        return answers.story(feed, found, attempts)


def _named(stories: tuple[StoryAccount, ...], story_id: str) -> StoryAccount:
    found = next((story for story in stories if story.id == story_id), None)
    if found is None:
        known = ", ".join(story.id for story in stories[: answers.MOST_STORIES])
        raise UserError(f"There is no story `{story_id}` in this run", hint=f"Its stories: {known}")
    return found


def run_wait(served: Served, asked: Waiting) -> answers.News:
    run, after = served.run(asked.change), None if asked.after < 0 else asked.after

    def pause(seconds: float) -> None:
        check_cancelled()
        run.pause(seconds)

    news = wait(run, asked.seconds, for_news=True, after=after, pause=pause)
    told = {name: str(value or "") for name, value in news.data.items() if name != "seq"}
    told["reason"] = answers.short(told["reason"], answers.REASON)
    return answers.News(**told, seq=news.seq, exit_code=news.exit_code)


def report(served: Served, asked: OfRun) -> answers.Report:
    run = served.run(asked.change)
    page = page_of(run_account(run.home, run.run_id))
    fits = page[:PAGE].rpartition("\n")[0] if len(page) > PAGE else page
    rest = f"{run_uri(run.run_id)}/report?from={len(fits)}" if len(fits) < len(page) else ""
    return answers.Report(fits, rest)


def run_start(served: Served, asked: Starting) -> answers.Begun:
    if os.environ.get("UNTILDONE_RUN_ID"):
        raise UserError(
            "An agent inside a run starts no run",
            state="Nothing was changed.",
            hint="End with a promise; runs are started by the person.",
        )
    begun, said = start_beside(_place(served, asked), _words(asked))
    names = ("change_id", "run_id", "log")
    about = {name: str(begun[name]) for name in names if name in begun}
    return answers.Begun(**about, said=said)


def _place(served: Served, asked: Starting) -> Repository:
    """Where the person would type it."""
    if asked.resume and not asked.repository:
        run = served.run(asked.change)
        return run.user or run.repository
    return served.repository(asked.repository)


def _words(asked: Starting) -> list[str]:
    """The command line; what a value begins with cannot make it a flag."""
    flags = {"task": asked.task, "agent": asked.agent, "model": asked.model}
    words = ["resume" if asked.resume else "run"]
    words += [f"--{name}={value}" for name, value in flags.items() if value]
    words += [f"--story={story_id}" for story_id in asked.stories]
    words += [f"--budget={budget}" for budget in asked.budget]
    words += [f"--lanes={asked.lanes}"] if asked.lanes else []
    return [*words, "--", asked.change] if asked.change else words


def guide(served: Served, asked: Guiding) -> answers.Told:
    with served.steering:
        run = served.steered(asked.change)
        said = control.Said(asked.text, tuple(asked.stories))
        heard = control.guide(run.home, run.change, said)
    if isinstance(heard, control.Early):
        return answers.Told(heard.change, live=False)
    return answers.Told(heard.change, heard.live, heard.released, heard.ask_the_same, heard.asking)


def stop(served: Served, asked: Stopping) -> answers.Said:
    run = served.steered(asked.change)
    return answers.Said(control.stop(run.repository, run.change, asked.how, STOP_S))


TOOLS = {
    "status": Tool(
        "Where runs stand",
        "Where runs stand: state, counts, open questions, cost. With `change` its stories, too.",
        *(OfRun, answers.Status, status),
    ),
    "story": Tool(
        "One story and its attempts",
        "One story: its question, and how each attempt went, with links to log and diff.",
        *(OfStory, answers.Story, story),
    ),
    "run_wait": Tool(
        "Wait for news of a run",
        "Wait up to 50 s for the next thing worth knowing: a story done or failed, a question, a "
        "limit, the end. `timeout` means that nothing has happened: call again.",
        *(Waiting, answers.News, run_wait),
    ),
    "report": Tool(
        "What happened in a run",
        "The report of a run as Markdown: outcome, attempts, checks, cost, what is saved where.",
        *(OfRun, answers.Report, report),
    ),
    "run_start": Tool(
        "Start a run",
        "Start the loop over a change; it runs on without you. Answers at once: follow it with "
        "`run_wait`. It calls paid agents and works on the branch ralph/CHANGE.",
        *(Starting, answers.Begun, run_start),
        steers=True,
        idempotent=False,
    ),
    "guide": Tool(
        "Tell the agent something",
        "Tell the run's agent something in its next prompts, or answer a story's question.",
        *(Guiding, answers.Told, guide),
        steers=True,
        idempotent=False,
    ),
    "stop": Tool(
        "Stop a run",
        "Stop a live run; nothing is lost, and `run_start` with `resume` goes on later.",
        *(Stopping, answers.Said, stop),
        steers=True,
        destructive=True,
    ),
}
