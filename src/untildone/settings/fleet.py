"""Where a fleet's server is: from the person's own file and the environment, never a repository.

A clone must not decide who gets a person's stories, and with which key.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Struct

from untildone.domain.errors import UserError
from untildone.plain_files import read_text
from untildone.settings import load
from untildone.settings.setting import Setting, described, near

HINT = "docs/fleet.md lists the settings of a fleet"
API_KEY = f"{load.FLEET_PREFIX}API_KEY"
# Set by a worker for what it starts: so it is known if the worker is killed.
WORKER = f"{load.FLEET_PREFIX}WORKER"


class FleetSettings(Struct, frozen=True):
    """The table `[fleet]`; each is also a variable, UNTILDONE_FLEET_ADDRESS and so on."""

    address: Annotated[str, Setting("HOST:PORT of the server.")] = ""
    namespace: Annotated[str, Setting("Namespace on the server.")] = "default"
    queue: Annotated[str, Setting("Task queue on the server.")] = "untildone"
    tls: Annotated[bool, Setting("TLS also without files of its own.")] = False
    tls_ca: Annotated[str, Setting("File: certificate authority of the server.")] = ""
    tls_cert: Annotated[str, Setting("File: client certificate.")] = ""
    tls_key: Annotated[str, Setting("File: key of the client certificate.")] = ""
    api_key_file: Annotated[str, Setting("File with the API key.")] = ""
    heartbeat: Annotated[
        float, Setting("A host silent for so long has lost its stories.", amount="minutes", above=0)
    ] = 1.0

    def api_key(self, environ: Mapping[str, str]) -> str:
        """The key of the server, which nobody is shown; empty if there is none."""
        if key := environ.get(API_KEY, ""):
            return key
        try:
            path = self.api_key_file
            return read_text(Path(path).expanduser()).strip() if path else ""
        except OSError as error:
            raise UserError(
                f"The file with the API key cannot be read: {self.api_key_file}: {error.strerror}",
                hint=f"ls -l {self.api_key_file}",
            ) from error


SETTINGS = described(FleetSettings)


def fleet_settings(environ: Mapping[str, str]) -> FleetSettings:
    """What is configured; a wrong key or type is an error that names its place."""
    values: dict[str, object] = {}
    path = load.user_file(environ)
    if path.exists():
        for key, value in load.table_of(path, load.FLEET).items():
            values[key] = load.checked_value(_known(key, str(path)), value, str(path))
    for name, text in environ.items():
        if name.startswith(load.FLEET_PREFIX) and name not in (API_KEY, WORKER):
            setting = _known(name.removeprefix(load.FLEET_PREFIX).lower(), name)
            values[setting.key] = load.checked_value(
                setting, load.from_text(setting, text, name), name
            )
    return FleetSettings(**values)  # type: ignore[arg-type]  # every value was checked


def without_fleet(environ: Mapping[str, str]) -> dict[str, str]:
    """What a loop and its agents get: nothing of how the server is reached."""
    return {k: v for k, v in environ.items() if not k.startswith(load.FLEET_PREFIX)}


def _known(key: str, where: str) -> Setting:
    if key in SETTINGS:
        return SETTINGS[key]
    raise UserError(
        f"{load.WRONG_IN}{where}: unknown key `{key}` of [fleet]{near(key, list(SETTINGS))}",
        state="Nothing was changed.",
        hint=HINT,
    )
