"""What must hold after every fault: no byte lost, the repository usable, no paid work repeated.

Bytes are looked for by their hash: on disk under their name, staged in the index, or reachable from
a ref. Reflogs do not count, but for the user's stash, which lives in one.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.torture.scene import USERS_BYTES, USERS_EXCLUDES, USERS_FILES, Scene

# One cause of a failure each: the counts that are printed.
LOST = "bytes lost"
UNUSABLE = "unusable repositories"
UNRECOVERED = "failed recoveries"
REPEATED = "finished stories run again"
LEFT_OVER = "own files left over"
ONLY_COPY = "slots that are the only copy"

KINDS = (LOST, UNUSABLE, UNRECOVERED, REPEATED, LEFT_OVER, ONLY_COPY)

BROKEN_BY_AGENT = b"broken\n"
OWN_FILE = ".claude/loop-state.json"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that went wrong."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class Start:
    """The user's state before the run."""

    head: str
    branch: str
    index: str
    stash: str
    status: str

    @classmethod
    def of(cls, scene: Scene) -> "Start":
        """As it is now."""
        return cls(
            scene.git("rev-parse", "HEAD"),
            scene.git("symbolic-ref", "-q", "HEAD"),
            scene.git("ls-files", "-s", "-t"),
            scene.git("stash", "list", "--format=%H %gs"),
            _status(scene),
        )


def _status(scene: Scene) -> str:
    rows = scene.git("status", "--porcelain", "-z", "-uall").split("\0")
    return "\n".join(row for row in rows if row and not row.endswith(OWN_FILE))


def blob_id(data: bytes) -> str:
    """The id that git gives to these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def stored(scene: Scene) -> set[str]:
    """Ids of all that a ref reaches (stash entries too), of the index, and of files on disk."""
    has_stash = scene.git("for-each-ref", "refs/stash")
    stashes = scene.git("rev-list", "-g", "refs/stash").split() if has_stash else []
    listed = scene.git("rev-list", "--objects", "--no-object-names", "--all", *stashes)
    found = {*listed.split(), *_staged(scene)}
    for path in (*files_of(scene.repo), *_elsewhere(scene)):
        if path.is_file() and not path.is_symlink():
            found.add(blob_id(path.read_bytes()))
    return found


def in_slot(scene: Scene, slot: Path) -> set[str]:
    """Ids of the files in a slot that are not ignored, and of what its own refs reach.

    But for its task list: what an agent writes there stays in the slot, as the contract has it.
    """
    files = (path for path in files_of(slot) if path.is_file() and not path.is_symlink())
    apart = (".env", "build", "tasks.md")
    own = (path for path in files if path.relative_to(slot).parts[0] not in apart)
    found = {blob_id(path.read_bytes()) for path in own}
    with contextlib.suppress(AssertionError):  # killed while its git folder was made
        found |= {*scene.git("-C", str(slot), "rev-list", "--all", "HEAD").split()}
    return found


def only_copies(scene: Scene) -> list[Fact]:
    """Slots that hold what is nowhere else."""
    have = stored(scene)
    kept = {slot: in_slot(scene, slot) - have for slot in scene.slots()}
    return [Fact(ONLY_COPY, f"{slot}: {', '.join(own)}") for slot, own in kept.items() if own]


def _staged(scene: Scene) -> Iterable[str]:
    index = scene.repo / ".git/index"
    if index.exists() and index.read_bytes() == BROKEN_BY_AGENT:
        return ()  # what was in it must be elsewhere, until the loop's next step mends it
    return (row.split()[1] for row in scene.git("ls-files", "-s").splitlines())


def _elsewhere(scene: Scene) -> Iterable[Path]:
    """Files that were moved out of the way, and those of the run's own worktree."""
    own = scene.repo / ".git" / "untildone"
    yield from own.rglob("aside/**/*")
    yield from own.rglob("worktree/**/*")
    rows = scene.git("worktree", "list", "--porcelain").splitlines()
    for row in rows[1:]:
        if row.startswith("worktree ") and Path(row[9:]).is_dir():
            yield from files_of(Path(row[9:]))


def files_of(top: Path) -> Iterable[Path]:
    for path in top.iterdir():
        if path.name != ".git":
            yield from path.rglob("*") if path.is_dir() and not path.is_symlink() else (path,)


def losses(
    scene: Scene, *, users_only: bool = False, staged: tuple[str, ...] = (), slots: bool = False
) -> list[Fact]:
    """Bytes of the user's and of every ended agent call that are nowhere.

    What lanes had begun is in their slots as long as nobody has recovered from the crash.
    """
    have = stored(scene)
    have.update(*(in_slot(scene, slot) for slot in scene.slots() if slots))
    for name, path in {"env": ".env", "cache": "build/cache.bin"}.items():
        if (scene.root / f"agent-removed-{name}").exists():
            have.add(blob_id(USERS_FILES[path].encode()))  # ignored files are the agent's to remove
    wrong = [
        Fact(LOST, f"the user's {text!r}")
        for text in (*USERS_BYTES, *staged)
        if blob_id(text.encode()) not in have
    ]
    for call in () if users_only else scene.calls():
        gone = call.left - have
        wrong += [Fact(LOST, f"a file of call {call.n}: {blob}") for blob in sorted(gone)]
        if call.head and call.promise is not None and call.head not in have:
            wrong.append(Fact(LOST, f"the commit of call {call.n}: {call.head}"))
    if not (scene.repo / ".git/info/exclude").read_text().startswith(USERS_EXCLUDES):
        wrong.append(Fact(LOST, "the user's own lines of .git/info/exclude"))
    return wrong


