"""What was decided before a run begins."""

import math
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from untildone.domain.agents.agent import Permissions
from untildone.domain.checks.runner_settings import RunnerSetting, as_protected
from untildone.domain.checks.terms import Terms, named_agent, named_budget
from untildone.domain.costs.budget import Budget, merged, own
from untildone.domain.run.commit_message import DEFAULT as COMMIT_MESSAGE
from untildone.domain.stories.story import StoryKey

MOST_LANES = 64
# Sources whose stories are in no commit: another program keeps them, for all lanes at once.
TRACKERS = ("beads", "github")


class Done(StrEnum):
    """What makes a run done."""

    TASKS = "tasks"
    MANUAL = "manual"
    PROMISE = "promise"


def label(agent: str, model: str) -> str:
    """An agent and its model as NAME or NAME:MODEL."""
    return f"{agent}:{model}" if model else agent


class Limits(Struct, frozen=True):
    """Numbers that bound a run; times in minutes, sizes in MiB."""

    max_retries: int = 3
    max_iterations: int = 10
    stall_threshold: int = 2
    timeout_min: float = 45.0
    idle_timeout_min: float = 15.0
    max_file_mb: float = 50.0
    verify_timeout_min: float = 0.0
    repeat_limit: int = 500

    @property
    def check_min(self) -> float:
        """How long one check may take."""
        return self.verify_timeout_min or self.timeout_min


