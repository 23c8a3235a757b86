"""The command: what must be fast is answered here, the rest by the CLI."""

import sys

from untildone import __version__


def main(argv: list[str] | None = None) -> int:
    args = sys.argv[1:] if argv is None else argv
    if args in (["--version"], ["-V"]):
        sys.stdout.write(f"untildone {__version__}\n")
        return 0
    if args in (["--help"], ["-h"]) and not _on_narrow_terminal():
        from untildone.interfaces.cli.command_table import overview

        sys.stdout.write(overview())
        return 0
    if args == ["status", "--json"] and _quick_status():
        return 0
    import gc

    gc.disable()  # what is imported is no garbage; the CLI turns it on again
    from untildone.interfaces.cli.main import main as cli

    return cli(args, own_process=argv is None)


def _on_narrow_terminal() -> bool:
    if not sys.stdout.isatty():
        return False
    import shutil

    return shutil.get_terminal_size().columns < 80


def _quick_status() -> bool:
    import json
    import os

    from untildone import glance

    loops = glance.look(os.getcwd())
    if loops is None or glance.needs_repair(loops):
        return False
    text = json.dumps({"loops": loops}, ensure_ascii=False)
    if not text.isprintable():  # as interfaces/output.py does it: no terminal obeys a title
        text = json.dumps({"loops": loops})
    sys.stdout.write(text + "\n")
    return True


if __name__ == "__main__":
    sys.exit(main())
