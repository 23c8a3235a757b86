"""What the window does with hostile text, lost records, many runs, small terminals and floods."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from textual.widgets import OptionList

from tests.interfaces.tui.flood import flood, lag
from tests.interfaces.tui.frames import play, settled, text_of
from tests.interfaces.tui.stage import CHANGE, SETTINGS, Stage, night
from untildone.commands.look.feed import recorded
from untildone.domain.errors import UserError
from untildone.interfaces.cli.look.full_screen import no_run
from untildone.interfaces.tui.lines import MOST_ENTRIES, Entry, fit, shortened, width_of, wrapped
from untildone.interfaces.tui.themes import DARK, LIGHT, chosen_theme
from untildone.interfaces.tui.window import Window

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

HOSTILE = (
    "[bold red]markup[/] and [@click=app.quit]a link[/]",
    "\x1b]0;owned\x07\x1b[31mred\x1b[0m and \x9b2J",
    "‮right to left‬ and a tab\tand a line\nbreak",
    "宽字符的标题在每一列里都占两个格子因此必须按格子来计算宽度",
    "x" * 5000,
)


async def press(app: Window, pilot: Pilot[None], *keys: str) -> str:
    for key in keys:
        await pilot.press(key)
        await settled(app, pilot)
    return text_of(app)


def test_nothing_from_outside_is_markup_or_an_order(tmp_path: Path) -> None:
    stage = night(tmp_path / "repo", HOSTILE)
    stage.says("[red]no markup[/red]", "\x1b[2J\x1b]0;owned\x07gone?", "a [link=x]y")
    stage.lives()

    async def act(app: Window, pilot: Pilot[None]) -> None:
        shown = await press(app, pilot, "1")
        assert "[red]no markup[/red]" in shown
        assert "gone?" in shown
        for keys in (("g", "enter"), ("d", "c", "p"), ("escape", "3"), ("4",), ("1", "s")):
            shown += await press(app, pilot, *keys)
        shown += await press(app, pilot, "escape", "colon", "escape", "question_mark", "escape")
        assert "[bold red]markup" in shown
        assert not set(shown) & set("\x1b\x07\x9b‮\t")
        rows = shown.splitlines()
        assert max(map(width_of, rows)) <= 80
        assert app.title.startswith("Ralph: add-login [")

    play(stage, act)


def test_a_palette_offers_what_works_now_with_its_command(tmp_path: Path) -> None:
    stage = night(tmp_path / "repo")
    stage.lives()

    async def act(app: Window, pilot: Pilot[None]) -> None:
        shown = await press(app, pilot, "colon")
        assert f"untildone skip {CHANGE} 4" in shown
        for letter in "stop":
            await pilot.press(letter)
        await pilot.pause(0.5)
        await press(app, pilot, "enter")
        assert f"Stop the run of {CHANGE}?" in text_of(app)

    play(stage, act)


def test_search_goes_from_match_to_match(tmp_path: Path) -> None:
    stage = night(tmp_path / "repo")
    stage.says(*(f"line {k} of many" for k in range(100)))
    stage.lives()

    async def act(app: Window, pilot: Pilot[None]) -> None:
        assert "line 99 of many" in await press(app, pilot, "enter")
        shown = await press(app, pilot, "slash", *"line", "space", "5", "enter")
        assert "line 5 of many" in shown
        assert "follows" not in shown
        assert "line 52 of many" in await press(app, pilot, "n", "n", "n")
        assert "line 5 of many" in await press(app, pilot, "g", "n")
        assert "line 99 of many" in await press(app, pilot, "f")
        assert "sessions.py" in await press(app, pilot, "slash", *"SESSIONS", "escape", "g")

    play(stage, act)


def test_the_mouse_does_what_keys_do(tmp_path: Path) -> None:
    stage = night(tmp_path / "repo")
    stage.lives()

    async def act(app: Window, pilot: Pilot[None]) -> None:
        await pilot.click("#stories-rows", offset=(20, 2))
        await settled(app, pilot)
        shown = text_of(app)
        assert "─ story 2, attempt 2 ─" in shown
        await pilot.click("#stories-rows", offset=(20, 2), times=2)
        await settled(app, pilot)
        assert "log  diff  checks  prompt" in text_of(app)
        await pilot.click("#tabs", offset=(38, 0))
        await settled(app, pilot)
        assert app.view == "evidence"

    play(stage, act)


@pytest.mark.parametrize("size", [(20, 6), (40, 10), (60, 16), (200, 60)])
def test_every_size_is_survived(tmp_path: Path, size: tuple[int, int]) -> None:
    stage = night(tmp_path / "repo")
    stage.lives()

    async def act(app: Window, pilot: Pilot[None]) -> None:
        shown = await press(app, pilot, "1", "2", "d", "3", "4", "x", "escape", "a", "escape")
        assert max(map(width_of, shown.splitlines())) <= size[0]

    play(stage, act, size)


def test_without_colours_signs_and_words_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stage = night(tmp_path / "repo")
    stage.lives()

    async def act(app: Window, pilot: Pilot[None]) -> None:
        shown = await press(app, pilot, "1")
        assert "▌▶ agent" in shown
        colors = {
            color.get_truecolor()
            for strip in app.screen._compositor.render_strips()
            for segment in strip.apply_filter(app._filters[-1], app.background_colors[0])
            if segment.style and (color := segment.style.color)
        }
        assert all(max(color) - min(color) < 3 for color in colors)

    play(stage, act)


def test_a_theme_is_known_or_said_to_be_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [DARK, LIGHT, "nord"]
    monkeypatch.delenv("COLORFGBG", raising=False)
    assert chosen_theme("", known) == DARK
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert [chosen_theme(name, known) for name in ("", "dark", "nord")] == [LIGHT, DARK, "nord"]
    with pytest.raises(UserError, match="no theme of this name: drak") as refused:
        chosen_theme("drak", known)
    assert refused.value.hint == "untildone ui --theme dark"


def test_a_record_that_vanishes_is_told(tmp_path: Path) -> None:
    stage = night(tmp_path / "repo")

    async def act(app: Window, pilot: Pilot[None]) -> None:
        assert "add-login" in text_of(app)
        shutil.rmtree(stage.source.folder.path)
        await press(app, pilot, "w", "escape", "1", "p")
        assert "add-login" in text_of(app)  # what is known stays

    play(stage, act)


def test_a_record_that_is_gone_before_the_first_look_is_told(tmp_path: Path) -> None:
    stage = night(tmp_path / "repo")
    shutil.rmtree(stage.source.folder.path)

    async def act(app: Window, pilot: Pilot[None]) -> None:
        for _ in range(100):
            await pilot.pause(0.05)
            if "removed" in text_of(app):
                break
        assert "The record of this run was removed" in text_of(app)

    play(stage, act)


def test_where_nothing_has_run_it_says_what_to_type(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "repo")
    stage.close()
    shutil.rmtree(stage.source.folder.path)
    rows = [text for text, _ in no_run(stage.repository)]
    assert "untildone demo" in "\n".join(rows)


def test_one_of_several_live_runs_is_chosen(tmp_path: Path) -> None:
    stage = night(tmp_path / "repo")
    other = tmp_path / "other"
    subprocess.run(["git", "worktree", "add", "-q", str(other)], cwd=stage.folder, check=True)
    runs = recorded([stage.repository])
    assert [run.run_id for run in runs] == [SETTINGS.run_id]
    choices = [*runs, replace(runs[0], run_id="20260101-000000-0000")]
    app = Window(stage.repository, None, choices, lambda: [Entry("nothing")], "dark")

    async def act() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause(0.3)
            assert "Which run?" in text_of(app)
            assert app.screen.query_one(OptionList).option_count == 2
            await pilot.press("1")
            await settled(app, pilot)
            assert "2 of 5 stories" in text_of(app)

    try:
        asyncio.run(act())
    finally:
        stage.close()


def test_an_older_run_is_not_steered(tmp_path: Path) -> None:
    stage = night(tmp_path / "repo")
    newer = replace(stage.source, run_id="20260103-000000-0000").folder.journal
    newer.parent.mkdir()
    shutil.copy(stage.source.folder.journal, newer)

    async def act(app: Window, pilot: Pilot[None]) -> None:
        said: list[str] = []
        app.say = lambda told: said.append(str(told))  # type: ignore[method-assign,assignment]
        await press(app, pilot, "r")
        for _ in range(100):
            await pilot.pause(0.05)
            if said:
                break
        assert "A newer run of add-login is there" in said[0]

    play(stage, act)


@pytest.mark.parametrize(
    "count", [400, pytest.param(10_000, marks=[pytest.mark.full, pytest.mark.timeout(300)])]
)
def test_a_flood_of_events_is_followed_in_flat_memory(tmp_path: Path, count: int) -> None:
    stage = night(tmp_path / "repo")
    stage.lives()

    async def act(app: Window, pilot: Pilot[None]) -> None:
        await press(app, pilot, "enter")
        written, writer = flood(stage, count, 200)
        tracemalloc.start()
        writer.start()
        behind = await lag(app, pilot, written, count)
        writer.join()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(app.pane._entries) <= MOST_ENTRIES
        assert peak < 40 << 20
        # Generous: the machine does other things as well. `python -m bench ui` has the bar.
        assert sorted(behind)[len(behind) // 2] < 2.0
        assert f"word {count - 1} of the flood" in text_of(app)

    play(stage, act)


def test_texts_are_cut_and_broken_between_words() -> None:
    assert fit("cut between words", 14) == "cut between…"
    assert fit("unbreakable", 5) == "unbr…"
    assert shortened("done, cleaned up (not running)", 20) == "done, cleaned up"
    assert list(wrapped("  two words here", 10)) == ["  two", "  words", "  here"]
    assert list(wrapped("宽字符", 4)) == ["宽字", "符"]
    assert list(wrapped("x" * 50, 20)) == ["x" * 20, "x" * 20, "x" * 10]
