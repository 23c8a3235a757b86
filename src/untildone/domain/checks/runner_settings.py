"""Settings of test runners: who may rewrite them decides what a passing check proves.

Which files they are follows from a check's command, through scripts and targets that it calls.
"""

import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from posixpath import normpath

from msgspec import Struct

from untildone.domain.checks.check_files import SimpleCommand, files_of, simple_commands
from untildone.domain.checks.protection import is_protected
from untildone.domain.regex import regex

# How many scripts and targets may call one another.
_DEEPEST = 8
KEPT_TESTS = "tests that are there already; new ones beside them are welcome"
BROKEN = "can no longer be read"
OWN_MODULES = "modules that shadow those of Python"
Read = Callable[[str], str]


class RunnerSetting(Struct, frozen=True):
    """A file that a runner obeys, as a glob; with a `part` only that part of it."""

    runner: str
    path: str
    part: str = ""

    @property
    def said(self) -> str:
        """For people, without the folders it may be in."""
        name = self.path.removeprefix("**/")
        return f"{self.part} of {name}" if self.part else name


def _whole(runner: str, names: str) -> tuple[RunnerSetting, ...]:
    return tuple(RunnerSetting(runner, f"**/{name}") for name in names.split())


def _parts(runner: str, path: str, *parts: str) -> tuple[RunnerSetting, ...]:
    return tuple(RunnerSetting(runner, f"**/{path}", part) for part in parts)


_NPM = (*_parts("npm", "package.json", "scripts"), *_whole("npm", ".npmrc"))
_PYTEST = (
    *_whole("pytest", "conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml"),
    *_parts("pytest", "pyproject.toml", "tool.pytest", "project.entry-points.pytest11"),
    *_parts("pytest", "tox.ini", "[pytest]"),
    *_parts("pytest", "setup.cfg", "[tool:pytest]"),
    # A module of this name in the folder of the call is taken for the runner itself.
    *_whole("pytest", "sitecustomize.py usercustomize.py"),
    *(RunnerSetting("pytest", path) for path in ("pytest.py", "pytest/*.py", "_pytest/*.py")),
)
_JEST = (
    *_whole("jest", "jest.config.* jest.setup.* jest.preset.* setupTests.*"),
    *_parts("jest", "package.json", "jest"),
)
_MOCHA = (*_whole("mocha", ".mocharc.* mocha.opts"), *_parts("mocha", "package.json", "mocha"))
_TOX = (
    *_parts("tox", "tox.ini", "[tox]", "[testenv]", "[testenv:*]"),
    *_parts("tox", "setup.cfg", "[tox:tox]", "[testenv]", "[testenv:*]"),
    *_parts("tox", "pyproject.toml", "tool.tox"),
    *_whole("tox", "tox.toml"),
)
_CARGO = (
    *_whole("cargo", ".cargo/config.toml .cargo/config .config/nextest.toml"),
    *_parts("cargo", "Cargo.toml", "test", "lib", "profile", "package.autotests"),
)
_GO = (
    *_parts("go", "*_test.go", "func TestMain"),
    *_parts("go", "go.mod", "replace"),
    *_whole("go", "go.work"),
)
_MYPY = (
    *_whole("mypy", "mypy.ini .mypy.ini"),
    *_parts("mypy", "setup.cfg", "[mypy]", "[mypy-*]"),
    *_parts("mypy", "pyproject.toml", "tool.mypy"),
)
RUNNERS: dict[str, tuple[RunnerSetting, ...]] = {
    "pytest": _PYTEST,
    "py.test": _PYTEST,
    "unittest": _whole("unittest", "sitecustomize.py usercustomize.py"),
    "tox": (*_TOX, *_PYTEST),
    "nox": (*_whole("nox", "noxfile.py"), *_PYTEST),
    "jest": _JEST,
    "react-scripts": _JEST,
    "vitest": _whole("vitest", "vitest.config.* vitest.workspace.* vitest.setup.* vite.config.*"),
    "mocha": _MOCHA,
    "ava": (*_whole("ava", "ava.config.*"), *_parts("ava", "package.json", "ava")),
    "playwright": _whole("playwright", "playwright.config.*"),
    "cypress": _whole("cypress", "cypress.config.* cypress.json"),
    "karma": _whole("karma", "karma.conf.*"),
    "cargo": _CARGO,
    "go": _GO,
    "rspec": _whole("rspec", ".rspec .rspec-local spec_helper.rb rails_helper.rb"),
    "phpunit": _whole("phpunit", "phpunit.xml phpunit.xml.dist phpunit.dist.xml bootstrap.php"),
    "pest": _whole("pest", "phpunit.xml phpunit.xml.dist phpunit.dist.xml Pest.php"),
    "ruff": (
        *_whole("ruff", "ruff.toml .ruff.toml"),
        *_parts("ruff", "pyproject.toml", "tool.ruff"),
    ),
    "mypy": _MYPY,
    "eslint": (
        *_whole("eslint", "eslint.config.* .eslintrc .eslintrc.* .eslintignore"),
        *_parts("eslint", "package.json", "eslintConfig"),
    ),
    "tsc": _whole("tsc", "tsconfig.json tsconfig.*.json"),
    "just": _whole("just", "justfile Justfile .justfile"),
}
PYTHON, PYTHONS = "Python", frozenset(("pytest", "unittest"))
# What a runner of Python imports: `python -m pytest` looks for it in the top folder first.
IMPORTED = tuple(
    """
    argparse ast bdb bisect cmd code configparser contextlib copy dataclasses datetime decimal
    difflib dis doctest email enum fnmatch functools getpass gettext glob hashlib html importlib
    inspect json linecache locale logging math numbers opcode operator pathlib pdb platform pprint
    queue random re selectors shlex shutil signal socket string struct subprocess sysconfig
    tempfile textwrap threading token tokenize tomllib traceback types typing unittest urllib uuid
    warnings weakref xml zipfile pluggy iniconfig packaging pygments exceptiongroup tomli
    """.split()  # noqa: SIM905 - a long list of words
)
_SCRIPTS = frozenset(("npm", "pnpm", "yarn", "bun"))
_RUN = frozenset(("run", "run-script"))
_MAKE = frozenset(("make", "gmake"))
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


