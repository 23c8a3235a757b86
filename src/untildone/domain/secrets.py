"""What looks like a secret: files that are one, and what is redacted in a text.

Redacted is byte for byte, so that everything else stays where it was.
"""

import re
from collections.abc import Callable, Mapping

from untildone.domain.regex import regex

FEW_SIGNS = 9

# What the last parts of a path say, in lower case. Files of these names are secrets unless their
# content shows that they are not: a certificate or public key, a presentation, an empty file.
NAMES = (
    (r"\.env(\..+)?", "a file of environment secrets"),
    (r".+\.(pem|key|ppk)|id_(rsa|dsa|ecdsa|ed25519)(_sk)?", "a private key"),
    (r".+\.(p12|pfx|jks|keystore|kdbx?)", "a key store"),
    (r"\.(netrc|pgpass|git-credentials)|_netrc", "a password file"),
    (r"(client_secret|credentials).*\.json|.*service[-_]?account.*\.json", "a credentials file"),
    (r"(.*/)?\.aws/credentials|(.*/)?\.kube/config", "a credentials file"),
)
HARMLESS_NAMES = r"\.env\.(.+\.)?(example|sample|template|dist)"
PUBLIC = rb"\s*-----BEGIN (CERTIFICATE|(\w+ )?PUBLIC KEY)|PK\x03\x04"

# A literal that every match holds (finding it is much cheaper), the shape, what it is.
CONTENTS = (
    (
        rb"PRIVATE KEY",
        rb"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----"
        rb"(\s|\\[rn])+([\w-]+: .*\s+)*[\w+/=]{40}",
        "a private key",
    ),
    (rb"AKIA", rb"\bAKIA[A-Z2-7]{16}\b", "an AWS access key"),
    (rb"ASIA", rb"\bASIA[A-Z2-7]{16}\b", "an AWS access key"),
    (rb"gh", rb"\bgh[pousr]_[A-Za-z0-9]{36,}", "a GitHub token"),
    (rb"github_pat_", rb"\bgithub_pat_[A-Za-z0-9_]{60,}", "a GitHub token"),
    (rb"glpat-", rb"\bglpat-[\w-]{20,}", "a GitLab token"),
    (rb"xox", rb"\bxox[abeoprs]-[0-9]{8,}-[A-Za-z0-9-]{20,}", "a Slack token"),
    (rb"sk-ant-", rb"\bsk-ant-[a-z]+[0-9]{2}-[\w-]{60,}", "an Anthropic key"),
    (rb"sk-", rb"\bsk-(proj|svcacct|admin)-[\w-]{40,}", "an OpenAI key"),
    (rb"T3BlbkFJ", rb"\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b", "an OpenAI key"),
    (rb"AIza", rb"\bAIza[\w-]{35}\b", "a Google key"),
    (rb"k_live_", rb"\b[rs]k_live_[A-Za-z0-9]{24,}", "a Stripe key"),
    (rb"npm_", rb"\bnpm_[A-Za-z0-9]{36}\b", "an npm token"),
    (rb"pypi-", rb"\bpypi-AgE[\w-]{60,}", "a PyPI token"),
    (rb"hf_", rb"\bhf_[A-Za-z0-9]{34}\b", "a Hugging Face token"),
)
# A package manager's settings are a secret only with a password or a token written out.
SETTINGS = {".npmrc": rb"_(authToken|auth|password)\s*=\s*[^\s$]", ".pypirc": rb"password\s*[:=]"}


def secret(path: str, head: bytes) -> str:
    """What kind of secret a file is, by its name and its first bytes; empty if none."""
    lower = path.lower()
    name = lower.rpartition("/")[2]
    if name in SETTINGS and re.search(SETTINGS[name], head):
        return "a package registry's password"
    named = "" if re.fullmatch(HARMLESS_NAMES, name) else _by_name(lower, name)
    if named and not re.match(PUBLIC, head):
        return named
    return "" if b"\0" in head else _by_content(head)


def _by_name(path: str, name: str) -> str:
    for shape, what in NAMES:
        if any(re.fullmatch(shape, text, re.DOTALL) for text in (name, path)):
            return what
    return ""


def _by_content(head: bytes) -> str:
    for literal, shape, what in CONTENTS:
        if literal in head and any(not _is_placeholder(m[0]) for m in re.finditer(shape, head)):
            return what
    return ""


