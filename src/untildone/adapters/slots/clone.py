"""The git folder of a private clone: it borrows the user's objects and shares nothing else.

It is made by hand and comes into its place as a whole. No remote, no refs, stash, hooks or settings
of the user's are in it, so that nothing an agent does to git there reaches the user's repository.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from untildone.adapters.checks.clean_checkout import remove_folder
from untildone.adapters.git.damaged import is_readable
from untildone.adapters.git.environment import disk_settings
from untildone.adapters.git.git import Git
from untildone.adapters.git.object_files import content
from untildone.adapters.git.place import Place
from untildone.adapters.git.trees import Trees
from untildone.adapters.records.durable import free_name, replace_file, sync_folder
from untildone.domain.errors import UserError

# What decides about bytes and authors, wherever the user has set it.
SECTIONS = ("user", "author", "committer", "filter", "merge", "diff", "i18n")
CORE = (
    *("autocrlf", "eol", "safecrlf", "attributesfile", "excludesfile", "checkroundtripencoding"),
    *("bigfilethreshold", "precomposeunicode", "protecthfs", "protectntfs", "whitespace"),
    *("sparsecheckout", "sparsecheckoutcone"),
)
# Ours: an agent's commits start no hook, no signature and no housekeeping.
OWN = (
    *(("core.bare", "false"), ("core.logallrefupdates", "true"), ("index.sparse", "false")),
    *(("gc.auto", "0"), ("maintenance.auto", "false")),
    *(("commit.gpgsign", "false"), ("tag.gpgsign", "false")),
)
USE_WORKTREE = "Use `--slots worktree`, whose lanes share the repository's git folder."
SHARED_FILES = ("info/exclude", "info/attributes", "shallow")
# Without these git sees no repository.
FOLDERS = ("objects/info", "objects/pack", "refs/heads", "hooks", "info")


def refuse_what_needs_more(users: Git, base: str) -> None:
    """What cannot be had without the user's own git folder."""
    if users.config("extensions.partialclone"):
        raise _refusal("This is a partial clone: git fetches missing files from its remote")
    if Trees(users).entry(users.tree_of(base), b".gitmodules"):
        raise _refusal("The repository has submodules")
    if users.config("filter.lfs.clean") and _uses_lfs(users, base):
        raise _refusal("The repository has files in Git LFS")


def _uses_lfs(users: Git, base: str) -> bool:
    files = (":(top,glob)**/.gitattributes",)
    return users.ask("grep", "-q", "-I", "-e", "filter=lfs", base, "--", *files).ok


def _refusal(why: str) -> UserError:
    return UserError(
        f"{why}, which a private clone would not have",
        state="Nothing was changed.",
        hint=USE_WORKTREE,
    )


class UsersSettings:
    """The user's settings in force, as far as slots get them.

    They are those of the first slot: what the bytes of a file are must not change in mid run.
    """

    def __init__(self, git: Git) -> None:
        self._git = git
        self._known: tuple[tuple[str, str], ...] | None = None
        self._asking = Lock()  # one thread asks, the others wait for the answer

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Names and values, but for what our own commands are started with."""
        with self._asking:
            if self._known is None:
                self._known = self._read()
            return self._known

    def is_sha256(self) -> bool:
        return self._git.config("extensions.objectformat") == "sha256"

    def _read(self) -> tuple[tuple[str, str], ...]:
        fields = os.fsdecode(self._git.do("config", "-z", "--list", "--show-scope")).split("\0")
        found = []
        for scope, row in zip(fields[::2], fields[1::2], strict=False):
            name, given, value = row.partition("\n")
            section, _, rest = name.partition(".")
            if scope != "command" and (section in SECTIONS or (section == "core" and rest in CORE)):
                found.append((name, value if given else "true"))
        return tuple(found)


def make(users: UsersSettings, user: Place, slot: Place, head: str, commit: str) -> None:
    """The git folder of a slot, with one branch and HEAD on it."""
    draft = slot.git_dir.with_name(f"{slot.git_dir.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    slot.top.mkdir(exist_ok=True)
    draft.mkdir(parents=True)
    _fill(users, user, Place(slot.top, draft, draft), slot.git_dir)
    set_head(draft, head, commit)
    draft.rename(slot.git_dir)
    sync_folder(slot.git_dir.parent)
    point(slot, slot.git_dir.parent / "damaged")


def is_whole(slot: Place) -> bool:
    """Whether git would see a repository, whatever is in it."""
    return all((slot.git_dir / name).is_dir() for name in ("objects", "refs"))


def repair(users: UsersSettings, user: Place, slot: Place, head: str) -> None:
    """Settings, hooks and borrowed objects as we made them, whatever an agent has made of them."""
    _fill(users, user, slot, slot.git_dir)
    if not is_readable(slot.git_dir / "HEAD"):
        _put(slot.git_dir / "HEAD", f"ref: {head}\n".encode())
    point(slot, slot.git_dir.parent / "damaged")


def has_own_objects(user: Place, slot: Place) -> bool:
    """Whether git may find objects in a slot that the user's repository does not have."""
    objects = slot.git_dir / "objects"
    folders = (f for f in (objects, objects / "pack") if f.is_dir())
    names = {entry.name for folder in folders for entry in os.scandir(folder)}
    return names != {"info", "pack"} or content(objects / "info/alternates") != _borrowed(user)


