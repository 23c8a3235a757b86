"""Random stories in random lanes: the branch is what some serial order of them would have made.

`make torture` runs 100 cases with a new seed, which it prints; `make check` plays the same 10
always. Stories write into the same places, count in one file, need each other's words, fail, crash,
leave red work and commit by themselves; at times the loop is killed and resumed. Then a fresh clone
goes through the run branch: one commit per story and nothing else, in one line, each green by the
checks that the journal names for it, each with all that its story has written.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from tests.torture import checks
from tests.torture.checks import UNRECOVERED, Fact, Start
from tests.torture.random_runs import Explored, Played, arguments, explore, play_many
from tests.torture.scene import KILLED, Fault, Scene

# What a story does, in each of its calls; `$s` is its number. Each is idempotent on any base.
MOVES = {
    "own file": 'mkdir -p own && echo "own $s" > "own/$s.txt"',
    "end of a file": 'echo "end $s" >> shared.txt',
    "start of a file": 'sed -i "1i start $s" shared.txt',
    "a line of its own": 'sed -i "${s}0s/\\$/ line $s/" rows.txt',
    "another end": 'echo "other end $s" >> rows.txt',
    # Two that count from the same number write the same text, which git merges without a word.
    "count": ': > "counted-$s"; set -- counted-*; echo $# > count.txt',
    "left": 'echo "$s" >> left.txt && [ ! -e right.txt ] || echo "$s" >> joined.txt',
    "right": 'echo "$s" >> right.txt && [ ! -e left.txt ] || echo "$s" >> joined.txt',
    "deletion": "rm -f dead.txt",
    "edit of what others delete": 'echo "dead $s" >> dead.txt',
    "rename": "[ -e new-name.txt ] || mv old-name.txt new-name.txt",
    "task list": "sed -i 's/\\[ \\]/[x]/' tasks.md",
    "commit": 'git add -A && git commit -qm "agent $s"',
    "commits": 'git add -A && git commit -qm "one $s" && echo "$s" > "two-$s" && git add -A '
    '&& git commit -qm "two $s"',
}
# The text that a landed story with this move must have brought, and where.
TEXTS = {
    "own file": ("own/{s}.txt", "own {s}"),
    "end of a file": ("shared.txt", "end {s}"),
    "start of a file": ("shared.txt", "start {s}"),
    "a line of its own": ("rows.txt", "row {s}0 line {s}"),
    "another end": ("rows.txt", "other end {s}"),
    "left": ("left.txt", "{s}"),
    "right": ("right.txt", "{s}"),
}
# How a call ends; red work says that it is complete.
ENDINGS = {
    "complete": "promise=COMPLETE",
    "failed": 'promise="FAILED: no luck"',
    "silent": 'promise=""',
    "crash": "promise=crash",
    "red": "echo broken > broken.txt; promise=COMPLETE",
}
CHECKS = (
    "test ! -e broken.txt",
    'test "$(cat count.txt)" = "$(ls | grep -c ^counted-)"',
    "test ! -e left.txt -o ! -e right.txt -o -e joined.txt",
    "test -e old-name.txt -o -e new-name.txt",
)
PATIENCE_S = 20


@dataclass(frozen=True, slots=True)
class Story:
    """What an agent does for a story, and how its first calls end; the later ones are complete."""

    moves: tuple[str, ...]
    endings: tuple[str, ...]
    pause_s: float
    is_checked: bool


@dataclass(frozen=True, slots=True)
class Case:
    """Stories, lanes, and where the loop is killed."""

    stories: tuple[Story, ...]
    lanes: int
    clean_room: bool
    fault: Fault | None


STORIES = st.builds(
    Story,
    st.lists(st.sampled_from(sorted(MOVES)), min_size=1, max_size=4, unique=True).map(tuple),
    st.lists(st.sampled_from(sorted(ENDINGS)), max_size=2).map(tuple),
    st.sampled_from((0, 0.05, 0.2)),
    st.booleans(),
)
FAULTS = st.builds(
    Fault,
    st.integers(1, 8),
    st.sampled_from(("before", "after")),
    st.just(0),
    st.sampled_from(("git update-ref", "git merge-tree", "write journal.jsonl", "git commit-tree")),
)
CASES = st.builds(
    Case,
    st.lists(STORIES, min_size=4, max_size=9).map(tuple),
    st.integers(2, 4),
    st.sampled_from((False, False, False, True)),
    st.none() | FAULTS,
)


def played(case: Case) -> Played:
    """What went wrong in one case, and what was said in it."""
    folder = tempfile.mkdtemp(prefix="torture-")
    try:
        scene = _made(Path(folder) / "s", case)
        try:
            wrong = _wrong(scene, case)
        except AssertionError as error:
            wrong = [Fact(checks.UNUSABLE, str(error))]
        return wrong, scene.said.read_text()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made(root: Path, case: Case) -> Scene:
    scene = Scene.made(root, 0)
    parts = []
    for s, story in enumerate(case.stories, 1):
        check = f"Verify: `test -e done-{s}.txt`\n\n" if story.is_checked else ""
        parts.append(f"## {s}. Story {s}\n\n{check}- [ ] {s}.1 do {s}\n\n")
        moves = [MOVES[move] for move in story.moves]
        endings = [f"{k}) {ENDINGS[end]} ;;" for k, end in enumerate(story.endings, 1)]
        call = ["k=1", f'until mkdir "$root/call-{s}-$k"; do k=$((k + 1)); done', f"s={s}"]
        call += [f'echo "{s}" > "done-{s}.txt"', f"sleep {story.pause_s}", *moves]
        call += ["case $k in", *endings, "esac"]
        scene.plan({f"story-{s}": "\n".join([*call, ""])})
    scene.plan({"default": '. "$root/plan/story-$UNTILDONE_STORY_ID"\n'})
    rows = "".join(f"row {n}\n" for n in range(1, 121))
    texts = {"shared.txt": "middle\n", "rows.txt": rows, "count.txt": "0\n", "dead.txt": "dead\n"}
    for name, text in (texts | {"old-name.txt": "same\n" * 9, "tasks.md": "".join(parts)}).items():
        scene.write(name, text)
        scene.git("add", name)
    scene.git("commit", "-qm", "stories", "--", *texts, "old-name.txt", "tasks.md")
    return scene


def _wrong(scene: Scene, case: Case) -> list[Fact]:
    start = Start.of(scene)
    more = [word for check in CHECKS for word in ("--verify", check)]
    more += ["--clean-room"] if case.clean_room else []
    more += ["--max-retries", "2", "--on-complete", "keep", "--quiet"]
    agent = str(scene.root / "agent")
    args = ("run", "x", "--agent-cmd", agent, "--lanes", str(case.lanes), "--optimistic", *more)
    code = scene.command(*args, fault=case.fault)
    if code == KILLED:
        code = scene.command("resume", "x", "--on-complete", "keep", "--quiet")
        code = scene.command(*args) if code == 2 else code  # killed before there was anything
    wrong = [] if code in (0, 3) else [Fact(UNRECOVERED, f"the run exits {code}")]
    wrong += [Fact(UNRECOVERED, text) for text in _history(scene, case, code)]
    checks.expire_and_collect(scene)
    wrong += checks.losses(scene) + checks.usable(scene) + checks.only_copies(scene)
    return wrong + checks.untouched(scene, start)


@dataclass(frozen=True, slots=True)
class Landing:
    """A story that landed, by the journal, with the checks that it names for it."""

    story: int
    commit: str
    commands: tuple[str, ...]


def _journal(scene: Scene) -> tuple[str, list[Landing]]:
    """The commit that the run began from, and what landed."""
    found = (scene.repo / ".git").rglob("untildone/runs/*/journal.jsonl")
    path = max(found, key=lambda path: path.stat().st_mtime)  # a start that was cut short has one
    facts = [row for row in map(json.loads, path.read_text().splitlines()) if "fact" in row]
    of_kind = {fact["fact"]: fact["data"] for fact in reversed(facts)}
    every = of_kind["Started"]["plan"]["verify"]
    open_ones: dict[int, tuple[int, tuple[str, ...]]] = {}
    landed = []
    for fact in facts:
        data = fact["data"]
        if fact["fact"] == "AttemptStarted":
            open_ones[data["lane"]] = int(data["story_id"]), (*every, *data["checks"])
        elif fact["fact"] == "Landed":
            story, commands = open_ones[data["lane"]]
            landed.append(Landing(story, data["commit"], commands))
    return of_kind["Opened"]["checkpoint"], landed


def _history(scene: Scene, case: Case, code: int) -> Iterator[str]:
    """What a serial order of the stories would not have made."""
    base, landed = _journal(scene)
    log = scene.git("log", "--reverse", "--format=%H %P", f"{base}..ralph/x").splitlines()
    if [row.split() for row in log] != [
        [landing.commit, parent]
        for landing, parent in zip(landed, [base, *(it.commit for it in landed)], strict=False)
    ]:
        yield f"the branch is not the line of what landed: {log}, {landed}"
    if len({landing.story for landing in landed}) != len(landed):
        yield f"a story landed twice: {landed}"
    if (code == 0) != (len(landed) == len(case.stories)):
        yield f"the exit code is {code}, and {len(landed)} of {len(case.stories)} stories landed"
    fresh = scene.root / "fresh"
    scene.git("clone", "-q", "--branch", "ralph/x", str(scene.repo), str(fresh))
    for k, landing in enumerate(landed, 1):
        scene.git("-C", str(fresh), "checkout", "-q", landing.commit)
        yield from _commit(fresh, scene.env, case, landed[:k])
        scene.git("-C", str(fresh), "clean", "-qfdx")
    if code == 0:
        every = dict.fromkeys(command for landing in landed for command in landing.commands)
        yield from (f"done, but `{row}` is red" for row in every if _red(fresh, scene.env, row))


def _commit(fresh: Path, env: dict[str, str], case: Case, landed: list[Landing]) -> Iterator[str]:
    last = landed[-1]
    for command in last.commands:
        if _red(fresh, env, command):
            yield f"`{command}` is red at the commit of story {last.story}"
    ticked = {int(row[6:].split(".")[0]) for row in _lines(fresh, "tasks.md") if "- [x]" in row}
    if ticked != {landing.story for landing in landed}:
        yield f"with story {last.story} these boxes are ticked: {sorted(ticked)}"
    for landing in landed:
        for move in case.stories[landing.story - 1].moves:
            name, text = (part.format(s=landing.story) for part in TEXTS.get(move, ("", "")))
            if name and _lines(fresh, name).count(text) != 1:
                yield f"{name} at story {last.story} has not once what story {landing.story} wrote"


def _lines(folder: Path, name: str) -> list[str]:
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def _red(folder: Path, env: dict[str, str], command: str) -> bool:
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=env, timeout=PATIENCE_S, check=False
    )
    return done.returncode != 0


def explore_lanes(cases: int, seed_value: int) -> Explored:
    """Draw and play cases of this sort."""
    return explore(cases, seed_value, CASES, played)


if __name__ == "__main__":
    options = arguments(__doc__, 100).parse_args()
    sys.exit(play_many("random runs in lanes", options, explore_lanes))
