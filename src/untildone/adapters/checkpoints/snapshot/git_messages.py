"""What `git add` says that it cannot take, and what we say about what it does not look into."""

import re

_NOT_ENCODED = re.compile(
    r"^fatal: (?:failed to encode|BOM is (?:required|prohibited) in|encoding) '(.*)' "
    r"(?:from|if encoded as) .*$",
    re.MULTILINE,
)


def inside_submodule(path: str) -> str:
    """Checkpoints end at a submodule."""
    return (
        f"The attempt worked inside the submodule `{path}`; checkpoints hold no files of it. "
        "What a failed attempt did there is put back, and stored in it under refs/ralph."
    )


def not_regular(said: str) -> list[str]:
    """Pipes and the like."""
    mark = ": can only add regular files, symbolic links or git-directories"
    lines = [line for line in said.splitlines() if line.endswith(mark)]
    return [line.removesuffix(mark).removeprefix("error: ") for line in lines]


def without_commit(said: str) -> list[str]:
    """Nested repositories that have no commit yet."""
    mark = "' does not have a commit checked out"
    lines = [line for line in said.splitlines() if line.endswith(mark)]
    return [line.removesuffix(mark).partition("'")[2].rstrip("/") for line in lines]


def not_encoded(said: str) -> list[str]:
    """Files that are not in the encoding that the attributes say they are in."""
    return _NOT_ENCODED.findall(said)
