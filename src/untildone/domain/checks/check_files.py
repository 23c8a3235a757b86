"""What a check's command runs: programs, and files that an attempt must not change."""

import shlex
from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec import Struct

from untildone.domain.regex import regex

# What only looks at its operands: they are the work itself, not its proof.
LOOKS = frozenset(
    """
    test [ [[ cat grep egrep fgrep rg cmp diff head tail wc ls stat jq yq awk gawk sed cut sort uniq
    find echo printf true false touch mkdir rm cp mv ln tee file du md5sum sha1sum sha256sum od xxd
    strings tr column export unset set wait kill sleep exit return read date which type :
    """.split()  # noqa: SIM905 - a long list of words
)
# Words before the command that is meant; `timeout` has a value of its own.
PREFIXES = frozenset(
    (
        *("!", "{", "time", "exec", "command", "env", "sudo", "nice", "nohup", "timeout"),
        *("if", "elif", "while", "until", "then", "else", "do"),
    )
)
# Options of theirs whose value is a word of its own.
VALUED = {
    "nice": ("-n", "--adjustment"),
    "timeout": ("-k", "--kill-after", "-s", "--signal"),
    "env": ("-u", "--unset", "-C", "--chdir"),
    "sudo": ("-u", "-g", "-p", "-C", "-h"),
    "time": ("-f", "-o"),
    "exec": ("-a",),
}
SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh"))
BREAKS = frozenset(("fi", "done", "}", "esac", "in", "for", "case"))
_INTERPRETER = regex(r"(?:ba|da|z|k)?sh|python[\d.]*|node|ruby|perl|php|Rscript|lua")
INLINE = ("-c", "-e", "--eval", "-m", "-k")
_PUNCTUATION = "();<>|&\n"


class SimpleCommand(Struct, frozen=True):
    """One program call of a command line: where, and its words from the program on."""

    folder: str
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        """Its name without a folder."""
        return self.words[0].rpartition("/")[2]


def named_files(commands: Iterable[str]) -> tuple[str, ...]:
    """Relative paths that the commands seem to run; whether they are files is for others to see."""
    called = (one for command in commands for one in simple_commands(command))
    return tuple(dict.fromkeys(path for one in called for path in files_of(one)))


def scripts_of(commands: Iterable[str]) -> tuple[str, ...]:
    """Relative paths of the scripts that the commands are: by their name, or for an interpreter."""
    called = (one for command in commands for one in simple_commands(command))
    return tuple(dict.fromkeys(filter(None, map(_script, called))))


def _script(call: SimpleCommand) -> str:
    if "/" in call.words[0]:
        return _path(call.folder, call.words[0])
    if not _INTERPRETER.fullmatch(call.program):
        return ""
    rest = [word for word in call.words[1:] if word in INLINE or not word.startswith("-")]
    return _path(call.folder, rest[0]) if rest and rest[0] not in INLINE else ""


def files_of(call: SimpleCommand) -> Iterator[str]:
    """Relative paths that one program call seems to run."""
    return filter(None, (_path(call.folder, word) for word in _operands(call.words)))


def simple_commands(command: str, folder: str = "") -> Iterator[SimpleCommand]:
    """What a command line calls that does more than look, also inside `sh -c`."""
    for simple in _simple_commands(command):
        words = _meant(simple)
        program = words[0].rpartition("/")[2] if words else ""
        if program == "cd" and len(words) == 2:
            folder = f"{folder}{words[1].rstrip('/')}/"
        elif inside := _inline(words):
            yield from simple_commands(inside, folder)
        elif program and program not in LOOKS:
            yield SimpleCommand(folder, tuple(words))


# With these a program that is missing does not make the whole command fail with 127.
_MORE_THAN_A_CHAIN = regex(r"[|;&\n(){}`$]")
_JOINED = regex(r"&&|[<>]&\d?-?|&>")
_PROGRAM = regex(r"\w[\w.+-]*")
_BUILTINS = frozenset(
    """
    alias bg bind break builtin cd command continue declare disown eval exec exit export false fg
    getopts hash jobs kill let local popd printf pushd pwd read readonly return set shift shopt
    source suspend test time times trap true type typeset ulimit umask unalias unset wait
    """.split()  # noqa: SIM905 - a long list of words
)


