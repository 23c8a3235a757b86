"""From settings and what is in the repository to a plan: source, done criterion, limits."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from untildone.adapters.checks.detect import LOOKED_FOR, detect, text_inside
from untildone.adapters.git.repository import head_of, slug
from untildone.adapters.sessions.meter import split_command
from untildone.domain.checks.check_files import (
    hidden_exit_code,
    named_files,
    scripts_of,
    simple_commands,
)
from untildone.domain.checks.checks import AUTO, Level, in_force, parse
from untildone.domain.checks.runner_settings import RunnerSetting, settings_of
from untildone.domain.costs.budget import Budget, merged, read
from untildone.domain.errors import UserError
from untildone.domain.reporting.notification import shown
from untildone.domain.run.plan import Done, Limits, Plan
from untildone.domain.stories.story import StoryBook, checked
from untildone.ports import StorySource
from untildone.settings.choices import SOURCES
from untildone.settings.settings import (
    COMMANDS,
    FILE_NAME,
    SETTINGS,
    STRICT,
    TROUBLE_BUDGET,
    Settings,
)
from untildone.wiring.agents import agent_options_of, names_of
from untildone.wiring.repository import Repository
from untildone.wiring.sources import (
    HINTS,
    all_changes,
    change_exists,
    changes,
    inside,
    looked_for,
    open_changes,
    options_of,
    story_source,
)
from untildone.wiring.user_files import template_of

PLAIN_ITERATIONS = 10
MANUAL_WARNING = "No tasks.md found, using manual done criteria"
NO_END = (
    "Nothing that the agent says ends this run: it goes on until you type `untildone done "
    "{change}`, until {stall} calls in a row change nothing, or until {most} calls are made. "
    "To let a COMPLETE end it, start it with `--done promise`"
)
NOTHING_FOUND = (
    f"{{asked}} found no tests at the top of this project (it looks for {LOOKED_FOR}): "
    "the run goes by the agent's word alone. `--verify CMD` names a check"
)

# What says which checks the next run has.
CONFIGURATION = (
    RunnerSetting("untildone", FILE_NAME),
    RunnerSetting("untildone", "pyproject.toml", "tool.untildone"),
)
ONLY_LOOKS = (
    "This only looks and tests nothing, so that any attempt can make it pass: {}. `--verify auto` "
    "finds the tests of a project"
)
NO_FILE = (
    "No file is known that an attempt must leave alone so that this proves anything: {}. "
    "`--protect GLOB` names such files"
)
SHOWS_FAILURES = {
    "|": "Type instead: bash -o pipefail -c {command}",
    ";": "Type `&&` instead of `;`",
    "||": "Leave out the `||` and what follows",
}


class Wanted(Struct, frozen=True):
    """What the person asked for on the command line; `origins`: where commands are written."""

    change: str = ""
    task: str = ""
    onto: str = ""
    include_flagged: bool = False
    source_file: str = ""
    source: str = "auto"
    origins: dict[str, str] = field(default_factory=dict)


class Prepared(Struct, frozen=True):
    """A plan with its story source; `book` is None in the plain loop."""

    plan: Plan
    source: StorySource | None
    book: StoryBook | None
    warnings: tuple[str, ...] = ()

    @property
    def open_stories(self) -> int | None:
        return _open_stories(self.book)


class SeveralChanges(UserError):
    """More than one change is open: somebody has to say which."""

    def __init__(self, names: list[str], more: list[str]) -> None:
        also = f" Checklists that are open too: {', '.join(more)}" if more else ""
        super().__init__(
            f"Several changes are open: {', '.join(names)}",
            state=f"Nothing was changed.{also}",
            hint=f"untildone run {names[0]}",
        )
        self.names = names


def pick_change(repository: Repository, wanted: Wanted) -> str:
    """The change to run: named, the one of this branch, or the only open one."""
    if wanted.change:
        return wanted.change
    if wanted.task:
        return slug(wanted.task) or "task"
    if wanted.source_file:
        return slug(Path(wanted.source_file).stem) or "stories"
    branch, _ = head_of(repository.place.git_dir)
    if branch.startswith("ralph/") and repository.newest(branch.removeprefix("ralph/")):
        return branch.removeprefix("ralph/")
    return _only_open_change(repository.place.top, wanted.source)


def _only_open_change(top: Path, source: str) -> str:
    rows = open_changes(top, source)
    if not rows:
        raise _nothing_open(source)
    names = list(dict.fromkeys(row.name for row in rows))
    if len(names) > 1:
        guessed = [r for r in changes(top) if r.guessed and r.found.open and r not in rows]
        raise SeveralChanges(names, [f"{row.name} ({row.source})" for row in guessed])
    return names[0]


def _nothing_open(source: str) -> UserError:
    looked = HINTS if source == "auto" else SOURCES[source]
    if not looked:
        return UserError(
            f"The source `{source}` lists nothing by itself: name what to run",
            state="Nothing was changed.",
            hint=f"untildone run CHANGE --source {source}",
        )
    return UserError(
        "No open change was found in this repository",
        state=f"Nothing was changed. {looked_for(looked)}",
        hint="Write stories as `- [ ]` lines into tasks.md, or without stories: "
        'untildone run --task "what should be done" --done promise',
    )


def prepare(top: Path, settings: Settings, wanted: Wanted, change: str, run_id: str) -> Prepared:
    """The plan of a new run; every mistake in it is found before anything is touched."""
    if settings.source_file:
        settings = replace(settings, source_file=inside(top, settings.source_file))
    source = story_source(settings.source, top, change, options_of(settings))
    plain = bool(wanted.task)
    _refuse_archive(settings, source, top, change)
    if not source and not plain:
        known_change(top, change)
        plain = True
    task = wanted.task or _change_task(top, change, plain=plain)
    done, warnings = _done(settings, top, change, source, plain=plain)
    _refuse_promise(done, plain=plain)
    settings = _for_lanes(settings, source, change, plain=plain)
    if plain:
        source = _criterion_source(top, change, source) if done is Done.TASKS else None
    split_command(settings.usage_cmd)
    template_of(top, settings.prompt_template)
    settings, remarks, detected = with_detected(settings, top)
    book = checked(source.load()) if source and not plain else None
    open_stories = _open_stories(book)
    manual = plain and done is Done.MANUAL
    # Of a run that no check can end the person hears only what does.
    warnings = (*warnings, *_ignored(book), *remarks * (not manual))
    cap = iterations(settings.max_iterations, settings.max_retries, open_stories)
    warnings = (*warnings, *_no_end(settings, change, cap, manual=manual))
    plan = Plan(
        change_id=change,
        run_id=run_id,
        task=task,
        plain=plain,
        done=done,
        source=source.name if source else "",
        limits=Limits(max_iterations=cap, **of_limits(settings)),
        verify_found=() if plain else not_asked_for(settings, top),
        configured_max=settings.max_iterations,
        lanes=settings.lanes,
        budgets=merged((), read(settings.budget)),
        trouble_budgets=merged(read(TROUBLE_BUDGET), read(settings.trouble_budget)),
        agent_args=agent_options_of(settings).args,
        agent_env=names_of(agent_options_of(settings)),
        origins=wanted.origins | detected,
        **of_plan(settings),
    )
    return Prepared(plan, source, book, warnings)


def renewed(
    plan: Plan,
    settings: Settings,
    flags: dict[str, object],
    current: int,
    book: StoryBook | None,
    detected: Mapping[str, str],
) -> Plan:
    """The plan to go on with: the run's flags, given ones override, the cap counts from here."""
    given = _given(plan, flags)
    free = [name for name in given if not SETTINGS[name].fixed]
    over, limits = of_plan(settings, free), of_limits(settings, free)
    configured = settings.max_iterations if "max_iterations" in given else plan.configured_max
    retries = limits.get("max_retries", plan.limits.max_retries)
    open_stories = None if plan.plain else _open_stories(book)
    limits["max_iterations"] = current + iterations(configured, retries, open_stories)
    if "lanes" in given:
        over["lanes"] = _more_lanes(plan, settings.lanes)
    if "done" in given:
        over["done"] = Done(settings.done)
    spelled = {key: SETTINGS[key].flags for key in given & set(COMMANDS)}
    over["origins"] = {**plan.origins, **spelled, **detected} if spelled else plan.origins
    plan = plan.with_budgets(given_budgets(flags))
    if "trouble_budget" in given:
        over["trouble_budgets"] = merged(plan.trouble_budgets, read(settings.trouble_budget))
    if "agent_arg" in given:
        over["agent_args"] = agent_options_of(settings, over.get("agent", plan.agent)).args
    over |= {"agent_env": names_of(agent_options_of(settings)), "notify": shown(settings.notify)}
    return replace(plan, **over, limits=replace(plan.limits, **limits), configured_max=configured)


