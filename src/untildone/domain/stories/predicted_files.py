"""Which files a story will probably change, and whether two stories may be worked on at once."""

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from untildone.domain.regex import regex
from untildone.domain.stories.story import Story

# Files that every other story touches as well: whoever changes one of them has it alone.
HOT = regex(
    r"(?:^|/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?"
    r"|(?:poetry|uv|Cargo|Gemfile|composer|flake)\.lock|Pipfile\.lock|go\.(?:mod|sum)|Gemfile"
    r"|package\.json|pyproject\.toml|Cargo\.toml|requirements[^/]*\.txt"
    r"|schema\.(?:prisma|sql|rb|graphql)|structure\.sql|routes?\.\w+|urls\.py"
    r"|CHANGELOG[^/]*|CHANGES[^/]*|messages\.\w+|[a-z]{2}(?:[-_][A-Z]{2})?\.(?:json|ya?ml|po))$"
)
_WILD = regex(r"[*?\[]")
_NAMED = regex(r"(?<![\w./-])(?:[\w@.-]+/)*[\w@-][\w@.-]*\.[A-Za-z][A-Za-z0-9]{0,9}(?![\w/-])")
_FOLDER = regex(r"(?<![\w./-])(?:[\w@.-]+/)+(?![\w.-])")


class Together(Struct, frozen=True):
    """Whether two stories may run beside each other; `why` not, if not."""

    why: str = ""


def together(one: Story, other: Story, *, optimistic: bool = False) -> Together:
    """Only where their files do not overlap, so far as anybody can tell beforehand.

    The format's own mark says that they may; what is known of their files is worth more. Two
    stories of which nothing is known do not run together unless somebody is `optimistic`.
    """
    mine, theirs = one.files, other.files
    if mine and theirs:
        shared = overlap(mine, theirs)
        return Together(f"both change {shared}" if shared else "")
    if mine or theirs or optimistic or (one.parallel and other.parallel):
        return Together()
    return Together("nobody knows which files either changes")


def overlap(mine: Iterable[str], theirs: Iterable[str]) -> str:
    """What two lists of paths and patterns have in common, in a word; empty if nothing."""
    there = tuple(theirs)
    hot = [path for path in there if HOT.search(path)]
    for path in mine:
        if hot and HOT.search(path):
            return path if path == hot[0] else f"{path} and {hot[0]}"
        for other in there:
            if _meet(path, other):
                return path if path == other else f"{path} and {other}"
    return ""


def paths_in_text(story: Story, known: frozenset[str]) -> tuple[str, ...]:
    """Paths that the story's words name: files of the repository, and names that look like one."""
    text = "\n".join([story.title, story.body, *(f"{t.text}\n{t.detail}" for t in story.tasks)])
    names = (found[0].rstrip(".") for found in _NAMED.finditer(text))
    folders = (found[0] for found in _FOLDER.finditer(text))
    above = {path.rpartition("/")[0] + "/" for path in known if "/" in path}
    files = [name for name in names if name in known or "/" in name]
    return tuple(dict.fromkeys([*files, *(name for name in folders if name in above)]))


def _meet(one: str, other: str) -> bool:
    """Whether two patterns may mean the same file; in doubt they do."""
    wild_one, wild_other = _WILD.search(one), _WILD.search(other)
    if wild_one and wild_other:
        a, b = one[: wild_one.start()], other[: wild_other.start()]
        return a.startswith(b) or b.startswith(a)
    return bool(_pattern(one).fullmatch(other) or _pattern(other).fullmatch(one))


@lru_cache(maxsize=4096)
def _pattern(glob: str) -> re.Pattern[str]:
    """A glob as people mean it: `*` stays in its folder, `**` does not, `a/` is all in it."""
    text = f"{glob}**" if glob.endswith("/") else glob
    parts = re.split(r"(\*\*/?|\*|\?)", text)
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(words.get(part) or re.escape(part) for part in parts)
    return re.compile(f"{body}(?:/.*)?")
