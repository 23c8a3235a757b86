"""Reading a checklist from the worktree, and settling a story in it."""

import os
import re
import stat
from pathlib import Path

import pytest

from untildone.adapters.stories.checklists.checklist_source import ChecklistFile
from untildone.domain.errors import StoriesError, StoryLost

THREE = b"""\
## 1. Server
- [ ] 1.1 a
- [~] 1.2 b
## 2. Client
- [ ] 2.1 c
- [ ] plain
## 3. Docs
- [x] 3.1 d
- [ ] 3.2 e
"""


@pytest.fixture
def file(tmp_path: Path) -> ChecklistFile:
    (tmp_path / "tasks.md").write_bytes(THREE)
    return ChecklistFile(tmp_path, "tasks.md", "demo", "tasks-md")


def content(file: ChecklistFile) -> bytes:
    return (file.root / file.path).read_bytes()


def rewrite(file: ChecklistFile, old: bytes, new: bytes) -> None:
    data = content(file)
    assert old in data
    (file.root / file.path).write_bytes(data.replace(old, new))


def test_settling_ticks_the_open_boxes_of_the_story_only(file: ChecklistFile) -> None:
    before = file.load()
    said = file.settle(before.stories[0], before)
    assert content(file) == THREE.replace(b"[ ] 1.1", b"[x] 1.1").replace(b"[~]", b"[x]")
    assert said == ()
    assert file.load().stories[0].done


def test_settling_takes_back_what_was_ticked_in_other_stories(file: ChecklistFile) -> None:
    before = file.load()
    (file.root / file.path).write_bytes(THREE.replace(b"[ ]", b"[x]").replace(b"[~]", b"[x]"))
    said = file.settle(before.stories[0], before)
    assert content(file) == THREE.replace(b"[ ] 1.1", b"[x] 1.1").replace(b"[~]", b"[x]")
    assert said == (
        "Unticked in story 2, which is not finished but was ticked during story 1: 2.1, “plain”",
        "Unticked in story 3, which is not finished but was ticked during story 1: 3.2",
    )


def test_boxes_that_were_ticked_before_stay(file: ChecklistFile) -> None:
    before = file.load()
    file.settle(before.stories[0], before)
    middle = file.load()
    file.settle(middle.stories[1], middle)
    assert [story.done for story in file.load().stories] == [True, True, False]


def test_what_was_unticked_in_other_stories_is_ticked_again(file: ChecklistFile) -> None:
    before = file.load()
    rewrite(file, b"[x] 3.1", b"[ ] 3.1")
    said = file.settle(before.stories[1], before)
    assert said == ("Ticked again in story 3, where it was unticked during story 2: 3.1",)
    settled = THREE.replace(b"[ ] 2.1", b"[x] 2.1").replace(b"[ ] plain", b"[x] plain")
    assert content(file) == settled


def test_a_box_that_is_taken_back_gets_the_mark_it_had(file: ChecklistFile) -> None:
    before = file.load()
    rewrite(file, b"[~] 1.2", b"[x] 1.2")
    (said,) = file.settle(before.stories[2], before)
    assert said.startswith("Unticked in story 1")
    assert content(file) == THREE.replace(b"[ ] 3.2", b"[x] 3.2")


def test_settling_survives_edits_and_renumbered_lines(file: ChecklistFile) -> None:
    before = file.load()
    rewrite(file, b"## 1. Server\n", b"# Title\n\nprose\n\n## 1.   Server\n- [ ] 1.0 new\n")
    rewrite(file, b"- [ ] plain\n", b"- [ ] inserted\n- [x] plain\n")
    file.settle(before.stories[0], before)
    after = file.load()
    assert [[task.done for task in story.tasks] for story in after.stories] == [
        [True, True, True],
        [False, False, False],
        [True, False],
    ]


def test_a_reworded_task_is_found_by_its_number(file: ChecklistFile) -> None:
    before = file.load()
    rewrite(file, b"- [ ] 2.1 c", b"- [x] 2.1 other words")
    file.settle(before.stories[0], before)
    assert b"- [ ] 2.1 other words" in content(file)


def test_nothing_is_written_when_nothing_changes(file: ChecklistFile) -> None:
    (file.root / file.path).write_bytes(
        THREE.replace(b"[ ] 1.1", b"[x] 1.1").replace(b"[~]", b"[x]")
    )
    before = file.load()
    inode = (file.root / file.path).stat().st_ino
    assert file.settle(before.stories[0], before) == ()
    assert (file.root / file.path).stat().st_ino == inode


def test_a_story_that_is_gone_is_an_error_and_nothing_is_written(file: ChecklistFile) -> None:
    before = file.load()
    rewrite(file, b"## 1. Server\n", b"## 1. Something else\n- [ ] 1.9 z\n## 3. Server\n")
    rewrite(file, b"[ ] 2.1", b"[x] 2.1")
    changed = content(file)
    with pytest.raises(StoriesError, match=r"Story 1 can no longer be found.*: tasks\.md"):
        file.settle(before.stories[0], before)
    assert content(file) == changed


CLIENT = b"## 2. Client\n- [ ] 2.1 c\n- [ ] plain\n"


