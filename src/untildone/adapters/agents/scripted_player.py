"""The scripted agent's own program: plays one attempt of a TOML script on standard output."""

import json
import os
import signal
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence

from untildone.domain.regex import regex

BAD_SCRIPT = 64

Step = tuple[str, object]
_FILE = {"path": str, "text": str}
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
}
# What each key of a step takes; a table stands for a table with these keys.
ACTIONS: Mapping[str, type | tuple[type, ...] | Mapping[str, type]] = {
    "say": str,
    "tool": str,
    "write": _FILE,
    "append": _FILE,
    "delete": str,
    "run": str,
    "tick": bool,
    "commit": str,
    "promise": str,
    "delay": (int, float),
    "usage": dict.fromkeys(_COUNTS, int),
    "cost_usd": (int, float),
    "raw": str,
    "stderr": str,
    "flood": int,
    "crash": (int, str),
    "hang": bool,
}
_OPEN_BOX = regex(r"\s*(?:[-*+]|\d+[.)])\s+\[ \]\s*(.*?)\s*")


class ScriptError(Exception):
    """The script cannot be played; the message says where and why."""


class Player:
    """Acts out steps and speaks stream-json about them."""

    def __init__(self, prompt: str, session: str) -> None:
        self._prompt = prompt
        self._session = session
        self._messages = 0
        self._said = ""
        self._usage: dict[str, int] = {}
        self._cost: float = 0

    def perform(self, steps: Sequence[Step]) -> None:
        """Open the stream, act out all steps, close it with the result event."""
        self._event({"type": "system", "subtype": "init", "cwd": os.getcwd()})
        for step in steps:
            self._play(step)
        usage = {theirs: self._usage.get(ours, 0) for ours, theirs in _COUNTS.items()}
        result = {"type": "result", "subtype": "success", "is_error": False, "result": self._said}
        self._event({**result, "usage": usage, "total_cost_usd": self._cost})

    def _play(self, step: Step) -> None:
        match step:
            case ("say", str(text)):
                self._say(text)
            case ("promise", str(text)):
                self._say(f"<promise>{text}</promise>")
            case ("tool", str(text)):
                name, _, detail = text.partition(" ")
                self._tool(name, {"description": detail})
            case ("usage", dict(counts)):
                self._usage = counts
            case ("cost_usd", int(cost) | float(cost)):
                self._cost = cost
            case (action, value):
                self._work(action, value)

    def _work(self, action: str, value: object) -> None:
        match action, value:
            case "write" | "append", {"path": str(path), "text": str(text)}:
                self._tool("Write" if action == "write" else "Edit", {"file_path": path})
                _put(path, text, "w" if action == "write" else "a")
            case "delete", str(path):
                self._tool("Bash", {"command": f"rm {path}"})
                os.remove(path)
            case "run", str(command):
                self._tool("Bash", {"command": command})
                _run("/bin/sh", "-c", command)
            case "commit", str(message):
                self._tool("Bash", {"command": f"git commit -m '{message}'"})
                _run("git", "add", "-A")
                _run("git", "commit", "-q", "--allow-empty", "-m", message)
            case "tick", True:
                self._tick()
            case _:
                _disturb(action, value)

    def _say(self, text: str) -> None:
        self._said = text
        self._assistant({"type": "text", "text": text})

    def _tool(self, name: str, arguments: Mapping[str, str]) -> None:
        block = {"type": "tool_use", "id": f"tool_{self._messages + 1}", "name": name}
        self._assistant({**block, "input": arguments})

    def _assistant(self, block: Mapping[str, object]) -> None:
        self._messages += 1
        message = {"id": f"msg_{self._messages}", "role": "assistant", "content": [block]}
        self._event({"type": "assistant", "message": message, "parent_tool_use_id": None})

    def _event(self, event: Mapping[str, object]) -> None:
        _print(json.dumps({**event, "session_id": self._session}))

    def _tick(self) -> None:
        asked = {box[1] for line in self._prompt.split("\n") if (box := _OPEN_BOX.fullmatch(line))}
        path = _tasks_file(self._prompt)
        self._tool("Edit", {"file_path": path})
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.read().split("\n")
        for at, line in enumerate(lines):
            box = _OPEN_BOX.fullmatch(line)
            if box is not None and box[1] in asked:
                lines[at] = line.replace("[ ]", "[x]", 1)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write("\n".join(lines))


def _tasks_file(prompt: str) -> str:
    named = os.environ.get("UNTILDONE_TASKS_FILE", "")
    in_prompt = (word.strip("`'\"()<>[],;:.") for word in prompt.split() if "tasks.md" in word)
    for path in (named, *in_prompt, "tasks.md"):
        if path and os.path.isfile(path):
            return path
    raise ScriptError("tick: no tasks file is named by the prompt or by UNTILDONE_TASKS_FILE")


def _put(path: str, text: str, mode: str) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, mode, encoding="utf-8", newline="") as file:
        file.write(text)


