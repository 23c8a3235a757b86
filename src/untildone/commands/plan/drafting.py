"""`plan`: an agent drafts the stories of a change in a copy of the project, `lint` judges them."""

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.checks.detect import detect
from untildone.adapters.git.repository import check_name, slug
from untildone.commands.plan.drafts import Draft, hashed, keep
from untildone.commands.plan.single_call import CallFailed, SingleCalls, failure, single_calls
from untildone.commands.start.lint import judged
from untildone.domain.agents.agent import Notice
from untildone.domain.agents.drafting import SOURCES, PlanForm, Wish, draft_prompt, form_of
from untildone.domain.checks.checks import AUTO, in_force
from untildone.domain.errors import StoriesError, UserError
from untildone.domain.plain_text import count_of, plain
from untildone.domain.regex import regex
from untildone.domain.run.plan_edits import refusal
from untildone.domain.secrets import secret
from untildone.domain.stories.lint import Finding, Level
from untildone.domain.stories.story import Story, StoryBook
from untildone.plain_files import read_bytes
from untildone.settings.settings import Settings
from untildone.wiring.repository import Repository
from untildone.wiring.sources import all_changes, story_source
from untildone.wiring.user_files import text_of

STORY = "plan"  # what the agent is told that it works on
MOST_FILES, LARGEST = 50, 1024 * 1024
_ISSUE = regex(r"#?\d+|https?://\S+/issues/\d+\S*")


class Request(Struct, frozen=True):
    """What is to be planned; empty where it is to be found out."""

    idea: str
    start: str = ""
    source: str = ""
    change: str = ""
    rounds: int = 3


class Drafted(Struct, frozen=True):
    """A draft with what `lint` says of it, and what of the agent's work was left out."""

    draft: Draft
    book: StoryBook | None
    added: tuple[Story, ...]
    findings: tuple[Finding, ...]
    left_out: tuple[str, ...]

    @property
    def errors(self) -> int:
        return sum(finding.level is Level.ERROR for finding in self.findings)

    @property
    def leaks(self) -> bool:
        """Whether it holds what nobody should read, and is kept nowhere."""
        return any(f.rule == "secret" and f.level is Level.ERROR for f in self.findings)


class Telling(Struct, frozen=True):
    """Who hears how far it is."""

    round: Callable[[int, int], None]
    notice: Callable[[Notice], None]
    judged: Callable[[Drafted], None]