def _is_placeholder(token: bytes) -> bool:
    """Documentation has `AKIAIOSFODNN7EXAMPLE` and `ghp_xxxxxxxx`: no secrets."""
    return b"EXAMPLE" in token.upper() or len(set(token[-20:])) < FEW_SIGNS


SHORTEST = 8
HIDDEN = "(redacted)"
_NAMED = regex(r"key|token|secret|passw|passphrase|credential|auth|pwd", re.IGNORECASE)
# What names a secret in `NAME=value`, `"name": "value"` or `name: value`; the words that say so.
_PASSWORDS = rb"passw(?:or)?d\w*|passphrase|[_-]pass|pwd|secret[\w-]*|credentials?"
_KEYS = (
    rb"(?:api|access|account|private|signing|encryption|auth|master|deploy|license)[_-]?key"
    rb"|token|_auth"
)
_SEPARATOR = rb"[\\\"']*\s*[:=]\s*"
# A quoted value ends at its own quote or at that of the JSON around it, a bare one at what cannot
# be part of it.
_VALUE = (
    rb"(?:(?P<quote>\\*[\"'])(?P<hide>(?:(?!(?P=quote)|\\*\")[^\r\n]){%d,})"
    rb"|(?P<bare>(?![/$<{(\[*])[^\s\"'\\,;&)}\]]{%d,}))"
)
# Where a secret begins. In the journal a line's end is written `\n`, and the escape sequence of a
# colour ends in `m`: letters, behind which `\b` alone would see the middle of a word.
_ESCAPED = rb"(?<=\\[bfnrt])|(?<=[\[\d;]m)"
_START = rb"(?:\b|" + _ESCAPED + rb")"
_NO_VALUE = rb"(?!\\*[\"']?(?:null|none|true|false|undefined|[\d.]+)\b)"
# Each shape behind the words of which one must be there, in lower case: looking for those is cheap.
_SHAPES: tuple[tuple[tuple[bytes, ...], bytes], ...] = (
    (
        (b"private key",),
        rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
        rb"(?P<hide>(?:[A-Za-z0-9+/=:,. \t\r\n]|\\+[rn]|-(?!----))+)",
    ),
    *(((literal.lower(),), shape) for literal, shape, _ in CONTENTS if literal != rb"PRIVATE KEY"),
    ((b"gl",), rb"\bgl[a-z]{2,6}-[\w-]{20,}"),
    ((b"sk-",), rb"\bsk-[\w-]{20,}"),
    ((b"k_live_", b"k_test_", b"whsec_"), rb"\b(?:[prs]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}"),
    ((b"xapp-",), rb"\bxapp-[\w-]{20,}"),
    ((b"hooks.slack.com",), rb"hooks\.slack\.com/(?:services|workflows)/(?P<hide>[\w/+-]{20,})"),
    ((b"/api/webhooks/",), rb"/api/webhooks/\d+/(?P<hide>[\w-]{20,})"),
    ((b":aa",), rb"\b\d{8,10}:AA[\w-]{33}\b"),
    ((b"eyj",), rb"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*"),
    ((b"ya29.", b"gocspx-"), rb"\b(?:ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,})"),
    ((b"1//0",), rb"\b1//0[\w-]{30,}"),
    ((b"sg.",), rb"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    (
        (b"_pat_", b"shp", b"dop_v1_", b"glsa_", b"lin_api_", b"ntn_", b"figd_", b"rubygems_"),
        rb"\b(?:dckr_pat|shp(?:at|ca|pa|ss)|dop_v1|glsa|lin_api|ntn|figd|rubygems)_[\w-]{20,}",
    ),
    (
        (
            b"gsk_",
            b"xai-",
            b"r8_",
            b"pplx-",
            b"tvly-",
            b"hvs.",
            b"atatt3x",
            b"pmak-",
            b"age-secret",
        ),
        rb"\b(?:gsk_|xai-|r8_|pplx-|tvly-|hvs\.|ATATT3x|PMAK-|AGE-SECRET-KEY-1)[\w=-]{20,}",
    ),
    ((b"dapi", b"key-"), rb"\b(?:dapi|key-)[0-9a-f]{32}\b"),
    # A secret key of AWS has no mark of its own; beside a word of AWS it is one.
    (
        (b"aws", b"akia", b"asia"),
        rb"(?:(?<![\w/+=.-])|"
        + _ESCAPED
        + rb")(?=[a-z0-9/+]*[A-Z])(?=[A-Z0-9/+]*[a-z])(?=[A-Za-z/+]*[0-9])"
        rb"[A-Za-z0-9/+]{40}(?![\w/+=.-])",
    ),
    ((b"bearer", b"basic"), rb"(?i:bearer|basic)\s+(?P<hide>[\w.~+/=-]{16,})"),
    (
        (b"authorization",),
        rb"(?i:authorization)[\\\"']*\s*[:=]\s*[\\\"']*"
        rb"(?:(?i:bearer|basic|token|digest|apikey|negotiate)\s+)?(?P<hide>[^\s\"'\\]{4,})",
    ),
    ((b"cookie:",), rb"(?i:cookie):\s*(?P<hide>[^\r\n\"'\\]{4,})"),
    ((b"://",), rb"://[^/\s:@\"'\\]*:(?P<hide>[^/\s@\"'\\]+)@"),
    ((b"://",), rb"://(?P<hide>[^/\s:@\"'\\]{16,})@"),
    (
        (b"=",),
        rb"[?&](?i:key|sig|signature|code|x-amz-[\w-]+)=(?P<hide>[^&\s\"'\\]{8,})",
    ),
    (
        (b"pass", b"secret", b"token", b"key"),
        rb"--[\w-]{0,20}(?i:password|passphrase|secret|token|api-?key)[ =](?P<hide>[^\s\"'\\]{4,})",
    ),
    # As `.netrc` has it.
    ((b"login",), rb"\blogin(?:\s|\\n)+\S+?(?:\s|\\n)+password(?:\s|\\n)+(?P<hide>[^\s\"\\]{4,})"),
    ((b"curl",), rb"\s(?:-u|--user)[ =]?[\\\"']*[^\s:\"']+:(?P<hide>[^\s\"'\\]{4,})"),
    (
        (b"pass", b"pwd", b"secret", b"credential"),
        rb"(?i:" + _PASSWORDS + rb")" + _SEPARATOR + _NO_VALUE + _VALUE % (4, 4),
    ),
    (
        (b"key", b"token", b"_auth"),
        rb"(?i:" + _KEYS + rb")" + _SEPARATOR + _NO_VALUE + _VALUE % (SHORTEST, SHORTEST),
    ),
)


