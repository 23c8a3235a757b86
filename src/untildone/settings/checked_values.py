"""Texts that more is asked of than to be texts; a ValueError says what is wrong with one."""

import re

from untildone.domain.run.commit_message import PLACEHOLDERS, unknown_placeholders
from untildone.settings.choices import AGENTS
from untildone.settings.setting import near

Texts = tuple[str, ...]


def rungs(texts: Texts) -> Texts:
    """The agents of a ladder; several may stand in one text, with commas between them."""
    found = tuple(rung.strip() for text in texts for rung in text.split(","))
    for rung in found:
        name = rung.partition(":")[0]
        if name not in AGENTS:
            raise ValueError(f"`agents` has no agent called {name!r}{near(name, AGENTS)}")
    return found


def known_options(texts: Texts) -> Texts:
    for text in texts:
        name, kind, _ = option(text)
        if name not in AGENTS:
            raise ValueError(f"`agent` has no agent called {name!r}{near(name, AGENTS)}")
        if kind not in ("args", "env"):
            raise ValueError(f"[agent.{name}] has `args` and `env`, not {kind!r}")
    return texts


def option(text: str) -> tuple[str, str, str]:
    """`NAME.args=ARG` or `NAME.env.VARIABLE=VALUE`: whose it is, of which kind, and what it is."""
    name, _, rest = text.partition(".")
    kind = re.match(r"\w*", rest)
    word = kind[0] if kind else ""
    return name, word, rest[len(word) + 1 :]


def commit_template(texts: Texts) -> Texts:
    for text in texts:
        if not text.strip() or len(text.splitlines()) > 1:
            raise ValueError(
                f"`commit_message` must be one line with something in it, not {text!r}"
            )
        if unknown := unknown_placeholders(text):
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            meant = near(unknown[0], PLACEHOLDERS)
            raise ValueError(f"`commit_message` knows {known}, and not {{{unknown[0]}}}{meant}")
    return texts
