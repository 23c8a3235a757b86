"""What the tools answer: small, the same for every client; msgspec makes the schemas of it."""

from msgspec import Struct

from untildone.app.wording import how_to_go_on
from untildone.commands.look.feed import Feed
from untildone.domain.reporting import views
from untildone.domain.reporting.account import Call, StoryAccount
from untildone.domain.run.run import Run

MOST_STORIES, MOST_CALLS, TITLE, REASON, WORDS = 60, 5, 80, 400, 600


class Stories(Struct, omit_defaults=True):
    """How many there are, are finished, and were verified by a check."""

    total: int
    finished: int
    verified: int = 0


class Question(Struct):
    """A story that waits for an answer of the person."""

    story_id: str
    question: str


class RunState(Struct, omit_defaults=True):
    """`seq` is the number of its last event; `next` is the command that goes on."""

    change_id: str
    run_id: str
    worktree: str
    status: str
    phase: str
    alive: bool
    seq: int
    calls: int = 0
    story_id: str = ""
    reason: str = ""
    error: str = ""
    stories: Stories | None = None
    questions: list[Question] = []
    parked: list[str] = []
    waiting_until: str = ""
    tokens: int = 0
    cost_usd: float | None = None
    next: str = ""


class StoryState(Struct, omit_defaults=True):
    """A story in one line."""

    id: str
    title: str
    state: str
    calls: int = 0


class Status(Struct, omit_defaults=True):
    """Runs, what is live and new first; the stories are those of the run that was named."""

    runs: list[RunState]
    stories: list[StoryState] = []
    more: str = ""


class Attempt(Struct, omit_defaults=True):
    """One agent call; `log` and `diff` are resources, `words` is what the agent said last."""

    call: int
    outcome: str
    attempt: int = 0
    reason: str = ""
    checks_failed: list[str] = []
    seconds: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    changed: str = ""
    commit: str = ""
    saved_ref: str = ""
    words: str = ""
    log: str = ""
    diff: str = ""


class Story(Struct, omit_defaults=True):
    """A story and its last attempts."""

    id: str
    title: str
    state: str
    question: str = ""
    guidance: list[str] = []
    attempts: list[Attempt] = []
    more: str = ""


class News(Struct, omit_defaults=True):
    """What has happened; call again with `after` set to `seq`. `exit_code`: the run is over."""

    event: str
    change_id: str
    status: str
    phase: str
    story_id: str
    reason: str
    seq: int
    exit_code: int | None = None


class Begun(Struct, omit_defaults=True):
    """The loop is up, or `said` tells why there was nothing to start."""

    change_id: str = ""
    run_id: str = ""
    log: str = ""
    said: str = ""


class Told(Struct, omit_defaults=True):
    """`live`: a loop hears it now; else `untildone resume` does. `asking` still need an answer."""

    change_id: str
    live: bool
    released: list[str] = []
    ask_the_same: list[str] = []
    asking: list[str] = []


class Said(Struct):
    """What came of it."""

    said: str


class Report(Struct, omit_defaults=True):
    """The page as Markdown; `rest` is the resource with what did not fit."""

    page: str
    rest: str = ""


def run_state(feed: Feed) -> RunState:
    run, spent = feed.run, feed.run.ledger.total
    shown = views.state(run, 0, None)
    counts = views.stories(run)
    parked = views.parked(run)
    return RunState(
        change_id=run.plan.change_id,
        run_id=run.plan.run_id,
        worktree=str(feed.source.repository.place.top),
        status=run.status,
        phase=views.phase(run),
        alive=feed.alive,
        seq=feed.seq,
        calls=len(run.iterations),
        story_id=str(shown["story_id"] or ""),
        reason=run.reason or "",
        error=short(run.error, REASON),
        stories=_stories(counts) if counts else None,
        questions=[
            Question(str(row["story_id"]), short(row["question"], REASON))
            for row in parked
            if row["question"]
        ],
        parked=[str(row["story_id"]) for row in parked if not row["question"]],
        waiting_until=str(shown["waiting_until"] or ""),
        tokens=spent.tokens,
        cost_usd=rounded(spent.cost_usd),
        next="" if feed.alive else next_command(run),
    )


def _stories(counts: dict[str, int]) -> Stories:
    return Stories(counts["total"], counts["finished"], counts.get("verified", 0))


def next_command(run: Run) -> str:
    """What goes on with a run that no loop drives, or what takes over its work."""
    change = run.plan.change_id
    if run.status == "done":
        return "" if run.choice == "cleanup" else f"untildone finish {change} cleanup"
    return how_to_go_on(run) if run.resumable else ""


def story_states(feed: Feed) -> list[StoryState]:
    return [
        StoryState(story.id, short(story.title, TITLE), story.state, len(story.calls))
        for story in feed.account().stories
    ]


def story(feed: Feed, found: StoryAccount, attempts: list[Attempt]) -> Story:
    run = feed.run
    question = next(
        (row["question"] for row in views.parked(run) if row["story_id"] == found.id), ""
    )
    guidance = (
        short(said.text, REASON)
        for said in run.guidance
        if said.key in (None, (found.id, found.title))
    )
    left = len(found.calls) - len(attempts)
    return Story(
        found.id,
        found.title,
        found.state,
        short(question, REASON),
        list(guidance),
        attempts,
        f"{left} earlier calls are left out" if left > 0 else "",
    )


def attempt(call: Call, words: str, changed: str, uri: str) -> Attempt:
    used = call.usage
    return Attempt(
        call.n,
        call.outcome or "running",
        call.attempt,
        short(call.reason, REASON),
        [short(check.command, TITLE) for check in call.all_checks if check.passed is False],
        round(call.seconds),
        used.total if used else 0,
        rounded(used.cost_usd) if used else None,
        changed,
        call.commit[:12],
        call.saved_ref,
        short(words, WORDS),
        f"{uri}/log",
        f"{uri}/diff" if changed else "",
    )


def short(text: object, limit: int) -> str:
    said = " ".join(str(text).split())
    return said if len(said) <= limit else f"{said[: limit - 1]}…"


def rounded(cost: float | None) -> float | None:
    return None if cost is None else round(cost, 4)
