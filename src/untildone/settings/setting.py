"""What can be said about one setting."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

PREFIX = "UNTILDONE_"
INIT_HINT = "`untildone init --stdout` prints every key and its meaning"
SAME = "the name of the setting"


def _as_it_is(value: object) -> object:
    return value


class Setting(NamedTuple):
    """What is known of a setting beside its type and its default."""

    help: str
    unset: str = ""  # what the default means, where its value does not say it
    choices: tuple[str, ...] = ()
    least: int | None = None
    above: int | None = None
    most: int | None = None
    # -- the flag
    flag: bool = True
    spelling: str = ""  # if it is not made of the key
    metavar: str = ""  # also instead of a long list of choices
    bare: str = ""  # the value of a flag that is typed without one
    off: str = ""  # the help of a second flag, --no-KEY, that stands for "off"
    path: bool = False  # the repository's own file may name nothing outside of the repository
    amount: str = ""  # the unit of a bare number, where one may be written with its unit: `30m`
    from_cwd: bool = False  # a relative path of the flag begins where the command is typed
    # -- the value
    adds: bool = False  # the layers add up, the stronger one does not replace the weaker
    command: bool = False  # an empty variable of a script must not mean a check that never runs
    table: bool = False  # a list of KEY=VALUE that may also be written as a table
    tables: str = ""  # a table instead of the word: its `name`, and what goes to this other key
    checked: Callable[[tuple[str, ...]], tuple[str, ...]] | None = None  # ValueError: wrong
    hint: str = INIT_HINT
    # -- the plan of a run
    plan: str = SAME  # its field of `Plan`; empty: not as it is, `commands/plan.py` makes it
    limit: str = ""  # its field of `Limits` instead
    in_plan: Callable[[Any], object] = _as_it_is  # made of its value for the plan
    fixed: bool = False  # a flag of `resume` does not change it
    # -- from the field
    key: str = ""
    default: Any = None

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return PREFIX + self.key.upper()

    @property
    def flags(self) -> str:
        """The flag, with its opposite if there is one; empty if it has none."""
        name = f"--{self.key.replace('_', '-')}"
        usual = f"{name}/--no-{name[2:]}" if isinstance(self.default, bool) else name
        return (self.spelling or usual) if self.flag else ""

    @property
    def words(self) -> tuple[str, ...]:
        """The choices without the empty one."""
        return tuple(word for word in self.choices if word)


def near(word: object, known: Sequence[str]) -> str:
    """The known word that was probably meant, as the end of a sentence."""
    from difflib import get_close_matches  # noqa: PLC0415 - costs start-up time

    close = get_close_matches(str(word), known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def described(settings: type) -> dict[str, Setting]:
    """Every setting by its key, with its default."""
    defaults = settings()
    found = {}
    for key, hint in settings.__annotations__.items():
        told: Setting = hint.__metadata__[0]
        same = "" if told.limit else key
        plan = same if told.plan == SAME else told.plan
        found[key] = told._replace(key=key, default=getattr(defaults, key), plan=plan)
    return found