def needed_programs(command: str) -> tuple[str, ...]:
    """Names of programs without any of which the command fails as one that cannot start."""
    if _MORE_THAN_A_CHAIN.search(_JOINED.sub(" ", command)):
        return ()
    words = (_meant(simple) for simple in _simple_commands(command))
    names = (found[0] for found in words if found)
    return tuple(name for name in names if _PROGRAM.fullmatch(name) and name not in _BUILTINS)


# What takes whatever comes through a pipe, and says that all is well.
_PASSES_ON = frozenset(
    """
    cat head tail tee sed awk gawk sort uniq cut tr column wc nl fold less more ts od xxd
    """.split()  # noqa: SIM905 - a long list of words
)
_ALWAYS_WELL = frozenset(("true", ":", "echo", "printf", "cat"))
# What only prepares: nobody wants to know how it ended.
_PREPARES = frozenset(("cd", "export", "set", "source", ".", "ulimit", "umask", "trap", "unset"))
_KEYWORDS = frozenset(("if", "for", "while", "until", "case", "{"))


def hidden_exit_code(command: str) -> str:
    """What keeps a failure inside the command from being its own: `|`, `;` or `||`, or nothing.

    What branches or loops, or ends with an exit code of its choice, is left to who wrote it.
    """
    parts = list(_joined(command))
    calls = [words for words, _ in parts if words]
    if any(map(_decides, calls)):
        return ""
    inside = (hidden_exit_code(_inline(_meant(words))) for words in calls if "-c" in words)
    hiding = (_hiding(*part, _meant(after)) for part, (after, _) in pairwise(parts))
    shown = {"", "|" if "pipefail" in command else "", ";" if ["set", "-e"] in calls else ""}
    return next((joint for joint in (*inside, *hiding) if joint not in shown), "")


def _decides(words: list[str]) -> bool:
    """Whether a command says by itself how all of it ends."""
    chosen = words[0] in ("exit", "false") and words[1:] != ["0"]
    return chosen or not _KEYWORDS.isdisjoint(words)


def _hiding(words: list[str], joint: str, after: list[str]) -> str:
    """The joint, if what comes after it hides how these words end."""
    program, then = _meant(words)[:1], after[:1]
    if not program or not then or program[0] in LOOKS | _PREPARES:
        return ""
    if joint in ("|", "|&"):
        return "|" if then[0] in _PASSES_ON else ""
    if joint in (";", "\n"):
        return ";"
    return joint if joint == "||" and then[0] in _ALWAYS_WELL else ""


def _inline(words: list[str]) -> str:
    """The command line that a shell is given as a word; empty if there is none."""
    shell = bool(words) and words[0].rpartition("/")[2] in SHELLS and "-c" in words[1:-1]
    return words[words.index("-c") + 1] if shell else ""


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The words of each simple command, without targets of redirections."""
    return (words for words, _ in _joined(command))


def _joined(command: str) -> Iterator[tuple[list[str], str]]:
    """The words of each simple command, and what joins it to the next one."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    words: list[str] = []
    redirected = False
    try:
        for word in lexer:
            if word and not set(word) - set(_PUNCTUATION):
                redirected = word[0] in "<>" or word.startswith("&>")
                if not redirected:
                    yield words, word
                    words = []
            elif redirected:
                redirected = False
            else:
                words.append(word)
    except ValueError:  # a quote that is left open: the shell will say so
        return
    yield words, ""


def _meant(words: list[str]) -> list[str]:
    """The words from the program on: no assignments, no keywords, no wrappers."""
    while words and (words[0] in PREFIXES or _is_assignment(words[0])):
        wrapper, words = words[0], words[1:]
        while words and words[0].startswith("-"):
            words = words[2 if words[0] in VALUED.get(wrapper, ()) else 1 :]
        words = words[1:] if wrapper == "timeout" else words
    return [] if words and words[0] in BREAKS else words


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _operands(words: tuple[str, ...]) -> Iterator[str]:
    if "/" in words[0]:
        yield words[0]
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in INLINE:
            skip = True
        elif word.startswith("--") and "=" in word:
            yield word.partition("=")[2]
        elif not word.startswith("-"):
            yield word.partition("::")[0]


def _path(folder: str, word: str) -> str:
    """The word as a path below the top, or nothing."""
    path = f"{folder}{word.removeprefix('./')}".replace("/./", "/").removeprefix("./")
    outside = path.startswith(("/", "~", "$")) or ".." in path.split("/")
    return "" if outside or not word else path
