"""Random agents and random faults: whatever the two do together, nothing is lost.

`make torture` runs 1,000 cases with a new seed, which it prints; `make check` plays the same 15
always, `make test-full` the same 50. An agent edits, deletes and renames, plays tricks with git and
promises what it likes; a person has settings and works beside it; the loop, or a git command of
the loop's, is killed somewhere. Then a new process ends the run.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.torture import checks
from tests.torture.checks import UNRECOVERED, Fact, Start
from tests.torture.scene import KILLED, Fault, Scene

# Lines of shell; `$n` is the number of the call, so that every call writes words of its own.
EDITS = (
    'echo "new $n" > "work-$n.txt"',
    'mkdir -p "deep/$n" && echo "deep $n" > "deep/$n/work.txt"',
    'echo "more $n" >> tracked.txt',
    'echo "replaced $n" > both.txt',
    'echo "odd $n" > "work ü $n.txt"',
    "rm -rf src notes",
    "rm -f tracked.txt later.txt",
    'mv other.txt "work-renamed-$n.txt"',
    "rm -rf src && echo file > src",
    "chmod +x tracked.txt",
    "ln -sf tracked.txt work-link",
    "sed -i 's/\\[ \\]/[x]/' tasks.md",
    'mkdir -p build && echo "$n" > "build/$n.o"',
    'echo "work*" >> .gitignore',
    ": > .gitignore",
    'echo "other case $n" > Tracked.txt',
    "chmod 600 tracked.txt",
    "rm -f other.txt && mkfifo other.txt",
)
# What a person does in another terminal while an agent works.
BESIDE = (
    'printf "\\n## 9. Story 9\\n\\n- [ ] 9.1 do 9\\n" >> tasks.md',
    "git gc -q",
    "git prune --expire=now",
    "git repack -qad",
    "git pack-refs --all",
)
GIT_GAMES = (
    'git add -A && git commit -qm "agent $n"',
    'git add -A && git commit -qm "agent $n" && git reset -q --soft HEAD~1',
    'git commit -q --amend --allow-empty -m "amended $n"',
    "git checkout -q main",
    "git checkout -q -f main",
    'git checkout -q -b "other-$n"',
    "git checkout -q --detach",
    'git checkout -q --orphan "lone-$n"',
    "git reset -q --hard",
    "git reset -q --hard HEAD~1",
    "git reset -q",
    "git stash -q -u",
    "git stash drop -q",
    "git stash clear",
    "git checkout -q --detach && git branch -q -D ralph/x",
    "git branch -q -D main",
    "git branch -q -m ralph/x away",
    "touch .git/index.lock",
    "rm -f .git/index",
    "echo broken > .git/index",
    'git init -q "nested-$n" && echo "inner $n" > "nested-$n/inner.txt"',
    'git init -q in && echo "$n" > in/a && git -C in add -A && git -C in commit -qm inner',
    "git config core.hooksPath hooks && git config core.ignoreCase true",
    "git tag -f v1",
    "git gc -q --prune=now",
)
# Git settings that people have, each a file of them; `lossy` is a filter that loses bytes.
SETTINGS = (
    "[core]\nignoreCase = true\n",
    "[core]\nfileMode = false\n",
    "[core]\nsymlinks = false\n",
    "[core]\ntrustctime = false\ncheckStat = minimal\n",
    "[core]\npreferSymlinkRefs = true\n",
    "[core]\nautocrlf = true\n",
    "[core]\nautocrlf = input\nsafecrlf = true\n",
    "[core]\nsplitIndex = true\nuntrackedCache = true\n",
    "[core]\nprecomposeUnicode = true\nquotePath = false\n",
    "[core]\nsharedRepository = group\n",
    "[index]\nversion = 4\nskipHash = true\n",
    "[diff]\nnoprefix = true\nrenames = copies\nignoreSubmodules = all\n",
    "[status]\nshowUntrackedFiles = no\nrelativePaths = false\n",
    '[filter "lossy"]\nclean = sed s/e//g\n[core]\nattributesFile = ~/attributes\n',
)
PROMISES = ("COMPLETE", "COMPLETE", "FAILED: no luck", "", "crash")
Played = tuple[list[Fact], str]
Explored = tuple[int, list[str]]
# The effects of a run of three stories, with some room.
LAST_EFFECT = 190


@dataclass(frozen=True, slots=True)
class Case:
    """What the agent does in each call, and what dies when."""

    stories: int
    retries: int
    calls: tuple[str, ...]
    faults: tuple[Fault, ...]
    settings: tuple[str, ...] = ()


def _call(lines: list[str], promise: str) -> str:
    return "".join(f"{line}\n" for line in lines) + f'promise="{promise}"\n'


LINES = st.lists(st.one_of(*map(st.sampled_from, (EDITS, GIT_GAMES, BESIDE))), max_size=5)
FAULTS = st.builds(
    Fault,
    st.integers(1, LAST_EFFECT),
    st.sampled_from(("before", "after", "half", "during", "child", "agent")),
    st.sampled_from((0.5, 1.0, 2.0, 4.0)),
)
CASES = st.builds(
    Case,
    st.integers(1, 3),
    st.integers(0, 1),
    st.lists(st.builds(_call, LINES, st.sampled_from(PROMISES)), max_size=4).map(tuple),
    st.lists(FAULTS, max_size=2).map(tuple),
    st.lists(st.sampled_from(SETTINGS), max_size=2, unique=True).map(tuple),
)


def played(case: Case, variant: str = "branch") -> Played:
    """What went wrong in one case, and what was said in it."""
    folder = tempfile.mkdtemp(prefix="torture-")
    try:
        scene = Scene.made(Path(folder) / "s", case.stories)
        scene.configure(case.settings)
        scene.plan({str(n): lines for n, lines in enumerate(case.calls, 1)})
        scene.plan({"default": EDITS[0]})
        try:
            wrong = _wrong(scene, case, variant)
        except AssertionError as error:
            wrong = [Fact(checks.UNUSABLE, str(error))]
        return wrong, scene.said.read_text()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wrong(scene: Scene, case: Case, variant: str) -> list[Fact]:
    start = Start.of(scene)
    more = ("--on-complete", "cleanup", "--quiet")
    args = scene.run_args(variant, "--max-retries", str(case.retries), *more)
    wrong: list[Fact] = []
    following = args
    code = KILLED
    for fault in (*case.faults, None):
        finished, calls = checks.checkpoints(scene), len(scene.calls())
        code = scene.command(*following, fault=fault)
        if code == 2 and following != args:
            code = scene.command(*args, fault=fault)
            if code == 2 and checks.cleaned_up(scene):
                code = 3  # the cleanup was done; what it brought forbids another start as it is
        if code == 2 and fault and fault.mode == "child":
            code = scene.command(*args)  # git was killed before anything was changed: once more
        wrong += checks.repeated(scene, finished, calls, in_order=variant != "lanes")
        if code != KILLED:
            break
        wrong += checks.losses(scene, slots=True)
        status = scene.command("status", "--json")
        wrong += [Fact(UNRECOVERED, f"status exits {status}")] if status else []
        following = ("resume", "x", *more)
    if code == 5:  # git was killed in the cleanup, which is then refused and can be asked for again
        code = 3 if scene.command("finish", "x", "cleanup") in (0, 3) else 5
    wrong += [] if code in (0, 3) else [Fact(UNRECOVERED, f"the run exits {code}")]
    wrong += _claims(scene, code)
    checks.expire_and_collect(scene)
    wrong += checks.losses(scene) + checks.usable(scene) + checks.state_is_valid(scene)
    return wrong + checks.after_cleanup(scene, start)


def _claims(scene: Scene, code: int) -> list[Fact]:
    """A run that is done leaves no box open, and COMPLETE was the last word on every story."""
    tasks = scene.repo / "tasks.md"
    if code == 0 and tasks.exists() and "- [ ]" in tasks.read_text():
        return [Fact(UNRECOVERED, f"done, but tasks.md has an open box: {tasks.read_text()}")]
    last = {call.story: call.promise for call in scene.calls()}
    if code == 0 and set(last.values()) - {"COMPLETE"}:
        return [Fact(UNRECOVERED, f"done, but the agent's last words are: {last}")]
    return []


def explore(
    cases: int, seed_value: int, drawn: st.SearchStrategy[Any], play: Callable[[Any], Played]
) -> Explored:
    """Draw and play cases: how many there were, and what is to be said about each bad one."""
    count = 0
    bad: list[str] = []

    @seed(seed_value)
    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # a smaller case is not worth an hour
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(drawn)
    def one(case: Any) -> None:
        nonlocal count
        count += 1
        wrong, said = play(case)
        if wrong:
            bad.append("\n".join([*map(str, wrong), repr(case), said]))

    one()
    return count, bad


def explore_runs(cases: int, seed_value: int, variant: str = "branch") -> Explored:
    """Random runs with one sort of checkpoint."""
    return explore(cases, seed_value, CASES, partial(played, variant=variant))


def arguments(what: str | None, cases: int) -> argparse.ArgumentParser:
    """How many cases, and which."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    parser.add_argument("--jobs", type=int, default=2)
    return parser


def play_many(what: str, options: argparse.Namespace, explored: Callable[..., Explored]) -> int:
    """Share the cases out, and tell what is bad."""
    began = time.monotonic()
    share = options.cases // options.jobs
    seeds = [options.seed + k for k in range(options.jobs)]
    print(f"{what} with seed {options.seed}", flush=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        shares = [pool.submit(explored, share, number) for number in seeds]
        results = [future.result() for future in shares]
    done, bad = sum(count for count, _ in results), [text for _, bad in results for text in bad]
    print(*bad, sep="\n")
    print(f"{done} {what}, {len(bad)} bad ({time.monotonic() - began:.0f} s)")
    return 1 if bad else 0


def main() -> int:
    """Many cases with a new seed."""
    parser = arguments(__doc__, 1000)
    parser.add_argument("--variant", default="branch")
    options = parser.parse_args()
    return play_many("random runs", options, partial(explore_runs, variant=options.variant))


if __name__ == "__main__":
    sys.exit(main())