def checkpoints(scene: Scene) -> set[str]:
    """Stories with a checkpoint commit on a branch, or on one that was cleaned up."""
    where = ("--branches", "--glob=refs/ralph/archive")
    subjects = scene.git("log", *where, "--format=%s").splitlines()
    return {s.removeprefix("checkpoint: ") for s in subjects if s.startswith("checkpoint: ")}


def repeated(
    scene: Scene, finished: set[str], calls_then: int, *, in_order: bool = True
) -> list[Fact]:
    """Stories that were called again although they were finished."""
    calls = scene.calls()
    again = {call.story for call in calls[calls_then:]} & finished
    wrong = [Fact(REPEATED, f"story {story}, which had a checkpoint") for story in sorted(again)]
    order = [int(call.story) for call in calls]
    if in_order and order != sorted(order):
        wrong.append(Fact(REPEATED, f"calls in the order {order}"))
    return wrong


def expire_and_collect(scene: Scene) -> None:
    """Make git forget all that no ref holds."""
    branches = scene.git("for-each-ref", "--format=%(refname)", "refs/heads").split()
    scene.git("reflog", "expire", "--expire=all", "--expire-unreachable=all", "HEAD", *branches)
    scene.git("gc", "-q", "--prune=now")


def usable(scene: Scene) -> list[Fact]:
    """Git itself is content."""
    wrong = []
    for args in (("fsck", "--no-dangling"), ("status", "--porcelain"), ("stash", "list")):
        try:
            scene.git(*args)
        except AssertionError as error:
            wrong.append(Fact(UNUSABLE, str(error)))
    locks = [p for p in (scene.repo / ".git").rglob("*.lock") if "untildone" not in p.parts]
    return wrong + [Fact(UNUSABLE, f"a lock stays: {path.name}") for path in locks]


def after_cleanup(scene: Scene, start: Start, own_names: Iterable[str] = ()) -> list[Fact]:
    """The user's branch, index, stash and untouched files are as before, nothing of ours stays."""
    now = Start.of(scene)
    wrong = [
        Fact(UNRECOVERED, f"{name} is {getattr(now, name)!r}, was {getattr(start, name)!r}")
        for name in ("head", "branch", "index", "stash")
        if getattr(now, name) != getattr(start, name)
    ]
    branches = scene.git("for-each-ref", "--format=%(refname)", "refs/heads/ralph").split()
    wrong += [Fact(UNRECOVERED, f"{name} stays") for name in branches]
    return wrong + leftovers(scene)


def leftovers(scene: Scene) -> list[Fact]:
    """Drafts and other files of ours in the user's tree."""
    names = (str(path.relative_to(scene.repo)) for path in files_of(scene.repo) if path.is_file())
    ours = [n for n in names if "untildone" in n or (n.startswith(".claude") and n != OWN_FILE)]
    worktrees = scene.git("worktree", "list", "--porcelain").count("worktree ")
    wrong = [Fact(LEFT_OVER, name) for name in ours]
    return wrong + ([Fact(LEFT_OVER, "a linked worktree")] if worktrees > 1 else [])


def untouched(scene: Scene, start: Start) -> list[Fact]:
    """Everything exactly as before the run."""
    now = Start.of(scene)
    wrong = [] if now == start else [Fact(UNRECOVERED, f"not as before: {now} for {start}")]
    return wrong + changed_files(scene, USERS_FILES)


def changed_files(scene: Scene, expected: dict[str, str]) -> list[Fact]:
    """Files that do not hold what they should."""
    return [
        Fact(UNRECOVERED, f"{name} is not as expected")
        for name, text in expected.items()
        if not (path := scene.repo / name).is_file() or path.read_text() != text
    ]


def cleaned_up(scene: Scene) -> bool:
    """The state file says that the run ended with a cleanup."""
    path = scene.repo / OWN_FILE
    state = json.loads(path.read_text()) if path.exists() else {}
    return (state.get("phase"), state.get("choice")) == ("ended", "cleanup")


def state_is_valid(scene: Scene) -> list[Fact]:
    """The state file is there with a final word, or not there at all."""
    path = scene.repo / OWN_FILE
    if not path.exists():
        return []
    try:
        state = json.loads(path.read_text())
    except ValueError as error:
        return [Fact(UNRECOVERED, f"the state file is broken: {error}")]
    wrong = [
        f"iteration {entry['n']} ended before it started"
        for entry in state["iterations"]
        if not entry["ended"] or entry["ended"] < entry["started"]
    ]
    if state["status"] in ("starting", "running"):
        wrong.append(f"the status stays {state['status']}")
    return [Fact(UNRECOVERED, text) for text in wrong]
