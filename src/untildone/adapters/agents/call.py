"""One agent call: the program is run, its output read as it comes and kept on disk as it came."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from untildone.adapters.agents.command import PlainReader
from untildone.adapters.agents.reading.event_reader import EventReader
from untildone.adapters.agents.recording import Recording
from untildone.adapters.process.child import Command
from untildone.adapters.process.orphans import note_agent
from untildone.adapters.process.process import Ended, Processes
from untildone.adapters.sandbox import RunEnvironment
from untildone.domain.agents.agent import AgentReport, Ending, Intent, Invocation, Reading
from untildone.domain.agents.repetition import Repetition
from untildone.domain.run.plan import Limits
from untildone.ports import AgentProgram, Notify

# Git's own list of variables that redirect it to another repository (`rev-parse --local-env-vars`).
REDIRECTS = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)

# A program that has printed its last event has this long to exit by itself.
LINGER_S = 20.0
# One whose last line is a promise has finished if it then shows no sign of life for this long.
QUIET_S = 60.0
LATE = (Ending.TIMEOUT, Ending.IDLE_TIMEOUT)


class AgentCaller:
    """Calls the agent; nothing it starts outlives the call."""

    def __init__(
        self,
        processes: Processes,
        programs: Mapping[str, AgentProgram],
        environment: RunEnvironment,
        pid_file: Path,
        ends_call: Callable[[str], bool],
    ) -> None:
        self._inherited = {k: v for k, v in os.environ.items() if k not in REDIRECTS}
        self._processes = processes
        self._programs = programs
        self._environment = environment
        self._pid_file = pid_file
        self._ends_call = ends_call

    def run(self, intent: Intent, limits: Limits, log_file: str, notify: Notify) -> AgentReport:
        program = self._programs[intent.agent]
        command = self._command(program.invocation(intent), intent, limits)
        output = _Output(program, intent, limits, notify)

        def ends_call() -> bool:
            return self._ends_call(intent.story_id)

        with Recording(log_file, intent.asked) as log:

            def on_output(chunk: bytes) -> Ending | None:
                log.out(chunk)
                return output.take(chunk)

            ended = self._processes.run(command, on_output, ends_call, self._note_pid, log.err)
        self._pid_file.unlink(missing_ok=True)
        return output.report(ended)

    def _command(self, invocation: Invocation, intent: Intent, limits: Limits) -> Command:
        env = {k: v for k, v in self._inherited.items() if k not in invocation.unset}
        env |= invocation.env
        env["UNTILDONE_STORY_ID"] = intent.story_id
        env["UNTILDONE_ATTEMPT"] = str(intent.attempt)
        command = Command(
            invocation.argv,
            Path(intent.cwd),
            env,
            invocation.stdin,
            timeout_s=limits.timeout_min * 60,
            idle_s=limits.idle_timeout_min * 60,
            linger_s=min(LINGER_S, limits.idle_timeout_min * 60 / 2),
            quiet_s=min(QUIET_S, limits.idle_timeout_min * 60),
            folders=(intent.cwd, intent.scratch),
        )
        return self._environment.applied_to(command, invocation.writable, intent.scratch)

    def _note_pid(self, pid: int) -> None:
        note_agent(self._pid_file, pid)


class _Output:
    """What one call prints, as it comes: notices, signs of a model that answers, repetition."""

    def __init__(
        self, program: AgentProgram, intent: Intent, limits: Limits, notify: Notify
    ) -> None:
        self._reader = program.reader(intent)
        self._notify = notify
        # One that prints nothing before its model answers counts as started from the beginning.
        self._begun = not program.prints_before_model
        self._spoke = False
        self._events = self._reader if isinstance(self._reader, EventReader) else None
        self._plain = self._reader if isinstance(self._reader, PlainReader) else None
        separate = self._events is not None and self._events.separates_tool_output
        self._repetition = Repetition(limits.repeat_limit if separate else 0)

    def take(self, chunk: bytes) -> Ending | None:
        """How the call should end now: the agent repeats itself, or has said its last word."""
        self._begun = True
        repeats = False
        for notice in self._reader.feed(chunk):
            self._spoke = True
            self._notify(notice)
            repeats = self._repetition.heard(notice) or repeats
        if repeats:
            return Ending.REPEATING
        if self._plain and self._plain.promised:
            return Ending.IDLE_TIMEOUT
        return Ending.LINGERED if self._events and self._events.over else None

    def report(self, ended: Ended) -> AgentReport:
        if ended.ending is Ending.NOT_STARTED:
            return AgentReport(ended.ending, None, Reading(error=ended.error))
        ending, code = ended.ending, ended.exit_code
        if ending in LATE and self._events and self._events.over:
            ending = Ending.LINGERED  # the time was up while it had nothing left to say
        if ending is Ending.IDLE_TIMEOUT and self._plain and self._plain.promised:
            ending = Ending.LINGERED
        if ending is Ending.LINGERED:
            code = None  # that of our own signal
        exited = code if ending is Ending.EXITED else None
        reading = self._reader.finish(exited, ended.stderr_tail)
        self._tell_errors(reading, code, ended.stderr_tail)
        return AgentReport(ending, code, reading, self._begun, self._spoke)

    def _tell_errors(self, reading: Reading, code: int | None, stderr_tail: bytes) -> None:
        """What a command said on standard error, unless the call went well."""
        done = reading.promise is not None and reading.promise.complete and not code
        if self._plain and not done:
            for notice in self._plain.last_errors(stderr_tail):
                self._notify(notice)
