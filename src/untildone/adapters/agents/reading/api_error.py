"""The error of a service, inside the words that a program puts around it."""

import json
import re

from untildone.adapters.agents.reading.fields import string, table

_WRAPPED = re.compile(r"\[API Error: (.*)\](?:\n|$)", re.DOTALL)


def told(message: str) -> tuple[str, object]:
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