def _run(*argv: str) -> None:
    """Run a program; what it prints goes to standard error, for standard output is the stream."""
    actions = ((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, 2, 1))
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        _complain(f"`{argv[-1]}` ended with {code}")


def _disturb(action: str, value: object) -> None:
    """The steps that only a broken agent takes."""
    match action, value:
        case "raw", str(line):
            _print(line)
        case "stderr", str(text):
            _complain(text)
        case "delay", int(seconds) | float(seconds):
            time.sleep(seconds)
        case "hang", True:
            while True:
                signal.pause()
        case "flood", int(size):
            _flood(size)
        case "crash", int(code):
            os._exit(code)
        case "crash", str(name):
            os.kill(os.getpid(), _signal(name))
        case _:
            pass


def _flood(size: int) -> None:
    block = (b"x" * 99 + b"\n") * 640
    while size > 0:
        size -= os.write(1, block[:size])


def _signal(name: str) -> int:
    try:
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except KeyError:
        raise ScriptError(f"crash: there is no such signal: {name}") from None


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(text + "\n")


def load(path: str) -> dict[str, list[list[Step]]]:
    """The attempts of every story; those of unlisted stories are under the empty id."""
    try:
        with open(path, "rb") as file:
            script: dict[str, object] = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise ScriptError(f"cannot be read: {error}") from error
    _known(script, ("story", "default"), "at the top")
    stories: dict[str, list[list[Step]]] = {}
    for number, story in enumerate(_tables(script.get("story", []), "story"), 1):
        if "id" not in story:
            raise ScriptError(f"story number {number} has no key: id")
        stories[str(story["id"])] = _attempts(story, f"story {story['id']}")
    if "default" in script:
        (default,) = _tables([script["default"]], "default")
        stories[""] = _attempts(default, "default")
    return stories


def choose(stories: Mapping[str, list[list[Step]]], story: str, attempt: int) -> list[Step]:
    """The steps of this attempt; the last attempt that is written down repeats."""
    attempts = stories.get(story) or stories.get("")
    if not attempts:
        raise ScriptError(f"there is neither a [default] nor this story: {story}")
    return attempts[min(max(attempt, 1), len(attempts)) - 1]


def _attempts(story: Mapping[str, object], where: str) -> list[list[Step]]:
    _known(story, ("id", "steps", "attempt"), where)
    if "steps" in story:
        if "attempt" in story:
            raise ScriptError(f"{where} has both keys: steps, attempt")
        return [_steps(story["steps"], where)]
    attempts = []
    for number, attempt in enumerate(_tables(story.get("attempt", []), where), 1):
        _known(attempt, ("steps",), f"{where}, attempt {number}")
        attempts.append(_steps(attempt.get("steps", []), f"{where}, attempt {number}"))
    return attempts or [[]]


def _steps(steps: object, where: str) -> list[Step]:
    found: list[Step] = []
    for number, table in enumerate(_tables(steps, where), 1):
        here = f"{where}, step {number}"
        _known(table, tuple(ACTIONS), here)
        if len(table) != 1:
            raise ScriptError(f"{here} needs exactly one key, it has: {', '.join(table) or 'none'}")
        ((action, value),) = table.items()
        _check(action, value, here)
        found.append((action, value))
    return found


def _check(action: str, value: object, where: str) -> None:
    wanted = ACTIONS[action]
    if not isinstance(wanted, Mapping):
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise ScriptError(f"{where} has a value of the wrong type: {action}")
        return
    (table,) = _tables([value], f"{where}, {action}")
    _known(table, tuple(wanted), f"{where}, {action}")
    for key, kind in wanted.items():
        if action != "usage" and key not in table:
            raise ScriptError(f"{where}, {action} has no key: {key}")
        if key in table and not isinstance(table[key], kind):
            raise ScriptError(f"{where}, {action} has a value of the wrong type: {key}")


def _tables(value: object, where: str) -> list[dict[str, object]]:
    if isinstance(value, list) and all(isinstance(table, dict) for table in value):
        return value
    raise ScriptError(f"a table is expected: {where}")


def _known(table: Mapping[str, object], keys: Sequence[str], where: str) -> None:
    for key in table:
        if key not in keys:
            raise ScriptError(f"unknown key {where}: {key} (known: {', '.join(keys)})")


def main(argv: Sequence[str]) -> int:
    """Play the script named by the only argument for the story and attempt of the environment."""
    story = os.environ.get("UNTILDONE_STORY_ID", "")
    attempt = os.environ.get("UNTILDONE_ATTEMPT", "")
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        if len(argv) != 2:
            raise ScriptError("the script's path is the only argument")
        steps = choose(load(argv[1]), story, int(attempt) if attempt.isdecimal() else 1)
        Player(prompt, f"scripted-{story or 'run'}-{attempt or 1}").perform(steps)
    except (ScriptError, OSError) as error:
        _complain(f"Scripted agent: {argv[-1]}: {error}")
        return BAD_SCRIPT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
