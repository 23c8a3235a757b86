"""What a call cost: a usage command, the agent's own numbers, its session files, or growth."""

import json
import math
import shlex
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.adapters.sessions.watch import SessionWatch
from untildone.domain.agents.agent import Usage
from untildone.domain.errors import UserError

USAGE_TIMEOUT_S = 20
BYTES_PER_TOKEN = 4
NEWEST_FIELD = "total_tokens"


class Reading(Struct, frozen=True):
    """An answer of a usage command; `output` is None where it names a sum only."""

    total: int
    output: int | None = None

    def since(self, before: "Reading") -> Usage:
        """What was used between two readings; without both parts it all counts as input."""
        total = self.total - before.total
        if self.output is None or before.output is None:
            return Usage(total)
        output = self.output - before.output
        return Usage(total - output, output) if 0 <= output <= total else Usage(total)


class UsageMeter:
    """Measures one agent call by the difference of two readings."""

    def __init__(
        self,
        processes: Processes,
        sessions: SessionWatch,
        command: str,
        since: Callable[[], datetime],
        stop_now: Callable[[], bool],
        *,
        alone: bool = True,
    ) -> None:
        self._processes = processes
        self._sessions = sessions
        self._since = since
        self._stop_now = stop_now
        found = shutil.which("wt-usage")
        # A counter of the whole account would count what other lanes use meanwhile.
        self._argv = (split_command(command) or ([found] if found else [])) if alone else []
        self._before: Reading | None = None

    def start(self, agent: str) -> None:
        """Read the counters before this agent starts."""
        self._before = self._external()
        self._sessions.start(agent)

    def measure(self, reported: Usage | None, session_id: str) -> tuple[Usage | None, list[str]]:
        """The usage since `start`, best source first, and warnings for the person."""
        warnings: list[str] = []
        if self._argv:
            usage = self._external_usage(reported, session_id, warnings)
            if usage:
                return usage, warnings
        if reported and reported.total:
            return self._priced(reported, session_id), warnings
        recorded = self._recorded(session_id)
        if recorded:
            return recorded, warnings
        grown = self._sessions.growth(session_id) // BYTES_PER_TOKEN if reported is None else 0
        if grown > 0:
            return Usage(input_tokens=grown, estimated=True), warnings
        return reported, warnings

    def _recorded(self, session_id: str) -> Usage | None:
        entries = self._sessions.entries(session_id)
        if not any(entry.tokens for entry in entries):
            return None
        from untildone.adapters.sessions.prices import load  # noqa: PLC0415 - few calls come here
        from untildone.domain.costs.call_prices import add  # noqa: PLC0415

        total = add(entries, load().of)
        most = max(entries, key=lambda entry: entry.tokens)
        # Half a cost would look like a whole one.
        known = None if total.unpriced else total.usage.cost_usd
        return replace(total.usage, cost_usd=known, model=most.usage.model)

    def _priced(self, usage: Usage, session_id: str) -> Usage:
        """With its cost by the price list; a model that the agent does not name, its records do."""
        if usage.cost_usd is not None:
            return usage
        if not usage.model:
            recorded = self._recorded(session_id)
            if recorded is None:
                return usage
            return replace(usage, model=recorded.model, cost_usd=recorded.cost_usd)
        from untildone.adapters.sessions.prices import load  # noqa: PLC0415 - most agents tell their cost
        from untildone.domain.costs.call_prices import Spent, cost  # noqa: PLC0415

        call = Spent(self._since(), "", "", usage)
        return replace(usage, cost_usd=cost(call, load().of(usage.model)))

    def _external_usage(
        self, reported: Usage | None, session_id: str, warnings: list[str]
    ) -> Usage | None:
        before, after = self._before, self._external()
        name = Path(self._argv[0]).name
        if before is None or after is None:
            warnings.append(f"`{name}` gave no number, tokens are taken from elsewhere")
            return None
        used = after.since(before)
        if used.total <= 0:
            warnings.append(f"`{name}` counted {used.total} tokens for this iteration")
            return None
        if reported and reported.total == used.total:
            return self._priced(reported, session_id)
        return replace(used, cost_usd=reported.cost_usd if reported else None)

    def _external(self) -> Reading | None:
        if not self._argv:
            return None
        since = self._since().isoformat(timespec="seconds")
        argv = [*self._argv, "--since", since, "--format", "json"]
        call = Command(argv, self._sessions.top, timeout_s=USAGE_TIMEOUT_S)
        answer = self._processes.capture(call, self._stop_now)
        return _reading(answer.stdout.decode(errors="replace")) if answer.ok else None


def split_command(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise UserError(
            f"The usage command cannot be read ({error}): {command}",
            hint="Mend the quotes in `usage_cmd` or `--usage-cmd`.",
        ) from error


def _reading(text: str) -> Reading | None:
    try:
        data = json.loads(text)
    except ValueError:
        return None
    if isinstance(data, dict):
        parts = [data.get("input_tokens"), data.get("output_tokens")]
        numbers = [part for part in parts if isinstance(part, int | float)]
        if numbers and math.isfinite(sum(numbers)):
            output = int(numbers[1]) if len(numbers) == len(parts) else None
            return Reading(int(sum(numbers)), output)
        data = data.get(NEWEST_FIELD)
    if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
        return None
    return Reading(int(data))
