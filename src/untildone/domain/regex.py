"""Regular expressions that are compiled when they are first used.

A run loads over a hundred, for what agents, checks and story files may hold, and uses few of them:
to compile them all took a quarter of its start.
"""

import re
from typing import AnyStr, cast


class _Regex:
    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        """Asked for once per method: from then on it is an attribute like any other."""
        found: object = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found


def regex(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, for a pattern of a module."""
    return cast("re.Pattern[AnyStr]", _Regex(source, flags))
