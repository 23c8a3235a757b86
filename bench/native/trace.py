"""trace.py OUT STORY ARGUMENT…: run untildone and write what one story passes through, as JSON.

From one call of the agent to the next: the modules with a call in them, and how often a call was in
another layer than the call before it.
"""

import json
import sys
from pathlib import Path
from types import FrameType

import untildone
from untildone.__main__ import main

ROOT = str(Path(untildone.__file__).parent) + "/"
START = ("app/call_agent.py", "run_attempt")


class Trace:
    def __init__(self, out: str, story: int) -> None:
        self.out = out
        self.before = story
        self.modules: set[str] = set()
        self.changes = self.calls = 0
        self.layer = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(ROOT):
            return
        name = path.removeprefix(ROOT)
        self.before -= (name, frame.f_code.co_name) == START
        if self.before < 0:
            sys.setprofile(None)
            told = {"modules": len(self.modules), "changes": self.changes, "calls": self.calls}
            Path(self.out).write_text(json.dumps(told))
        elif self.before == 0:
            layer = name.partition("/")[0]
            self.modules.add(name)
            self.calls += 1
            self.changes += layer != self.layer
            self.layer = layer


if __name__ == "__main__":
    _, out, story, *argv = sys.argv
    sys.setprofile(Trace(out, int(story)))
    sys.exit(main(argv))
