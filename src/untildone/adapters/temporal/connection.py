"""How the server is reached: of one's own, a cluster or Temporal Cloud, by settings alone."""

from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from msgspec import MsgspecError, Struct, convert, to_builtins
from msgspec.json import decode
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client, WorkflowExecution
from temporalio.converter import (
    AdvancedJSONEncoder,
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
    JSONTypeConverter,
    PayloadConverter,
)
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError, TLSConfig

from untildone.domain.errors import UserError

T = TypeVar("T")
CONNECT_S = 10.0


class Connection(Struct, frozen=True):
    """Where the server is; `api_key` is never shown. Files are read when it is connected to."""

    address: str
    namespace: str = "default"
    queue: str = "untildone"
    tls: bool = False
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    api_key: str = ""

    def __repr__(self) -> str:
        return f"Connection({self.address}, {self.namespace})"


class _Encoder(AdvancedJSONEncoder):
    def default(self, o: Any) -> Any:  # noqa: ANN401 - as in the base class
        return to_builtins(o) if isinstance(o, Struct) else super().default(o)


class _Structs(JSONTypeConverter):
    """Our values come back as what they were; fields that a later release added are skipped."""

    def to_typed_value(self, hint: Any, value: Any) -> Any:  # noqa: ANN401 - as in the base class
        if isinstance(hint, type) and issubclass(hint, Struct):
            return convert(value, hint)
        inner = getattr(hint, "__args__", ())
        if inner and isinstance(inner[0], type) and issubclass(inner[0], Struct):
            return convert(value, hint)
        return JSONTypeConverter.Unhandled


class _Payloads(CompositePayloadConverter):
    def __init__(self) -> None:
        json = JSONPlainPayloadConverter(encoder=_Encoder, custom_type_converters=[_Structs()])
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        others = (c for c in usual if not isinstance(c, JSONPlainPayloadConverter))
        super().__init__(*others, json)


class _Failures(DefaultFailureConverter):
    """Without stack traces: they name paths of a worker's machine."""

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        super().to_failure(exception, payload_converter, failure)
        failure.stack_trace = ""


CONVERTER = DataConverter(payload_converter_class=_Payloads, failure_converter_class=_Failures)


async def connected(connection: Connection, identity: str = "") -> Client:
    """The server; one that does not answer is an error that says what to look at."""
    try:
        return await Client.connect(
            connection.address,
            namespace=connection.namespace,
            api_key=connection.api_key or None,
            data_converter=CONVERTER,
            tls=_tls(connection),
            connect_timeout=timedelta(seconds=CONNECT_S),
            identity=identity or None,
            runtime=_quiet(),
        )
    except (RuntimeError, RPCError, ValueError) as error:
        raise UserError(
            f"The fleet's server does not answer at {connection.address}: {_short(error)}",
            state="Nothing was changed.",
            hint="`untildone fleet up` starts one on this host; or set fleet_address",
        ) from None


@cache
def _quiet() -> Runtime:
    """Its own messages would go to standard output, between the lines of `--json`."""
    return Runtime(telemetry=TelemetryConfig(logging=None))


def _tls(connection: Connection) -> bool | TLSConfig:
    files = (connection.tls_ca, connection.tls_cert, connection.tls_key)
    if not any(files):
        return connection.tls or bool(connection.api_key)
    ca, cert, key = (_content(path) for path in files)
    return TLSConfig(server_root_ca_cert=ca, client_cert=cert, client_private_key=key)


def _content(path: str) -> bytes | None:
    try:
        return Path(path).expanduser().read_bytes() if path else None
    except OSError as error:
        raise UserError(
            f"A file of the fleet's settings cannot be read: {path}: {error.strerror}",
            hint=f"ls -l {path}",
        ) from error


def _short(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:200]


def as_view(run: WorkflowExecution) -> dict[str, object]:
    """What a workflow tells of itself; empty where it has not said anything yet."""
    return _in_memo(run, "view", dict[str, object]) or {}


def as_names(run: WorkflowExecution) -> tuple[str, str]:
    """The repository and the change as they were submitted."""
    if names := _in_memo(run, "order", tuple[str, str]):
        return names
    repository, _, change = run.id.removeprefix("change/").rpartition("/")
    return repository, change


def _in_memo(run: WorkflowExecution, name: str, kind: type[T]) -> T | None:
    # The converter would cost most of the time of a list of a thousand changes.
    fields = run.raw_info.memo.fields
    try:
        return decode(fields[name].data, type=kind) if name in fields else None
    except MsgspecError:
        return None