class Drafting:
    """One plan on its way; `result` is what came of it so far."""

    def __init__(
        self, repository: Repository, settings: Settings, wish: Wish, calls: SingleCalls
    ) -> None:
        self._repo, self._settings, self._wish = repository, settings, wish
        self.calls = calls
        self.source = settings.source
        self.result: Drafted | None = None
        self._left_out: dict[str, None] = {}
        self._before = _contents(repository.place.top, wish.form)
        self._stories = self._book(repository.place.top) if self._before else None

    def rounds(self, most: int, telling: Telling, said: str = "") -> Drafted:
        """Draft, judge and mend, `most` calls at most; what could be mended stays in it."""
        for number in range(1, most + 1):
            telling.round(number, most)
            asked = list(_to_mend(self.result.findings)) if self.result else []
            if not self._call(draft_prompt(self._wish, asked, said), telling.notice):
                break
            self.result, said = self._judged(), ""
            self._keep()
            telling.judged(self.result)
            if not list(_to_mend(self.result.findings)):
                break
        if self.result is None or not self.result.draft.files:
            raise self._nothing()
        return self.result

    def _call(self, prompt: str, on_notice: Callable[[Notice], None]) -> bool:
        """Whether there is something new; trouble after a draft was made is no end of it."""
        report = self.calls.call(prompt, STORY, on_notice)
        promise = report.reading.promise
        trouble = failure(report, self.calls.agent)
        if promise and not promise.complete:
            why = f"{'asks' if promise.asks else 'gave up'}: {promise.reason}"
            trouble = CallFailed(
                f"The agent {plain(why)}",
                state="Your files were not touched.",
                hint="The same command again, with the answer in the idea.",
            )
        if trouble is None:
            return True
        if self.result is None or not self.result.draft.files:
            raise trouble
        return False

    def _judged(self) -> Drafted:
        copy, form = self.calls.copy, self._wish.form
        outside = [path for path in copy.changed() if not form.owns(path)]
        copy.put_back(outside)
        self._left_out |= dict.fromkeys(outside)
        files, findings = self._files(copy.place.top)
        book: StoryBook | None = None
        try:
            book = self._book(copy.place.top) if files else None
            findings += self._findings(book, copy.place.top) if book else []
        except StoriesError as error:
            findings.append(self._error("format", f"{error.message} {error.hint}".strip()))
        if not files and not findings:
            findings.append(self._error("format", f"Nothing was written into {form.path}"))
        hashes = {path: hashed(self._before[path]) for path in files if path in self._before}
        before = {path: hashes.get(path, "") for path in files}
        draft = Draft(self._wish.change, self.source, files, before)
        return Drafted(draft, book, self._added(book), tuple(findings), tuple(self._left_out))

    def _files(self, top: Path) -> tuple[dict[str, str], list[Finding]]:
        """The plan's files that are new or different, and what is wrong with them."""
        found, findings = dict[str, str](), list[Finding]()
        now = _contents(top, self._wish.form)
        for path, data in now.items():
            if data == self._before.get(path):
                continue
            try:
                text = data.decode()
            except UnicodeDecodeError:
                findings.append(self._error("format", "This is no text in UTF-8", path))
                continue
            if what := secret(path, data):
                row = next((n for n, line in _rows(data) if secret("", line)), 1)
                message = f"This looks like {what}: agents and logs would get it"
                findings.append(self._error("secret", message, path, row))
            found[path] = text
        gone = self._before.keys() - now.keys()
        findings += [self._error("format", "This file was removed: it stays", p) for p in gone]
        return found, findings

    def _book(self, top: Path) -> StoryBook:
        source = story_source(self.source, top, self._wish.change)
        assert source
        return source.load()

    def _findings(self, book: StoryBook, top: Path) -> list[Finding]:
        found = list(judged(self._repo.git(), top, book, self._settings))
        if self._stories and (why := refusal(self._stories, book, ("", ""))):
            found.append(self._error("format", f"The plan that is there has to stay: {why}"))
        added = self._added(book)
        found += [
            self._error("done", f"Story {s.id} is ticked, and nothing is done yet", line=s.line)
            for s in added
            if s.complete
        ]
        if not added:
            found.append(self._error("format", "There is no new story"))
        return found

    def _added(self, book: StoryBook | None) -> tuple[Story, ...]:
        known = {story.key for story in self._stories.stories} if self._stories else set()
        return tuple(s for s in book.stories if s.key not in known) if book else ()

    def _error(self, rule: str, message: str, path: str = "", line: int = 1) -> Finding:
        where = path or self._wish.form.path
        return Finding(Level.ERROR, rule, where, line, None, message)

    def _keep(self) -> None:
        """From now on no token that was paid for is lost, whatever ends this process."""
        result = self.result
        if result and result.draft.files and not result.leaks:
            keep(self._repo, result.draft)

    def _nothing(self) -> CallFailed:
        return CallFailed(
            f"The agent `{self.calls.agent}` has written no plan into {self._wish.form.path}",
            state="Your files were not touched.",
            hint="Say more of what is wanted, or name another agent with `--agent`.",
        )


