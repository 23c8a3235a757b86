"""A reader of the state file that sees every version of it."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class Poller:
    """Reads the state file every 5 ms and keeps every version and every parse error."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.versions: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> Poller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def _poll(self) -> None:
        last = ""
        while not self._stop.is_set():
            text = self._read()
            if text is not None and text != last:
                last = text
                try:
                    self.versions.append(json.loads(text))
                except ValueError as error:
                    self.errors.append(f"{error}: {text!r}")
            self._stop.wait(0.005)

    def _read(self) -> str | None:
        try:
            return self.path.read_text(encoding="utf-8")
        except OSError as error:
            if self.versions:
                self.errors.append(f"the file was gone: {error}")
            return None
