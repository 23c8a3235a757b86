"""Text files that the person names: what cannot be read is an error with a way out."""

from pathlib import Path

from untildone.domain.errors import UserError
from untildone.plain_files import read_text


def text_of(path: Path, what: str) -> str:
    """The text of a file; `what` is its name in a sentence."""
    try:
        return read_text(path)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{what} is not UTF-8 text: {path}",
            hint=f"Save it as UTF-8; `file {path}` says what it is now.",
        ) from error
    except OSError as error:
        raise UserError(
            f"{what} cannot be read. {error.strerror}: {path}",
            hint=f"Look at it with `ls -l {path}`, or name another file.",
        ) from error


def template_of(top: Path, path: str) -> str:
    """The person's own prompt template; empty for ours."""
    return text_of(top / path, "The prompt template") if path else ""
