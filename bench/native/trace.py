"""trace.py OUT STORY ARGUMENT…: run untildone and write what one story passes through, as JSON.

From one call of the agent to the next: the modules with a call in them, how often a call was in
another layer than the call before it, and the steps of the interpreter.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import untildone
from untildone.__main__ import main

ROOT = str(Path(untildone.__file__).parent) + "/"
TraceFunction = Callable[[FrameType, str, object], "TraceFunction | None"]
START = ("app/call_agent.py", "run_attempt")


class Trace:
    def __init__(self, out: str, story: int) -> None:
        self.out = out
        self.before = story
        self.modules: set[str] = set()
        self.changes = self.calls = self.steps = 0
        self.layer = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> TraceFunction | None:
        """At every call; what is given back is asked at every step of it."""
        path = frame.f_code.co_filename
        if path.startswith(ROOT):
            self._called(path.removeprefix(ROOT), frame.f_code.co_name)
        if self.before != 0:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._step

    def _called(self, name: str, function: str) -> None:
        self.before -= (name, function) == START
        if self.before < 0:
            sys.settrace(None)
            counts = {"modules": len(self.modules), "changes": self.changes}
            told = counts | {"calls": self.calls, "steps": self.steps}
            Path(self.out).write_text(json.dumps(told))
        elif self.before == 0:
            layer = name.partition("/")[0]
            self.modules.add(name)
            self.calls += 1
            self.changes += layer != self.layer
            self.layer = layer

    def _step(self, _: FrameType, event: str, __: object) -> TraceFunction:
        self.steps += event == "opcode"
        return self._step


if __name__ == "__main__":
    _, out, story, *argv = sys.argv
    sys.settrace(Trace(out, int(story)))
    sys.exit(main(argv))
