"""A few random runs, the same on every machine; `make torture` plays many new ones."""

import pytest

from tests.torture.random_runs import explore

pytestmark = pytest.mark.e2e


# In parts, so that two workers share them.
@pytest.mark.parametrize("part", range(10))
def test_nothing_is_lost_whatever_agent_and_faults_do(part: int) -> None:
    assert explore(cases=5, seed_value=part) == 5
