"""A scripted coding agent: logs what it sees outside the repository, then plays a plan.

`bench.Bench` makes programs of it; under the name `claude` it speaks stream-json.
It is started thousands of times, with `python -IS`: what most calls do without is imported late.
"""

from __future__ import annotations

import marshal
import os
import sys
import time

try:
    from _sha1 import sha1  # type: ignore[import-not-found]  # `hashlib` loads OpenSSL
except ImportError:
    from hashlib import sha1

TYPE_CHECKING = False  # `typing` itself would cost start-up time
if TYPE_CHECKING:
    from typing import Any, NoReturn

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))
CLAUDE = os.path.basename(sys.argv[0]) == "claude"
TASKS = "openspec/changes/demo/tasks.md"
DEFAULT: list[list[Any]] = [
    ["write", "work-{n}.txt", "work {n}\n"],
    ["say", "<promise>COMPLETE</promise>"],
]
USAGE = {
    "input_tokens": 2400,
    "cache_creation_input_tokens": 200,
    "cache_read_input_tokens": 600,
    "output_tokens": 90,
}
SIGPIPE, SIGXFSZ = 13, 25  # `signal` would cost start-up time; Python ignores them, programs do not


def spawn(*argv: str, stdout: int, env: dict[str, str] | None = None) -> int:
    """Start a program as `subprocess` does."""
    return os.posix_spawnp(
        argv[0],
        argv,
        os.environ if env is None else env,
        file_actions=[(os.POSIX_SPAWN_DUP2, stdout, 1)],
        setsigdef=[SIGPIPE, SIGXFSZ],
    )


def call(*argv: str) -> None:
    """Run a program to its end; what it prints is not the agent's word."""
    os.waitpid(spawn(*argv, stdout=2), 0)


def git(*questions: str) -> list[list[str]]:
    """Ask git some things at once, without taking its locks; the lines of each answer."""
    env = dict(os.environ, GIT_OPTIONAL_LOCKS="0")
    asked = []
    for question in questions:
        hears, says = os.pipe()
        asked.append((spawn("git", *question.split(), stdout=says, env=env), hears))
        os.close(says)
    answers = []
    for pid, hears in asked:
        with open(hears, "rb") as file:
            answers.append(file.read().decode("utf-8", "surrogateescape").rstrip("\n"))
        os.waitpid(pid, 0)
    return [answer.split("\n") for answer in answers]


def listing() -> dict[str, str]:
    """Every file and folder below the current one, with kind and content hash."""
    found: dict[str, str] = {}
    for folder, names, files in os.walk("."):
        if folder == ".":
            names[:] = [name for name in names if name not in (".git", ".claude")]
        for name in names:
            path = os.path.join(folder, name)
            found[path[2:]] = "link:" + os.readlink(path) if os.path.islink(path) else "dir"
        for name in files:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                found[path[2:]] = "link:" + os.readlink(path)
                continue
            if not os.path.isfile(path):
                found[path[2:]] = "special"  # a FIFO: reading it would never end
                continue
            with open(path, "rb") as file:
                digest = sha1(file.read(), usedforsecurity=False).hexdigest()
            found[path[2:]] = ("exec:" if os.access(path, os.X_OK) else "file:") + digest
    return found


