"""aider, called without a terminal: its command line, and how its output is read.

It prints the model's answers, its own chatter and, if asked for, the events of its log. The log
says where an answer begins and ends, and when the run is over. Without it an answer is known by the
line with its tokens only: what stands before that line is taken for the answer, what comes after
the last one is chatter.
"""

import codecs
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.agents.program import (
    ENDS,
    MODEL,
    OUTPUT,
    PROMPT,
    SESSION,
    AgentSpec,
    Grant,
    HomePath,
    Login,
)
from untildone.adapters.agents.reading.conversation import (
    session_name,
    sum_of,
    text_notices,
    without_zero_cost,
)
from untildone.adapters.agents.reading.error_kinds import classify_error
from untildone.adapters.agents.reading.event_reader import EventReader, error_text
from untildone.adapters.agents.reading.json_lines import amount, count, parsed, short, string, table
from untildone.domain.agents.agent import (
    AgentTool,
    Intent,
    Invocation,
    Kind,
    Notice,
    Permissions,
    Reading,
    Session,
    Trouble,
    Usage,
)
from untildone.domain.agents.promise import Promise, PromiseScanner
from untildone.domain.regex import regex

_KEPT = 64 * 1024
_THINKING, _ANSWER = "► **THINKING**", "► **ANSWER**"
_MODEL = regex(r"(?:Main model|Model): (\S+) with ")
_RETRY = regex(r"Retrying in [\d.]+ seconds\.\.\.")
_NUMBER = r"([\d.]+)([kM]?)"
_TOKENS = regex(
    rf"Tokens: {_NUMBER} sent(?:, {_NUMBER} cache write)?(?:, {_NUMBER} cache hit)?"
    rf", {_NUMBER} received\.(?: Cost: .*)?"
)
_COST = regex(r"Cost: \$[\d.]+ message, \$[\d.]+ session\.")
_EDITED = "Applied edit to "
# What the model wrote is not in the files: until it has answered again, or for good.
_MISSED = "The LLM did not conform to the edit format."
_GAVE_UP = regex(
    r"^(?:Only \d+ reflections allowed, stopping\.|Model \S+ has hit a token limit!)", re.MULTILINE
)
# What aider itself says where an answer should be; it is no word of the model.
_EMPTY = "Empty response received from LLM"
_OWN_QUESTION = regex(r"\(Y\)es/\(N\)o")
_LITELLM = regex(r"litellm\.(\w+): ")
_ADVICE = "The API provider"
# The HTTP status that stands for litellm's name of an error.
_STATUS = {
    "AuthenticationError": 401,
    "BadGatewayError": 502,
    "BadRequestError": 400,
    "ContextWindowExceededError": 413,
    "InternalServerError": 500,
    "NotFoundError": 404,
    "PermissionDeniedError": 403,
    "RateLimitError": 429,
    "ServiceUnavailableError": 503,
}
_REFUSED = "ContentPolicyViolationError"


