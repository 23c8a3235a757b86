"""`serve`: pages about all runs, in a browser."""

from pathlib import Path
from typing import Any

import click

from untildone.domain.errors import UserError
from untildone.wiring.repository import Repository, here

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    epilog="Examples:\n\n  untildone serve --open\n\n  untildone serve --control ../one "
    "../two\n\n  untildone serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem"
)
@click.argument("repositories", nargs=-1, metavar="[REPOSITORY]...")
@click.option("--control", is_flag=True, help="The pages can steer runs, too: answer, stop, skip.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0: any that is free.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Beyond this machine only with TLS."
)
@click.option("--tls-cert", type=FILE, metavar="FILE", help="Certificate, with its chain.")
@click.option("--tls-key", type=FILE, metavar="FILE", help="Its private key.")
@click.option("--insecure", is_flag=True, help="Beyond this machine without TLS: in a VPN.")
@click.option(
    "--token-file",
    type=FILE,
    metavar="FILE",
    help="Keep the token in this private file, so that links outlive the server.",
)
@click.option(
    "--public-url", default="", metavar="URL", help="How browsers get here, behind a tunnel."
)
@click.option("--open", "open_", is_flag=True, help="Open a browser.")
@click.option("--json", "as_json", is_flag=True, help="One line: url, token and pid.")
def serve(repositories: tuple[str, ...], open_: bool, **given: Any) -> int:  # noqa: ANN401, FBT001
    """Show all runs in a browser, also on a phone, live.

    Of the repository around the current folder, or of those that are named. The link that is
    printed holds a token; without it nothing is shown. Ends with Ctrl-C; runs do not notice.
    """
    from untildone.interfaces.web.server import Options, serve

    public = given["public_url"]
    if public and not public.startswith(("http://", "https://")):
        raise UserError(f"This is no address: {public}", hint="--public-url https://name:port")
    found: dict[Path, Repository] = {}
    for path in repositories or (".",):
        folder = Path(path)
        if not folder.is_dir():
            raise UserError(f"There is no folder: {path}")
        repository = here(folder)
        found.setdefault(repository.place.common_dir, repository)
    return serve(list(found.values()), Options(**given, open=open_))
