"""Which new files stay out of git: too large, or a secret by name or by content."""

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from untildone.domain.plain_text import amount, plain
from untildone.plain_files import opened

HEAD_BYTES = 64 * 1024
MIB = 1024 * 1024
FEW_SIGNS = 9
MOST_NAMED = 10

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


class Flag(Struct, frozen=True):
    """A file that should not enter git, its size and the reason."""

    path: str
    size: int
    reason: str

    def __str__(self) -> str:
        """For people: the name safe to print, then size and reason."""
        return f"{plain(self.path)} ({amount(self.size)}, {self.reason})"


class Guard(Struct, frozen=True):
    """Looks at new files; `limit` is the largest size in bytes that git may take."""

    limit: int = 50 * MIB

    @staticmethod
    def of(megabytes: float) -> "Guard":
        """A guard with a limit in MiB, as the settings have it."""
        return Guard(int(megabytes * MIB))

    def check(self, top: Path, path: str) -> Flag | None:
        """Whether this file should stay out of git; links and whatever cannot be read pass."""
        name = f"{top}/{path}"
        try:
            found = os.lstat(name)
            if not stat.S_ISREG(found.st_mode) or not found.st_size:
                return None
            if found.st_size > self.limit:
                return Flag(path, found.st_size, self.too_large)
            with opened(name) as file:
                head = file.read(HEAD_BYTES)
        except OSError:
            return None
        what = secret(path, head)
        return Flag(path, found.st_size, f"looks like {what}") if what else None

    def check_all(self, top: Path, paths: Iterable[str]) -> tuple[Flag, ...]:
        """All of these files that should stay out of git."""
        return tuple(flag for path in paths if (flag := self.check(top, path)))

    def over_limit(self, top: Path, paths: Iterable[str]) -> tuple[Flag, ...]:
        """The files over the limit, found without reading any."""
        found = []
        for path in paths:
            try:
                status = os.lstat(f"{top}/{path}")
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size > self.limit:
                found.append(Flag(path, status.st_size, self.too_large))
        return tuple(found)

    @property
    def too_large(self) -> str:
        """The reason for a large file."""
        return f"larger than {amount(self.limit)}"


DEFAULT = Guard()


def sized(top: Path, path: str) -> Flag:
    """A file that an earlier, smaller limit flagged."""
    return Flag(path, os.lstat(f"{top}/{path}").st_size, "flagged by an earlier limit")


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


def listed(flags: Iterable[Flag]) -> str:
    """The files in one line; of very many the first ones."""
    shown = [str(flag) for flag in flags]
    more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    return ", ".join(shown[:MOST_NAMED]) + more


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