def settings_of(commands: Iterable[str], read: Read) -> tuple[RunnerSetting, ...]:
    """The settings that these checks obey; `read` gives the text of a file, or nothing."""
    found: dict[RunnerSetting, None] = {}
    for command in commands:
        for simple in simple_commands(command):
            found |= dict.fromkeys(_of(simple, read, frozenset()))
    if any(setting.runner in PYTHONS for setting in found):
        found |= dict.fromkeys(_shadows(read))
    return tuple(found)


def as_protected(settings: Iterable[RunnerSetting], *, tests: bool = False) -> tuple[str, ...]:
    """One text for each runner, for people, and one for the tests if they are protected too."""
    groups: dict[str, list[str]] = {}
    for setting in settings:
        told = OWN_MODULES if setting.runner == PYTHON else setting.said
        groups.setdefault(setting.runner, []).append(told)
    rows = (f"settings of {n}: {', '.join(dict.fromkeys(said))}" for n, said in groups.items())
    return (*rows, KEPT_TESTS) if tests else tuple(rows)


def _of(
    simple: SimpleCommand, read: Read, seen: frozenset[SimpleCommand]
) -> Iterator[RunnerSetting]:
    """Of the runners that are named anywhere in a call: `uv run`, `npx` and their like name it."""
    if simple in seen or len(seen) > _DEEPEST:
        return
    for word in simple.words:
        yield from RUNNERS.get(word.rpartition("/")[2], ())
    called: Iterable[str] = ()
    folder = simple.folder
    if simple.program in _SCRIPTS:
        yield from _NPM
        called, folder = _scripts(simple, read)
    elif simple.program in _MAKE:
        makefile = Makefile.of(simple, read)
        yield from makefile.settings
        called, folder = makefile.commands, makefile.folder
    for command in called:
        for one in simple_commands(command, folder):
            named = (path for path in files_of(one) if read(path))
            yield from (RunnerSetting(simple.program, path) for path in named)
            yield from _of(one, read, seen | {simple})