class AiderReader(EventReader):
    """Reads plain text; a promise counts when aider has counted the tokens of its answer."""

    separates_tool_output = False

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = ""
        self._said = ""
        self._user = ""
        self._answer: _Answer | None = _Answer()
        self._answers = _Answers()
        self._model = ""
        self._missed = ""
        self._failure = ""
        self._exit: str | None = None

    def feed(self, chunk: bytes) -> list[Notice]:
        """Take the next bytes of standard output; memory stays bounded whatever comes."""
        notices = [n for line in self._split(chunk) for n in self._take(line)]
        return [*notices, *self._flush()]

    def finish(self, exit_code: int | None, stderr_tail: bytes) -> Reading:
        """The output is over; the exit code alone proves nothing and is judged elsewhere."""
        self._take(self._open + self._decoder.decode(b"", final=True))
        return self._reading(stderr_tail)

    def _split(self, chunk: bytes) -> Iterator[str]:
        *whole, self._open = (self._open + self._decoder.decode(chunk)).split("\n")
        if len(self._open) > 2 * _KEPT:
            self._open = self._open[:_KEPT] + self._open[-_KEPT:]
        yield from whole

    def _flush(self) -> list[Notice]:
        said, self._said = self._said, ""
        return text_notices(said)

    def _take(self, line: str) -> list[Notice]:
        event = parsed(line.encode("utf-8", "replace")) if '"user_id"' in line else {}
        if self._is_genuine(event):
            self._happen(string(event.get("event")), table(event.get("properties")))
            return []
        notices: list[Notice] = []
        if self._answer is None or not self._user:
            notices = self._chat(line)
        if self._answer is not None:
            self._hear_line(self._answer, line)
        return notices

    def _is_genuine(self, event: Mapping[str, object]) -> bool:
        """Only the log knows the random id of its first line, which comes before any answer."""
        user = string(event.get("user_id"))
        if not self._user and event.get("event") == "launched":
            self._user = user
        return bool(user) and user == self._user

    def _happen(self, event: str, properties: Mapping[str, object]) -> None:
        match event:
            case "launched":
                self._answer, self._said = None, ""
            case "message_send_starting":
                self._answer = _Answer()
            case "message_send" if self._answer is not None:
                self._accept(self._answer, _counted(properties, self._answer.tokens))
                self._answer = None
            case "message_send_exception":
                self._failure = error_text(string(properties.get("exception")))
            case "oauth_flow_initiated":
                # It waits for minutes for somebody at a browser.
                self._failure = "no model and no API key"
            case "exit":
                self._exit, self.over = string(properties.get("reason")), True
            case _:
                pass

    def _chat(self, line: str) -> list[Notice]:
        """aider's own words, outside of any answer."""
        if _GAVE_UP.match(line):
            self._failure = error_text(line)
        elif line.startswith(_MISSED):
            self._missed = _MISSED
        elif not self._model and (found := _MODEL.match(line)):
            self._model = found[1]
        elif line.startswith(_EDITED):
            return [*self._flush(), AgentTool("edit", short(line.removeprefix(_EDITED)))]
        return []

    def _hear_line(self, answer: "_Answer", line: str) -> None:
        if _RETRY.fullmatch(line.rstrip()):
            # All before it was of an answer that broke off, and the error.
            self._answer = _Answer()
        elif not self._user and (tokens := _TOKENS.fullmatch(line.rstrip())):
            self._accept(answer, _estimated(tokens))
            self._answer = _Answer()
        elif line.startswith(_EMPTY):
            self._failure = error_text(line)
        elif _OWN_QUESTION.search(line):
            pass  # asked by aider, and answered by `--yes-always`
        elif answer.take(line):
            self._said += line + "\n"

    def _accept(self, answer: "_Answer", usage: Usage) -> None:
        self._missed = ""
        self._answers.add(answer.scanner, usage)

    def _reading(self, stderr_tail: bytes) -> Reading:
        error = self._error(stderr_tail)
        usage = self._answers.usage
        return Reading(
            promise=self._answers.promise(),
            question=self._answers.question(),
            error=error,
            usage=without_zero_cost(replace(usage, model=self._model)) if usage else None,
            trouble=self._trouble(error) if error else None,
            session=Session(session_name(self._intent)) if self._user else None,
        )

    def _error(self, stderr_tail: bytes) -> str:
        left = self._answer.tail if self._answer else ""
        if self._failure or self._missed:
            return self._failure or self._missed
        if self._user:
            if self._exit is None:
                return self._cut_short(stderr_tail)
            if self._answer is not None or self._answers.usage is None:
                return error_text(_complaint(left), left, self._exit)
            return ""
        if complaint := _complaint(left):
            return error_text(complaint)
        return "" if self._answers.usage else self._cut_short(stderr_tail)

    def _trouble(self, error: str) -> Trouble | None:
        if "has hit a token limit!" in error:
            return Trouble(Kind.CONTEXT_OVERFLOW, "the context is too long")
        called = _LITELLM.search(error)
        if called is None:
            return classify_error(error, None, self._intent.asked) if self._failure else None
        if called[1] == _REFUSED:
            return Trouble(Kind.REFUSED, "the model refused")
        said = error[called.end() :].removeprefix(f"{called[1]}: ")
        status = _STATUS.get(called[1])
        return classify_error(said if status else error, status, self._intent.asked)


