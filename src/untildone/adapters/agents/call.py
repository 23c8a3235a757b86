"""One agent call: a dialect's program, run through the process door, its raw output on disk."""

import os
from collections.abc import Callable
from pathlib import Path

from untildone.adapters.agents.reading.event_reader import EventReader
from untildone.adapters.agents.recording import Recording
from untildone.adapters.process.child import Command
from untildone.adapters.process.orphans import note_agent
from untildone.adapters.process.process import Processes
from untildone.adapters.sandbox import Containment
from untildone.domain.agents.agent import AgentReport, Ending, Intent, Reading
from untildone.domain.agents.repetition import Repetition
from untildone.domain.run.run import Limits
from untildone.ports import Dialect, Notify

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


class AgentSession:
    """Calls the agent; nothing it starts outlives the call."""

    def __init__(
        self,
        processes: Processes,
        dialects: Callable[[str], Dialect],
        containment: Containment,
        pid_file: Path,
        ends_call: Callable[[str], bool],
    ) -> None:
        self._processes = processes
        self._dialects = dialects
        self._containment = containment
        self._pid_file = pid_file
        self._ends_call = ends_call

    def run(self, intent: Intent, limits: Limits, log_file: str, notify: Notify) -> AgentReport:
        """Run the agent to its end and read what it said."""
        dialect = self._dialects(intent.agent)
        invocation = dialect.invocation(intent)
        reader = dialect.reader(intent)
        dropped = {*REDIRECTS, *invocation.unset}
        environment = {k: v for k, v in os.environ.items() if k not in dropped}
        environment |= {
            **invocation.env,
            "UNTILDONE_STORY_ID": intent.story_id,
            "UNTILDONE_ATTEMPT": str(intent.attempt),
        }
        command = Command(
            invocation.argv,
            Path(intent.cwd),
            environment,
            invocation.stdin,
            timeout_s=limits.timeout_min * 60,
            idle_s=limits.idle_timeout_min * 60,
            folders=(intent.cwd, intent.scratch),
        )
        held = self._containment.around(command, invocation.writable, intent.scratch)
        begun, spoke = not dialect.greets, False
        measured = isinstance(reader, EventReader) and reader.apart
        again = Repetition(limits.repeat_limit if measured else 0)

        def is_over() -> bool:
            return self._ends_call(intent.story_id)

        with Recording(log_file, intent.asked) as log:

            def heard(chunk: bytes) -> bool:
                nonlocal begun, spoke
                begun = True
                log.out(chunk)
                too_often = False
                for notice in reader.feed(chunk):
                    spoke = True
                    notify(notice)
                    too_often = again.heard(notice) or too_often
                return too_often

            ended = self._processes.run(held, heard, is_over, self._note_pid, log.err)
        self._pid_file.unlink(missing_ok=True)
        if ended.ending is Ending.NOT_STARTED:
            return AgentReport(ended.ending, None, Reading(error=ended.error))
        code = ended.exit_code if ended.ending is Ending.EXITED else None
        reading = reader.finish(code, ended.stderr_tail)
        return AgentReport(ended.ending, ended.exit_code, reading, begun, spoke)

    def _note_pid(self, pid: int) -> None:
        note_agent(self._pid_file, pid)
