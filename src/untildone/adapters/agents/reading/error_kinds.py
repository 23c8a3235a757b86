"""What kind of trouble an agent reports: by HTTP status first, else by the words of its error.

Only text that the agent itself marks as an error may come here: its own words, a tool's output or a
package called `ratelimit` say nothing about the service.
"""

import json
import re
from datetime import UTC, datetime, timedelta

from untildone.adapters.agents.reading.json_lines import string, table
from untildone.domain.agents.agent import Kind, Trouble
from untildone.domain.regex import regex

RATE_LIMIT = "rate limit"
USAGE_LIMIT = "usage limit"
SERVER_ERROR = "server error"
_FAR_FUTURE = 32_503_680_000  # the year 3000
_LONGEST_S = 40 * 24 * 3600

_QUOTA = regex(
    r"usage.limit|hit your[\w ]* limit|quota|credit balance|insufficient.(?:funds|credit|balance)"
    r"|billing|spend(?:ing)? limit|out of credits",
    re.IGNORECASE,
)
# Not the bare word: a package may be called like it.
_RATE = regex(
    r"rate[ -]limit|rate_limit_(?:error|exceeded)|RateLimitError|too many requests"
    r"|resource has been exhausted",
    re.IGNORECASE,
)
_CONTEXT = regex(
    r"context (?:window|length|limit)|prompt (?:is )?too long|too many tokens|maximum context"
    r"|input (?:is )?too long|context_length_exceeded|input token count .*exceeds",
    re.IGNORECASE,
)
_LOGIN = regex(
    r"not logged in|unauthori[sz]ed|authentication|invalid.{0,10}api.?key|incorrect api key"
    r"|api key not valid|missing (?:\w+ )?(?:environment variable|api key)|no api key"
    r"|please run /login|permission_denied|credentials|no auth type|please (?:log ?in|sign in)"
    r"|api.?key (?:is )?(?:invalid|missing|not found)",
    re.IGNORECASE,
)
_LOAD = regex(
    r"overloaded|high demand|service (?:is )?(?:currently )?unavailable|internal server error"
    r"|bad gateway|gateway time"
    r"|connection|socket|econn\w+|etimedout|epipe|network error|fetch failed|terminated$"
    r"|stream (?:disconnected|ended(?! with empty)|closed|idle)|timed? ?out|error sending request"
    r"|server (?:had an )?error|try again in a moment|malformed response|in json at position",
    re.IGNORECASE,
)
_REFUSAL = regex(
    r"refus(?:al|ed to)|content.(?:filter|policy|moderation)|usage policy|safety settings"
    # What is left of an answer that a filter has taken away: the next one costs as much again.
    r"|empty response",
    re.IGNORECASE,
)
_STATUS = regex(
    r"(?:^|status(?: code)?:? |error:? |\(|\[api error: )(4\d\d|5\d\d)\b", re.IGNORECASE
)
_BY_STATUS = {
    401: Kind.NOT_LOGGED_IN,
    402: Kind.QUOTA_EXHAUSTED,
    403: Kind.NOT_LOGGED_IN,
    413: Kind.CONTEXT_OVERFLOW,
}
_IN = regex(
    r"(?:try again|retry|resets?|available)[\w ]{0,20}?(?:in|after):? ?"
    r"((?:\d+(?:\.\d+)? ?(?:m(?:s|illi\w+|in\w*)|days?|hours?|sec\w*|[dhms])[ ,]*)+)",
    re.IGNORECASE,
)
_SPAN = regex(r"(\d+(?:\.\d+)?) ?(ms|mil|[dhms])", re.IGNORECASE)
_UNITS = {"ms": 0.001, "mil": 0.001, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = rf"({'|'.join(_MONTHS)})[a-z]* (\d{{1,2}})(?:st|nd|rd|th)?,?(?: (\d{{4}}),?)?(?: at)? "
_AT = regex(
    rf"(?:try again at|resets?(?: at)?) (?:{_DATE})?"
    r"(\d{1,2})(?::(\d\d))? ?([ap]m)?(?: ?\((utc)\))?",
    re.IGNORECASE,
)
# Older versions of Claude Code: "Claude AI usage limit reached|1760000000".
_EPOCH = regex(r"limit reached\|(\d{10})\b", re.IGNORECASE)
# What a program that failed prints beside the reason.
_TRACE = ("at ", "goroutine ", 'File "')
_ASIDE = regex(r"(?:\W*)(?:\w+: )?(?:warn|note|hint|deprecat|info\b|debug\b)", re.IGNORECASE)
_TELLING = regex(
    r"error|exception|fatal|panic|fail(?:ed|ure|s)?\b|can(?:not|'t| not)\b|could not|unable|denied"
    r"|invalid|not found|missing|unauthori[sz]ed|forbidden|refused|quota|exceeded|expired"
    r"|rate.limit|too many|not logged in|timed? ?out|no such|unknown|unexpected",
    re.IGNORECASE,
)
# HTTP, or the words that belong to the number: other numbers are lines, ports and amounts.
_HTTP = regex(
    r"(?:\bhttp(?:/[\d.]+)?(?: error| status)?(?: code)?:? ?|\bstatus(?: code)?[:= ] ?)"
    r"(40[123]|429|50[0234]|529)\b"
    r"|\b(40[123]|429|50[0234]|529):? (?:unauthori[sz]ed|forbidden|payment required"
    r"|too many requests|internal server error|bad gateway|service unavailable|gateway time"
    r"|overloaded)",
    re.IGNORECASE,
)
_CLEAR = regex(
    r"rate[ -]limit(?:ed| exceeded| reached|s? hit)|rate_limit_(?:error|exceeded)|too many requests"
    r"|usage limit (?:exceeded|reached)|quota (?:exceeded|exhausted)|insufficient_quota"
    r"|overloaded_error|not logged in|please (?:log ?in|sign in|run /login)"
    r"|(?<!\w)authentication(?:_error| failed| required)|(?:invalid|incorrect|missing|no) api.?key"
    r"|api.?key (?:is )?(?:invalid|not valid|missing|not found)|context_length_exceeded",
    re.IGNORECASE,
)
_WRAPPED = regex(r"\[API Error: (.*)\](?:\n|$)", re.DOTALL)


def classify_error(
    message: str, status: object = None, asked: datetime | None = None
) -> Trouble | None:
    """The trouble of an error message; None when it is of no known kind.

    `asked` is when the call began, for a message that names a time of day.
    """
    found = _STATUS.search(message) if status is None else None
    code = int(found[1]) if found else status if isinstance(status, int) else 0
    kind = _by_status(code, message) or _by_words(message)
    if kind is None:
        return None
    trouble = Trouble(kind, _words(kind, code))
    if not trouble.passing:
        return trouble
    until = _stated_epoch(message) or _time_of_day(message, asked)
    return Trouble(kind, trouble.why, until, _span(message))


def with_reset(trouble: Trouble | None, text: str, asked: datetime | None) -> Trouble | None:
    """Passing trouble with the reset that other words of the program state, if its own do not."""
    if trouble is None or not trouble.passing or trouble.until or trouble.after_s:
        return trouble
    until = _stated_epoch(text) or _time_of_day(text, asked)
    return Trouble(trouble.kind, trouble.why, until, _span(text))


def why_line(stderr: str) -> str:
    """The line that says why a program failed; where none does, the last one.

    Where in its own code it failed says nothing to anybody, and the last line is often advice.
    """
    said = map(str.strip, stderr.split("\n"))
    lines = [line for line in said if line and not line.startswith(_TRACE)]
    telling = [line for line in lines if _TELLING.search(line) and not _ASIDE.match(line)]
    known = [line for line in telling if classify_error(line)]
    return (known or telling or lines or [""])[-1]


def clear_trouble(line: str, asked: datetime | None) -> Trouble | None:
    """The trouble that a line of any program names beyond doubt; None if it might be its own."""
    status = _HTTP.search(line)
    if not status and not _CLEAR.search(line):
        return None
    return classify_error(line, int(status[1] or status[2]) if status else None, asked)


def service_error(message: str) -> tuple[str, object]:
    """What the service said and its HTTP status; a JSON document of the service is opened."""
    wrapped = _WRAPPED.search(message)
    said = f"{wrapped[1]}\n{message[wrapped.end() :]}".strip() if wrapped else message
    try:
        document: object = json.JSONDecoder().raw_decode(said, said.index("{"))[0]
    except (ValueError, RecursionError):
        return said, None
    error = table(table(document).get("error"))
    code = error.get("code")
    return string(error.get("message")) or said, code if isinstance(code, int) else None


def epoch(seconds: object) -> datetime | None:
    """A moment given in seconds since 1970, unless it cannot be one."""
    if isinstance(seconds, int | float) and 0 < seconds < _FAR_FUTURE:
        return datetime.fromtimestamp(seconds, UTC)
    return None


def seconds_of(value: object) -> float | None:
    """A span of a header or a field in seconds, unless it cannot be one."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) else 0.0
    except ValueError:
        return None
    return seconds if 0 < seconds <= _LONGEST_S else None


def _by_status(code: int, message: str) -> Kind | None:
    if not code:
        return None
    if code == 429:
        return Kind.QUOTA_EXHAUSTED if _QUOTA.search(_plain_rate(message)) else Kind.RATE_LIMITED
    if code in _BY_STATUS:
        return _BY_STATUS[code]
    if _CONTEXT.search(message):
        return Kind.CONTEXT_OVERFLOW
    if code in (408, 409) or code >= 500:
        return Kind.OVERLOADED
    # Some services have only 400 for a wrong key or a credit that is used up.
    meant = _by_words(message) if code == 400 else None
    if meant in (Kind.QUOTA_EXHAUSTED, Kind.NOT_LOGGED_IN, Kind.REFUSED):
        return meant
    return Kind.AGENT_ERROR


def _by_words(message: str) -> Kind | None:
    for kind, words in (
        (Kind.CONTEXT_OVERFLOW, _CONTEXT),
        (Kind.RATE_LIMITED, _RATE),
        (Kind.QUOTA_EXHAUSTED, _QUOTA),
        (Kind.NOT_LOGGED_IN, _LOGIN),
        (Kind.OVERLOADED, _LOAD),
        (Kind.REFUSED, _REFUSAL),
    ):
        if words.search(message):
            return kind
    return None


def _plain_rate(message: str) -> str:
    """Gemini's words for too many requests in a minute name a quota too."""
    return "" if "Resource has been exhausted" in message else message


def _words(kind: Kind, code: int) -> str:
    match kind:
        case Kind.RATE_LIMITED:
            return RATE_LIMIT
        case Kind.QUOTA_EXHAUSTED:
            return USAGE_LIMIT
        case Kind.OVERLOADED if code == 529:
            return "service overloaded"
        case Kind.OVERLOADED:
            return f"{SERVER_ERROR} ({code})" if code else SERVER_ERROR
        case Kind.NOT_LOGGED_IN:
            return "not logged in"
        case Kind.CONTEXT_OVERFLOW:
            return "the context is too long"
        case Kind.REFUSED:
            return "the model refused"
        case _:
            return f"error {code}" if code else "error"


def _span(message: str) -> float | None:
    found = _IN.findall(message)
    if not found:
        return None
    parts = _SPAN.findall(found[-1])  # the last of them is the newest
    return seconds_of(sum(float(number) * _UNITS[unit.lower()] for number, unit in parts))


def _stated_epoch(message: str) -> datetime | None:
    found = _EPOCH.search(message)
    return epoch(int(found[1])) if found else None


def _time_of_day(message: str, asked: datetime | None) -> datetime | None:
    found = _AT.search(message)
    if not found or asked is None or not (found[5] or found[6]):
        return None
    here = asked.astimezone(UTC if found[7] else None)
    try:
        then = here.replace(hour=_hour(found), minute=int(found[5] or 0), second=0, microsecond=0)
        if found[1]:
            month = _MONTHS.index(found[1].lower()) + 1
            return then.replace(int(found[3] or here.year), month, int(found[2]))
    except ValueError:
        return None
    # A reset that is just over is of today; one long past is of tomorrow.
    return then if then > here - timedelta(hours=1) else then + timedelta(days=1)


def _hour(found: re.Match[str]) -> int:
    hour, half = int(found[4]), (found[6] or "").lower()
    return hour % 12 + (12 if half == "pm" else 0) if half else hour