# Words that most of our own records hold (`input_tokens`, `story_key`), and what must follow them:
# in lower case that is found in half the time.
_FOLLOWED = {
    (b"login",): rb"password",
    (b"pass", b"pwd", b"secret", b"credential"): rb"(?:" + _PASSWORDS + rb")" + _SEPARATOR,
    (b"key", b"token", b"_auth"): rb"(?:" + _KEYS + rb")" + _SEPARATOR,
}


def _compiled() -> list[tuple[tuple[bytes, ...], re.Pattern[bytes] | None, re.Pattern[bytes]]]:
    found = []
    for words, shape in _SHAPES:
        begun = _START + shape[2:] if shape.startswith(rb"\b") else shape
        probe = re.compile(_FOLLOWED[words]) if words in _FOLLOWED else None
        found.append((words, probe, re.compile(begun)))
    return found


def redactor(environ: Mapping[str, str]) -> Callable[[bytes], bytes]:
    """A function that redacts what looks like a secret, and the secrets of this environment."""
    known = {
        value.encode("utf-8", "surrogateescape")
        for name, value in environ.items()
        if _NAMED.search(name) and len(value) >= SHORTEST and not value.startswith("/")
    }
    shapes = _compiled()

    def redacted(data: bytes) -> bytes:
        for value in known:
            data = data.replace(value, b"*" * len(value))
        lower = data.lower()
        for words, probe, shape in shapes:
            if any(word in lower for word in words) and (not probe or probe.search(lower)):
                data = shape.sub(_hidden, data)
        return data

    return redacted


def text_redactor(environ: Mapping[str, str]) -> Callable[[str], str]:
    """The same for text."""
    redacted = redactor(environ)
    return lambda text: redacted(text.encode("utf-8", "replace")).decode("utf-8", "replace")


def _hidden(found: re.Match[bytes]) -> bytes:
    named = found.groupdict()
    group = next((name for name in ("hide", "bare") if named.get(name) is not None), 0)
    start, end = found.start(group) - found.start(), found.end(group) - found.start()
    # Lines stay lines, or a key without its end would swallow what follows.
    stars = re.sub(rb"[^\r\n]", b"*", found[0][start:end])
    return found[0][:start] + stars + found[0][end:]


def shown(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables as they may be printed: not the values of those that are named like secrets."""
    return {n: HIDDEN if _NAMED.search(n) and v else v for n, v in variables.items()}