def _shadows(read: Read) -> Iterator[RunnerSetting]:
    """Modules that Python would take for those of its own, or the runner's, if they came to be."""
    for name in IMPORTED:
        paths = (f"{name}.py", f"{name}/__init__.py")
        if not any(map(read, paths)):
            yield from (RunnerSetting(PYTHON, path) for path in paths)


def _scripts(simple: SimpleCommand, read: Read) -> tuple[list[str], str]:
    """The scripts of package.json that are called, and where."""
    folder, names = _in_folder(simple, ("-C", "--prefix", "--cwd", "--dir"))
    name = next((word for word in names if word not in _RUN), "")
    name = {"t": "test", "tst": "test"}.get(name, name)
    try:
        known = json.loads(read(f"{folder}package.json") or "{}")["scripts"]
        wanted = (known.get(f"{when}{name}") for when in ("pre", "", "post"))
        return [script for script in wanted if isinstance(script, str)], folder
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return [], folder


def _in_folder(simple: SimpleCommand, flags: tuple[str, ...]) -> tuple[str, list[str]]:
    """The folder that a flag leads to, and the words that are no flags."""
    folder, names = simple.folder, []
    rest = list(simple.words[1:])
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if flag in flags and (equals or rest):
            folder = f"{folder}{(value if equals else rest.pop(0)).rstrip('/')}/"
        elif not word.startswith("-"):
            names.append(word)
    return f"{normpath(folder)}/".removeprefix("./"), names


# -- parts of files ----------------------------------------------------------------------------


def content(setting: RunnerSetting, path: str, text: str) -> str:
    """What the part of a file says, in a form that can be compared; empty if it has none.

    What can no longer be read says something else than before.
    """
    name = path.rpartition("/")[2]
    try:
        if name in MAKEFILES or setting.runner == "make":
            return Makefile(path, text, tuple(setting.part.split())).content
        if name.endswith(".go"):
            return "\n".join(_TEST_MAIN.findall(text))
        if name == "go.mod":
            return "\n".join(_REPLACE.findall(text))
        if name.endswith(".toml"):
            return _as_text(_table(_toml(text), setting.part))
        if name.endswith(".json"):
            return _as_text(_table(json.loads(text), setting.part))
        return _as_text(_sections(text, setting.part))
    except (ValueError, TypeError, RecursionError):
        return BROKEN


_TEST_MAIN = regex(r"^func TestMain\b.*?^}", re.MULTILINE | re.DOTALL)
_REPLACE = regex(r"^.*=>.*$", re.MULTILINE)


def _toml(text: str) -> object:
    import tomllib  # noqa: PLC0415 - costs start-up time

    return tomllib.loads(text)


def _table(data: object, part: str) -> object:
    for key in part.split("."):
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _sections(text: str, part: str) -> object:
    """Sections of an INI file, with what all of them inherit."""
    from configparser import ConfigParser, Error  # noqa: PLC0415 - costs start-up time

    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except Error as error:
        raise ValueError(str(error)) from error
    wanted = part.strip("[]")
    names = [name for name in parser.sections() if _fits(name, wanted)]
    return {name: dict(parser[name]) for name in names} or None


def _fits(name: str, wanted: str) -> bool:
    end = wanted.endswith("*")
    return name.startswith(wanted[:-1]) if end else name == wanted


def _as_text(value: object) -> str:
    return "" if value is None else json.dumps(value, sort_keys=True, default=str)


def file_names(settings: Iterable[RunnerSetting]) -> re.Pattern[str]:
    """What the names of files with such settings look like: a quick look comes first."""
    names = {setting.path.rpartition("/")[2] for setting in settings}
    return re.compile("|".join(map(fnmatch.translate, sorted(names))) or r"(?!)")


