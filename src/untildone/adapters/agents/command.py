"""Any program as an agent: the prompt on its standard input, plain text on its standard output."""

import codecs
import shlex
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from untildone.adapters.agents.program import refuse_variables
from untildone.adapters.agents.reading.error_kinds import clear_trouble, why_line
from untildone.adapters.agents.reading.event_reader import ERROR_CHARS, stderr_text
from untildone.domain.agents.agent import (
    SAID_WHY,
    AgentText,
    Intent,
    Invocation,
    Kind,
    Notice,
    Reading,
    Trouble,
)
from untildone.domain.agents.promise import PromiseScanner
from untildone.domain.errors import AgentMissing, UserError
from untildone.domain.plain_text import plain

PIECE_BYTES = 4096
PIECE_LINES = 40
ERROR_LINES = 20
LEFT_OUT = "[… what came before this: `untildone logs --raw`]"


class CommandProgram:
    """The program of `--agent-cmd`, split into words as a shell would, but run without one."""

    def __init__(self, command: str, env: Mapping[str, str] | None = None) -> None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UserError(
                f"The agent command cannot be split into words ({error}): {command}",
                hint="Check the quotes of `--agent-cmd`.",
            ) from error
        if not words or not words[0]:
            raise UserError(
                "The agent command is empty.",
                hint='Name a program that reads a prompt: `--agent-cmd "my-agent --flag"`.',
            )
        program = words[0]
        if "/" in program:
            # The agent starts in the worktree, which need not be where the command was typed.
            program = str(Path(program).expanduser().absolute())
        self._argv = (program, *words[1:])
        self._env = env or {}

    @property
    def name(self) -> str:
        return "command"

    @property
    def prints_before_model(self) -> bool:
        # Unknown. If it is silent, it may as well not have asked any model yet.
        return True

    def check(self) -> None:
        program = self._argv[0]
        if shutil.which(program) is None:
            raise AgentMissing(
                f"The agent's program was not found or is not executable: {program}",
                hint="Give `--agent-cmd` a program on PATH or the path of an executable file; "
                "wrap shell syntax as `sh -c '…'`.",
            )

    def invocation(self, intent: Intent) -> Invocation:
        """The program call; a model is the command's own business."""
        refuse_variables(self.name, self._env, ())
        prompt = intent.prompt.encode("utf-8", "replace")
        return Invocation(argv=self._argv, stdin=prompt, env=self._env)

    def reader(self, intent: Intent) -> "PlainReader":
        return PlainReader(intent.asked)


class PlainReader:
    """Reads plain text as one message; of a flood only the end of each piece is shown."""

    def __init__(self, asked: datetime | None = None) -> None:
        self._asked = asked
        self._scanner = PromiseScanner()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, chunk: bytes) -> list[Notice]:
        """Take the next bytes of standard output; memory stays bounded whatever comes."""
        self._scanner.feed(chunk)
        flood = len(chunk) > PIECE_BYTES
        if flood:
            self._decoder.reset()
            chunk = chunk[-PIECE_BYTES:]
            chunk = chunk[chunk.find(b"\n", 0, -1) + 1 :]
        text = plain(self._decoder.decode(chunk))
        lines = text.removesuffix("\n").split("\n")
        if flood or len(lines) > PIECE_LINES:
            text = "\n".join([LEFT_OUT, *lines[-PIECE_LINES:]])
        return [AgentText(text)] if text else []

    def last_errors(self, stderr_tail: bytes) -> list[Notice]:
        """The end of standard error, marked as such: for a call that did not go well."""
        lines = [line for line in stderr_text(stderr_tail).split("\n") if line.strip()]
        more = [LEFT_OUT] if len(lines) > ERROR_LINES else []
        rows = [*more, *(f"stderr: {line}" for line in lines[-ERROR_LINES:])]
        return [AgentText("\n".join(rows) + "\n")] if rows else []

    @property
    def promised(self) -> bool:
        """Whether the last line so far is a promise: plain text has no other last event."""
        return self._scanner.last_line() is not None

    def finish(self, exit_code: int | None, stderr_tail: bytes) -> Reading:
        """The output is over; of a failure standard error says why, and sometimes of what kind."""
        promise, question = self._scanner.result(), self._scanner.question()
        why = why_line(stderr_text(stderr_tail))[:ERROR_CHARS] if exit_code else ""
        if not why:
            return Reading(promise=promise, question=question)
        trouble = clear_trouble(why, self._asked) or Trouble(Kind.CRASHED, SAID_WHY)
        error = f"the agent exited with code {exit_code}: {why}"
        return Reading(promise=promise, question=question, error=error, trouble=trouble)
