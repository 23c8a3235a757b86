"""What earlier releases have begun goes on: their histories fit the workflows of now."""

from __future__ import annotations

import asyncio
import json

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from tests.fleet.histories import FOLDER
from untildone.adapters.temporal.connection import CONVERTER
from untildone.adapters.temporal.workflows import WORKFLOWS

HISTORIES = sorted(FOLDER.glob("*.json"))


def replayed(text: str) -> None:
    told = json.loads(text)
    history = WorkflowHistory.from_json(told["id"], json.dumps(told["history"]))
    replayer = Replayer(workflows=WORKFLOWS, data_converter=CONVERTER)
    asyncio.run(replayer.replay_workflow(history))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_history_is_replayed(path: object) -> None:
    replayed(path.read_text())  # type: ignore[attr-defined]  # a path


def test_every_workflow_has_a_history() -> None:
    kinds = {
        name
        for path in HISTORIES
        for name in ("ChangeRun", "Account", "MergeTrain")
        if f'"{name}"' in path.read_text()
    }
    assert kinds == {"ChangeRun", "Account", "MergeTrain"}


def test_a_history_that_does_not_fit_would_be_noticed() -> None:
    (path,) = (path for path in HISTORIES if path.stem.endswith("-done"))
    with pytest.raises(Exception, match=r"(?i)nondeterminism"):
        replayed(path.read_text().replace('"run_story"', '"play_story"'))
