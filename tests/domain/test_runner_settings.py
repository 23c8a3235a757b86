"""Which settings a check obeys, by its command, and what a part of a file says."""

import json

import pytest

from untildone.domain.checks.check_files import hidden_exit_code, needed_programs
from untildone.domain.checks.runner_settings import (
    BROKEN,
    RunnerSetting,
    as_protected,
    content,
    file_names,
    held_in,
    settings_of,
)

FILES = {
    "package.json": json.dumps({"scripts": {"test": "vitest run", "pretest": "npm run lint"}}),
    "web/package.json": json.dumps({"scripts": {"test": "jest", "loop": "npm run loop"}}),
    "odd/package.json": "[]",
    "Makefile": (
        "PY = pytest\n\n.PHONY: test\nall: test\n\techo\n\n# why\ntest: unit | dirs unit\n"
        "\t@$(PY) -q\nunit: ; cargo test\nother:\n\trspec\n\nX = 1\n\tgo test\n"
    ),
    "sub/checks.mk": "test:\n\tmocha\n",
    "empty/Makefile": "",
}
RUNNERS_OF = {
    "pytest -q": ["pytest"],
    "PYTHONPATH=. python -m pytest": ["pytest"],
    "uv run --no-sync pytest": ["pytest"],
    "poetry run pytest tests": ["pytest"],
    "cd sub && .venv/bin/pytest": ["pytest"],
    'bash -c "pytest -q"': ["pytest"],
    "env CI=1 timeout 60 pytest": ["pytest"],
    "tox -e py": ["tox", "pytest"],
    "nox": ["nox", "pytest"],
    "npx vitest run": ["vitest"],
    "npm test": ["npm", "vitest"],
    "npm t": ["npm", "vitest"],
    "npm --prefix web test": ["npm", "jest"],
    "npm --prefix=./web run-script loop": ["npm"],
    "npm --prefix odd test": ["npm"],
    "npm --prefix": ["npm"],
    "yarn test": ["npm", "vitest"],
    "make test": ["make", "pytest", "cargo"],
    "make": ["make", "pytest", "cargo"],
    "make -C empty": ["make"],
    "make -C sub -f checks.mk test": ["make", "mocha"],
    "make -C nowhere V=1 test": ["make"],
    "go test ./...": ["go"],
    "cargo test": ["cargo"],
    "grep -q pytest README.md": [],
    "sh check.sh": [],
    "'open": [],
}


def read(path: str) -> str:
    return FILES.get(path, "")


@pytest.mark.parametrize("command", RUNNERS_OF)
def test_which_runner_a_command_calls(command: str) -> None:
    found = [setting.runner for setting in settings_of([command], read)]
    wanted = RUNNERS_OF[command]
    # Modules of its own are guarded where a runner is Python.
    assert list(dict.fromkeys(found)) == [*wanted, *(["Python"] if "pytest" in wanted else [])]


def test_modules_that_would_shadow_those_of_python_and_scripts_that_a_target_calls() -> None:
    files = {"Makefile": "test:\n\tsh scripts/check.sh\n\tpytest\n", "scripts/check.sh": "exit 1"}
    found = settings_of(["make test"], lambda path: {**files, "json.py": "x = 1"}.get(path, ""))
    assert RunnerSetting("make", "scripts/check.sh") in found
    assert RunnerSetting("Python", "argparse.py") in found
    assert RunnerSetting("Python", "json.py") not in found, "it was there before"
    assert as_protected(found)[-1] == "settings of Python: modules that shadow those of Python"


def test_scripts_that_call_one_another_for_ever_end() -> None:
    scripts = {f"s{k}": f"npm run s{k + 1}" for k in range(30)}
    package = json.dumps({"scripts": scripts | {"s30": "jest"}})
    found = settings_of(["npm run s0"], lambda path: package)
    assert {setting.runner for setting in found} == {"npm"}


def test_settings_for_people() -> None:
    settings = (
        RunnerSetting("a", "**/x.ini"),
        RunnerSetting("a", "**/y.toml", "tool.a"),
        RunnerSetting("b", "z"),
    )
    assert as_protected(settings) == ("settings of a: x.ini, tool.a of y.toml", "settings of b: z")
    assert as_protected(()) == ()


def test_which_files_hold_settings() -> None:
    settings = (RunnerSetting("a", "**/jest.config.*"), RunnerSetting("a", "pytest.py"))
    names = file_names(settings)
    assert [bool(names.match(name)) for name in ("jest.config.js", "pytest.py", "a.py")] == [
        *(True, True, False)
    ]
    assert list(held_in("web/jest.config.ts", settings)) == [settings[0]]
    assert list(held_in("sub/pytest.py", settings)) == []
    assert not file_names(()).match("a")


PARTS = {
    "a table": ("pyproject.toml", "tool.pytest", "[tool.pytest]\na = 1\n[x]\n", '{"a": 1}'),
    "no table": ("pyproject.toml", "tool.pytest", "tool = 1\n", ""),
    "broken TOML": ("pyproject.toml", "tool.pytest", "[tool", BROKEN),
    "JSON": ("package.json", "scripts", '{"scripts": {"test": "x"}, "a": 1}', '{"test": "x"}'),
    "broken JSON": ("package.json", "scripts", "{", BROKEN),
    "JSON without end": ("package.json", "scripts", "[" * 200_000, BROKEN),
    "a section": ("setup.cfg", "[tool:pytest]", "[tool:pytest]\na = %(x\n", None),
    "sections": ("tox.ini", "[testenv:*]", "[testenv:a]\nb = 1\n[testenv]\n", None),
    "no section": ("tox.ini", "[pytest]", "[tox]\n", ""),
    "broken INI": ("tox.ini", "[pytest]", "a\n", BROKEN),
    "TestMain": (
        "main_test.go",
        "func TestMain",
        "package m\nfunc TestMain(m *testing.M) {\n\tos.Exit(0)\n}\nfunc TestA() {\n}\n",
        "func TestMain(m *testing.M) {\n\tos.Exit(0)\n}",
    ),
    "replace": ("go.mod", "replace", "module m\nreplace a => ../a\n", "replace a => ../a"),
}


