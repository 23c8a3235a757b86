"""Agent calls outside of a run, in a copy of the project that is thrown away afterwards."""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from types import FrameType

from msgspec import Struct, field
from msgspec.structs import replace

from untildone.adapters.agents.call import AgentCaller
from untildone.adapters.process import watchdog as watchdogs
from untildone.adapters.process.orphans import end_leftovers, own_mark
from untildone.adapters.records.inbox import SIGNALS, Inbox
from untildone.adapters.records.lock import plan_lock
from untildone.adapters.sandbox import RunEnvironment
from untildone.adapters.sessions.meter import UsageMeter
from untildone.adapters.sessions.watch import SessionWatch
from untildone.adapters.slots.throwaway import Throwaway
from untildone.commands.control import refuse_agent
from untildone.commands.start.plan import of_limits, of_plan
from untildone.domain.agents.agent import AgentReport, Ending, Intent, Notice, Usage
from untildone.domain.errors import UntildoneError, UserError
from untildone.domain.plain_text import plain
from untildone.domain.run.fact import StopRequested
from untildone.domain.run.plan import Done, Limits, Plan, label
from untildone.settings.settings import Settings
from untildone.wiring.agents import AgentOptions, agent_options_of, agent_program, check_agents
from untildone.wiring.repository import AGENT, ENDED, Repository
from untildone.wiring.sandbox import sandbox_of, settled

FOLDER = "drafting"
NO_USAGE = Usage(cost_usd=0.0)


class Stopped(UntildoneError):
    """A signal ended the command; the exit code says which."""

    def __init__(self, signum: int, state: str = "Your files were not touched.") -> None:
        super().__init__("Stopped on request", state=state)
        self.exit_code = 128 + signum


class CallFailed(UntildoneError):
    """The agent did not do what it was called for; the person can look or try again."""

    exit_code = 3


class Spent(Struct):
    """What the calls have cost so far; `known` unless a call told no cost or no tokens."""

    calls: int = 0
    usage: Usage = NO_USAGE
    cost_known: bool = True
    tokens_known: bool = True

    def add(self, usage: Usage | None) -> None:
        """One more call."""
        self.calls += 1
        self.tokens_known &= usage is not None and usage.told
        self.cost_known &= usage is not None and usage.cost_usd is not None
        self.usage = self.usage.plus(usage) if usage else self.usage


class SingleCalls(Struct):
    """Where the calls happen, and the call itself. `place` is the copy, `top` the user's files."""

    copy: Throwaway
    agent: str
    _plan: Plan
    _model: str
    _caller: AgentCaller
    _meter: UsageMeter
    _inbox: Inbox
    _now: Callable[[], datetime]
    _folder: Path
    spent: Spent = field(default_factory=Spent)

    @property
    def top(self) -> Path:
        """The copy's top folder."""
        return self.copy.place.top

    def call(self, prompt: str, what: str, on_notice: Callable[[Notice], None]) -> AgentReport:
        """One call; `what` is the story that the agent is told. Trouble is a CallFailed."""
        scratch = self._folder / "scratch"
        scratch.mkdir(exist_ok=True)
        attempt = self.spent.calls + 1
        intent = Intent(
            *(prompt, str(self.top), str(scratch), what, attempt, self._model),
            permissions=self._plan.permissions,
            asked=self._now(),
            agent=self._plan.rungs[0][0],
        )
        log = str(self._folder / f"{attempt:04d}.log")
        self._inbox.listen()
        try:
            self._meter.start(intent.agent)
            report = self._caller.run(intent, self._plan.limits, log, on_notice)
            session = report.reading.session.id if report.reading.session else ""
            usage, _ = self._meter.measure(report.reading.usage, session)
        finally:
            _on_signals(_raise_stopped)
        self.spent.add(usage)
        for request in self._inbox.take():
            if isinstance(request, StopRequested):
                raise Stopped(request.stop.signal or signal.SIGTERM)
        return report


def failure(report: AgentReport, agent: str) -> CallFailed | None:
    """Why a call is good for nothing; None if the agent came to an end by itself."""
    reading, why = report.reading, ""
    if report.ending is Ending.TIMEOUT:
        why = "it took longer than `--timeout` allows"
    elif report.ending is Ending.IDLE_TIMEOUT:
        why = "it was silent for longer than `--idle-timeout` allows"
    elif reading.trouble or reading.error:
        why = reading.trouble.why if reading.trouble else reading.error
    elif report.exit_code:
        why = f"it exited with code {report.exit_code}"
    if not why:
        return None
    when = reading.trouble.until if reading.trouble else None
    later = f"at {when.astimezone():%H:%M}" if when else "once that is mended"
    return CallFailed(
        f"The agent `{agent}` has failed: {plain(why).strip()}",
        state="Your files were not touched.",
        hint=f"The same command again {later}; `untildone agents` shows which others are there.",
    )


