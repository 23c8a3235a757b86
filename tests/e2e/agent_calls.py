"""What the fake agent is told to do in a call, and what a call saw."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

COMPLETE = "<promise>COMPLETE</promise>"
DONE: list[list[Any]] = [
    ["write", "work-{n}.txt", "work {n}\n"],
    ["say", f"All done.\n{COMPLETE}"],
]

Actions = list[list[Any]]


def failed(reason: str) -> str:
    """A FAILED promise as an agent prints it."""
    return f"<promise>FAILED: {reason}</promise>"


def fails(reason: str = "no luck") -> Actions:
    """A call that leaves a mess and says FAILED."""
    return [["write", "mess-{n}.txt", "mess\n"], ["say", failed(reason)]]


@dataclasses.dataclass(frozen=True)
class Call:
    """What one agent call saw."""

    n: int
    argv: list[str]
    stdin: str
    cwd: str
    branch: str
    head: str
    parent: str
    subject: str
    status: str
    stash: str
    env: dict[str, str]
    files: dict[str, str]
    state: str | None
    pid: int
    pgid: int
    time: float

    @property
    def prompt(self) -> str:
        """The prompt text, also when it came as a stream-json message."""
        if not self.stdin.lstrip().startswith('{"'):
            return self.stdin
        texts = []
        for line in self.stdin.splitlines():
            content = json.loads(line)["message"]["content"]
            blocks = [{"text": content}] if isinstance(content, str) else content
            texts += [block["text"] for block in blocks]
        return "\n".join(texts)

    @property
    def loop_state(self) -> dict[str, Any]:
        """The state file as it was when the agent started."""
        assert self.state is not None, "no state file when the agent started"
        value: dict[str, Any] = json.loads(self.state)
        return value

    @property
    def place(self) -> tuple[str, str, str]:
        """Branch, HEAD and status together."""
        return self.branch, self.head, self.status