def _more_lanes(plan: Plan, lanes: int) -> int:
    why = no_lanes(plan.checkpoint, plain=plan.plain)
    if plan.checkpoint == "branch":
        why = "This run works in your own files, and several lanes need a worktree of its own"
    if lanes != 1 and why:
        hint = f"untildone resume {plan.change_id}"
        raise UserError(why, state="Nothing was changed.", hint=hint)
    return lanes


def _given(plan: Plan, flags: Mapping[str, object]) -> set[str]:
    """The settings that these flags decide about."""
    given = {name for name, value in flags.items() if value not in (None, ())}
    if "strict" in given:
        given |= {key for key in STRICT if key != "verify" or not plan.verify}
    if given & {"agent", "agents", "agent_cmd"}:
        given |= {"agent", "agents"}  # each flag decides over both, see settings/load.py
    return given


def _open_stories(book: StoryBook | None) -> int | None:
    return len(book.open_stories(frozenset())) if book else None


def given_budgets(flags: Mapping[str, object]) -> tuple[Budget, ...]:
    texts = flags.get("budget")
    return read(texts) if isinstance(texts, tuple) else ()


def iterations(configured: int, retries: int, open_stories: int | None) -> int:
    """The cap of a run."""
    if configured:
        return configured
    return PLAIN_ITERATIONS if open_stories is None else max(1, open_stories) * (1 + retries)