def held_in(path: str, settings: Iterable[RunnerSetting]) -> Iterator[RunnerSetting]:
    """The settings that this file may hold."""
    return (setting for setting in settings if is_protected(path, (setting.path,)))


# -- make --------------------------------------------------------------------------------------

_RULE = regex(r"^([^\s#:=][^#:=]*?)\s*::?(?![=:])\s*([^;#]*)(?:;(.*))?$")
_ASSIGNED = regex(r"^\s*(?:override\s+|export\s+)*([\w.-]+)\s*(?:[:?+!]{0,3}=)\s*(.*)$")
_USED = regex(r"\$[({]([\w.-]+)[)}]")
# Lines that may change the meaning of everything.
_ALWAYS = regex(
    r"^\s*(-?include|sinclude|if(n?eq|n?def)|else|endif|define|endef|export|unexport|undefine|"
    r"vpath|\$[({])\b|^\.[A-Z_]+|^[^\s:=]*%|^\s*(SHELL|MAKEFLAGS|GNUMAKEFLAGS)\b"
)


# What a recipe does to the file that its target is.
_MAKES = r"(?:\s-o|>|\btouch|\bmkdir|\bmkdir -p)\s*{}(?:\s|$)"
# Plain names that stand for what a recipe leaves: anybody may install and build.
_OUTPUTS = frozenset(
    """
    bin build coverage deps dist docs env generated lib node_modules obj out output public site
    target tmp vendor venv
    """.split()  # noqa: SIM905 - a long list of words
)
_PLAIN_TARGET = regex(r"[\w-]+")
_CALLED = regex(r"\$[({][^)}]*[)}]")
_INCLUDE = regex(r"^\s*(?:-?include|sinclude)\s+([^#\n]+)$", re.MULTILINE)


