"""Lines that look like a checkbox item but do not count as one, and why."""

import re

_ITEM = r"(?:[-*+]|[0-9]{1,9}[.)])"
_BOX = r"\[(?:[ xX~-])?\]"

# The first pattern that fits gives the reason; every pattern is anchored and linear.
_LOOKALIKES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), why)
    for pattern, why in (
        (rf"\s*>[\s>]*+{_ITEM}?\s*+{_BOX}", "A checkbox inside a quotation is not counted."),
        (rf"\s*\|.*{_BOX}", "A checkbox inside a table is not counted."),
        (rf"\s*#{{1,6}}\s*(?:{_ITEM}\s+)?{_BOX}", "A checkbox inside a heading is not counted."),
        (
            rf"\s*[0-9]{{10,}}[.)]\s*{_BOX}",
            "A list number with more than nine digits is not counted.",
        ),
        (rf"\s*{_ITEM}\s+{_ITEM}\s*{_BOX}", "A checkbox behind two list markers is not counted."),
        (
            rf"\s*{_ITEM}\s*\[[xX]\][(\[]",
            "A box with a bracket right behind it is read as a link and not counted.",
        ),
        (
            rf"\s*{_ITEM}\s*\[\s*[\U00010000-\U0010ffff]\s*\]",
            "The sign in the box is not one that OpenSpec counts; write `[ ]` or `[x]`.",
        ),
        (
            rf"\s*{_ITEM}\s*\[[^\][(]{{2,20}}\](?![(\[:])",
            "The box holds more than one character; write `[ ]` or `[x]`.",
        ),
        (
            rf"\s*{_ITEM}\s*[☐☑☒⬜□]",
            "A checkbox sign is not a Markdown checkbox; write `- [ ]` or `- [x]`.",
        ),
        (rf"\s*{_BOX}(?:\s|$)", "There is no list marker before the box; write `- [ ]`."),
        (
            rf"\s*(?:[^\w\s|>#\[]{{1,3}}|\(?\w{{1,9}}[.):]|[0-9][0-9.]{{0,15}})\s*{_BOX}(?:\s|$)",
            "The sign before the box is not a list marker that counts; write `- [ ]`.",
        ),
    )
)
_WORTH_A_LOOK = re.compile(
    rf"{_BOX}|[☐☑☒⬜□]|\[\s?[\U00010000-\U0010ffff]|^\s*{_ITEM}\s*\[[^\]]{{2}}"
)


def reason(line: str) -> str:
    """Why this line, which is not a task, was passed over; empty when it looks like no task."""
    if _WORTH_A_LOOK.search(line) is None:
        return ""
    return next((why for pattern, why in _LOOKALIKES if pattern.match(line)), "")