class _Answer:
    """An answer as it comes, or the error that takes its place."""

    def __init__(self) -> None:
        self.scanner = PromiseScanner()
        self._last: list[str] = []
        self._last_chars = 0
        self._thinking = False
        self._held: list[str] = []

    @property
    def tail(self) -> str:
        return "".join(self._last)[-_KEPT:]

    def take(self, line: str) -> bool:
        """Whether the next line is a part of the answer for all to see."""
        bare = line.strip()
        if bare in (_THINKING, _ANSWER):
            self._thinking = bare == _THINKING
            self.scanner, self._held = PromiseScanner(), []
            return False
        if self._thinking:
            return False
        self._held.append(line)
        if _TOKENS.fullmatch(bare) or _COST.fullmatch(bare):
            return False
        for held in self._held:
            self.scanner.feed(f"{held}\n".encode("utf-8", "replace"))
        self._held = []
        self._keep(f"{line}\n")
        return True

    def _keep(self, line: str) -> None:
        self._last.append(line)
        self._last_chars += len(line)
        if self._last_chars > 2 * _KEPT:  # now and then: a cut per line made a flood take minutes
            self._last = [self.tail]
            self._last_chars = _KEPT

    @property
    def tokens(self) -> re.Match[str] | None:
        """The line with the tokens that ends the answer."""
        return next(filter(None, map(_TOKENS.fullmatch, self._held)), None)