class Makefile:
    """The rules of some targets, of all that they depend on, and the variables they use.

    `folder` is where make runs; `included` are files that stand in the text already.
    """

    def __init__(
        self,
        path: str,
        text: str,
        targets: tuple[str, ...],
        folder: str = "",
        included: tuple[str, ...] = (),
    ) -> None:
        self._path = path
        self.folder = folder
        self._included = included
        self._rows = text.replace("\\\n", " ").split("\n")
        self._targets = targets or self._first()

    @staticmethod
    def of(simple: SimpleCommand, read: Read) -> "Makefile":
        """The one that a call of make reads, with what it includes."""
        words = list(simple.words)
        named = next((words[k + 1] for k, w in enumerate(words[:-1]) if w in ("-f", "--file")), "")
        folder, targets = _in_folder(simple, ("-C", "--directory"))
        wanted = tuple(t for t in targets if t != named and "=" not in t)
        paths = [normpath(f"{folder}{name}") for name in ([named] if named else MAKEFILES)]
        path = next((path for path in paths if read(path)), paths[-1])
        text, included = _with_included(read(path), folder, read)
        given = "".join(f"\n{word}" for word in targets if "=" in word)
        return Makefile(path, f"{text}{given}", wanted, folder, included)

    @property
    def settings(self) -> tuple[RunnerSetting, ...]:
        """A file of another name that make would prefer counts, too."""
        beside, slash, name = self._path.rpartition("/")
        names = MAKEFILES if name in MAKEFILES else (name,)
        part = " ".join(self._targets)
        own = (RunnerSetting("make", f"{beside}{slash}{each}", part) for each in names)
        whole = (*self._included, *self._no_files())
        return (*own, *(RunnerSetting("make", path) for path in dict.fromkeys(whole)))

    @property
    def commands(self) -> list[str]:
        """What the targets run, with plain variables put in."""
        recipes = [row.strip().lstrip("@-+") for row in self._wanted() if row.startswith("\t")]
        return list(map(self.expanded, recipes))

    def expanded(self, row: str) -> str:
        """A line with the values of variables, nothing for those that are not here."""
        values = {"MAKE": "make", **dict(self._variables())}
        for _ in range(_DEEPEST):  # a variable may name others
            row = _USED.sub(lambda found: values.get(found[1], ""), row)
        return row

    def _no_files(self) -> Iterator[str]:
        """The paths of targets that make nothing: with a file of that name make has nothing to do.

        What `.PHONY` names is run all the same.
        """
        depends = (needs for names, needs, _ in self._rules() if ".PHONY" in names)
        phony = self.expanded(" ".join(chain.from_iterable(depends)))
        for target in self._needed() if "$" not in phony else ():
            recipe = "\n".join(self._recipe(target))
            meant = target in self._targets or target not in _OUTPUTS
            if meant and target not in phony.split() and _makes_nothing(target, recipe):
                yield f"{self.folder}{target}"

    def _recipe(self, target: str) -> list[str]:
        rules = list(self._rules())
        return [row for names, _, rows in rules if target in names for row in rows[1:]]

    @property
    def content(self) -> str:
        """All lines that decide what the targets do."""
        rows = self._wanted()
        used, values = set(_USED.findall("\n".join(rows))), list(self._variables())
        while more := {n for k, v in values if k in used for n in _USED.findall(v)} - used:
            used |= more
        rows += [f"{name}={value}" for name, value in values if name in used]
        rows += [row for row in self._rows if _ALWAYS.match(row) and not row.startswith("\t")]
        return "\n".join(rows)

    def _variables(self) -> Iterator[tuple[str, str]]:
        for row in self._rows:
            if not row.startswith("\t") and (found := _ASSIGNED.match(row)):
                yield found[1], found[2].strip()

    def _first(self) -> tuple[str, ...]:
        names = (found[1] for row in self._rows if (found := _RULE.match(row)))
        return tuple(next((name for name in names if not name.startswith(".")), "").split())

    def _wanted(self) -> list[str]:
        """The rules of the targets and of what they depend on, with their recipes."""
        rules = list(self._rules())
        needed = self._needed()
        return [row for t in needed for names, _, rows in rules if t in names for row in rows]

    def _needed(self) -> list[str]:
        """The targets and all that they depend on, each once."""
        rules = list(self._rules())
        found = list(dict.fromkeys(self._targets))
        for target in found:  # which grows
            depends = (name for names, needs, _ in rules if target in names for name in needs)
            found += [name for name in dict.fromkeys(depends) if name not in found]
        return found

    def _rules(self) -> Iterator[tuple[list[str], list[str], list[str]]]:
        current: list[str] | None = None
        for row in self._rows:
            if row.startswith("\t") and current is not None:
                current.append(row)
            elif found := _RULE.match(row):
                current = [f"{found[1]}: {' '.join(found[2].split())}"]
                current += [f"\t{found[3].strip()}"] if found[3] else []
                yield found[1].split(), found[2].replace("|", " ").split(), current
            elif row.strip() and not row.lstrip().startswith("#"):
                current = None


def _makes_nothing(target: str, recipe: str) -> bool:
    """Whether a target with this recipe is a mere name, as far as can be seen."""
    made = "$@" in recipe or re.search(_MAKES.format(re.escape(target)), recipe)
    return bool(recipe and not made and _PLAIN_TARGET.fullmatch(target))


def _with_included(
    text: str, folder: str, read: Read, deep: int = 0
) -> tuple[str, tuple[str, ...]]:
    """The text with what it includes in its place, and which files these are.

    What a compiler notes about dependencies (`*.d`) is made anew all the time.
    """
    makefile, found = Makefile("", text, ()), list[str]()

    def put_in(row: re.Match[str]) -> str:
        texts = []
        for name in _CALLED.sub("", makefile.expanded(row[1])).split():
            path = normpath(f"{folder}{name}")
            if name.startswith("/") or path.startswith("..") or name.endswith(".d"):
                continue
            inside, more = _with_included(read(path), folder, read, deep + 1)
            found.extend((path, *more))
            texts.append(inside)
        return "\n".join((row[0], *texts))

    return (_INCLUDE.sub(put_in, text) if deep < _DEEPEST else text), tuple(found)
