"""How the agent speaks: as Claude Code does."""

import json
import os
import sys
import time
from itertools import pairwise

USAGE = {"input_tokens": 2400, "output_tokens": 90}


class Voice:
    """Speaks as the caller asked: stream-json, one JSON object, or plain text."""

    def __init__(self, argv):
        self.format = "text"
        for word, value in pairwise(argv):
            if word == "--output-format":
                self.format = value
        self.last = ""
        if self.format == "stream-json":
            self.emit(
                {
                    "type": "system",
                    "subtype": "init",
                    "cwd": os.getcwd(),
                    "tools": ["Write"],
                    "model": "claude-opus-5-5",
                    "permissionMode": "bypassPermissions",
                }
            )

    def emit(self, event):
        event.setdefault("session_id", "32fc7fc3-3850-423f-8dba-80a9fbf5d7dd")
        event.setdefault("parent_tool_use_id", None)
        event.setdefault("uuid", f"u-{time.time_ns()}")
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    def message(self, block, **more):
        body = {
            "id": f"msg_{time.time_ns()}",
            "type": "message",
            "role": "assistant",
            "model": more.pop("model", "claude-opus-5-5"),
            "content": [block],
            "stop_reason": None,
            "usage": dict(USAGE, output_tokens=1),
        }
        self.emit({"type": "assistant", "message": body, **more})

    def say(self, text, **more):
        self.last = text
        if self.format == "stream-json":
            self.message({"type": "text", "text": text}, **more)
        elif self.format == "text":
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def tool(self, path):
        if self.format == "stream-json":
            self.message(
                {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {"file_path": path}}
            )
            block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "File written"}
            self.emit({"type": "user", "message": {"role": "user", "content": [block]}})

    def end(self, code=0, **more):
        self.result(**more)
        os._exit(code)

    def result(self, **more):
        result = {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": 1,
            "duration_ms": 10,
            "duration_api_ms": 5,
            "result": self.last,
            "usage": USAGE,
            "total_cost_usd": 0.01,
            "permission_denials": [],
            **more,
        }
        if self.format in ("stream-json", "json"):
            self.emit(result)
        sys.stdout.flush()
