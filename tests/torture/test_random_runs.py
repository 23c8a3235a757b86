"""A few random runs, the same on every machine; `make torture` plays many new ones."""

import pytest

from tests.torture.random_lanes import explore_lanes
from tests.torture.random_runs import Case, explore_runs, played
from tests.torture.scene import Fault

pytestmark = pytest.mark.e2e


# In parts, so that all workers share them.
@pytest.mark.parametrize(
    "part", [*range(3), *(pytest.param(n, marks=pytest.mark.full) for n in range(3, 10))]
)
def test_nothing_is_lost_whatever_agent_and_faults_do(part: int) -> None:
    assert explore_runs(cases=5, seed_value=part) == (5, [])


@pytest.mark.parametrize("part", range(2))
def test_stories_in_lanes_come_to_what_some_order_of_them_would(part: int) -> None:
    assert explore_lanes(cases=5, seed_value=part) == (5, [])


FOUND = {
    "gc removes the blob of announced files": Case(1, 0, ("git gc -q --prune=now\n",), ()),
    "cleared stash and gc": Case(
        1, 1, ('git stash clear\ngit gc -q --prune=now\npromise="FAILED: x"\n',), ()
    ),
    "a broken index, then killed": Case(
        1, 0, ("echo broken > .git/index\n",), (Fault(40, "before"),)
    ),
    "git killed before the start": Case(1, 0, (), (Fault(1, "child", 0.5),)),
    "git killed while files are recorded": Case(1, 0, (), (Fault(27, "child", 0.5),)),
    "killed in a cleanup": Case(
        2, 0, (': > .gitignore\npromise="COMPLETE"\n', 'promise="crash"\n'), (Fault(140, "before"),)
    ),
    "ignored files, stashed and dropped by the agent": Case(
        1, 0, (": > .gitignore\ngit stash -q -u\ngit stash clear\n",), ()
    ),
    "twice killed at the start": Case(3, 1, (), (Fault(20, "during", 4.0), Fault(3, "half"))),
}


@pytest.mark.parametrize("case", FOUND.values(), ids=FOUND)
def test_what_random_runs_have_found(case: Case) -> None:
    wrong, said = played(case)
    assert wrong == [], said
