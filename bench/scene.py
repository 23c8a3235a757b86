"""The repositories that are measured, and the stage they stand on."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.marks import Marks
from bench.measure import BenchError, Command, Spent, best, quiet, spend
from bench.programs import Programs

PAST = 1_600_000_000
# Where each variant keeps the commits of a change.
CHECKPOINTS = {"branch": "refs/heads/ralph/", "stash": "refs/ralph/work/"}
PROMPT = "Do the story that is described here, and nothing else.\n" * 20


@dataclass(frozen=True)
class Stage:
    """One run of the benchmarks: its folders, its programs, its environment."""

    folder: Path
    cache: Path
    programs: Programs
    env: Mapping[str, str]
    quick: bool

    @property
    def subject(self) -> Path:
        """The installed program, beside the interpreter that runs the benchmarks."""
        path = Path(sys.executable).parent / "untildone"
        if not path.exists():
            raise BenchError("`untildone` is not installed beside this Python: try `make test`")
        return path

    @property
    def tools(self) -> Path:
        """Where other loops are installed."""
        return tools_folder(self.cache)

    def untildone(self, scene: "Scene", *args: str, expect: tuple[int, ...] = (0,)) -> Command:
        """A command line of the program under measurement."""
        argv = (str(self.subject), *args)
        return Command(argv, scene.work, self.env, expect=expect)

    def story_run(
        self,
        scene: "Scene",
        change: str,
        agent: str,
        *,
        marks: Marks | None = None,
        variant: str = "branch",
        cap: int | None = None,
    ) -> Spent:
        """Reset, run a change (or its first `cap` stories), and be sure that it did its work."""
        scene.reset()
        args = ["run", change, "--agent-cmd", agent, "--on-complete", "keep"]
        args += ["--checkpoint", variant]
        args += ["--json"] if marks else []
        args += ["--max-iterations", str(cap)] if cap else []
        # The cap ends a run with open stories as `stuck`, exit 3.
        command = self.untildone(scene, *args, expect=(3,) if cap else (0,))
        spent = spend(replace(command, on_line=marks.hear if marks else None))
        scene.expect_checkpoints(CHECKPOINTS[variant] + change, cap or scene.changes[change])
        return spent

    def instant_alone(self, scene: "Scene") -> Spent:
        """What the instant agent costs without a loop."""
        command = Command(self.programs.instant(), scene.work, self.env)
        return best([spend(command) for _ in range(5)])

    def literal_run(
        self, scene: "Scene", change: str, agent: tuple[str, ...], marks: Marks | None = None
    ) -> Spent:
        """Reset, run a whole change with the literal commands, and be sure that they worked."""
        scene.reset()
        prompt = self.folder / "prompt.txt"
        prompt.write_text(PROMPT)
        output = self.folder / "output.txt"
        stories = str(scene.changes[change])
        script = str(self.programs.literal)
        argv = ("sh", script, change, stories, str(prompt), str(output), *agent)
        hear = marks.hear if marks else None
        spent = spend(Command(argv, scene.work, self.env, on_line=hear))
        scene.expect_checkpoints(CHECKPOINTS["branch"] + change, scene.changes[change])
        return spent


@dataclass(frozen=True)
class Scene:
    """A repository that can be put back to its first state, the git folder included."""

    root: Path
    changes: Mapping[str, int]
    env: Mapping[str, str]

    @property
    def work(self) -> Path:
        """The top folder of the worktree."""
        return self.root / "work"

    def git(self, *args: str, feed: bytes | None = None) -> str:
        """A git command that is not measured."""
        return quiet(("git", *args), self.work, self.env, feed)

    def reset(self) -> None:
        """Put the git folder back from its copy, then the files."""
        shutil.rmtree(self.work / ".git")
        shutil.copytree(self.root / "pristine", self.work / ".git", symlinks=True)
        self.git("reset", "-q", "--hard", "main")
        self.git("clean", "-ffdxq")
        os.sync()  # else the first sync of the measured program pays for this copy

    def expect_checkpoints(self, ref: str, count: int) -> None:
        """Complain unless every story has its checkpoint commit."""
        subjects = self.git("log", "--format=%s", ref).splitlines()
        found = sum(line.startswith("checkpoint: ") for line in subjects)
        if found != count:
            raise BenchError(f"checkpoints on `{ref}`: {found} of {count}")


def build(
    root: Path,
    files: int,
    changes: Mapping[str, int],
    env: Mapping[str, str],
    more: Mapping[str, str] | None = None,
) -> Scene:
    """Make a repository of so many files, about 20 in a folder, with changes of so many stories.

    `more` are further files: path and text.
    """
    scene = Scene(root, changes, env)
    scene.work.mkdir(parents=True)
    scene.git("init", "-q", "-b", "main")
    scene.git("fast-import", "--quiet", feed=b"".join(_stream(files, changes, more or {})))
    scene.git("reset", "-q", "--hard", "main")
    # Times in the past: else git reads files again that are as young as its index.
    for folder, _, names in os.walk(scene.work):
        if ".git" not in Path(folder).parts:
            for name in names:
                os.utime(Path(folder) / name, (PAST, PAST))
    scene.git("update-index", "-q", "--refresh")
    shutil.copytree(scene.work / ".git", root / "pristine", symlinks=True)
    return scene


def cached(stage: Stage, files: int, changes: Mapping[str, int]) -> Scene:
    """The same, kept between runs of the benchmarks because it is big."""
    shape = "-".join(f"{name}.{count}" for name, count in changes.items())
    root = stage.cache / f"files-{files}-{shape}"
    if not root.exists():
        partial = root.with_name(root.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        build(partial, files, changes, stage.env)
        partial.rename(root)
    scene = Scene(root, changes, stage.env)
    scene.reset()
    return scene


def cache_folder() -> Path:
    """What is kept between runs of the benchmarks: big repositories, installed programs."""
    cache = Path(tempfile.gettempdir()) / f"untildone-bench-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    if cache.is_symlink() or cache.stat().st_uid != os.getuid():
        raise BenchError("the cache folder in the temporary folder belongs to somebody else")
    return cache


def tools_folder(cache: Path) -> Path:
    """Where other loops are installed, once for all runs."""
    tools = cache / "peers"
    tools.mkdir(exist_ok=True)
    return tools


@contextmanager
def stage(*, quick: bool) -> Iterator[Stage]:
    """A stage with an empty HOME; everything but the cache is gone at the end."""
    cache = cache_folder()
    with tempfile.TemporaryDirectory(prefix="untildone-bench-") as name:
        folder = Path(name)
        home = folder / "home"
        home.mkdir()
        (home / ".gitconfig").write_text(
            "[user]\n\tname = Bench\n\temail = bench@example.invalid\n"
        )
        path = os.environ.get("PATH", os.defpath)
        env = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb"}
        yield Stage(folder, cache, Programs.prepare(folder / "programs"), env, quick)


def change_files(change: str, stories: int, ticked: int = 0) -> dict[str, str]:
    """The files of an OpenSpec change of so many stories, the first of them ticked."""
    tasks = "\n".join(
        f"## {n}. Story {n}\n\n- [{'x' if n <= ticked else ' '}] {n}.1 Do it\n"
        for n in range(1, stories + 1)
    )
    folder = f"openspec/changes/{change}"
    return {
        f"{folder}/proposal.md": f"# {change}\n\n## Why\nTo measure.\n",
        f"{folder}/tasks.md": tasks,
    }


def _stream(files: int, changes: Mapping[str, int], more: Mapping[str, str]) -> Iterator[bytes]:
    """The repository as input of `git fast-import`."""
    yield b"commit refs/heads/main\ncommitter Bench <bench@example.invalid> %d +0000\n" % PAST
    yield b"data 5\nstart\n"
    for i in range(files):
        path = f"p{i // 2000:02d}/d{i // 20 % 100:03d}/f{i % 20:02d}.txt"
        yield _file(path, f"file {i}\n" + "a line of ordinary text\n" * 8)
    yield _file("openspec/project.md", "# Bench\n")
    for change, stories in changes.items():
        for path, text in change_files(change, stories).items():
            yield _file(path, text)
    for path, text in more.items():
        yield _file(path, text)


def _file(path: str, text: str) -> bytes:
    data = text.encode()
    return b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data)