@pytest.mark.parametrize("what", PARTS)
def test_what_a_part_of_a_file_says(what: str) -> None:
    path, part, text, said = PARTS[what]
    found = content(RunnerSetting("x", path, part), path, text)
    assert found == said if said is not None else found not in ("", BROKEN)


MAKEFILE = FILES["Makefile"]
SAME = {
    "another target": MAKEFILE.replace("rspec", "true"),
    "a variable that is not used": MAKEFILE.replace("X = 1", "X = 2"),
    "a comment": MAKEFILE.replace("# why", "# because"),
}
DIFFERENT = {
    "the recipe": MAKEFILE.replace("-q", "--co"),
    "what it depends on": MAKEFILE.replace("cargo test", "true"),
    "a variable": MAKEFILE.replace("PY = pytest", "PY = true"),
    "a variable of a variable": MAKEFILE.replace("PY = pytest", "PY = $(Y)\nY = true"),
    "a dependency less": MAKEFILE.replace("test: unit", "test:"),
    "a second recipe": f"{MAKEFILE}\ntest:\n\ttrue\n",
    "another shell": f"SHELL = /bin/true\n{MAKEFILE}",
    "an include": f"include more.mk\n{MAKEFILE}",
}


def test_what_decides_about_a_target_of_make() -> None:
    setting = RunnerSetting("make", "Makefile", "test")
    now = content(setting, "Makefile", MAKEFILE)
    same = [what for what, text in SAME.items() if content(setting, "Makefile", text) != now]
    other = [what for what, text in DIFFERENT.items() if content(setting, "Makefile", text) == now]
    assert (same, other) == ([], [])


NEEDED = {
    "pytest -q": ("pytest",),
    "CI=1 npm ci && npm test 2>&1": ("npm", "npm"),
    "cd web && ./run": (),
    "a || b": (),
    "a; b": (),
    "a | b": (),
    "$CHECK": (),
    "exit 3": (),
    "": (),
}


@pytest.mark.parametrize("command", NEEDED)
def test_programs_that_a_command_cannot_do_without(command: str) -> None:
    assert needed_programs(command) == NEEDED[command]


HIDDEN_BY = {
    "pytest -q | tail -3": "|",
    "cd web && npm test |& tee log": "|",
    "bash -c 'pytest | cat'": "|",
    "bash -o pipefail -c 'pytest | cat'": "",
    "set -o pipefail; pytest | cat": "",
    "pytest | grep -q passed": "",
    "cat log | tail": "",
    "pytest; echo done": ";",
    "pytest\necho done": ";",
    "cd web; pytest": "",
    "set -e; npm ci; npm test": "",
    "pytest; code=$?; rm -r out; exit $code": "",
    "pytest; exit 0": ";",
    "for f in *.sh; do sh $f; done": "",
    "pytest || true": "||",
    "pytest || pytest --lf": "",
    "pytest || (cat log; exit 1)": "",
    "npm ci && npm test": "",
    "pytest;": "",
    "pytest": "",
    "": "",
}


@pytest.mark.parametrize("command", HIDDEN_BY)
def test_a9_what_hides_the_exit_code_of_a_check(command: str) -> None:
    assert hidden_exit_code(command) == HIDDEN_BY[command]


MADE_UP = {
    "test:\n\tgo test\n": ["test"],
    "test: unit app node_modules all\n\tx\nunit:\n\tx\napp:\n\tcc -o app\nnode_modules:\n\tx\n": [
        "test",
        "unit",
    ],
    ".PHONY: test\ntest: unit\n\tx\nunit:\n\tx\n": ["unit"],
    "ALL = test\n.PHONY: $(ALL)\ntest:\n\tx\n": [],
    ".PHONY: $(shell x)\ntest:\n\tx\n": [],
    "test: a.o\n\tx > $@\na.o:\n\tx\n": [],
}


@pytest.mark.parametrize("text", MADE_UP)
def test_a4_targets_that_are_no_files(text: str) -> None:
    found = settings_of(["make test"], lambda path: {"Makefile": text}.get(path, ""))
    assert [s.path for s in found if s.runner == "make" and not s.part] == MADE_UP[text]


def test_a4_what_make_includes_and_what_its_variables_call() -> None:
    files = {
        "sub/ci/Makefile": "include a.mk ../../../x.mk /y.mk $(wildcard z) b.d\n.PHONY: test\n",
        "sub/a.mk": "include a.mk\nC = sh $(S)\ntest:\n\t$(C)\n\t$(MAKE) -C .. more\n",
        "sub/t.sh": "exit 1\n",
    }
    found = settings_of(
        ["make -C sub -f ci/Makefile test S=t.sh"], lambda path: files.get(path, "")
    )
    whole = {setting.path for setting in found if not setting.part}
    assert whole == {"sub/a.mk", "sub/t.sh"}