class _Answers:
    """The answers that came to an end: their promises and their tokens."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self._promise: Promise | None = None
        self._last: PromiseScanner | None = None

    def add(self, answer: PromiseScanner, usage: Usage) -> None:
        """Take the next one; then the one before was not the last."""
        before = self._last.result(final=False) if self._last else None
        self._promise = before or self._promise
        self._last = answer
        estimated = usage.estimated or (self.usage is not None and self.usage.estimated)
        self.usage = replace(sum_of(self.usage, usage), estimated=estimated)

    def question(self) -> str:
        """What the last answer asks if it ends with a question."""
        return self._last.question() if self._last else ""

    def promise(self) -> Promise | None:
        """The last promise, once the output is over."""
        return (self._last.result() if self._last else None) or self._promise


def _complaint(text: str) -> str:
    """The error of the service without aider's advice, its wrapped lines joined.

    An answer that is cut at its longest is followed by aider's own words about it.
    """
    if gave_up := _GAVE_UP.search(text):
        return gave_up[0]
    found = _LITELLM.search(text)
    said = text[found.start() :].partition(_ADVICE)[0] if found else ""
    return " ".join(said.split())


def _number(digits: str | None, unit: str | None) -> int:
    try:
        return round(float(digits or 0) * {"k": 1e3, "M": 1e6}.get(unit or "", 1))
    except ValueError:
        return 0


def _estimated(tokens: re.Match[str]) -> Usage:
    """The numbers of the line: of a streamed answer, aider counts the tokens itself."""
    sent, written, read, received = (_number(tokens[at], tokens[at + 1]) for at in (1, 3, 5, 7))
    return Usage(
        input_tokens=max(sent - written - read, 0),
        output_tokens=received,
        cache_read_tokens=read,
        cache_write_tokens=written,
        estimated=True,
    )


def _counted(properties: Mapping[str, object], tokens: re.Match[str] | None) -> Usage:
    """The numbers of the log, where those of the cache are missing."""
    line = _estimated(tokens) if tokens else Usage()
    cached = line.cache_read_tokens + line.cache_write_tokens
    return replace(
        line,
        input_tokens=max(count(properties.get("prompt_tokens")) - cached, 0),
        output_tokens=count(properties.get("completion_tokens")),
        cost_usd=amount(properties.get("cost")),
        estimated=bool(tokens and (tokens[4] or tokens[6])),
    )


# With `--yes-always` it says no to every shell command that the model suggests.
_ARGS = (
    *("--message-file", "/dev/stdin", "--yes-always"),
    # A streamed answer comes without its tokens, and with `--pretty` in colour.
    *("--no-stream", "--no-pretty", "--no-fancy-input"),
    # Nothing leaves the machine; the log is how it says where an answer begins and ends.
    *("--no-analytics", "--analytics-log", "/dev/stdout"),
    *("--no-auto-commits", "--no-dirty-commits", "--no-gitignore"),
    *("--no-check-update", "--no-show-release-notes", "--no-show-model-warnings"),
    *("--no-detect-urls", "--no-suggest-shell-commands"),
)
# Each is an old short name of a model.
_MODELS = (
    *("--opus", "--sonnet", "--haiku", "--4", "-4", "--4o", "--mini", "--4-turbo", "--35turbo"),
    *("--35-turbo", "--3", "-3", "--deepseek", "--o1-mini", "--o1-preview"),
)


def _adapt(intent: Intent, call: Invocation) -> Invocation:
    """Keep the conversation out of the worktree; a resumed one is read back from there."""
    history = str(Path(intent.scratch) / f"{session_name(intent)}.md")
    return replace(
        call,
        argv=(
            *call.argv,
            *("--chat-history-file", history, "--input-history-file", "/dev/null"),
            *(("--restore-chat-history",) if intent.resume else ()),
        ),
    )


AIDER = AgentSpec(
    name="aider",
    install="python -m pip install aider-install && aider-install",
    reader=AiderReader,
    args=_ARGS,
    grants={
        Permissions.FULL: Grant(),
        # Linters and tests are commands that it would run by itself.
        Permissions.EDITS: Grant(
            ("--no-auto-lint", "--no-auto-test"),
            holds="It edits files and runs no commands, nor linters and tests by itself.",
        ),
    },
    adapt=_adapt,
    # Lines are not to be wrapped, and an error is not to open a browser.
    env={"COLUMNS": "9999", "BROWSER": "true"},
    writable=(HomePath("~/.aider"),),
    leftover_files=("/.aider*",),
    login=Login(
        "set the key of your provider, for example OPENAI_API_KEY",
        (
            *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
            *("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "VERTEXAI_PROJECT", "DEEPSEEK_API_KEY"),
        ),
        (HomePath("~/.aider.conf.yml"),),
    ),
    tells_cost=True,
    reserved={
        **dict.fromkeys(("-m", "--message", "--msg", "-f", "--load", "--apply"), PROMPT),
        # Our prompt would be read in this encoding, too.
        **dict.fromkeys(("--apply-clipboard-edits", "--copy-paste", "--encoding"), PROMPT),
        # One prints the prompt among the words of the answer, the others are ended by nobody.
        **dict.fromkeys(("--gui", "--browser", "-v", "--verbose", "--watch-files"), OUTPUT),
        **dict.fromkeys(("--chat-history-file", "--input-history-file"), SESSION),
        **dict.fromkeys(("--restore-chat-history", "--no-restore-chat-history"), SESSION),
        **dict.fromkeys(_MODELS, MODEL),
        **dict.fromkeys(("--exit", "--show-prompts", "-h", "--help", "--version"), ENDS),
        **dict.fromkeys(("--commit", "--lint", "--test", "--dry-run", "--show-repo-map"), ENDS),
        **dict.fromkeys(("--list-models", "--models", "--shell-completions"), ENDS),
        **dict.fromkeys(("--upgrade", "--update", "--install-main-branch"), ENDS),
        "--just-check-update": ENDS,
    },
    widening=("--auto-lint", "--auto-test", "--lint-cmd", "--test-cmd", "--notifications-command"),
    abbreviates=True,
    # Not short for `--gitignore`.
    repeatable=("--git", "--no-git"),
)
