"""How much disk what we have stored takes."""

import os
from collections.abc import Iterable
from pathlib import Path

from untildone.adapters.git.git import Git
from untildone.domain.run.retention import PREFIX as OURS


def bytes_of_objects(git: Git, commits: Iterable[str], others: Iterable[str] = ()) -> int | None:
    """Bytes on disk that only these commits keep: no branch, tag, stash, HEAD nor the others.

    None if git cannot tell, for example because objects are missing.
    """
    rows = "".join(f"{commit}\n" for commit in [*commits, *(f"^{other}" for other in others)])
    counted = ("rev-list", "--objects", "--disk-usage", "--stdin")
    answer = git.ask(*counted, "--not", f"--exclude={OURS}*", "--all", stdin=rows.encode())
    return int(answer.stdout) if answer.ok else None


def bytes_of_folder(path: Path) -> int:
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += (Path(folder) / name).lstat().st_size
            except OSError:
                continue  # removed meanwhile
    return total
