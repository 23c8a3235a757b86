"""Commands that are killed once a run has ended: what comes before each, and what may come of it.

The command after a killed one finishes it or takes it back: the repository is as before it, or as
after it, with HEAD, branches, index and every file; and `restore` still leads to before the run.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.torture import checks
from tests.torture.checks import UNRECOVERED, Fact, Start
from tests.torture.scene import Scene

STAGED = ("staged since the run\n", "staged since and deleted\n")
AGAIN, FIX, BACK = "the same again", "doctor --fix", "restore"


@dataclass(frozen=True, slots=True)
class Stand:
    """All that a command of ours may move."""

    start: Start
    branches: str
    files: dict[str, bytes]

    @classmethod
    def of(cls, scene: Scene) -> "Stand":
        """As it is now."""
        found = {
            str(path.relative_to(scene.repo)): path.read_bytes()
            for path in checks.files_of(scene.repo)
            if path.is_file() and not path.name.startswith("loop-state.json")
        }
        # A commit that is made again has another date.
        told = "--format=%(refname) %(tree) %(parent) %(subject)"
        branches = scene.git("for-each-ref", told, "refs/heads")
        head = scene.git("log", "-1", "--format=%T %P %s")
        return cls(replace(Start.of(scene), head=head), branches, found)

    def differs(self, other: "Stand") -> str:
        """What is not the same."""
        names = {*self.files, *other.files}
        files = [name for name in names if self.files.get(name) != other.files.get(name)]
        fields = ("head", "branch", "index", "stash", "status")
        parts = [n for n in fields if getattr(self.start, n) != getattr(other.start, n)]
        parts += [f"branches {self.branches!r}"] if self.branches != other.branches else []
        return ", ".join([*parts, *sorted(files)])


@dataclass(frozen=True, slots=True)
class Command:
    """A command to kill: what is done before it, and how one goes on after the kill."""

    args: tuple[str, ...]
    before: Callable[[Scene, str], None]
    recoveries: tuple[str, ...] = (AGAIN, FIX, BACK)
    # What undo takes back a second undo does again; doctor gives a run up; gc is told to remove
    # all that is stored, the user's earlier versions included.
    toggles: bool = False
    removes: bool = False
    forgets: bool = False
    commits: bool = False  # there is nothing to do where a run makes none
    staged: tuple[str, ...] = ()  # before it, and in no file: still behind a ref or in the index


def _done(*args: str) -> Callable[[Scene, str], None]:
    """A run to its end, then this command."""

    def prepared(scene: Scene, variant: str) -> None:
        choice = "keep" if not args or args[0] == "keep" else "cleanup"
        ran = scene.run_args(variant, "--on-complete", choice, "--quiet")
        codes = [scene.command(*ran)]
        codes += [scene.command(*args[1:])] if args[1:] else []
        assert not any(codes), scene.said.read_text()

    return prepared


def _staged(*args: str) -> Callable[[Scene, str], None]:
    """The same, then versions that are in the index only."""

    def prepared(scene: Scene, variant: str) -> None:
        _done(*args)(scene, variant)
        for name, text in zip(("other.txt", "gone.txt"), STAGED, strict=True):
            scene.write(name, text)
            scene.git("add", name)
        scene.write("other.txt", "in the file\n")
        (scene.repo / "gone.txt").unlink()

    return prepared


def _died(scene: Scene, variant: str) -> None:
    """A run whose loop was killed while its agent was at work."""
    scene.plan({"2": "echo half > work-2.txt\nsleep 60\n"})
    process = scene.begin(*scene.run_args(variant, "--quiet"))
    scene.wait_for(scene.root / "calls" / "2" / "story")
    process.kill()
    scene.end(process)


COMMANDS = {
    "undo": Command(("undo",), _done("cleanup"), toggles=True),
    "undo of restore": Command(("undo",), _done("cleanup", "restore", "x"), toggles=True),
    "undo --story": Command(("undo", "x", "--story", "1"), _done("keep"), commits=True),
    "restore": Command(("restore", "x"), _done("keep")),
    "restore after cleanup": Command(("restore", "x"), _done("cleanup")),
    "attempts --restore": Command(("attempts", "x", "--restore", "2/1"), _done("cleanup")),
    "restore of what is staged": Command(("restore", "x"), _staged("cleanup"), staged=STAGED),
    "attempts --restore beside what is staged": Command(
        ("attempts", "x", "--restore", "2/1"), _staged("cleanup"), staged=STAGED
    ),
    "finish": Command(("finish", "x", "cleanup"), _done("keep")),
    "gc": Command(("gc", "--all", "--yes"), _done("cleanup"), (AGAIN, FIX), forgets=True),
    "doctor --fix": Command(("doctor", "--fix", "--abandon", "x"), _died, removes=True),
}


def recovered(scene: Scene, command: Command, how: str, stands: tuple[Stand, ...]) -> list[Fact]:
    """Go on after the kill: as before the run, as before the command, or as after it."""
    start, before, after = stands
    args = {AGAIN: command.args, FIX: ("doctor", "--fix"), BACK: ("restore", "x")}[how]
    allowed = {AGAIN: (after,), FIX: (before, after), BACK: (start,)}[how]
    if command.toggles and how == AGAIN:
        allowed = (before, after)
    code, now = scene.command(*args), Stand.of(scene)
    wrong = [] if code in (0, 2) else [f"{how} exits {code}"]
    if now not in allowed:
        wrong.append(f"not as after {how}: {' | '.join(now.differs(stand) for stand in allowed)}")
    return [Fact(UNRECOVERED, text) for text in wrong]