# ---------------------------------------------------------------------------------------------


def _refuse_promise(done: Done, *, plain: bool) -> None:
    if done is Done.PROMISE and not plain:
        raise UserError(
            "`--done promise` is for a run without stories",
            hint='untildone run --task "what should be done" --done promise',
        )


def _for_lanes(
    settings: Settings, source: StorySource | None, change: str, *, plain: bool
) -> Settings:
    """Several lanes need a worktree of the run's own, and stories to tell apart."""
    if settings.lanes == 1:
        return settings
    if why := no_lanes(settings.checkpoint, plain=plain):
        raise UserError(why, state="Nothing was changed.", hint=f"untildone run {change} --lanes 1")
    return replace(settings, checkpoint="worktree")


def no_lanes(checkpoint: str, *, plain: bool) -> str:
    """Why several stories cannot be worked on at once; empty if they can."""
    if plain:
        return "Several lanes work on stories, and a run with one task has none"
    if checkpoint == "stash":
        return "Several lanes land commits on a branch, and `--checkpoint stash` makes no commits"
    return ""


def _refuse_archive(settings: Settings, source: StorySource | None, top: Path, change: str) -> None:
    """What could not be archived after the last story is refused before the first."""
    if not settings.archive:
        return
    if source is None or source.name != "openspec":
        raise UserError(
            "`--archive` is for OpenSpec changes",
            state="Nothing was changed.",
            hint=f"untildone run {change}",
        )
    from untildone.adapters.stories.openspec_archive import check

    check(top, change)


def known_change(top: Path, change: str) -> None:
    if change_exists(top, change):
        return
    from difflib import get_close_matches

    names = all_changes(top)
    near = get_close_matches(change, names, n=1)
    if near:
        hint = f"Did you mean `{near[0]}`? untildone run {near[0]}"
    elif names:
        hint = f"Changes here: {', '.join(names)}"
    else:
        hint = f'untildone run {change} --task "what should be done" --done promise'
    raise UserError(f"Unknown change: {change}", state="Nothing was changed.", hint=hint)


def _change_task(top: Path, change: str, *, plain: bool) -> str:
    if not plain:
        return f"Work through the stories of the change {change}"
    folder = top / "openspec" / "changes" / change
    files = sorted(str(p.relative_to(top)) for p in folder.rglob("*.md"))
    listed = "\n".join(f"- `{path}`" for path in files)
    return f"Implement the change `{change}` in this repository. Its documents:\n\n{listed}"


def of_plan(settings: Settings, keys: Collection[str] = SETTINGS) -> dict[str, Any]:
    """These settings, as far as the plan has them as they are, by the plan's names."""
    told = [SETTINGS[key] for key in keys if SETTINGS[key].plan]
    return {s.plan: s.in_plan(getattr(settings, s.key)) for s in told}


def of_limits(settings: Settings, keys: Collection[str] = SETTINGS) -> dict[str, Any]:
    """These settings, as far as the limits of a plan have them, by their names."""
    told = [SETTINGS[key] for key in keys if SETTINGS[key].limit]
    return {s.limit: getattr(settings, s.key) for s in told}


def _done(
    settings: Settings, top: Path, change: str, source: StorySource | None, *, plain: bool
) -> tuple[Done, tuple[str, ...]]:
    if settings.done:
        return Done(settings.done), ()
    if source or (plain and _criterion_source(top, change, source)):
        return Done.TASKS, ()
    return Done.MANUAL, (MANUAL_WARNING,)


def _no_end(settings: Settings, change: str, cap: int, *, manual: bool) -> tuple[str, ...]:
    """What will happen where nothing but the person ends a plain loop."""
    stall = settings.stall_threshold
    return (NO_END.format(change=change, stall=stall, most=cap),) if manual else ()


def _criterion_source(top: Path, change: str, source: StorySource | None) -> StorySource | None:
    if source:
        return source
    return story_source("tasks-md", top, change) if (top / "tasks.md").is_file() else None


def _ignored(book: StoryBook | None) -> tuple[str, ...]:
    if not book or not book.ignored:
        return ()
    lines = ", ".join(f"{r.line} ({r.why})" for r in book.ignored[:5])
    more = f" and {len(book.ignored) - 5} more" if len(book.ignored) > 5 else ""
    return (f"Lines of {book.path} that are not counted as tasks: {lines}{more}",)