@contextlib.contextmanager
def single_calls(
    repository: Repository, settings: Settings, change: str, also: Iterable[str] = ()
) -> Iterator[SingleCalls]:
    """The copy and the agent, ready; afterwards nothing of both is left, whatever happens."""
    refuse_agent(os.environ.get("UNTILDONE_RUN_ID"))
    plan = _plan(settings, change)
    top = repository.place.top
    options = agent_options_of(settings)
    if missing := check_agents(plan, top, options.env):
        raise missing[0]
    plan, _ = settled(plan, repository.processes, top)
    folder = repository.home / FOLDER
    with plan_lock(repository.home / f"{FOLDER}.lock", 0) as held:
        if not held:
            raise UserError(
                "Another command has an agent at work on a plan of this worktree",
                state="Nothing was changed.",
                hint="Wait for its end, then try again.",
            )
        handlers = [(number, signal.getsignal(number)) for number in (*SIGNALS, signal.SIGUSR1)]
        inbox = Inbox(folder / "inbox", repository.inbox.wake)
        copy = Throwaway(
            repository.git(), repository.place, repository.processes, folder, inbox.signalled
        )
        try:
            _on_signals(_raise_stopped)
            _clear(folder, plan.run_id)
            copy.make(also)
            with _watched(repository, folder):
                yield _made(repository, plan, copy, inbox, options)
        finally:
            _on_signals(signal.SIG_IGN)
            copy.remove()
            shutil.rmtree(folder, ignore_errors=True)
            for number, handler in handlers:
                signal.signal(number, handler)


def _on_signals(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    for number in SIGNALS:
        signal.signal(number, handler)


def _raise_stopped(signum: int, frame: FrameType | None) -> None:
    del frame
    raise Stopped(signum)


def _plan(settings: Settings, change: str) -> Plan:
    """What is decided about the calls; they are no run, and nothing else of it counts."""
    plan = Plan(
        change_id=change,
        run_id=f"draft-{own_mark()[1]}",
        task="",
        plain=True,
        done=Done.PROMISE,
        source="",
        limits=Limits(**of_limits(settings)),
        agent_args=agent_options_of(settings).args,
        **of_plan(settings),
    )
    agent, model = plan.rungs[0]  # only the first agent is asked
    return replace(plan, agent=agent, model=model, ladder=(), fallback="")


def _clear(folder: Path, run_id: str) -> None:
    """What a killed process has left, its agent too."""
    from untildone.adapters.checks.clean_checkout import remove_noted

    end_leftovers(folder / AGENT, ("UNTILDONE_RUN_ID", run_id))
    remove_noted(folder / "copy")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)


@contextlib.contextmanager
def _watched(repository: Repository, folder: Path) -> Iterator[None]:
    """The agent is ended if this process is killed."""
    repository.processes.adopt_orphans()
    watchdog = watchdogs.start(folder / AGENT, own_mark(), folder / ENDED)
    if watchdog:
        repository.processes.spare(watchdog.pid)
    try:
        yield
    finally:
        if watchdog:
            watchdog.stop()


def _made(
    repository: Repository, plan: Plan, copy: Throwaway, inbox: Inbox, options: AgentOptions
) -> SingleCalls:
    agent, model = plan.rungs[0]
    folder = repository.home / FOLDER
    program = agent_program(agent, plan.agent_cmd, plan.script, repository.place.top, options)
    marks = {"UNTILDONE_RUN_ID": plan.run_id} | dict([own_mark()])
    environment = RunEnvironment(marks, sandbox_of(plan, copy.place))
    began = repository.clock.now()
    sessions = SessionWatch(copy.place.top, repository.clock.now)
    return SingleCalls(
        copy=copy,
        agent=label(agent, model),
        _plan=plan,
        _model=model,
        _caller=AgentCaller(
            repository.processes, {agent: program}, environment, folder / AGENT, inbox.ends_call
        ),
        _meter=UsageMeter(
            repository.processes, sessions, plan.usage_cmd, lambda: began, inbox.stop_now
        ),
        _inbox=inbox,
        _now=repository.clock.now,
        _folder=folder,
    )