def _borrowed(user: Place) -> bytes:
    return os.fsencode(user.common_dir / "objects") + b"\n"


def empty(slot: Place) -> None:
    """Forget all refs, logs and objects of its own: the user's repository has them by now."""
    for name in ("refs", "logs", "objects", "worktrees", "modules"):
        if (slot.git_dir / name).is_dir():
            remove_folder(slot.git_dir / name)
    for path in slot.git_dir.iterdir():
        if path.is_file() and path.name not in ("config", "index", "shallow"):
            path.unlink()


def set_head(git_dir: Path, head: str, commit: str) -> None:
    """The one branch at a commit, and HEAD on it; their logs begin here."""
    for log in (git_dir / "logs" / head, git_dir / "logs" / "HEAD"):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
    ref = git_dir / head
    ref.parent.mkdir(parents=True, exist_ok=True)
    replace_file(ref, [f"{commit}\n".encode()], git_dir / "ref.draft")
    replace_file(git_dir / "HEAD", [f"ref: {head}\n".encode()], git_dir / "HEAD.draft")


def point(slot: Place, aside: Path) -> None:
    """The file `.git` that leads git from the files to its folder.

    A repository that an agent has made in its place holds what only it knows: it is moved aside.
    """
    path, wanted = slot.top / ".git", b"gitdir: %s\n" % os.fsencode(slot.git_dir)
    if not path.is_symlink() and content(path) == wanted:
        return
    if os.path.lexists(path):
        aside.mkdir(exist_ok=True)
        path.rename(free_name(aside, "git"))
    replace_file(path, [wanted], aside.with_name("pointer.draft"))


def _fill(users: UsersSettings, user: Place, slot: Place, git_dir: Path) -> None:
    for name in FOLDERS:
        path = slot.git_dir / name
        if path.is_symlink() or (os.path.lexists(path) and not path.is_dir()):
            path.unlink()
        path.mkdir(parents=True, exist_ok=True)
    for hook in os.scandir(slot.git_dir / "hooks"):
        with contextlib.suppress(OSError):
            os.unlink(hook.path)  # noqa: PTH108 - a path as text
    _put(slot.git_dir / "config", _settings(users, slot, git_dir))
    _put(slot.git_dir / "objects" / "info" / "alternates", _borrowed(user))
    for name in SHARED_FILES:
        _put(slot.git_dir / name, content(user.common_dir / name))
    _put(slot.git_dir / "info/sparse-checkout", content(user.git_dir / "info/sparse-checkout"))


def _put(path: Path, data: bytes) -> None:
    if not data:
        with contextlib.suppress(OSError):
            path.unlink()
    elif content(path) != data or path.is_symlink():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        replace_file(path, [data], path.with_name(f"{path.name}.draft"))


def _settings(users: UsersSettings, slot: Place, git_dir: Path) -> bytes:
    """The clone's `config`: the user's identity and what decides about bytes, and our own."""
    sha256 = users.is_sha256()
    rows = [("core.repositoryformatversion", "1" if sha256 else "0")]
    rows += [("extensions.objectformat", "sha256")] if sha256 else []
    rows += users.rows()
    known = (setting.partition("=") for setting in disk_settings(slot))
    rows += [*OWN, *((name, value) for name, _, value in known)]
    rows.append(("core.hooksPath", str(git_dir / "hooks")))
    return os.fsencode("".join(_lines(rows)))


def _lines(rows: list[tuple[str, str]]) -> Iterator[str]:
    for name, value in rows:
        section, _, rest = name.partition(".")
        between, _, key = rest.rpartition(".")
        named = f' "{_escaped(between)}"' if between else ""
        text = _escaped(value).replace("\n", "\\n").replace("\t", "\\t")
        yield f'[{section}{named}]\n\t{key} = "{text}"\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