def with_detected(
    settings: Settings, top: Path
) -> tuple[Settings, tuple[str, ...], dict[str, str]]:
    """The settings with `auto` (or `warn: auto`) spelled out, remarks, and what was found by."""
    for pair in settings.story_verify:
        if not all(part.strip() for part in pair.partition("=")):
            raise UserError(
                f"`--story-verify` must be ID=CMD, not {pair!r}",
                state="Nothing was changed.",
                hint='untildone run --story-verify "2=pytest tests/test_login.py"',
            )
    commands: list[str] = []
    remarks: tuple[str, ...] = ()
    origins: dict[str, str] = {}
    asked = "`--strict` (`--verify auto`)" if settings.strict else "`--verify auto`"
    for text in settings.verify:
        check = parse(text)
        if check.command != AUTO:
            commands.append(text)
            continue
        prefix = "" if check.level is Level.REQUIRED else f"{check.level}: "
        found = detect(top, clean=settings.clean_room)
        remarks = remarks if found else (NOTHING_FOUND.format(asked=asked),)
        commands += [f"{prefix}{command}" for command in found]
        origins |= {command: f"verify auto, found by {why}" for command, why in found.items()}
    return replace(settings, verify=tuple(commands)), remarks, origins


def with_files(plan: Plan, top: Path) -> Plan:
    """The plan with the files that its checks run, and the settings that their runners obey."""
    if not plan.protect_checks:
        return replace(plan, check_files=(), runner_settings=())
    commands = [c.command for c in in_force(plan.verify, _all_own_checks(plan))]
    obeyed = settings_of(commands, lambda path: text_inside(top, path))
    files = files_of_checks(plan.verify, top)
    configuration = CONFIGURATION if commands else ()  # without checks it takes none away
    return replace(plan, check_files=files, runner_settings=(*obeyed, *configuration))


def hiding_failures(plan: Plan) -> Iterator[str]:
    """One sentence per check that passes although what it runs has failed."""
    for check in in_force(plan.verify, _all_own_checks(plan)) if plan.checks_count else ():
        if joint := hidden_exit_code(check.command):
            instead = SHOWS_FAILURES[joint].format(command=shlex.quote(check.command))
            yield (
                f"The check `{check.command}` passes although what it runs fails: `{joint}` hides "
                f"its exit code. {instead}"
            )


def missing_scripts(plan: Plan, top: Path) -> Iterator[str]:
    """One sentence per script of a check that is not there: who writes it proves himself."""
    checks = in_force(plan.verify, _all_own_checks(plan)) if plan.checks_count else ()
    for check in checks:
        for path in scripts_of([check.command]):
            if not (top / path).exists():
                yield (
                    f"The check `{check.command}` runs `{path}`, which is not there: it fails "
                    "until somebody writes it, and a story that does is kept, but not counted as "
                    f"verified. Write and commit it first; a line `Touches: {path}` in the text of "
                    "a story lets that story write it"
                )


def guarding_nothing(plan: Plan, top: Path) -> Iterator[str]:
    """A sentence about required checks that only look, one about those without protected files."""
    checks = in_force(plan.verify, _all_own_checks(plan)) if plan.checks_count else ()
    required = [check.command for check in checks if check.level is Level.REQUIRED]
    looks, runs = list[str](), list[str]()
    for command in required:
        (runs if any(simple_commands(command)) else looks).append(command)
    if looks:
        yield ONLY_LOOKS.format(_ticked(looks))
    guarded = plan.protect or not plan.protect_checks
    bare = [] if guarded else [command for command in runs if _guards_nothing(command, top)]
    if bare:
        yield NO_FILE.format(_ticked(bare))


def _ticked(commands: Iterable[str]) -> str:
    return ", ".join(f"`{command}`" for command in commands)


def _guards_nothing(command: str, top: Path) -> bool:
    """Whether nothing that it runs or obeys can be protected."""
    files = files_of_checks([command], top)
    return not files and not settings_of([command], lambda path: text_inside(top, path))


def _all_own_checks(plan: Plan) -> tuple[str, ...]:
    written = (command for terms in plan.terms or () for command in terms.checks)
    configured = (pair.partition("=")[2].strip() for pair in plan.story_verify)
    return (*written, *configured)


def not_asked_for(settings: Settings, top: Path) -> tuple[str, ...]:
    """What could be checked when nobody asked for a check: named, never used."""
    return () if settings.verify else tuple(detect(top))


def files_of_checks(verify: Iterable[str], top: Path) -> tuple[str, ...]:
    """The files of the project that its checks run, as far as they exist."""
    commands = [check.command for check in in_force(verify)]
    return tuple(path for path in named_files(commands) if (top / path).is_file())
