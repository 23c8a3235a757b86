"""What somebody who is not there is told about a run, and where to."""

from msgspec import Struct

from untildone.domain.regex import regex

EVENTS = ("done", "stuck", "question", "limit", "budget")
TERMINAL = "terminal"
# What stands before the URL, or the command, of an address.
SERVICES = ("ntfy", "slack", "discord")
KINDS = ("cmd:COMMAND", "http(s)://…", *(f"{name}:URL" for name in SERVICES), TERMINAL)
_HTTP = regex(r"(https?)://(?:[^/@\s]*@)?([^/@?#\s]+)[^\s'\"]*")


class Notification(Struct, frozen=True):
    """One message, as a webhook gets it; `url` is the page of the run, if there is one."""

    title: str
    body: str
    event: str
    change_id: str
    status: str
    url: str = ""

    @property
    def text(self) -> str:
        """The body with the link, for those who get nothing else."""
        return "\n".join(filter(None, (self.body, self.url)))


class Address(Struct, frozen=True):
    """Where a message goes: `cmd`, `http`, `apprise`, `terminal` or a service, and its rest."""

    kind: str
    rest: str

    @property
    def shown(self) -> str:
        """For people: URLs are cut to their host, because the rest of them is a password."""
        rest = _HTTP.sub(r"\1://\2/…", self.rest)
        if self.kind == "apprise" and rest == self.rest:
            rest = f"{self.rest.partition('://')[0]}://…"
        return rest if self.kind in ("http", TERMINAL) else f"{self.kind}:{rest}"


def address(text: str) -> Address:
    """An entry of `notify`; what is none is a ValueError that does not repeat its secrets."""
    text = text.strip()
    kind, _, rest = text.partition(":")
    if text == TERMINAL:
        return Address(TERMINAL, text)
    if _HTTP.fullmatch(text):
        return Address("http", text)
    if kind in SERVICES and _HTTP.fullmatch(rest):
        return Address(kind, rest)
    if kind == "cmd" and rest.strip():
        return Address(kind, rest.strip())
    if kind == "apprise" and "://" in rest:
        return Address(kind, rest)
    known = ", ".join((*KINDS, "apprise:URL"))
    raise ValueError(f"`notify` knows {known}, not {kind[:20]!r} with what stands behind it")


def addresses(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The same entries, if all are known."""
    for text in texts:
        address(text)
    return texts


def events(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The words of `notify_on`; several may stand in one text."""
    words = tuple(word for text in texts for word in text.replace(",", " ").split())
    for word in words:
        if word not in EVENTS:
            raise ValueError(f"`notify_on` knows {', '.join(EVENTS)}, not {word!r}")
    return words


def shown(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The entries of `notify` without their secrets."""
    return tuple(address(text).shown for text in texts)