@pytest.mark.parametrize(
    ("new", "named"),
    [
        (b"", "story 2: 2.1, “plain”"),
        (b"## 2. Client\n- [ ] plain\n", "story 2: 2.1"),
        (b"## 2. Client\n- 2.1 c\n- [ ] plain\n", "story 2: 2.1"),
        (b"## 2. Client\n- [x] 2.9 z\n- [ ] plain\n", "story 2: 2.1"),
        (b"## 2. Client\n- [ ] 2.1 c\n<!-- - [ ] plain -->\n", "story 2: “plain”"),
        (b"## 2. Another title\n- [x] 2.1 c\n- [x] plain\n", "story 2: 2.1, “plain”"),
        (b"- [ ] 2.1 c\n## 2. Client\n- [ ] plain\n", "story 2: 2.1"),  # into story 1
    ],
)
def test_open_work_of_another_story_that_is_gone_is_an_error(
    file: ChecklistFile, new: bytes, named: str
) -> None:
    before = file.load()
    rewrite(file, CLIENT, new)
    changed = content(file)
    with pytest.raises(StoryLost, match=r"gone from tasks\.md.*\(" + re.escape(named) + r"\)"):
        file.settle(before.stories[0], before)
    assert content(file) == changed


@pytest.mark.parametrize(
    "new",
    [
        b"## 2. Client\n- [ ] plain\n- [ ] 2.1 c\n",
        b"## 2. Client\n- [ ] 2.1 quite another text\n- [ ] plain, but more of it\n",
        b"## 2. Another title\n- [ ] 2.1 c\n- [ ] plain\n",
        b"## 7. Client\n- [ ] 7.1 c\n- [ ] plain\n",
        b"## 2. Client\n- [ ] 2.1 c\n## 4. New\n- [ ] plain\n",
    ],
)
def test_open_work_of_another_story_may_move_and_be_put_in_other_words(
    file: ChecklistFile, new: bytes
) -> None:
    before = file.load()
    rewrite(file, CLIENT, new)
    file.settle(before.stories[0], before)
    assert new in content(file)


def test_many_names_are_cut(file: ChecklistFile) -> None:
    rows = b"".join(b"- [ ] 2.%d b\n" % number for number in range(30))
    (file.root / file.path).write_bytes(b"## 1. A\n- [ ] 1.0 a\n## 2. B\n" + rows)
    before = file.load()
    rewrite(file, b"[ ]", b"[x]")
    assert file.settle(before.stories[0], before) == (
        "Unticked in story 2, which is not finished but was ticked during story 1: "
        "2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2.9 and 20 more",
    )


def test_mode_and_odd_bytes_are_kept(file: ChecklistFile) -> None:
    path = file.root / file.path
    path.write_bytes(b"\xef\xbb\xbf## 1. A\r\n- [ ] \xff\xc3\r\n\x0b\n- [] b")
    path.chmod(0o640)
    before = file.load()
    file.settle(before.stories[0], before)
    assert content(file) == b"\xef\xbb\xbf## 1. A\r\n- [x] \xff\xc3\r\n\x0b\n- [x] b"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(file.root) == ["tasks.md"]


def test_a_symbolic_link_stays_one(file: ChecklistFile) -> None:
    path = file.root / file.path
    (file.root / "real").mkdir()
    path.rename(file.root / "real/list.md")
    path.symlink_to("real/list.md")
    before = file.load()
    file.settle(before.stories[0], before)
    assert path.is_symlink()
    assert os.listdir(file.root / "real") == ["list.md"]
    assert file.load().stories[0].done


def refusal(file: ChecklistFile) -> StoriesError:
    with pytest.raises(StoriesError) as caught:
        file.load()
    assert caught.value.message.endswith(": tasks.md")
    assert str(file.root) not in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_missing_file(file: ChecklistFile) -> None:
    (file.root / file.path).unlink()
    error = refusal(file)
    assert "does not exist" in error.message
    assert "`untildone run demo`" in error.hint


def test_a_directory(file: ChecklistFile) -> None:
    (file.root / file.path).unlink()
    (file.root / file.path).mkdir()
    assert "a directory" in refusal(file).message


def test_a_pipe_does_not_block(file: ChecklistFile) -> None:
    (file.root / file.path).unlink()
    os.mkfifo(file.root / file.path)
    assert "not an ordinary file" in refusal(file).message


def test_a_dangling_link(file: ChecklistFile) -> None:
    (file.root / file.path).unlink()
    (file.root / file.path).symlink_to("nowhere.md")
    assert "does not exist (nowhere.md)" in refusal(file).message


def test_a_link_to_itself(file: ChecklistFile) -> None:
    (file.root / file.path).unlink()
    (file.root / file.path).symlink_to("tasks.md")
    assert "symbolic links" in refusal(file).message


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may read everything")
def test_no_permission_to_read(file: ChecklistFile) -> None:
    (file.root / file.path).chmod(0)
    assert "Permission is missing" in refusal(file).message


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everywhere")
def test_no_permission_to_write(file: ChecklistFile) -> None:
    before = file.load()
    file.root.chmod(0o500)
    try:
        with pytest.raises(StoriesError, match="could not be ticked"):
            file.settle(before.stories[0], before)
    finally:
        file.root.chmod(0o700)
    assert content(file) == THREE


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16(file: ChecklistFile, encoding: str) -> None:
    (file.root / file.path).write_bytes("- [ ] a\n".encode(encoding))
    error = refusal(file)
    assert "UTF-16" in error.message
    assert "Line 1" in error.message


def test_a_file_without_tasks_is_loaded_with_its_problem(file: ChecklistFile) -> None:
    (file.root / file.path).write_bytes(b"")
    book = file.load()
    assert (book.total, len(book.problems)) == (0, 1)