class Plan(Struct, frozen=True):
    """What was decided before the run began, flags included; `resume` starts from it.

    `sandbox` is what was asked for, `contained` what came of it. `fallback` is the agent (`NAME` or
    `NAME:MODEL`) that steps in while the usual one is at a limit. `verify_found` are checks that
    the project seems to have and that nobody asked for: they are only named. `ladder` are the
    agents, each `NAME` or `NAME:MODEL`, that a stuck story climbs; `agent` is then the first of
    them. `trouble_budgets` is how much work of one story passing trouble may cost before it is a
    failed attempt. `terms` are what the person wrote about each story before the run; None: the run
    was begun by a release that did not keep them. `agent_args` are the person's own arguments for
    agents, each `NAME=ARG`, and `agent_env` the variables that the configuration sets for them,
    each `NAME=VARIABLE`: the values may be secrets and are read at every start. `permissions_hold`
    says of each agent what its permissions really keep it from. `lanes`: stories at once;
    `optimistic` ones may share files that nobody predicts; `slots`, `lane_setup`, `check_slots` are
    of their checkouts, `regenerate` are `GLOB=CMD`. `origins`: where commands were
    written. `notify`: who is told, without secrets. `only` these stories are run, `with_deps`
    with those that they need.
    """

    change_id: str
    run_id: str
    task: str
    plain: bool
    done: Done
    source: str
    agent: str
    limits: Limits
    model: str = ""
    agent_cmd: str = ""
    script: str = ""
    verify: tuple[str, ...] = ()
    story_verify: tuple[str, ...] = ()
    verify_found: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    check_files: tuple[str, ...] = ()
    protect_checks: bool = True
    evidence: bool = False
    clean_room: bool = False
    allow_empty_story: tuple[str, ...] = ()
    verify_start: bool = False
    baseline: bool = False
    checkpoint: str = "branch"
    on_complete: str = "keep"
    usage_cmd: str = ""
    prompt_template: str = ""
    configured_max: int = 0
    permissions: Permissions = Permissions.FULL
    fallback: str = ""
    resume_session: bool = False
    sandbox: str = "off"
    sandbox_network: bool = True
    sandbox_writable: tuple[str, ...] = ()
    contained: bool = False
    granularity: str = "group"
    source_file: str = ""
    archive: bool = False
    on_fail: str = "stop"
    ladder: tuple[str, ...] = ()
    budgets: tuple[Budget, ...] = ()
    trouble_budgets: tuple[Budget, ...] = ()
    on_stuck: str = "retry"
    learnings: str = ""
    terms: tuple[Terms, ...] | None = None
    agent_args: tuple[str, ...] = ()
    agent_env: tuple[str, ...] = ()
    permissions_hold: tuple[str, ...] = ()
    lanes: int = 1
    only: tuple[str, ...] = ()
    with_deps: bool = False
    optimistic: bool = False
    runner_settings: tuple[RunnerSetting, ...] = ()
    protect_tests: bool = False
    slots: str = "clone"
    lane_setup: str = ""
    check_slots: int = 0
    origins: dict[str, str] = field(default_factory=dict)
    commit_message: str = COMMIT_MESSAGE
    regenerate: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()

    @property
    def stand_in(self) -> tuple[str, str]:
        """The agent and the model of `fallback`; both empty if there is none."""
        agent, _, model = self.fallback.partition(":")
        return agent, model

    @property
    def in_tracker(self) -> bool:
        """Whether the stories are kept by another program and not in files."""
        return self.source in TRACKERS

    @property
    def rungs(self) -> tuple[tuple[str, str], ...]:
        """Agent and model of every rung; without a ladder there is one."""
        return tuple(map(self._rung, self.ladder)) or ((self.agent, self.model),)

    @property
    def checks_count(self) -> bool:
        """Whether COMPLETE means something: a plain loop asks for it only with `promise`."""
        return not self.plain or self.done is Done.PROMISE

    @property
    def person_ends(self) -> bool:
        """Whether nothing that the agent says ends it."""
        return self.plain and self.done is Done.MANUAL

    @property
    def protected(self) -> tuple[str, ...]:
        """What no attempt may change."""
        settings = as_protected(self.runner_settings, tests=self.protect_tests)
        return (*self.protect, *self.check_files, *settings)

    @property
    def agents(self) -> tuple[str, ...]:
        """Every agent that may be called, once each."""
        return tuple(dict.fromkeys(agent for agent, _ in self.workers))

    @property
    def workers(self) -> tuple[tuple[str, str], ...]:
        """Every agent with its model that may be called, once each."""
        told = (t for t in self.terms or () if t.agent or t.model)
        named = [self.rungs_from(terms.agent, terms.model)[0] for terms in told]
        found = dict.fromkeys([*self.rungs, *named, self.stand_in])
        return tuple(worker for worker in found if worker[0])

    def rungs_of(self, key: StoryKey) -> tuple[tuple[str, str], ...]:
        """Those of one story: it begins with whom it names."""
        return self.rungs_from(*named_agent(key, self.terms))

    def rungs_from(self, agent: str, model: str) -> tuple[tuple[str, str], ...]:
        """On from the rung that a story names; another agent takes the place of the first one."""
        rungs = self.rungs
        wanted = agent or rungs[0][0], model
        for at, rung in enumerate(rungs):
            if rung == wanted or (rung[0] == wanted[0] and not model):
                return rungs[at:]
        return wanted, *rungs[1:]

    def budgets_of(self, key: StoryKey | None) -> tuple[Budget, ...]:
        """Those of the run, and a story's own: where both name one, the smaller counts."""
        mine = own(named_budget(key, self.terms)) if key else ()
        if not mine:
            return self.budgets
        shared = {budget.name: budget.limit for budget in self.budgets}
        less = (b for b in mine if b.limit < shared.get(b.name, math.inf))
        return merged(self.budgets, less)

    def with_budgets(self, more: Iterable[Budget]) -> "Plan":
        """The person has said more: it takes the place of what there is, in a story's text too."""
        given = tuple(more)
        if not given:
            return self
        names = {budget.name for budget in given}
        terms = self.terms and tuple(t.without_budgets(names) for t in self.terms)
        return replace(self, budgets=merged(self.budgets, given), terms=terms)

    def _rung(self, text: str) -> tuple[str, str]:
        agent, _, model = text.partition(":")
        return agent, model or (self.model if agent == self.agent else "")
