"""What a story costs in untildone beside other loops: the same agent, the same commits."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.measure import BenchError, Command, Spent, best, spend
from bench.outcomes.arena import no_network
from bench.outcomes.loops.base import CannotRun
from bench.outcomes.loops.ralph_tui import CONFIG, RalphTui
from bench.outcomes.loops.ralphify import Ralphify
from bench.outcomes.loops.ralphy import Ralphy
from bench.programs import line
from bench.result import Result, cpu
from bench.scene import PROMPT, Scene, Stage, build

CHANGE = "all"
STORIES = 20
LIMIT_S = 120.0
COMMIT = "git add -A && git commit -q -m story"
PROMISE = "<promise>COMPLETE</promise>"
SESSION = "32fc7fc3-3850-423f-8dba-80a9fbf5d7dd"
MESSAGE = {"role": "assistant", "content": [{"type": "text", "text": PROMISE}]}
SUCCESS = {"subtype": "success", "is_error": False, "result": PROMISE}
# Every loop but the shell asks for stream-json; untildone fails a call without a result event.
ANSWER = (
    {"type": "system", "subtype": "init", "session_id": SESSION},
    {"type": "assistant", "message": MESSAGE, "session_id": SESSION},
    {"type": "result", **SUCCESS, "session_id": SESSION},
)


@dataclass(frozen=True)
class Entry:
    """One loop in the comparison."""

    name: str
    told: str
    # Installs the loop if need be and gives its command line.
    ready: Callable[[Stage], tuple[str, ...]]
    # Whether the loop commits; if not, the agent does after each story.
    commits: bool = True
    # At most so many times its CPU, in the smallest repository.
    bar: float | None = None


@dataclass
class Tally:
    """What is known of one loop: its command, the runs that counted, why others did not."""

    entry: Entry
    command: Command | None
    runs: list[Spent] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def out(self) -> bool:
        """Whether it is not worth trying again: a loop that hangs costs minutes each time."""
        return len(self.failures) > len(self.runs)


def other_loops(
    stage: Stage, others: Sequence[Entry] | None = None, sizes: Mapping[int, int] | None = None
) -> list[Result]:
    """CPU per story of a whole run beside other loops, in a small and in a big repository."""
    sizes = sizes or ({1000: 2} if stage.quick else {1000: 5, 20_000: 3})
    tallies = [_prepare(stage, entry) for entry in (OURS, *(OTHERS if others is None else others))]
    rows: list[Result] = []
    for files, rounds in sizes.items():
        folder = stage.folder / f"beside-{files}"
        scene = build(folder, files, {CHANGE: STORIES}, stage.env, _lists())
        ours, *theirs = [replace(tally, runs=[], failures=[*tally.failures]) for tally in tallies]
        for number in range(rounds):
            for tally in [ours, *theirs] if number % 2 == 0 else [*reversed(theirs), ours]:
                _try(scene, tally)
        if ours.failures:
            raise BenchError(ours.failures[0])
        decides = files == min(sizes)
        rows += [_row(files, best(ours.runs), tally, decides=decides) for tally in theirs]
    return rows


def _prepare(stage: Stage, entry: Entry) -> Tally:
    """Install a loop; one that cannot be installed is out from the start."""
    path = f"{_claude(stage, commits=not entry.commits)}:{stage.env['PATH']}"
    try:
        argv = entry.ready(stage)
    except CannotRun as error:
        return Tally(entry, None, failures=[str(error)])
    env = {**stage.env, "PATH": path}
    return Tally(entry, Command(argv, stage.folder, env, limit=LIMIT_S, prefix=no_network()))


def _try(scene: Scene, tally: Tally) -> None:
    if tally.command is not None and not tally.out:
        try:
            tally.runs.append(_run(scene, tally.command) / STORIES)
        except BenchError as error:
            tally.failures.append(str(error))


def _row(files: int, ours: Spent, tally: Tally, *, decides: bool) -> Result:
    entry = tally.entry
    name = f"other_loops, {files} files, {entry.name}"
    # Only the first line: the note is one line of a list.
    reason = tally.failures[0].partition("\n")[0] if tally.failures else ""
    if not tally.runs:
        return Result(name, ours.tree * 1000, None, "ms", note=f"not run: {reason}")
    note = f"untildone / {entry.told}; per story, {STORIES} stories, best of {len(tally.runs)}"
    if reason:
        note += f"; {len(tally.failures)} more did not count ({reason})"
    return cpu(name, ours, best(tally.runs), entry.bar if decides else None, note)


def _run(scene: Scene, command: Command) -> Spent:
    """Reset, run the loop, and be sure that it made a commit for every story."""
    scene.reset()
    spent = spend(replace(command, cwd=scene.work))
    lines = len(scene.git("show", "HEAD:notes.txt").splitlines())
    commits = int(scene.git("rev-list", "--count", "HEAD")) - 1  # the first one is of the scene
    if lines != STORIES or commits < STORIES:
        raise BenchError(f"stories committed: {lines} of {STORIES}, commits: {commits}")
    return spent


def _claude(stage: Stage, *, commits: bool) -> Path:
    """A folder with the instant agent under the name that every loop calls."""
    folder = stage.folder / ("claude-that-commits" if commits else "claude")
    folder.mkdir(exist_ok=True)
    answer = "\n".join(json.dumps(event) for event in ANSWER)
    script = [
        "#!/bin/sh",
        'if [ "$1" = --version ]; then echo "2.1.325 (Claude Code)"; exit; fi',
        f"{line(stage.programs.instant())} >/dev/null",
        *([COMMIT] if commits else []),
        f"echo '{answer}'",
    ]
    (folder / "claude").write_text("\n".join(script) + "\n")
    (folder / "claude").chmod(0o755)
    return folder


def _lists() -> dict[str, str]:
    """The stories in the format of each loop, in one repository for all of them."""
    boxes = "".join(f"- [ ] Story {n}\n" for n in range(1, STORIES + 1))
    stories = [
        {
            "id": f"S{n:02d}",
            "title": f"Story {n}",
            "description": "Do it",
            "acceptanceCriteria": ["It is done"],
            "priority": n,
            "passes": False,
            "dependsOn": [],
        }
        for n in range(1, STORIES + 1)
    ]
    told = {"name": CHANGE, "branchName": "main", "userStories": stories}
    return {
        "PRD.md": f"# Tasks\n\n{boxes}",
        "prd.json": json.dumps(told, indent=2) + "\n",
        ".ralph-tui/config.toml": CONFIG,
        "work/RALPH.md": f"---\nagent: claude -p\n---\n\n{PROMPT}",
    }


def _untildone(stage: Stage) -> tuple[str, ...]:
    return (str(stage.subject), "run", CHANGE, "--agent", "claude", "--on-complete", "keep")


def _shell(stage: Stage) -> tuple[str, ...]:
    prompt, output = stage.folder / "prompt.txt", stage.folder / "output.txt"
    prompt.write_text(PROMPT)
    script = str(stage.programs.literal)
    return ("sh", script, CHANGE, str(STORIES), str(prompt), str(output), "claude")


def _ralphy(stage: Stage) -> tuple[str, ...]:
    loop = Ralphy()
    loop.install(stage.tools)
    return (*loop.program(stage.tools), *loop.flags)


def _ralphify(stage: Stage) -> tuple[str, ...]:
    loop = Ralphify()
    loop.install(stage.tools)
    return (*loop.program(stage.tools), "run", "-n", str(STORIES), "work")


def _ralph_tui(stage: Stage) -> tuple[str, ...]:
    loop = RalphTui()
    loop.install(stage.tools)
    return (*loop.program(stage.tools), *loop.flags, "--iterations", str(STORIES))


BY_AGENT = "`git add -A` and `git commit` by the agent's script"
OURS = Entry("untildone", "-", _untildone)
OTHERS = (
    Entry("bare shell", "the shell loop of `loop_overhead`", _shell),
    Entry(
        "ralphy-cli + commit",
        f"ralphy-cli {Ralphy.version}, {BY_AGENT}",
        _ralphy,
        commits=False,
        bar=1.0,
    ),
    Entry(
        "ralphify + commit",
        f"ralphify {Ralphify.version}, {BY_AGENT}",
        _ralphify,
        commits=False,
        bar=1.0,
    ),
    Entry("ralph-tui", f"ralph-tui {RalphTui.version} with autoCommit", _ralph_tui),
)
