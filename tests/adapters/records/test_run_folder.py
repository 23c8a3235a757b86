"""A run's private folder."""

import os
from pathlib import Path

from tests.fakes.plans import NOW, PLAN
from untildone.adapters.records.journal import Journal
from untildone.adapters.records.run_folder import RunFolder, change_of, new_run_id, run_ids
from untildone.domain.run.fact import Started


def test_paths(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "r1")
    folder.make()
    folder.make()
    folder.keep_prompt(3, "Grüße\n")
    assert folder.log_file(3) == str(tmp_path / "runs/r1/logs/0003.log")
    assert (tmp_path / "runs/r1/logs/0003.prompt.md").read_text(encoding="utf-8") == "Grüße\n"
    assert Path(folder.scratch(3)).is_dir()
    assert folder.scratch(3) == folder.scratch(3) != folder.scratch(0)


def test_runs_newest_first(tmp_path: Path) -> None:
    first, second = new_run_id(tmp_path, NOW), new_run_id(tmp_path, NOW.replace(day=3))
    assert first.startswith("20260102-030405-")
    assert list(run_ids(tmp_path)) == []
    for run_id in (second, first):
        journal = Journal(RunFolder(tmp_path, run_id).journal)
        journal.record(Started(PLAN), (), NOW)
        journal.close()
    RunFolder(tmp_path, "no-journal").make()
    assert list(run_ids(tmp_path)) == [second, first]
    assert change_of(tmp_path, first) == "demo"


def test_a_broken_first_line_has_no_change(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "r1")
    folder.make()
    assert change_of(tmp_path, "r1") == ""
    for text in ("", "{", "[]", '{"data": {}}'):
        folder.journal.write_text(text)
        assert change_of(tmp_path, "r1") == ""


def test_a_new_run_sorts_last_in_the_same_second_and_by_a_slow_clock(tmp_path: Path) -> None:
    made = []
    for now in (NOW, NOW, NOW.replace(year=2020), NOW):
        made.append(new_run_id(tmp_path, now))
        journal = Journal(RunFolder(tmp_path, made[-1]).journal)
        journal.record(Started(PLAN), (), now)
        journal.close()
    assert list(run_ids(tmp_path)) == made[::-1]


def test_a_pipe_in_the_place_of_a_journal_is_no_run(tmp_path: Path) -> None:
    for name in ("20260101-000000-aaaa", "20990101-000000-bbbb"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / "20260101-000000-aaaa" / "journal.jsonl").touch()
    os.mkfifo(tmp_path / "runs" / "20990101-000000-bbbb" / "journal.jsonl")
    assert list(run_ids(tmp_path)) == ["20260101-000000-aaaa"]
