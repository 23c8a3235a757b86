"""What a call cost: a usage command, the agent's own numbers, its session files, or growth."""

import json
import math
import os
import re
import shlex
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from untildone.adapters.child import Command
from untildone.adapters.process import Processes
from untildone.domain.agent import Usage
from untildone.domain.errors import UserError
from untildone.domain.value import dataclass

USAGE_TIMEOUT_S = 20
BYTES_PER_TOKEN = 4
NEWEST_FIELD = "total_tokens"


@dataclass(frozen=True, slots=True)
class Reading:
    """Taken before the agent starts."""

    external: int | None
    sizes: dict[Path, int]


class UsageMeter:
    """Measures one agent call by the difference of two readings."""

    def __init__(
        self,
        processes: Processes,
        top: Path,
        command: str,
        since: Callable[[], datetime],
        stop_now: Callable[[], bool],
    ) -> None:
        self._processes = processes
        self._top = top
        self._since = since
        self._stop_now = stop_now
        found = shutil.which("wt-usage")
        self._argv = split_command(command) or ([found] if found else [])
        self._before = Reading(None, {})

    def start(self) -> None:
        """Read the counters before the agent starts."""
        self._before = Reading(self._external(), _session_sizes(self._top))

    def measure(self, reported: Usage | None, session_id: str) -> tuple[Usage | None, list[str]]:
        """The usage since `start`, best source first, and warnings for the person."""
        warnings: list[str] = []
        if self._argv:
            usage = self._external_usage(reported, warnings)
            if usage:
                return usage, warnings
        if reported and reported.total:
            return reported, warnings
        grown = self._grown(session_id)
        counted = _count_entries(grown)
        if counted.total:
            return counted, warnings
        extra = sum(path.stat().st_size - at for path, at in grown.items())
        if extra > 0:
            return Usage(input_tokens=extra // BYTES_PER_TOKEN, estimated=True), warnings
        return reported, warnings

    def _external_usage(self, reported: Usage | None, warnings: list[str]) -> Usage | None:
        before, after = self._before.external, self._external()
        name = Path(self._argv[0]).name
        if before is None or after is None:
            warnings.append(f"`{name}` gave no number, tokens are taken from elsewhere")
            return None
        if after <= before:
            warnings.append(f"`{name}` counted {after - before} tokens for this iteration")
            return None
        if reported and reported.total == after - before:
            return reported
        cost = reported.cost_usd if reported else None
        return Usage(input_tokens=after - before, cost_usd=cost)

    def _external(self) -> int | None:
        if not self._argv:
            return None
        since = self._since().isoformat(timespec="seconds")
        argv = [*self._argv, "--since", since, "--format", "json"]
        call = Command(argv, self._top, timeout_s=USAGE_TIMEOUT_S)
        answer = self._processes.capture(call, self._stop_now)
        return _number(answer.stdout.decode(errors="replace")) if answer.ok else None

    def _grown(self, session_id: str) -> dict[Path, int]:
        now = _session_sizes(self._top)
        grown = {
            p: self._before.sizes.get(p, 0) for p in now if now[p] > self._before.sizes.get(p, 0)
        }
        own = {path: at for path, at in grown.items() if session_id and path.stem == session_id}
        return own or grown


def split_command(command: str) -> list[str]:
    """A usage command as words."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise UserError(f"The usage command cannot be read ({error}): {command}") from error


def _number(text: str) -> int | None:
    try:
        data = json.loads(text)
    except ValueError:
        return None
    if isinstance(data, dict):
        parts = [data.get("input_tokens"), data.get("output_tokens")]
        numbers = [part for part in parts if isinstance(part, int | float)]
        if numbers and math.isfinite(sum(numbers)):
            return int(sum(numbers))
        data = data.get(NEWEST_FIELD)
    if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
        return None
    return int(data)


def _session_sizes(top: Path) -> dict[Path, int]:
    return {
        path: path.stat().st_size
        for folder in _session_folders(top)
        for path in folder.glob("*.jsonl")
    }


def _session_folders(top: Path) -> list[Path]:
    """Claude names a project's folder after its path; which characters it turns has changed."""
    home = os.environ.get("CLAUDE_CONFIG_DIR")
    root = Path(home) if home else Path(os.environ.get("HOME") or "/nonexistent") / ".claude"
    names = {
        pattern.sub("-", str(path))
        for path in (top, top.resolve())
        for pattern in (re.compile(r"/"), re.compile(r"[/.]"), re.compile(r"[^A-Za-z0-9]"))
    }
    return [
        root / "projects" / name for name in sorted(names) if (root / "projects" / name).is_dir()
    ]


def _count_entries(grown: dict[Path, int]) -> Usage:
    """Entries after the old end of each file, each message counted once with its largest total."""
    messages: dict[tuple[str, str], Usage] = {}
    for path, at in grown.items():
        with path.open("rb") as file:
            file.seek(at)
            for line in file:
                key, usage = _entry(line)
                if usage and usage.total >= messages.get(key, Usage()).total:
                    messages[key] = usage
    return Usage(
        input_tokens=sum(u.input_tokens for u in messages.values()),
        output_tokens=sum(u.output_tokens for u in messages.values()),
        cache_read_tokens=sum(u.cache_read_tokens for u in messages.values()),
        cache_write_tokens=sum(u.cache_write_tokens for u in messages.values()),
    )


def _entry(line: bytes) -> tuple[tuple[str, str], Usage | None]:
    try:
        data = json.loads(line)
        message = data["message"]
        numbers = message["usage"]
        usage = Usage(
            input_tokens=int(numbers.get("input_tokens") or 0),
            output_tokens=int(numbers.get("output_tokens") or 0),
            cache_read_tokens=int(numbers.get("cache_read_input_tokens") or 0),
            cache_write_tokens=int(numbers.get("cache_creation_input_tokens") or 0),
        )
        return (str(message.get("id")), str(data.get("requestId"))), usage
    except (ValueError, KeyError, TypeError, AttributeError):
        return ("", ""), None
