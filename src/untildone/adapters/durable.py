"""What a power cut must not undo: a new or moved file needs its folder synced too."""

import contextlib
import os
from pathlib import Path


def sync_folder(path: Path) -> None:
    """Put a folder's entries on disk; where the platform cannot, do without."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