@contextlib.contextmanager
def drafting(repository: Repository, settings: Settings, request: Request) -> Iterator[Drafting]:
    """Everything that can be refused is refused before the first call."""
    top = repository.place.top
    idea, title = _idea(top, request)
    source = request.source or _usual_source(top)
    if source not in SOURCES:
        raise UserError(
            f"No plan can be drafted in the format `{source}`",
            state="Nothing was changed.",
            hint=f"One of: {', '.join(SOURCES)}",
        )
    settings = replace(settings, source=source, source_file="")
    change = _change(repository, source, request.change, title)
    form = form_of(source, change)
    checks = [check.command for check in in_force(settings.verify) if check.command != AUTO]
    wish = Wish(
        change, idea, form, tuple(checks) or tuple(detect(top)), (top / form.path).is_file()
    )
    also = ("openspec",) if source == "openspec" else (form.path,)
    with single_calls(repository, settings, change, also) as calls:
        yield Drafting(repository, settings, wish, calls)


def _idea(top: Path, request: Request) -> tuple[str, str]:
    """The idea in full, and what it is called."""
    start, text, title = request.start, "", ""
    if start and Path(start).is_file():
        text, title = text_of(Path(start), "The text to plan from"), Path(start).stem
    elif _ISSUE.fullmatch(start):
        from untildone.adapters.stories.github import issue_text

        title, body = issue_text(top, start)
        text = f"{title}\n\n{body}"
    elif start:
        raise UserError(
            f"`--from` names neither a file nor an issue: {start}",
            state="Nothing was changed.",
            hint="A path, `-` for standard input, or an issue's number or address.",
        )
    parts = [part.strip() for part in (request.idea, text) if part.strip()]
    if not parts:
        raise UserError(
            "There is no idea to plan",
            state="Nothing was changed.",
            hint='untildone plan "what should be different, and for whom"',
        )
    return "\n\n".join(parts), request.idea.strip() or title.strip("-")


def _usual_source(top: Path) -> str:
    """The format that is in use here; a single file where none is."""
    if (top / "openspec").is_dir():
        return "openspec"
    return "prd-json" if (top / "prd.json").is_file() else "tasks-md"


def _change(repository: Repository, source: str, told: str, title: str) -> str:
    """The name of the change; a made-up one is not the name of another."""
    if source == "prd-json":
        return f"prd-{told.removeprefix('prd-')}" if told and told != "prd" else "prd"
    if source == "tasks-md":
        return told or "tasks"
    change = told or slug(title, 32) or "plan"
    check_name(repository.git(), change)
    if not told and change in all_changes(repository.place.top):
        raise UserError(
            f"There is a change of this name already: {change}",
            state="Nothing was changed.",
            hint=f"`--change {change}` plans more stories for it, another name begins a new one",
        )
    return change


def _to_mend(findings: Iterable[Finding]) -> Iterator[str]:
    """What the agent is told; a script that a story has yet to write is none of it."""
    for finding in findings:
        later = finding.rule == "cannot-start" and finding.level is Level.WARNING
        if finding.level is not Level.INFO and not later:
            fix = f" Write: {finding.fix}" if finding.fix else ""
            yield f"{finding.path}:{finding.line}: {finding.message}.{fix}"


def _contents(top: Path, form: PlanForm) -> dict[str, bytes]:
    """The ordinary files of a plan, few and small enough for one."""
    walked = os.walk(top / form.path) if form.is_folder else ()
    inside = sorted(Path(folder, name) for folder, _, names in walked for name in names)
    found: dict[str, bytes] = {}
    for path in inside if form.is_folder else [top / form.path]:
        with contextlib.suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST:
                found[path.relative_to(top).as_posix()] = read_bytes(path)
    return dict(list(found.items())[:MOST_FILES])


def _rows(data: bytes) -> Iterator[tuple[int, bytes]]:
    return enumerate(data.split(b"\n"), 1)


def told(drafted: Drafted) -> str:
    """What a draft is, in one line."""
    stories = count_of(len(drafted.added), "story", "stories")
    files = ", ".join(drafted.draft.files)
    return f"{stories} in {files}" if files else "Nothing was written"
