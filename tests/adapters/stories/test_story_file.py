"""The files of a plan as bytes."""

from pathlib import Path

from untildone.adapters.stories.story_file import PlanFiles


def test_only_ordinary_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "tasks.md").write_bytes(b"a\xff")
    (tmp_path / "folder").mkdir()
    found = PlanFiles(tmp_path).read(["tasks.md", "folder", "gone.md", "GitHub label x"])
    assert found == {"tasks.md": b"a\xff"}


def test_files_are_replaced_made_and_removed(tmp_path: Path) -> None:
    files = PlanFiles(tmp_path)
    (tmp_path / "real.md").write_bytes(b"a")
    (tmp_path / "real.md").chmod(0o600)
    (tmp_path / "link.md").symlink_to("real.md")
    files.write("link.md", b"b")
    assert ((tmp_path / "real.md").read_bytes(), (tmp_path / "link.md").is_symlink()) == (
        b"b",
        True,
    )
    assert (tmp_path / "real.md").stat().st_mode & 0o777 == 0o600
    files.write("new/task.md", b"c")
    assert (tmp_path / "new/task.md").read_bytes() == b"c"
    for _ in range(2):
        files.write("new/task.md", None)
        assert not (tmp_path / "new/task.md").exists()