def read(path: str) -> str | None:
    """The text of a file, or None."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None


def put(path: str, content: str | bytes) -> None:
    """Write a file so that a reader never sees half of it."""
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogateescape")
    with open(path + ".tmp", "wb") as file:
        file.write(content)
    os.rename(path + ".tmp", path)


def number() -> int:
    """The number of this call: the first free one."""
    n = 1
    while True:
        try:
            os.close(os.open(f"{ROOT}/calls/{n}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            n += 1
        else:
            return n


def is_agent_variable(name: str) -> bool:
    """Variables worth a look: the loop's own and git's."""
    return name.startswith(("UNTILDONE", "GIT_"))


class Agent:
    """One call: the record first, then the actions of the plan."""

    def __init__(self) -> None:
        self.n = number()
        self.session = "32fc7fc3-3850-423f-8dba-80a9fbf5d7dd"
        if "--session-id" in sys.argv:
            self.session = sys.argv[sys.argv.index("--session-id") + 1]
        self.usage: dict[str, int] | None = USAGE
        self.result = True
        self.error: dict[str, Any] | None = None
        self.last = ""
        self.prompt = ""

    def record(self) -> None:
        """Log the world as this call found it."""
        wanted = "--version" not in sys.argv
        data = sys.stdin.buffer.read() if wanted else b""
        self.prompt = data.decode("utf-8", "surrogateescape")
        names, commit, status, stash = git(
            "rev-parse HEAD --abbrev-ref HEAD",
            "log -1 --format=%P%n%s",
            "status --porcelain",
            "stash list",
        )
        parents, subject = commit if len(commit) == 2 else ("", "")
        facts = {
            "n": self.n,
            "argv": sys.argv,
            "stdin": self.prompt,
            "cwd": os.getcwd(),
            "branch": names[-1],
            "head": names[0],
            "parent": parents.partition(" ")[0],
            "subject": subject,
            "status": "\n".join(status),
            "stash": "\n".join(stash),
            "env": {k: v for k, v in os.environ.items() if is_agent_variable(k)},
            "files": listing(),
            "state": read(".claude/loop-state.json"),
            "pid": os.getpid(),
            "pgid": os.getpgid(0),
            "time": time.time(),
        }
        put(f"{ROOT}/calls/{self.n}.call", marshal.dumps(facts))

    def play(self) -> NoReturn:
        """Act as the plan says, then end well."""
        actions = DEFAULT
        if os.path.exists(f"{ROOT}/plan"):
            with open(f"{ROOT}/plan", "rb") as file:
                plan = marshal.load(file)  # noqa: S302 - the test has written it
            actions = plan.get(self.n, plan[0])
        if CLAUDE:
            self.emit(
                {
                    "type": "system",
                    "subtype": "init",
                    "cwd": os.getcwd(),
                    "tools": ["Bash", "Write"],
                    "model": "claude-opus-5-5",
                    "permissionMode": "bypassPermissions",
                }
            )
        for name, *args in actions:
            filled = [a.replace("{n}", str(self.n)) if isinstance(a, str) else a for a in args]
            getattr(self, "do_" + name)(*filled)
        self.end(0)

    def end(self, code: int) -> NoReturn:
        """The closing event (claude) and the end mark; leave."""
        self.say_result()
        sys.stdout.flush()
        put(f"{ROOT}/calls/{self.n}.end", "")
        os._exit(code)

    def say_result(self) -> None:
        """The closing event."""
        if CLAUDE and self.result:
            event: dict[str, Any] = {
                "type": "result",
                "subtype": "success",
                "is_error": self.error is not None,
                "num_turns": 1,
                "duration_ms": 10,
                "duration_api_ms": 5,
                "stop_reason": "end_turn",
                "terminal_reason": "completed" if self.error is None else "api_error",
                "api_error_status": None,
                "permission_denials": [],
                "result": self.last,
            }
            if self.error:
                event.update(self.error)
            if self.usage is not None:
                event.update(usage=self.usage, total_cost_usd=0.01252)
            self.emit(event)

    def emit(self, event: dict[str, Any]) -> None:
        """One stream-json line."""
        import json

        event.setdefault("session_id", self.session)
        event.setdefault("parent_tool_use_id", None)
        event.setdefault("uuid", f"u-{self.n}-{time.time_ns()}")
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    def message(self, block: dict[str, Any], **more: Any) -> None:
        """One assistant event with one content block."""
        body: dict[str, Any] = {
            "id": f"msg_{self.n}_{time.time_ns()}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-5-5",
            "content": [block],
            "stop_reason": None,
        }
        if self.usage is not None:
            body["usage"] = dict(USAGE, output_tokens=1)
        self.emit({"type": "assistant", "message": body, **more})

    # words

    def do_say(self, text: str) -> None:
        self.last = text
        if CLAUDE:
            self.message({"type": "text", "text": text})
        else:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def do_raw(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def do_hex(self, digits: str) -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(bytes.fromhex(digits))
        sys.stdout.buffer.flush()

    def do_err(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def do_echo(self) -> None:
        self.do_say(self.prompt)

    def do_tool(self, output: str) -> None:
        self.message({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}})
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": output}
        self.emit({"type": "user", "message": {"role": "user", "content": [block]}})

    def do_ask_tool(self, question: str) -> None:
        arguments = {"questions": [{"question": question, "options": []}]}
        self.message(
            {"type": "tool_use", "id": "t9", "name": "AskUserQuestion", "input": arguments}
        )

    def do_think(self, text: str) -> None:
        self.message({"type": "thinking", "thinking": text, "signature": "x"})

    def do_subagent(self, text: str) -> None:
        self.message({"type": "text", "text": text}, parent_tool_use_id="toolu_1")

    # files

    def do_write(self, path: str, text: str) -> None:
        if os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def do_append(self, path: str, text: str) -> None:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)

    def do_delete(self, path: str) -> None:
        os.unlink(path)

    def do_rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def do_chmod(self, path: str, mode: int) -> None:
        os.chmod(path, mode)

    def do_mkdir(self, path: str) -> None:
        os.makedirs(path)

    def do_symlink(self, target: str, path: str) -> None:
        os.symlink(target, path)

    def do_tick(self, story: str, path: str = TASKS) -> None:
        import re

        text = read(path) or ""
        put(path, re.sub(rf"(?m)^(\s*[-*] )\[ \] ({re.escape(story)}\.)", r"\1[x] \2", text))

    def do_tick_all(self, path: str = TASKS) -> None:
        put(path, (read(path) or "").replace("[ ]", "[x]"))

    def do_sh(self, command: str) -> None:
        call("/bin/sh", "-c", command)

    # git

    def do_git(self, *args: str) -> None:
        call("git", *args)

    def do_commit(self, message: str) -> None:
        self.do_git("add", "-A")
        self.do_git("commit", "-q", "-m", message)

    def do_nested(self, path: str, committed: bool) -> None:
        self.do_write(path + "/inner.txt", "inner\n")
        self.do_git("init", "-q", path)
        if committed:
            self.do_git("-C", path, "add", "-A")
            self.do_git("-C", path, "commit", "-q", "-m", "inner")

    def do_half_merge(self) -> None:
        self.do_sh(
            "git checkout -q -b left && echo left > README.md && git commit -qam left"
            " && git checkout -q - && echo right > README.md && git commit -qam right"
            " && git merge left"
        )

    def do_half_rebase(self) -> None:
        self.do_sh(
            "git checkout -q -b left && echo left > README.md && git commit -qam left"
            " && git checkout -q - && echo right > README.md && git commit -qam right"
            " && git rebase left"
        )

    # time, processes, ends

    def do_sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def do_linger(self, seconds: float) -> None:
        self.say_result()
        self.result = False
        time.sleep(seconds)

    def do_wait(self, path: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not os.path.exists(path) and time.monotonic() < end:
            time.sleep(0.01)

    def do_child(self, kind: str) -> None:
        import subprocess

        code = "import time; time.sleep(600)"
        if kind == "stubborn":
            code = (
                "import signal, time\n"
                "for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n"
                "print(flush=True); time.sleep(600)"
            )
        child = subprocess.Popen(
            [sys.executable, "-IS", "-c", code, f"child-of:{ROOT}"],
            stdout=subprocess.PIPE if kind == "stubborn" else subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=kind == "session",
        )
        if child.stdout:
            child.stdout.readline()

    def do_ignore_signals(self) -> None:
        import signal

        for number_ in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number_, signal.SIG_IGN)

    def do_exit(self, code: int) -> NoReturn:
        self.end(code)

    def do_die(self, number_: int) -> None:
        sys.stdout.flush()
        os.kill(os.getpid(), number_)

    # claude only

    def do_usage(self, usage: dict[str, int] | None) -> None:
        self.usage = usage

    def do_no_result(self) -> None:
        self.result = False

    def do_is_error(self, text: str) -> None:
        self.last = text
        self.error = {"api_error_status": 400}

    def do_api_error(self, word: str, status: int, text: str) -> NoReturn:
        self.message(
            {"type": "text", "text": text},
            error=word,
            is_api_error_message=True,
            api_error_status=status,
        )
        self.last = text
        self.error = {"api_error_status": status}
        self.end(1)

    def do_denied(self, tool: str, path: str) -> None:
        denial = {"tool_name": tool, "tool_use_id": "t1", "tool_input": {"file_path": path}}
        self.error = {"is_error": False, "permission_denials": [denial]}

    def do_limit(self, seconds: float) -> NoReturn:
        self.emit(
            {
                "type": "rate_limit_event",
                "rate_limit_info": {
                    "status": "rejected",
                    "resetsAt": int(time.time() + seconds),
                    "rateLimitType": "five_hour",
                    "overageStatus": "rejected",
                    "isUsingOverage": False,
                },
            }
        )
        self.usage = dict.fromkeys(USAGE, 0)
        text = "You've hit your limit · resets 11:43pm (UTC)"
        self.message(
            {"type": "text", "text": text},
            error="rate_limit",
            is_api_error_message=True,
            api_error_status=429,
            api_error="usage_limit_reached",
            api_error_type="rate_limit_error",
        )
        self.last = text
        self.error = {
            "api_error_status": 429,
            "api_error_type": "rate_limit_error",
            "api_error": "usage_limit_reached",
        }
        self.end(1)

    def do_session(self, size: int, where: str = "own") -> None:
        """Grow a session file by exactly so many bytes; no usage numbers inside."""
        import json
        import re

        slug = re.sub(r"[^a-zA-Z0-9]", "-", os.getcwd())
        name = self.session
        if where == "foreign":
            slug, name = "-some-other-project", "0b0b0b0b-0000-4000-8000-000000000000"
        folder = os.path.expanduser(f"~/.claude/projects/{slug}")
        os.makedirs(folder, exist_ok=True)
        frame = json.dumps({"type": "user", "message": {"role": "user", "content": ""}}) + "\n"
        line = frame.replace('""', '"' + "x" * (size - len(frame)) + '"')
        with open(f"{folder}/{name}.jsonl", "a", encoding="utf-8") as file:
            file.write(line)

    def do_meter(self, value: str) -> None:
        """Set what the fake `wt-usage` answers from now on."""
        put(f"{ROOT}/meter", value)


def main() -> None:
    """One call of the agent."""
    if "--version" in sys.argv:
        sys.stdout.write("2.1.325 (Claude Code)\n")
        sys.exit(0)
    agent = Agent()
    agent.record()
    agent.play()
