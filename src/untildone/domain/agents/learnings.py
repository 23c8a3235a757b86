"""What calls write down for later ones: how much of it is kept, and how it is shown."""

from msgspec import Struct

from untildone.domain.plain_text import plain

CAP = 16 * 1024
CUT = "[older notes were cut here]\n"
SECTION = """\
# Learnings

What later calls should know (how to build, run and test, traps, decisions) belongs into the file
`{path}`: short lines, added at its end. It is not part of the work: it is never
committed, and it stays when an attempt is put back. Its oldest lines go when it grows too long."""
SO_FAR = """

Written down so far, by earlier calls; use it, but trust what you see more:

<learnings>
{text}
</learnings>"""


class Notes(Struct, frozen=True):
    """The file for learnings as its path, empty if there is none, and what it holds."""

    path: str = ""
    text: str = ""


def capped(text: str, cap: int = CAP) -> str:
    """At most so many bytes; the oldest lines go first, and the cut is stated."""
    data = text.encode("utf-8", "replace")
    if len(data) <= cap:
        return text
    rest = data[len(data) - cap + len(CUT) :]
    _, _, whole = rest.partition(b"\n")
    return CUT + (whole or rest).decode("utf-8", "ignore")


def section(notes: Notes) -> str:
    """What the prompt says about learnings."""
    if not notes.path:
        return ""
    text = plain(notes.text).strip().replace("</learnings>", "</ learnings>")
    return SECTION.format(path=notes.path) + (SO_FAR.format(text=text) if text else "")
